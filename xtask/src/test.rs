//! `cargo xtask test`: runs all tests; `--long`: with more random cases and all trained models.
use crate::process::{Result, cargo, cargo_with};
use crate::progress::Steps;
use crate::{models, onnx_backend, random_models};

pub(crate) fn run(long: bool) -> Result<()> {
    let mut steps = Steps::new("test", 7);
    steps.next("format");
    cargo(&["fmt", "--all", "--check"])?;
    steps.next("lints");
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    steps.next("documentation");
    cargo_with(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    steps.next("reference models and trained models");
    models::make()?;
    models::fetch(false)?;
    if long {
        models::fetch(true)?;
    }
    // Build the libraries and the binary first, because end-to-end tests run the real ones.
    steps.next("build all");
    cargo(&["build", "--workspace", "--all-targets"])?;
    steps.next("ONNX backend tests and random models, beside onnxruntime");
    let suite = onnx_backend::suite(None);
    let random = random_models::compare(None);
    steps.next("tests of the workspace");
    let vars: &[(&str, &str)] = if long { &[("GE_LONG", "1")] } else { &[] };
    cargo_with(&["test", "--workspace", "--no-fail-fast"], vars)?;
    steps.end();
    suite.and(random)
}
