//! Runs the real `ge` binary and locates the reference models.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder of build results, such as `target/debug`: the running test is in its `deps/` folder.
pub fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.parent().and_then(Path::parent).map_or_else(|| root().join("target/debug"), Path::to_path_buf)
}

/// The folder of the reference models, made by `cargo xtask models`.
///
/// # Panics
/// Panics if the models were not made: a test without its reference must not pass.
pub fn models() -> PathBuf {
    made("models", "tolerances.txt", "models")
}

/// The folder of the trained models, fetched by `cargo xtask fetch-models`.
///
/// # Panics
/// Panics if the models were not fetched.
pub fn trained() -> PathBuf {
    made("trained", "models.txt", "fetch-models")
}

/// The folder of all known trained models, fetched by `cargo xtask fetch-models --all`.
///
/// # Panics
/// Panics if the models were not fetched.
pub fn trained_all() -> PathBuf {
    made("trained_all", "models.txt", "fetch-models --all")
}

fn made(folder: &str, file: &str, task: &str) -> PathBuf {
    let dir = target().parent().map_or_else(|| root().join("target"), Path::to_path_buf).join(folder);
    assert!(dir.join(file).is_file(), "no models in {}: run `cargo xtask {task}`", dir.display());
    dir
}

/// Runs the `ge` binary in `dir`, with this repository's plugins and without `GE_OPTIONS`.
pub fn ge(dir: &Path, args: &[&str]) -> Output {
    Command::new(target().join("ge"))
        .args(args)
        .current_dir(dir)
        .env("GE_PLUGINS", root().join("plugins.toml"))
        .env_remove("GE_OPTIONS")
        .output()
        .unwrap_or_else(|e| panic!("cannot start ge: {e}"))
}

/// Runs `ge`, checks its exit code and returns its output.
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
