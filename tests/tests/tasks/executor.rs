//! Runs: several models and callers at once, addresses that change, faults, and events that never
//! come.
use super::*;
use std::sync::Arc;

const ON: &str = "ge.tiling_schedule_optimize=1";
const GROUPS: &str = "graph @main(%x: f32[12,16], %w: f32[3,16,8], %list: i64[3]) {
  %a = Relu(%x) : f32[12,16]
  %g = GroupedMatmul(%a, %w, %list) {group_list_type = 1} : f32[12,8]
  return %g
}
";
const SUM: &str = "graph @main(%x: f32[256], %y: f32[256]) {
  %a = Relu(%x) : f32[256]
  %b = Square(%y) {_stream_label = \"other\"} : f32[256]
  %c = Add(%a, %b) : f32[256]
  return %c
}
";

fn sum(x: &[f32], y: &[f32]) -> Vec<f32> {
    x.iter().zip(y).map(|(x, y)| x.max(0.0) + y * y).collect()
}

#[test]
fn models_and_callers_go_side_by_side_on_one_device() {
    let (groups, adds) =
        (Compiled::new(GROUPS, &["--set", ON]), Compiled::new(SUM, &["--set", "ge.x.auto_fusion=false"]));
    let s = session(&[]);
    let read = |c: &Compiled| {
        let path = c.path().join("m.om");
        ge_model::decode(&ge_om::OmFile::open(&path).unwrap()).unwrap()
    };
    let (a, b) = (read(&groups), read(&adds));
    let context = s.open_device(&a.soc).unwrap();
    let options = ge_runtime::LoadOptions { rank_size: 1, ..Default::default() };
    let groups = Arc::new(s.load_on(a, context.clone(), &options).unwrap());
    let adds = Arc::new(s.load_on(b, context, &options).unwrap());
    std::thread::scope(|scope| {
        for caller in 0..8u64 {
            let (groups, adds) = (groups.clone(), adds.clone());
            scope.spawn(move || {
                let mut random = Random(caller);
                for _ in 0..40 {
                    if caller % 2 == 0 {
                        let (x, y) = (random.reals(256), random.reals(256));
                        let r = run(&adds, &[f32s(&[256], &x), f32s(&[256], &y)]).unwrap();
                        assert_eq!(to_f32(&r.outputs[0]), sum(&x, &y));
                    } else {
                        // All weights are one, so each number is the sum of its row, which has no
                        // negative numbers.
                        let n = random.below(13) as i64;
                        let x: Vec<f32> = (0..192).map(|k| ((k + caller as usize) % 7) as f32).collect();
                        let list = i64s(&[3], &[n, 12 - n, 0]);
                        let r = run(&groups, &[f32s(&[12, 16], &x), f32s(&[3, 16, 8], &[1.0; 384]), list]).unwrap();
                        for (row, y) in to_f32(&r.outputs[0]).chunks(8).enumerate() {
                            let total: f32 = x[row * 16..row * 16 + 16].iter().sum();
                            assert!(y.iter().all(|y| *y == total), "row {row}: {y:?}, expected {total}");
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn inputs_at_new_addresses_touch_their_own_arguments_alone() {
    let c = Compiled::new(SUM, &["--set", "ge.x.auto_fusion=false"]);
    let m = c.load(&[]);
    let mut random = Random(1);
    let mut given = [f32s(&[256], &random.reals(256)), f32s(&[256], &random.reals(256))];
    run(&m, &given).unwrap();
    let mut old = Vec::new();
    for _ in 0..5 {
        let next = f32s(&[256], &random.reals(256));
        old.push(std::mem::replace(&mut given[1], next));
        let r = run(&m, &given).unwrap();
        assert_eq!(to_f32(&r.outputs[0]), sum(&to_f32(&given[0]), &to_f32(&given[1])));
        // `y` and the output have one argument each; `x` stays where it was.
        assert!((1..=2).contains(&counter(&r, "arguments_refreshed")), "{}", counter(&r, "arguments_refreshed"));
    }
}

#[test]
fn a_fault_names_node_task_stream_and_engine_and_the_next_run_is_right() {
    let c = Compiled::new(SUM, &["--set", "ge.x.auto_fusion=false"]);
    let mut random = Random(8);
    let (x, y) = (random.reals(256), random.reals(256));
    let given = [f32s(&[256], &x), f32s(&[256], &y)];
    let tasks = c.tasks().len();
    for n in 0..tasks {
        let fault = format!("fail:{n}");
        let s = session(&[("fault", &fault)]);
        let m = s.load_om(c.path().join("m.om")).unwrap();
        let views: Vec<_> = given.iter().map(HostTensor::view).collect();
        let e = m.run_views(&views, RunOptions::default()).err().unwrap_or_else(|| panic!("task {n} did not fail"));
        let d = &e.diagnostics[0];
        let note = d.notes.first().map_or("", |n| n.as_str());
        assert!(!d.node.is_empty() && note.contains("on stream") && note.contains("engine "), "{e}: {note}");
        assert_eq!(to_f32(&m.run(&given).unwrap()[0]), sum(&x, &y), "after task {n}");
    }
}

#[test]
fn a_lost_record_is_a_deadlock_that_lists_who_waits_for_what() {
    let c = Compiled::new(SUM, &["--set", "ge.x.auto_fusion=false"]);
    let m = c.load(&[("fault", "lose_record:0")]);
    let given = [f32s(&[256], &[1.0; 256]), f32s(&[256], &[2.0; 256])];
    let views: Vec<_> = given.iter().map(HostTensor::view).collect();
    let e = m.run_views(&views, RunOptions::default()).err().unwrap();
    let notes: Vec<&str> = e.diagnostics[0].notes.iter().map(|n| n.as_str()).collect();
    assert!(
        e.to_string().contains("deadlock")
            && notes.iter().any(|n| n.contains("waits at node") && n.contains("event 0")),
        "{notes:?}"
    );
}

#[test]
fn what_a_soc_cannot_hold_is_refused_when_it_is_compiled_and_when_it_is_loaded() {
    let text = "graph @main(%x: f32[256], %y: f32[256]) {
  %a = Relu(%x) : f32[256]
  %b = Square(%y) {_stream_label = \"one\"} : f32[256]
  %c = Square(%x) {_stream_label = \"two\"} : f32[256]
  %d = Add(%a, %b) : f32[256]
  %e = Add(%d, %c) : f32[256]
  return %e
}
";
    let plain = ["--set", "ge.x.auto_fusion=false"];
    let notify = ["--set", "ge.x.auto_fusion=false", "--set", "ge.event=notify"];
    for (limit, more, word) in [
        ("max_events = 1", &plain[..], "needs 2 events, few has 1"),
        ("max_notifies = 1", &notify, "needs 2 notifies, few has 1"),
        ("streams_normal = 2", &plain, "needs 3 streams, few has 2"),
    ] {
        let c = Compiled::source(text);
        std::fs::write(c.path().join("few.toml"), format!("name = \"few\"\nbase = \"sim\"\n{limit}\n")).unwrap();
        let said = c.refusal(1, &[&["--soc", "./few.toml"], more].concat());
        assert!(said.contains("GE-E0316") && said.contains(word), "{word}: {said}");
    }
    type Limit = fn(&mut ge_plugin_api::device::SocSpec);
    let cases: [(Limit, &[&str], &str); 4] = [
        (|s| s.max_events = 1, &plain, "has 2 events, sim has 1"),
        (|s| s.max_notifies = 1, &notify, "has 2 notifies, sim has 1"),
        (|s| s.streams_normal = 2, &plain, "has 3 streams, sim has 2"),
        (|s| s.tasks_normal = 2, &plain, "a normal stream of sim holds 2"),
    ];
    for (limit, more, word) in cases {
        let c = Compiled::new(text, more);
        c.change(|m| limit(&mut m.soc));
        let (code, said) = c.run(&[]);
        assert!(code == 6 && said.contains(word), "{word}: {code} {said}");
    }
}
