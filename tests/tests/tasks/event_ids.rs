//! Ids that serve several events, notifies of collectives, and gears: every schedule does what the
//! plan says. What a user writes wrongly about them is reported with the user's names.
use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Every node keeps a kernel of its own.
const UNFUSED: &[&str] = &["--set", "ge.x.auto_fusion=false"];

/// The attached work of `c` reads only an input: its record may come before anything else of the
/// model.
pub const AHEAD: &str = "graph @main(%x: f32[64], %y: f32[64]) {
  %a = Relu(%x) {_stream_label = \"one\"} : f32[64]
  %b = Neg(%a) {_stream_label = \"two\"} : f32[64]
  %c = Add(%b, %y) {_attached_stream_info_list = [{_attached_resource_depend_value_list_int = [1], _attached_resource_name = \"t\", _attached_resource_required_flag = true}], _stream_label = \"two\"} : f32[64]
  %d = Abs(%c) {_stream_label = \"two\"} : f32[64]
  return %d
}
";

/// Runs a model under random schedules that look for races. All must give the outputs of the
/// default schedule, which are returned.
#[track_caller]
fn the_same_under(c: &Compiled, inputs: &[HostTensor], schedules: u32) -> Vec<Vec<u8>> {
    let outputs = |device: &[(&str, &str)]| {
        let r = run(&c.load(device), inputs).unwrap_or_else(|e| panic!("{device:?}: {e}"));
        r.outputs.iter().map(|t| t.bytes().to_vec()).collect::<Vec<_>>()
    };
    let want = outputs(&[]);
    for k in 0..schedules {
        let schedule = format!("random:{k}");
        assert_eq!(outputs(&[("schedule", schedule.as_str()), ("check_races", "true")]), want, "{schedule}");
    }
    want
}

#[test]
fn a_record_of_attached_work_shares_no_id_with_a_wait_that_may_still_be_open() {
    let c = Compiled::new(AHEAD, &[UNFUSED, &["--set", "ge.x.event_reuse=always"]].concat());
    let events: BTreeMap<(String, String), u64> = c.document()["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| ((e["send"].as_str().unwrap().into(), e["recv"].as_str().unwrap().into()), e["id"].as_u64().unwrap()))
        .collect();
    let id = |a: &str, b: &str| events[&(a.to_owned(), b.to_owned())];
    assert_ne!(id("a", "b"), id("c", "d"), "{events:?}");
    let v: Vec<f32> = (0..64).map(|i| i as f32 - 30.0).collect();
    let out = the_same_under(&c, &[f32s(&[64], &v), f32s(&[64], &v)], 12);
    let want: Vec<u8> = v.iter().flat_map(|x| (-x.max(0.0) + x).abs().to_le_bytes()).collect();
    assert_eq!(out[0], want);
}

/// A random graph with a few labels. Some nodes have attached work that reads one of the inputs, or
/// does not state what it reads.
pub fn random_graph(random: &mut Random) -> String {
    let mut text = "graph @main(%x: f32[16], %y: f32[16]) {\n".to_owned();
    let mut values = vec!["x".to_owned(), "y".to_owned()];
    let nodes = 5 + random.below(12);
    for i in 0..nodes {
        let pick = |random: &mut Random, values: &[String]| {
            let back = random.below(values.len().min(4) as u64) as usize;
            values[values.len() - 1 - back].clone()
        };
        let (a, b) = (pick(random, &values), pick(random, &values));
        let op = ["Add", "Mul", "Maximum"][random.below(3) as usize];
        let mut attrs = vec![format!("_stream_label = \"l{}\"", random.below(4))];
        let stream = match random.below(6) {
            0 => Some(", _attached_resource_depend_value_list_int = [1]"),
            1 => Some(", _attached_resource_depend_value_list_int = [0]"),
            2 => Some(""),
            _ => None,
        };
        if let Some(reads) = stream {
            attrs.push(format!(
                "_attached_stream_info_list = [{{_attached_resource_name = \"t\", _attached_resource_required_flag = true{reads}}}]"
            ));
        }
        text.push_str(&format!("  %n{i} = {op}(%{a}, %{b}) {{{}}} : f32[16]\n", attrs.join(", ")));
        values.push(format!("n{i}"));
    }
    text.push_str(&format!("  return %n{}, %n{}\n}}\n", nodes - 1, nodes / 2));
    text
}

#[test]
fn reused_ids_are_right_in_random_graphs_with_attached_work() {
    let (mut random, mut shared) = (Random(11), 0);
    for case in 0..14 {
        let text = random_graph(&mut random);
        let c = Compiled::new(&text, &[UNFUSED, &["--set", "ge.x.event_reuse=always"]].concat());
        let doc = c.document();
        let ids: Vec<u64> = doc["events"].as_array().unwrap().iter().map(|e| e["id"].as_u64().unwrap()).collect();
        shared += ids.len() - ids.iter().collect::<BTreeSet<_>>().len();
        let inputs = [f32s(&[16], &random.reals(16)), f32s(&[16], &random.reals(16))];
        let reused = the_same_under(&c, &inputs, 4);
        let plain = Compiled::new(&text, &[UNFUSED, &["--set", "ge.x.event_reuse=off"]].concat());
        let want: Vec<Vec<u8>> =
            run(&plain.load(&[]), &inputs).unwrap().outputs.iter().map(|t| t.bytes().to_vec()).collect();
        assert_eq!(reused, want, "case {case}\n{text}");
    }
    assert!(shared > 14, "only {shared} events share an id");
}

#[test]
fn a_label_of_gears_alone_excludes_nothing() {
    let chain = |i: u32, x: &str, label: &str| {
        format!(
            "  %p{i} = Relu(%{x}) {{_batch_label = \"Batch_{i}\", _stream_label = \"{label}\"}} : f32[4096]
  %q{i} = Neg(%p{i}) {{_batch_label = \"Batch_{i}\", _stream_label = \"{label}\"}} : f32[4096]
  %r{i} = Abs(%q{i}) {{_batch_label = \"Batch_{i}\", _stream_label = \"{label}\"}} : f32[4096]\n"
        )
    };
    let text = format!(
        "graph @main(%x: f32[4096], %y: f32[4096]) {{\n{}{}  %c = Add(%r0, %r1) : f32[4096]\n  return %c\n}}\n",
        chain(0, "x", "one"),
        chain(1, "y", "two")
    );
    let arena = |c: &Compiled| c.document()["memory"]["HBM"]["size"].as_u64().unwrap();
    let c = Compiled::new(&text, UNFUSED);
    let without = Compiled::new(&text.replace("_batch_label", "_of_no_meaning"), UNFUSED);
    assert_eq!(arena(&c), arena(&without));
    let v: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    the_same_under(&c, &[f32s(&[4096], &v), f32s(&[4096], &v)], 4);
}

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

/// Four nodes on four streams: `a` -> `b` and `c` -> `d`, without an order between the two.
const UNORDERED: &str = "graph @main(%x: f32[64], %y: f32[64]) {
  %a = Relu(%x) {_event_multiplexing = [\"SendTo;b;0\"], _stream_label = \"one\"} : f32[64]
  %b = Neg(%a) {_stream_label = \"two\"} : f32[64]
  %c = Relu(%y) {_event_multiplexing = [\"SendTo;d;0\"], _stream_label = \"three\"} : f32[64]
  %d = Neg(%c) {_stream_label = \"four\"} : f32[64]
  return %b, %d
}
";

#[test]
fn one_number_for_events_without_order_is_the_users_mistake() {
    let c = Compiled::source(UNORDERED);
    let said = c.refusal(2, UNFUSED);
    for what in ["_event_multiplexing", "`a` -> `b`", "`c` -> `d`", "different numbers"] {
        assert!(said.contains(what), "{what}: {said}");
    }
    let c = Compiled::source(&UNORDERED.replace("SendTo;d;0", "SendTo;nobody;0"));
    let said = c.refusal(2, UNFUSED);
    assert!(said.contains("there is no node `nobody`") && said.contains("of `c`"), "{said}");
    Compiled::new(&UNORDERED.replace("SendTo;d;0", "SendTo;d;1"), UNFUSED);
}

#[test]
fn an_engine_that_is_not_there_has_no_streams() {
    let c = Compiled::source(AHEAD);
    for stream in ["engine", "parallel:2"] {
        let mode = format!("ge.x.stream_mode={stream}");
        let said = c.refusal(2, &["--set", "ge.streamMaxParallelNum=Nonsense:3", "--set", &mode]);
        assert!(
            said.contains("`Nonsense` names an engine that no loaded plugin has") && said.contains("AIcoreEngine"),
            "{said}"
        );
    }
    c.compile(&["--set", "ge.streamMaxParallelNum=AIcoreEngine:3"]);
}

#[test]
fn a_mark_of_tiling_sink_says_nothing_where_the_value_is_constant() {
    let text = tiling_sink::with("_dynamic_tiling_depend_op = true, _tiling_sink_op = true")
        .replace("%a = ", "%fixed = Const() {value = dense<i64[3]: 2 6 4>} : i64[3]\n  %a = ");
    let text = text.replace("%w, %list)", "%w, %fixed)");
    for option in [&[][..], &["--set", tiling_sink::ON]] {
        let c = Compiled::new(&text, option);
        let doc = c.document();
        let g = doc["graphs"][0]["nodes"].as_array().unwrap().iter().find(|n| n["name"] == "g").unwrap().clone();
        assert!(g["attrs"].get("_tiling_sink_op").is_none(), "{}", g["attrs"]);
        assert!(!c.tasks().iter().any(|t| t.starts_with("PREPROCESS_KERNEL")), "{:#?}", c.tasks());
    }
}

/// `n` nodes of one input, each on a stream of its own; all are outputs.
fn fan(n: usize) -> String {
    let ops = ["Relu", "Neg", "Abs", "Square"];
    let nodes: String =
        (0..n).map(|i| format!("  %n{i} = {}(%x) {{_stream_label = \"s{i}\"}} : f32[8]\n", ops[i % 4])).collect();
    let outputs: Vec<String> = (0..n).map(|i| format!("%n{i}")).collect();
    format!("graph @main(%x: f32[8]) {{\n{nodes}  return {}\n}}\n", outputs.join(", "))
}

#[test]
fn a_node_that_waits_for_more_streams_than_one_has_room_for() {
    let apart = ["--set", "ge.optimizationSwitch=CommonSubexpressionEliminationPass:off"];
    let full = "name = \"full\"\nbase = \"sim\"\ntasks_normal = 1024\nstreams_normal = 1024\n";
    let small = "name = \"small\"\nbase = \"sim\"\ntasks_normal = 64\nstreams_normal = 256\n";
    for (soc, n, more) in [(full, 600, 2), (full, 1000, 3), (small, 100, 7)] {
        for sync in ["", "notify"] {
            if sync == "notify" && n == 1000 {
                continue;
            }
            let c = Compiled::source(&fan(n));
            std::fs::write(c.path().join("soc.toml"), soc).unwrap();
            let event = format!("ge.event={sync}");
            c.compile(&[UNFUSED, &apart, &["--soc", "./soc.toml", "--set", &event]].concat());
            let doc = c.document();
            let nodes = doc["graphs"][0]["nodes"].as_array().unwrap();
            let waits = nodes.iter().filter(|n| n["type"] == "StreamActive").count();
            assert_eq!(waits, more, "{n} streams, {sync}");
            let limit = if n == 100 { 64 } else { 1024 };
            let items = doc["streams"]["items"].as_array().unwrap();
            assert!(items.iter().all(|s| s["tasks"].as_u64().unwrap() <= limit), "{n}");
            let v: Vec<f32> = (0..8).map(|i| i as f32 - 4.0).collect();
            let out = the_same_under(&c, &[f32s(&[8], &v)], 2);
            for (i, o) in out.iter().enumerate() {
                let f = [|x: f32| x.max(0.0), |x: f32| -x, |x: f32| x.abs(), |x: f32| x * x][i % 4];
                let want: Vec<u8> = v.iter().flat_map(|x| f(*x).to_le_bytes()).collect();
                assert_eq!(o, &want, "output {i}");
            }
        }
    }
}

/// A node without a task whose output nobody writes would give whatever is in its memory.
#[test]
fn no_task_where_the_node_computes_something_is_the_users_mistake() {
    for (attributes, op) in [
        ("_no_task = true", "Abs"),
        ("_no_task = true, _output_reuse_input = true, _nopadding_continuous_input = true", "Abs"),
        ("_no_task = true", "SoftmaxV2"),
    ] {
        let text = format!(
            "graph @main(%x: f32[4]) {{\n  %a = {op}(%x) {{{attributes}}} : f32[4]\n  %b = Neg(%a) : f32[4]\n  return %b\n}}\n"
        );
        let err = Compiled::source(&text).refusal(2, &[]);
        assert!(err.contains("GE-E0325") && err.contains(&format!("`a` ({op}) has `_no_task`")), "{err}");
    }
}

/// What a text says about streams in attributes of the plan is not taken for the plan.
#[test]
fn attributes_that_the_file_has_for_the_plan_do_not_come_from_the_graph() {
    for value in ["\"x\"", "[7]", "f16", "99999999999"] {
        let text = format!(
            "graph @main(%x: f32[4]) {{\n  %a = Abs(%x) {{_attached_stream_ids = {value}}} : f32[4]\n  return %a\n}}\n"
        );
        let c = Compiled::new(&text, &[]);
        let r = run(&c.load(&[]), &[f32s(&[4], &[-1.0, 2.0, -3.0, 0.5])]).unwrap();
        assert_eq!(to_f32(&r.outputs[0]), [1.0, 2.0, 3.0, 0.5], "{value}");
    }
}

/// No device has streams without tasks.
#[test]
fn a_node_without_a_task_gets_no_attached_stream() {
    let asks =
        "_attached_stream_info_list = [{_attached_resource_name = \"t\", _attached_resource_required_flag = true}]";
    for body in [
        format!("  %s = Reshape(%a) {{shape = [2,2], {asks}}} : f32[2,2]\n  %m = Neg(%s) : f32[2,2]\n"),
        format!(
            "  %s = PhonySplit(%a) {{num_split = [1], split_dim = [0], {asks}}} : f32[4]\n  %m = Neg(%s) : f32[4]\n"
        ),
    ] {
        let c = Compiled::new(
            &format!("graph @main(%x: f32[4]) {{\n  %a = Abs(%x) : f32[4]\n{body}  return %m\n}}\n"),
            UNFUSED,
        );
        let r = run(&c.load(&[]), &[f32s(&[4], &[-1.0, 2.0, -3.0, 0.5])]).unwrap();
        assert_eq!(to_f32(&r.outputs[0]), [-1.0, -2.0, -3.0, -0.5]);
    }
}
