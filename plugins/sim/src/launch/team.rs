//! What one run shares with its helpers. The scheduler's thread publishes launches in slots;
//! helpers and the scheduler claim blocks one by one, the scheduler from the first block on and
//! helpers from the last. Thus each thread gets about the same part of every launch, and its caches
//! still hold what the previous launch wrote there. The state of a slot is one word with a
//! generation and the remaining blocks, so that a claim fails if the slot has been reused
//! meanwhile. Consecutive runs may use the same team; a helper that looks at it late finds nothing
//! to claim.
use super::kernel::{Call, Kernel};
use ge_plugin_api::{Error, Result};
use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of launches that can be in progress at the same time.
const SLOTS: usize = 16;

#[derive(Clone, Copy)]
struct Work {
    kernel: *const Kernel,
    call: Call,
    key: u64,
}

struct Slot {
    /// Generation (32 bits), end (16 bits) and start (16 bits) of the remaining blocks.
    state: AtomicU64,
    /// Number of blocks of the launch; 0 means that the slot is empty. Only the publisher's thread
    /// writes it.
    blocks: AtomicU32,
    work: UnsafeCell<Option<Work>>,
    done: AtomicU32,
    error: Mutex<Option<Error>>,
}

/// The launches in progress of one run.
pub struct Team {
    slots: [Slot; SLOTS],
}
// SAFETY: the publisher writes `work` only while the slot is empty (all blocks claimed and done).
// It is read only after a claim by compare-and-exchange, which fails once the slot has another
// generation. The pointers in it refer to the plan and the run's bound arguments, which outlive the
// use of the team by the run.
unsafe impl Sync for Team {}
// SAFETY: as above.
unsafe impl Send for Team {}

/// The end from which blocks are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// From the first block on; used by the run's own thread.
    Front,
    /// From the last block; used by helpers.
    Back,
}

const fn word(generation: u64, end: u64, next: u64) -> u64 {
    generation << 32 | end << 16 | next
}

/// The range of the remaining blocks: the first, and one past the last.
const fn left(state: u64) -> (u64, u64) {
    (state & 0xFFFF, state >> 16 & 0xFFFF)
}

impl Default for Team {
    fn default() -> Team {
        Team {
            slots: std::array::from_fn(|_| Slot {
                state: AtomicU64::new(0),
                blocks: AtomicU32::new(0),
                work: UnsafeCell::new(None),
                done: AtomicU32::new(0),
                error: Mutex::new(None),
            }),
        }
    }
}

impl Team {
    /// Offers a launch and returns its slot; `None` if all slots are taken. Only the scheduler's
    /// thread may call this.
    pub fn publish(&self, kernel: &Kernel, call: &Call, blocks: u32, key: u64) -> Option<usize> {
        debug_assert!(blocks > 0 && blocks <= crate::plan::MAX_BLOCKS);
        let (at, slot) = self.slots.iter().enumerate().find(|(_, s)| s.blocks.load(Ordering::Relaxed) == 0)?;
        // SAFETY: the slot is empty, so no member reads `work` (see the type), and only this thread
        // publishes.
        unsafe { *slot.work.get() = Some(Work { kernel, call: *call, key }) };
        slot.done.store(0, Ordering::Relaxed);
        slot.blocks.store(blocks, Ordering::Relaxed);
        let generation = (slot.state.load(Ordering::Relaxed) >> 32).wrapping_add(1) & 0xFFFF_FFFF;
        slot.state.store(word(generation, u64::from(blocks), 0), Ordering::Release);
        Some(at)
    }
    /// Whether all blocks of a slot are done.
    pub fn done(&self, slot: usize) -> bool {
        let s = &self.slots[slot];
        s.done.load(Ordering::Acquire) == s.blocks.load(Ordering::Relaxed)
    }
    /// Empties a slot that is done.
    ///
    /// # Errors
    /// Returns the error of a block that failed, if any.
    pub fn take(&self, slot: usize) -> Result<()> {
        let s = &self.slots[slot];
        let generation = s.state.load(Ordering::Relaxed) >> 32;
        s.state.store(word(generation, 0, 0), Ordering::Relaxed);
        s.blocks.store(0, Ordering::Relaxed);
        match s.error.lock().unwrap_or_else(|p| p.into_inner()).take() {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }
    /// Runs one block of any launch; returns false if there is none to claim.
    pub fn help(&self, end: End) -> bool {
        for slot in &self.slots {
            let state = slot.state.load(Ordering::Acquire);
            let (first, behind) = left(state);
            if first >= behind {
                continue;
            }
            let (block, claimed) = match end {
                End::Front => (first, state + 1),
                End::Back => (behind - 1, state - (1 << 16)),
            };
            if slot.state.compare_exchange(state, claimed, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                return true;
            }
            // SAFETY: the claim succeeded, so the slot holds this launch until its block is counted
            // as done below.
            let work = unsafe { *slot.work.get() };
            if let Some(w) = work {
                // SAFETY: the kernel belongs to the plan, which outlives the run.
                let kernel = unsafe { &*w.kernel };
                let blocks = slot.blocks.load(Ordering::Relaxed);
                if let Err(e) = kernel.run(&w.call, block as u32, blocks, w.key) {
                    slot.error.lock().unwrap_or_else(|p| p.into_inner()).get_or_insert(e);
                }
            }
            slot.done.fetch_add(1, Ordering::AcqRel);
            return true;
        }
        false
    }
    /// Whether there is a block to claim.
    pub fn has_work(&self) -> bool {
        self.slots.iter().any(|slot| {
            let (first, behind) = left(slot.state.load(Ordering::Acquire));
            first < behind
        })
    }
    /// Discards blocks that nobody has started and waits for those in progress; all slots are empty
    /// afterwards. Only the scheduler's thread may call this.
    pub fn clear(&self) {
        for slot in &self.slots {
            let blocks = slot.blocks.load(Ordering::Relaxed);
            loop {
                let state = slot.state.load(Ordering::Acquire);
                let (first, behind) = left(state);
                if first >= behind {
                    break;
                }
                let none = word(state >> 32, first, first);
                if slot.state.compare_exchange(state, none, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    slot.done.fetch_add((behind - first) as u32, Ordering::AcqRel);
                }
            }
            while slot.done.load(Ordering::Acquire) < blocks {
                std::thread::yield_now();
            }
            if blocks > 0 {
                slot.error.lock().unwrap_or_else(|p| p.into_inner()).take();
                slot.state.store(word(slot.state.load(Ordering::Relaxed) >> 32, 0, 0), Ordering::Release);
                slot.blocks.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ge_plugin_api::kernel::{BlockArgs, BlockKernel, block_kernel};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Counts the runs of each block; block `fail` fails.
    struct Count {
        seen: Arc<Vec<AtomicU32>>,
        fail: usize,
    }
    impl BlockKernel for Count {
        fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
            self.seen[call.block_idx()].fetch_add(1, Ordering::Relaxed);
            if call.block_idx() == self.fail { Err(Error::failed("on purpose")) } else { Ok(()) }
        }
    }
    /// Counts the blocks that ran; each takes a long time.
    pub(in super::super) struct Slow(Arc<AtomicU32>);
    impl BlockKernel for Slow {
        fn run(&self, _: &BlockArgs<'_>) -> Result<()> {
            self.0.fetch_add(1, Ordering::SeqCst);
            for _ in 0..20_000 {
                std::hint::spin_loop();
            }
            Ok(())
        }
    }
    impl Slow {
        pub(in super::super) fn kernel() -> (Kernel, Arc<AtomicU32>) {
            let n = Arc::new(AtomicU32::new(0));
            (Kernel::new(block_kernel(Box::new(Slow(n.clone())), Vec::new(), Vec::new(), 256)), n)
        }
    }
    /// A counting kernel and its counts; block `fail` fails.
    pub(in super::super) fn count(fail: usize) -> (Kernel, Arc<Vec<AtomicU32>>) {
        let seen: Arc<Vec<AtomicU32>> = Arc::new((0..64).map(|_| AtomicU32::new(0)).collect());
        let count = Count { seen: seen.clone(), fail };
        (Kernel::new(block_kernel(Box::new(count), Vec::new(), Vec::new(), 256)), seen)
    }
    pub(in super::super) const CALL: Call =
        Call { args: core::ptr::null(), n_args: 0, tiling: core::ptr::null(), tiling_len: 0 };

    #[test]
    fn every_block_runs_once_whoever_takes_it() {
        let (team, over) = (Team::default(), AtomicBool::new(false));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !over.load(Ordering::Acquire) {
                        team.help(End::Back);
                    }
                });
            }
            let kernels: Vec<_> = (0..SLOTS).map(|_| count(usize::MAX)).collect();
            for round in 0..500u32 {
                let at: Vec<_> = kernels.iter().map(|(k, _)| team.publish(k, &CALL, 1 + round % 64, 0)).collect();
                assert!(team.publish(&kernels[0].0, &CALL, 1, 0).is_none() || at.iter().any(Option::is_none));
                for slot in at.into_iter().flatten() {
                    while !team.done(slot) {
                        team.help(End::Front);
                    }
                    team.take(slot).expect("no block fails");
                }
            }
            over.store(true, Ordering::Release);
            for (_, seen) in &kernels {
                for (block, n) in seen.iter().enumerate() {
                    let rounds = (0..500).filter(|r| r % 64 >= block as u32).count() as u32;
                    assert_eq!(n.load(Ordering::Relaxed), rounds, "block {block}");
                }
            }
        });
        assert!(!team.has_work());
    }

    #[test]
    fn a_block_that_fails_fails_its_launch_alone() {
        let team = Team::default();
        let ((good, _), (bad, _)) = (count(usize::MAX), count(5));
        let slots = [team.publish(&good, &CALL, 8, 0), team.publish(&bad, &CALL, 8, 0)].map(|s| s.expect("room"));
        while team.help(End::Front) {}
        assert!(slots.iter().all(|s| team.done(*s)));
        team.take(slots[0]).expect("good");
        assert!(team.take(slots[1]).is_err());
    }
}
