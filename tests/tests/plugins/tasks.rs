//! Engines whose task lists break a rule: the compilation ends with engine, plugin, node, rule and
//! remedy, and nothing is written; the conformance suite finds the same.
use super::behaviour::{compile_line, refusing};
use super::check::report;
use super::support::good;

/// Each fault, and the rule that it breaks.
const FAULTS: &[(&str, &str)] = &[
    ("no_task", "T1"),
    ("unwritten", "T1"),
    ("wrong_input", "T2"),
    ("wrong_output", "T2"),
    ("wrong_workspace", "T2"),
    ("frobnicate", "T3"),
    ("ffts_item", "T4"),
    ("task_type", "T5"),
    ("wrong_name", "T6"),
    ("wrong_type", "T7"),
    ("zero_blocks", "T8"),
    ("attached_stream", "T9"),
    ("wrong_sync", "T10"),
    ("copy_kind", "T11"),
    ("task_twice", "T12"),
    ("fewer_tasks", "T13"),
    ("huge_workspace", "T14"),
];

#[test]
fn every_broken_rule_of_a_task_list_names_engine_plugin_node_and_remedy() {
    for (mode, rule) in FAULTS {
        let dir = refusing(mode);
        let said = compile_line(dir.path(), "%y = BadOp(%x) : f32[4]", 5);
        let rule = format!("rule {rule} of task lists");
        for words in ["GE-E0522", "engine BadEngine of plugin `bad` 0.1.0", &rule, "`y` (BadOp)", "m.ge:2:3", "help: "]
        {
            assert!(said.contains(words), "{mode}: no `{words}` in {said}");
        }
        assert!(!dir.path().join("m.om").exists(), "{mode}");
    }
    let all: std::collections::BTreeSet<&str> = FAULTS.iter().map(|f| f.1).collect();
    let known: Vec<&str> = ge_plugin::tasks::Rule::ALL.iter().map(|r| r.id()).collect();
    assert!(known.iter().all(|r| all.contains(r)), "each rule has its fault: {known:?}");
}

#[test]
fn the_conformance_suite_finds_every_broken_rule() {
    // Streams of the simulator hold any number of tasks; those of the suite's SoC do not.
    for (mode, rule) in FAULTS.iter().chain(&[("many_places", "T14")]) {
        let r = report(&good(), mode);
        let found = r.items.iter().find(|i| i.failure.is_some()).unwrap_or_else(|| panic!("{mode} passed: {r:?}"));
        let why = found.failure.as_ref().unwrap();
        assert!(found.name == "engine BadEngine" && why.contains(&format!("rule {rule} ")), "{mode}: {found:?}");
    }
}

/// The manual has the rules as the program has them.
#[test]
fn the_manual_has_every_rule_with_its_remedy() {
    let text = std::fs::read_to_string(ge_tests::root().join("docs/plugins.md")).unwrap();
    for r in ge_plugin::tasks::Rule::ALL {
        let line = format!("| {} | {} | {} |", r.id(), r.title(), r.remedy());
        assert!(text.contains(&line), "docs/plugins.md lacks: {line}");
    }
}
