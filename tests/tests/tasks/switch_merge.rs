//! Control flow by streams: `Switch` and `Merge`, and loops of `Enter`, `LoopCond`, `NextIteration`
//! and `Exit`, as `StreamSwitch`, `StreamActive` and `StreamMerge`.
use super::{Compiled, Random, run, session};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::fmt::Write;

fn i32s(values: &[i32]) -> HostTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::I32, &[values.len() as u64], &bytes).unwrap()
}
fn to_i32(t: &HostTensor) -> Vec<i32> {
    t.bytes().as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b)).collect()
}

const BRANCH: &str = "graph @main(%x: f32[4], %y: f32[4], %p: bool[1]) {
  %a = Relu(%x) : f32[4]
  %s = Switch(%a, %p) : f32[4], f32[4]
  %sy = Switch(%y, %p) : f32[4], f32[4]
  %f = Neg(%s) : f32[4]
  %t = Add(%s#1, %sy#1) : f32[4]
  %m = Merge(%f, %t) : f32[4], i32[]
  %k = Merge(%sy, %t) : f32[4], i32[]
  %r = Sub(%m, %a) : f32[4]
  return %r, %m#1, %k
}
";

/// `x` grows by `|w|` while `i < n`.
const LOOP: &str = "graph @main(%n: i32[1], %x: f32[4], %w: f32[4]) {
  %zero = Const() {value = dense<i32[1]: 0>} : i32[1]
  %one = Const() {value = dense<i32[1]: 1>} : i32[1]
  %x1 = Relu(%x) : f32[4]
  %w1 = Abs(%w) : f32[4]
  %ei = Enter(%zero) {frame_name = \"loop\"} : i32[1]
  %ex = Enter(%x1) {frame_name = \"loop\"} : f32[4]
  %en = Enter(%n) {frame_name = \"loop\", is_constant = true} : i32[1]
  %ew = Enter(%w1) {frame_name = \"loop\", is_constant = true} : f32[4]
  %mi = Merge(%ei) {_next_iteration_node = \"ni\"} : i32[1], i32[]
  %mx = Merge(%ex) {_next_iteration_node = \"nx\"} : f32[4], i32[]
  %lt = Less(%mi, %en) : bool[1]
  %c = LoopCond(%lt) : bool[1]
  %si = Switch(%mi, %c) : i32[1], i32[1]
  %sx = Switch(%mx, %c) : f32[4], f32[4]
  %i1 = Add(%si#1, %one) : i32[1]
  %b = Add(%sx#1, %ew) : f32[4]
  %ni = NextIteration(%i1) : i32[1]
  %nx = NextIteration(%b) : f32[4]
  %oi = Exit(%si) : i32[1]
  %ox = Exit(%sx) : f32[4]
  %r = Sub(%ox, %x1) : f32[4]
  return %r, %oi
}
";

const SCHEDULES: [&[(&str, &str)]; 3] =
    [&[], &[("schedule", "random:3"), ("check_races", "true")], &[("schedule", "random:77"), ("check_races", "true")]];

#[test]
fn a_switch_wakes_the_side_that_its_predicate_says() {
    let c = Compiled::new(BRANCH, &[]);
    let tasks = c.tasks().join("\n");
    for (kind, count) in [("STREAM_SWITCH", 2), ("STREAM_ACTIVE", 2)] {
        assert_eq!(tasks.matches(kind).count(), count, "{tasks}");
    }
    let (x, y) = ([1f32, -2.0, 3.0, -4.0], [10f32, 20.0, 30.0, 40.0]);
    let a: Vec<f32> = x.iter().map(|x| x.max(0.0)).collect();
    for device in SCHEDULES {
        let model = c.load(device);
        for p in [true, false, true] {
            let pred = HostTensor::from_bytes(DType::BOOL, &[1], &[u8::from(p)]).unwrap();
            let out = run(&model, &[super::f32s(&[4], &x), super::f32s(&[4], &y), pred]).unwrap().outputs;
            let t: Vec<f32> = a.iter().zip(&y).map(|(a, y)| a + y).collect();
            let m: Vec<f32> = if p { t.clone() } else { a.iter().map(|a| -a).collect() };
            let r: Vec<f32> = m.iter().zip(&a).map(|(m, a)| m - a).collect();
            assert_eq!(super::to_f32(&out[0]), r);
            assert_eq!(to_i32(&out[1]), [i32::from(p)]);
            assert_eq!(super::to_f32(&out[2]), if p { t } else { y.to_vec() });
        }
    }
}

#[test]
fn loops_of_no_one_and_a_thousand_turns_by_streams() {
    let c = Compiled::new(LOOP, &[]);
    let tasks = c.tasks().join("\n");
    for (kind, count) in [("STREAM_SWITCH", 2), ("STREAM_ACTIVE", 2), ("LABEL", 0)] {
        assert_eq!(tasks.matches(kind).count(), count, "{tasks}");
    }
    let (x, w) = ([1f32, -2.0, 3.0, -4.0], [1f32, -2.0, 0.5, 0.25]);
    for device in SCHEDULES {
        let model = c.load(device);
        for n in [0, 1, 3, 1000, 2] {
            let out = run(&model, &[i32s(&[n]), super::f32s(&[4], &x), super::f32s(&[4], &w)]).unwrap().outputs;
            let grown: Vec<f32> = w.iter().map(|w| n as f32 * w.abs()).collect();
            assert_eq!(super::to_f32(&out[0]), grown, "{n} turns");
            assert_eq!(to_i32(&out[1]), [n]);
        }
    }
}

/// Nodes of a loop on streams of their own: these streams are woken in every turn, and no event
/// crosses from one turn to the next.
#[test]
fn nodes_of_a_loop_keep_labels_groups_and_engines_of_their_own() {
    let text = LOOP.replace(
        "  %b = Add(%sx#1, %ew)",
        "  %q = Neg(%sx#1) OWN : f32[4]\n  %h = Neg(%q) : f32[4]\n  %b = Add(%h, %ew)",
    );
    let own = |inside: &str, test: &str| {
        text.replace("OWN", inside).replace("Less(%mi, %en)", &format!("Less(%mi, %en) {test}"))
    };
    let all = "HcomAllReduce(%minus) {group = \"hccl_world_group\", rank_size = 1, reduction = \"sum\", fusion = 0}";
    let all = format!("Neg(%sx#1) : f32[4]\n  %all = {}", all.replace("%minus", "%q"));
    let cases = [
        own("{_stream_label = \"mine\"}", ""),
        own("{_user_stream_label = \"mine\"}", ""),
        own("{_parallel_group = \"one\"}", ""),
        own("{NewStreamId = 5}", ""),
        own("", "{_stream_label = \"mine\"}"),
        own("{_stream_label = \"his\"}", "{_stream_label = \"mine\"}"),
        own("", "").replace("Neg(%sx#1) ", &all).replace("Neg(%q)", "Neg(%all)"),
    ];
    let (x, w) = ([1f32, -2.0, 3.0, -4.0], [1f32, -2.0, 0.5, 0.25]);
    let plain = Compiled::new(LOOP, &[]).document()["streams"]["physical"].as_u64().unwrap();
    for text in cases {
        for mode in ["engine", "parallel:4"] {
            let c = Compiled::new(
                &text,
                &["--set", &format!("ge.x.stream_mode={mode}"), "--set", "ge.x.auto_fusion=false"],
            );
            assert!(c.document()["streams"]["physical"].as_u64().unwrap() > plain, "{text}");
            for device in SCHEDULES {
                let model = c.load(device);
                for n in [0, 1, 3, 50] {
                    let out = run(&model, &[i32s(&[n]), super::f32s(&[4], &x), super::f32s(&[4], &w)]).unwrap().outputs;
                    let grown: Vec<f32> = w.iter().map(|w| n as f32 * w.abs()).collect();
                    assert_eq!(super::to_f32(&out[0]), grown, "{n} turns of {text}");
                    assert_eq!(to_i32(&out[1]), [n]);
                }
            }
        }
    }
    let two =
        own("{_stream_label = \"mine\"}", "").replace("%x1 = Relu(%x)", "%x1 = Relu(%x) {_stream_label = \"mine\"}");
    let said = Compiled::source(&two).refusal(3, &[]);
    assert!(said.contains("GE-E0350") && said.contains("`q`") && said.contains("`mine`"), "{said}");
}

#[test]
fn what_no_nesting_of_regions_explains_is_refused_by_name() {
    for (from, to, node, why) in [
        ("Merge(%f, %t)", "Merge(%f, %s)", "`m`", "one of each side"),
        ("Sub(%m, %a)", "Sub(%m, %f)", "`NetOutput`", "only on one side"),
        ("Add(%s#1, %sy#1)", "Add(%s#1, %sy)", "`t`", "only one side"),
        ("%y: f32[4], %p: bool[1]", "%y: f32[4], %p: bool[2]", "`s", "takes one value"),
    ] {
        let said = Compiled::source(&BRANCH.replace(from, to)).refusal(3, &[]);
        assert!(said.contains("GE-E0350") && said.contains(node) && said.contains(why), "{from}: {said}");
    }
    for (from, to, node, why) in [
        ("\"ni\"}", "\"gone\"}", "`si`", "no `Merge`"),
        ("Exit(%sx)", "Identity(%sx)", "NetOutput", "only on one side"),
        ("NextIteration(%b)", "NextIteration(%w1)", "`r", ""),
    ] {
        let text = LOOP.replace(from, to);
        let c = Compiled::source(&text);
        if why.is_empty() {
            // A value from outside can be carried as well as one that is made within.
            c.compile(&[]);
            continue;
        }
        let said = c.refusal(3, &[]);
        assert!(said.contains(node) && said.contains(why), "{from}: {said}");
    }
}

#[test]
fn a_stream_that_is_woken_for_nothing_is_loaded_and_runs() {
    let text = "graph @main(%x: f32[4], %p: i32[1]) {
  %a = Relu(%x) : f32[4]
  %zero = Const() {value = dense<i32[1]: 0>} : i32[1]
  %s = StreamSwitch(%p, %zero) {switch_condition = 1, _active_label_list = [\"empty\"]} : ()
  %n = NoOp() {_stream_label = \"empty\"} after(%s) : ()
  %r = Neg(%a) : f32[4]
  return %r
}
";
    let c = Compiled::new(text, &[]);
    let tasks = c.tasks();
    let of =
        |kind: &str| tasks.iter().find(|t| t.starts_with(kind)).and_then(|t| t.split(' ').nth(2)).unwrap().to_owned();
    assert_ne!(of("NOP s "), of("STREAM_SWITCH s "), "{tasks:#?}");
    for device in SCHEDULES {
        let model = c.load(device);
        for p in [0, 1] {
            let out = run(&model, &[super::f32s(&[4], &[1.0, -2.0, 3.0, 0.5]), i32s(&[p])]).unwrap().outputs;
            assert_eq!(super::to_f32(&out[0]), [-1.0, 0.0, -3.0, -0.5]);
        }
    }
}

/// A program over four numbers.
enum Step {
    Set(usize, &'static str, usize, usize),
    If(usize, usize, Vec<Step>, Vec<Step>),
    /// As many turns as a variable says, but at least 0 and at most 3.
    Loop(usize, Vec<Step>),
}
const VARS: usize = 4;

fn program(random: &mut Random, depth: usize, length: u64) -> Vec<Step> {
    let mut var = |n: u64| random.below(n) as usize;
    let count = 1 + var(length);
    (0..count)
        .map(|_| {
            let (a, b, c) = (var(4), var(4), var(4));
            match var(if depth > 0 { 5 } else { 3 }) {
                0 => Step::Set(a, "Add", b, c),
                1 => Step::Set(a, "Sub", b, c),
                2 => Step::Set(a, "Maximum", b, c),
                k => {
                    let _ = k;
                    Step::Set(a, "?", b, c)
                }
            }
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|s| match s {
            Step::Set(a, "?", b, c) if random.below(2) == 0 => {
                let _ = c;
                let (then, other) = (
                    program(random, depth - 1, 3),
                    if random.below(3) == 0 { vec![] } else { program(random, depth - 1, 3) },
                );
                Step::If(a, b, then, other)
            }
            Step::Set(a, "?", ..) => Step::Loop(a, program(random, depth - 1, 3)),
            s => s,
        })
        .collect()
}

fn run_steps(steps: &[Step], v: &mut [i32; VARS]) {
    for s in steps {
        match s {
            Step::Set(a, op, b, c) => {
                let (b, c) = (v[*b], v[*c]);
                v[*a] = match *op {
                    "Add" => b.wrapping_add(c),
                    "Sub" => b.wrapping_sub(c),
                    _ => b.max(c),
                } % 1000;
            }
            Step::If(a, b, then, other) => run_steps(if v[*a] < v[*b] { then } else { other }, v),
            Step::Loop(a, body) => {
                for _ in 0..v[*a].clamp(0, 3) {
                    run_steps(body, v);
                }
            }
        }
    }
}

/// Writes a program as a graph; values have numbered names.
struct Text {
    out: String,
    next: usize,
}

impl Text {
    fn node(&mut self, call: &str, types: &str) -> String {
        self.next += 1;
        let name = format!("v{}", self.next);
        writeln!(self.out, "  %{name} = {call} : {types}").unwrap();
        name
    }
    fn steps(&mut self, steps: &[Step], v: &mut [String; VARS]) {
        const I: &str = "i32[1]";
        for s in steps {
            match s {
                Step::Set(a, op, b, c) => {
                    let x = self.node(&format!("{op}(%{}, %{})", v[*b], v[*c]), I);
                    // The remainder has the sign of the dividend.
                    v[*a] = self.node(&format!("Mod(%{x}, %thousand) {{fmod = 1}}"), I);
                }
                Step::If(a, b, then, other) => {
                    let p = self.node(&format!("Less(%{}, %{})", v[*a], v[*b]), "bool[1]");
                    let sides: Vec<String> =
                        v.iter().map(|x| self.node(&format!("Switch(%{x}, %{p})"), "i32[1], i32[1]")).collect();
                    let mut no: [String; VARS] = std::array::from_fn(|k| sides[k].clone());
                    let mut yes: [String; VARS] = std::array::from_fn(|k| format!("{}#1", sides[k]));
                    self.steps(then, &mut yes);
                    self.steps(other, &mut no);
                    for k in 0..VARS {
                        v[k] = self.node(&format!("Merge(%{}, %{})", no[k], yes[k]), "i32[1], i32[]");
                    }
                }
                Step::Loop(a, body) => {
                    let up = self.node(&format!("Maximum(%{}, %zero)", v[*a]), I);
                    let limit = self.node(&format!("Minimum(%{up}, %three)"), I);
                    self.next += 1;
                    let tag = self.next;
                    let limit =
                        self.node(&format!("Enter(%{limit}) {{frame_name = \"f{tag}\", is_constant = true}}"), I);
                    let mut carried: Vec<String> = v.to_vec();
                    carried.push("zero".into());
                    let merges: Vec<String> = carried
                        .iter()
                        .enumerate()
                        .map(|(k, x)| {
                            let e = self.node(&format!("Enter(%{x}) {{frame_name = \"f{tag}\"}}"), I);
                            self.node(
                                &format!("Merge(%{e}) {{_next_iteration_node = \"next_{tag}_{k}\"}}"),
                                "i32[1], i32[]",
                            )
                        })
                        .collect();
                    let test = self.node(&format!("Less(%{}, %{limit})", merges[VARS]), "bool[1]");
                    let cond = self.node(&format!("LoopCond(%{test})"), "bool[1]");
                    let ways: Vec<String> =
                        merges.iter().map(|m| self.node(&format!("Switch(%{m}, %{cond})"), "i32[1], i32[1]")).collect();
                    let mut inside: [String; VARS] = std::array::from_fn(|k| format!("{}#1", ways[k]));
                    self.steps(body, &mut inside);
                    let count = self.node(&format!("Add(%{}#1, %one)", ways[VARS]), I);
                    for (k, x) in inside.iter().chain([&count]).enumerate() {
                        writeln!(self.out, "  %next_{tag}_{k} = NextIteration(%{x}) : i32[1]").unwrap();
                    }
                    for k in 0..VARS {
                        v[k] = self.node(&format!("Exit(%{})", ways[k]), I);
                    }
                }
            }
        }
    }
}

fn text(steps: &[Step]) -> String {
    let mut t = Text { out: "graph @main(%a: i32[1], %b: i32[1], %c: i32[1], %d: i32[1]) {\n".into(), next: 0 };
    for (name, value) in [("zero", 0), ("one", 1), ("three", 3), ("thousand", 1000)] {
        writeln!(t.out, "  %{name} = Const() {{value = dense<i32[1]: {value}>}} : i32[1]").unwrap();
    }
    let mut v: [String; VARS] = ["a", "b", "c", "d"].map(Into::into);
    t.steps(steps, &mut v);
    // The outputs have nodes of their own, since a value that is returned unchanged is another
    // case.
    let outs: Vec<String> = v.iter().map(|x| t.node(&format!("Add(%{x}, %one)"), "i32[1]")).collect();
    let outs: Vec<String> = outs.iter().map(|o| format!("%{o}")).collect();
    writeln!(t.out, "  return {}\n}}", outs.join(", ")).unwrap();
    t.out
}

#[test]
fn random_programs_give_the_numbers_of_their_steps() {
    let count = if std::env::var_os("GE_LONG").is_some() { 400 } else { 60 };
    for seed in 0..count {
        let mut random = Random(seed * 7919 + 1);
        let steps = program(&mut random, 3, 4);
        let text = text(&steps);
        let s = session(&[("schedule", &format!("random:{seed}")), ("check_races", "true")]);
        let graph = ge::session::import::parse_text(std::path::Path::new("m.ge"), text.as_bytes()).unwrap();
        let options = ge::options::OptionMap::default();
        let c = s
            .compile("m", graph, &options, &ge_compiler::pipeline::Silent)
            .unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
        let model = s.load(c.model).unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
        for turn in 0..4 {
            let given: [i32; VARS] = std::array::from_fn(|_| random.below(9) as i32 - 3);
            let mut v = given;
            run_steps(&steps, &mut v);
            let inputs: Vec<HostTensor> = given.iter().map(|v| i32s(&[*v])).collect();
            let out = run(&model, &inputs).unwrap_or_else(|e| panic!("{seed}, run {turn}: {e}\n{text}"));
            let found: Vec<i32> = out.outputs.iter().flat_map(to_i32).collect();
            let expected: Vec<i32> = v.iter().map(|v| v + 1).collect();
            assert_eq!(found, expected, "{seed}, run {turn}, {given:?}\n{text}");
        }
    }
}
