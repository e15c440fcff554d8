//! Running other programs: what runs is said before, a failure names it.
use std::path::{Path, PathBuf};
use std::process::Command;

/// Result of a task.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder of build results.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a program in the repository's root.
pub(crate) fn run(program: impl AsRef<Path>, args: &[&str]) -> Result<()> {
    run_with(program, args, &[])
}

/// Runs a program with variables set.
pub(crate) fn run_with(program: impl AsRef<Path>, args: &[&str], vars: &[(&str, &str)]) -> Result<()> {
    let program = program.as_ref();
    eprintln!("+ {} {}", program.display(), args.join(" "));
    let status = Command::new(program)
        .args(args)
        .envs(vars.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    if status.success() { Ok(()) } else { Err(format!("`{} {}` failed ({status})", program.display(), args.join(" "))) }
}

/// Cargo, as it runs this task.
pub(crate) fn cargo(args: &[&str]) -> Result<()> {
    run(std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from), args)
}
