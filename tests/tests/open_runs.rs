//! Runs of models of open sizes with sizes that were seen before, and branches that do not fit.
use crate::executors::opened;
use ge::options::OptionMap;
use ge::session::{Model, Session, symbols};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::DType;
use ge_runtime::RunOptions;
use ge_tests::expect_code;
use std::path::Path;

fn loaded(s: &Session, text: &str, shapes: &str) -> Model {
    let dir = tempfile::tempdir().unwrap();
    let (source, om) = (dir.path().join("m.ge"), dir.path().join("m.om"));
    std::fs::write(&source, text).unwrap();
    let mut graph = s.import(&source, "").unwrap();
    symbols::apply(&mut graph, shapes).unwrap();
    s.compile("m", graph, &OptionMap::default(), &ge::session::Quiet).unwrap().write_om(&om).unwrap();
    let m = s.load_om(&om).unwrap();
    assert!(m.is_dynamic());
    m
}
fn f32s(dims: &[u64], seed: u64) -> HostTensor {
    let count = dims.iter().product::<u64>();
    let bytes: Vec<u8> = (0..count).flat_map(|i| (((i * 7 + seed * 13) % 31) as f32 - 9.5).to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}
/// Types, sizes and bytes of a run's outputs.
fn ran(m: &Model, inputs: &[TensorView<'_>], profile: bool) -> Vec<(DType, Vec<u64>, Vec<u8>)> {
    let out = m.run_views(inputs, RunOptions { profile }).unwrap().outputs;
    out.iter().map(|t| (t.dtype, t.dims.to_vec(), t.bytes().to_vec())).collect()
}

/// What models return besides the results of a launch: views, constants, inputs, the same value
/// twice, values in another order, what the plan computes.
const RETURNS: [&str; 7] = ["%a, %b", "%b, %a", "%r, %a", "%a, %a", "%a, %x", "%k, %a", "%s, %r, %b"];

#[test]
fn a_run_of_sizes_seen_before_gives_what_a_first_run_gives() {
    let s = opened(&[]);
    for returns in RETURNS {
        let text = format!(
            "graph @main(%x: f32[n,4], %y: f32[n,4]) {{
               %k = Const() {{value = dense<i64[1]: -1>}} : i64[1]
               %s = Shape(%x) {{dtype = i64}} : i64[2]
               %a = Add(%x, %y) : f32[n,4]
               %b = Mul(%a, %y) : f32[n,4]
               %r = Reshape(%b, %k) : f32[?]
               return {returns} }}"
        );
        let m = loaded(&s, &text, "");
        for (round, n) in [3u64, 1, 3, 6, 1, 3, 6].into_iter().enumerate() {
            let given = [f32s(&[n, 4], round as u64), f32s(&[n, 4], 20 + round as u64)];
            let views = [given[0].view(), given[1].view()];
            let want = ran(&loaded(&s, &text, ""), &views, false);
            assert_eq!(ran(&m, &views, false), want, "{returns}, {n} rows");
            // A profiled run takes the full path.
            assert_eq!(ran(&m, &views, true), want, "{returns}, {n} rows");
            // An input at an address that the device does not take.
            let mut moved = HostTensor::with_len(DType::F32, &[], given[0].bytes().len() as u64 + 4).unwrap();
            moved.bytes_mut()[4..].copy_from_slice(given[0].bytes());
            let aside = TensorView { bytes: &moved.bytes()[4..], ..given[0].view() };
            assert_eq!(ran(&m, &[aside, given[1].view()], false), want, "{returns}, {n} rows");
        }
        assert_eq!(m.plans(), 3, "{returns}");
    }
}

/// What was checked when a plan was made holds only for its sizes.
#[test]
fn sizes_seen_before_make_no_other_sizes_fit() {
    let s = opened(&[]);
    let text = "graph @main(%x: f32[?,3], %y: f32[?]) { %s = Abs(%x) : f32[?,3] %z = Neg(%y) : f32[?] return %s, %z }";
    let m = loaded(&s, text, "x:N=1..4,3;y:N");
    let run = |x: &[u64], y: &[u64]| m.run(&[f32s(x, 1), f32s(y, 2)]).map(|out| out.len()).map_err(|e| e.to_string());
    for _ in 0..2 {
        assert_eq!((run(&[4, 3], &[4]), run(&[1, 3], &[1])), (Ok(2), Ok(2)));
        for (x, y, said) in [(&[5, 3], &[5], "1 to 4"), (&[4, 3], &[1], "`N`"), (&[3, 4], &[4], "3 for dimension 1")] {
            let e = run(x, y).unwrap_err();
            assert!(e.contains(said), "{e}");
        }
        let given = [f32s(&[4, 3], 1), f32s(&[4], 2)];
        let short = TensorView { bytes: &given[1].bytes()[..12], ..given[1].view() };
        let e = m.run_views(&[given[0].view(), short], RunOptions::default()).err().map(|e| e.to_string()).unwrap();
        assert!(e.contains("12 bytes"), "{e}");
        let whole = HostTensor::zeroed(DType::I32, &[4]).unwrap();
        assert!(m.run_views(&[given[0].view(), whole.view()], RunOptions::default()).is_err());
        assert!(m.run_views(&[given[0].view()], RunOptions::default()).is_err());
    }
    assert_eq!(m.plans(), 2);
}

/// For layers that differ only in their names, an engine is asked once for each size; constants and
/// attributes make layers different.
#[test]
fn nodes_that_are_alike_share_what_was_asked_and_no_others_do() {
    let s = opened(&[]);
    let mut text = String::from("graph @main(%x: f32[n,6]) {\n  %v0 = Neg(%x) : f32[n,6]\n");
    let kinds = [
        "Elu(%v) {alpha = 0.5}",
        "Elu(%v) {alpha = 1.5}",
        "SoftmaxV2(%v) {axes = [-1]}",
        "SoftmaxV2(%v) {axes = [0]}",
        "CumsumD(%v) {axis = 0}",
        "CumsumD(%v) {axis = 1}",
    ];
    for k in 0..18usize {
        let line = kinds[k % kinds.len()].replace("%v", &format!("%v{k}"));
        text.push_str(&format!("  %v{} = {line} : f32[n,6]\n", k + 1));
    }
    text.push_str("  return %v18\n}");
    let m = loaded(&s, &text, "");
    for n in [1u64, 5, 2, 9, 5] {
        let x = f32s(&[n, 6], n);
        // A static model asks for each node separately.
        let closed = text.replace("[n,6]", &format!("[{n},6]"));
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("m.ge");
        std::fs::write(&source, closed).unwrap();
        let one = s.compile("m", s.import(&source, "").unwrap(), &OptionMap::default(), &ge::session::Quiet).unwrap();
        let want = s.load(one.model).unwrap().run(std::slice::from_ref(&x)).unwrap();
        let found = m.run(std::slice::from_ref(&x)).unwrap();
        for (a, b) in want[0].view().values::<f32>().unwrap().iter().zip(found[0].view().values::<f32>().unwrap()) {
            assert!((a - b).abs() <= 1e-6 * a.abs().max(1.0), "{n} rows: {a} and {b}");
        }
    }
}

/// Layers with weights of their own share launches that an engine gives without knowing the
/// weights; constants that a launch contains stay with their node.
#[test]
fn layers_share_launches_that_hold_no_weights_and_no_others() {
    let s = opened(&[]);
    // More than 512 bytes each: a product reads its weights, a gather keeps its positions.
    let weights = |k: u64| (0..256).map(|i| ((i * 7 + k * 5) % 11) as f32 / 16.0 - 0.3).collect::<Vec<f32>>();
    let rows = |k: u64| (0..80).map(|i| ((i * 3 + k) % 16) as i64).collect::<Vec<i64>>();
    let list = |all: &[String]| all.join(", ");
    let mut text = String::from("graph @main(%x: f32[n,16]) {\n  %axis = Const() {value = dense<i64[]: 1>} : i64[]\n");
    let mut last = "x".to_owned();
    for k in 0..4 {
        let (w, i) = (weights(k), rows(k));
        let (w, i): (Vec<String>, Vec<String>) =
            (w.iter().map(|v| format!("{v:?}")).collect(), i.iter().map(i64::to_string).collect());
        text.push_str(&format!(
            "  %w{k} = Const() {{value = dense<f32[16,16]: {}>}} : f32[16,16]\n  \
             %i{k} = Const() {{value = dense<i64[80]: {}>}} : i64[80]\n  \
             %m{k} = MatMulV2(%{last}, %w{k}) : f32[n,16]\n  \
             %g{k} = GatherV2(%m{k}, %i{k}, %axis) : f32[n,80]\n  \
             %s{k} = SliceD(%g{k}) {{offsets = [0, {k}], size = [-1, 16]}} : f32[n,16]\n",
            list(&w),
            list(&i),
        ));
        last = format!("s{k}");
    }
    text.push_str(&format!("  return %{last}\n}}"));
    let m = loaded(&s, &text, "");
    for n in [3u64, 1, 7, 2, 9, 30, 3] {
        let x = f32s(&[n, 16], n);
        let mut want: Vec<f32> = x.view().values::<f32>().unwrap().to_vec();
        for k in 0..4 {
            let (w, i) = (weights(k), rows(k));
            let line = |row: &[f32]| -> Vec<f32> {
                let made: Vec<f32> = (0..16).map(|c| (0..16).map(|r| row[r] * w[16 * r + c]).sum::<f32>()).collect();
                (0..16).map(|c| made[i[c + k as usize] as usize]).collect()
            };
            want = want.chunks(16).flat_map(line).collect();
        }
        let found = m.run(std::slice::from_ref(&x)).unwrap();
        for (a, b) in want.iter().zip(found[0].view().values::<f32>().unwrap()) {
            assert!((a - b).abs() <= 1e-4 * a.abs().max(1.0), "{n} rows: {a} and {b}");
        }
    }
}

const ODD: &str = "graph @main(%x: f32[2,3], %c: bool[]) {
   %y = If(%c, %x) {then_branch = @fits, else_branch = @odd} : f32[2,3]
   %z = Neg(%y) : f32[2,3]
   return %z }
 graph @fits(%x: f32[2,3]) { %a = Exp(%x) : f32[2,3] return %a }
 graph @odd(%x: f32[2,3]) {
   %k = Const() {value = dense<f32[5]: 1, 2, 3, 4, 5>} : f32[5]
   %b = Add(%x, %k) : f32[...]
   return %b }";

/// A branch that does not fit the sizes is an error of the run that takes it, not of the model.
#[test]
fn a_branch_that_does_not_fit_is_refused_when_it_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let compile = |text: &str, code: i32| {
        std::fs::write(d.join("m.ge"), text).unwrap();
        String::from_utf8(expect_code(d, code, &["compile", "m.ge", "-o", "m.om"]).stderr).unwrap()
    };
    let run = |c: &str, code: i32| {
        let c = format!("c={c}");
        let args = ["run", "m.om", "--input", "x=[[1,2,3],[4,5,6]]", "--input", &c, "--outputs", "out", "-q"];
        String::from_utf8(expect_code(d, code, &args).stderr).unwrap()
    };
    let said = compile(ODD, 0);
    assert!(said.contains("warning: `b` in `else_branch` of `y` (If) does not fit"), "{said}");
    run("true", 0);
    let out = ge_runtime::npy::read(&std::fs::read(d.join("out/output_0.npy")).unwrap(), DType::F32).unwrap();
    let want: Vec<f32> = (1..7).map(|v| -(v as f32).exp()).collect();
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs();
    assert!(
        out.view().values::<f32>().unwrap().iter().zip(&want).all(close),
        "{:?} {want:?}",
        out.view().values::<f32>()
    );
    let said = run("false", 3);
    assert!(said.contains("GE-E0351") && said.contains("`else_branch` of `y` (If)"), "{said}");
    // If no branch fits, or if the wrong part is always computed, the model is refused.
    let other = ODD[ODD.find("graph @odd").unwrap()..].replace("@odd", "@odd_too");
    let none = ODD
        .replace("then_branch = @fits", "then_branch = @odd_too")
        .replace("graph @fits(%x: f32[2,3]) { %a = Exp(%x) : f32[2,3] return %a }", &other);
    let said = compile(&none, 3);
    assert!(!said.contains("warning"), "{said}");
    let odd = "%q = Const() {value = dense<f32[5]: 1, 2, 3, 4, 5>} : f32[5]\n   %z = Add(%y, %q) : f32[...]";
    let always = ODD.replace("%z = Neg(%y) : f32[2,3]", odd);
    compile(&always, 3);
    // A branch within a branch.
    let nested = ODD
        .replace(
            "graph @main(%x: f32[2,3], %c: bool[]) {\n   %y = If(%c, %x)",
            "graph @main(%x: f32[2,3], %c: bool[]) {\n   %y = If(%c, %x, %c)",
        )
        .replace("then_branch = @fits, else_branch = @odd}", "then_branch = @inner, else_branch = @other}")
        + "\n graph @inner(%x: f32[2,3], %c: bool[]) {
             %y2 = If(%c, %x) {then_branch = @fits, else_branch = @odd} : f32[2,3]
             return %y2 }
           graph @other(%x: f32[2,3], %c: bool[]) { %o = Abs(%x) : f32[2,3] return %o }";
    assert!(compile(&nested, 0).contains("does not fit"));
    run("true", 0);
    run("false", 0);
    assert!(Path::new(&d.join("out/output_0.npy")).exists());
}
