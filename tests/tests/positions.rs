//! Slices at positions that a run decides: one plan serves all positions that give one length, and
//! gives what a plain slice gives.
use crate::dynamic::session;
use crate::executors::{chance, loaded, opened};
use ge::options::OptionMap;
use ge::session::{Model, Quiet, Session};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::RunOptions;
use ge_tests::long;
use std::collections::HashSet;

fn compiled(s: &Session, text: &str) -> ge_model::CompiledModel {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("m.ge");
    std::fs::write(&source, text).unwrap();
    let graph = s.import(&source, "").unwrap_or_else(|e| panic!("{e}\n{text}"));
    s.compile("m", graph, &OptionMap::default(), &Quiet).unwrap_or_else(|e| panic!("{e}\n{text}")).model
}

fn tensor(dtype: DType, dims: &[u64], bytes: Vec<u8>) -> HostTensor {
    HostTensor::from_bytes(dtype, dims, &bytes).unwrap()
}
fn f32s(dims: &[u64], v: &[f32]) -> HostTensor {
    tensor(DType::F32, dims, v.iter().flat_map(|v| v.to_le_bytes()).collect())
}
fn i64s(dims: &[u64], v: &[i64]) -> HostTensor {
    tensor(DType::I64, dims, v.iter().flat_map(|v| v.to_le_bytes()).collect())
}
fn run(m: &Model, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let views: Vec<_> = inputs.iter().map(HostTensor::view).collect();
    m.run_views(&views, RunOptions::default()).unwrap().outputs
}
fn reals(t: &HostTensor) -> Vec<f32> {
    t.bytes().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// The indices that `begin..end` by `step` selects from `n`, as ONNX's Slice says: a backward step
/// begins at the first element at least.
fn plain(n: i64, begin: i64, end: i64, step: i64) -> Vec<i64> {
    if n == 0 {
        return Vec::new();
    }
    let place = |v: i64| if v < 0 { v + n } else { v };
    let (begin, end) = (place(begin), place(end));
    if step > 0 {
        (begin.clamp(0, n)..end.clamp(0, n)).step_by(step as usize).collect()
    } else {
        let (first, last) = (begin.clamp(0, n - 1), end.clamp(-1, n - 1));
        (last + 1..=first).rev().step_by(-step as usize).collect()
    }
}

#[test]
fn one_plan_serves_all_positions_of_a_length() {
    let (quiet, wild) = (opened(&[]), opened(&[("schedule", "random:3"), ("check_races", "full")]));
    let mut next = chance(77);
    for step in [1i64, 2, -1] {
        for axis in [0i64, -1] {
            // The slice of a parameter, and that of a computed value whose axis has a known size.
            for (inner, sizes) in [(false, "f32[n,m]"), (true, if axis == 0 { "f32[6,m]" } else { "f32[n,6]" })] {
                let (x, relu) = if inner { ("r", format!("%r = Abs(%x) : {sizes}")) } else { ("x", String::new()) };
                let text = format!(
                    "graph @main(%x: {sizes}, %p: i64[1], %q: i64[]) {{
                       {relu}
                       %axis = Const() {{value = dense<i64[1]: {axis}>}} : i64[1]
                       %step = Const() {{value = dense<i64[1]: {step}>}} : i64[1]
                       %two = Const() {{value = dense<i64[]: 2>}} : i64[]
                       %e = Sub(%q, %two) : i64[]
                       %f = Unsqueeze(%e) {{axes = [0]}} : i64[1]
                       %s = StridedSliceV2(%{x}, %p, %f, %axis, %step) : f32[?,?]
                       %y = Neg(%s) : f32[?,?]
                       return %y }}"
                );
                let m = compiled(&quiet, &text);
                let models = [loaded(&quiet, &m, 0, false), loaded(&wild, &m, 3, false)];
                let mut seen = HashSet::new();
                for _ in 0..if long() { 2_000 } else { 60 } {
                    let dims = if inner {
                        if axis == 0 { [6, 1 + next(3)] } else { [1 + next(3), 6] }
                    } else {
                        [next(5), next(5)]
                    };
                    let count = dims[0] * dims[1];
                    let v: Vec<f32> = (0..count).map(|k| k as f32 + 1.0).collect();
                    let (p, q) = (next(16) as i64 - 8, next(20) as i64 - 8);
                    let along = if axis == 0 { dims[0] } else { dims[1] } as i64;
                    let taken = plain(along, p, q - 2, step);
                    let (rows, columns): (Vec<i64>, Vec<i64>) = if axis == 0 {
                        (taken.clone(), (0..dims[1] as i64).collect())
                    } else {
                        ((0..dims[0] as i64).collect(), taken.clone())
                    };
                    let at = |r: i64, c: i64| -v[(r * dims[1] as i64 + c) as usize];
                    let want: Vec<f32> = rows.iter().flat_map(|r| columns.iter().map(|c| at(*r, *c))).collect();
                    seen.insert((dims, taken.len()));
                    for m in &models {
                        let out = &run(m, &[f32s(&dims, &v), i64s(&[1], &[p]), i64s(&[], &[q])])[0];
                        assert_eq!(out.dims.as_slice(), [rows.len() as u64, columns.len() as u64], "{p} {q}\n{text}");
                        assert_eq!(reals(out), want, "{dims:?} {p} {q}\n{text}");
                    }
                }
                assert!(models[0].plans() <= seen.len().min(120), "{} plans\n{text}", models[0].plans());
            }
        }
    }
}

#[test]
fn a_loop_that_takes_a_step_of_a_sequence_per_turn_has_one_plan() {
    let s = session();
    let m = compiled(
        &s,
        "graph @main(%x: f32[n,3], %turns: i64[]) {
           %i = Const() {value = dense<i64[]: 0>} : i64[]
           %sum = Const() {value = dense<f32[1,3]: 0 0 0>} : f32[1,3]
           %w = While(%i, %turns, %x, %sum) {cond = @go, body = @turn} : i64[], i64[], f32[n,3], f32[?,3]
           return %w#3 }
         graph @go(%i: i64[], %t: i64[], %x: f32[n,3], %sum: f32[?,3]) { %l = Less(%i, %t) : bool[] return %l }
         graph @turn(%i: i64[], %t: i64[], %x: f32[n,3], %sum: f32[?,3]) {
           %one = Const() {value = dense<i64[]: 1>} : i64[]
           %axis = Const() {value = dense<i64[1]: 0>} : i64[1]
           %b = Unsqueeze(%i) {axes = [0]} : i64[1]
           %j = Add(%i, %one) : i64[]
           %e = Unsqueeze(%j) {axes = [0]} : i64[1]
           %s = StridedSliceV2(%x, %b, %e, %axis) : f32[?,3]
           %next = Add(%sum, %s) : f32[?,3]
           return %j, %t, %x, %next }",
    );
    let m = s.load(m).unwrap();
    for n in [1u64, 7, 500] {
        let v: Vec<f32> = (0..n * 3).map(|k| (k % 7) as f32).collect();
        let sum = |c: usize| v.iter().skip(c).step_by(3).sum::<f32>();
        let out = run(&m, &[f32s(&[n, 3], &v), i64s(&[], &[n as i64])]);
        assert_eq!(reals(&out[0]), [sum(0), sum(1), sum(2)]);
    }
    // The rounds of the main graph, and one plan of the body for each number of rows.
    assert!(m.plans() <= 12, "{} plans", m.plans());
}

#[test]
fn what_plans_are_keyed_by_is_told() {
    let s = session();
    let keyed = |more: &str| {
        let m = compiled(
            &s,
            &format!(
                "graph @main(%x: f32[n,3], %p: i64[1], %q: i64[1]) {{
                   %s = StridedSliceV2(%x, %p, %q) : f32[?,3]
                   %y = Neg(%s) : f32[?,3]
                   {more} }}"
            ),
        );
        let e = s.exec_of(&m).unwrap();
        (e.main[0].by_value.clone(), e.main[0].by_length.clone())
    };
    let names = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    assert_eq!(keyed("return %y"), (names(&[]), names(&["s"])));
    // A position that also is a size is known to the plan; with both, the slice is, too.
    let zeros = |v: &str| {
        format!(
            "%{v}o = Const() {{value = dense<f32[]: 1>}} : f32[]
             %{v}z = Fill(%{v}, %{v}o) : f32[?]
             %{v}n = Neg(%{v}z) : f32[?]"
        )
    };
    let one = keyed(&format!("{}  return %y, %pn", zeros("p")));
    assert_eq!(one, (names(&["p"]), names(&["s"])));
    let both = keyed(&format!("{}  {}  return %y, %pn, %qn", zeros("p"), zeros("q")));
    assert_eq!(both, (names(&["p", "q"]), names(&[])));
}
