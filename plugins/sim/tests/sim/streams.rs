//! Tests of streams, events, kernels, copies, limits, errors, faults and the clock.
use crate::support::*;
use ge_plugin_api::device::*;
use ge_plugin_api::kernel::Access;
use ge_plugin_api::task::TaskType as T;
use ge_plugin_api::types::DType;
use ge_plugin_api::{Error, ErrorKind};

/// a on stream 0, b on stream 1, and c on stream 0 joins them; event 0 leads from b to c, event 1
/// from a to b.
fn diamond(context: &Context) -> Net<'_> {
    let mut n = net(context, 2, 2);
    n.mix("a", 0, &[words(INPUT, 0, 1)], words(FEATURES, 0, 1), 1);
    n.task(T::EVENT_RECORD, 0, &[1], &[]);
    n.task(T::EVENT_WAIT, 1, &[1], &[]);
    n.mix("b", 1, &[words(FEATURES, 0, 1)], words(FEATURES, 1, 1), 2);
    n.task(T::EVENT_RECORD, 1, &[0], &[]);
    n.task(T::EVENT_WAIT, 0, &[0], &[]);
    n.mix("c", 0, &[words(FEATURES, 0, 1), words(FEATURES, 1, 1)], words(OUTPUT, 0, 1), 3);
    n.task(T::END_GRAPH, 0, &[], &[]);
    n
}
use ge_sim::context::Context;

fn expected(input: u64) -> u64 {
    let a = mix(1, input);
    mix(mix(3, a), mix(2, a))
}

#[test]
fn a_diamond_over_two_streams_in_every_mode() {
    for options in [
        &[][..],
        &[("schedule", "random:1")],
        &[("schedule", "random:2"), ("check_races", "true")],
        &[("time", "model")],
        &[("fault", "delay:0")],
        &[("fault", "delay:2"), ("time", "model")],
    ] {
        let context = device(options);
        let model = diamond(&context).build().unwrap();
        for run in 0..3 {
            let mut m = memory();
            m.input[0] = run;
            let report = model.execute(&m.bases(), true).unwrap();
            assert_eq!(m.output[0], expected(run), "{options:?}");
            assert_eq!((report.launches, report.tasks.len()), (3, 8));
        }
    }
}

#[test]
fn runs_go_on_at_the_same_time_with_memory_of_their_own() {
    let context = device(&[]);
    let model = diamond(&context).build().unwrap();
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let model = &model;
            s.spawn(move || {
                for k in 0..200 {
                    let mut m = memory();
                    m.input[0] = t * 1000 + k;
                    model.execute(&m.bases(), false).unwrap();
                    assert_eq!(m.output[0], expected(t * 1000 + k));
                }
            });
        }
    });
    let counters = context.counters();
    let get = |n: &str| counters.iter().find(|c| c.name.as_str() == n).unwrap().value;
    assert_eq!((get("runs"), get("kernel_launches"), get("event_waits"), get("host_tiling")), (800, 2400, 1600, 0));
}

#[test]
fn the_simulated_clock_is_the_same_on_every_machine() {
    let context = device(&[("time", "model")]);
    let model = diamond(&context).build().unwrap();
    let mut m = memory();
    let r = model.execute(&m.bases(), true).unwrap();
    // a 4000, record 500, wait 500, b 4000, record 500, wait 500, c 4000.
    assert_eq!(r.elapsed_ns, 14_000);
    let b = r.tasks.iter().find(|t| t.task == 3).unwrap();
    assert_eq!((b.start_ns, b.end_ns), (5000, 9000));
}

#[test]
fn blocks_share_the_work() {
    for options in [&[][..], &[("schedule", "random:3"), ("check_races", "true")]] {
        let context = device(options);
        let mut n = net(&context, 1, 0);
        n.kernel("copy", 0, 7, &[(words(INPUT, 0, 1000), READ), (words(OUTPUT, 0, 1000), WRITE)], |call| {
            let part = call.part(1000, 1);
            let from = call.input::<u64>(0)?;
            call.output::<u64>(1, part.clone())?.copy_from_slice(&from[part]);
            Ok(())
        });
        let model = n.build().unwrap();
        let mut m = memory();
        model.execute(&m.bases(), false).unwrap();
        assert_eq!(m.output[..1000], m.input[..1000]);
        assert_eq!(m.output[1000], 0);
    }
}

#[test]
fn copies_and_reductions() {
    let context = device(&[("check_races", "true")]);
    let mut n = net(&context, 1, 0);
    n.task(T::MEMCPY_ASYNC, 0, &[], &[words(INPUT, 1, 4), words(FEATURES, 0, 4)]);
    n.task(T::REDUCE_ASYNC, 0, &[0, i64::from(DType::U64.code())], &[words(INPUT, 10, 4), words(FEATURES, 0, 4)]);
    n.task(T::MEMCPY_ADDR_ASYNC, 0, &[], &[words(FEATURES, 0, 4), words(OUTPUT, 0, 4)]);
    let model = n.build().unwrap();
    let mut m = memory();
    let r = model.execute(&m.bases(), true).unwrap();
    assert_eq!(m.output[..4], [11, 13, 15, 17]);
    let copies = r.counters.iter().find(|c| c.name.as_str() == "copies").unwrap().value;
    assert_eq!(copies, 3);
}

#[test]
fn a_deadlock_names_who_waits_for_what() {
    let context = device(&[]);
    let mut n = net(&context, 2, 2);
    n.task(T::EVENT_WAIT, 0, &[0], &[]);
    n.task(T::EVENT_RECORD, 0, &[1], &[]);
    n.task(T::EVENT_WAIT, 1, &[1], &[]);
    n.task(T::EVENT_RECORD, 1, &[0], &[]);
    n.task(T::END_GRAPH, 1, &[], &[]);
    let model = n.build().unwrap();
    let e = failure(model.execute(&memory().bases(), false));
    assert!(e.contains("deadlock"), "{e}");
    assert!(
        e.contains("stream 0 waits at node `event_wait_0` (task 0) for event 0; recorded by node `event_record_3`"),
        "{e}"
    );
    assert!(e.contains("stream 1 waits at node `event_wait_2` (task 2) for event 1"), "{e}");
}

#[test]
fn a_wait_takes_its_record_away() {
    let context = device(&[]);
    let mut n = net(&context, 1, 1);
    n.task(T::EVENT_RECORD, 0, &[0], &[]);
    n.task(T::EVENT_WAIT, 0, &[0], &[]);
    n.task(T::EVENT_WAIT, 0, &[0], &[]);
    n.task(T::END_GRAPH, 0, &[], &[]);
    assert!(failure(n.build().unwrap().execute(&memory().bases(), false)).contains("deadlock"));
}

#[test]
fn a_failed_kernel_names_node_task_stream_engine_and_reason() {
    let context = device(&[]);
    let mut n = net(&context, 1, 0);
    n.kernel("bad", 0, 2, &[(words(INPUT, 0, 1), READ)], |call| match call.input::<u64>(0)?[0] {
        0 => Err(Error::failed("the group list does not sum to 7")),
        1 => panic!("unlucky"),
        _ => Ok(()),
    });
    let model = n.build().unwrap();
    let mut m = memory();
    let e = model.execute(&m.bases(), false).unwrap_err();
    assert_eq!(e.kind, ErrorKind::FAILED);
    let t = text(&e);
    assert!(t.contains("does not sum to 7 (node `bad`, Test)"), "{t}");
    assert!(t.contains("task 0 (KERNEL) on stream 0, engine TestEngine"), "{t}");
    m.input[0] = 1;
    let e = model.execute(&m.bases(), false).unwrap_err();
    assert_eq!(e.kind, ErrorKind::PANIC);
    m.input[0] = 2;
    model.execute(&m.bases(), false).expect("the device is usable for the next run");
}

#[test]
fn injected_faults_strike_once_and_a_lost_device_stays_lost() {
    let context = device(&[("fault", "fail:3")]);
    let model = diamond(&context).build().unwrap();
    let e = failure(model.execute(&memory().bases(), false));
    assert!(e.contains("task 3 of the device failed"), "{e}");
    let mut m = memory();
    model.execute(&m.bases(), false).expect("next run");
    assert_eq!(m.output[0], expected(0));

    let context = device(&[("fault", "lose:3")]);
    let model = diamond(&context).build().unwrap();
    assert!(failure(model.execute(&memory().bases(), false)).contains("was lost"));
    assert!(failure(model.execute(&memory().bases(), false)).contains("opened again"));
    assert!(context.alloc(MemoryKind::HBM, 8).is_err());

    let context = device(&[("fault", "flip:0:3")]);
    let model = diamond(&context).build().unwrap();
    let mut m = memory();
    model.execute(&m.bases(), false).unwrap();
    assert_eq!(m.features[0], mix(1, 0) ^ 8);

    let context = device(&[("fault", "lose_record:0")]);
    let model = diamond(&context).build().unwrap();
    assert!(failure(model.execute(&memory().bases(), false)).contains("for event 0"));
}

#[test]
fn a_dropped_event_is_a_race() {
    for (event, names) in [(0, ["`b`", "`c`"]), (1, ["`a`", "`b`"])] {
        let fault = format!("drop_event:{event}");
        let mut found = 0;
        for seed in 0..20 {
            let context =
                device(&[("check_races", "true"), ("fault", &fault), ("schedule", &format!("random:{seed}"))]);
            let model = diamond(&context).build().unwrap();
            let e = failure(model.execute(&memory().bases(), false));
            // Whichever ran first, there are two unordered accesses or a read of memory that is not
            // written yet.
            assert!(e.contains(names[0]) || e.contains(names[1]), "{e}");
            found += usize::from(e.contains("nothing orders them") && e.contains(names[0]) && e.contains(names[1]));
        }
        assert!(found > 0);
    }
}

#[test]
fn reads_of_unwritten_memory_and_accesses_out_of_bounds_are_caught() {
    let context = device(&[("check_races", "true")]);
    let run = |args: &[(Place, Access)], body: fn(&[*mut u64])| {
        let mut n = net(&context, 1, 0);
        let count = args.len();
        n.kernel("k", 0, 1, args, move |call| {
            let raw: Vec<*mut u64> = (0..count).map(|i| call.raw(i).map(|p| p.cast())).collect::<Result<_, _>>()?;
            body(&raw);
            Ok(())
        });
        n.build().unwrap().execute(&memory().bases(), false)
    };
    let out = (words(OUTPUT, 0, 4), WRITE);
    run(&[(words(INPUT, 0, 4), READ), out], |_| {}).expect("nothing wrong");
    let e = failure(run(&[(words(FEATURES, 2, 4), READ), out], |_| {}));
    assert!(
        e.contains("node `k`")
            && e.contains("nothing has written")
            && e.contains("bytes 16 to 48 of feature map (HBM)"),
        "{e}"
    );
    let e = failure(run(&[(words(INPUT, 0, 4), READ), out], |a| {
        // SAFETY: guarded copies have 256 bytes of poison around each range.
        unsafe { *a[1].add(4) = 1 }
    }));
    assert!(e.contains("behind the 32 bytes of argument 1") && e.contains("`k`"), "{e}");
    let e = failure(run(&[(words(INPUT, 0, 4), READ), out], |a| {
        // SAFETY: guarded copies have 256 bytes of poison around each range.
        unsafe { *a[1].sub(1) = 1 }
    }));
    assert!(e.contains("before the 32 bytes of argument 1"), "{e}");
    let e = failure(run(&[(words(INPUT, 0, 4), READ), out], |a| {
        // SAFETY: guarded copies have 256 bytes of poison around each range.
        unsafe { *a[0] = 77 }
    }));
    assert!(e.contains("argument 0, which it only reads"), "{e}");
}

#[test]
fn what_does_not_fit_is_refused_at_load() {
    let context = device(&[]);
    let one = |f: &dyn Fn(&mut Net<'_>)| {
        let mut n = net(&context, 2, 2);
        f(&mut n);
        failure(n.build())
    };
    let e = one(&|n| {
        n.task(T::EVENT_WAIT, 0, &[2], &[]);
    });
    assert!(e.contains("names event 2, the model has 2"), "{e}");
    let e = one(&|n| {
        n.task(T::EVENT_WAIT, 0, &[0], &[]);
        n.task(T::NOP, 1, &[], &[]);
    });
    assert!(e.contains("event 1 of 2") && e.contains("gap"), "{e}");
    let e = one(&|n| {
        n.task(T::EVENT_WAIT, 0, &[0], &[]);
        n.task(T::EVENT_WAIT, 0, &[1], &[]);
    });
    assert!(e.contains("stream 1") && e.contains("gap"), "{e}");
    let e = one(&|n| {
        n.task(T::NOP, 9, &[], &[]);
    });
    assert!(e.contains("is on stream 9"), "{e}");
    let e = one(&|n| {
        n.task(T::MEMCPY_ASYNC, 0, &[], &[words(INPUT, 0, 1), words(OUTPUT, WORDS, 1)]);
    });
    assert!(e.contains("the output has 32768"), "{e}");
    let e = one(&|n| {
        n.task(T::MEMCPY_ASYNC, 0, &[], &[words(INPUT, u64::MAX / 8, 4), words(OUTPUT, 0, 1)]);
    });
    assert!(e.contains("the input has 32768"), "{e}");
    let e = one(&|n| {
        n.mix("m", 0, &[words(7, 0, 1)], words(OUTPUT, 0, 1), 0);
    });
    assert!(e.contains("names allocation 7"), "{e}");
    let e = one(&|n| {
        n.kernel("k", 0, 0, &[], |_| Ok(()));
    });
    assert!(e.contains("has 0 blocks"), "{e}");
    let e = one(&|n| {
        n.task(T::HCCL, 0, &[], &[]);
    });
    assert!(e.contains("no other way to run HCCL"), "{e}");
    let e = one(&|n| {
        n.spec.soc.tasks_normal = 5;
        (0..2).for_each(|e| {
            n.task(T::EVENT_WAIT, 0, &[e], &[]);
        });
        (0..2).for_each(|_| {
            n.task(T::NOP, 0, &[], &[]);
        });
        n.task(T::NOP, 1, &[], &[]);
    });
    assert!(e.contains("stream 0") && e.contains("has 6 tasks, a normal stream of sim holds 5"), "{e}");
    let e = one(&|n| n.spec.soc.max_events = 1);
    assert!(e.contains("has 2 events, sim has 1"), "{e}");
    let e = one(&|n| n.spec.soc.streams_normal = 1);
    assert!(e.contains("has 2 streams"), "{e}");
}

#[test]
fn bases_are_checked_before_a_run() {
    let context = device(&[]);
    let model = diamond(&context).build().unwrap();
    let mut m = memory();
    let b = m.bases();
    assert!(failure(model.execute(&b[..2], false)).contains("has 3 allocations, the run gives 2"));
    let short = [b[0], Base { bytes: 8, ..b[1] }, b[2]];
    assert!(failure(model.execute(&short, false)).contains("allocation 1 (input)"));
    let null = [Base { address: 0, ..b[0] }, b[1], b[2]];
    assert!(model.execute(&null, false).is_err());
}

#[test]
fn streams_of_a_higher_priority_go_first() {
    let context = device(&[("schedule", "fifo")]);
    let mut n = net(&context, 3, 0);
    for s in 0..3 {
        n.spec.streams[s].priority = 2 - s as u32;
        n.mix("m", s as u32, &[], words(OUTPUT, s as u64, 1), 0);
    }
    let r = n.build().unwrap().execute(&memory().bases(), true).unwrap();
    assert_eq!(r.tasks.iter().map(|t| t.task).collect::<Vec<_>>(), [2, 1, 0]);
}
