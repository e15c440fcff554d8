//! Ranks in one process that access each other's memory and notifies.
use crate::support::*;
use ge_plugin_api::device::{DeviceModel, Place};
use ge_plugin_api::task::TaskType as T;
use ge_plugin_api::types::DType;

/// Sums the first input word over a ring of ranks: each rank adds its own word to what it received
/// and passes the sum on.
fn ring<'a>(context: &'a ge_sim::context::Context, rank: u32, size: u32, group: u64) -> Net<'a> {
    let mut n = net(context, 1, 0);
    n.spec.notifies = 2;
    (n.spec.rank, n.spec.rank_size, n.spec.group) = (rank, size, group);
    let sum = words(FEATURES, 0, 1);
    let next = (rank + 1) % size;
    let to_next = |first| Place { rank: next, ..words(FEATURES, first, 1) };
    if rank > 0 {
        n.task(T::NOTIFY_WAIT, 0, &[0, -1], &[]);
        n.task(T::REDUCE_ASYNC, 0, &[0, i64::from(DType::U64.code())], &[words(INPUT, 0, 1), sum]);
    } else {
        n.task(T::MEMCPY_ASYNC, 0, &[], &[words(INPUT, 0, 1), sum]);
    }
    if next > 0 {
        n.task(T::MEMCPY_ASYNC, 0, &[], &[sum, to_next(0)]);
        n.task(T::NOTIFY_RECORD, 0, &[0, i64::from(next)], &[]);
        n.task(T::NOTIFY_WAIT, 0, &[1, -1], &[]);
    }
    // The total travels around the ring in the opposite direction.
    if next == 0 {
        n.task(T::MEMCPY_ASYNC, 0, &[], &[sum, words(FEATURES, 1, 1)]);
    }
    n.task(T::MEMCPY_ASYNC, 0, &[], &[words(FEATURES, 1, 1), words(OUTPUT, 0, 1)]);
    if rank > 0 {
        n.task(T::MEMCPY_ASYNC, 0, &[], &[words(FEATURES, 1, 1), Place { rank: rank - 1, ..words(FEATURES, 1, 1) }]);
        n.task(T::NOTIFY_RECORD, 0, &[1, i64::from(rank - 1)], &[]);
    }
    // Avoids gaps in the ids of the first and the last rank: records that nobody waits for.
    if rank == 0 {
        n.task(T::NOTIFY_RECORD, 0, &[0, 0], &[]);
    }
    if next == 0 {
        n.task(T::NOTIFY_RECORD, 0, &[1, -1], &[]);
    }
    n.task(T::END_GRAPH, 0, &[], &[]);
    n
}

fn run_all(models: &[Box<dyn DeviceModel>], base: u64) -> Vec<Result<u64, String>> {
    std::thread::scope(|s| {
        let calls: Vec<_> = models
            .iter()
            .enumerate()
            .map(|(rank, model)| {
                s.spawn(move || {
                    let mut m = memory();
                    m.input[0] = base + rank as u64;
                    match model.execute(&m.bases(), false) {
                        Ok(_) => Ok(m.output[0]),
                        Err(e) => Err(text(&e)),
                    }
                })
            })
            .collect();
        calls.into_iter().map(|c| c.join().unwrap()).collect()
    })
}

#[test]
fn a_ring_of_ranks_sums_what_each_brings() {
    for (group, mode) in
        [(1, &[][..]), (2, &[("schedule", "random:4"), ("check_races", "true")]), (3, &[("time", "model")])]
    {
        let context = device(mode);
        let models: Vec<_> = (0..4).map(|r| ring(&context, r, 4, group).build().unwrap()).collect();
        for base in [0, 10, 20] {
            for r in run_all(&models, base) {
                assert_eq!(r, Ok(4 * base + 6), "{mode:?}");
            }
        }
    }
}

#[test]
fn a_fault_in_one_rank_is_told_to_all_and_they_run_again() {
    let context = device(&[("fault", "fail:5")]);
    let models: Vec<_> = (0..3).map(|r| ring(&context, r, 3, 4).build().unwrap()).collect();
    for r in run_all(&models, 0) {
        assert!(r.unwrap_err().contains("injected"));
    }
    for r in run_all(&models, 1) {
        assert_eq!(r, Ok(6));
    }
}

#[test]
fn a_rank_does_not_wait_for_ever_and_groups_must_agree() {
    let context = device(&[("group_timeout", "0")]);
    let alone = ring(&context, 0, 2, 5).build().unwrap();
    let e = failure(alone.execute(&memory().bases(), false));
    assert!(e.contains("rank 0 waited 0 s for ranks 1"), "{e}");
    assert!(failure(ring(&context, 0, 2, 5).build()).contains("there already"));
    assert!(failure(ring(&context, 1, 3, 5).build()).contains("a group of"));
    let mut other = ring(&context, 1, 2, 5);
    other.spec.allocations[0].bytes += 8;
    assert!(failure(other.build()).contains("different models"));
}

#[test]
fn a_missing_notify_across_ranks_is_a_race() {
    let context = device(&[("check_races", "true")]);
    let build = |rank: u32| {
        let mut n = net(&context, 1, 0);
        (n.spec.rank, n.spec.rank_size, n.spec.group) = (rank, 2, 6);
        let target = Place { rank: 0, ..words(FEATURES, 0, 1) };
        n.task(T::MEMCPY_ASYNC, 0, &[], &[words(INPUT, 0, 1), target]);
        n.build().unwrap()
    };
    for r in run_all(&[build(0), build(1)], 0) {
        let e = r.unwrap_err();
        assert!(e.contains("rank 0") && e.contains("rank 1") && e.contains("nothing orders them"), "{e}");
    }
}
