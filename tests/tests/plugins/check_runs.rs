//! `ge plugin check` as a vendor runs it, with what it compiles and runs: each misbehaviour of the
//! fixture plugin is reported under its rule, and a correct plugin passes.
use super::support::Dir;
use ge_tests::{long, target};
use serde_json::Value;
use std::process::Command;

/// The report as JSON; checks that the exit code is that of the report.
fn report(dir: &Dir, mode: &str) -> Value {
    let library = ge_tests::fixtures::bad_plugin();
    let out = Command::new(target().join("ge"))
        .args(["plugin", "check", "--json"])
        .arg(library)
        .current_dir(dir.path())
        .env("GE_BAD_MODE", mode)
        .env("XDG_CONFIG_HOME", dir.path().join("config"))
        .env_remove("GE_PLUGINS")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let report: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{mode}: {e}: {said}"));
    let want = if report["passed"] == true { 0 } else { 5 };
    assert_eq!(out.status.code(), Some(want), "{mode}: {said}");
    report
}

fn failures(report: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let rules = report["rules"].as_array().expect("a list");
    let failed = rules.iter().filter(|r| r["ok"] == false);
    failed.map(|r| (text(&r["id"]), format!("{}: {}", text(&r["subject"]), text(&r["detail"])))).collect()
}

#[test]
fn a_right_plugin_passes_and_its_kernels_were_run() {
    let dir = Dir::new();
    let r = report(&dir, "good");
    assert_eq!((r["schema"].as_u64(), r["passed"].as_bool()), (Some(1), Some(true)), "{r}");
    let rules = r["rules"].as_array().unwrap();
    let of = |id: &str| rules.iter().find(|r| r["id"] == id).unwrap_or_else(|| panic!("no rule {id}: {r}"));
    assert_eq!(of("C11")["detail"], "5 against nothing");
    for id in ["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C9", "C10", "C12", "C13", "C14", "C15"] {
        assert_eq!(of(id)["ok"], true, "{r}");
    }
    let r = report(&dir, "host_right");
    let host = r["rules"].as_array().unwrap().iter().find(|r| r["id"] == "C16").unwrap();
    assert_eq!((host["ok"].as_bool(), host["detail"].as_str()), (Some(true), Some("5 against DNN_VM_HOST_CPU")), "{r}");
}

#[test]
fn each_misbehaviour_is_told_under_its_rule() {
    let dir = Dir::new();
    let all = [
        ("error_init", "C4", "licence server"),
        ("lie_name", "C4", "OtherEngine"),
        ("lie_type", "C5", "type that the prototype excludes"),
        ("lie_outputs", "C5", "another number of outputs"),
        ("lie_none", "C5", "another number of outputs"),
        ("unsteady", "C5", "two answers"),
        ("lie_bytes", "C6", "output 0 is too small"),
        ("lie_variants", "C6", "a variant has other numbers"),
        ("panic_supports", "C6", "no node is good enough"),
        ("segv_supports", "C6", "SIGSEGV"),
        ("error_pass", "C7", "failed in pass BadPass"),
        ("dev_panic_alloc", "C9", "panicked in baddev.alloc"),
        ("dev_error_copy_in", "C9", "failed in baddev.copy_in"),
        ("dev_segv_alloc", "C9", "SIGSEGV"),
        ("dev_exit_open", "C9", "exit code 0"),
        ("thread_panics", "C13", "of its own panicked: nobody heard me"),
        ("pass_stage", "C4", "stage"),
        ("pass_level", "C4", "level"),
        ("value_inputs", "C4", "7"),
        ("panic_infer", "C5", "shape of things to come"),
        ("no_reason", "C6", "without a reason"),
        ("no_task", "C6", "rule T1"),
        ("panic_pass", "C7", "this shall not"),
        ("lie_soc", "C4", "Moon"),
        ("slow_cancel", "C10", "within a second"),
        ("segv_kernel", "C11", "SIGSEGV"),
        ("abort_kernel", "C11", "SIGABRT"),
        ("overflow_kernel", "C11", "takes the process down"),
        ("exit_kernel", "C11", "exit code 0"),
        ("panic_kernel", "C11", "no number today"),
        ("error_kernel", "C11", "the sums do not add up"),
        ("scratch_beyond", "C11", ""),
        ("output_twice", "C11", "has some already"),
        ("long_output", "C11", "argument 1"),
        ("long_input", "C11", "argument 0"),
        ("few_arguments", "C11", "arguments"),
        ("exchanged", "C11", "block_kernel"),
        ("reads_beyond", "C11", "SIGSEGV"),
        ("blocks_overlap", "C11", "both write"),
        ("half_written", "C11", "are left as they were"),
        ("unsteady_kernel", "C11", ""),
        ("wrong_relu", "C11", "DNN_VM_AICPU_ASCEND has the other number"),
        ("slow_cancelled_kernel", "C10", "a cancelled kernel took "),
        ("host_wrong", "C16", "DNN_VM_HOST_CPU has the other number"),
        ("host_shape", "C16", "inference says"),
        ("host_panics", "C16", "nothing folds here"),
        ("host_unsteady", "C16", "give other bytes"),
        ("forgets", "C9", "comes back as other bytes"),
        ("maps_to_nothing", "C8", "a node of type `NobodyHasThis`, which no plugin in use has a prototype of"),
        ("hook_changes_others", "C12", "BadEngine"),
        ("wrong_pass", "C12", "without the plugin the other number"),
        ("thread_left", "C13", "1 threads running"),
        ("prints", "C14", "says hello"),
        ("leaves_a_file", "C15", "`bad.log`"),
        ("leaves_a_file_open", "C15", "/etc/hostname"),
    ];
    let mut wrong = Vec::new();
    for (mode, rule, words) in all {
        let found = failures(&report(&dir, mode));
        if !found.first().is_some_and(|(id, why)| id == rule && why.contains(words)) {
            wrong.push(format!("{mode}: {rule} `{words}`, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if long() {
        let found = failures(&report(&dir, "stuck_supports"));
        assert!(found[0].1.contains("does not return within 60 s"), "{found:?}");
    }
}

/// The manual has the rules as the program has them.
#[test]
fn the_manual_has_every_rule_of_the_suite() {
    let text = std::fs::read_to_string(ge_tests::root().join("docs/plugins.md")).unwrap();
    for r in ge_plugin::conformance::Rule::ALL {
        let line = format!("| {} | {} |", r.id(), r.title());
        assert!(text.contains(&line), "docs/plugins.md lacks: {line}");
    }
}
