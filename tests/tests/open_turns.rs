//! An iteration of a loop with the sizes of an earlier one takes the same steps without a plan. It
//! gives what an iteration that is run as a graph gives; a profile runs every iteration so.
use crate::executors::{chance, loaded, opened, seen};
use crate::open_streams::compiled;
use ge::session::{Model, Session};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::long;

/// Writes loops over `f32[m,4]`, of which the body has random operators, takes a row of `%x` per
/// iteration, chooses, makes two sequences longer, and hands on what it carries in another order.
struct Writer<'r> {
    next: &'r mut dyn FnMut(u64) -> u64,
    count: usize,
    branches: String,
}

/// The parameters of the graphs that a loop calls.
const STATE: &str =
    "%i: i64[], %n: i64[], %x: f32[m,4], %p: f32[m,4], %q: f32[m,4], %s: seq<f32[...]>, %t: seq<f32[...]>";

impl Writer<'_> {
    fn one_of(&mut self, values: &[String]) -> String {
        values[(self.next)(values.len() as u64) as usize].clone()
    }

    fn operator(&mut self, values: &[String]) -> (String, String) {
        self.count += 1;
        let v = format!("v{}", self.count);
        let (a, b) = (self.one_of(values), self.one_of(values));
        let line = match (self.next)(9) {
            0 => format!("%{v} = Sub(%{a}, %{b}) : f32[m,4]"),
            1 => format!("%{v} = Maximum(%{a}, %{b}) : f32[m,4]"),
            2 => format!("%{v} = Abs(%{a}) : f32[m,4]"),
            3 => format!("%{v} = Identity(%{a}) : f32[m,4]"),
            4 => format!("%{v} = SoftmaxV2(%{a}) {{axes = [1]}} : f32[m,4]"),
            5 => {
                self.branches.push_str(&format!(
                    "graph @then{v}(%a: f32[m,4], %b: f32[m,4]) {{ %r = Relu(%a) : f32[m,4] return %r }}
                     graph @else{v}(%a: f32[m,4], %b: f32[m,4]) {{ return %b }}\n"
                ));
                let branches = format!("then_branch = @then{v}, else_branch = @else{v}");
                format!("%{v} = If(%odd, %{a}, %{b}) {{{branches}}} : f32[m,4]")
            }
            6 | 7 => format!(
                "%{v}_r = StridedSliceV2(%x, %begin, %end, %axis) : f32[?,4]
                 %{v} = Add(%{a}, %{v}_r) : f32[m,4]"
            ),
            _ => format!("%{v} = Neg(%{a}) : f32[m,4]"),
        };
        (v, line)
    }

    /// The lines that hand a sequence on, and its last name.
    fn list(&mut self, list: &str, values: &[String]) -> (String, String) {
        let (v, a, b) = (format!("{list}_next"), self.one_of(values), self.one_of(values));
        match (self.next)(7) {
            0 => (String::new(), list.to_owned()),
            1 => (
                format!(
                    "%{list}_one = SequenceInsert(%{list}, %{a}) : seq<f32[...]>
                     %{v} = SequenceInsert(%{list}_one, %{b}) : seq<f32[...]>\n"
                ),
                v,
            ),
            2 => (format!("%{v} = SequenceInsert(%{list}, %{a}, %front) : seq<f32[...]>\n"), v),
            _ => (format!("%{v} = SequenceInsert(%{list}, %{a}) : seq<f32[...]>\n"), v),
        }
    }

    fn model(mut self) -> String {
        let mut values: Vec<String> = ["x", "p", "q"].map(str::to_owned).to_vec();
        let mut lines = String::new();
        for _ in 0..1 + (self.next)(4) {
            let (v, line) = self.operator(&values);
            lines.push_str(&line);
            lines.push('\n');
            values.push(v);
        }
        let last = &values[values.len() - 2..];
        let [p, q] = [0, 1].map(|_| self.one_of(last));
        let ((s_lines, s), (t_lines, t)) = (self.list("s", &values), self.list("t", &values));
        let (s, t) = if (self.next)(4) == 0 { (t, s) } else { (s, t) };
        let types = "i64[], i64[], f32[m,4], f32[m,4], f32[m,4], seq<f32[...]>, seq<f32[...]>";
        format!(
            "graph @main(%n: i64[], %x: f32[m,4], %p: f32[m,4], %q: f32[m,4]) {{
               %zero = Const() {{value = dense<i64[]: 0>}} : i64[]
               %s = SequenceConstruct(%x) : seq<f32[...]>
               %t = SequenceConstruct(%p, %q) : seq<f32[...]>
               %w = While(%zero, %n, %x, %p, %q, %s, %t) {{cond = @go, body = @turn}} : {types}
               %all_s = ConcatFromSequence(%w#5) {{axis = 0}} : f32[...]
               %all_t = ConcatFromSequence(%w#6) {{axis = 0}} : f32[...]
               return %w#3, %w#4, %all_s, %all_t, %w#2 }}
             graph @go({STATE}) {{ %l = Less(%i, %n) : bool[] return %l }}
             graph @turn({STATE}) {{
               %one = Const() {{value = dense<i64[]: 1>}} : i64[]
               %two = Const() {{value = dense<i64[]: 2>}} : i64[]
               %front = Const() {{value = dense<i64[]: 0>}} : i64[]
               %axis = Const() {{value = dense<i64[1]: 0>}} : i64[1]
               %j = Add(%i, %one) : i64[]
               %rest = Mod(%i, %two) : i64[]
               %odd = Equal(%rest, %one) : bool[]
               %begin = Unsqueeze(%i) {{axes = [0]}} : i64[1]
               %end = Unsqueeze(%j) {{axes = [0]}} : i64[1]
               {lines}{s_lines}{t_lines}return %j, %n, %x, %{p}, %{q}, %{s}, %{t} }}
             {}",
            self.branches
        )
    }
}

fn f32s(dims: &[u64], next: &mut dyn FnMut(u64) -> u64) -> HostTensor {
    let bytes: Vec<u8> = (0..dims.iter().product()).flat_map(|_| (next(13) as f32 - 6.0).to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}

fn i64s(v: i64) -> HostTensor {
    HostTensor::from_bytes(DType::I64, &[], &v.to_le_bytes()).unwrap()
}

#[test]
fn iterations_that_repeat_give_what_graphs_give() {
    let s = opened(&[]);
    let mut repeated = 0;
    for seed in 0..if long() { 600 } else { 30 } {
        let mut next = chance(seed + 70);
        let text = Writer { next: &mut next, count: 0, branches: String::new() }.model();
        let limit = if seed % 3 == 0 { "1" } else { "-1" };
        let m = compiled(&s, &text, &[("ge.exec.static_model_ops_lower_limit", limit)]);
        let models: Vec<Model> = [0, 3].iter().map(|cores| loaded(&s, &m, *cores, false)).collect();
        for (rows, turns) in [(5, 5), (1, 1), (9, 0), (9, 7), (5, 2)] {
            let [x, p, q] = [0; 3].map(|_| f32s(&[rows, 4], &mut next));
            let inputs = [i64s(turns), x, p, q];
            let want = seen(&loaded(&s, &m, 0, false), &inputs, true);
            for m in &models {
                // A profile launches conditions, which a run tells by itself.
                assert!(seen(m, &inputs, false).0 == want.0, "seed {seed}, {rows} rows\n{text}");
            }
        }
        repeated += models[0].turns_repeated();
    }
    assert!(repeated > 100, "{repeated} iterations were repeated");
}

fn loop_of(s: &Session, carried: &str, body: &str) -> Model {
    let text = format!(
        "graph @main(%n: i64[], %a: f32[?,2], %b: f32[?,2]) {{
           %zero = Const() {{value = dense<i64[]: 0>}} : i64[]
           %w = While(%zero, %n, %a, %b) {{cond = @go, body = @turn}} : i64[], i64[], f32[?,2], f32[?,2]
           return %w#2, %w#3 }}
         graph @go(%i: i64[], %n: i64[], %a: f32[?,2], %b: f32[?,2]) {{ %l = Less(%i, %n) : bool[] return %l }}
         graph @turn(%i: i64[], %n: i64[], %a: f32[?,2], %b: f32[?,2]) {{
           %one = Const() {{value = dense<i64[]: 1>}} : i64[]
           %j = Add(%i, %one) : i64[]
           {body}
           return %j, %n, {carried} }}"
    );
    s.load(compiled(s, &text, &[])).unwrap()
}

/// Only an iteration of the same sizes is repeated: not one of what a loop makes longer, and of two
/// tensors that change places every second one.
#[test]
fn iterations_of_other_sizes_are_not_repeated() {
    let s = opened(&[]);
    let mut next = chance(3);
    let (a, b) = (f32s(&[2, 2], &mut next), f32s(&[3, 2], &mut next));
    let run = |m: &Model, turns: i64| {
        let inputs = [i64s(turns), a.clone(), b.clone()];
        let out = m.run(&inputs).unwrap();
        out.into_iter().map(|t| (t.dims.to_vec(), t.bytes().to_vec())).collect::<Vec<_>>()
    };
    let of = |t: &HostTensor| (t.dims.to_vec(), t.bytes().to_vec());

    let swaps = loop_of(&s, "%b, %m", "%m = Neg(%a) : f32[?,2]");
    let [once, four] = [1, 4].map(|n| run(&swaps, n));
    let minus: Vec<u8> = a.bytes().chunks(4).flat_map(|v| [v[0], v[1], v[2], v[3] ^ 0x80]).collect();
    assert_eq!(once, [of(&b), (a.dims.to_vec(), minus)]);
    assert_eq!(four, [of(&a), of(&b)]);
    // The fourth iteration has the sizes of the second.
    assert_eq!(swaps.turns_repeated(), 1);

    let grows = loop_of(&s, "%m, %b", "%m = ConcatD(%a, %b) {N = 2, concat_dim = 0} : f32[?,2]");
    assert_eq!(run(&grows, 5), [(vec![17, 2], [a.bytes(), &b.bytes().repeat(5)].concat()), of(&b)]);
    assert_eq!(grows.turns_repeated(), 0);

    let stays = loop_of(&s, "%m, %b", "%m = Neg(%a) : f32[?,2]");
    assert_eq!(run(&stays, 6), [of(&a), of(&b)]);
    assert_eq!(stays.turns_repeated(), 5);
}
