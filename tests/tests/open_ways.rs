//! A run with sizes that were seen before only makes launches and choices. It gives and reports
//! what a first run gives and reports, whatever branches were taken before.
use crate::executors::{chance, loaded, opened, seen};
use crate::open_streams::compiled;
use ge::session::Model;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::long;

/// Writes random graphs of operators, views and nested branches, on `f32[n,8]`.
struct Writer<'r> {
    next: &'r mut dyn FnMut(u64) -> u64,
    graphs: String,
    count: usize,
}

impl Writer<'_> {
    fn name(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    /// The lines of a body on `%p`, `%q` and the index `%k`, and the values that it may return.
    fn body(&mut self, steps: u64, depth: u64) -> (String, Vec<String>) {
        let (mut lines, mut values) = (String::new(), vec!["p".to_owned(), "q".to_owned()]);
        for _ in 0..steps {
            let v = self.name();
            let a = values[(self.next)(values.len() as u64) as usize].clone();
            let b = values[(self.next)(values.len() as u64) as usize].clone();
            let given = match (self.next)(if depth > 0 { 9 } else { 5 }) {
                0 => format!("%{v} = Abs(%{a}) : f32[n,8]\n"),
                1 => format!("%{v} = Sub(%{a}, %{b}) : f32[n,8]\n"),
                2 => format!("%{v} = Relu(%{a}) : f32[n,8]\n"),
                3 => format!(
                    "%{v}_s = Const() {{value = dense<i64[2]: 4, -1>}} : i64[2]
                     %{v}_f = Const() {{value = dense<i64[2]: -1, 8>}} : i64[2]
                     %{v}_t = Reshape(%{a}, %{v}_s) : f32[4,?]
                     %{v} = Reshape(%{v}_t, %{v}_f) : f32[n,8]\n"
                ),
                4 => format!("%{v} = Neg(%{a}) : f32[n,8]\n"),
                5 => {
                    let graphs: Vec<String> = (0..3).map(|_| self.graph(depth - 1)).collect();
                    let list = graphs.iter().map(|g| format!("@{g}")).collect::<Vec<_>>().join(", ");
                    format!("%{v} = Case(%k, %{a}, %{b}, %k) {{branches = [{list}]}} : f32[n,8], f32[n,8]\n")
                }
                _ => {
                    let (t, e) = (self.graph(depth - 1), self.graph(depth - 1));
                    format!(
                        "%{v}_s = ReduceSum(%{a}) {{axes = [0, 1], keep_dims = false}} : f32[]
                         %{v}_z = Const() {{value = dense<f32[]: 0>}} : f32[]
                         %{v}_c = Greater(%{v}_s, %{v}_z) : bool[]
                         %{v} = If(%{v}_c, %{a}, %{b}, %k) {{then_branch = @{t}, else_branch = @{e}}} : f32[n,8], f32[n,8]\n"
                    )
                }
            };
            if given.contains("If(") || given.contains("Case(") {
                values.push(format!("{v}#1"));
                values.push(format!("{v}#0"));
            } else {
                values.push(v);
            }
            lines.push_str(&given);
        }
        (lines, values)
    }

    /// Writes a graph with two results, which may be its inputs, or one value twice. Returns its
    /// name.
    fn graph(&mut self, depth: u64) -> String {
        let steps = (self.next)(4);
        let (lines, values) = self.body(steps, depth);
        let [a, b] = [0, 1].map(|_| values[(self.next)(values.len() as u64) as usize].clone());
        let name = self.name();
        let graph = format!("graph @{name}(%p: f32[n,8], %q: f32[n,8], %k: i32[]) {{\n{lines}return %{a}, %{b} }}\n");
        self.graphs.push_str(&graph);
        name
    }

    fn model(mut self) -> String {
        let (lines, values) = self.body(6, 2);
        let shown = values.iter().rev().take(3).map(|v| format!("%{v}")).collect::<Vec<_>>().join(", ");
        let main = format!("graph @main(%p: f32[n,8], %q: f32[n,8], %k: i32[]) {{\n{lines}return {shown}, %p }}\n");
        main + &self.graphs
    }
}

fn given(rows: u64, next: &mut dyn FnMut(u64) -> u64) -> Vec<HostTensor> {
    let mut tensor = |sign: f32| {
        let bytes: Vec<u8> = (0..rows * 8).flat_map(|_| (sign * (next(9) as f32 - 3.0)).to_le_bytes()).collect();
        HostTensor::from_bytes(DType::F32, &[rows, 8], &bytes).unwrap()
    };
    let signs = [1.0, -1.0];
    let tensors = [tensor(signs[rows as usize % 2]), tensor(-signs[rows as usize % 2])];
    let mut flip = |mut t: HostTensor| {
        if next(2) == 0 {
            t.bytes_mut().chunks_exact_mut(4).for_each(|v| v[3] ^= 0x80);
        }
        t
    };
    let [p, q] = tensors.map(&mut flip);
    let k = HostTensor::from_bytes(DType::I32, &[], &(next(5) as i32 - 1).to_le_bytes()).unwrap();
    vec![p, q, k]
}

#[test]
fn runs_by_their_way_give_and_tell_what_first_runs_do() {
    let s = opened(&[]);
    let mut ways = 0;
    for seed in 0..if long() { 400 } else { 25 } {
        let mut next = chance(seed + 900);
        let text = Writer { next: &mut next, graphs: String::new(), count: 0 }.model();
        let m =
            compiled(&s, &text, &[("ge.exec.static_model_ops_lower_limit", if seed % 3 == 0 { "1" } else { "-1" })]);
        let kept: Model = loaded(&s, &m, 0, false);
        for turn in 0..14 {
            // Sizes for which branches are small, and sizes for which they are not.
            let inputs = given([4u64, 800, 2][turn % 3], &mut next);
            let want = seen(&loaded(&s, &m, 0, false), &inputs, false);
            let found = seen(&kept, &inputs, false);
            assert!(found == want, "seed {seed}, turn {turn}\n{text}");
            // The same inputs take the same way again.
            assert!(seen(&kept, &inputs, false) == want, "seed {seed}, turn {turn}, again\n{text}");
        }
        ways += kept.ways();
    }
    assert!(ways > 25, "{ways}");
}

/// Branches whose results have different sizes, so that different plans follow, and a condition
/// that is invalid because it has two elements.
#[test]
fn branches_that_go_on_otherwise_have_no_common_way() {
    let s = opened(&[]);
    let text = "graph @main(%x: f32[n,8], %c: bool[?]) {
          %y = If(%c, %x) {then_branch = @t, else_branch = @e} : f32[?,8]
          %z = Abs(%y) : f32[?,8]
          return %z }
        graph @t(%p: f32[n,8]) {
          %r = ConcatD(%p, %p) {N = 2, concat_dim = 0} : f32[?,8]
          return %r }
        graph @e(%p: f32[n,8]) {
          %r = Neg(%p) : f32[n,8]
          return %r }";
    let m = compiled(&s, text, &[("ge.exec.static_model_ops_lower_limit", "-1")]);
    let kept = loaded(&s, &m, 0, false);
    let x: Vec<f32> = (0..3200).map(|i| (i % 7) as f32 - 3.0).collect();
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let x = HostTensor::from_bytes(DType::F32, &[400, 8], &bytes).unwrap();
    for k in 0..40 {
        let truth = k % 3 == 0;
        let c = HostTensor::from_bytes(DType::BOOL, &[1], &[u8::from(truth)]).unwrap();
        let found = seen(&kept, &[x.clone(), c], false).0;
        let abs: Vec<u8> = bytes.chunks(4).flat_map(|b| [b[0], b[1], b[2], b[3] & 0x7f]).collect();
        assert!(found == [if truth { abs.repeat(2) } else { abs }], "{k}");
        let two = HostTensor::from_bytes(DType::BOOL, &[2], &[1, 0]).unwrap();
        let e = kept.run(&[x.clone(), two]).unwrap_err().to_string();
        assert!(e.contains("2 elements"), "{e}");
    }
}

/// Branches whose results have as many elements, but other sizes. What follows was planned for the
/// sizes of each, so a run never goes on with a plan for the other sizes.
#[test]
fn branches_that_give_other_sizes_have_no_common_way() {
    let s = opened(&[]);
    let text = "graph @main(%x: f32[n,m], %c: bool[], %d: bool[]) {
          %y = If(%c, %x) {then_branch = @neg, else_branch = @turn} : f32[?,?]
          %z = If(%d, %y) {then_branch = @most, else_branch = @least} : f32[]
          return %z }
        graph @neg(%p: f32[n,m]) {
          %r = Neg(%p) : f32[n,m]
          return %r }
        graph @turn(%p: f32[n,m]) {
          %r = TransposeD(%p) {perm = [1, 0]} : f32[m,n]
          return %r }
        graph @most(%p: f32[n,m]) {
          %axis = Const() {value = dense<i64[1]: 0>} : i64[1]
          %r = ReduceMax(%p) {axes = [0], keep_dims = false} : f32[m]
          %s = ReduceSum(%r, %axis) {keep_dims = false} : f32[]
          return %s }
        graph @least(%p: f32[n,m]) {
          %axis = Const() {value = dense<i64[1]: 0>} : i64[1]
          %r = ReduceMin(%p) {axes = [0], keep_dims = false} : f32[m]
          %s = ReduceSum(%r, %axis) {keep_dims = false} : f32[]
          return %s }";
    let m = compiled(&s, text, &[("ge.exec.static_model_ops_lower_limit", "-1")]);
    let truth = |v: bool| HostTensor::from_bytes(DType::BOOL, &[], &[u8::from(v)]).unwrap();
    for (rows, columns) in [(2usize, 3usize), (40, 60)] {
        let number = |i: usize| ((i * 7) % 13) as f32 - 4.0;
        let bytes: Vec<u8> = (0..rows * columns).flat_map(|i| number(i).to_le_bytes()).collect();
        let x = HostTensor::from_bytes(DType::F32, &[rows as u64, columns as u64], &bytes).unwrap();
        // The sum of the largest (or smallest) values of each column of the first choice's result.
        let want = |negated: bool, largest: bool| -> f32 {
            let of = |column: Vec<f32>| {
                let pick = if largest { f32::max } else { f32::min };
                column.into_iter().reduce(pick).unwrap()
            };
            if negated {
                (0..columns).map(|c| of((0..rows).map(|r| -number(r * columns + c)).collect())).sum()
            } else {
                (0..rows).map(|r| of((0..columns).map(|c| number(r * columns + c)).collect())).sum()
            }
        };
        let kept = loaded(&s, &m, 0, false);
        let runs = [(true, true), (false, false), (false, true), (true, false)];
        for (k, (c, d)) in runs.into_iter().cycle().take(12).enumerate() {
            let found = kept.run(&[x.clone(), truth(c), truth(d)]).unwrap();
            assert_eq!(found[0].bytes(), want(c, d).to_le_bytes(), "{rows} rows, run {k}: {c} {d}");
        }
    }
}
