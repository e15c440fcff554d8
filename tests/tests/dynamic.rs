//! Models of open sizes: one OM for every size that fits, sizes that depend on values, branches and
//! loops whose shapes change.
use ge::options::OptionMap;
use ge::session::{Model, Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::{expect_code, root, target, trained};
use std::path::Path;

pub fn session() -> Session {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("plugins.toml");
    let text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    std::fs::write(&plugins, text.replacen("schema = 1", &format!("schema = 1\nsearch = [{:?}]", target()), 1))
        .unwrap();
    Session::new(SessionOptions { plugins: Some(plugins), ..SessionOptions::default() }).unwrap()
}

/// Compiles a text, writes the OM, reads it back and loads it.
fn load(s: &Session, text: &str) -> Model {
    let dir = tempfile::tempdir().unwrap();
    let (source, om) = (dir.path().join("m.ge"), dir.path().join("m.om"));
    std::fs::write(&source, text).unwrap();
    let graph = s.import(&source, "").unwrap();
    let compiled = s.compile("m", graph, &OptionMap::default(), &ge::session::Quiet).unwrap();
    assert!(compiled.model.is_dynamic() && compiled.model.tasks.is_empty());
    compiled.write_om(&om).unwrap();
    s.load_om(&om).unwrap()
}

fn f32s(dims: &[u64], v: &[f32]) -> HostTensor {
    let bytes: Vec<u8> = v.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}
fn i64s(dims: &[u64], v: &[i64]) -> HostTensor {
    let bytes: Vec<u8> = v.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::I64, dims, &bytes).unwrap()
}
fn truth(v: bool) -> HostTensor {
    HostTensor::from_bytes(DType::BOOL, &[], &[u8::from(v)]).unwrap()
}
fn reals(t: &HostTensor) -> Vec<f32> {
    t.view().values::<f32>().unwrap().to_vec()
}
fn whole(t: &HostTensor) -> Vec<i64> {
    t.view().values::<i64>().unwrap().to_vec()
}
fn row(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 - 2.0).collect()
}

#[test]
fn any_size_that_fits_runs_and_a_size_seen_before_makes_no_plan() {
    let s = session();
    // A reshape whose size is inferred (-1), beside arithmetic on the tensor.
    let m = load(
        &s,
        "graph @main(%x: f32[n,3]) {
           %s = Shape(%x) {dtype = i64} : i64[2]
           %k = Const() {value = dense<i64[1]: -1>} : i64[1]
           %e = Add(%x, %x) : f32[n,3]
           %r = Reshape(%e, %k) : f32[?]
           %a = Abs(%r) : f32[?]
           return %a, %s }",
    );
    for round in 0..3 {
        for n in [1usize, 4, 2] {
            let x = f32s(&[n as u64, 3], &row(3 * n));
            let out = m.run(&[x]).unwrap();
            assert_eq!(reals(&out[0]), row(3 * n).iter().map(|v| (v * 2.0).abs()).collect::<Vec<_>>());
            assert_eq!(whole(&out[1]), [n as i64, 3]);
        }
        assert_eq!(m.plans(), 3, "round {round}");
    }
    // However many shapes there are, the number of kept plans is bounded.
    for n in 1..300usize {
        m.run(&[f32s(&[n as u64, 3], &row(3 * n))]).unwrap();
    }
    assert!(m.plans() <= 120, "{} plans", m.plans());
}

/// Compiles a text with options; chains of element-wise operators are not fused.
fn compiled(s: &Session, text: &str, options: &[(&str, &str)]) -> ge::session::Compiled {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("m.ge");
    std::fs::write(&source, text).unwrap();
    let mut map = OptionMap::default();
    map.set("ge.x.auto_fusion", "false", "test").unwrap();
    options.iter().for_each(|(k, v)| map.set(k, v, "test").unwrap());
    s.compile("m", s.import(&source, "").unwrap(), &map, &ge::session::Quiet).unwrap()
}

/// A head of known shape, a middle part whose shapes depend on values, and a tail of known shape.
/// Both known and unknown nodes read one constant.
const HEAD_AND_TAIL: &str = "graph @main(%x: f32[2,3]) {
   %k = Const() {value = dense<f32[3]: 1, 2, 3>} : f32[3]
   %a = Mul(%x, %k) : f32[2,3]
   %b = Neg(%a) : f32[2,3]
   %c = Add(%b, %k) : f32[2,3]
   %d = Relu(%c) : f32[2,3]
   %e = Sqrt(%d) : f32[2,3]
   %z = NonZero(%e) : i64[2,?]
   %f = Cast(%z) {dst_type = f32} : f32[2,?]
   %g = ReduceSumD(%f) {axes = [1], keep_dims = false} : f32[2]
   %r = Reshape(%g, %s) : f32[2,1]
   %s = Const() {value = dense<i64[2]: 2, 1>} : i64[2]
   %h = Mul(%r, %k) : f32[2,3]
   %i = Add(%h, %e) : f32[2,3]
   %j = Abs(%i) : f32[2,3]
   %l = Sub(%j, %x) : f32[2,3]
   return %l, %f, %d }";

#[test]
fn parts_of_known_shape_are_models_of_their_own() {
    let s = session();
    let text = HEAD_AND_TAIL.replace("   %s = Const() {value = dense<i64[2]: 2, 1>} : i64[2]\n", "");
    let text = text.replace("   %a = Mul", "   %s = Const() {value = dense<i64[2]: 2, 1>} : i64[2]\n   %a = Mul");
    let sealed = compiled(&s, &text, &[]);
    assert!(sealed.model.is_dynamic() && sealed.model.tasks.is_empty());
    let names: Vec<&str> = sealed.model.parts.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["root_sub_0_know", "root_sub_2_know"]);
    assert!(sealed.model.parts.iter().all(|p| !p.is_dynamic() && !p.tasks.is_empty()));
    let calls: Vec<&str> =
        sealed.model.graphs[0].nodes.iter().filter(|n| n.op == "PartitionedCall").map(|n| n.name.as_str()).collect();
    assert_eq!(calls, names);
    // Outputs keep their names, whichever node produces them now.
    let outputs: Vec<&str> = sealed.model.outputs.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(outputs, ["l", "f", "d"]);
    // The file holds the parts behind the root model and gives them back when it is read.
    let dir = tempfile::tempdir().unwrap();
    let (om, again) = (dir.path().join("m.om"), dir.path().join("again.om"));
    sealed.write_om(&om).unwrap();
    compiled(&s, &text, &[]).write_om(&again).unwrap();
    assert_eq!(std::fs::read(&om).unwrap(), std::fs::read(&again).unwrap());
    let file = ge::session::open_om(&om).unwrap();
    assert_eq!((file.models().len(), file.header().is_unknow_model), (3, 1));
    let parted = s.load_om(&om).unwrap();
    // The numbers are the same without parts.
    let whole = compiled(&s, &text, &[("ge.exec.static_model_ops_lower_limit", "-1")]);
    assert!(whole.model.parts.is_empty());
    let whole = s.load(whole.model).unwrap();
    for x in [[1.0, -2.0, 3.0, -1.0, 0.0, 2.0], [0.0; 6], [9.0; 6]] {
        let x = f32s(&[2, 3], &x);
        let (a, b) = (parted.run(std::slice::from_ref(&x)).unwrap(), whole.run(std::slice::from_ref(&x)).unwrap());
        let v = reals(&x);
        let c: Vec<f32> = v.iter().enumerate().map(|(i, x)| (-x * (i % 3 + 1) as f32) + (i % 3 + 1) as f32).collect();
        let d: Vec<f32> = c.iter().map(|c| c.max(0.0)).collect();
        let places: Vec<usize> = (0..6).filter(|i| d[*i] != 0.0).collect();
        let sums: Vec<f32> =
            [3, 1].map(|w| places.iter().map(|p| (p / w % if w == 3 { 2 } else { 3 }) as f32).sum()).to_vec();
        let l: Vec<f32> = (0..6).map(|i| (sums[i / 3] * (i % 3 + 1) as f32 + d[i].sqrt()).abs() - v[i]).collect();
        for out in [&a, &b] {
            assert_eq!(reals(&out[2]), d);
            assert_eq!(out[1].dims.as_slice(), [2, places.len() as u64]);
            assert!(reals(&out[0]).iter().zip(&l).all(|(a, b)| (a - b).abs() < 1e-5), "{:?} {l:?}", reals(&out[0]));
        }
    }
    // The limit is the smallest number of operators that makes a part.
    let parts = |limit: &str| compiled(&s, &text, &[("ge.exec.static_model_ops_lower_limit", limit)]).model.parts.len();
    assert_eq!((parts("1"), parts("5"), parts("6")), (2, 2, 0));
}

#[test]
fn known_parts_between_unknown_ones_stay_known_where_they_come_first() {
    let s = session();
    // The second NonZero reads both what the first one decides and the known chain between them.
    let mut text = String::from(
        "graph @main(%x: f32[4]) {
           %z = NonZero(%x) : i64[1,?]
           %f = Cast(%z) {dst_type = f32} : f32[1,?]
           %m = ReduceSumD(%f) {axes = [1], keep_dims = false} : f32[1]
           %c0 = Mul(%x, %m) : f32[4]\n",
    );
    for i in 0..7 {
        text += &format!("%c{} = {}(%c{i}) : f32[4]\n", i + 1, ["Neg", "Abs"][i % 2]);
    }
    text += "%y = NonZero(%c7) : i64[1,?]
             %o = ConcatD(%y, %z) {concat_dim = 1, N = 2} : i64[1,?]
             return %o }";
    let of = |options: &[(&str, &str)]| compiled(&s, &text, options);
    let (normal, first) = (of(&[]), of(&[("ge.x.known_first", "1")]));
    assert_eq!((normal.model.parts.len(), first.model.parts.len()), (0, 1));
    for m in [normal, first] {
        let m = s.load(m.model).unwrap();
        assert_eq!(whole(&m.run(&[f32s(&[4], &[0.0, 2.0, 0.0, 3.0])]).unwrap()[0]), [1, 3, 1, 3]);
    }
}

#[test]
fn a_small_static_graph_is_scheduled_by_the_host_where_asked_for() {
    let s = session();
    let text = "graph @main(%x: f32[4]) { %a = Neg(%x) : f32[4] %b = Abs(%a) : f32[4] return %b }";
    let of = |most: &str| compiled(&s, text, &[("ge.exec.hostSchedulingMaxThreshold", most)]).model;
    assert!(!of("0").is_dynamic() && !of("2").is_dynamic() && of("3").is_dynamic());
    for most in ["0", "3"] {
        let m = s.load(of(most)).unwrap();
        assert_eq!(reals(&m.run(&[f32s(&[4], &[1.0, -2.0, 3.0, -4.0])]).unwrap()[0]), [1.0, 2.0, 3.0, 4.0]);
    }
    let turns = "graph @main(%x: f32[4], %n: i64[]) {
           %i = Const() {value = dense<i64[]: 0>} : i64[]
           %w = While(%i, %n, %x) {cond = @go, body = @turn} : i64[], i64[], f32[4]
           return %w#2 }
         graph @go(%i: i64[], %n: i64[], %v: f32[4]) { %l = Less(%i, %n) : bool[] return %l }
         graph @turn(%i: i64[], %n: i64[], %v: f32[4]) {
           %one = Const() {value = dense<i64[]: 1>} : i64[]
           %j = Add(%i, %one) : i64[]
           %u = Neg(%v) : f32[4]
           return %j, %n, %u }";
    assert!(!compiled(&s, turns, &[("ge.exec.hostSchedulingMaxThreshold", "100")]).model.is_dynamic());
}

#[test]
fn values_decide_sizes() {
    let s = session();
    let m = load(
        &s,
        "graph @main(%x: f32[n], %t: i64[1]) {
           %z = NonZero(%x) : i64[1,?]
           %f = Cast(%z) {dst_type = f32} : f32[1,?]
           %g = Add(%f, %f) : f32[1,?]
           %w = Reshape(%x, %t) : f32[?]
           %a = Neg(%w) : f32[?]
           return %g, %a }",
    );
    for (x, places) in [(vec![0.0, 3.0, 0.0, -1.0], vec![2.0, 6.0]), (vec![0.0, 0.0], vec![]), (vec![5.0], vec![0.0])] {
        let n = x.len();
        let out = m.run(&[f32s(&[n as u64], &x), i64s(&[1], &[n as i64])]).unwrap();
        assert_eq!((out[0].dims.as_slice(), reals(&out[0])), (&[1, places.len() as u64][..], places));
        assert_eq!(reals(&out[1]), x.iter().map(|v| -v).collect::<Vec<_>>());
    }
    // A size that does not fit is reported with the node.
    let e = m.run(&[f32s(&[3], &[1.0; 3]), i64s(&[1], &[4])]).unwrap_err();
    assert!(e.diagnostics.iter().any(|d| d.node.as_str() == "w"), "{e}");
}

#[test]
fn branches_and_loops_change_shapes() {
    let s = session();
    let m = load(
        &s,
        "graph @main(%x: f32[n], %c: bool[]) {
           %y = If(%c, %x) {then_branch = @t, else_branch = @e} : f32[?]
           %z = Neg(%y) : f32[?]
           return %z }
         graph @t(%p: f32[n]) { %a = ConcatD(%p, %p) {concat_dim = 0, N = 2} : f32[?] return %a }
         graph @e(%q: f32[n]) { %b = Abs(%q) : f32[n] return %b }",
    );
    assert_eq!(reals(&m.run(&[f32s(&[2], &[1.0, -2.0]), truth(true)]).unwrap()[0]), [-1.0, 2.0, -1.0, 2.0]);
    assert_eq!(reals(&m.run(&[f32s(&[3], &[1.0, -2.0, 3.0]), truth(false)]).unwrap()[0]), [-1.0, -2.0, -3.0]);

    let m = load(
        &s,
        "graph @main(%x: f32[?], %n: i64[]) {
           %i = Const() {value = dense<i64[]: 0>} : i64[]
           %w = While(%i, %n, %x) {cond = @go, body = @grow} : i64[], i64[], f32[?]
           return %w#2 }
         graph @go(%i: i64[], %n: i64[], %v: f32[?]) { %l = Less(%i, %n) : bool[] return %l }
         graph @grow(%i: i64[], %n: i64[], %v: f32[?]) {
           %one = Const() {value = dense<i64[]: 1>} : i64[]
           %j = Add(%i, %one) : i64[]
           %u = ConcatD(%v, %v) {concat_dim = 0, N = 2} : f32[?]
           return %j, %n, %u }",
    );
    for turns in 0..6 {
        let out = m.run(&[f32s(&[3], &[1.0, 2.0, 3.0]), i64s(&[], &[turns])]).unwrap();
        assert_eq!(reals(&out[0]), [1.0, 2.0, 3.0].repeat(1 << turns), "{turns} turns");
    }
}

#[test]
fn threads_share_a_model() {
    let s = session();
    let text = "graph @main(%x: f32[n]) { %a = Abs(%x) : f32[n] %z = NonZero(%a) : i64[1,?] return %z, %a }";
    let m = load(&s, text);
    std::thread::scope(|t| {
        for k in 1..5usize {
            let m = &m;
            t.spawn(move || {
                for n in (k..k + 20).chain(k..k + 5) {
                    let out = m.run(&[f32s(&[n as u64], &vec![-1.0; n])]).unwrap();
                    assert_eq!(whole(&out[0]), (0..n as i64).collect::<Vec<_>>());
                    assert_eq!(reals(&out[1]), vec![1.0; n]);
                }
            });
        }
    });
}

#[test]
fn every_schedule_gives_the_same_bits_of_a_model_of_open_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let model = trained().join("text_direction.onnx").display().to_string();
    let data = trained().join("text_direction/s0").display().to_string();
    expect_code(d, 0, &["compile", &model, "-o", "m.om", "-q"]);
    let mut first: Option<Vec<u8>> = None;
    for options in [vec![], vec!["schedule=random:1"], vec!["schedule=random:7", "check_races=true"]] {
        let options: Vec<&str> = options.iter().flat_map(|o| ["--device-option", *o]).collect();
        expect_code(d, 0, &[&["run", "m.om", "--inputs", &data, "--outputs", "out", "-q"][..], &options].concat());
        let bytes = std::fs::read(d.join("out/output_0.npy")).unwrap();
        assert!(first.get_or_insert_with(|| bytes.clone()) == &bytes, "{options:?}");
    }
}

/// A transformer block for any batch size and length.
pub const BLOCK: &str = "graph @main(%x: f32[n,s,4], %mask: f32[n,1,1,s]) {
   %w = Const() {value = dense<f32[4,4]: 0.5 -0.25 1 0.125 -0.5 0.75 0.25 1 0.5 -1 0.25 0.5 -0.75 0.5 0.25 -0.125>} : f32[4,4]
   %b = Const() {value = dense<f32[4]: 0.25, -0.5, 0.125, 1>} : f32[4]
   %c = Const() {value = dense<f32[]: 0.5>} : f32[]
   %two = Const() {value = dense<f32[]: 2>} : f32[]
   %eps = Const() {value = dense<f32[]: 1e-05>} : f32[]
   %last = Const() {value = dense<i64[1]: -1>} : i64[1]
   %split = Const() {value = dense<i64[4]: 0, 0, 2, 2>} : i64[4]
   %merge = Const() {value = dense<i64[3]: 0, 0, 4>} : i64[3]
   %qm = BatchMatMulV2(%x, %w) : f32[n,s,4]
   %q = Add(%qm, %b) : f32[n,s,4]
   %qr = Reshape(%q, %split) : f32[n,s,2,2]
   %qt = TransposeD(%qr) {perm = [0, 2, 1, 3]} : f32[n,2,s,2]
   %xr = Reshape(%x, %split) : f32[n,s,2,2]
   %xt = TransposeD(%xr) {perm = [0, 2, 1, 3]} : f32[n,2,s,2]
   %xr2 = Reshape(%x, %split) : f32[n,s,2,2]
   %v = TransposeD(%xr2) {perm = [0, 2, 1, 3]} : f32[n,2,s,2]
   %k = TransposeD(%xt) {perm = [0, 1, 3, 2]} : f32[n,2,2,s]
   %sc = BatchMatMulV2(%qt, %k) : f32[n,2,s,s]
   %sm = Mul(%sc, %c) : f32[n,2,s,s]
   %sa = Add(%sm, %mask) : f32[n,2,s,s]
   %p = SoftmaxV2(%sa) {axes = [-1]} : f32[n,2,s,s]
   %a = BatchMatMulV2(%p, %v) : f32[n,2,s,2]
   %at = TransposeD(%a) {perm = [0, 2, 1, 3]} : f32[n,s,2,2]
   %ar = Reshape(%at, %merge) : f32[n,s,4]
   %h = BatchMatMulV2(%ar, %w) : f32[n,s,4]
   %hb = Add(%h, %b) : f32[n,s,4]
   %r = Add(%hb, %x) : f32[n,s,4]
   %m = ReduceMean(%r, %last) {keep_dims = true} : f32[n,s,1]
   %d = Sub(%r, %m) : f32[n,s,4]
   %sq = Pow(%d, %two) : f32[n,s,4]
   %va = ReduceMean(%sq, %last) {keep_dims = true} : f32[n,s,1]
   %ve = Add(%va, %eps) : f32[n,s,1]
   %sd = Sqrt(%ve) : f32[n,s,1]
   %no = Div(%d, %sd) : f32[n,s,4]
   %ng = Mul(%no, %b) : f32[n,s,4]
   %ln = Add(%ng, %b) : f32[n,s,4]
   %e = Exp(%ln) : f32[n,s,4]
   %f = Mul(%e, %x) : f32[n,s,4]
   %g = Neg(%f) : f32[n,s,4]
   return %g }";

#[test]
fn fusions_fire_where_sizes_are_open_and_give_the_same_numbers_for_each() {
    let s = session();
    let dir = tempfile::tempdir().unwrap();
    let model = |name: &str, options: &[(&str, &str)]| {
        let c = compiled(&s, BLOCK, options);
        assert!(c.model.is_dynamic());
        let ops: Vec<String> = c.model.graphs[0].nodes.iter().map(|n| n.op.clone()).collect();
        let om = dir.path().join(name);
        c.write_om(&om).unwrap();
        (ops, s.load_om(&om).unwrap())
    };
    let (made, fused) = model("fused.om", &[("ge.x.auto_fusion", "true")]);
    let (plain, each) = model("each.om", &[("ge.oo.level", "O1")]);
    for op in ["FusedMatMul", "PromptFlashAttention", "LayerNormV3", "FusedElementwise"] {
        assert!(made.iter().any(|m| m == op), "{op}: {made:?}");
        assert!(!plain.iter().any(|m| m == op), "{op}: {plain:?}");
    }
    let gone = ["SoftmaxV2", "ReduceMean", "BatchMatMulV2", "TransposeD"];
    assert!(!made.iter().any(|m| gone.contains(&m.as_str())), "{made:?}");
    // Sizes of one, sizes smaller than a block, more than a block, and an empty batch.
    for (n, len) in [(1usize, 1usize), (2, 5), (3, 70), (1, 300), (0, 4), (2, 5)] {
        let x: Vec<f32> = (0..n * len * 4).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
        let mask: Vec<f32> = (0..n * len).map(|i| if i % 7 == 3 { -1e4 } else { 0.0 }).collect();
        let given = [f32s(&[n as u64, len as u64, 4], &x), f32s(&[n as u64, 1, 1, len as u64], &mask)];
        let (got, want) = (fused.run(&given).unwrap(), each.run(&given).unwrap());
        assert_eq!(got[0].dims, want[0].dims);
        for (g, w) in reals(&got[0]).iter().zip(reals(&want[0])) {
            assert!((g - w).abs() <= 1e-4 * w.abs().max(1.0), "{n} of {len}: {g}, {w}");
        }
    }
}

/// Writes a tensor as a `.npy` file.
fn npy(path: &Path, t: &HostTensor) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, ge_runtime::npy::write(t).unwrap()).unwrap();
}

#[test]
fn a_size_that_is_computed_from_another_is_checked_in_each_run() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = r#"graph @main(%x: f32["n+1"], %y: f32[n]) {
  %s = Abs(%x) : f32["n+1"]
  %z = Neg(%y) : f32[n]
  return %s, %z
}"#;
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let run = |code: i32, x: u64, y: u64| {
        npy(&d.join("in/input_0.npy"), &HostTensor::zeroed(DType::F32, &[x]).unwrap());
        npy(&d.join("in/input_1.npy"), &HostTensor::zeroed(DType::F32, &[y]).unwrap());
        let out = expect_code(d, code, &["run", "m.om", "--inputs", "in", "--outputs", "out", "-q"]);
        String::from_utf8(out.stderr).unwrap()
    };
    run(0, 4, 3);
    let said = run(2, 4, 4);
    assert!(said.contains("input `x`") && said.contains("4 for dimension 0 (`n+1`)"), "{said}");
    assert!(said.contains("5, which `n+1` is for these inputs"), "{said}");
}

#[test]
fn letters_and_ranges_are_kept_and_inputs_that_contradict_them_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[?,3], %y: f32[?]) { %s = Abs(%x) : f32[?,3] %z = Neg(%y) : f32[?] return %s, %z }";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--input-shape", "x:N=1..4,3;y:N"]);
    let doc = expect_code(d, 0, &["inspect", "m.om", "--json"]).stdout;
    let doc: serde_json::Value = serde_json::from_slice(&doc).unwrap();
    let main = &doc["graphs"][0];
    assert_eq!((&main["shape"], &main["inputs"][0]["shape"]), (&"unknown".into(), &serde_json::json!([-1, 3])));
    assert_eq!(main["inputs"][0]["dims"], serde_json::json!(["N", 3]));
    assert_eq!(doc["ranges"], serde_json::json!({"N": [1, 4]}));
    let run = |code: i32, x: &[u64], y: &[u64]| {
        let zeros = |dims: &[u64]| HostTensor::zeroed(DType::F32, dims).unwrap();
        npy(&d.join("in/input_0.npy"), &zeros(x));
        npy(&d.join("in/input_1.npy"), &zeros(y));
        let out = expect_code(d, code, &["run", "m.om", "--inputs", "in", "--outputs", "out", "-q"]);
        String::from_utf8(out.stderr).unwrap()
    };
    run(0, &[4, 3], &[4]);
    run(0, &[1, 3], &[1]);
    let said = run(2, &[5, 3], &[5]);
    assert!(said.contains("input `x`") && said.contains("5 for dimension 0") && said.contains("1 to 4"), "{said}");
    let said = run(2, &[2, 3], &[3]);
    assert!(said.contains("input `y`") && said.contains("3 for dimension 0 (`N`)"), "{said}");
    assert!(said.contains("2, which `N` is in dimension 0 of `x`"), "{said}");
    let said = run(2, &[2, 4], &[2]);
    assert!(said.contains("input `x`") && said.contains("found f32[2, 4], expected f32[N,3]"), "{said}");
    for bad in ["x:3..1,3", "x:N=1..2,3;y:N=1..3", "x:1.5,3"] {
        expect_code(d, 2, &["compile", "m.ge", "-o", "n.om", "-q", "--input-shape", bad]);
    }
}

#[test]
fn what_only_a_planned_model_holds_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let text = "graph @main(%x: f32[n,3]) { %s = HcomAllReduce(%x) {group = \"hccl_world_group\", reduction = \"sum\"} : f32[n,3] return %s }";
    std::fs::write(dir.path().join("m.ge"), text).unwrap();
    let out = expect_code(dir.path(), 3, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        said.contains("GE-E0342") && said.contains("`s` (HcomAllReduce) exchanges data with other ranks"),
        "{said}"
    );
    assert!(!dir.path().join("m.om").exists());
}

#[test]
fn trained_models_run_without_sizes() {
    let folder = trained();
    let list = std::fs::read_to_string(folder.join("models.txt")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for line in list.lines() {
        let f: Vec<&str> = line.split(' ').collect();
        let (name, rtol, atol, sets) = (f[0], f[2], f[3], f[4].parse::<usize>().unwrap());
        let model = folder.join(format!("{name}.onnx")).display().to_string();
        expect_code(dir.path(), 0, &["compile", &model, "-o", "m.om", "-q"]);
        for s in 0..sets {
            let data = folder.join(name).join(format!("s{s}"));
            let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
            let files = ["--inputs", &inputs, "--expect", &expect, "--rtol", rtol, "--atol", atol, "-q"];
            expect_code(dir.path(), 0, &[&["run", "m.om"][..], &files].concat());
        }
    }
}

#[test]
fn inspect_tells_what_the_executor_decides_and_a_run_does_that() {
    let s = session();
    let text = "graph @main(%x: f32[n,3], %t: i64[1], %c: bool[]) {
           %s = Shape(%x) {dtype = i64} : i64[2]
           %zero = Const() {value = dense<i64[]: 0>} : i64[]
           %first = Gather(%s, %zero) : i64[]
           %a = Neg(%x) : f32[n,3]
           %r = Reshape(%a, %t) : f32[?]
           %z = NonZero(%r) : i64[1,?]
           %f = Cast(%z) {dst_type = f32} : f32[1,?]
           %g = Add(%f, %f) : f32[1,?]
           %y = If(%c, %g) {then_branch = @t, else_branch = @e} : f32[?,?]
           %o = Abs(%y) : f32[?,?]
           return %o, %first }
         graph @t(%p: f32[1,?]) { %u = ConcatD(%p, %p) {concat_dim = 1, N = 2} : f32[1,?] return %u }
         graph @e(%q: f32[1,?]) { %v = Abs(%q) : f32[1,?] return %v }";
    let made = compiled(&s, text, &[]);
    let exec = s.exec_of(&made.model).unwrap();
    let root = &exec.main[0];
    let nodes = |l: &[ge_runtime::v2::describe::Step]| l.iter().map(|s| s.node.clone()).collect::<Vec<_>>();
    assert_eq!(root.by_value, ["t"]);
    assert_eq!(nodes(&root.rounds[0].planned), ["s", "first"]);
    assert_eq!((nodes(&root.rounds[0].device), nodes(&root.rounds[0].host)), (vec!["a".into()], vec!["z".into()]));
    assert_eq!(nodes(&root.rounds[0].views), ["r"]);
    assert_eq!(
        (nodes(&root.rounds[1].device), nodes(&root.rounds[1].host)),
        (vec!["f".into(), "g".into()], vec!["y".into()])
    );
    assert_eq!((nodes(&root.rounds[2].device), root.rounds.len()), (vec!["o".into()], 3));
    assert_eq!((exec.symbols.len(), exec.symbols[0].places.as_slice()), (1, ["x:0".to_owned()].as_slice()));
    assert_eq!((exec.plans.kept, exec.plans.dropped), (120, 8));
    // A run launches what was reported, round by round, with the chosen branch between the rounds.
    let m = s.load(made.model).unwrap();
    let given = [f32s(&[2, 3], &[1.0, 0.0, 2.0, 0.0, 3.0, 4.0]), i64s(&[1], &[6]), truth(true)];
    let views: Vec<_> = given.iter().map(HostTensor::view).collect();
    let ran = m.run_views(&views, ge_runtime::RunOptions { profile: true }).unwrap();
    let launched: Vec<(String, Vec<String>)> = ran
        .parts
        .iter()
        .map(|p| {
            let own = p.model().graphs[0].nodes.iter().filter(|n| n.stream.is_some()).map(|n| n.name.clone());
            (p.graph.clone(), own.collect())
        })
        .collect();
    let told =
        |graph: usize, round: usize| (exec.main[graph].graph.clone(), nodes(&exec.main[graph].rounds[round].device));
    let taken = exec.main.iter().position(|g| g.graph == "t").unwrap();
    assert_eq!(launched, [told(0, 0), told(0, 1), told(taken, 0), told(0, 2)]);
    assert_eq!(reals(&ran.outputs[0]), [0.0, 4.0, 8.0, 10.0, 0.0, 4.0, 8.0, 10.0]);
}

/// Writes the tensors of a sequence to `0.npy`, `1.npy` …
fn sequence(folder: &Path, list: &[HostTensor]) {
    std::fs::create_dir_all(folder).unwrap();
    for (k, t) in list.iter().enumerate() {
        std::fs::write(folder.join(format!("{k}.npy")), ge_runtime::npy::write(t).unwrap()).unwrap();
    }
}
fn strings(words: &[&str]) -> HostTensor {
    let mut bytes = 0u64.to_le_bytes().to_vec();
    let mut at = 0u64;
    for w in words {
        at += w.len() as u64;
        bytes.extend_from_slice(&at.to_le_bytes());
    }
    words.iter().for_each(|w| bytes.extend_from_slice(w.as_bytes()));
    let mut t = HostTensor::with_len(DType::STRING, &[words.len() as u64], bytes.len() as u64).unwrap();
    t.bytes_mut().copy_from_slice(&bytes);
    t
}

#[test]
fn sequences_optionals_and_strings_have_a_file_form() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%s: seq<f32[...]>, %x: f32[k], %o: opt<f32[...]>, %w: string[2]) {
  %r = SequenceInsert(%s, %x) : seq<f32[...]>
  %n = SequenceLength(%r) : i64[]
  %b = OptionalHasElement(%o) : bool[]
  %v = Identity(%w) : string[2]
  return %r, %n, %b, %v, %o
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let write = |name: &str, t: &HostTensor| {
        let path = d.join("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, ge_runtime::npy::write(t).unwrap()).unwrap();
    };
    let read = |name: &str, dtype: DType| {
        ge_runtime::npy::read(&std::fs::read(d.join("out").join(name)).unwrap(), dtype).unwrap()
    };
    sequence(&d.join("in/input_0"), &[f32s(&[2], &[1.0, 2.0]), f32s(&[1, 1], &[3.0])]);
    write("input_1.npy", &f32s(&[3], &[4.0, 5.0, 6.0]));
    write("input_3.npy", &strings(&["", "ü\u{1F600}"]));
    let run = ["run", "m.om", "--inputs", "in", "--outputs", "out", "-q"];
    expect_code(d, 0, &run);
    let dims = |k: usize| read(&format!("output_0/{k}.npy"), DType::F32).dims.to_vec();
    assert_eq!((dims(0), dims(1), dims(2)), (vec![2], vec![1, 1], vec![3]));
    assert_eq!(reals(&read("output_0/2.npy", DType::F32)), [4.0, 5.0, 6.0]);
    assert_eq!(
        (whole(&read("output_1.npy", DType::I64)), read("output_2.npy", DType::BOOL).bytes()),
        (vec![3], &[0u8][..])
    );
    let words = read("output_3.npy", DType::STRING);
    assert_eq!(ge_runtime::npy_text::texts(&words).unwrap(), [&b""[..], "ü\u{1F600}".as_bytes()]);
    // The optional is empty, so it has no file.
    assert!(!d.join("out/output_4.npy").exists() && !d.join("out/output_4").exists());

    // The next run can take these outputs as expected ones; a difference is reported with its
    // place.
    expect_code(d, 0, &["run", "m.om", "--inputs", "in", "--expect", "out", "-q"]);
    expect_code(d, 0, &["run", "m.ge", "--inputs", "in", "--expect", "out", "-q"]);
    let differs = |says: &str| {
        let out = expect_code(d, 1, &["run", "m.om", "--inputs", "in", "--expect", "out", "-q"]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains(says), "{said}");
    };
    std::fs::write(d.join("out/output_0/2.npy"), ge_runtime::npy::write(&f32s(&[3], &[4.0, 5.0, 7.0])).unwrap())
        .unwrap();
    differs("output `r[2]` differs most at element 2");
    std::fs::remove_file(d.join("out/output_0/2.npy")).unwrap();
    differs("found a sequence of 3, expected a sequence of 2");
    std::fs::write(d.join("out/output_3.npy"), ge_runtime::npy::write(&strings(&["", "u"])).unwrap()).unwrap();
    differs("output `v` differs at element 1");

    // An optional with a value is a file. The sequence may be empty: `--input` gives it an empty
    // folder by name. Files of the previous run are removed.
    write("input_2.npy", &f32s(&[2], &[8.0, 9.0]));
    std::fs::create_dir_all(d.join("none")).unwrap();
    let out = expect_code(d, 0, &[&run[..], &["--input", "s=none"]].concat());
    drop(out);
    assert!(d.join("out/output_0/0.npy").exists() && !d.join("out/output_0/1.npy").exists());
    assert_eq!(reals(&read("output_4.npy", DType::F32)), [8.0, 9.0]);
    assert_eq!(read("output_2.npy", DType::BOOL).bytes(), [1]);
    let shown = expect_code(d, 0, &["run", "m.om", "--inputs", "in"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(
        shown.contains("r: a sequence of 3\nr[0]: f32[2] = 1 2\n") && shown.contains("v: string[2] = \"\" \"ü"),
        "{shown}"
    );

    // Inputs that do not have the right form are reported by name, all at once.
    std::fs::remove_file(d.join("in/input_0/0.npy")).unwrap();
    std::fs::create_dir_all(d.join("in/input_2")).unwrap();
    std::fs::remove_file(d.join("in/input_2.npy")).unwrap();
    let said = String::from_utf8(expect_code(d, 2, &run).stderr).unwrap();
    assert!(
        said.contains("0.npy` is left out of a sequence") && said.contains("input `o` is not of this form"),
        "{said}"
    );
    std::fs::remove_dir_all(d.join("in/input_0")).unwrap();
    let said = String::from_utf8(expect_code(d, 2, &run).stderr).unwrap();
    assert!(said.contains("input `s` is not given") && said.contains("a folder `input_0` with 0.npy"), "{said}");
}

#[test]
fn a_graph_of_more_nodes_than_a_stream_holds_runs() {
    let s = session();
    // Each node adds one. The 10,000 nodes are divided into rounds of as many nodes as the longest
    // stream of the simulator takes.
    let nodes = 10_000;
    let mut text = String::from("graph @main(%v0: f32[n]) {\n  %one = Const() {value = dense<f32[1]: 1>} : f32[1]\n");
    for k in 0..nodes {
        text += &format!("  %v{} = Add(%v{k}, %one) : f32[n]\n", k + 1);
    }
    text += &format!("  return %v{nodes}\n}}\n");
    let made = compiled(&s, &text, &[]);
    let told = s.exec_of(&made.model).unwrap().main[0].rounds.iter().map(|r| r.device.len()).collect::<Vec<_>>();
    assert!(told.len() > 1 && told.iter().sum::<usize>() == nodes, "{told:?}");
    let m = s.load(made.model).unwrap();
    for n in [3, 1, 3] {
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let want: Vec<f32> = x.iter().map(|v| v + nodes as f32).collect();
        let x = f32s(&[n], &x);
        let ran = m.run_views(&[x.view()], ge_runtime::RunOptions { profile: true }).unwrap();
        assert_eq!(reals(&ran.outputs[0]), want);
        // The run has as many rounds, with as many launches, as `exec_of` reported.
        let launched =
            ran.parts.iter().map(|p| p.model().graphs[0].nodes.iter().filter(|n| n.stream.is_some()).count());
        assert_eq!(launched.collect::<Vec<_>>(), told);
    }
    assert_eq!(m.plans(), 2 * told.len());
}

/// A loop without turns collects nothing. To know the sizes of what it would have collected, it
/// does not run its body if that contains a loop, which might not end.
#[test]
fn a_loop_without_turns_runs_no_loop_of_its_body() {
    let m = load(
        &session(),
        "graph @main(%step: f32[], %lim: f32[], %k: f32[1]) {
           %z = Const() {value = dense<f32[]: 0>} : f32[]
           %i = Const() {value = dense<i64[]: 0>} : i64[]
           %g = Greater(%step, %z) : bool[]
           %none = SequenceEmpty() {element = [-1]} : seq<unknown[...]>
           %w = While(%i, %g, %none, %k, %step, %lim) {cond = @once, body = @turn} : i64[], bool[], seq<f32[...]>, f32[1], f32[], f32[]
           %y = ConcatFromSequence(%w#2) {axis = 0, new_axis = 1} : f32[...]
           return %y }
         graph @once(%i: i64[], %c: bool[], %s: seq<f32[...]>, %k: f32[1], %step: f32[], %lim: f32[]) {
           return %c }
         graph @turn(%i: i64[], %c: bool[], %s: seq<f32[...]>, %k: f32[1], %step: f32[], %lim: f32[]) {
           %t = Const() {value = dense<bool[]: true>} : bool[]
           %no = Const() {value = dense<bool[]: false>} : bool[]
           %z = Const() {value = dense<f32[]: 0>} : f32[]
           %w = While(%t, %z, %k, %step, %lim) {cond = @goes, body = @adds} : bool[], f32[], f32[?], f32[], f32[]
           %all = SequenceInsert(%s, %w#2) : seq<f32[...]>
           return %i, %no, %all, %k, %step, %lim }
         graph @goes(%c: bool[], %v: f32[], %w: f32[?], %step: f32[], %lim: f32[]) {
           return %c }
         graph @adds(%c: bool[], %v: f32[], %w: f32[?], %step: f32[], %lim: f32[]) {
           %next = Add(%v, %step) : f32[]
           %more = Less(%next, %lim) : bool[]
           %one = Const() {value = dense<i64[1]: 1>} : i64[1]
           %new = Reshape(%next, %one) : f32[1]
           %all = ConcatD(%w, %new) {N = 2, concat_dim = 0} : f32[?]
           return %more, %next, %all, %step, %lim }",
    );
    let run = |step: f32| m.run(&[f32s(&[], &[step]), f32s(&[], &[3.0]), f32s(&[1], &[0.0])]).unwrap().remove(0);
    let y = run(0.5);
    assert_eq!((&y.dims[..], reals(&y)), (&[1, 7][..], vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]));
    // The inner loop would go on for ever.
    assert_eq!(run(0.0).dims[..], [0, 0]);
}

#[test]
fn a_loop_without_turns_collects_no_strings() {
    let m = load(
        &session(),
        "graph @main(%n: i64[], %x: string[k]) {
           %i = Const() {value = dense<i64[]: 0>} : i64[]
           %none = SequenceEmpty() {element = [-1]} : seq<unknown[...]>
           %w = While(%i, %none, %n, %x) {cond = @go, body = @turn} : i64[], seq<string[...]>, i64[], string[k]
           %y = ConcatFromSequence(%w#1) {axis = 0, new_axis = 1} : string[...]
           return %y }
         graph @go(%i: i64[], %s: seq<string[...]>, %n: i64[], %x: string[k]) {
           %c = Less(%i, %n) : bool[]
           return %c }
         graph @turn(%i: i64[], %s: seq<string[...]>, %n: i64[], %x: string[k]) {
           %one = Const() {value = dense<i64[]: 1>} : i64[]
           %j = Add(%i, %one) : i64[]
           %t = StringConcat(%x, %x) : string[k]
           %all = SequenceInsert(%s, %t) : seq<string[...]>
           return %j, %all, %n, %x }",
    );
    let run = |n: i64| m.run(&[i64s(&[], &[n]), strings(&["a", "bc"])]).unwrap().remove(0);
    let (two, none) = (run(2), run(0));
    let texts = |t: &HostTensor| ge_runtime::npy_text::texts(t).unwrap().concat();
    assert_eq!((&two.dims[..], &texts(&two)[..]), (&[2, 2][..], &b"aabcbcaabcbc"[..]));
    assert_eq!((&none.dims[..], none.dtype, &texts(&none)[..]), (&[0, 2][..], DType::STRING, &b""[..]));
}

/// The number of the turn is an input of random operators: turn 0 draws what no turn draws, others
/// draw other numbers, and a run draws the same as the run before it.
#[test]
fn each_turn_of_a_loop_draws_other_random_numbers() {
    let s = session();
    let m = load(
        &s,
        "graph @main(%x: f32[n], %t: i64[]) {
           %a = RandomUniform(%t) {shape = [4], seed = 3.0} : f32[4]
           %b = RandomNormalLike(%x, %t) : f32[n]
           %c = RandomUniform() {shape = [4], seed = 3.0} : f32[4]
           return %a, %b, %c }",
    );
    let drawn = |t: i64| -> Vec<Vec<f32>> {
        m.run(&[f32s(&[2], &[1.0; 2]), i64s(&[], &[t])]).unwrap().iter().map(reals).collect()
    };
    let all: Vec<_> = (0..4).map(drawn).collect();
    assert_eq!(all[0][0], all[0][2]);
    for (k, one) in all.iter().enumerate() {
        assert_eq!(&drawn(k as i64), one);
        assert!(all[..k].iter().all(|o| o[0] != one[0] && o[1] != one[1]), "{all:?}");
        assert_eq!(one[2], all[0][2]);
    }
}
