//! `cargo xtask random-models [A:B]`: compares random ONNX models run through the real binary with
//! onnxruntime, using `tests/reference/random_models.py`.
use crate::models::python;
use crate::process::{Result, cargo, root, run, target};

/// Ranges of seeds: for the normal test run, and with `GE_LONG`.
const SEEDS: [&str; 2] = ["0:40", "0:1000"];

/// Builds, and compares models for these seeds.
pub(crate) fn measure(seeds: Option<&str>) -> Result<()> {
    cargo(&["build", "--workspace"])?;
    compare(seeds)
}

/// Like [`measure`], without building.
pub(crate) fn compare(seeds: Option<&str>) -> Result<()> {
    let reference = root().join("tests/reference");
    let long = usize::from(std::env::var_os("GE_LONG").is_some());
    let script = reference.join("random_models.py").display().to_string();
    let ge = target().join("debug/ge").display().to_string();
    run(python(&reference)?, &[&script, &ge, "--seeds", seeds.unwrap_or(SEEDS[long])])
}
