//! Control flow on the device: loops of any count, nested branches, an index out of range, against the same in plain Rust.
use super::*;

/// `x` is halved and, in even turns, one is added; `n` turns.
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
    // The device is as good as before.
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

#[test]
fn a_loop_whose_shapes_change_is_refused_with_its_reason() {
    let text = LOOP.replace("%x: f32[4]) {\n  %zero", "%x: f32[?]) {\n  %zero").replace("f32[4]", "f32[?]");
    let said = Compiled::source(&text).refusal(3, &[]);
    assert!(said.contains("not static") || said.contains("GE-E0350"), "{said}");
}
