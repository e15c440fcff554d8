//! Tiling sink: the sequence of document 001 §4.3 with the simulator's prefetching.
use crate::support::*;

use ge_plugin_api::task::{TILING_SINK_BLOCK_DIM, TaskType as T};
use ge_sim::context::Context;

const KEY: u64 = 100;
const DIM: u64 = 101;

/// Tiling, UPDATE and a record on stream 1; a wait, NOPs and the kernel on stream 0. The kernel
/// writes its key and block count.
fn sequence<'a>(context: &'a Context, nops: usize, order: &str) -> Net<'a> {
    let mut n = net(context, 2, 2);
    n.task(T::EVENT_RECORD, 0, &[1], &[]);
    n.task(T::EVENT_WAIT, 1, &[1], &[]);
    n.kernel("tiling", 1, 1, &[(words(INPUT, 0, 2), READ), (words(FEATURES, KEY, 2), WRITE)], |c| {
        c.output::<u64>(1, 0..2)?.copy_from_slice(&c.input::<u64>(0)?[..2]);
        Ok(())
    });
    n.tasks.last_mut().unwrap().0.kind = T::PREPROCESS_KERNEL.code();
    if order != "no wait" {
        n.task(T::EVENT_WAIT, 0, &[0], &[]);
    }
    for _ in 0..nops {
        n.task(T::NOP, 0, &[], &[]);
    }
    let k = n.kernel("matmul", 0, TILING_SINK_BLOCK_DIM, &[(words(OUTPUT, 0, 64), WRITE)], |c| {
        c.output::<u64>(0, c.block_idx()..c.block_idx() + 1)?[0] = c.tiling_key() * 100 + c.block_dim() as u64;
        Ok(())
    });
    let args = [words(FEATURES, KEY, 1), words(FEATURES, DIM, 1)];
    let update_on = if order == "wrong stream" { 0 } else { 1 };
    if order == "record first" {
        n.task(T::EVENT_RECORD, 1, &[0], &[]);
        n.task(T::UPDATE, update_on, &[i64::from(k)], &args);
    } else {
        n.task(T::UPDATE, update_on, &[i64::from(k)], &args);
        n.task(T::EVENT_RECORD, 1, &[0], &[]);
    }
    n.task(T::END_GRAPH, 0, &[], &[]);
    n
}

#[test]
fn with_enough_nops_the_kernel_has_its_tiling() {
    for mode in [&[][..], &[("time", "model")], &[("schedule", "random:9"), ("check_races", "true")]] {
        let context = device(mode);
        let model = sequence(&context, 8, "").build().unwrap();
        for run in 1..4u64 {
            let mut m = memory();
            (m.input[0], m.input[1]) = (run, run * 3);
            let r = model.execute(&m.bases(), true).unwrap();
            assert!(m.output[..(run * 3) as usize].iter().all(|v| *v == run * 100 + run * 3), "{mode:?}");
            assert_eq!(m.output[(run * 3) as usize], 0);
            let get = |n: &str| r.counters.iter().find(|c| c.name.as_str() == n).unwrap().value;
            assert_eq!((get("task_updates"), get("device_tiling"), get("host_tiling")), (1, 1, 0));
        }
    }
}

#[test]
fn one_nop_too_few_fails_on_the_second_run_as_on_the_first() {
    let random: Vec<String> = (0..20).map(|s| format!("random:{s}")).collect();
    let modes = random.iter().map(|s| vec![("schedule", s.as_str())]).chain([vec![], vec![("time", "model")]]);
    for mode in modes {
        let context = device(&mode);
        let model = sequence(&context, 7, "").build().unwrap();
        for _ in 0..2 {
            let mut m = memory();
            (m.input[0], m.input[1]) = (1, 2);
            let e = failure(model.execute(&m.bases(), false));
            assert!(e.contains("0xFFFFFFFF") && e.contains("`matmul`") && e.contains("KERNEL"), "{e}");
            assert!(e.contains("sim reads 8 tasks ahead"), "{e}");
        }
    }
    // Five NOPs are enough if the stream reads five tasks ahead.
    let context = device(&[]);
    for (nops, good) in [(5, true), (4, false)] {
        let mut n = sequence(&context, nops, "");
        n.spec.soc = ge_sim::soc::by_name("Ascend310P").unwrap();
        let model = n.build().unwrap();
        let mut m = memory();
        (m.input[0], m.input[1]) = (1, 2);
        assert_eq!(model.execute(&m.bases(), false).is_ok(), good);
    }
}

#[test]
fn every_broken_sequence_is_caught() {
    let words_of = [("record first", "0xFFFFFFFF"), ("no wait", "0xFFFFFFFF"), ("wrong stream", "0xFFFFFFFF")];
    for (order, expect) in words_of {
        let mut caught = 0;
        for seed in 0..30 {
            let context = device(&[("schedule", &format!("random:{seed}"))]);
            let n = sequence(&context, 8, order);
            let mut m = memory();
            (m.input[0], m.input[1]) = (1, 2);
            if let Err(e) = n.build().and_then(|model| model.execute(&m.bases(), false)) {
                let t = text(&e);
                caught += usize::from(t.contains(expect));
            }
        }
        assert_eq!(caught, 30, "{order}");
    }
}

#[test]
fn an_update_of_a_task_that_has_run_is_an_error() {
    let context = device(&[]);
    let mut n = sequence(&context, 8, "");
    n.spec.events = 3;
    n.task(T::EVENT_RECORD, 0, &[2], &[]);
    n.task(T::EVENT_WAIT, 1, &[2], &[]);
    let k = n.tasks.iter().position(|t| t.0.node.as_str() == "matmul").unwrap() as i64;
    n.task(T::UPDATE, 1, &[k], &[words(FEATURES, KEY, 1), words(FEATURES, DIM, 1)]);
    let mut m = memory();
    (m.input[0], m.input[1]) = (1, 2);
    let e = failure(n.build().unwrap().execute(&m.bases(), false));
    assert!(e.contains("has run already") && e.contains("`matmul`"), "{e}");
}

#[test]
fn a_tiling_of_no_blocks_and_an_update_of_another_task_are_errors() {
    let context = device(&[]);
    let model = sequence(&context, 8, "").build().unwrap();
    for dim in [0, 65_536, u64::MAX] {
        let mut m = memory();
        m.input[1] = dim;
        assert!(failure(model.execute(&m.bases(), false)).contains("a launch has 1 to 65535"));
    }
    let mut n = sequence(&context, 8, "");
    let last = n.tasks.iter().position(|t| t.0.kind == T::UPDATE.code()).unwrap();
    n.tasks[last].0.numbers[0] = 0;
    assert!(failure(n.build()).contains("no kernel with placeholder blocks"));
    let mut n = sequence(&context, 8, "");
    n.spec.soc.model_task_update = false;
    assert!(failure(n.build()).contains("cannot update tasks"));
}

#[test]
fn an_ffts_plus_task_is_updated_by_its_handle() {
    let context = device(&[]);
    let with = |numbers: &dyn Fn(i64, i64) -> Vec<i64>, kind: T| {
        let mut n = sequence(&context, 8, "");
        let at = n.tasks.iter().position(|t| t.0.node.as_str() == "matmul").unwrap();
        n.tasks[at].0.kind = kind.code();
        // Kernels are registered in the order of their tasks.
        let handle = n.tasks[..at].iter().filter(|t| t.1.is_some()).count() as i64;
        let update = n.tasks.iter().position(|t| t.0.kind == T::UPDATE.code()).unwrap();
        n.tasks[update].0.numbers = numbers(at as i64, handle).into();
        n
    };
    let model = with(&|at, handle| vec![at, handle], T::FFTS_PLUS).build().unwrap();
    for run in 1..3u64 {
        let mut m = memory();
        (m.input[0], m.input[1]) = (run, 2);
        model.execute(&m.bases(), false).unwrap();
        assert_eq!(m.output[..3], [run * 100 + 2, run * 100 + 2, 0]);
    }
    type Numbers = fn(i64, i64) -> Vec<i64>;
    let cases: [(Numbers, T, &str); 3] = [
        (|at, _| vec![at], T::FFTS_PLUS, "without its handle"),
        (|at, handle| vec![at, handle - 1], T::FFTS_PLUS, "of another task"),
        (|at, handle| vec![at, handle], T::KERNEL, "which is none"),
    ];
    for (numbers, kind, word) in cases {
        assert!(failure(with(&numbers, kind).build()).contains(word), "{word}");
    }
}
