//! Ids that serve several events, notifies of collectives, gears: what the plan says is what every schedule does; what a user writes
//! about them wrongly is told by its names.
use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Every node keeps its kernel.
const UNFUSED: &[&str] = &["--set", "ge.x.auto_fusion=false"];

#[test]
fn collectives_list_the_events_that_are_there_and_no_other() {
    for op in [
        "HcomAllReduce(%a) {rank_size = 2, reduction = \"sum\"} : f32[64]",
        "HcomAllGather(%a) {rank_size = 2} : f32[128]",
    ] {
        let out = &op[op.rfind("f32").unwrap()..];
        let text = format!(
            "graph @main(%x: f32[64]) {{\n  %a = Relu(%x) : f32[64]\n  %r1 = {op}\n  %b = Neg(%r1) : {out}\n  return %b\n}}\n"
        );
        let doc = Compiled::new(&text, &[]).document();
        let events = doc["events"].as_array().unwrap();
        let pairs: Vec<(&str, &str)> =
            events.iter().map(|e| (e["send"].as_str().unwrap(), e["recv"].as_str().unwrap())).collect();
        assert_eq!(pairs, [("a", "r1"), ("r1", "b")], "{op}");
        // Each record and each wait has a node of its own.
        let nodes = doc["graphs"][0]["nodes"].as_array().unwrap();
        let count = |ty: &str| nodes.iter().filter(|n| n["type"] == ty).count();
        assert_eq!((count("Send"), count("Recv")), (2, 2), "{op}");
        let tasks = doc["tasks"].as_array().unwrap();
        assert!(tasks.iter().filter(|t| t["type"].as_str().unwrap().starts_with("EVENT_")).all(|t| t["node"] != "r1"));
        assert_eq!((doc["event_num"].as_u64(), doc["notify_num"].as_u64()), (Some(2), Some(0)), "{op}");
        assert!(doc["rank_notify_num"].as_u64() > Some(0), "{op}");
    }
}
