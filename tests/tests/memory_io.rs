//! Memory of the caller that a plan may use: inputs that are overwritten, outputs that are used
//! before they are written, outputs in the memory of an input. The numbers are the same with less
//! device memory, there is no race, and every use beyond what is lent is detected.
use ge::options::OptionMap;
use ge::session::{Compiled, Model, Session, SessionOptions, import};
use ge_compiler::pipeline::Silent;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_runtime::RunOptions;
use ge_tests::root;
use std::path::Path;

fn session(schedule: &str) -> Session {
    let pairs = [("check_races", "true"), ("schedule", schedule)];
    let device_options = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let plugins = Some(root().join("plugins.toml"));
    Session::new(SessionOptions { plugins, device_options, ..SessionOptions::default() }).expect("our plugins load")
}
#[track_caller]
fn compile(s: &Session, text: &str, set: &[(&str, &str)]) -> Compiled {
    let graph = import::parse_text(Path::new("m.ge"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut options = OptionMap::default();
    for (k, v) in set {
        options.set(k, v, "a test").expect("a known option");
    }
    s.compile("m", graph, &options, &Silent).unwrap_or_else(|e| panic!("{e}\n{text}"))
}
fn load(s: &Session, c: &Compiled) -> Model {
    s.load(c.model.clone()).expect("loads")
}
fn bytes(t: &[HostTensor]) -> Vec<Vec<u8>> {
    t.iter().map(|t| t.bytes().to_vec()).collect()
}
/// Bytes that the device provides in addition to the caller's memory.
fn arena(c: &Compiled) -> u64 {
    c.model.memory.spaces.iter().map(|s| s.size - s.zero_copy).sum()
}

const INPUTS: &str = "ge.exec.inputReuseMemIndexes";
const OUTPUTS: &str = "ge.exec.outputReuseMemIndexes";
const PAIRS: &str = "ge.exec.outputReuseInputMemIndexes";

const CHAIN: &str = "graph @main(%x: f32[64,64], %y: f32[64,64]) {
  %a = MatMul(%x, %y) : f32[64,64]
  %b = MatMul(%a, %y) : f32[64,64]
  %c = MatMul(%b, %a) : f32[64,64]
  %d = MatMul(%c, %b) : f32[64,64]
  return %d
}";
/// Three branches, two of them on streams of their own.
const BRANCHES: &str = "graph @main(%x: f32[64,64], %y: f32[64,64]) {
  %a = MatMul(%x, %y) : f32[64,64]
  %b = MatMul(%a, %x) : f32[64,64]
  %c = MatMul(%a, %y) {_stream_label = \"one\"} : f32[64,64]
  %d = MatMul(%c, %c) {_stream_label = \"one\"} : f32[64,64]
  %e = MatMul(%a, %a) {_stream_label = \"two\"} : f32[64,64]
  %f = MatMul(%b, %d) : f32[64,64]
  %g = MatMul(%f, %e) : f32[64,64]
  return %g
}";

#[test]
fn lent_memory_gives_the_same_numbers_in_less_of_the_devices() {
    for seed in 0..4 {
        let s = session(&format!("random:{seed}"));
        for text in [CHAIN, BRANCHES] {
            let plain = compile(&s, text, &[]);
            let want = bytes(&load(&s, &plain).run_random(seed).expect("runs"));
            for set in [vec![(INPUTS, "0")], vec![(OUTPUTS, "0")], vec![(INPUTS, "0,1"), (OUTPUTS, "0")]] {
                let lent = compile(&s, text, &set);
                // With branches that are live at once, few values begin after the last reader of an
                // input.
                let less = if text == CHAIN || set.len() > 1 { arena(&plain) - 1 } else { arena(&plain) };
                assert!(arena(&lent) <= less, "{set:?}: {} of {}\n{text}", arena(&lent), arena(&plain));
                let m = load(&s, &lent);
                let inputs = m.random_inputs(seed).expect("inputs");
                // Lent for reading only: what the plan overwrites is copied, so that the same
                // inputs can be given again.
                for _ in 0..2 {
                    assert_eq!(bytes(&m.run(&inputs).expect("runs")), want, "{set:?}\n{text}");
                }
                let given = m.run_owned(inputs, RunOptions::default()).expect("runs");
                assert_eq!((bytes(&given.outputs), given.copied_inputs), (want.clone(), 0), "{set:?}\n{text}");
            }
        }
    }
}

#[test]
fn an_input_that_is_written_over_is_copied_for_a_caller_who_keeps_it() {
    let s = session("fifo");
    let c = compile(&s, CHAIN, &[(INPUTS, "0")]);
    let m = load(&s, &c);
    let inputs = m.random_inputs(5).expect("inputs");
    let before = bytes(&inputs);
    let views: Vec<TensorView<'_>> = inputs.iter().map(HostTensor::view).collect();
    let run = m.run_views(&views, RunOptions::default()).expect("runs");
    assert_eq!((run.copied_inputs, bytes(&inputs)), (1, before));
}

#[test]
fn what_a_model_writes_to_a_reference_is_seen_by_a_caller_who_lends_it_to_be_written() {
    let text = "graph @main(%y: f32[4]) {
  %x = RefData() {index = 1} : f32[4]
  %n = Add(%x, %y) : f32[4]
  %w = Assign(%x, %n) : f32[4]
  %r = Neg(%w) : f32[4]
  return %r
}";
    for seed in 0..8 {
        let s = session(&format!("random:{seed}"));
        let m = load(&s, &compile(&s, text, &[]));
        let of = |v: [f32; 4]| {
            let raw: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
            HostTensor::from_bytes(ge_plugin_api::types::DType::F32, &[4], &raw).expect("a tensor")
        };
        let mut inputs = [of([1.0, 2.0, 3.0, 4.0]), of([10.0, 20.0, 30.0, 40.0])];
        let before = bytes(&inputs);
        // Lent for reading only, the reference stays as it is.
        let seen = m.run(&inputs).expect("runs");
        assert_eq!((bytes(&inputs), bytes(&seen)), (before, bytes(&[of([-11.0, -22.0, -33.0, -44.0])])));
        for k in 1u8..4 {
            let run = m.run_mut(&mut inputs, RunOptions::default()).expect("runs");
            let now = [1.0f32, 2.0, 3.0, 4.0].map(|v| v * (10.0 + f32::from(k)));
            assert_eq!(bytes(&inputs), bytes(&[of([1.0, 2.0, 3.0, 4.0]), of(now)]));
            assert_eq!((bytes(&run.outputs), run.copied_inputs), (bytes(&[of(now.map(|v| -v))]), 0));
        }
    }
}

#[test]
fn an_output_in_an_inputs_memory_has_the_same_numbers() {
    let early = "graph @main(%x: f32[32,32], %y: f32[32,32]) {
  %a = MatMul(%y, %y) : f32[32,32]
  %b = MatMul(%x, %a) {_stream_label = \"side\"} : f32[32,32]
  return %a, %b
}";
    let itself = "graph @main(%x: f32[32,32], %y: f32[32,32]) {
  %a = MatMul(%x, %y) : f32[32,32]
  return %x, %a
}";
    for seed in 0..4 {
        let s = session(&format!("random:{seed}"));
        for text in [CHAIN, BRANCHES, early, itself] {
            let want = bytes(&load(&s, &compile(&s, text, &[])).run_random(seed).expect("runs"));
            let paired = compile(&s, text, &[(PAIRS, "0,0")]);
            let dir = tempfile::tempdir().expect("a folder");
            let om = dir.path().join("m.om");
            paired.write_om(&om).expect("written");
            for m in [load(&s, &paired), s.load_om(&om).expect("loads")] {
                let inputs = m.random_inputs(seed).expect("inputs");
                assert_eq!(bytes(&m.run(&inputs).expect("runs")), want, "{text}");
                let at = inputs[0].bytes().as_ptr();
                let given = m.run_owned(inputs, RunOptions::default()).expect("runs");
                assert_eq!(bytes(&given.outputs), want, "{text}");
                assert_eq!(given.outputs[0].bytes().as_ptr(), at, "the output has the input's address");
            }
        }
    }
}

#[test]
fn what_is_not_lent_is_not_used() {
    let s = session("fifo");
    for (set, option) in [((INPUTS, "0"), INPUTS), ((OUTPUTS, "0"), OUTPUTS)] {
        let lent = compile(&s, CHAIN, &[set]);
        ge_proof::check(&lent.model).expect("a plan that holds");
        let mut broken = lent.model.clone();
        broken.options.remove(option);
        let found = ge_proof::check(&broken);
        assert!(matches!(found, Err(ge_proof::PlanFault::Overlap { .. })), "{option}: {found:?}");
    }
    // A value in an input that is still read.
    let lent = compile(&s, CHAIN, &[(INPUTS, "0,1")]);
    let nodes = &lent.model.graphs[0].nodes;
    let at = |name: &str| nodes.iter().position(|n| n.name == name).expect("a node");
    let (a, y) = (at("a"), at("y"));
    let mut broken = lent.model.clone();
    broken.graphs[0].nodes[a].slots[0] = nodes[y].slots[0];
    let found = ge_proof::check(&broken);
    assert!(matches!(found, Err(ge_proof::PlanFault::Overlap { .. })), "{found:?}");
}

#[test]
fn a_large_feature_map_is_allocated_in_pieces() {
    let n = 54_525_952u64; // 208 MiB
    let text = format!(
        "graph @main(%x: f32[{n}]) {{
  %a = Neg(%x) : f32[{n}]
  %b = Neg(%a) : f32[{n}]
  %c = Neg(%b) : f32[{n}]
  %d = Neg(%c) : f32[{n}]
  return %d
}}"
    );
    let plugins = Some(root().join("plugins.toml"));
    let s = Session::new(SessionOptions { plugins, ..SessionOptions::default() }).expect("our plugins load");
    let c = compile(&s, &text, &[("ge.x.auto_fusion", "false")]);
    let hbm = &c.model.memory.spaces[0];
    assert_eq!(hbm.pieces, [0, n * 4 + 512], "two values of 208 MiB live at once");
    let nodes = &c.model.graphs[0].nodes;
    let offsets: std::collections::BTreeSet<u64> =
        nodes.iter().filter(|n| n.op == "Neg" && n.name != "d").map(|n| n.slots[0].offset).collect();
    assert_eq!(offsets.into_iter().collect::<Vec<_>>(), hbm.pieces, "both pieces are in use");
    let mut x = HostTensor::zeroed(ge_plugin_api::types::DType::F32, &[n]).expect("memory");
    for (k, v) in x.bytes_mut().chunks_exact_mut(4).enumerate().step_by(1 << 20) {
        v.copy_from_slice(&(k as f32).to_le_bytes());
    }
    let want = bytes(std::slice::from_ref(&x));
    let out = load(&s, &c).run_owned(vec![x], RunOptions::default()).expect("runs");
    assert!(out.outputs[0].bytes().iter().zip(&want[0]).all(|(a, b)| a == b || (*a == 0x80 && *b == 0)));
    // A damaged list of pieces is refused.
    for pieces in [vec![0, 0], vec![512, 1024], vec![0, u64::MAX]] {
        let mut broken = c.model.clone();
        broken.memory.spaces[0].pieces = pieces;
        let dir = tempfile::tempdir().expect("a folder");
        let om = dir.path().join("m.om");
        Compiled { model: broken, ..Compiled::default() }.write_om(&om).expect("written");
        assert!(s.load_om(&om).is_err());
    }
}
