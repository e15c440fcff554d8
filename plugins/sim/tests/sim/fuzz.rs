//! Mutated task lists give an error or a correct run, never a panic, a hang or an access out of
//! bounds.
use crate::support::*;
use ge_plugin_api::kernel::Access;
use ge_plugin_api::task::TaskType as T;
use ge_plugin_api::types::DType;
use ge_sim::careful::next_random;
use ge_sim::context::Context;

/// A model with many kinds of tasks.
fn seed(context: &Context) -> Net<'_> {
    let mut n = net(context, 3, 2);
    n.spec.notifies = 1;
    n.spec.labels = 3;
    n.spec.streams[2].head = false;
    n.mix("zero", 0, &[words(INPUT, 0, 4)], words(FEATURES, 0, 4), 1);
    n.task(T::LABEL_SET, 0, &[0], &[]);
    n.kernel("count", 0, 2, &[(words(FEATURES, 0, 1), READ_WRITE), (words(FEATURES, 8, 1), WRITE)], |c| {
        if c.block_idx() == 0 && c.len(0) >= 8 && c.len(1) >= 8 {
            let v = &mut c.output::<u64>(0, 0..1)?[0];
            *v = v.wrapping_add(1);
            c.output::<u64>(1, 0..1)?[0] = u64::from(v.is_multiple_of(7));
        }
        Ok(())
    });
    n.task(T::STREAM_LABEL_SWITCH_BY_INDEX, 0, &[0, 1], &[words(FEATURES, 8, 1)]);
    n.task(T::STREAM_LABEL_GOTO, 0, &[2], &[]);
    n.task(T::LABEL_SET, 0, &[1], &[]);
    n.task(T::STREAM_SWITCH, 0, &[1, 1, 2], &[words(FEATURES, 0, 1), words(FEATURES, 8, 1)]);
    n.task(T::LABEL_SET, 0, &[2], &[]);
    n.task(T::EVENT_RECORD, 0, &[0], &[]);
    n.task(T::EVENT_WAIT, 1, &[0], &[]);
    n.task(T::STREAM_ACTIVE, 1, &[2], &[]);
    n.task(T::REDUCE_ASYNC, 1, &[0, i64::from(DType::I32.code())], &[words(FEATURES, 0, 4), words(FEATURES, 16, 4)]);
    n.task(T::EVENT_RECORD, 1, &[1], &[]);
    let k =
        n.kernel("sink", 1, u32::MAX, &[(words(FEATURES, 0, 4), Access::READ), (words(OUTPUT, 0, 4), WRITE)], |c| {
            c.output::<u8>(1, 0..c.len(1))?.fill(c.block_dim() as u8);
            Ok(())
        });
    n.task(T::UPDATE, 2, &[i64::from(k)], &[words(INPUT, 1, 1), words(INPUT, 2, 1)]);
    n.task(T::NOTIFY_RECORD, 2, &[0, -1], &[]);
    n.task(T::NOTIFY_WAIT, 2, &[0, -1], &[]);
    n.task(T::EVENT_WAIT, 0, &[1], &[]);
    n.task(T::MEMCPY_ASYNC, 0, &[], &[words(FEATURES, 0, 4), words(OUTPUT, 8, 4)]);
    n.task(T::END_GRAPH, 0, &[], &[]);
    n
}

#[test]
fn mutated_tasks_err_or_run() {
    let budget: u64 = if std::env::var_os("GE_LONG").is_some() { 200_000 } else { 4_000 };
    let modes: [&[(&str, &str)]; 3] = [
        &[("max_tasks", "2000")],
        &[("max_tasks", "2000"), ("schedule", "random:1"), ("check_races", "true")],
        &[("max_tasks", "2000"), ("time", "model")],
    ];
    let contexts = modes.map(device);
    let odd = [
        0,
        1,
        2,
        3,
        7,
        8,
        64,
        4095,
        4096,
        1 << 16,
        u64::from(u32::MAX),
        1 << 40,
        i64::MAX as u64,
        u64::MAX - 7,
        u64::MAX,
    ];
    let (mut ran, mut refused) = (0, 0);
    for case in 0..budget {
        let mut s = case;
        let mut pick = |n: u64| next_random(&mut s) % n.max(1);
        let mut n = seed(&contexts[case as usize % 3]);
        for _ in 0..1 + pick(3) {
            let t = pick(n.tasks.len() as u64) as usize;
            let value = odd[pick(odd.len() as u64) as usize];
            let other = n.tasks[pick(n.tasks.len() as u64) as usize].0.clone();
            let task = &mut n.tasks[t].0;
            let (numbers, args) = (task.numbers.len() as u64, task.args.len() as u64);
            match pick(11) {
                0 => task.kind = pick(52) as u32,
                1 => task.stream = pick(4) as u32,
                2 if numbers > 0 => task.numbers[pick(numbers) as usize] = value as i64,
                3 if numbers > 0 => drop(task.numbers.remove(pick(numbers) as usize)),
                4 if args > 0 => task.args[pick(args) as usize].offset = value,
                5 if args > 0 => task.args[pick(args) as usize].bytes = value.min(WORDS * 9),
                6 if args > 0 => task.args[pick(args) as usize].allocation = pick(5) as u32,
                7 if args > 0 => task.args[pick(args) as usize].rank = pick(3) as u32,
                8 => task.block_dim = value as u32,
                9 => (task.kind, task.numbers, task.args) = (other.kind, other.numbers, other.args),
                _ => n.tasks.swap(t, 0),
            }
        }
        let mut m = memory();
        (m.input[1], m.input[2]) = (1, 2);
        match n.build() {
            Err(_) => refused += 1,
            Ok(model) => {
                let _ = model.execute(&m.bases(), false);
                ran += 1;
            }
        }
    }
    assert!(ran > budget / 20 && refused > budget / 20, "{ran} ran, {refused} refused");
}
