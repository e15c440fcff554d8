//! A crate under `forbid(unsafe_code)` cannot break memory: kernels that ask for everything that
//! they must not have run under AddressSanitizer, whose runtime is part of the stable toolchain.
use ge_tests::{root, target};
use std::path::Path;
use std::process::{Command, Output};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs cargo with the sanitizer. `RUSTC_BOOTSTRAP` makes the stable compiler accept this nightly
/// flag; build scripts and macros are built without it, since `--target` is given.
fn cargo(folder: &Path, args: &[&str]) -> Output {
    let to = target().join("../sanitized");
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(args)
        .args(["--target", TARGET, "--offline", "--target-dir"])
        .arg(&to)
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap()
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

#[test]
fn kernels_without_unsafe_cannot_break_memory() {
    let crate_ = root().join("tests/fixtures/sanitized");
    let source = std::fs::read_to_string(crate_.join("src/lib.rs")).unwrap();
    assert!(source.contains("#![forbid(unsafe_code)]"));
    let built = cargo(&crate_, &["build", "--quiet"]);
    assert!(built.status.success(), "{}", text(&built));
    let program = target().join("../sanitized").join(TARGET).join("debug/sanitized");
    // One byte too far must be detected, or everything below shows nothing.
    let run = |args: &[&str]| {
        let mut program = Command::new(&program);
        program.args(args).env("ASAN_OPTIONS", "detect_leaks=0").env_remove("RUST_BACKTRACE").output().unwrap()
    };
    let control = run(&["--control"]);
    let said = text(&control);
    assert!(!control.status.success() && said.contains("AddressSanitizer: heap-buffer-overflow"), "{said}");
    let out = run(&[]);
    let said = text(&out);
    assert!(out.status.success() && !said.contains("AddressSanitizer"), "{said}");
    let lines = |kind: &str| said.lines().filter(|l| l.starts_with(kind)).collect::<Vec<_>>();
    let (right, wrong) = (lines("right "), lines("wrong "));
    assert!(right.len() == 4 && right.iter().all(|l| l.contains(": ran: ")), "{said}");
    assert!(wrong.len() >= 29 && wrong.iter().all(|l| l.contains(": refused when it ")), "{said}");
}

/// What the interface itself does with pointers, checked by its unit tests.
#[test]
fn the_interface_passes_its_tests_under_the_sanitizer() {
    if !ge_tests::long() {
        return;
    }
    let out = cargo(&root(), &["test", "-p", "ge-plugin-api", "--lib", "--profile", "dev"]);
    let said = text(&out);
    assert!(out.status.success() && said.contains("test result: ok.") && !said.contains("AddressSanitizer"), "{said}");
}
