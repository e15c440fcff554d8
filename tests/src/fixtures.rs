//! Fixture plugins and hosts: a workspace that is written into the target folder from the sources in `tests/bad_plugins` and
//! `tests/fixtures`, and built once with one target folder. Changed sources build again, unchanged ones are up to date.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// The folder of the running test's build (`target/debug`).
pub fn profile_folder() -> PathBuf {
    let mut p = std::env::current_exe().unwrap_or_default();
    p.pop();
    if p.ends_with("deps") {
        p.pop();
    }
    p
}

/// Folder of the fixture workspace.
fn work() -> PathBuf {
    profile_folder().join("../fixtures")
}

fn write(path: &Path, text: &str) {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("the target folder can be written");
    std::fs::write(path, text).expect("the target folder can be written");
}

/// Writes a crate of the workspace.
fn package(name: &str, version: &str, source: &Path, kind: &str, dependencies: &str) {
    let text = format!(
        "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\npublish = false\n\n{kind}path = \"{}\"\n\n[dependencies]\n{dependencies}",
        source.display()
    );
    write(&work().join(name).join("Cargo.toml"), &text);
}

fn build(members: &[&str], first: &str) -> PathBuf {
    let work = work();
    let list: Vec<String> = members.iter().map(|m| format!("\"{m}\"")).collect();
    write(
        &work.join("Cargo.toml"),
        &format!(
            "[workspace]\nresolver = \"3\"\nmembers = [{}]\nexclude = [\"src\"]\n[profile.dev]\ndebug = false\n",
            list.join(", ")
        ),
    );
    // The versions that the repository is built with.
    if !work.join("Cargo.lock").exists() {
        std::fs::copy(root().join("Cargo.lock"), work.join("Cargo.lock")).expect("Cargo.lock is readable");
    }
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", first, "--manifest-path"])
        .arg(work.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(work.join("target"))
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .expect("cargo can be started");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    work.join("target/debug")
}

/// The plugin of `tests/bad_plugins`, a library of the current interface.
pub fn bad_plugin() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| all("ge-bad").join("libge_bad.so"))
}

/// Writes the whole workspace, builds one package of it and gives the folder of what was built.
fn all(first: &str) -> PathBuf {
    let root = root();
    package(
        "ge-bad",
        "0.1.0",
        &root.join("tests/bad_plugins/lib.rs"),
        "[lib]\ncrate-type = [\"cdylib\"]\n",
        &format!("ge-plugin-api = {{ path = \"{}\" }}\n", root.join("plugin-api").display()),
    );
    build(&["ge-bad"], first)
}
