//! The Rust API: `GraphManager` with several graphs, options by scope, rebuilding, and one model
//! run from several threads.
use ge::graph_manager::GraphManager;
use ge::options::OptionMap;
use ge::session::{Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::{models, root, target};

/// A session whose plugins are searched beside the real binary.
pub(crate) fn session(options: OptionMap) -> Session {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("plugins.toml");
    let text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    std::fs::write(&plugins, text.replacen("schema = 1", &format!("schema = 1\nsearch = [{:?}]", target()), 1))
        .unwrap();
    Session::new(SessionOptions { plugins: Some(plugins), options, ..SessionOptions::default() }).unwrap()
}

fn graph(s: &Session, text: &str) -> ge::session::GraphModel {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g.ge");
    std::fs::write(&path, text).unwrap();
    s.import(&path, "").unwrap()
}

fn tensor(dims: &[u64], values: &[f32]) -> HostTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}
fn values(t: &HostTensor) -> Vec<f32> {
    t.bytes().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}
fn options(pairs: &[&str]) -> OptionMap {
    let mut o = OptionMap::default();
    pairs.iter().for_each(|p| o.set_pair(p).unwrap());
    o
}

const ADD: &str = "graph @add(%x: f32[2], %y: f32[2]) {\n  %k = Const() {value = dense<f32[2]: 10 20>} : f32[2]\n  %s = Add(%x, %y) : f32[2]\n  %z = Add(%s, %k) : f32[2]\n  return %z\n}\n";
const RELU: &str = "graph @relu(%x: f32[?,2]) {\n  %r = Relu(%x) : f32[?,2]\n  return %r\n}\n";

#[test]
fn graphs_are_added_built_run_replaced_and_removed() {
    let m = GraphManager::new(session(OptionMap::default()), OptionMap::default());
    m.add_graph(1, graph(m.session(), ADD), OptionMap::default()).unwrap();
    m.add_graph(7, graph(m.session(), RELU), OptionMap::default()).unwrap();
    assert_eq!(m.graphs(), [1, 7]);
    let e = m.add_graph(7, graph(m.session(), ADD), OptionMap::default()).unwrap_err();
    assert!(e.to_string().contains("there is a graph 7 already"), "{e}");
    assert!(m.needs_build(1).unwrap());
    m.build(1).unwrap();
    assert!(!m.needs_build(1).unwrap() && m.needs_build(7).unwrap());
    let inputs = [tensor(&[2], &[1.0, 2.0]), tensor(&[2], &[3.0, 4.0])];
    let first = m.model(1).unwrap();
    assert_eq!(values(&m.run(1, &inputs).unwrap()[0]), [14.0, 26.0]);
    assert!(std::sync::Arc::ptr_eq(&first, &m.model(1).unwrap()), "a run builds nothing anew");
    // A graph with open shapes is built for the shapes of the inputs, again after each change of
    // them.
    assert_eq!(values(&m.run(7, &[tensor(&[1, 2], &[-1.0, 2.0])]).unwrap()[0]), [0.0, 2.0]);
    let one = m.model(7).unwrap();
    m.run(7, &[tensor(&[1, 2], &[5.0, -2.0])]).unwrap();
    assert!(std::sync::Arc::ptr_eq(&one, &m.model(7).unwrap()));
    assert_eq!(values(&m.run(7, &[tensor(&[2, 2], &[-1.0, 2.0, 3.0, -4.0])]).unwrap()[0]), [0.0, 2.0, 3.0, 0.0]);
    assert!(!std::sync::Arc::ptr_eq(&one, &m.model(7).unwrap()));
    let e = m.run(7, &[tensor(&[2, 3], &[0.0; 6])]).unwrap_err();
    assert!(e.to_string().contains("input `x` does not fit the graph"), "{e}");
    // A graph that was replaced is built again; a model that someone still holds stays as it was.
    m.replace_graph(1, graph(m.session(), &ADD.replace("10 20", "0 0"))).unwrap();
    assert!(m.needs_build(1).unwrap());
    assert_eq!(values(&m.run(1, &inputs).unwrap()[0]), [4.0, 6.0]);
    assert_eq!(values(&first.run(&inputs).unwrap()[0]), [14.0, 26.0]);
    m.remove_graph(1).unwrap();
    let e = m.run(1, &inputs).unwrap_err();
    assert!(e.to_string().contains("there is no graph 1"), "{e}");
    assert!(m.remove_graph(1).is_err() && m.build(1).is_err() && m.needs_build(1).is_err());
    assert_eq!(values(&m.run(7, &[tensor(&[1, 2], &[-1.0, 2.0])]).unwrap()[0]), [0.0, 2.0]);
}

#[test]
fn options_of_a_graph_stand_over_the_session_over_the_global_ones() {
    let global = options(&["ge.oo.level=O1", "ge.deterministic=1", "ge.x.memory_effort=fast"]);
    let m = GraphManager::new(session(options(&["ge.oo.level=O3", "ge.deterministic=0"])), global);
    m.add_graph(1, graph(m.session(), ADD), options(&["ge.oo.level=O1"])).unwrap();
    m.add_graph(2, graph(m.session(), ADD), OptionMap::default()).unwrap();
    let of = |id: u32, name: &str| m.model(id).unwrap().info().options.get(name).cloned().unwrap_or_default();
    assert_eq!((of(1, "ge.oo.level"), of(2, "ge.oo.level")), ("O1".into(), "O3".into()));
    assert_eq!((of(1, "ge.deterministic"), of(1, "ge.x.memory_effort")), ("0".into(), "fast".into()));
}

/// A graph that was built before its first run runs every shape that it takes: one with open sizes,
/// and one with gears.
#[test]
fn a_graph_built_without_inputs_is_built_once() {
    let m = GraphManager::new(session(OptionMap::default()), OptionMap::default());
    let text = "graph @relu(%x: f32[n,2]) {\n  %r = Relu(%x) : f32[n,2]\n  return %r\n}\n";
    m.add_graph(1, graph(m.session(), text), OptionMap::default()).unwrap();
    m.build(1).unwrap();
    let mut geared = graph(m.session(), text);
    ge_model::gears::want(geared.root_mut().attrs_mut(), &["n".to_owned()], &[vec![1], vec![2]]);
    m.add_graph(2, geared, OptionMap::default()).unwrap();
    for id in [1, 2] {
        let run = |rows: u64| {
            let x = tensor(&[rows, 2], &[-1.0, 2.0].repeat(rows as usize));
            assert_eq!(values(&m.run(id, &[x]).unwrap()[0]), [0.0, 2.0].repeat(rows as usize), "graph {id}");
            m.model(id).unwrap()
        };
        assert!(std::sync::Arc::ptr_eq(&run(1), &run(2)), "graph {id}");
    }
}

#[test]
fn outputs_that_are_given_back_are_written_again_and_no_number_stays() {
    let s = session(OptionMap::default());
    for (text, open) in
        [(ADD, false), ("graph @relu(%x: f32[n,2]) {\n  %r = Relu(%x) : f32[n,2]\n  return %r\n}\n", true)]
    {
        let made = s.compile("m", graph(&s, text), &OptionMap::default(), &ge::session::Quiet).unwrap();
        let model = s.load(made.model).unwrap();
        let run = |v: [f32; 2]| {
            let x = if open { vec![tensor(&[1, 2], &v)] } else { vec![tensor(&[2], &v), tensor(&[2], &[0.0, 0.0])] };
            model.run(&x).unwrap()
        };
        let first = run([1.0, 2.0]);
        let (at, numbers) = (first[0].bytes().as_ptr(), values(&first[0]));
        model.give_back(first);
        let second = run([5.0, -7.0]);
        assert_eq!(second[0].bytes().as_ptr(), at, "the memory is the same: {text}");
        assert_eq!(values(&second[0]), if open { [5.0, 0.0] } else { [15.0, 13.0] });
        // The memory of outputs that were not given back is not used again.
        assert_eq!(values(&run([1.0, 2.0])[0]), numbers);
        assert_eq!(values(&second[0]), if open { [5.0, 0.0] } else { [15.0, 13.0] });
    }
}

#[test]
fn one_model_is_run_from_four_threads() {
    let m = GraphManager::new(session(OptionMap::default()), OptionMap::default());
    let model = m.session().import(models().join("mlp.onnx"), "").unwrap();
    m.add_graph(1, model, OptionMap::default()).unwrap();
    // Graph 1 is not built when the threads start: one of them builds it, the others wait for it.
    let one = session(OptionMap::default());
    let om = tempfile::tempdir().unwrap();
    let path = om.path().join("mlp.om");
    let alone = m.session().import(models().join("mlp.onnx"), "").unwrap();
    let compiled = one.compile("mlp", alone, &OptionMap::default(), &ge::session::Quiet).unwrap();
    compiled.write_om(&path).unwrap();
    let loaded = one.load_om(&path).unwrap();
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let (m, loaded) = (&m, &loaded);
            s.spawn(move || {
                for k in 0..5 {
                    let inputs = loaded.random_inputs(10 * t + k).unwrap();
                    let (a, b) = (m.run(1, &inputs).unwrap(), loaded.run(&inputs).unwrap());
                    assert!(a[0].bytes() == b[0].bytes(), "thread {t}, run {k}");
                    assert!(values(&a[0]).iter().any(|v| *v != 0.0));
                }
            });
        }
    });
}

/// One loaded model of known sizes, of open sizes and with gears (alone, and beside a model for
/// other sizes): each gives many threads, whose sizes differ, the bits that it gives to one.
#[test]
fn threads_that_share_a_model_get_the_bits_of_one() {
    let text = |rows: &str| {
        format!(
            "graph @main(%x: f32[{rows},16]) {{
               %w = Const() {{value = dense<f32[16,16]: splat 0.3>}} : f32[16,16]
               %m = MatMulV2(%x, %w) : f32[{rows},16]
               %t = Tanh(%m) : f32[{rows},16]
               %y = Add(%t, %x) : f32[{rows},16]
               return %y }}"
        )
    };
    let s = session(OptionMap::default());
    for (rows, gears, hybrid, sizes) in [
        ("8", false, "0", vec![8]),
        ("n", false, "0", vec![1, 3, 8]),
        ("n", true, "0", vec![2, 4]),
        ("n", true, "1", vec![2, 3, 4, 7]),
    ] {
        let mut g = graph(&s, &text(rows));
        if gears {
            ge_model::gears::want(g.root_mut().attrs_mut(), &["n".to_owned()], &[vec![2], vec![4]]);
        }
        let options = options(&[format!("ge.compileHybridMode={hybrid}").as_str()]);
        let model = s.load(s.compile("m", g, &options, &ge::session::Quiet).unwrap().model).unwrap();
        let bits = |rows: u64, seed: u64| {
            let x: Vec<f32> = (0..rows * 16).map(|k| ((k * 7 + seed * 13) % 29) as f32 / 9.0 - 1.5).collect();
            model.run(&[tensor(&[rows, 16], &x)]).unwrap()[0].bytes().to_vec()
        };
        let runs: Vec<(u64, u64)> = (0..12).map(|k| (sizes[k as usize % sizes.len()], k)).collect();
        let want: Vec<Vec<u8>> = runs.iter().map(|(rows, seed)| bits(*rows, *seed)).collect();
        std::thread::scope(|scope| {
            for t in 0..4 {
                let (runs, want, bits) = (&runs, &want, &bits);
                scope.spawn(move || {
                    for k in (0..48).map(|k| (k * 5 + t * 3) % runs.len()) {
                        let (rows, seed) = runs[k];
                        assert!(bits(rows, seed) == want[k], "thread {t}, {rows} rows, gears {gears}, hybrid {hybrid}");
                    }
                });
            }
        });
    }
}

/// Before they run, the models of a group's ranks are compared: all must have the same collectives
/// on the same data in the same order.
#[test]
fn ranks_with_collectives_in_different_orders_are_refused() {
    let s = session(OptionMap::default());
    let model = |first: &str, second: &str| {
        let shape = |op: &str| if op == "HcomAllGather" { "f32[16]" } else { "f32[8]" };
        let more = |op: &str| if op == "HcomAllGather" { "rank_size = 2" } else { "reduction = \"sum\"" };
        let text = format!(
            "graph @main(%x: f32[8], %y: f32[8]) {{\n  %one_{first} = {first}(%x) {{{}}} : {}\n  %two_{second} = {second}(%y) {{{}}} after(%one_{first}) : {}\n  return %one_{first}, %two_{second}\n}}\n",
            more(first),
            shape(first),
            more(second),
            shape(second)
        );
        s.compile("main", graph(&s, &text), &OptionMap::default(), &ge::session::Quiet).unwrap().model
    };
    let (reduce, gather) = ("HcomAllReduce", "HcomAllGather");
    let Err(e) = s.load_group(vec![model(reduce, gather), model(gather, reduce)]) else { panic!("it is loaded") };
    let said = format!("{e:?}");
    for words in ["GE-E0319", "rank 0 and rank 1", "one_HcomAllReduce", "one_HcomAllGather", "collective 1 of"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // A missing collective is reported too.
    let Err(e) = s.load_group(vec![model(reduce, gather), model(reduce, reduce)]) else { panic!("it is loaded") };
    assert!(format!("{e:?}").contains("collective 2 of"), "{e:?}");
    let ranks = s.load_group(vec![model(reduce, gather), model(reduce, gather)]).unwrap();
    let outputs: Vec<Vec<HostTensor>> = std::thread::scope(|scope| {
        let run = |(k, m): (usize, &ge::session::Model)| m.run(&m.random_inputs(k as u64 + 1).unwrap()).unwrap();
        let threads: Vec<_> = ranks.iter().enumerate().map(|r| scope.spawn(move || run(r))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(outputs[0][0].bytes() == outputs[1][0].bytes() && outputs[0][1].bytes() == outputs[1][1].bytes());
}
