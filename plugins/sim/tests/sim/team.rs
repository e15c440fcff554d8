//! Runs with a host whose thread pool has several threads: tests of the team.
use crate::support::*;
use ge_plugin_api::abi::{ROption, RVec, WithMetadata};
use ge_plugin_api::device::Place;
use ge_plugin_api::frontend::MappingRef;
use ge_plugin_api::kernel::BlockArgs;
use ge_plugin_api::services::{HostTable, HostTableRef, Level, RangeFn, host_side, set_host};
use ge_plugin_api::task::TaskType as T;
use ge_plugin_api::types::TensorDesc;
use ge_plugin_api::view::RawNodeRef;
use ge_plugin_api::{Error, Result};
use std::ffi::c_void;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

extern "C" fn parallel_for(n: usize, _grain: usize, f: RangeFn, context: *mut c_void) -> i32 {
    let (next, context) = (AtomicUsize::new(0), context as usize);
    let work = || {
        loop {
            let k = next.fetch_add(1, Ordering::Relaxed);
            if k >= n {
                return;
            }
            // SAFETY: calls the caller's function with its context from several threads, as
            // `parallel_for` allows.
            unsafe { (f.0)(context as *mut c_void, k, k + 1) };
        }
    };
    // All threads start together, like those of a pool that is awake.
    let begin = Barrier::new(4);
    let all = || {
        begin.wait();
        work()
    };
    std::thread::scope(|s| {
        (0..3).for_each(|_| drop(s.spawn(all)));
        all();
    });
    0
}
extern "C" fn log(_: Level, _: *const u8, _: usize) {}
extern "C" fn cancelled() -> bool {
    false
}
extern "C" fn progress(_: u64, _: u64) {}
extern "C" fn mappings(_: *const u8, _: usize) -> RVec<MappingRef> {
    RVec::new()
}
unsafe extern "C" fn infer(_: RawNodeRef) -> ROption<RVec<TensorDesc>> {
    ROption::RNone
}
static HOST: &WithMetadata<HostTable> = &WithMetadata::new(HostTable {
    intern: host_side::intern,
    key_name: host_side::key_name,
    parallel_for,
    log,
    cancelled,
    progress,
    mappings,
    infer,
});

const N: u64 = 1024;
/// Number of consecutive kernels on each stream.
const TIMES: u64 = 1000;

/// y = mix(x, salt) over many words, divided among blocks.
fn map(call: &BlockArgs<'_>, salt: u64) -> Result<()> {
    let part = call.part(N as usize, 1);
    let from = call.input::<u64>(0)?;
    for (o, i) in call.output::<u64>(1, part.clone())?.iter_mut().zip(&from[part]) {
        *o = mix(salt, *i);
    }
    Ok(())
}

#[test]
fn a_team_gives_the_same_bits_and_names_what_fails() {
    set_host(HostTableRef(HOST.static_as_prefix()));
    let context = device(&[]);
    let (long, ranges): (u64, u64) = (8 * N, 3);
    let mut n = net(&context, 3, 4);
    // Make room for kernels whose arguments are large enough to be worth a team.
    for a in n.spec.allocations.iter_mut() {
        a.bytes = long * 8;
    }
    let wide = |allocation, k: u64| Place { bytes: 8 * N * 8, ..words(allocation, k * N, 1) };
    for s in 0..ranges as u32 {
        let at = |k: u64| words(FEATURES, (u64::from(s) * 2 + k) * N, N);
        n.kernel("first", s, 7, &[(wide(INPUT, 0), READ), (at(0), WRITE)], |c| map(c, 1));
        for k in 0..TIMES {
            n.kernel("more", s, 5, &[(at(k % 2), READ), (at((k + 1) % 2), WRITE)], |c| map(c, 2));
        }
        n.kernel("last", s, 3, &[(at(0), READ), (words(OUTPUT, u64::from(s) * N, N), WRITE)], |c| map(c, 3));
        if s > 0 {
            n.task(T::EVENT_RECORD, s, &[i64::from(s) - 1], &[]);
            n.task(T::EVENT_WAIT, 0, &[i64::from(s) - 1], &[]);
        }
    }
    n.task(T::EVENT_RECORD, 0, &[2], &[]);
    n.task(T::EVENT_WAIT, 1, &[2], &[]);
    n.kernel("check", 1, 64, &[(wide(INPUT, 0), READ)], |c| {
        let told = c.input::<u64>(0)?[0];
        if told == 77 && c.block_idx() == 13 { Err(Error::failed("block 13")) } else { Ok(()) }
    });
    n.task(T::EVENT_RECORD, 1, &[3], &[]);
    n.task(T::EVENT_WAIT, 0, &[3], &[]);
    n.task(T::END_GRAPH, 0, &[], &[]);
    let model = n.build().unwrap();
    let run = |first: u64| {
        let mut memory = [vec![0u64; long as usize], vec![9; long as usize], vec![0; long as usize]];
        memory[1][0] = first;
        let bases =
            memory.each_mut().map(|v| ge_plugin_api::device::Base { address: v.as_mut_ptr() as u64, bytes: long * 8 });
        model.execute(&bases, true).map(|_| memory[2].clone())
    };
    for round in 0..6 {
        let out = run(round).unwrap();
        for (i, o) in out[..(ranges * N) as usize].iter().enumerate() {
            let x = if (i as u64).is_multiple_of(N) { round } else { 9 };
            assert_eq!(*o, mix(3, (0..TIMES).fold(mix(1, x), |v, _| mix(2, v))), "{i}");
        }
        let e = failure(run(77));
        assert!(e.contains("block 13") && e.contains("`check`"), "{e}");
    }
}
