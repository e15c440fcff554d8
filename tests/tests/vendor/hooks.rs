//! The graph optimizers of engines are called at all their places, in the order of the stages, and
//! at each place by priority. What they set at the last place reaches the tasks; nothing else may
//! change there.
use super::{Dir, build, node};
use ge_tests::{root, target};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Sizes that only inference knows, and two streams with an event between them.
const TWO_STREAMS: &str = "graph @main(%x: f32[4]) {
  %r = Relu(%x) : f32[?]
  %b = Exp(%r) {_stream_label = \"beside\"} : f32[?]
  %c = Log(%r) : f32[?]
  %y = Add(%b, %c) : f32[?]
  return %y
}
";

fn library() -> &'static Path {
    static LIBRARY: OnceLock<std::path::PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build(&root().join("tests/fixtures/hooks/Cargo.toml"), "hooks"))
}

fn ge(dir: &Dir, breaks: &str, args: &[&str]) -> Output {
    Command::new(target().join("ge"))
        .args(args)
        .args(["--plugins", "plugins.toml", "--set", "ge.x.auto_fusion=false"])
        .current_dir(dir.0.path())
        .env("ACME_HOOKS", dir.0.path().join("hooks.txt"))
        .env("ACME_BREAKS", breaks)
        .env_remove("GE_PLUGINS")
        .env_remove("GE_OPTIONS")
        .output()
        .unwrap()
}

/// A hook, and what the graph shows by then. Hooks on subgraphs are called for the engine's own
/// subgraphs only.
const PLACES: &[(&str, &str)] = &[
    ("OptimizeAfterGraphNormalization", ""),
    ("OptimizeGraphInit", ""),
    ("OptimizeGraphPrepare", ""),
    ("OptimizeOriginalGraph", "shapes,prepared"),
    ("OptimizeOriginalGraphJudgeInsert", "shapes,prepared"),
    ("OptimizeOriginalGraphJudgeFormatInsert", "shapes,prepared"),
    ("OptimizeAfterStage1", "shapes,prepared"),
    ("OptimizeSubgraphPreProc", "shapes,prepared,placed,piece"),
    ("OptimizeFusedGraph", "shapes,prepared,placed,piece"),
    ("OptimizeSubgraphPostProc", "shapes,prepared,placed,piece"),
    ("OptimizeWholeGraph", "shapes,prepared,placed"),
    ("OptimizeGraphBeforeBuild", "shapes,prepared,placed"),
    ("OptimizeStreamedWholeGraph", "shapes,prepared,placed,streams,events"),
    ("OptimizeStreamGraph", "shapes,prepared,placed,streams,events"),
];

fn expected(until: usize) -> Vec<String> {
    let mut out = Vec::new();
    for (hook, shown) in &PLACES[..until] {
        if shown.contains("piece") {
            out.push(format!("AcmeFirst {hook} {shown}"));
            continue;
        }
        // The second engine sees what the first one has done.
        let second = if *hook == "OptimizeGraphPrepare" { "prepared" } else { shown };
        out.push(format!("AcmeFirst {hook} {shown}"));
        out.push(format!("AcmeLast {hook} {second}"));
    }
    out
}

/// The record of the calls, without the names of graphs.
fn record(dir: &Dir) -> Vec<String> {
    let text = std::fs::read_to_string(dir.0.path().join("hooks.txt")).unwrap();
    let line = |l: &str| {
        let words: Vec<&str> = l.split(' ').collect();
        format!("{} {} {}", words[0], words[1], words[3])
    };
    text.lines().map(line).collect()
}

#[test]
fn hooks_are_called_at_their_places_by_priority() {
    let dir = Dir::new(library(), "");
    dir.write("m.ge", TWO_STREAMS);
    let out = ge(&dir, "", &["compile", "m.ge", "-o", "m.om", "-q"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(record(&dir), expected(PLACES.len()));
    let doc = dir.inspect();
    let r = node(&doc, "r");
    assert_eq!(r["engine"], "AcmeFirst");
    let stream = r["logical_stream_id"].as_i64().unwrap();
    assert_eq!(r["attrs"]["acme_stream"], stream);
    let tasks = doc["tasks"].as_array().unwrap();
    let own = tasks.iter().find(|t| t["node"] == "r" && t["type"] == "KERNEL").unwrap();
    assert_eq!(own["block_dim"], stream + 7, "{own}");
    // The plans are not attributes of the model.
    assert!(r["attrs"].get("_stream_id").is_none() && r["attrs"].get("_send_event_ids").is_none(), "{r}");
    // `ge opt` runs the same stages and calls the same hooks.
    std::fs::remove_file(dir.0.path().join("hooks.txt")).unwrap();
    let out = ge(&dir, "", &["opt", "--from", "prepare", "--until", "sync", "m.ge"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(record(&dir), expected(PLACES.len()));
}

#[test]
fn a_hook_that_breaks_the_graph_is_refused_by_engine_plugin_and_place() {
    let dir = Dir::new(library(), "");
    dir.write("m.ge", TWO_STREAMS);
    for (hook, _) in PLACES {
        for (breaks, words) in [((*hook).to_owned(), ""), (format!("panic {hook}"), "no hook today")] {
            let out = ge(&dir, &breaks, &["compile", "m.ge", "-o", "m.om", "-q"]);
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(5), "{breaks}: {said}");
            for w in [*hook, "AcmeFirst", "acme", words, "help:"] {
                assert!(said.contains(w), "{breaks}: no `{w}` in {said}");
            }
            assert!(!dir.0.path().join("m.om").exists(), "{breaks}");
        }
    }
}

/// An engine that does not take `Relu` turns one into a `Neg`, which it does not take either:
/// before the node is placed and after.
#[test]
fn a_hook_that_changes_a_node_of_another_engine_is_refused() {
    let dir = Dir::new(library(), "");
    dir.write("m.ge", TWO_STREAMS);
    for (hook, whose) in [
        ("OptimizeGraphPrepare", ""),
        ("OptimizeOriginalGraph", ""),
        ("OptimizeAfterStage1", ""),
        ("OptimizeWholeGraph", " of engine AcmeFirst"),
        ("OptimizeGraphBeforeBuild", " of engine AcmeFirst"),
    ] {
        let out = ge(&dir, &format!("turns {hook}"), &["compile", "m.ge", "-o", "m.om", "-q"]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(5), "{hook}: {said}");
        let blame =
            format!("engine AcmeLast of plugin `acme` 1.2.0 at {hook} changes `r` (Relu){whose}, which is not its own");
        assert!(said.contains("GE-E0521") && said.contains(&blame) && said.contains("help:"), "{hook}: {said}");
        assert!(!dir.0.path().join("m.om").exists(), "{hook}");
    }
}
