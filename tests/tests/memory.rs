//! Memory plans of whole models: values that persist, operators without a task compared with the
//! same ones with a task, and plans broken on purpose.
use ge::options::OptionMap;
use ge::session::{Compiled, Model, Session, SessionOptions, import};
use ge_compiler::pipeline::Silent;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::{expect_code, root};
use std::path::Path;

fn session(device: &[(&str, &str)]) -> Session {
    let device_options = device.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let plugins = Some(root().join("plugins.toml"));
    Session::new(SessionOptions { plugins, device_options, ..SessionOptions::default() }).expect("our plugins load")
}
fn options(pairs: &[(&str, &str)]) -> OptionMap {
    let mut o = OptionMap::default();
    for (k, v) in pairs {
        o.set(k, v, "a test").expect("a known option");
    }
    o
}
#[track_caller]
fn compile(s: &Session, text: &str, set: &[(&str, &str)]) -> Compiled {
    let graph = import::parse_text(Path::new("m.ge"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    s.compile("m", graph, &options(set), &Silent).unwrap_or_else(|e| panic!("{e}\n{text}"))
}
/// Gives each node a value of its own: nothing is fused.
const UNFUSED: &[(&str, &str)] = &[("ge.x.auto_fusion", "false")];

fn load(s: &Session, c: &Compiled) -> Model {
    s.load(c.model.clone()).expect("loads")
}
fn floats(values: &[f32], dims: &[u64]) -> HostTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).expect("a tensor")
}
fn bytes(t: &[HostTensor]) -> Vec<Vec<u8>> {
    t.iter().map(|t| t.bytes().to_vec()).collect()
}
/// Number of tasks that do work: kernels and copies.
fn work(c: &Compiled) -> usize {
    c.model.tasks.iter().filter(|t| t.args_format.contains("{o")).count()
}
/// Bytes that these tasks write.
fn moved(c: &Compiled) -> u64 {
    let writers = c.model.tasks.iter().filter(|t| t.args_format.contains("{o"));
    let nodes = writers.filter_map(|t| c.model.node(t.graph, t.node));
    nodes.flat_map(|n| n.outputs.iter().filter_map(|d| d.data_bytes())).sum()
}

#[test]
fn a_variable_keeps_its_value_between_the_runs_of_one_loaded_model() {
    let text = "graph @main(%x: f32[8]) {
  %v = Variable() {init_value = dense<f32[8]: splat 1.5>} : f32[8]
  %z = Variable() : f32[8]
  %a = AssignAdd(%v, %x) : f32[8]
  %b = AssignAdd(%z, %x) : f32[8]
  %r = Relu(%a) : f32[8]
  %q = Relu(%b) : f32[8]
  return %r, %q
}";
    let s = session(&[("check_races", "true")]);
    let c = compile(&s, text, &[]);
    assert!(c.model.memory.variables >= 1024);
    let x = [floats(&[2.0; 8], &[8])];
    let dir = tempfile::tempdir().expect("a folder");
    let om = dir.path().join("m.om");
    c.write_om(&om).expect("written");
    for from_file in [false, true] {
        // Models of one session share their variables; here each one starts anew.
        s.variables().clear();
        let m = if from_file { s.load_om(&om).expect("loads") } else { load(&s, &c) };
        for run in 1..=3 {
            let out = m.run(&x).expect("runs");
            let want = |v: f32| floats(&[v; 8], &[8]).bytes().to_vec();
            assert_eq!(bytes(&out), [want(1.5 + 2.0 * run as f32), want(2.0 * run as f32)], "run {run}");
        }
    }
    // A second load goes on where the first one ended; another session starts anew.
    let out = load(&s, &c).run(&x).expect("runs");
    assert_eq!(out[0].bytes(), floats(&[9.5; 8], &[8]).bytes());
    let out = load(&session(&[]), &c).run(&x).expect("runs");
    assert_eq!(out[0].bytes(), floats(&[3.5; 8], &[8]).bytes());
}

const OFF: (&str, &str) = ("ge.optimizationSwitch", "ConcatNotaskPass:off;PackNotaskPass:off");

/// A concat or pack of each kind that can do without a task, with the number of tasks that it
/// saves.
const TAKEN: &[(&str, usize)] = &[
    (
        "graph @main(%x: f16[2,16], %y: f16[3,16]) {
  %a = Relu(%x) : f16[2,16]
  %b = Relu(%y) : f16[3,16]
  %c = ConcatD(%a, %b) {concat_dim = 0} : f16[5,16]
  %r = Relu(%c) : f16[5,16]
  return %r
}",
        1,
    ),
    (
        "graph @main(%x: f32[1,1,2,8], %y: f32[1,1,3,8]) {
  %a = Relu(%x) : f32[1,1,2,8]
  %b = Relu(%y) : f32[1,1,3,8]
  %c = ConcatV2D(%a, %b) {concat_dim = -2} : f32[1,1,5,8]
  return %c
}",
        1,
    ),
    (
        "graph @main(%x: f32[3,5]) {
  %a = Relu(%x) : f32[3,5]
  %c = ConcatD(%a) {concat_dim = 0} : f32[3,5]
  %r = Relu(%c) : f32[3,5]
  return %r
}",
        1,
    ),
    (
        "graph @main(%x: f32[2,8], %y: f32[2,8]) {
  %a = Relu(%x) : f32[2,8]
  %b = Relu(%y) : f32[2,8]
  %v = Reshape(%a) {shape = [1,16]} : f32[1,16]
  %w = Reshape(%b) {shape = [1,16]} : f32[1,16]
  %c = ConcatD(%v, %w) {concat_dim = 0} : f32[2,16]
  %q = Relu(%a) : f32[2,8]
  %r = Relu(%c) : f32[2,16]
  return %r, %q, %c
}",
        1,
    ),
    (
        "graph @main(%x: f32[1,16,3,5]@NCHW, %y: f32[1,32,3,5]@NCHW) {
  %a = Relu(%x) : f32[1,16,3,5]@NCHW
  %b = Relu(%y) : f32[1,32,3,5]@NCHW
  %c = ConcatD(%a, %b) {concat_dim = 1} : f32[1,48,3,5]@NCHW
  %r = Relu(%c) : f32[1,48,3,5]@NCHW
  return %r
}",
        1,
    ),
    (
        "graph @main(%x: f32[1,2,5,16]@NHWC, %y: f32[1,4,5,16]@NHWC) {
  %a = Relu(%x) : f32[1,2,5,16]@NHWC
  %b = Relu(%y) : f32[1,4,5,16]@NHWC
  %c = ConcatD(%a, %b) {concat_dim = 1} : f32[1,6,5,16]@NHWC
  %r = Relu(%c) : f32[1,6,5,16]@NHWC
  return %r
}",
        1,
    ),
    (
        "graph @main(%x: f32[1,16], %y: f32[1,16], %z: f32[1,16]) {
  %a = Relu(%x) : f32[1,16]
  %b = Relu(%y) : f32[1,16]
  %d = Relu(%z) : f32[1,16]
  %p = Pack(%a, %b, %d) {axis = 1} : f32[1,3,16]
  %r = Relu(%p) : f32[1,3,16]
  return %r
}",
        1,
    ),
];

#[test]
fn a_concat_without_a_task_gives_the_same_bits_and_moves_less() {
    let s = session(&[("check_races", "true"), ("schedule", "random:5")]);
    for (text, saved) in TAKEN {
        let (on, off) = (compile(&s, text, &[]), compile(&s, text, &[OFF]));
        assert_eq!(work(&on) + saved, work(&off), "{text}");
        assert!(moved(&on) < moved(&off), "{text}");
        for seed in 0..3 {
            let a = load(&s, &on).run_random(seed).expect("runs");
            let b = load(&s, &off).run_random(seed).expect("runs");
            assert_eq!(bytes(&a), bytes(&b), "{text}");
        }
    }
}

const PIPELINE: &str = "graph @main(%x: f32[6,8]) {
  %s = SplitD(%x) {num_split = 3, split_dim = 0} : f32[2,8], f32[2,8], f32[2,8]
  %r0 = Relu(%s) : f32[2,8]
  %r1 = Sigmoid(%s#1) : f32[2,8]
  %r2 = Relu(%s#2) : f32[2,8]
  %c = ConcatD(%r0, %r1, %r2) {N = 3, concat_dim = 0} : f32[6,8]
  return %c
}";

#[test]
fn split_compute_concat_has_no_copy() {
    let s = session(&[("check_races", "true"), ("schedule", "random:9")]);
    let c = compile(&s, PIPELINE, &[]);
    assert_eq!(work(&c), 3, "three kernels, no split, no concat, no copy");
    let node = |name: &str| c.model.graphs[0].nodes.iter().find(|n| n.name == name).expect("kept");
    assert!(node("s").attrs.flag("_no_task") && node("c").attrs.flag("_no_task"));
    let at = |k: usize| node("s").slots[k].offset - node("s").slots[0].offset;
    assert_eq!([at(0), at(1), at(2)], [0, 64, 128]);
    let x: Vec<f32> = (0..48).map(|i| i as f32 - 20.0).collect();
    let out = load(&s, &c).run(&[floats(&x, &[6, 8])]).expect("runs");
    let want = |i: usize, v: f32| if (16..32).contains(&i) { 1.0 / (1.0 + (-v).exp()) } else { v.max(0.0) };
    for (i, (b, v)) in out[0].bytes().chunks_exact(4).zip(&x).enumerate() {
        let got = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        assert!((got - want(i, *v)).abs() < 1e-6, "element {i}: {got}");
    }
    // With refreshable addresses, the input is copied once before it is split.
    let refreshed = compile(&s, PIPELINE, &[("ge.featureBaseRefreshable", "1")]);
    assert_eq!(work(&refreshed), 4);
    let again = load(&s, &refreshed).run(&[floats(&x, &[6, 8])]).expect("runs");
    assert_eq!(bytes(&again), bytes(&out));
}

#[test]
fn a_node_without_a_task_is_dumped_and_listed() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("m.ge"), PIPELINE).expect("written");
    expect_code(dir.path(), 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    expect_code(dir.path(), 0, &["run", "m.om", "--random", "3", "--dump-tensors", "d", "--outputs", "o", "-q"]);
    for name in ["s_0", "s_1", "s_2", "c_0"] {
        assert!(dir.path().join(format!("d/{name}.npy")).is_file(), "{name} is not dumped");
    }
    let (dumped, given) = (dir.path().join("d/c_0.npy"), dir.path().join("o/output_0.npy"));
    assert_eq!(std::fs::read(dumped).expect("read"), std::fs::read(given).expect("read"));
    let out = expect_code(dir.path(), 0, &["inspect", "m.om", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let nodes = doc["graphs"][0]["nodes"].as_array().expect("nodes");
    let c = nodes.iter().find(|n| n["name"] == "c").expect("listed");
    assert_eq!((&c["no_task"], &c["type"]), (&serde_json::json!(true), &serde_json::json!("ConcatD")));
    assert!(c["outputs"][0]["offset"].is_u64() && c["outputs"][0]["shape"] == serde_json::json!([6, 8]));
}

#[test]
fn a_refused_concat_says_why_in_inspect() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = "graph @main(%x: f32[2,16], %y: f32[2,16]) {
  %a = Relu(%x) : f32[2,16]
  %c = ConcatD(%a, %y) {concat_dim = 0} : f32[4,16]
  return %c
}";
    std::fs::write(dir.path().join("m.ge"), text).expect("written");
    expect_code(dir.path(), 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let out = expect_code(dir.path(), 0, &["inspect", "m.om", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let nodes = doc["graphs"][0]["nodes"].as_array().expect("nodes");
    let c = nodes.iter().find(|n| n["name"] == "c").expect("listed");
    assert_eq!(c["refusals"]["ConcatNotaskPass"], "input 1 comes from `y` (Data)");
}

#[test]
fn memory_of_each_type_and_cleared_memory_run() {
    let text = "graph @main(%x: f32[128]) {
  %clean = AtomicAddrClean() : ()
  %a = Relu(%x) : f32[128]{memory = \"P2P\"}
  %b = Sigmoid(%a) {atomic_output_index = [0]} after(%clean) : f32[128]
  %d = Relu(%b) {_output_memory_type = [\"HOST\"]} : f32[128]
  %r = Add(%d, %b) : f32[128]
  return %r
}";
    let s = session(&[("check_races", "true")]);
    let c = compile(&s, text, UNFUSED);
    let spaces: Vec<&str> = c.model.memory.spaces.iter().map(|s| s.memory.as_str()).collect();
    assert_eq!(spaces, ["HBM", "P2P", "HOST"]);
    let node = |name: &str| c.model.graphs[0].nodes.iter().find(|n| n.name == name).expect("kept");
    let clear = c.model.tasks.iter().find(|t| c.model.node(t.graph, t.node).is_some_and(|n| n.name == "clean"));
    assert_eq!(clear.map(|t| t.args_format.as_str()), Some("{ws0*}"));
    assert_eq!(node("clean").workspaces[0].offset, node("b").slots[0].offset);
    assert_eq!(node("clean").workspaces[0].size, node("b").slots[0].size);
    let out = load(&s, &c).run(&[floats(&[0.0; 128], &[128])]).expect("runs");
    assert_eq!(out[0].bytes(), floats(&[1.0; 128], &[128]).bytes());
}

/// A random graph with all constraints mixed.
fn random_graph(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let mut text = String::from("graph @main(%x0: f32[2,8], %x1: f32[2,8], %x2: f32[2,8]) {\n");
    // Values by name and number of rows; each has 8 columns.
    let mut values: Vec<(String, u64)> = (0..3).map(|i| (format!("x{i}"), 2)).collect();
    let mut lines: Vec<String> =
        vec!["  %v0 = Variable() {init_value = dense<f32[2,8]: splat 0.5>} : f32[2,8]\n".into()];
    let mut assigned = false;
    for k in 0..24 + next(16) {
        let (a, rows) = values[next(values.len() as u64) as usize].clone();
        let same: Vec<String> = values.iter().filter(|v| v.1 == rows).map(|v| v.0.clone()).collect();
        let b = same[next(same.len() as u64) as usize].clone();
        let extra = match next(12) {
            0 => " {no_reuse_mem_flag = true}",
            1 => " {_buffer_pool_id = 1, _buffer_pool_size = 65536}",
            2 => " {_stream_label = \"side\"}",
            _ => "",
        };
        let memory = if next(9) == 0 { "{memory = \"P2P\"}" } else { "" };
        let line = match next(10) {
            0..=2 => format!("%n{k} = Relu(%{a}){extra} : f32[{rows},8]{memory}"),
            3 | 4 => format!("%n{k} = Add(%{a}, %{b}){extra} : f32[{rows},8]{memory}"),
            5 => {
                values.push((format!("n{k}"), rows * 2));
                lines.push(format!(
                    "  %n{k} = PhonyConcat(%{a}, %{b}) {{N = [2], concat_dim = [0]}} : f32[{},8]\n",
                    rows * 2
                ));
                continue;
            }
            6 => {
                let (c, more) = values[next(values.len() as u64) as usize].clone();
                values.push((format!("n{k}"), rows + more));
                lines.push(format!("  %n{k} = ConcatD(%{a}, %{c}) {{concat_dim = 0}} : f32[{},8]\n", rows + more));
                continue;
            }
            7 if rows % 2 == 0 => {
                let half = rows / 2;
                let op = if next(2) == 0 { "SplitD" } else { "PhonySplit" };
                let attrs =
                    if op == "SplitD" { "num_split = 2, split_dim = 0" } else { "num_split = [2], split_dim = [0]" };
                lines.push(format!("  %n{k} = {op}(%{a}) {{{attrs}}} : f32[{half},8], f32[{half},8]\n"));
                values.push((format!("n{k}"), half));
                values.push((format!("n{k}#1"), half));
                continue;
            }
            8 if !assigned && rows == 2 => {
                assigned = true;
                format!("%n{k} = AssignAdd(%v0, %{a}) : f32[2,8]")
            }
            8 => format!("%n{k} = AddN(%{a}, %{b}) {{N = 2, continuous_input = true}} : f32[{rows},8]"),
            _ => format!("%n{k} = Reshape(%{a}) {{shape = [{rows},8]}} : f32[{rows},8]"),
        };
        lines.push(format!("  {line}\n"));
        values.push((format!("n{k}"), rows));
    }
    text.extend(lines);
    let outputs: Vec<String> = (0..3).map(|_| format!("%{}", values[next(values.len() as u64) as usize].0)).collect();
    let last = values.last().map(|v| v.0.clone()).unwrap_or_default();
    text.push_str(&format!("  return {}, %{last}\n}}\n", outputs.join(", ")));
    text
}

/// The same graph without stream labels.
fn one_stream(text: &str) -> String {
    let mut out = text.to_owned();
    for label in ["side", "one", "two"] {
        out = out.replace(&format!(" {{_stream_label = \"{label}\"}}"), "");
    }
    out
}

fn rounds(short: u64, long: u64) -> u64 {
    if std::env::var("GE_LONG").is_ok_and(|v| v == "1") { long } else { short }
}

#[test]
fn random_graphs_with_all_constraints_hold_and_run_the_same() {
    for seed in 0..rounds(12, 400) {
        let text = random_graph(seed + 1);
        let s = session(&[("check_races", "true"), ("schedule", &format!("random:{seed}"))]);
        // Compilation proves the plan, or fails.
        let all = compile(&s, &text, &[]);
        let plain = compile(
            &s,
            &one_stream(&text),
            &[OFF, ("ge.exec.disableReuseMemory", "1"), ("ge.enableSingleStream", "true"), ("ge.oo.level", "O1")],
        );
        let a = load(&s, &all);
        s.variables().clear();
        let b = load(&s, &plain);
        for input in 0..2 {
            let (a, b) = (a.run_random(input), b.run_random(input));
            let a = a.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
            let b = b.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
            assert_eq!(bytes(&a), bytes(&b), "seed {seed}\n{text}");
        }
    }
}

/// Three branches on streams of their own that are live at once, and the nodes that join them.
const BRANCHES: &str = "graph @main(%x: f32[64]) {
  %a = Relu(%x) : f32[64]
  %b = Sigmoid(%a) : f32[64]
  %c = Tanh(%a) {_stream_label = \"one\"} : f32[64]
  %d = Exp(%a) {_stream_label = \"two\"} : f32[64]
  %e = Add(%b, %c) : f32[64]
  %f = Add(%e, %d) : f32[64]
  %r = Relu(%f) : f32[64]
  return %r
}";

#[test]
fn two_live_blocks_made_to_overlap_are_always_caught() {
    let s = session(&[]);
    for (single, text) in [(true, one_stream(BRANCHES)), (false, BRANCHES.to_owned())] {
        let c = compile(&s, &text, UNFUSED);
        let nodes = &c.model.graphs[0].nodes;
        let position = |name: &str| nodes.iter().position(|n| n.name == name).expect("a node");
        // Pairs of values that are needed at the same time, by a common reader or across one.
        for (one, other) in
            [("b", "c"), ("b", "d"), ("c", "d"), ("d", "e"), ("a", "b"), ("a", "d"), ("a", "c"), ("e", "d")]
        {
            let mut broken = c.model.clone();
            let at = broken.graphs[0].nodes[position(one)].slots[0].offset;
            broken.graphs[0].nodes[position(other)].slots[0].offset = at;
            let found = ge_proof::check(&broken);
            assert!(
                matches!(found, Err(ge_proof::PlanFault::Overlap { .. })),
                "single {single}: {one} {other}: {found:?}"
            );
        }
    }
}

#[test]
fn an_ordering_event_that_is_dropped_is_always_caught() {
    let s = session(&[]);
    let c = compile(&s, BRANCHES, &[]);
    let is_event = |k: u32| matches!(ge_plugin_api::task::TaskType(k).name(), "EVENT_RECORD" | "EVENT_WAIT");
    let ids: std::collections::BTreeSet<u32> =
        c.model.tasks.iter().filter(|t| is_event(t.kind)).filter_map(|t| t.sync_id).collect();
    assert!(c.model.streams.physical.len() >= 3 && !ids.is_empty(), "several streams need events");
    for id in ids {
        let mut broken = c.model.clone();
        broken.tasks.retain(|t| !(is_event(t.kind) && t.sync_id == Some(id)));
        assert!(ge_proof::check(&broken).is_err(), "event {id}");
    }
}

#[test]
fn parts_that_lie_wrong_are_always_caught() {
    let s = session(&[]);
    let c = compile(&s, PIPELINE, &[]);
    let nodes = &c.model.graphs[0].nodes;
    for name in ["s", "c"] {
        let i = nodes.iter().position(|n| n.name == name).expect("a node");
        for k in 0..nodes[i].slots.len() {
            let mut broken = c.model.clone();
            broken.graphs[0].nodes[i].slots[k].offset += 32;
            let found = ge_proof::check(&broken);
            assert!(matches!(found, Err(ge_proof::PlanFault::Place { .. })), "{name}#{k}: {found:?}");
        }
    }
}

#[test]
fn a_value_that_is_written_over_before_its_readers_are_over_is_always_caught() {
    let s = session(&[]);
    // Every value has a place of its own, so that nothing else is wrong with a plan.
    let apart = [UNFUSED, &[("ge.exec.disableReuseMemory", "1")]].concat();
    // Checks a plan in which a node's output lies over its first input.
    let over = |c: &Compiled, name: &str| {
        let mut m = c.model.clone();
        let nodes = &mut m.graphs[0].nodes;
        let i = nodes.iter().position(|n| n.name == name).expect("a node");
        let v = nodes[i].inputs[0].expect("an input");
        nodes[i].slots[0] =
            ge_model::SlotInfo { ref_input: Some(0), ..nodes[v.node as usize].slots[v.output as usize] };
        ge_proof::check(&m)
    };
    let caught = |found: Result<(), ge_proof::PlanFault>, reader: &str, writer: &str| {
        let names = matches!(&found, Err(ge_proof::PlanFault::Overlap { first, second, .. })
            if first == reader && second == writer);
        assert!(names, "{reader} {writer}: {found:?}");
    };
    let text = "graph @main(%x: f32[256]) {
  %a = Tanh(%x) : f32[256]
  %b = Relu(%a) : f32[256]
  %c = Add(%a, %b) : f32[256]
  %d = Greater(%c, %x) : bool[256]
  return %d
}
";
    let c = compile(&s, &one_stream(text), &apart);
    caught(over(&c, "b"), "c", "b");
    assert_eq!(over(&c, "c"), Ok(()), "all that read it are over");
    // Readers on two streams: neither of them has ended when the other starts.
    let text = "graph @main(%x: f32[256]) {
  %a = Tanh(%x) : f32[256]
  %b = Relu(%a) {_stream_label = \"s\"} : f32[256]
  %c = Neg(%a) : f32[256]
  %d = Add(%b, %c) : f32[256]
  %e = Greater(%d, %x) : bool[256]
  return %e
}
";
    let c = compile(&s, text, &apart);
    caught(over(&c, "b"), "c", "b");
    caught(over(&c, "c"), "b", "c");
    // A node that is ordered after both of them may write over the value.
    assert_eq!(over(&c, "d"), Ok(()));
}

#[test]
fn races_are_found_in_a_plan_broken_on_purpose_and_in_no_other() {
    let schedules = rounds(3, 50);
    let quiet = session(&[]);
    let c = compile(&quiet, BRANCHES, UNFUSED);
    for seed in 0..schedules {
        let s = session(&[("check_races", "true"), ("schedule", &format!("random:{seed}"))]);
        load(&s, &c).run_random(seed).expect("a plan that holds has no race");
        // Two values that are needed at the same time share one place.
        let mut broken = c.model.clone();
        let nodes = &mut broken.graphs[0].nodes;
        let position =
            |nodes: &[ge_model::NodeInfo], name: &str| nodes.iter().position(|n| n.name == name).expect("a node");
        let (b, d) = (position(nodes, "b"), position(nodes, "d"));
        nodes[d].slots[0].offset = nodes[b].slots[0].offset;
        let run = s.load(broken).and_then(|m| m.run_random(seed));
        assert!(run.is_err(), "schedule {seed}: a race was not seen");
    }
}

/// Each text writes over `%a`, or over what lies in its bytes; others read these bytes under another
/// name, some after the write.
const OVERWRITTEN: &[(&str, &str)] = &[
    (
        "two views",
        "  %a = Abs(%x) : f32[16]
  %s = Reshape(%a) {shape = [2,8]} : f32[2,8]
  %t = Reshape(%a) {shape = [4,4]} : f32[4,4]
  %k = Const() {value = dense<f32[2,8]: splat 7>} : f32[2,8]
  %w = AssignAdd(%s, %k) : f32[2,8]
  %r = Neg(%t) after(%w) : f32[4,4]
  return %r, %w",
    ),
    (
        "the whole of parts",
        "  %a = Abs(%x) : f32[16]
  %b = Relu(%x) : f32[16]
  %c = PhonyConcat(%a, %b) {N = [2], concat_dim = [0]} : f32[32]
  %k = Const() {value = dense<f32[32]: splat 7>} : f32[32]
  %w = AssignAdd(%c, %k) : f32[32]
  %r = Neg(%a) after(%w) : f32[16]
  return %r, %w",
    ),
    (
        "a part of a whole",
        "  %a = Abs(%x) : f32[16]
  %s = PhonySplit(%a) {num_split = [2], split_dim = [0]} : f32[8], f32[8]
  %k = Const() {value = dense<f32[8]: splat 7>} : f32[8]
  %w = AssignAdd(%s#1, %k) : f32[8]
  %r = Neg(%a) after(%w) : f32[16]
  return %r, %w",
    ),
    (
        "a part of an output",
        "  %a = Abs(%x) : f32[16]
  %s = SplitD(%a) {num_split = 2, split_dim = 0} : f32[8], f32[8]
  %w = AssignAdd(%s#1, %s) : f32[8]
  return %a, %w",
    ),
];

#[test]
fn a_value_that_others_read_under_any_name_keeps_it_when_it_is_written_over() {
    let x: Vec<f32> = (0..16).map(|i| i as f32 - 8.0).collect();
    let s = session(&[("check_races", "true")]);
    for (what, body) in OVERWRITTEN {
        let text = format!("graph @main(%x: f32[16]) {{\n{body}\n}}\n");
        for set in [&[][..], &[("ge.oo.level", "O1")], &[("ge.x.stream_mode", "parallel:3")]] {
            let c = compile(&s, &text, set);
            let out = load(&s, &c).run(&[floats(&x, &[16])]).expect("runs");
            let first: Vec<f32> =
                out[0].bytes().chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect();
            let sign = if body.contains("return %a") { 1.0 } else { -1.0 };
            let want: Vec<f32> = x.iter().map(|v| sign * v.abs()).collect();
            assert_eq!(first, want, "{what}, {set:?}");
        }
    }
}

/// The proof finds by itself that a part which is written over is read as a whole.
#[test]
fn a_plan_that_writes_over_what_is_still_read_is_refused() {
    let text = "graph @main(%x: f32[16]) {
  %a = Abs(%x) : f32[16]
  %s = PhonySplit(%a) {num_split = [2], split_dim = [0]} : f32[8], f32[8]
  %k = Const() {value = dense<f32[8]: splat 7>} : f32[8]
  %r = Neg(%a) : f32[16]
  %w = AssignAdd(%s#1, %k) after(%r) : f32[8]
  %q = Neg(%w) : f32[8]
  return %r, %q
}";
    let s = session(&[]);
    let c = compile(&s, text, UNFUSED);
    assert_eq!(ge_proof::check(&c.model), Ok(()));
    assert!(c.model.graphs[0].nodes.iter().all(|n| n.op != "Identity"), "the reader comes first, nothing is copied");
    // The same plan, in which the whole is also an output.
    let mut m = c.model.clone();
    let g = &mut m.graphs[0];
    let at = |name: &str| g.nodes.iter().position(|n| n.name == name).expect("a node") as u32;
    let (a, end) = (at("a"), g.nodes.iter().position(|n| n.op == "NetOutput").expect("outputs"));
    let value = g.nodes.iter().flat_map(|n| n.inputs.iter().flatten()).find(|v| v.node == a).copied();
    g.nodes[end].inputs.push(value);
    let fault = ge_proof::check(&m).expect_err("it is written over");
    assert!(fault.to_string().contains("`w`"), "{fault}");
}
