//! The crate `ge-plugin-api` as it is published: what it packs, and that it stands alone.
use ge_tests::{root, target};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn cargo(folder: &Path, args: &[&str]) -> String {
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(args)
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .env("RUSTFLAGS", "")
        .envs([("CARGO_PROFILE_DEV_OPT_LEVEL", "2"), ("CARGO_PROFILE_DEV_DEBUG", "false")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "cargo {} in {}: {said}", args.join(" "), folder.display());
    String::from_utf8(out.stdout).unwrap()
}

const PACKAGE: [&str; 5] = ["package", "--package", "ge-plugin-api", "--offline", "--allow-dirty"];

/// Everything that a registry asks for is there, nothing of the workspace is needed, and only the
/// crate's own files are packed.
#[test]
fn the_interface_can_be_published() {
    let list = cargo(&root(), &[&PACKAGE[..], &["--list", "--quiet"]].concat());
    for line in list.lines() {
        let made = ["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"].contains(&line);
        let own = ["README.md", "LICENSE"].contains(&line) || (line.starts_with("src/") && line.ends_with(".rs"));
        assert!(made || own, "{line} is packed");
    }
    assert!(["README.md", "LICENSE", "src/lib.rs"].iter().all(|f| list.lines().any(|l| l == *f)), "{list}");
    let all = cargo(&root(), &["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    let api = all["packages"].as_array().unwrap().iter().find(|p| p["name"] == "ge-plugin-api").unwrap();
    assert!(api["publish"].is_null(), "it may go to any registry: {}", api["publish"]);
    for field in ["license", "description", "readme", "rust_version"] {
        assert!(api[field].as_str().is_some_and(|v| !v.is_empty()), "{field}");
    }
    for d in api["dependencies"].as_array().unwrap() {
        assert!(d["path"].is_null() && !d["source"].is_null(), "{} is no package of a registry", d["name"]);
    }
    // The readme names the version that is published.
    let version = api["version"].as_str().unwrap();
    let (minor, _) = version.rsplit_once('.').unwrap();
    let page = std::fs::read_to_string(root().join("plugin-api/README.md")).unwrap();
    assert!(page.contains(&format!("ge-plugin-api = \"{minor}\"")), "the readme does not name {minor}");
}

/// What is packed builds and passes its tests when it is unpacked outside the workspace; the plugin
/// of its readme builds on it and passes the conformance suite.
#[test]
fn what_is_published_builds_and_passes_its_tests_alone() {
    if !std::env::var("GE_LONG").is_ok_and(|v| v == "1") {
        return;
    }
    let build = target().join("../vendor/good").display().to_string();
    let made = tempfile::tempdir().unwrap();
    let to = made.path().join("packed").display().to_string();
    cargo(&root(), &[&PACKAGE[..], &["--quiet", "--target-dir", &to]].concat());
    let archive = std::fs::read_dir(made.path().join("packed/package"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().is_some_and(|e| e == "crate"))
        .unwrap();
    let unpacked = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(made.path()).output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    let api = made.path().join(archive.file_stem().unwrap());
    let said = cargo(&api, &["test", "--offline", "--target-dir", &build]);
    assert!(said.matches("test result: ok.").count() >= 2, "unit tests and examples: {said}");
    let page = std::fs::read_to_string(api.join("README.md")).unwrap();
    let part = |language: &str| {
        let all = page.split(&format!("```{language}\n")).nth(1).unwrap();
        all.split("```").next().unwrap().to_owned()
    };
    let krate = made.path().join("acme");
    std::fs::create_dir_all(krate.join("src")).unwrap();
    let manifest = part("toml");
    let (lib, _) = manifest.split_once("[dependencies]").unwrap();
    let manifest = format!(
        "[package]\nname = \"acme\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{lib}[dependencies]\nge-plugin-api = {{ path = {api:?} }}\n\n[workspace]\n"
    );
    std::fs::write(krate.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(krate.join("src/lib.rs"), part("rust")).unwrap();
    std::fs::copy(root().join("examples/vendor/Cargo.lock"), krate.join("Cargo.lock")).unwrap();
    cargo(&krate, &["build", "--offline", "--quiet", "--target-dir", &build]);
    let library = Path::new(&build).join("debug/libge_acme_light.so");
    let out = Command::new(target().join("ge")).args(["plugin", "check"]).arg(&library).output().unwrap();
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}
