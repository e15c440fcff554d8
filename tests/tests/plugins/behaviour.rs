//! Plugins that do one thing wrong once they run: the error names the plugin and the call, and the
//! host survives.
use super::support::{Dir, good, refusal};
use ge_plugin::Registry;
use ge_plugin::sample::SampleGraph;
use ge_plugin_api::device::{MemoryKind, SocSpec};
use ge_plugin_api::engine::{Support, Target};
use ge_plugin_api::types::{AttrMap, DType, Shape, TensorDesc};
use ge_plugin_api::{Error, ErrorKind};

/// Loads the fixture in a mode. Each mode has a copy of its own, since a library is started only
/// once in a process.
fn load(mode: &str) -> Result<Registry, Error> {
    let dir = Dir::new();
    dir.file("libge_bad.so", &good());
    dir.load(&entry(mode))
}
fn entry(mode: &str) -> String {
    format!("[[plugin]]\nname = \"bad\"\n[plugin.options]\nmode = \"{mode}\"\n")
}
fn sample() -> SampleGraph {
    let d = TensorDesc::new(DType::F32, Shape::of(&[2, 3]));
    SampleGraph::with("BadOp", vec![Some(d.clone())], vec![d], AttrMap::default())
}
fn target() -> Target {
    Target { soc: SocSpec::default(), deterministic: true, online: false, rank_size: 1 }
}
#[track_caller]
fn failed(e: Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(e.kind, kind, "{e}");
    let m = e.message();
    assert!(m.contains("`bad` 0.1.0"), "names no plugin: {m}");
    for w in words {
        assert!(m.contains(w), "{m} lacks {w}");
    }
}

#[test]
fn panics_and_errors_at_start_up() {
    for (mode, words) in [
        ("panic_init", "unlucky start"),
        ("error_init", "the licence server is away"),
        ("panic_register", "not registered"),
        ("panic_info", "who am I"),
    ] {
        let m = refusal(load(mode), "GE-E0516");
        assert!(m.contains(words) && m.contains("`bad` 0.1.0"), "{m}");
    }
    let dir = Dir::new();
    dir.file("libge_bad.so", &good());
    let (code, said) = dir.probe(&entry("good"), "load", &[("GE_BAD_PANIC_OPTIONS", "1")]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("no options today") && said.lines().count() == 2, "{said}");
}

#[test]
fn panics_in_each_kind_of_call() {
    let g = sample();
    let r = load("panic_supports").unwrap();
    failed(
        r.engines()[0].supports(&g.node()).unwrap_err(),
        ErrorKind::PANIC,
        &["BadEngine.supports", "no node is good enough"],
    );
    let r = load("panic_infer").unwrap();
    let e = r.op("BadOp").unwrap().infer(&g.node()).unwrap_err();
    assert_eq!(e.diagnostics[0].node.as_str(), "sample");
    failed(e, ErrorKind::PANIC, &["infer of BadOp", "shape of things to come"]);
    let r = load("panic_pass").unwrap();
    failed(r.passes()[0].run(&g.graph()).unwrap_err(), ErrorKind::PANIC, &["pass BadPass", "this shall not"]);
    let r = load("error_pass").unwrap();
    failed(r.passes()[0].run(&g.graph()).unwrap_err(), ErrorKind::PLUGIN, &["failed in pass BadPass: no"]);
    let r = load("dev_panic_alloc").unwrap();
    let d = r.device("baddev").unwrap();
    let context = d.open(0, &d.soc("bad").unwrap(), &[]).unwrap();
    failed(context.alloc(MemoryKind::HBM, 1).unwrap_err(), ErrorKind::PANIC, &["baddev.alloc", "out of mind"]);
}

#[test]
fn a_panic_in_a_drop_is_swallowed() {
    let r = load("panic_drop").unwrap();
    let d = r.device("baddev").unwrap();
    drop(d.open(0, &d.soc("bad").unwrap(), &[]).unwrap());
    assert_eq!(r.device("baddev").unwrap().name(), "baddev");
}

#[test]
fn lies_are_found_at_the_border() {
    let g = sample();
    let m = refusal(load("lie_name"), "GE-E0517");
    assert!(m.contains("OtherEngine"), "{m}");
    assert!(refusal(load("lie_soc"), "GE-E0517").contains("baddev"));
    for (mode, words) in [
        ("pass_stage", "gives pass `BadPass` for a stage that there is not"),
        ("pass_level", "gives pass `BadPass` a level that there is not"),
        ("value_inputs", "operator `BadOp` reads the value of an input that it does not have"),
    ] {
        assert!(refusal(load(mode), "GE-E0517").contains(words), "{mode}");
    }
    for (mode, words) in [
        ("lie_outputs", "number of outputs"),
        ("lie_none", "number of outputs"),
        ("lie_type", "type that the prototype excludes"),
    ] {
        let e = load(mode).unwrap().op("BadOp").unwrap().infer(&g.node()).unwrap_err();
        assert_eq!(e.diagnostics[0].code.as_str(), "GE-E0517");
        failed(e, ErrorKind::PLUGIN, &["infer of BadOp", words]);
    }
    let r = load("lie_variants").unwrap();
    failed(
        r.engines()[0].variants(&g.node(), &target()).unwrap_err(),
        ErrorKind::PLUGIN,
        &["variants", "numbers of inputs"],
    );
    let r = load("lie_bytes").unwrap();
    let e = r.engines()[0].calc_op_running_param(&g.node(), &target()).unwrap_err();
    failed(e, ErrorKind::PLUGIN, &["output 0 is too small"]);
    let r = load("no_reason").unwrap();
    assert_eq!(r.engines()[0].supports(&g.node()).unwrap(), Support::no("gave no reason"));
}

#[test]
fn a_second_start_with_other_options_is_refused() {
    let dir = Dir::new();
    dir.file("libge_bad.so", &good());
    dir.load(&entry("good")).unwrap();
    dir.load(&entry("good")).unwrap();
    assert!(refusal(dir.load(&entry("other")), "GE-E0513").contains("other options"));
}

#[test]
fn a_plugin_that_dies_while_loading_is_named_and_the_rest_goes_on_without_it() {
    for (mode, signal) in [
        ("segv_init", "SIGSEGV"),
        ("abort_init", "SIGABRT"),
        ("overflow_init", "SIGSEGV"),
        ("exit_init", "exit"),
        ("loop_init", "endless loop"),
    ] {
        let dir = Dir::new();
        dir.file("libge_bad.so", &good());
        let (code, said) = dir.load_apart(&entry(mode));
        assert_eq!(code, Some(5), "{mode}: {said}");
        assert!(said.contains("`bad`") && said.contains(signal), "{mode}: {said}");
        let optional = entry(mode).replace("[plugin.options]", "optional = true\n[plugin.options]");
        let (code, said) = dir.load_apart(&optional);
        assert_eq!(code, Some(0), "{mode}: {said}");
        assert!(said.contains("bad refused") && said.contains(signal), "{mode}: {said}");
    }
}

#[test]
fn a_plugin_that_dies_in_a_call_is_named() {
    let dir = Dir::new();
    dir.file("libge_bad.so", &good());
    let (code, said) = dir.probe(&entry("segv_supports"), "supports", &[]);
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("GE-E0518") && said.contains("`bad`") && said.contains("SIGSEGV") && said.contains("supports"),
        "{said}"
    );
}

/// A folder with our plugins and the fixture plugin, whose engine takes `Relu` and `BadOp` and
/// behaves as `mode` says.
pub fn refusing(mode: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::copy(ge_tests::fixtures::bad_plugin(), d.join("libge_bad.so")).unwrap();
    let text = std::fs::read_to_string(ge_tests::root().join("plugins.toml")).unwrap();
    let head = format!(
        "schema = 1\nsearch = [{:?}, {d:?}]\n[[plugin]]\nname = \"bad\"\n[plugin.options]\nmode = \"{mode}\"\n",
        ge_tests::target()
    );
    std::fs::write(d.join("plugins.toml"), text.replacen("schema = 1", &head, 1)).unwrap();
    dir
}

/// Compiles a graph with this line, which gives `y`; returns stderr.
pub fn compile_line(d: &std::path::Path, body: &str, code: i32) -> String {
    let graph = format!("graph @main(%x: f32[4]) {{\n  {body}\n  return %y\n}}\n");
    std::fs::write(d.join("m.ge"), graph).unwrap();
    let args = ["compile", "m.ge", "-o", "m.om", "-q", "--plugins", "plugins.toml"];
    String::from_utf8(ge_tests::expect_code(d, code, &args).stderr).unwrap()
}

/// An engine takes a node and refuses it when it is asked for sizes or tasks. Plans rely on its
/// word, so the build ends with node, engine, reason and the other engines that would take the
/// node; without the engine it works.
#[test]
fn what_an_engine_refuses_after_placement_names_the_way_out() {
    for (mode, reason) in [("refuse_params", "no size for"), ("refuse_task", "no launch for")] {
        let dir = refusing(mode);
        let d = dir.path();
        let said = compile_line(d, "%y = Relu(%x) : f32[4]", 3);
        for words in [
            "GE-E0210",
            "engine BadEngine took the node",
            "Relu",
            "`y`",
            "m.ge:2:3",
            "`exclude_engines = [\"BadEngine\"]` at plugin `bad`",
            "AIcoreEngine",
        ] {
            assert!(said.contains(words), "{mode}: no `{words}` in {said}");
        }
        assert!(said.contains(reason), "{mode}: {said}");
        let said = compile_line(d, "%y = BadOp(%x) : f32[4]", 3);
        assert!(
            said.contains(&format!("{reason} BadOp")) && said.contains("no other enabled engine takes the node"),
            "{said}"
        );
        assert!(!d.join("m.om").exists());
        // The advice works.
        compile_line(d, "%y = Relu(%x) {_engine = \"AIcoreEngine\"} : f32[4]", 0);
        let text = std::fs::read_to_string(d.join("plugins.toml")).unwrap();
        let text = text.replacen("name = \"bad\"\n", "name = \"bad\"\nexclude_engines = [\"BadEngine\"]\n", 1);
        std::fs::write(d.join("plugins.toml"), text).unwrap();
        compile_line(d, "%y = Relu(%x) : f32[4]", 0);
    }
}

/// An engine takes a node and then cannot compile it: the node goes to the next engine that takes
/// it. If the node is bound to the engine, or no other engine takes it, the error names the node,
/// the engine's reason and those of the others.
#[test]
fn what_an_engine_cannot_compile_goes_to_the_next_that_takes_it() {
    let dir = refusing("refuse_compile");
    let d = dir.path();
    let compile = |body: &str, code: i32| compile_line(d, body, code);
    compile("%y = Relu(%x) : f32[4]", 0);
    let doc = ge_tests::expect_code(d, 0, &["inspect", "m.om", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&doc.stdout).unwrap();
    let y = doc["graphs"][0]["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "y").unwrap().clone();
    assert_eq!(y["engine"], "AIcoreEngine");
    let why = y["refusals"]["EnginePlacer/BadEngine"].as_str().unwrap();
    assert!(why.contains("its kernel was not compiled: no template for Relu"), "{why}");
    let said = compile("%y = Relu(%x) {_engine = \"BadEngine\"} : f32[4]", 3);
    assert!(said.contains("no template for Relu") && said.contains("`y`"), "{said}");
    let said = compile("%y = BadOp(%x) : f32[4]", 3);
    assert!(said.contains("no template for BadOp") && said.contains("m.ge:2:3"), "{said}");
}
