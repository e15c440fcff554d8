//! Tests of activation, switches, labels and loops.
use crate::support::*;

use ge_plugin_api::task::TaskType as T;
use ge_sim::context::Context;

const MODES: [&[(&str, &str)]; 3] =
    [&[], &[("schedule", "random:5"), ("check_races", "true")], &[("time", "model"), ("check_races", "true")]];

#[test]
fn a_switch_activates_its_stream_or_not() {
    for mode in MODES {
        for (condition, a, b, holds) in [
            (0, 3, 3, true),
            (0, 3, 4, false),
            (2, 5, 4, true),
            (4, 5, 4, false),
            (5, 4, 4, true),
            (1, 1, 2, true),
            (3, 3, 4, false),
        ] {
            let context = device(mode);
            let mut n = net(&context, 2, 0);
            n.spec.streams[1].head = false;
            n.task(T::STREAM_SWITCH, 0, &[condition, 1, 1], &[words(INPUT, 0, 1), words(INPUT, 1, 1)]);
            n.task(T::END_GRAPH, 0, &[], &[]);
            n.mix("then", 1, &[], words(FEATURES, 0, 1), 9);
            let model = n.build().unwrap();
            let mut m = memory();
            (m.input[0], m.input[1]) = (a, b);
            model.execute(&m.bases(), false).unwrap();
            assert_eq!(m.features[0] == 9, holds, "{condition} {a} {b}");
        }
    }
}

/// while (i < n) { sum = mix(sum, i); i += 1 }, by labels; a kernel computes the index i < n.
fn label_loop(context: &Context) -> Net<'_> {
    let (i, sum, index) = (words(FEATURES, 0, 1), words(FEATURES, 1, 1), words(FEATURES, 2, 1));
    let mut n = net(context, 1, 0);
    n.spec.labels = 3;
    n.kernel("init", 0, 1, &[(words(FEATURES, 0, 2), WRITE)], |c| {
        c.output::<u64>(0, 0..2)?.fill(0);
        Ok(())
    });
    n.task(T::LABEL_SET, 0, &[0], &[]);
    n.kernel("cond", 0, 1, &[(i, READ), (words(INPUT, 0, 1), READ), (index, WRITE)], |c| {
        c.output::<u64>(2, 0..1)?[0] = u64::from(c.input::<u64>(0)?[0] < c.input::<u64>(1)?[0]);
        Ok(())
    });
    n.task(T::STREAM_LABEL_SWITCH_BY_INDEX, 0, &[2, 1], &[index]);
    n.task(T::LABEL_SET, 0, &[1], &[]);
    n.kernel("body", 0, 1, &[(i, READ_WRITE), (sum, READ_WRITE)], |c| {
        let i = &mut c.output::<u64>(0, 0..1)?[0];
        let s = &mut c.output::<u64>(1, 0..1)?[0];
        *s = mix(*s, *i);
        *i += 1;
        Ok(())
    });
    n.task(T::STREAM_LABEL_GOTO, 0, &[0], &[]);
    n.task(T::LABEL_SET, 0, &[2], &[]);
    n.task(T::MEMCPY_ASYNC, 0, &[], &[sum, words(OUTPUT, 0, 1)]);
    n.task(T::END_GRAPH, 0, &[], &[]);
    n
}

#[test]
fn loops_by_labels_run_as_often_as_the_data_says() {
    for mode in MODES {
        let context = device(mode);
        let model = label_loop(&context).build().unwrap();
        for trips in [0, 1, 5, 1000] {
            let mut m = memory();
            m.input[0] = trips;
            model.execute(&m.bases(), false).unwrap();
            assert_eq!(m.output[0], (0..trips).fold(0, mix), "{trips} trips, {mode:?}");
        }
    }
}

#[test]
fn an_index_out_of_range_takes_the_last_branch() {
    let context = device(&[]);
    for (index, branch) in [(0u64, 0), (1, 1), (2, 2), (3, 2), (u64::MAX, 2)] {
        let mut n = net(&context, 1, 0);
        n.spec.labels = 4;
        n.task(T::STREAM_LABEL_SWITCH_BY_INDEX, 0, &[0, 1, 2], &[words(INPUT, 0, 1)]);
        for k in 0..3u32 {
            n.task(T::LABEL_SET, 0, &[i64::from(k)], &[]);
            n.mix("branch", 0, &[], words(OUTPUT, 0, 1), 100 + u64::from(k));
            n.task(T::STREAM_LABEL_GOTO, 0, &[3], &[]);
        }
        n.task(T::LABEL_SET, 0, &[3], &[]);
        let model = n.build().unwrap();
        let mut m = memory();
        m.input[0] = index;
        model.execute(&m.bases(), false).unwrap();
        assert_eq!(m.output[0], 100 + branch, "{index}");
    }
}

#[test]
fn streams_activate_each_other_in_turns() {
    // Stream 1 counts and activates stream 2, which switches back to stream 1 while the count is
    // below the input.
    for mode in MODES {
        let context = device(mode);
        let mut n = net(&context, 3, 1);
        n.spec.streams[1].head = false;
        n.spec.streams[2].head = false;
        let count = words(FEATURES, 0, 1);
        n.mix("zero", 0, &[], count, 0);
        n.task(T::STREAM_ACTIVE, 0, &[1], &[]);
        n.task(T::EVENT_WAIT, 0, &[0], &[]);
        n.task(T::MEMCPY_ASYNC, 0, &[], &[count, words(OUTPUT, 0, 1)]);
        n.task(T::END_GRAPH, 0, &[], &[]);
        n.kernel("count", 1, 1, &[(count, READ_WRITE)], |c| {
            c.output::<u64>(0, 0..1)?[0] += 1;
            Ok(())
        });
        n.task(T::STREAM_ACTIVE, 1, &[2], &[]);
        n.task(T::STREAM_SWITCH, 2, &[4, 1, 1], &[count, words(INPUT, 0, 1)]);
        n.spec.streams.push(Default::default());
        n.task(T::STREAM_SWITCH, 2, &[3, 1, 3], &[count, words(INPUT, 0, 1)]);
        n.task(T::EVENT_RECORD, 3, &[0], &[]);
        let r = n.build();
        let model = r.unwrap();
        let mut m = memory();
        m.input[0] = 50;
        // The second switch of a round may read the count that the next round writes, because the
        // first switch has already activated stream 1. The check must find this race.
        let result = model.execute(&m.bases(), false);
        if mode.is_empty() {
            result.unwrap();
            assert_eq!(m.output[0], 50);
        } else {
            assert!(failure(result).contains("nothing orders them"));
        }
    }
}

#[test]
fn loops_without_a_way_out_are_refused_and_others_end_by_their_budget() {
    let context = device(&[("max_tasks", "5000")]);
    let mut n = net(&context, 1, 0);
    n.spec.labels = 1;
    n.task(T::LABEL_SET, 0, &[0], &[]);
    n.task(T::STREAM_LABEL_GOTO, 0, &[0], &[]);
    n.task(T::END_GRAPH, 0, &[], &[]);
    let e = failure(n.build());
    assert!(e.contains("loop for ever"), "{e}");
    let model = label_loop(&context).build().unwrap();
    let mut m = memory();
    m.input[0] = 100_000;
    let e = failure(model.execute(&m.bases(), false));
    assert!(e.contains("did not end within 5000 tasks"), "{e}");
}

#[test]
fn a_run_may_take_exactly_as_many_tasks_as_it_is_allowed() {
    let run = |most: u64, turns: u64, mode: (&str, &str)| {
        let most = most.to_string();
        let context = device(&[("max_tasks", &most), mode]);
        // The second stream waits for the first, and may be tried several times.
        let mut n = net(&context, 2, 1);
        n.spec.streams[1].head = false;
        let mut rest = label_loop(&context);
        n.spec.labels = rest.spec.labels;
        n.task(T::STREAM_ACTIVE, 0, &[1], &[]);
        n.task(T::EVENT_WAIT, 1, &[0], &[]);
        let end = rest.tasks.pop().unwrap();
        n.tasks.append(&mut rest.tasks);
        n.task(T::EVENT_RECORD, 0, &[0], &[]);
        n.tasks.push(end);
        let model = n.build().unwrap();
        let mut m = memory();
        m.input[0] = turns;
        model.execute(&m.bases(), true).map(|r| r.tasks.len() as u64)
    };
    for mode in [("schedule", "fifo"), ("schedule", "random:3"), ("time", "model")] {
        for turns in [1, 300] {
            let count = run(50_000_000, turns, mode).unwrap();
            assert_eq!(run(count, turns, mode).unwrap(), count, "{mode:?}");
            let e = failure(run(count - 1, turns, mode));
            assert!(e.contains(&format!("within {} tasks", count - 1)), "{mode:?}: {e}");
        }
    }
}

#[test]
fn labels_are_checked() {
    let context = device(&[]);
    let one = |f: &dyn Fn(&mut Net<'_>)| {
        let mut n = net(&context, 2, 0);
        n.task(T::NOP, 0, &[], &[]);
        n.task(T::NOP, 1, &[], &[]);
        f(&mut n);
        failure(n.build())
    };
    let e = one(&|n| n.spec.labels = 1);
    assert!(e.contains("label 0 of 1"), "{e}");
    let e = one(&|n| n.spec.labels = u32::MAX);
    assert!(e.contains("more than its 2 tasks"), "{e}");
    let e = one(&|n| {
        n.spec.labels = 1;
        n.task(T::LABEL_SET, 0, &[0], &[]);
        n.task(T::STREAM_LABEL_GOTO, 1, &[0], &[]);
    });
    assert!(e.contains("stands on stream 0"), "{e}");
    let e = one(&|n| {
        n.spec.labels = 1;
        n.task(T::LABEL_SET, 0, &[0], &[]);
        n.task(T::LABEL_SET, 0, &[0], &[]);
    });
    assert!(e.contains("set already"), "{e}");
    let e = one(&|n| {
        n.task(T::STREAM_ACTIVE, 0, &[0], &[]);
    });
    assert!(e.contains("its own stream"), "{e}");
}

#[test]
fn a_stream_that_nothing_activates_is_a_deadlock_if_it_holds_the_end() {
    let context = device(&[]);
    let mut n = net(&context, 2, 0);
    n.spec.streams[1].head = false;
    n.task(T::NOP, 0, &[], &[]);
    n.task(T::END_GRAPH, 1, &[], &[]);
    let e = failure(n.build().unwrap().execute(&memory().bases(), false));
    assert!(e.contains("stream 1, which has END_GRAPH, was never activated; activated by no task"), "{e}");
}
