//! Passes of plugins that are built outside the workspace: a pattern fusion and a pass over a whole
//! graph change what a model gives. A panic, a cycle and a wrong shape are refused by name, and no
//! model is written.
use super::{Dir, build, gelu, near, node, sample, vendor};
use ge_tests::root;
use std::path::Path;
use std::sync::OnceLock;

/// `g = x sigmoid(1.702 x)` in small operators.
const QUICK_GELU: &str = "graph @main(%x: f32[2,50]) {
  %c = Const() {value = dense<f32[]: 1.702>} : f32[]
  %m = Mul(%x, %c) : f32[2,50]
  %s = Sigmoid(%m) : f32[2,50]
  %g = Mul(%s, %x) : f32[2,50]
  return %g
}
";

fn quick(x: f32) -> f32 {
    x / (1.0 + (-1.702 * x).exp())
}

#[test]
fn a_pattern_fusion_of_a_vendor_changes_the_result_and_is_listed() {
    let dir = Dir::new(vendor(), "");
    dir.write("m.ge", QUICK_GELU);
    dir.ok(&["compile", "m.ge", "-o", "m.om", "-q"]);
    let doc = dir.inspect();
    let fused = node(&doc, "g");
    assert_eq!(fused["type"], "AcmeGelu");
    assert_eq!(fused["attrs"]["_datadump_original_op_names"], serde_json::json!(["m", "s", "g"]));
    let passes = doc["passes"].as_array().unwrap();
    let own = passes.iter().find(|p| p["name"] == "AcmeQuickGeluFusionPass").expect("the pass is listed");
    assert_eq!(own["changes"], 1);
    assert_eq!(own["fusions"], serde_json::json!([{"before": ["m", "s", "g"], "after": ["g"]}]));
    let text = dir.ok(&["inspect", "m.om", "--what", "passes"]);
    assert!(text.contains("AcmeQuickGeluFusionPass: 1 changes\n  m, s, g -> g"), "{text}");
    let x = sample(100);
    near(&dir.run(&x), x.iter().map(|x| gelu(*x)));
}

#[test]
fn a_fusion_is_switched_off_by_option_and_by_file() {
    let dir = Dir::new(vendor(), "");
    dir.write("m.ge", QUICK_GELU);
    dir.write("lines.cfg", "AcmeQuickGeluFusionPass:off\n");
    dir.write("all.json", r#"{"Switch": {"GraphFusion": {"ALL": "off"}}}"#);
    let x = sample(100);
    for set in [
        "ge.optimizationSwitch=AcmeQuickGeluFusionPass:off",
        "ge.fusionSwitchFile=lines.cfg",
        "ge.fusionSwitchFile=all.json",
    ] {
        dir.ok(&["compile", "m.ge", "-o", "m.om", "-q", "--set", set]);
        near(&dir.run(&x), x.iter().map(|x| quick(*x)));
    }
    dir.write("bad.cfg", "AcmeQuickGeluFusion:off\nConstFoldingPass:on\n");
    let out = dir.ge(&["compile", "m.ge", "-o", "n.om", "-q", "--set", "ge.fusionSwitchFile=bad.cfg"]);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{text}");
    for words in ["`bad.cfg`", "did you mean `AcmeQuickGeluFusionPass`", "did you mean `ConstantFoldingPass`", "help: "]
    {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    for (bytes, words) in [
        ("AcmeQuickGeluFusionPass\n", "line 1: `AcmeQuickGeluFusionPass` is no `Name:on` or `Name:off`"),
        ("\nAcmeQuickGeluFusionPass:no\n", "line 2: `AcmeQuickGeluFusionPass` is `no`, it takes on or off"),
        ("{\"Switch\": {\"GraphFusion\"", "EOF"),
        ("{}", "no object `Switch`"),
        ("{\"Switch\": {\"Fusion\": {}}}", "it takes GraphFusion and UBFusion"),
        ("ForPass:off", "`ForPass` is needed for right results"),
    ] {
        dir.write("bad.cfg", bytes);
        let out = dir.ge(&["compile", "m.ge", "-o", "n.om", "-q", "--set", "ge.fusionSwitchFile=bad.cfg"]);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{bytes}: {text}");
        assert!(text.contains("`bad.cfg`") && text.contains(words) && text.contains("help: "), "{bytes}: {text}");
    }
    let out = dir.ge(&["compile", "m.ge", "-o", "n.om", "-q", "--set", "ge.fusionSwitchFile=missing.cfg"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn a_pass_over_a_whole_graph_changes_the_result() {
    static LIBRARY: OnceLock<std::path::PathBuf> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| build(&root().join("tests/fixtures/whole_graph/Cargo.toml"), "whole_graph"));
    let dir = Dir::new(library, "");
    dir.write("m.ge", "graph @main(%x: f32[2,50]) {\n  %e = Exp(%x) : f32[2,50]\n  return %e\n}\n");
    dir.ok(&["compile", "m.ge", "-o", "m.om", "-q"]);
    let x = sample(100);
    near(&dir.run(&x), x.iter().map(|x| -x.exp()));
}

fn bad() -> &'static Path {
    static LIBRARY: OnceLock<std::path::PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build(&root().join("tests/fixtures/bad_passes/Cargo.toml"), "bad_passes"))
}

#[test]
fn a_panic_a_cycle_and_a_wrong_shape_are_refused_by_name() {
    let dir = Dir::new(bad(), "");
    for (op, pass, words) in [
        ("Exp", "AcmePanicPass", "no power over e"),
        ("Log", "AcmeCyclePass", "cycle"),
        ("Sqrt", "AcmeShapePass", "[7,7,7]"),
    ] {
        let text = format!(
            "graph @main(%x: f32[2,50]) {{\n  %e = {op}(%x) : f32[2,50]\n  %f = Abs(%e) : f32[2,50]\n  return %f\n}}\n"
        );
        dir.write("m.ge", text);
        let out = dir.ge(&["compile", "m.ge", "-o", "m.om", "-q"]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(5), "{op}: {said}");
        for named in ["acme", pass, words, "help:"] {
            assert!(said.contains(named), "{op}: no `{named}` in {said}");
        }
        // Nothing is left but the bundle that reproduces the failure.
        let left = std::fs::read_dir(dir.0.path()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
        let left: Vec<String> = left.filter(|f| f != "m.ge" && f != "plugins.toml" && !f.contains("bundle")).collect();
        assert!(left.is_empty(), "{op}: {left:?}");
        // A model that was there before stays as it was.
        dir.write("m.om", "what was there");
        assert_eq!(dir.ge(&["compile", "m.ge", "-o", "m.om", "-q"]).status.code(), Some(5), "{op}");
        assert_eq!(std::fs::read(dir.0.path().join("m.om")).unwrap(), b"what was there", "{op}");
        std::fs::remove_file(dir.0.path().join("m.om")).unwrap();
        // Without the pass it compiles.
        let off = format!("ge.optimizationSwitch={pass}:off");
        dir.ok(&["compile", "m.ge", "-o", "m.om", "-q", "--set", &off]);
        std::fs::remove_file(dir.0.path().join("m.om")).unwrap();
    }
}
