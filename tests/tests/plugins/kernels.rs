//! Kernels that misbehave: when they are loaded, they are checked against the host's own plan; when
//! they run, every error names plugin, engine, kernel, node and task. What plugins print stays out
//! of the command's documents.
use super::behaviour::refusing;
use std::process::{Command, Output, Stdio};

fn ge(d: &std::path::Path, args: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(ge_tests::target().join("ge"))
        .current_dir(d)
        .args(args)
        .args(["--plugins", "plugins.toml"])
        .env_remove("RUST_BACKTRACE")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const MODEL: &str = "graph @main(%x: f32[4]) {\n  %y = BadOp(%x) : f32[4]\n  return %y\n}\n";

/// Compiles `y = BadOp(x)` for the simulator, which is not the first device here; the OM's SoC
/// finds it.
fn compile(d: &std::path::Path) {
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    let out = ge(d, &["compile", "m.ge", "-o", "m.om", "-q", "--soc", "sim"], &[]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

/// Compiles and runs; returns the exit code and stderr.
fn run(mode: &str, more: &[&str]) -> (Option<i32>, String) {
    let dir = refusing(mode);
    let d = dir.path();
    compile(d);
    let out = ge(d, &[&["run", "m.om", "--random", "1"], more].concat(), &[]);
    (out.status.code(), text(&out.stderr))
}

const KERNEL: &str = "kernel `bad_copy` of engine BadEngine for `y` (BadOp), task 0 (KERNEL)";

#[test]
fn a_kernel_that_ends_the_process_is_named() {
    for (mode, how) in [
        ("segv_kernel", "SIGSEGV"),
        ("abort_kernel", "SIGABRT"),
        ("overflow_kernel", "SIGSEGV"),
        ("exit_kernel", "exit"),
    ] {
        let (code, said) = run(mode, &[]);
        assert_eq!(code, Some(5), "{mode}: {said}");
        let words = format!("error[GE-E0518]: plugin `bad` took the process down ({how}) in {KERNEL}");
        assert!(said.contains(&words) && said.contains("help: "), "{mode}: {said}");
    }
    // `exit(0)` in a kernel does not pass for a successful run.
    assert_eq!(run("exit_kernel", &["--outputs", "out"]).0, Some(5));
}

#[test]
fn a_kernel_that_panics_or_fails_is_named() {
    for (mode, did, words) in [
        ("panic_kernel", "panicked", "no number today"),
        ("error_kernel", "failed", "the sums do not add up"),
        ("output_twice", "failed", "of argument 1, of which it has some already"),
        ("scratch_beyond", "panicked", "it declared 64 bytes"),
    ] {
        let (code, said) = run(mode, &[]);
        assert_eq!(code, Some(5), "{mode}: {said}");
        let blame = format!("error[GE-E0518]: plugin `bad` 0.1.0 {did} in {KERNEL}: ");
        assert!(said.contains(&blame) && said.contains(words), "{mode}: {said}");
    }
}

/// What a kernel takes its arguments to be is checked against the plan, so that safe code reaches
/// nothing beyond it.
#[test]
fn a_kernel_that_claims_more_memory_than_its_task_has_is_refused_when_it_is_loaded() {
    for (mode, words) in [
        ("long_output", "takes argument 1 to have 1048576 bytes, the plan has "),
        ("long_input", "takes argument 0 to have 1048576 bytes, the plan has "),
        ("few_arguments", "the kernel has 1 arguments, its task 2"),
        ("exchanged", "a kernel of `block_kernel` was changed behind it"),
    ] {
        let (code, said) = run(mode, &[]);
        assert_eq!(code, Some(5), "{mode}: {said}");
        for w in ["plugin `bad` 0.1.0 failed in BadEngine.load_task: ", words, "`y`"] {
            assert!(said.contains(w), "{mode}: no `{w}` in {said}");
        }
    }
}

#[test]
fn what_plugins_print_goes_to_stderr_and_what_they_log_has_their_name() {
    let dir = refusing("prints");
    let d = dir.path();
    compile(d);
    let out = ge(d, &["run", "m.om", "--random", "1", "--json"], &[]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap();
    assert!(text(&out.stderr).contains("a kernel says hello"), "{}", text(&out.stderr));
    let dir = refusing("logs");
    let d = dir.path();
    compile(d);
    let said = |args: &[&str]| text(&ge(d, args, &[]).stderr);
    let line = "info: plugin `bad`: it looks fine";
    assert!(said(&["compile", "m.ge", "-o", "m.om", "-v"]).lines().any(|l| l == line));
    assert!(!said(&["compile", "m.ge", "-o", "m.om"]).contains("it looks fine"));
}

#[test]
fn panics_of_a_plugins_own_threads_and_backtraces_are_told() {
    let dir = refusing("thread_panics");
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    let said = text(&ge(d, &["compile", "m.ge", "-o", "m.om"], &[]).stderr);
    assert!(said.contains("warning: plugin `bad`: a thread of its own panicked: nobody heard me at "), "{said}");
    let dir = refusing("panic_supports");
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    let args = ["compile", "m.ge", "-o", "m.om"];
    let plain = text(&ge(d, &args, &[]).stderr);
    assert!(plain.contains("no node is good enough") && !plain.contains("panic in plugin"), "{plain}");
    let traced = text(&ge(d, &args, &[("RUST_BACKTRACE", "1")]).stderr);
    assert!(traced.contains("panic in plugin `bad`: no node is good enough at ") && traced.contains("0: "), "{traced}");
}

/// Overlapping blocks, an output that is not fully written, and an access beyond an argument are
/// found and reported with the kernel.
#[test]
fn check_races_full_finds_what_blocks_do_wrong() {
    let full = ["--device-option", "check_races=full"];
    assert_eq!(run("good", &full).0, Some(0));
    for (mode, words) in [
        ("blocks_overlap", "blocks 0 and 1 of the kernel both write byte 0 of argument 1"),
        ("half_written", "no block of the kernel writes byte 8 of argument 1: 8 of 16 are left as they were"),
    ] {
        let (code, said) = run(mode, &full);
        assert_eq!(code, Some(5), "{mode}: {said}");
        assert!(said.contains(words) && said.contains("`y`") && said.contains("engine BadEngine"), "{mode}: {said}");
    }
    let (code, said) = run("reads_beyond", &full);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains(&format!("plugin `bad` took the process down (SIGSEGV) in {KERNEL}")), "{said}");
}
