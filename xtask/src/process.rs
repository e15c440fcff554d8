//! Runs other programs: each command is printed before it runs, and a failure names it.
use crate::progress::{Bar, say};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Runs a program with environment variables set.
pub(crate) fn run_with(program: impl AsRef<Path>, args: &[&str], vars: &[(&str, &str)]) -> Result<()> {
    let program = program.as_ref();
    say(&format!("{} {}", program.display(), args.join(" ")));
    let status = Command::new(program)
        .args(args)
        .envs(vars.iter().copied())
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    if status.success() { Ok(()) } else { Err(format!("`{} {}` failed ({status})", program.display(), args.join(" "))) }
}

/// Runs a program without printing its command; its stderr becomes part of the error.
pub(crate) fn run_quietly(program: &str, args: &[&str]) -> Result<()> {
    let out = Command::new(program).args(args).output().map_err(|e| format!("cannot start {program}: {e}"))?;
    let said = || String::from_utf8_lossy(&out.stderr).trim().to_owned();
    if out.status.success() { Ok(()) } else { Err(format!("`{program} {}` failed: {}", args.join(" "), said())) }
}

/// Runs the cargo that runs this task, and shows its progress.
pub(crate) fn cargo(args: &[&str]) -> Result<()> {
    cargo_with(args, &[])
}

/// Runs cargo with environment variables set.
pub(crate) fn cargo_with(args: &[&str], vars: &[(&str, &str)]) -> Result<()> {
    let program = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    if std::io::stderr().is_terminal() {
        return run_with(program, args, vars);
    }
    say(&format!("cargo {}", args.join(" ")));
    let mut child = Command::new(&program)
        .args(args)
        .envs([("CARGO_TERM_PROGRESS_WHEN", "always"), ("CARGO_TERM_PROGRESS_WIDTH", "160")])
        .envs(vars.iter().copied())
        .current_dir(root())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    if let Some(stderr) = child.stderr.take() {
        Bar::new().follow(stderr);
    }
    let status = child.wait().map_err(|e| format!("cannot wait for {}: {e}", program.display()))?;
    if status.success() { Ok(()) } else { Err(format!("`cargo {}` failed ({status})", args.join(" "))) }
}
