//! `cargo xtask test`: the whole gate.
use crate::process::{Result, cargo, run_with};
use crate::{models, onnx_backend, random_models};
use std::path::PathBuf;

pub(crate) fn run() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    let program = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    run_with(program, &["doc", "--workspace", "--no-deps", "--quiet"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    models::make()?;
    models::fetch()?;
    // The libraries and the binary first: end-to-end tests run the real ones.
    cargo(&["build", "--workspace"])?;
    let suite = onnx_backend::suite(None);
    let random = random_models::compare(None);
    cargo(&["test", "--workspace", "--no-fail-fast"])?;
    suite.and(random)
}
