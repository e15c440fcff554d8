//! Control flow on the device: loops of any count, nested branches, and an index out of range,
//! compared with the same in plain Rust.
use super::*;
use ge_model::{CompiledModel, TaskInfo};
use ge_plugin_api::task::TaskType;
use ge_proof::PlanFault;

/// `n` turns: `x` is halved in each, and one is added in even turns.
const LOOP: &str = "graph @main(%n: i64[1], %x: f32[4]) {
  %zero = Const() {value = dense<i64[1]: 0>} : i64[1]
  %w = While(%zero, %n, %x) {body = @body, cond = @cond} : i64[1], i64[1], f32[4]
  return %w#2, %w
}
graph @cond(%i: i64[1], %n: i64[1], %v: f32[4]) {
  %t = Less(%i, %n) : bool[1]
  return %t
}
graph @body(%i: i64[1], %n: i64[1], %v: f32[4]) {
  %one = Const() {value = dense<i64[1]: 1>} : i64[1]
  %two = Const() {value = dense<i64[1]: 2>} : i64[1]
  %nought = Const() {value = dense<i64[1]: 0>} : i64[1]
  %half = Const() {value = dense<f32[1]: 0.5>} : f32[1]
  %m = Mul(%v, %half) : f32[4]
  %r = FloorMod(%i, %two) : i64[1]
  %even = Equal(%r, %nought) : bool[1]
  %b = If(%even, %m) {else_branch = @odd, then_branch = @even} : f32[4]
  %j = Add(%i, %one) : i64[1]
  return %j, %n, %b
}
graph @even(%a: f32[4]) {
  %one = Const() {value = dense<f32[1]: 1>} : f32[1]
  %s = Add(%a, %one) : f32[4]
  return %s
}
graph @odd(%a: f32[4]) {
  return %a
}
";

#[test]
fn loops_of_no_one_and_a_thousand_turns_with_a_branch_in_each() {
    let c = Compiled::new(LOOP, &[]);
    for mode in [vec![], vec![("schedule", "random:5"), ("check_races", "true")]] {
        let m = c.load(&mode);
        for n in [0i64, 1, 2, 7, 1000, -3] {
            let x = [1.0f32, -2.5, 0.0, 1e3];
            let r = run(&m, &[i64s(&[1], &[n]), f32s(&[4], &x)]).unwrap();
            let mut v = x;
            for i in 0..n.max(0) {
                v = v.map(|v| v * 0.5 + if i % 2 == 0 { 1.0 } else { 0.0 });
            }
            assert_eq!(to_f32(&r.outputs[0]), v, "{n} turns, {mode:?}");
            assert_eq!(r.outputs[1].bytes(), &n.max(0).to_le_bytes());
        }
    }
    let tasks = c.tasks();
    let count = |kind: &str| tasks.iter().filter(|t| t.starts_with(kind)).count();
    assert_eq!((count("STREAM_LABEL_SWITCH_BY_INDEX"), count("STREAM_LABEL_GOTO"), count("LABEL_SET")), (2, 2, 6));
}

#[test]
fn an_endless_loop_ends_with_an_error() {
    let c = Compiled::new(LOOP, &[]);
    let m = c.load(&[("max_tasks", "20000")]);
    let said = run(&m, &[i64s(&[1], &[i64::MAX]), f32s(&[4], &[0.0; 4])]).err().unwrap();
    assert!(said.contains("a loop goes on for ever"), "{said}");
    // The device works as before.
    run(&m, &[i64s(&[1], &[3]), f32s(&[4], &[0.0; 4])]).unwrap();
}

#[test]
fn a_case_takes_its_branch_and_the_last_one_beyond_them() {
    let text = "graph @main(%k: i32[1], %x: f32[4]) {
  %y = Case(%k, %x) {branches = [@a, @b, @c]} : f32[4]
  return %y
}
graph @a(%x: f32[4]) { %y = Neg(%x) : f32[4] return %y }
graph @b(%x: f32[4]) { %y = Square(%x) : f32[4] return %y }
graph @c(%x: f32[4]) { return %x }
";
    let c = Compiled::new(text, &[]);
    let m = c.load(&[("check_races", "true")]);
    let x = [1.5f32, -2.0, 0.0, 4.0];
    for (k, f) in
        [(0i32, (|x| -x) as fn(f32) -> f32), (1, |x| x * x), (2, |x| x), (3, |x| x), (-1, |x| x), (i32::MAX, |x| x)]
    {
        let index = HostTensor::from_bytes(DType::I32, &[1], &k.to_le_bytes()).unwrap();
        let r = run(&m, &[index, f32s(&[4], &x)]).unwrap();
        assert_eq!(to_f32(&r.outputs[0]), x.map(f), "branch {k}");
    }
}

#[test]
fn a_for_counts_on_the_device_up_and_down() {
    let text = "graph @main(%start: i32[1], %limit: i32[1], %delta: i32[1], %x: f32[4]) {
  %y = For(%start, %limit, %delta, %x) {body = @body} : f32[4]
  return %y
}
graph @body(%i: i32[1], %v: f32[4]) {
  %f = Cast(%i) {dst_type = f32} : f32[1]
  %s = Add(%v, %f) : f32[4]
  return %s
}
";
    let c = Compiled::new(text, &[]);
    let m = c.load(&[]);
    let one = |v: i32| HostTensor::from_bytes(DType::I32, &[1], &v.to_le_bytes()).unwrap();
    for (start, limit, delta) in [(0, 10, 1), (0, 0, 1), (3, 20, 4), (10, 0, -3), (5, 6, -1), (0, 9, 0), (0, 1000, 1)] {
        let r = run(&m, &[one(start), one(limit), one(delta), f32s(&[4], &[0.0, 1.0, 2.0, 3.0])]).unwrap();
        let mut sum = 0i64;
        let mut i = i64::from(start);
        while (i64::from(limit) - i) * i64::from(delta) > 0 {
            sum += i;
            i += i64::from(delta);
        }
        let expected: Vec<f32> = (0..4).map(|k| k as f32 + sum as f32).collect();
        assert_eq!(to_f32(&r.outputs[0]), expected, "{start} to {limit} by {delta}");
    }
}

/// A loop with nodes of two engines and of a label in its body and in a branch of the body, and
/// nodes on other streams beside the loop.
const WIDE: &str = "graph @main(%n: i64[1], %x: f32[4], %z: f32[4]) {
  %zero = Const() {value = dense<i64[1]: 0>} : i64[1]
  %p = Neg(%z) {_engine = \"VectorEngine\"} : f32[4]
  %w = While(%zero, %n, %x, %p) {body = @body, cond = @cond} : i64[1], i64[1], f32[4], f32[4]
  %q = Neg(%z) {_engine = \"VectorEngine\"} : f32[4]
  %r = Add(%w#2, %q) : f32[4]
  return %r, %w, %q
}
graph @cond(%i: i64[1], %n: i64[1], %v: f32[4], %p: f32[4]) {
  %t = Less(%i, %n) : bool[1]
  return %t
}
graph @body(%i: i64[1], %n: i64[1], %v: f32[4], %p: f32[4]) {
  %one = Const() {value = dense<i64[1]: 1>} : i64[1]
  %two = Const() {value = dense<i64[1]: 2>} : i64[1]
  %nought = Const() {value = dense<i64[1]: 0>} : i64[1]
  %half = Const() {value = dense<f32[1]: 0.5>} : f32[1]
  %quarter = Const() {value = dense<f32[1]: 0.25>} : f32[1]
  %m = Mul(%v, %half) : f32[4]
  %k = Mul(%v, %quarter) {_engine = \"VectorEngine\"} : f32[4]
  %k2 = Add(%k, %p) {_stream_label = \"side\"} : f32[4]
  %r = FloorMod(%i, %two) : i64[1]
  %even = Equal(%r, %nought) : bool[1]
  %b = If(%even, %m, %k2) {else_branch = @odd, then_branch = @even} : f32[4]
  %s = Sub(%b, %k2) : f32[4]
  %late = Mul(%v, %quarter) {_engine = \"VectorEngine\"} : f32[4]
  %s2 = Sub(%s, %late) : f32[4]
  %j = Add(%i, %one) : i64[1]
  return %j, %n, %s2, %p
}
graph @even(%a: f32[4], %c: f32[4]) {
  %one = Const() {value = dense<f32[1]: 1>} : f32[1]
  %s = Add(%a, %one) : f32[4]
  %t = Neg(%c) {_engine = \"VectorEngine\"} : f32[4]
  %u = Add(%s, %t) : f32[4]
  return %u
}
graph @odd(%a: f32[4], %c: f32[4]) {
  return %a
}
";

fn wide(n: i64, x: [f32; 4], z: [f32; 4]) -> ([f32; 4], [f32; 4]) {
    let p = z.map(|z| -z);
    let mut v = x;
    for i in 0..n.max(0) {
        for l in 0..4 {
            let (m, k2) = (v[l] * 0.5, v[l] * 0.25 + p[l]);
            let b = if i % 2 == 0 { (m + 1.0) + -k2 } else { m };
            v[l] = (b - k2) - v[l] * 0.25;
        }
    }
    (std::array::from_fn(|l| v[l] + p[l]), p)
}

/// Device options for this many random schedules.
fn schedules(count: usize) -> impl Iterator<Item = Vec<(&'static str, String)>> {
    (0..count).map(|k| vec![("schedule", format!("random:{k}")), ("check_races", "true".to_owned())])
}

#[test]
fn a_body_on_several_streams_runs_right_any_number_of_times_in_every_schedule() {
    for args in [&[][..], &["--set", "ge.x.stream_mode=parallel:4"], &["--set", "ge.event=notify"]] {
        let c = Compiled::new(WIDE, args);
        let tasks = c.tasks();
        let woken = tasks.iter().filter(|t| t.starts_with("STREAM_ACTIVE ")).count();
        assert!(woken >= if args.is_empty() { 3 } else { 1 }, "{tasks:#?}");
        let (x, z) = ([1.0f32, -2.5, 0.0, 1e3], [0.5f32, 2.0, -1.0, 3.0]);
        for mode in schedules(20) {
            let mode: Vec<(&str, &str)> = mode.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let m = c.load(&mode);
            // One model runs again and again: what a run leaves behind would be seen in the next
            // one.
            for n in [0i64, 1, 2, 7, -3, 3] {
                let r = run(&m, &[i64s(&[1], &[n]), f32s(&[4], &x), f32s(&[4], &z)]).unwrap();
                let (out, q) = wide(n, x, z);
                assert_eq!(
                    (to_f32(&r.outputs[0]), to_f32(&r.outputs[2])),
                    (out.to_vec(), q.to_vec()),
                    "{n} {mode:?} {args:?}"
                );
                assert_eq!(r.outputs[1].bytes(), &n.max(0).to_le_bytes());
            }
        }
        let m = c.load(&[("schedule", "random:99"), ("check_races", "true")]);
        let r = run(&m, &[i64s(&[1], &[1000]), f32s(&[4], &x), f32s(&[4], &z)]).unwrap();
        assert_eq!(to_f32(&r.outputs[0]), wide(1000, x, z).0, "{args:?}");
    }
}

#[test]
fn a_dropped_event_of_a_body_and_a_stream_that_sleeps_on_are_caught() {
    let c = Compiled::new(WIDE, &[]);
    let file = ge_om::OmFile::open(c.path().join("m.om")).unwrap();
    let m = ge_model::decode(&file).unwrap();
    ge_proof::check(&m).expect("a plan that holds");
    let kind = |k: u32| ge_plugin_api::task::TaskType(k).name();
    let ids: std::collections::BTreeSet<u32> = m.tasks.iter().filter_map(|t| t.sync_id).collect();
    assert!(ids.len() >= 4, "{ids:?}");
    for id in ids {
        let mut broken = m.clone();
        broken.tasks.retain(|t| !(kind(t.kind).starts_with("EVENT_") && t.sync_id == Some(id)));
        assert!(ge_proof::check(&broken).is_err(), "event {id}");
    }
    let wakes: Vec<usize> = (0..m.tasks.len()).filter(|i| kind(m.tasks[*i].kind) == "STREAM_ACTIVE").collect();
    for w in wakes {
        let mut broken = m.clone();
        broken.tasks.remove(w);
        assert!(ge_proof::check(&broken).is_err(), "task {w}");
    }
    // A wait that stood before the loop moves into it: in a straight line nothing changes, but the
    // second turn waits for ever.
    let mut broken = m.clone();
    let first = |k: &str| m.tasks.iter().position(|t| kind(t.kind) == k).expect("a task");
    let (wait, label) = (first("EVENT_WAIT"), first("LABEL_SET"));
    assert!(wait < label);
    let task = broken.tasks.remove(wait);
    broken.tasks.insert(label, task);
    let found = ge_proof::check(&broken);
    assert!(matches!(found, Err(ge_proof::PlanFault::Deadlock { .. })), "{found:?}");
}

/// A branch on several streams.
fn wide_branch(name: &str) -> String {
    let own: u8 = name[1..].parse().expect("a number");
    format!(
        "graph @{name}(%x: f32[4]) {{
  %p = Neg(%x) : f32[4]
  %q = Muls(%x) {{value = {own}.5, _stream_label = \"one\"}} : f32[4]
  %r = Add(%q, %x) {{_stream_label = \"two\"}} : f32[4]
  %y = Add(%p, %r) : f32[4]
  return %y
}}
"
    )
}

/// The model with an event that one branch records and another one waits for. A branch is given by
/// the index of its switch, in the order of the tasks, and by its index in the switch.
fn crossed(m: &CompiledModel, record: (usize, usize), wait: (usize, usize)) -> CompiledModel {
    let is = |t: &TaskInfo, kind: TaskType| TaskType(t.kind) == kind;
    let switches: Vec<&TaskInfo> = m.tasks.iter().filter(|t| is(t, TaskType::STREAM_LABEL_SWITCH_BY_INDEX)).collect();
    let mut broken = m.clone();
    let id = broken.event_num;
    broken.event_num += 1;
    for ((switch, branch), kind) in [(wait, TaskType::EVENT_WAIT), (record, TaskType::EVENT_RECORD)] {
        let (s, label) = (switches[switch], switches[switch].numbers[branch]);
        let begins = |t: &TaskInfo| is(t, TaskType::LABEL_SET) && t.numbers.first() == Some(&label);
        let at = broken.tasks.iter().position(begins).unwrap();
        let like = m.tasks.iter().find(|t| is(t, kind)).unwrap().clone();
        broken.tasks.insert(at + 1, TaskInfo { sync_id: Some(id), stream: s.stream, node: s.node, ..like });
    }
    broken
}

#[test]
fn every_branch_of_a_wide_case_is_proven() {
    let names: Vec<String> = (0..11).map(|k| format!("b{k}")).collect();
    let list = names.iter().map(|n| format!("@{n}")).collect::<Vec<_>>().join(", ");
    let main = format!(
        "graph @main(%k: i32[1], %x: f32[4]) {{\n  %y = Case(%k, %x) {{branches = [{list}]}} : f32[4]\n  return %y\n}}\n"
    );
    let c = Compiled::new(&(main + &names.iter().map(|n| wide_branch(n)).collect::<String>()), &[]);
    let file = ge_om::OmFile::open(c.path().join("m.om")).unwrap();
    let m = ge_model::decode(&file).unwrap();
    ge_proof::check(&m).expect("a plan that holds");
    let mut dropped = 0;
    for (i, t) in m.tasks.iter().enumerate().filter(|(_, t)| TaskType(t.kind) == TaskType::EVENT_WAIT) {
        let mut broken = m.clone();
        broken.tasks.remove(i);
        assert!(ge_proof::check(&broken).is_err(), "task {i}, a wait for event {:?}", t.sync_id);
        dropped += 1;
    }
    assert!(dropped >= 22, "{dropped} waits");
    let found = ge_proof::check(&crossed(&m, (0, 9), (0, 10)));
    assert!(matches!(found, Err(PlanFault::Deadlock { .. } | PlanFault::Left { .. })), "{found:?}");
}

#[test]
fn branches_that_follow_each_other_are_proven_in_all_that_may_be_taken_together() {
    let text = "graph @main(%k: i32[1], %l: i32[1], %x: f32[4]) {
  %a = Case(%k, %x) {branches = [@b0, @b1]} : f32[4]
  %b = Case(%l, %a) {branches = [@b2, @b3]} : f32[4]
  return %b
}
";
    let c = Compiled::new(&(text.to_owned() + &["b0", "b1", "b2", "b3"].map(wide_branch).concat()), &[]);
    let file = ge_om::OmFile::open(c.path().join("m.om")).unwrap();
    let m = ge_model::decode(&file).unwrap();
    ge_proof::check(&m).expect("a plan that holds");
    // The event is left over, or waited for in vain, only if the two switches go different ways.
    for branch in 0..2 {
        let found = ge_proof::check(&crossed(&m, (0, branch), (1, branch)));
        assert!(matches!(found, Err(PlanFault::Deadlock { .. } | PlanFault::Left { .. })), "{branch}: {found:?}");
    }
}

#[test]
fn branches_of_a_case_on_several_streams_run_right_in_every_schedule() {
    let text = "graph @main(%k: i32[1], %x: f32[4]) {
  %before = Abs(%x) {_engine = \"VectorEngine\"} : f32[4]
  %y = Case(%k, %x, %before) {branches = [@a, @b, @c]} : f32[4]
  %z = Sub(%y, %before) {_engine = \"VectorEngine\"} : f32[4]
  return %z, %y
}
graph @a(%x: f32[4], %e: f32[4]) {
  %p = Neg(%x) : f32[4]
  %q = Square(%x) {_stream_label = \"one\"} : f32[4]
  %r = Add(%q, %e) {_stream_label = \"two\"} : f32[4]
  %y = Add(%p, %r) : f32[4]
  return %y
}
graph @b(%x: f32[4], %e: f32[4]) { %y = Square(%x) {_stream_label = \"one\"} : f32[4] return %y }
graph @c(%x: f32[4], %e: f32[4]) { return %x }
";
    let c = Compiled::new(text, &[]);
    assert_eq!(c.tasks().iter().filter(|t| t.starts_with("STREAM_ACTIVE ")).count(), 3);
    let x = [1.5f32, -2.0, 0.0, 4.0];
    for mode in schedules(20) {
        let mode: Vec<(&str, &str)> = mode.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let m = c.load(&mode);
        for (k, f) in [
            (0i32, (|x| -x + (x * x + x.abs())) as fn(f32) -> f32),
            (1, |x| x * x),
            (2, |x| x),
            (0, |x| -x + (x * x + x.abs())),
        ] {
            let index = HostTensor::from_bytes(DType::I32, &[1], &k.to_le_bytes()).unwrap();
            let r = run(&m, &[index, f32s(&[4], &x)]).unwrap();
            assert_eq!(to_f32(&r.outputs[1]), x.map(f), "branch {k} {mode:?}");
            assert_eq!(to_f32(&r.outputs[0]), x.map(|v| f(v) - v.abs()), "branch {k} {mode:?}");
        }
    }
}

#[test]
fn a_long_body_is_spread_over_streams_where_that_pays() {
    let text = "graph @main(%n: i64[1], %x: f32[256,256]) {
  %zero = Const() {value = dense<i64[1]: 0>} : i64[1]
  %w = While(%zero, %n, %x) {body = @body, cond = @cond} : i64[1], i64[1], f32[256,256]
  return %w#2
}
graph @cond(%i: i64[1], %n: i64[1], %v: f32[256,256]) { %t = Less(%i, %n) : bool[1] return %t }
graph @body(%i: i64[1], %n: i64[1], %v: f32[256,256]) {
  %one = Const() {value = dense<i64[1]: 1>} : i64[1]
  %a = MatMul(%v, %v) : f32[256,256]
  %b = Sigmoid(%v) : f32[256,256]
  %c = Tanh(%v) : f32[256,256]
  %a2 = MatMul(%a, %v) : f32[256,256]
  %b2 = MatMul(%b, %v) : f32[256,256]
  %c2 = MatMul(%c, %v) : f32[256,256]
  %s0 = Sub(%a2, %b2) : f32[256,256]
  %s1 = Sub(%s0, %c2) : f32[256,256]
  %s = Tanh(%s1) : f32[256,256]
  %j = Add(%i, %one) : i64[1]
  return %j, %n, %s
}
";
    let one = Compiled::new(text, &["--set", "ge.enableSingleStream=true"]);
    let four = Compiled::new(text, &["--set", "ge.x.stream_mode=parallel:4"]);
    let x: Vec<f32> = (0..256 * 256).map(|i| (i % 97) as f32 / 50.0 - 1.0).collect();
    let timed = [("time", "model"), ("check_races", "true"), ("schedule", "random:3")];
    let (a, b) = (one.load(&timed), four.load(&timed));
    let inputs = [i64s(&[1], &[5]), f32s(&[256, 256], &x)];
    let (a, b) = (run(&a, &inputs).unwrap(), run(&b, &inputs).unwrap());
    assert_eq!(a.outputs[0].bytes(), b.outputs[0].bytes());
    assert!(counter(&b, "stream_activations") >= 5, "a body wakes its streams in each turn");
    let time = |r: &RunOutcome| r.report.elapsed_ns;
    assert!(time(&b) * 10 < time(&a) * 9, "{} against {} on one stream", time(&b), time(&a));
}

/// Values of a loop that come out of a turn as they went in, values that change places, and one
/// that is captured.
const THROUGH: &str = "graph @main(%n: i64[1], %x: f32[4], %y: f32[4], %z: f32[4]) {
  %zero = Const() {value = dense<i64[1]: 0>} : i64[1]
  %t = Tanh(%x) : f32[4]
  %w = While(%zero, %n, %t, %y, %z) {body = @body, cond = @cond} : i64[1], i64[1], f32[4], f32[4], f32[4]
  return %w#2, %w#3, %w#4, %x
}
graph @cond(%i: i64[1], %n: i64[1], %a: f32[4], %b: f32[4], %c: f32[4]) {
  %t = Less(%i, %n) : bool[1]
  return %t
}
graph @body(%i: i64[1], %n: i64[1], %a: f32[4], %b: f32[4], %c: f32[4]) {
  %one = Const() {value = dense<i64[1]: 1>} : i64[1]
  %j = Add(%i, %one) : i64[1]
  return %j, %n, %a, %c, %b
}
";

#[test]
fn values_that_go_through_a_loop_or_change_places_in_it_stay_what_they_are() {
    for more in [&[][..], &["--set", "ge.x.stream_mode=parallel:3", "--set", "ge.x.memory_effort=fast"]] {
        let c = Compiled::new(THROUGH, more);
        let (x, y, z) = ([0.5f32, -1.0, 2.0, 0.0], [1.0f32, 2.0, 3.0, 4.0], [-1.0f32, -2.0, -3.0, -4.0]);
        for mode in schedules(6) {
            let mode: Vec<(&str, &str)> = mode.iter().map(|(k, v)| (*k, v.as_str())).collect();
            let m = c.load(&mode);
            for n in [0i64, 1, 2, 5] {
                let r = run(&m, &[i64s(&[1], &[n]), f32s(&[4], &x), f32s(&[4], &y), f32s(&[4], &z)]).unwrap();
                let (b, c) = if n % 2 == 0 { (y, z) } else { (z, y) };
                let found: Vec<Vec<f32>> = r.outputs.iter().map(to_f32).collect();
                assert_eq!(found[1..], [b.to_vec(), c.to_vec(), x.to_vec()], "{n} turns, {mode:?}, {more:?}");
                assert!(found[0].iter().zip(x).all(|(f, x)| (f - x.tanh()).abs() < 1e-6));
            }
        }
    }
}
