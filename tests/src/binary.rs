//! The real binary and the reference models.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder of build results: `deps/` of the running test's folder is in it.
pub fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.parent().and_then(Path::parent).map_or_else(|| root().join("target/debug"), Path::to_path_buf)
}

/// The reference models, made by `cargo xtask models`.
///
/// # Panics
/// If they were not made: a test without its reference must not pass.
pub fn models() -> PathBuf {
    made("models", "tolerances.txt", "models")
}

/// The trained models, fetched by `cargo xtask fetch-models`.
///
/// # Panics
/// If they were not fetched.
pub fn trained() -> PathBuf {
    made("trained", "models.txt", "fetch-models")
}

/// All trained models that are known, fetched by `cargo xtask fetch-models --all`.
///
/// # Panics
/// If they were not fetched.
pub fn trained_all() -> PathBuf {
    made("trained_all", "models.txt", "fetch-models --all")
}

fn made(folder: &str, file: &str, task: &str) -> PathBuf {
    let dir = target().parent().map_or_else(|| root().join("target"), Path::to_path_buf).join(folder);
    assert!(dir.join(file).is_file(), "no models in {}: run `cargo xtask {task}`", dir.display());
    dir
}

/// The `ge` binary in a folder, with this repository's plugins.
pub fn ge(dir: &Path, args: &[&str]) -> Output {
    Command::new(target().join("ge"))
        .args(args)
        .current_dir(dir)
        .env("GE_PLUGINS", root().join("plugins.toml"))
        .env_remove("GE_OPTIONS")
        .output()
        .unwrap_or_else(|e| panic!("cannot start ge: {e}"))
}

/// Runs `ge` and checks its exit code; the output.
pub fn expect_code(dir: &Path, code: i32, args: &[&str]) -> Output {
    let out = ge(dir, args);
    assert_eq!(
        out.status.code(),
        Some(code),
        "ge {}\nstdout: {}\nstderr: {}",
        args.join(" "),
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    out
}
