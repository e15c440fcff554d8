//! Attached work under control flow: in branches, in bodies of loops, nested, inside and outside at
//! once, in both branches. Each case runs with events and with notifies, on short streams, on one
//! stream and on several, under random schedules that look for races.
use super::*;

/// Rows of `x`, each times the matrix of its group.
fn groups(x: &[f32], w: &[f32], list: &[i64]) -> Vec<f32> {
    let of = list.iter().enumerate().flat_map(|(g, n)| std::iter::repeat_n(g, *n as usize));
    let mut out = Vec::new();
    for (row, g) in of.enumerate() {
        for n in 0..16 {
            let sum: f64 = (0..16).map(|k| f64::from(x[row * 16 + k]) * f64::from(w[(g * 16 + k) * 16 + n])).sum();
            out.push(sum as f32);
        }
    }
    out
}

/// The inputs of a case.
pub struct Given {
    k: i32,
    x: Vec<f32>,
    w: Vec<f32>,
    list: Vec<i64>,
}
impl Given {
    fn g(&self, x: &[f32]) -> Vec<f32> {
        groups(x, &self.w, &self.list)
    }
}
fn neg(x: Vec<f32>) -> Vec<f32> {
    x.into_iter().map(|v| -v).collect()
}
fn abs(x: Vec<f32>) -> Vec<f32> {
    x.into_iter().map(f32::abs).collect()
}

/// A case: its name, its graphs, and the result that they should give.
pub type Case = (&'static str, &'static str, fn(&Given) -> Vec<f32>);

/// `$g(A)` is a sunk node on `%A`. Every graph has the inputs `%w` and `%list` beside its value
/// `%x`; `@main` also has `%k`.
pub const CASES: &[Case] = &[
    (
        "both branches of an If",
        "main: %a = Relu(%x); %c = If(%cond, %a, %w, %list) {else_branch = @e, then_branch = @t}; return %c
t: %s = $g(x); %y = Neg(%s); return %y
e: %s = $g(x); %y = Abs(%s); return %y",
        |v| {
            let a: Vec<f32> = v.x.iter().map(|x| x.max(0.0)).collect();
            if v.k != 0 { neg(v.g(&a)) } else { abs(v.g(&a)) }
        },
    ),
    (
        "in a branch and on both sides of it",
        "main: %a = $g(x); %c = If(%cond, %a, %w, %list) {else_branch = @e, then_branch = @t}; %r = $g(c); return %r
t: %s = $g(x); %y = Neg(%s); return %y
e: %y = Abs(%x); return %y",
        |v| {
            let a = v.g(&v.x);
            v.g(&if v.k != 0 { neg(v.g(&a)) } else { abs(a) })
        },
    ),
    (
        "two of three branches of a Case",
        "main: %c = Case(%k, %x, %w, %list) {branches = [@t, @e, @o]}; return %c
t: %s = $g(x); %y = Neg(%s); return %y
e: %y = Abs(%x); return %y
o: %s = $g(x); %q = $g(s); return %q",
        |v| match v.k {
            0 => neg(v.g(&v.x)),
            1 => abs(v.x.clone()),
            _ => v.g(&v.g(&v.x)),
        },
    ),
    (
        "in the body of a While and outside of it",
        "main: %z = Const() {value = dense<i32[]: 0>} : i32[]; %a = $g(x); %l, %n, %v, %w2, %list2 = While(%z, %k, %a, %w, %list) {body = @b, cond = @c}; %r = $g(v); return %r
c(%i: i32[], %n: i32[]): %t = Less(%i, %n) : bool[]; return %t
b(%i: i32[], %n: i32[]): %one = Const() {value = dense<i32[]: 1>} : i32[]; %j = Add(%i, %one) : i32[]; %s = $g(x); %y = Neg(%s); return %j, %n, %y, %w, %list",
        |v| {
            let mut a = v.g(&v.x);
            for _ in 0..v.k {
                a = neg(v.g(&a));
            }
            v.g(&a)
        },
    ),
    (
        "in the body of a For",
        "main: %z = Const() {value = dense<i32[]: 0>} : i32[]; %one = Const() {value = dense<i32[]: 1>} : i32[]; %v, %w2, %list2 = For(%z, %k, %one, %x, %w, %list) {body = @b}; return %v
b(%i: i32[]): %s = $g(x); %y = Abs(%s); return %y, %w, %list",
        |v| {
            let mut a = v.x.clone();
            for _ in 0..v.k {
                a = abs(v.g(&a));
            }
            a
        },
    ),
    (
        "an If within a While, in both branches, in the body and outside",
        "main: %z = Const() {value = dense<i32[]: 0>} : i32[]; %l, %n, %v, %w2, %list2 = While(%z, %k, %x, %w, %list) {body = @b, cond = @c}; %r = $g(v); return %r
c(%i: i32[], %n: i32[]): %t = Less(%i, %n) : bool[]; return %t
b(%i: i32[], %n: i32[]): %one = Const() {value = dense<i32[]: 1>} : i32[]; %two = Const() {value = dense<i32[]: 2>} : i32[]; %zero = Const() {value = dense<i32[]: 0>} : i32[]; %j = Add(%i, %one) : i32[]; %m = FloorMod(%i, %two) : i32[]; %even = Equal(%m, %zero) : bool[]; %s = $g(x); %c = If(%even, %s, %w, %list) {else_branch = @e, then_branch = @t}; return %j, %n, %c, %w, %list
t: %s = $g(x); %y = Neg(%s); return %y
e: %s = $g(x); %y = Abs(%s); return %y",
        |v| {
            let mut a = v.x.clone();
            for i in 0..v.k {
                let s = v.g(&a);
                a = if i % 2 == 0 { neg(v.g(&s)) } else { abs(v.g(&s)) };
            }
            v.g(&a)
        },
    ),
    (
        "an If within an If",
        "main: %c = If(%cond, %k, %x, %w, %list) {else_branch = @e, then_branch = @t}; return %c
t(%k: i32[]): %two = Const() {value = dense<i32[]: 2>} : i32[]; %less = Less(%k, %two) : bool[]; %s = $g(x); %c = If(%less, %s, %w, %list) {else_branch = @o, then_branch = @p}; return %c
e(%k: i32[]): %s = $g(x); %y = Abs(%s); return %y
o: %s = $g(x); %y = Neg(%s); return %y
p: %s = $g(x); return %s",
        |v| match v.k {
            0 => abs(v.g(&v.x)),
            1 => v.g(&v.g(&v.x)),
            _ => neg(v.g(&v.g(&v.x))),
        },
    ),
];

/// The text form of a case; `sunk` is appended to the attributes of its sunk nodes.
pub fn text(nodes: &str, sunk: &str) -> String {
    let mut out = String::new();
    for graph in nodes.lines() {
        let (head, body) = graph.split_once(": %").map(|(h, b)| (h, format!("%{b}"))).unwrap();
        let (name, own) =
            head.split_once('(').map_or((head, String::new()), |(n, p)| (n, format!("{}, ", &p[..p.len() - 1])));
        let first = if name == "main" { "%k: i32[], " } else { "" };
        out.push_str(&format!("graph @{name}({first}{own}%x: f32[12,16], %w: f32[3,16,16], %list: i64[3]) {{\n"));
        if name == "main" {
            out.push_str(
                "  %none = Const() {value = dense<i32[]: 0>} : i32[]\n  %cond = NotEqual(%k, %none) : bool[]\n",
            );
        }
        for line in body.split("; ") {
            let mut line = line.to_owned();
            while let Some(at) = line.find("$g(") {
                let end = at + line[at..].find(')').unwrap();
                let x = line[at + 3..end].to_owned();
                line.replace_range(at..=end, &format!("GroupedMatmul(%{x}, %w, %list) {{group_list_type = 1{sunk}}}"));
            }
            if line.starts_with('%') && !line.contains(" : ") {
                let values = line.split(" = ").next().unwrap().split(", ");
                let ty = |v: &str| match v.trim_start_matches('%') {
                    "l" | "n" => "i32[]",
                    "w2" => "f32[3,16,16]",
                    "list2" => "i64[3]",
                    _ => "f32[12,16]",
                };
                let types: Vec<&str> = values.clone().map(ty).collect();
                let first = values.clone().next().unwrap().to_owned();
                let rest = &line[line.find(" = ").unwrap()..];
                line = format!("{first}{rest} : {}", types.join(", "));
            }
            // Results after the first are read by their number.
            if name == "main" && nodes.contains("%l, %n, %v") {
                line = line.replace("GroupedMatmul(%v,", "GroupedMatmul(%l#2,");
            }
            out.push_str(&format!("  {line}\n"));
        }
        out.push_str("}\n");
    }
    out
}

const SMALL: &str = "name = \"small\"\nbase = \"sim\"\ntasks_normal = 48\nstreams_normal = 256\ntasks_huge = 4096\n";

#[track_caller]
fn right_in_every_schedule(
    what: &str,
    text: &str,
    args: &[&str],
    counts: &[i32],
    want: fn(&Given) -> Vec<f32>,
) -> Compiled {
    let c = Compiled::source(text);
    std::fs::write(c.path().join("small.toml"), SMALL).unwrap();
    let out = ge(c.path(), &[&["compile", "m.ge", "-o", "m.om", "-q"], args].concat());
    assert!(out.status.success(), "{what}, {args:?}: {}\n{text}", String::from_utf8_lossy(&out.stderr));
    let mut random = Random(7);
    for (i, k) in counts.iter().enumerate() {
        let list = vec![[2, 6, 4], [0, 12, 0], [5, 0, 7]][i % 3].to_vec();
        let w = random.reals(3 * 16 * 16).iter().map(|w| w * 0.4).collect();
        let given = Given { k: *k, x: random.reals(192), w, list };
        let inputs = [
            HostTensor::from_bytes(DType::I32, &[], &k.to_le_bytes()).unwrap(),
            f32s(&[12, 16], &given.x),
            f32s(&[3, 16, 16], &given.w),
            i64s(&[3], &given.list),
        ];
        let long = std::env::var_os("GE_LONG").is_some();
        for schedule in 0..if long { 20 } else { 3 } {
            let schedule = format!("random:{schedule}");
            let m = c.load(&[("schedule", schedule.as_str()), ("check_races", "true")]);
            // Two runs: the second one finds what the first one left behind.
            for turn in 0..2 {
                let r =
                    run(&m, &inputs).unwrap_or_else(|e| panic!("{what}, {args:?}, {k}, {schedule}, run {turn}: {e}"));
                tiling_sink::near(&to_f32(&r.outputs[0]), &want(&given));
            }
        }
    }
    c
}

/// What both branches begin with stays in the branches.
const APART: &[&str] = &["--set", "ge.optimizationSwitch=SubexpressionMigrationPass:off"];
const NOTIFY: &[&str] = &["--set", "ge.event=notify"];
const SINGLE: &[&str] = &["--set", "ge.enableSingleStream=true"];
const SHORT: &[&str] = &["--soc", "./small.toml"];
const PARALLEL: &[&str] = &["--set", "ge.x.stream_mode=parallel:3"];
const REUSE: &[&str] = &["--set", "ge.x.event_reuse=always"];

#[test]
fn tiling_sink_runs_in_every_region_with_events_and_notifies_on_short_streams_and_on_one() {
    for (what, nodes, want) in CASES {
        let text = text(nodes, "");
        for mode in [&[][..], NOTIFY, SINGLE, SHORT, PARALLEL, REUSE] {
            let args = [&["--set", tiling_sink::ON][..], APART, mode].concat();
            let c = right_in_every_schedule(what, &text, &args, &[0, 1, 2], *want);
            let tasks = c.tasks();
            let sunk = tasks.iter().filter(|t| t.starts_with("PREPROCESS_KERNEL")).count();
            assert_eq!(sunk, nodes.matches("$g(").count(), "{what}");
        }
        for mode in [[NOTIFY, SINGLE], [NOTIFY, SHORT], [SINGLE, SHORT], [PARALLEL, NOTIFY]] {
            let args = [&["--set", tiling_sink::ON][..], APART, mode[0], mode[1]].concat();
            right_in_every_schedule(what, &text, &args, &[1, 2], *want);
        }
    }
}

#[test]
fn plain_attached_streams_run_in_every_region() {
    let list =
        "_attached_stream_info_list = [{_attached_resource_name = \"t\", _attached_resource_required_flag = true}]";
    for (what, nodes, want) in CASES {
        // The nodes behind the sunk ones have attached streams that the user asks for.
        let nodes =
            nodes.replace("Neg(%s)", &format!("Neg(%s) {{{list}}}")).replace("Abs(%s)", &format!("Abs(%s) {{{list}}}"));
        for mode in [&[][..], NOTIFY, SINGLE] {
            let args = [&["--set", tiling_sink::ON][..], APART, mode].concat();
            right_in_every_schedule(what, &text(&nodes, ""), &args, &[1, 2], *want);
        }
    }
}
