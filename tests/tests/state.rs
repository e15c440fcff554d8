//! State: variables in other layouts, across calls, stage levels, branches and loops, through the
//! real binary; and what a session holds of them, also in training.
use ge::graph_manager::GraphManager;
use ge::options::OptionMap;
use ge::session::{Session, SessionOptions, import};
use ge_compiler::pipeline::Silent;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{Blob, ConstTensor, DType};
use ge_tests::{expect_code, root};
use std::path::Path;

/// The numbers that `ge run` prints for each output of a text graph; some random schedules must
/// give the same.
#[track_caller]
fn outputs(text: &str, flags: &[&str]) -> Vec<Vec<f64>> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.ge"), text).unwrap();
    let first = run(dir.path(), flags);
    for seed in 0..4 {
        let schedule = format!("schedule=random:{seed}");
        let more = ["--device-option", schedule.as_str(), "--device-option", "check_races=true"];
        assert_eq!(run(dir.path(), &[flags, &more].concat()), first, "{schedule}");
    }
    first
}
#[track_caller]
fn run(dir: &Path, flags: &[&str]) -> Vec<Vec<f64>> {
    let out = expect_code(dir, 0, &[&["run", "m.ge"], flags].concat());
    let text = String::from_utf8(out.stdout).unwrap();
    let numbers = |l: &str| l.split(" = ").nth(1).unwrap().split(' ').map(|v| v.parse().unwrap()).collect();
    text.lines().map(numbers).collect()
}

#[test]
fn a_variable_with_an_initial_value_keeps_its_layout() {
    let text = "graph @main() {
  %v = Variable() {init_value = dense<f32[2,3]: 1 2 3 4 5 6>} : f32[2,3]
  %z = Const() {value = dense<f32[1]: 0>} : f32[1]
  %t = TransposeD(%v) {perm = [1, 0]} : f32[3,2]
  %y = Add(%t, %z) : f32[3,2]
  return %y
}";
    assert_eq!(outputs(text, &[]), [[1., 4., 2., 5., 3., 6.]]);
}

#[test]
fn what_waits_for_a_call_waits_for_all_that_its_body_does() {
    let call = "graph @main(){
  %x = Const() {value = dense<f32[2]: 1 2>} : f32[2]
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %c = PartitionedCall(%x) {f = @add} : f32[2]
  %n = Neg(%v) after(%c) : f32[2]
  return %n, %c
}
graph @add(%a: f32[2]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %b = AssignAdd(%v, %a) : f32[2]
  %e = Exp(%a) : f32[2]
  %s = Sub(%e, %e) : f32[2]
  return %s
}";
    for off in [&[][..], &["--set", "ge.optimizationSwitch=InlineSubgraphPass:off"]] {
        assert_eq!(outputs(call, off), [[-11., -22.], [0., 0.]], "{off:?}");
    }
    let stages = "graph @main(%x: f32[2]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %one = Const() {value = dense<f32[2]: 1 2>} : f32[2]
  %a = AssignAdd(%v, %one) {_stage_level = 0} : f32[2]
  %n = Neg(%v) {_stage_level = 1} after(%a) : f32[2]
  %m = Mul(%x, %x) {_stage_level = 1} : f32[2]
  return %n
}";
    assert_eq!(outputs(stages, &["--random", "1"]), [[-11., -22.]]);
}

/// The inner call reads a variable by a node without inputs, and must wait for what the outer call
/// waits for.
#[test]
fn a_body_within_a_body_waits_for_what_the_outer_call_waits_for() {
    let text = "graph @main(%x: f32[2]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %one = Const() {value = dense<f32[2]: 1 2>} : f32[2]
  %a = AssignAdd(%v, %one) : f32[2]
  %c = PartitionedCall(%a) {f = @outer} : f32[2]
  return %c
}
graph @outer(%x: f32[2]) {
  %n = Neg(%x) : f32[2]
  %c = PartitionedCall(%n) {f = @inner} : f32[2]
  return %c
}
graph @inner(%x: f32[2]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  return %v
}";
    for off in [&[][..], &["--set", "ge.optimizationSwitch=InlineSubgraphPass:off"]] {
        assert_eq!(outputs(text, &[&["--random", "1"], off].concat()), [[11., 22.]], "{off:?}");
    }
}

#[test]
fn a_body_waits_for_what_its_call_waits_for() {
    let text = "graph @main(){
  %x = Const() {value = dense<f32[2]: 1 2>} : f32[2]
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %a = AssignAdd(%v, %x) : f32[2]
  %c = PartitionedCall(%x) {f = @read} after(%a) : f32[2]
  %s = AssignSub(%v, %x) after(%c) : f32[2]
  return %c, %s
}
graph @read(%a: f32[2]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %n = Neg(%v) : f32[2]
  return %n
}";
    for off in [&[][..], &["--set", "ge.optimizationSwitch=InlineSubgraphPass:off"]] {
        assert_eq!(outputs(text, off), [[-11., -22.], [10., 20.]], "{off:?}");
    }
}

#[test]
fn a_variable_in_a_branch_or_a_loop_is_the_variable_of_that_name() {
    let text = "graph @main(){
  %i = Const() {value = dense<i32[1]: 0>} : i32[1]
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %w = While(%i) {body = @body, cond = @cond} : i32[1]
  %n = Neg(%v) after(%w) : f32[2]
  return %n, %w
}
graph @cond(%i: i32[1]) {
  %three = Const() {value = dense<i32[1]: 3>} : i32[1]
  %t = Less(%i, %three) : bool[1]
  return %t
}
graph @body(%i: i32[1]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %x = Const() {value = dense<f32[2]: 1 2>} : f32[2]
  %one = Const() {value = dense<i32[1]: 1>} : i32[1]
  %a = AssignAdd(%v, %x) : f32[2]
  %j = Add(%i, %one) : i32[1]
  return %j
}";
    assert_eq!(outputs(text, &[]), [vec![-13., -26.], vec![3.]]);
    let branch = "graph @main(%c: bool[1]) {
  %v = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %b = If(%c) {else_branch = @no, then_branch = @yes} : f32[2]
  %n = Neg(%v) after(%b) : f32[2]
  %d = Sub(%n, %b) : f32[2]
  return %d
}
graph @yes() {
  %v = Variable() : f32[2]
  %x = Const() {value = dense<f32[2]: 1 2>} : f32[2]
  %a = AssignAdd(%v, %x) : f32[2]
  %s = Sub(%x, %x) after(%a) : f32[2]
  return %s
}
graph @no() {
  %v = Variable() : f32[2]
  %x = Const() {value = dense<f32[2]: 1 2>} : f32[2]
  %a = AssignSub(%v, %x) : f32[2]
  %s = Sub(%x, %x) after(%a) : f32[2]
  return %s
}";
    let taken = outputs(branch, &["--random", "1"]);
    assert!(taken == [[-11., -22.]] || taken == [[-9., -18.]], "{taken:?}");
}

/// A session with this repository's plugins and these device options.
fn session(device: &[(&str, &str)]) -> Session {
    let device_options = device.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let plugins = Some(root().join("plugins.toml"));
    Session::new(SessionOptions { plugins, device_options, ..SessionOptions::default() }).unwrap()
}
fn floats(dims: &[u64], values: &[f32]) -> HostTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}
fn numbers(t: &HostTensor) -> Vec<f32> {
    t.bytes().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
fn model(s: &Session, name: &str) -> ge::session::GraphModel {
    s.import(root().join("tests/models/train").join(name), "").unwrap()
}
/// The same data as in `tests/reference/train.py`.
fn lesson() -> [HostTensor; 2] {
    let x: Vec<f32> = (0..24).map(|i| (i as f32 * 0.37) % 1.0 - 0.5).collect();
    let t: Vec<f32> = x.chunks(3).flat_map(|r| [r[0] + r[1] * 2.0, r[2] - r[0]]).collect();
    [floats(&[8, 3], &x), floats(&[8, 2], &t)]
}
#[track_caller]
fn near(found: &[f32], want: &[f32], what: &str) {
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-4 * b.abs().max(0.05);
    assert!(found.len() == want.len() && found.iter().zip(want).all(close), "{what}: {found:?} for {want:?}");
}

/// The weights that `tests/reference/train.py` prints.
const TRAINED: &[(&str, &[f32])] = &[
    (
        "w1",
        &[
            0.40453, -0.223349, 0.461378, 0.45098, -0.459161, 0.259685, 0.620254, -0.22057, 0.767397, 0.252, -0.437927,
            0.165756, 0.143159, 0.104938, 0.631477,
        ],
    ),
    ("b1", &[0.263297, 0.217846, -0.142725, 0.314376, 0.130166]),
    ("w2", &[0.519757, -1.11089, 0.60002, 0.945298, -0.754722, -0.443913, 2.03488, -0.438926, -0.125998, 0.738667]),
    ("b2", &[-0.898189, 0.0888397]),
];

/// Options that leave the work to the cpu engine.
const ON_CPU: (&str, &str) = ("ge.exec.exclude_engines", "AiCore|AiVector");

fn with(set: &[(&str, &str)]) -> OptionMap {
    let mut options = OptionMap::default();
    set.iter().for_each(|(k, v)| options.set(k, v, "a test").unwrap());
    options
}

#[test]
fn a_net_that_is_trained_a_hundred_steps_has_the_weights_of_the_reference() {
    for set in [&[][..], &[ON_CPU]] {
        let s = session(&[("schedule", "random:3"), ("check_races", "true")]);
        let m = GraphManager::new(s, OptionMap::default());
        m.add_graph(1, model(m.session(), "step.ge"), with(set)).unwrap();
        let data = lesson();
        let losses: Vec<f32> = (0..100).map(|_| numbers(&m.run(1, &data).unwrap()[0])[0]).collect();
        near(&[losses[0], losses[99]], &[0.479772, 0.00120082], "losses");
        for (name, want) in TRAINED {
            near(&numbers(&m.session().variables().read(name).unwrap()), want, name);
        }
    }
}

fn wide(t: &HostTensor) -> Vec<f64> {
    ConstTensor::new(t.dtype, &t.dims, Blob::copy_of(t.bytes())).unwrap().to_f64(1 << 20).unwrap()
}

/// Assignments and optimizers of both engines, over sizes around their chunks: the values of all
/// variables after two runs differ at most by the precision of the type.
#[test]
fn engines_write_variables_alike() {
    let steps = [
        ("Assign(%v, %g)", 1),
        ("AssignAdd(%v, %g)", 1),
        ("AssignSub(%v, %g)", 1),
        ("ApplyGradientDescent(%v, %l, %g)", 1),
        ("ApplyMomentum(%v, %m, %l, %g, %b)", 2),
        ("ApplyMomentum(%v, %m, %l, %g, %b) {use_nesterov = true}", 2),
        ("ApplyAdam(%v, %m, %w, %b, %c, %l, %b, %c, %e, %g)", 3),
        ("ApplyAdam(%v, %m, %w, %b, %c, %l, %b, %c, %e, %g) {use_nesterov = true}", 3),
    ];
    let m = GraphManager::new(session(&[("check_races", "full")]), OptionMap::default());
    for (t, digits) in [("f32", 2e-6), ("f16", 2e-3), ("bf16", 2e-2), ("i32", 0.0)] {
        for (k, n) in [0, 1, 17, 4095, 4097, 10_000].into_iter().enumerate() {
            // Each step runs at two sizes or more; whole numbers have no optimizers.
            for (step, states) in
                steps.iter().skip(k % 2).step_by(2).filter(|s| t != "i32" || s.0.starts_with("Assign"))
            {
                let d = format!("{t}[{n}]");
                let value = |v: &str| format!("dense<{d}: splat {v}>");
                let one = |v: &str| format!("Const() {{value = dense<{t}[]: {v}>}} : {t}[]");
                let (g, numbers) = if t == "i32" {
                    ("3", String::new())
                } else {
                    (
                        "0.3",
                        [("l", "0.125"), ("b", "0.875"), ("c", "0.96875"), ("e", "0.001")]
                            .map(|(name, v)| format!("  %{name} = {}\n", one(v)))
                            .concat(),
                    )
                };
                let variable =
                    |name: &str, v: &str| format!("  %{name} = Variable() {{init_value = {}}} : {d}\n", value(v));
                let variables = variable("v", "1") + &variable("m", "2") + &variable("w", "3");
                let outs = vec![d.as_str(); *states].join(", ");
                let text = format!(
                    "graph @main() {{\n{variables}  %g = Const() {{value = {}}} : {d}\n{numbers}  %r = {step} : {outs}\n  return %r\n}}\n",
                    value(g)
                );
                let held = [&[][..], &[ON_CPU]].map(|set| {
                    m.session().variables().clear();
                    let graph = import::parse_text(Path::new("step.ge"), text.as_bytes()).unwrap();
                    m.add_graph(1, graph, with(set)).unwrap();
                    (0..2).for_each(|_| drop(m.run(1, &[]).unwrap_or_else(|e| panic!("{text}\n{e}"))));
                    m.remove_graph(1).unwrap();
                    let all = m.session().variables();
                    all.list().iter().map(|v| wide(&all.read(&v.name).unwrap())).collect::<Vec<_>>()
                });
                for (a, b) in held[0].iter().flatten().zip(held[1].iter().flatten()) {
                    assert!((a - b).abs() <= digits * b.abs().max(1.0), "{step} of {d}: {a} for {b}");
                }
                assert_eq!(
                    held[0].iter().map(Vec::len).collect::<Vec<_>>(),
                    held[1].iter().map(Vec::len).collect::<Vec<_>>()
                );
            }
        }
    }
}

#[test]
fn two_graphs_that_train_and_evaluate_share_one_weight() {
    let m = GraphManager::new(session(&[]), OptionMap::default());
    m.add_graph(1, model(m.session(), "step.ge"), OptionMap::default()).unwrap();
    m.add_graph(2, model(m.session(), "evaluate.ge"), OptionMap::default()).unwrap();
    let data = lesson();
    let loss = |rows: usize| {
        let x = &numbers(&data[0])[..rows * 3];
        let y = numbers(&m.run(2, &[floats(&[rows as u64, 3], x)]).unwrap()[0]);
        let squares = y.iter().zip(numbers(&data[1])).map(|(a, b)| (a - b) * (a - b));
        squares.sum::<f32>() * 0.125
    };
    let first = numbers(&m.run(1, &data).unwrap()[0])[0];
    for _ in 0..30 {
        let after = loss(8);
        let next = numbers(&m.run(1, &data).unwrap()[0])[0];
        near(&[next], &[after], "the step computes the loss of the weights that it finds");
        // The evaluation is built again for another number of rows; the weights stay.
        loss(3);
    }
    assert!(loss(8) < first / 4.0);
    let names: Vec<String> = m.session().variables().list().into_iter().map(|v| v.name).collect();
    assert!(names.contains(&"w1".to_owned()) && names.contains(&"b2_v".to_owned()), "{names:?}");
    // The next run reads a value that was given from outside.
    let zero = floats(&[5, 2], &[0.0; 10]);
    m.session().variables().write("w2", &zero.view()).unwrap();
    m.session().variables().write("b2", &floats(&[2], &[1.5, -2.0]).view()).unwrap();
    let y = m.run(2, &[floats(&[1, 3], &[0.1, 0.2, 0.3])]).unwrap();
    assert_eq!(numbers(&y[0]), [1.5, -2.0]);
    let wrong = m.session().variables().write("w2", &floats(&[2, 5], &[0.0; 10]).view()).unwrap_err().into_error();
    let said = format!("{wrong:?}");
    assert!(["w2", "f32[2, 5]", "f32[5, 2]"].iter().all(|w| said.contains(w)), "{said}");
}

const COUNT: &str = "graph @count(%x: f32[2]) {
  %n = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %a = AssignAdd(%n, %x) : f32[2]
  return %a
}";

#[test]
fn runs_of_many_threads_that_share_a_variable_take_turns() {
    let s = session(&[]);
    let graph = |text: &str| import::parse_text(Path::new("m.ge"), text.as_bytes()).unwrap();
    let m = GraphManager::new(s, OptionMap::default());
    m.add_graph(1, graph(COUNT), OptionMap::default()).unwrap();
    m.add_graph(2, graph(&COUNT.replace("AssignAdd", "AssignSub")), OptionMap::default()).unwrap();
    m.build(1).unwrap();
    m.build(2).unwrap();
    std::thread::scope(|t| {
        for k in 0..4 {
            let m = &m;
            t.spawn(move || {
                for _ in 0..50 {
                    m.run(1 + k % 2, &[floats(&[2], &[(1 + k % 2) as f32, 1.0])]).unwrap();
                }
            });
        }
    });
    // The first element: 100 runs add one, 100 runs subtract two.
    assert_eq!(numbers(&m.session().variables().read("n").unwrap()), [-90.0, 20.0]);
}

#[test]
fn a_run_that_fails_leaves_variables_as_they_were() {
    let text = "graph @count(%x: f32[2]) {
  %n = Variable() {init_value = dense<f32[2]: 10 20>} : f32[2]
  %a = AssignAdd(%n, %x) : f32[2]
  %e = Exp(%a) : f32[2]
  %b = AssignAdd(%n, %e) : f32[2]
  return %b
}";
    for fault in 0..6 {
        let s = session(&[("fault", &format!("fail:{fault}"))]);
        let graph = import::parse_text(Path::new("m.ge"), text.as_bytes()).unwrap();
        let m = GraphManager::new(s, OptionMap::default());
        m.add_graph(1, graph, OptionMap::default()).unwrap();
        m.build(1).unwrap();
        let found = m.run(1, &[floats(&[2], &[1.0, 1.0])]);
        if found.is_err() {
            assert_eq!(numbers(&m.session().variables().read("n").unwrap()), [10.0, 20.0], "fault {fault}");
        }
        assert!(found.is_err() || fault > 1, "fault {fault} broke nothing");
    }
}

#[test]
fn variables_are_saved_and_restored_by_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.ge"), COUNT).unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    let two = ge_runtime::npy::write(&floats(&[2], &[1.0, 2.0])).unwrap();
    std::fs::write(dir.path().join("in/input_0.npy"), two).unwrap();
    let go = ["--inputs", "in", "--save-variables", "v.safetensors"];
    assert_eq!(run(dir.path(), &go), [[11., 22.]]);
    let on = [&go[..], &["--restore-variables", "v.safetensors"]].concat();
    assert_eq!(run(dir.path(), &on), [[12., 24.]]);
    assert_eq!(run(dir.path(), &on), [[13., 26.]]);
    // An OM has the same variables.
    expect_code(dir.path(), 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let om = expect_code(dir.path(), 0, &["run", "m.om", "--inputs", "in", "--restore-variables", "v.safetensors"]);
    assert!(String::from_utf8_lossy(&om.stdout).contains("= 14 28"), "{om:?}");
    let refused = |text: &str, words: &[&str]| {
        std::fs::write(dir.path().join("o.ge"), text).unwrap();
        let args = ["run", "o.ge", "--random", "1", "--restore-variables", "v.safetensors"];
        let said = String::from_utf8(expect_code(dir.path(), 2, &args).stderr).unwrap();
        assert!(words.iter().all(|w| said.contains(w)), "{said}");
    };
    let other = COUNT.replace("f32[2]", "f32[3]").replace("10 20", "1 2 3");
    refused(&other, &["GE-E0331", "`n`", "f32[2]", "f32[3]"]);
    refused(&COUNT.replace("%n", "%m"), &["GE-E0331", "`m`", "f32[2]"]);
    let moved = "graph @moved(%x: f32[3,2]) {
  %n = Variable() : f32[2,3]
  %t = TransposeD(%n) {perm = [1, 0]} : f32[3,2]
  %y = Add(%x, %t) : f32[3,2]
  return %y
}
";
    refused(moved, &["GE-E0331", "`n`", "the layout of TransposeD", "VariableOpPass:off"]);
    // What the model does not use is not read.
    let header =
        r#"{"n":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"o":{"dtype":"F9","shape":[],"data_offsets":[8,8]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
    std::fs::write(dir.path().join("v.safetensors"), bytes).unwrap();
    assert_eq!(run(dir.path(), &on), [[1., 2.]]);
    std::fs::write(dir.path().join("v.safetensors"), b"12345678").unwrap();
    expect_code(dir.path(), 4, &["run", "m.ge", "--random", "1", "--restore-variables", "v.safetensors"]);
    expect_code(dir.path(), 2, &["run", "m.ge", "--random", "1", "--restore-variables", "none"]);
}

#[test]
fn a_lost_edge_between_effects_is_caught() {
    let text = "graph @main(%x: f32[64]) {
  %v = Variable() : f32[64]
  %n = Neg(%v) : f32[64]
  %a = AssignAdd(%v, %x) {_stream_label = \"side\"} : f32[64]
  %e = Exp(%v) : f32[64]
  %s = AssignSub(%v, %x) : f32[64]
  return %n, %e, %s
}";
    let s = session(&[]);
    let graph = import::parse_text(Path::new("m.ge"), text.as_bytes()).unwrap();
    let m = s.compile("m", graph, &OptionMap::default(), &Silent).unwrap().model;
    assert_eq!(ge_proof::check(&m), Ok(()));
    let order = ge_model::EffectOrder::of(&m);
    let kept: Vec<(&str, u32, bool)> = order.effects.iter().map(|e| (e.node.as_str(), e.step, e.writes)).collect();
    assert_eq!(kept, [("v_read", 1, false), ("a", 2, true), ("v_read_1", 3, false), ("s", 4, true)]);
    // The graph of the compiled model loses its control edges and nothing else; then each event is
    // dropped in turn.
    let mut caught = 0;
    for id in 0..m.event_num {
        let mut broken = m.clone();
        broken.graphs.iter_mut().flat_map(|g| &mut g.nodes).for_each(|n| n.controls.clear());
        let is_of = |t: &ge_model::TaskInfo| t.sync_id == Some(id);
        broken.tasks.retain(|t| !is_of(t));
        caught += usize::from(matches!(ge_proof::check(&broken), Err(ge_proof::PlanFault::Effect { .. })));
    }
    assert!(caught > 0, "none of {} events holds an order of effects", m.event_num);
}

#[test]
fn steps_of_a_training_graph_are_counted() {
    let text = "graph @main(%x: f32[2]) attributes {_is_training = true} {
  %r = Relu(%x) : f32[2]
  return %r
}";
    let m = GraphManager::new(session(&[]), OptionMap::default());
    let graph = import::parse_text(Path::new("m.ge"), text.as_bytes()).unwrap();
    m.add_graph(1, graph, OptionMap::default()).unwrap();
    for _ in 0..3 {
        m.run(1, &[floats(&[2], &[1.0, 2.0])]).unwrap();
    }
    let steps = m.session().variables().read("ge_global_step").unwrap();
    assert_eq!(steps.bytes(), 3i64.to_le_bytes());
}
