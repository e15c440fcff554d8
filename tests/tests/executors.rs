//! Executors of models of open sizes: which executor a model gets, and that every order of the
//! steps, on any number of threads, gives the same results.
use crate::dynamic::session;
use ge::options::OptionMap;
use ge::session::{Model, Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::{LoadOptions, RunOptions};
use ge_tests::{expect_code, long, root, target};
use std::fmt::Write;
use std::process::Command;

/// Keeps branches as branches.
const BRANCHES: (&str, &str) = ("ge.optimizationSwitch", "BranchToSelectPass:off");

/// A session with these device options.
pub fn opened(options: &[(&str, &str)]) -> Session {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("plugins.toml");
    let text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    std::fs::write(&plugins, text.replacen("schema = 1", &format!("schema = 1\nsearch = [{:?}]", target()), 1))
        .unwrap();
    let device_options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Session::new(SessionOptions { plugins: Some(plugins), device_options, ..SessionOptions::default() }).unwrap()
}

fn compiled(s: &Session, text: &str) -> ge_model::CompiledModel {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("m.ge");
    std::fs::write(&source, text).unwrap();
    let graph = s.import(&source, "").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut options = OptionMap::default();
    options.set(BRANCHES.0, BRANCHES.1, "test").unwrap();
    options.set("ge.exec.static_model_ops_lower_limit", "1", "test").unwrap();
    let made = s.compile("m", graph, &options, &ge::session::Quiet);
    let made = made.unwrap_or_else(|e| panic!("{e}\n{text}")).model;
    assert!(made.is_dynamic(), "{text}");
    made
}

pub fn loaded(s: &Session, m: &ge_model::CompiledModel, cores: usize, capture: bool) -> Model {
    let context = s.open_device(&m.soc.clone()).unwrap();
    let options = LoadOptions { rank_size: 1, cores, capture, ..LoadOptions::default() };
    s.load_on(m.clone(), context, &options).unwrap()
}

pub fn chance(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    }
}

/// Writes graphs of random operators, branches, loops, calls and sizes that depend on values, on
/// `f32[n,4]`.
pub struct Writer<'r> {
    pub next: &'r mut dyn FnMut(u64) -> u64,
    pub graphs: String,
    pub count: usize,
}

impl Writer<'_> {
    /// The lines of a body on the values `%p` and `%q`, and the name of its result.
    fn body(&mut self, steps: u64, depth: u64) -> (String, String) {
        let (mut lines, mut values) = (String::new(), vec!["p".to_owned(), "q".to_owned()]);
        for _ in 0..steps {
            self.count += 1;
            let v = format!("v{}", self.count);
            let pick = |w: &mut Self, values: &[String]| values[(w.next)(values.len() as u64) as usize].clone();
            let (a, b) = (pick(self, &values), pick(self, &values));
            let what = if depth == 0 { (self.next)(6) } else { (self.next)(12) };
            let line = match what {
                0 => format!("%{v} = Add(%{a}, %{b}) : f32[n,4]"),
                1 => format!("%{v} = Sub(%{a}, %{b}) : f32[n,4]"),
                2 => format!("%{v} = Maximum(%{a}, %{b}) : f32[n,4]"),
                3 => format!("%{v} = Neg(%{a}) : f32[n,4]"),
                4 => format!("%{v} = Relu(%{a}) : f32[n,4]"),
                5 => format!(
                    "%{v}z = NonZero(%{a}) : i64[2,?]
                     %{v}f = Cast(%{v}z) {{dst_type = f32}} : f32[2,?]
                     %{v}a = Const() {{value = dense<i64[2]: 0 1>}} : i64[2]
                     %{v}s = ReduceSum(%{v}f, %{v}a) {{keep_dims = false}} : f32[]
                     %{v} = Add(%{b}, %{v}s) : f32[n,4]"
                ),
                6..9 => {
                    let (yes, no) = (self.graph(depth - 1), self.graph(depth - 1));
                    let zero = (self.next)(3) as i64 - 1;
                    format!(
                        "%{v}i = Const() {{value = dense<i64[2]: 0 1>}} : i64[2]
                         %{v}s = ReduceSum(%{a}, %{v}i) {{keep_dims = false}} : f32[]
                         %{v}k = Const() {{value = dense<f32[]: {zero}>}} : f32[]
                         %{v}c = Greater(%{v}s, %{v}k) : bool[]
                         %{v} = If(%{v}c, %{a}, %{b}) {{then_branch = @{yes}, else_branch = @{no}}} : f32[n,4]"
                    )
                }
                9 => {
                    let g = self.graph(depth - 1);
                    format!("%{v} = PartitionedCall(%{a}, %{b}) {{f = @{g}}} : f32[n,4]")
                }
                _ => {
                    let (k, turns) = (self.count, (self.next)(4));
                    let (inner, result) = self.body(2, depth - 1);
                    let heads = "%i: i64[], %p: f32[n,4], %q: f32[n,4]";
                    let _ = write!(
                        self.graphs,
                        "graph @go{k}({heads}) {{
                           %m = Const() {{value = dense<i64[]: {turns}>}} : i64[]
                           %l = Less(%i, %m) : bool[]
                           return %l }}
                         graph @turn{k}({heads}) {{
                           %one = Const() {{value = dense<i64[]: 1>}} : i64[]
                           %j = Add(%i, %one) : i64[]
                           {inner}
                           return %j, %{result}, %p }}
                        "
                    );
                    format!(
                        "%{v}i = Const() {{value = dense<i64[]: 0>}} : i64[]
                         %{v}w = While(%{v}i, %{a}, %{b}) {{cond = @go{k}, body = @turn{k}}} : i64[], f32[n,4], f32[n,4]
                         %{v} = Add(%{v}w#1, %{v}w#2) : f32[n,4]"
                    )
                }
            };
            lines.push_str(&line);
            lines.push('\n');
            values.push(v);
        }
        (lines, values.pop().unwrap_or_default())
    }
    fn graph(&mut self, depth: u64) -> String {
        let steps = 1 + (self.next)(3);
        let (lines, result) = self.body(steps, depth);
        self.count += 1;
        let name = format!("g{}", self.count);
        let _ = write!(self.graphs, "graph @{name}(%p: f32[n,4], %q: f32[n,4]) {{\n{lines}return %{result} }}\n");
        name
    }
    /// A model with several results, so that much of it is independent.
    pub fn model(&mut self) -> String {
        let mut lines = String::new();
        let mut results = Vec::new();
        for _ in 0..3 {
            let (own, result) = self.body(4, 2);
            lines.push_str(&own);
            results.push(format!("%{result}"));
        }
        // A part of known shape, which is sealed.
        lines.push_str(
            "%k0 = Neg(%r) : f32[3,4]
             %k1 = Exp(%k0) : f32[3,4]
             %k2 = Mul(%k1, %r) : f32[3,4]
             %kb = Const() {value = dense<i64[2]: 0 1>} : i64[2]
             %k3 = ReduceSum(%k2, %kb) {keep_dims = false} : f32[]
             %k4 = Sqrt(%k3) : f32[]
             %last = Add(%k4, %p) : f32[n,4]
            ",
        );
        results.push("%last".to_owned());
        let inputs = "%p: f32[n,4], %q: f32[n,4], %r: f32[3,4]";
        format!("graph @main({inputs}) {{\n{lines}return {} }}\n{}", results.join(", "), self.graphs)
    }
}

pub fn given(rows: u64, next: &mut dyn FnMut(u64) -> u64) -> Vec<HostTensor> {
    let mut tensor = |rows: u64| {
        let bytes: Vec<u8> = (0..rows * 4).flat_map(|_| (next(9) as f32 - 4.0).to_le_bytes()).collect();
        HostTensor::from_bytes(DType::F32, &[rows, 4], &bytes).unwrap()
    };
    [rows, rows, 3].map(&mut tensor).to_vec()
}

pub type Seen = (Vec<Vec<u8>>, u64, Vec<(String, usize)>, Vec<(u32, u32, u32, Vec<u8>)>);

/// Outputs of a run, its number of launches, the graph and the number of tasks of each part, and
/// what nodes wrote.
pub fn seen(m: &Model, inputs: &[HostTensor], profile: bool) -> Seen {
    let views: Vec<_> = inputs.iter().map(HostTensor::view).collect();
    let ran = m.run_views(&views, RunOptions { profile }).unwrap();
    let parts = ran.parts.iter().map(|p| (p.graph.clone(), p.report.tasks.len())).collect();
    let wrote = ran.captured.iter().map(|c| (c.graph, c.node, c.output, c.tensor.bytes().to_vec())).collect();
    (ran.outputs.iter().map(|t| t.bytes().to_vec()).collect(), ran.report.launches, parts, wrote)
}

#[test]
fn every_order_and_number_of_threads_gives_the_same_bits() {
    let (plain, wild) = (opened(&[]), opened(&[("schedule", "random:5"), ("check_races", "true")]));
    for seed in 0..if long() { 500 } else { 12 } {
        let mut next = chance(seed);
        let text = Writer { next: &mut next, graphs: String::new(), count: 0 }.model();
        let model = compiled(&plain, &text);
        assert!(!model.parts.is_empty(), "{text}");
        let capture = seed % 4 == 3;
        let one = loaded(&plain, &model, 0, capture);
        let others: Vec<Model> = [2, 3, 8].iter().map(|n| loaded(&plain, &model, *n, capture)).collect();
        let by_chance: Vec<Model> = [0, 4].iter().map(|n| loaded(&wild, &model, *n, capture)).collect();
        for rows in [3, 1, 3, 6] {
            let inputs = given(rows, &mut next);
            let want = seen(&one, &inputs, true);
            for m in others.iter().chain(&by_chance) {
                assert_eq!(seen(m, &inputs, true), want, "seed {seed}\n{text}");
            }
        }
    }
}

/// The executor depends on what the model contains; `MAX_RUNTIME_CORE_NUMBER` asks for several
/// threads.
#[test]
fn the_executor_goes_by_what_the_model_has() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let branch = |more: &str, last: &str| {
        format!(
            "graph @main(%x: f32[n], %c: bool[]) {{
               %y = If(%c, %x) {{then_branch = @t, else_branch = @e}} : f32[n]
               {more} return %{last} }}
             graph @t(%p: f32[n]) {{ %a = Sqrt(%p) : f32[n] return %a }}
             graph @e(%q: f32[n]) {{ return %q }}"
        )
    };
    let more = "%k = Const() {value = dense<i64[1]: 0>} : i64[1]
        %s = ReduceSum(%y, %k) {keep_dims = true} : f32[1]
        %m = ReduceMax(%y, %k) {keep_dims = true} : f32[1]
        %o = ReduceMean(%y, %k) {keep_dims = true} : f32[1]
        %u = ReduceMin(%y, %k) {keep_dims = true} : f32[1]
        %z = AddN(%s, %m, %o, %u) {N = 4} : f32[1]";
    let models = [
        ("plain", "graph @main(%x: f32[n]) { %y = Sqrt(%x) : f32[n] return %y }".to_owned(), "sequential"),
        ("few", branch("", "y"), "topological"),
        ("many", branch(more, "z"), "priority-topological"),
    ];
    for (name, text, want) in models {
        std::fs::write(d.join(format!("{name}.ge")), text).unwrap();
        let om = format!("{name}.om");
        let off = format!("{}={}", BRANCHES.0, BRANCHES.1);
        expect_code(d, 0, &["compile", &format!("{name}.ge"), "-o", &om, "-q", "--set", &off]);
        let told = |cores: Option<&str>| {
            let mut c = Command::new(target().join("ge"));
            c.args(["inspect", &om, "--what", "exec"]).current_dir(d).env("GE_PLUGINS", root().join("plugins.toml"));
            cores.into_iter().for_each(|n| drop(c.env("MAX_RUNTIME_CORE_NUMBER", n).get_args()));
            let out = c.output().unwrap();
            (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
        };
        let starts = |cores: Option<&str>, line: &str| {
            let (code, out, err) = told(cores);
            assert!(code == Some(0) && out.starts_with(&format!("executor: {line} (")), "{name}: {out}{err}");
        };
        starts(None, want);
        starts(Some("1"), want);
        starts(Some("3"), "multi-thread");
        let (code, _, err) = told(Some("many"));
        assert!(code == Some(2) && err.contains("MAX_RUNTIME_CORE_NUMBER"), "{err}");
    }
}

/// A run that fails reports the same fault whichever thread takes its steps: the first one in the
/// order of the plan.
#[test]
fn the_same_fault_is_told_in_every_order() {
    let text = "graph @main(%x: f32[n,4], %k: i64[], %t: i64[1], %c: bool[]) {
           %a = If(%c, %x, %t) {then_branch = @fits, else_branch = @first} : f32[?]
           %b = If(%c, %x, %k, %t) {then_branch = @late, else_branch = @never} : f32[?]
           %d = If(%c, %x, %t) {then_branch = @third, else_branch = @other} : f32[?]
           return %a, %b, %d }
         graph @fits(%p: f32[n,4], %q: i64[1]) {
           %m = Const() {value = dense<i64[1]: -1>} : i64[1]
           %f = Reshape(%p, %m) : f32[?] %z = NonZero(%f) : i64[1,?]
           %g = Cast(%z) {dst_type = f32} : f32[1,?] %h = Reshape(%g, %m) : f32[?] return %h }
         graph @late(%p: f32[n,4], %i: i64[], %q: i64[1]) {
           %zero = Const() {value = dense<i64[]: 0>} : i64[]
           %w = While(%zero, %i, %p, %q) {cond = @go, body = @turn} : i64[], i64[], f32[n,4], i64[1]
           %second = Reshape(%w#2, %w#3) : f32[?] return %second }
         graph @go(%i: i64[], %m: i64[], %v: f32[n,4], %q: i64[1]) { %l = Less(%i, %m) : bool[] return %l }
         graph @turn(%i: i64[], %m: i64[], %v: f32[n,4], %q: i64[1]) {
           %one = Const() {value = dense<i64[]: 1>} : i64[]
           %j = Add(%i, %one) : i64[]
           %u = Neg(%v) : f32[n,4]
           return %j, %m, %u, %q }
         graph @first(%p: f32[n,4], %q: i64[1]) { %n1 = Reshape(%p, %q) : f32[?] return %n1 }
         graph @third(%p: f32[n,4], %q: i64[1]) { %third = Reshape(%p, %q) : f32[?] return %third }
         graph @never(%p: f32[n,4], %i: i64[], %q: i64[1]) {
           %s2 = Sqrt(%p) : f32[n,4] %n2 = Reshape(%s2, %q) : f32[?] return %n2 }
         graph @other(%p: f32[n,4], %q: i64[1]) {
           %s3 = Neg(%p) : f32[n,4] %n3 = Reshape(%s3, %q) : f32[?] return %n3 }";
    let tensor = |dims: &[u64], v: &[i64]| {
        let bytes: Vec<u8> = v.iter().flat_map(|v| v.to_le_bytes()).collect();
        HostTensor::from_bytes(DType::I64, dims, &bytes).unwrap()
    };
    let yes = HostTensor::from_bytes(DType::BOOL, &[], &[1]).unwrap();
    let x = given(2, &mut chance(1)).remove(0);
    let plain = session();
    let model = compiled(&plain, text);
    let run = |s: &Session, cores: usize, turns: i64, size: i64| {
        let m = loaded(s, &model, cores, false);
        m.run(&[x.clone(), tensor(&[], &[turns]), tensor(&[1], &[size]), yes.clone()])
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    assert_eq!(run(&plain, 3, 2, 8), Ok(()));
    let told = run(&plain, 0, 4, 7).unwrap_err();
    assert!(told.contains("second"), "{told}");
    for seed in 0..10 {
        let wild = opened(&[("schedule", &format!("random:{seed}"))]);
        for (s, cores) in [(&wild, 0), (&wild, 3), (&plain, 2), (&plain, 4)] {
            assert_eq!(run(s, cores, 4, 7).unwrap_err(), told, "seed {seed}, {cores} threads");
        }
    }
    // The turns of all loops of a run are counted together, on all threads.
    let short = opened(&[("max_tasks", "50")]);
    for cores in [0, 3] {
        let told = run(&short, cores, 1000, 8).unwrap_err();
        assert!(told.contains("within 10 turns"), "{told}");
    }
}
