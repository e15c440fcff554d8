//! The conformance suite: a correct plugin passes, each fault is found and named, and a library
//! that ends its process is a result too.
use super::support::{Dir, good};
use ge_plugin::conformance::{CheckReport, check};
use std::ffi::OsStr;
use std::path::Path;

pub fn report(bytes: &[u8], mode: &str) -> CheckReport {
    let dir = Dir::new();
    let lib = dir.file("libge_bad.so", bytes);
    let mode = format!("GE_BAD_MODE={mode}");
    let arguments = [OsStr::new(&mode), OsStr::new(env!("CARGO_BIN_EXE_ge-plugin-probe")), OsStr::new("check")];
    check(&lib, Path::new("/usr/bin/env"), &arguments).unwrap()
}

#[test]
fn a_right_plugin_passes_every_item() {
    let r = report(&good(), "good");
    assert!(r.passed(), "{r:?}");
    assert!(r.error().is_none());
    for item in
        ["library and manifest", "operator BadOp", "engine BadEngine", "pass BadPass", "device baddev", "cancellation"]
    {
        assert!(r.items.iter().any(|i| i.name == item), "{item} was not tried: {r:?}");
    }
}

#[test]
fn each_fault_is_found_under_its_item() {
    for (mode, item, words) in [
        ("bad_default", "options", "`level`"),
        ("panic_init", "start-up and contents", "unlucky start"),
        ("lie_name", "start-up and contents", "OtherEngine"),
        ("panic_infer", "operator BadOp", "shape of things to come"),
        ("lie_outputs", "operator BadOp", "number of outputs"),
        ("unsteady", "operator BadOp", "two answers"),
        ("panic_supports", "engine BadEngine", "no node is good enough"),
        ("no_reason", "engine BadEngine", "without a reason"),
        ("lie_variants", "engine BadEngine", "variant"),
        ("panic_pass", "pass BadPass", "this shall not"),
        ("thread_left", "threads at start-up", "1 threads running"),
        ("slow_cancel", "cancellation", "within a second"),
        ("segv_init", "start-up and contents", "SIGSEGV"),
        ("abort_init", "start-up and contents", "SIGABRT"),
        ("exit_init", "start-up and contents", "exit code 7"),
        ("segv_supports", "engine BadEngine", "SIGSEGV"),
    ] {
        let r = report(&good(), mode);
        let found = r.items.iter().find(|i| i.failure.is_some()).unwrap_or_else(|| panic!("{mode} passed: {r:?}"));
        assert_eq!(found.name, item, "{mode}: {r:?}");
        assert!(found.failure.as_ref().unwrap().contains(words), "{mode}: {found:?}");
        assert_eq!(r.error().unwrap().kind, ge_plugin_api::ErrorKind::PLUGIN);
    }
}

#[test]
fn files_that_are_no_plugins() {
    let r = report(b"text", "good");
    assert_eq!((r.items.len(), r.passed()), (1, false));
    assert!(r.items[0].failure.as_ref().unwrap().contains("text file"));
    let e = check(Path::new("no/such/lib.so"), Path::new("/bin/true"), &[]).unwrap_err();
    assert_eq!(e.kind, ge_plugin_api::ErrorKind::USAGE);
}
