//! Marks of `MarkFirstAndLastOps`: where the work of an engine on a stream begins and ends.
use super::*;

/// Names of the first graph's nodes with a mark, in order, without the model's own end.
fn marked(doc: &Value, mark: &str) -> Vec<String> {
    let nodes = doc["graphs"][0]["nodes"].as_array().unwrap();
    let with = nodes.iter().filter(|n| n["attrs"].get(mark).is_some_and(|v| v == true) && n["type"] != "NetOutput");
    with.map(|n| n["name"].as_str().unwrap().to_owned()).collect()
}

/// One stream and one engine: there are two ends, whatever nodes without a task are between or
/// behind them.
#[test]
fn a_stream_has_two_ends_and_a_node_without_a_task_is_neither() {
    let text = "graph @main(%x: f32[4,16], %y: f32[4,16]) {
  %a = Exp(%x) : f32[4,16]
  %b = Neg(%y) : f32[4,16]
  %k = ConcatD(%a, %b) {concat_dim = 0} : f32[8,16]
  %c = Sqrt(%k) : f32[8,16]
  return %c
}
";
    let c = Compiled::new(text, &["--set", "ge.x.auto_fusion=false", "--set", "ge.enableSingleStream=true"]);
    let doc = c.document();
    let no_task = doc["graphs"][0]["nodes"].as_array().unwrap().iter().any(|n| n["attrs"]["_no_task"] == true);
    assert!(no_task, "{doc}");
    assert_eq!((marked(&doc, "_is_first_node"), marked(&doc, "_is_last_node")), (vec!["a".into()], vec!["c".into()]));
}

/// A label may be jumped to, so work begins anew behind it.
#[test]
fn every_branch_has_ends_of_its_own() {
    let text = "graph @main(%p: bool[], %x: f32[512,512]) {
  %a = Exp(%x) : f32[512,512]
  %y = If(%p, %a) {else_branch = @no, then_branch = @yes} : f32[512,512]
  %z = Sqrt(%y) : f32[512,512]
  return %z
}
graph @yes(%u: f32[512,512]) {
  %b = Neg(%u) : f32[512,512]
  %c = Exp(%b) : f32[512,512]
  return %c
}
graph @no(%v: f32[512,512]) {
  %d = Relu(%v) : f32[512,512]
  return %d
}
";
    let c = Compiled::new(
        text,
        &["--set", "ge.x.auto_fusion=false", "--set", "ge.optimizationSwitch=BranchToSelectPass:off"],
    );
    let doc = c.document();
    let (first, last) = (marked(&doc, "_is_first_node"), marked(&doc, "_is_last_node"));
    for (node, begins, ends) in
        // Behind `a`, the same engine turns the condition into an index.
        [
            ("a", true, false),
            ("y/index_i32", false, true),
            ("b", true, false),
            ("c", false, true),
            ("d", true, true),
            ("z", true, true),
        ]
    {
        let found = (first.iter().any(|n| n == node), last.iter().any(|n| n == node));
        assert_eq!(found, (begins, ends), "`{node}`: first {first:?}, last {last:?}");
    }
}
