//! The tasks of one rank for a collective. Every rank pulls: it reads the memory of other ranks and
//! writes only its own. Two barriers make that correct: all inputs are ready before the first read,
//! and the last read is over before any rank goes on. Reductions go in rank order, however the work
//! is split: the bits are those of `((x0 + x1) + x2) + …`.
use crate::collective::{Collective, Kind};
use ge_plugin_api::device::Place;
use ge_plugin_api::task::TaskType;

/// One step of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Records a notify of another rank.
    Record {
        /// Position of the notify in the node's list.
        slot: u32,
        /// Rank that owns the notify.
        rank: u32,
    },
    /// Waits for one of the rank's own notifies.
    Wait {
        /// Position of the notify in the node's list.
        slot: u32,
    },
    /// Copies memory.
    Copy {
        /// Source, possibly of another rank.
        from: Place,
        /// Destination.
        to: Place,
    },
    /// Reduces `from` into `to`.
    Reduce {
        /// Source, possibly of another rank.
        from: Place,
        /// Destination.
        to: Place,
    },
    /// Fills memory with zeros.
    Clear {
        /// Memory to clear.
        to: Place,
    },
}

impl Step {
    /// Type of the task that executes the step.
    pub fn kind(&self) -> TaskType {
        match self {
            Step::Record { .. } => TaskType::NOTIFY_RECORD,
            Step::Wait { .. } => TaskType::NOTIFY_WAIT,
            Step::Copy { .. } => TaskType::MEMCPY_ASYNC,
            Step::Reduce { .. } => TaskType::REDUCE_ASYNC,
            Step::Clear { .. } => TaskType::KERNEL,
        }
    }
}

/// Barrier `k`, a dissemination barrier in rounds: in round `j` a rank signals the rank `2^j` after
/// it and waits for the rank `2^j` before it. Rounds beyond the group's size have no effect, but
/// they still run: their notifies are planned, and ids must have no gap.
fn barrier(rounds: u32, ranks: u32, rank: u32, k: u32, out: &mut Vec<Step>) {
    for j in 0..rounds {
        let slot = k * rounds + j;
        let to = (u64::from(rank) + (1 << j)) % u64::from(ranks);
        out.push(Step::Record { slot, rank: to as u32 });
        out.push(Step::Wait { slot });
    }
}

/// A transfer: the sender signals that its input is ready and waits until it has been read. Other
/// ranks signal themselves, so that every notify is used in every rank.
fn transfer(c: &Collective, rank: u32, x: Place, y: Place, out: &mut Vec<Step>) {
    let (ready, done) = (0, 1);
    let sends = rank == c.root;
    let receives = rank == c.dest;
    if c.root == c.dest || !(sends || receives) {
        for slot in [ready, done] {
            out.extend([Step::Record { slot, rank }, Step::Wait { slot }]);
        }
    } else if sends {
        out.push(Step::Record { slot: ready, rank: c.dest });
    } else {
        out.push(Step::Wait { slot: ready });
    }
    let to = part(y, 0, y.bytes, rank, rank);
    match receives {
        true => out.push(Step::Copy { from: part(x, 0, x.bytes, c.root, rank), to }),
        false => out.push(Step::Clear { to }),
    }
    match (sends, receives) {
        (true, false) => out.push(Step::Wait { slot: done }),
        (false, true) => out.push(Step::Record { slot: done, rank: c.root }),
        _ => {}
    }
}

/// A part of a place. `rank` becomes `u32::MAX` if it is the rank itself.
fn part(p: Place, offset: u64, bytes: u64, rank: u32, own: u32) -> Place {
    let rank = if rank == own { u32::MAX } else { rank };
    Place { offset: p.offset + offset, bytes, rank, ..p }
}

/// Part `k` of an all-reduce in two halves: first element and length.
fn share(c: &Collective, k: u32) -> (u64, u64) {
    let (each, more) = (c.count / u64::from(c.ranks), c.count % u64::from(c.ranks));
    let k = u64::from(k);
    (k * each + k.min(more), each + u64::from(k < more))
}

/// The steps of `rank` in a group of `ranks` ranks. `inputs` and `outputs` are the places of the
/// node's data, the same in every rank; their sizes are those of the data.
pub fn steps(
    planned: &Collective,
    ranks: u32,
    rank: u32,
    width: u64,
    inputs: &[Place],
    outputs: &[Place],
) -> Vec<Step> {
    let mut out = Vec::new();
    let (rounds, barriers, halves) = (planned.rounds(), planned.barriers(), planned.in_two_halves());
    let c = &Collective { ranks, ..planned.clone() };
    let barrier = |k: u32, out: &mut Vec<Step>| barrier(rounds, ranks, rank, k, out);
    if barriers > 0 {
        barrier(0, &mut out);
    }
    for (&x, &y) in inputs.iter().zip(outputs) {
        let copy = |r: u32, at: u64, to: u64, bytes: u64| Step::Copy {
            from: part(x, at, bytes, r, rank),
            to: part(y, to, bytes, rank, rank),
        };
        let reduce_all = |at: u64, to: u64, bytes: u64, out: &mut Vec<Step>| {
            for r in 0..c.ranks {
                let (from, to) = (part(x, at, bytes, r, rank), part(y, to, bytes, rank, rank));
                out.push(if r == 0 { Step::Copy { from, to } } else { Step::Reduce { from, to } });
            }
        };
        let (ranks, me) = (u64::from(c.ranks), u64::from(rank));
        match c.kind {
            Kind::AllReduce if halves => {
                let (at, n) = share(c, rank);
                reduce_all(at * width, at * width, n * width, &mut out);
                barrier(1, &mut out);
                for r in (1..c.ranks).map(|d| (rank + d) % c.ranks) {
                    let (at, n) = share(c, r);
                    let (at, n) = (at * width, n * width);
                    out.push(Step::Copy { from: part(y, at, n, r, rank), to: part(y, at, n, rank, rank) });
                }
            }
            Kind::AllReduce => reduce_all(0, 0, x.bytes, &mut out),
            Kind::AllGather => {
                out.extend((0..c.ranks).map(|r| copy(r, 0, u64::from(r) * x.bytes, x.bytes)));
            }
            Kind::ReduceScatter => reduce_all(me * y.bytes, 0, y.bytes, &mut out),
            Kind::Broadcast => out.push(copy(c.root, 0, 0, x.bytes)),
            Kind::AllToAll => {
                let block = x.bytes / ranks;
                out.extend((0..c.ranks).map(|r| copy(r, me * block, u64::from(r) * block, block)));
            }
            Kind::Transfer => transfer(c, rank, x, y, &mut out),
        }
    }
    if barriers > 0 {
        barrier(barriers - 1, &mut out);
    }
    out.retain(|s| match s {
        Step::Copy { to, .. } | Step::Reduce { to, .. } | Step::Clear { to } => to.bytes > 0,
        _ => true,
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::DType;
    use std::collections::BTreeSet;

    const X: u64 = 0;
    const Y: u64 = 1 << 30;

    fn place(offset: u64, bytes: u64) -> Place {
        Place { allocation: 0, offset, bytes, rank: u32::MAX }
    }
    fn one(kind: Kind, ranks: u32, count: u64) -> Collective {
        let root = ranks - 1;
        Collective { kind, reduction: 0, dtype: DType::U8, count, ranks, root, dest: ranks / 2, group: "g".into() }
    }
    fn sizes(c: &Collective) -> (u64, u64) {
        let r = u64::from(c.ranks);
        match c.kind {
            Kind::AllGather => (c.count, c.count * r),
            Kind::ReduceScatter => (c.count, c.count / r),
            _ => (c.count, c.count),
        }
    }

    /// Runs the steps of all ranks one at a time in an order chosen by a seed, and returns each
    /// rank's output. A rank that has to wait is skipped.
    fn play(c: &Collective, planned: u32, seed: u64) -> Vec<Vec<u8>> {
        let (nx, ny) = sizes(c);
        let planned = Collective { ranks: planned, ..c.clone() };
        let of = |r| steps(&planned, c.ranks, r, 1, &[place(X, nx)], &[place(Y, ny)]);
        let steps: Vec<Vec<Step>> = (0..c.ranks).map(of).collect();
        let mut x: Vec<Vec<u8>> =
            (0..c.ranks).map(|r| (0..nx).map(|i| (i * 7 + u64::from(r) * 31) as u8).collect()).collect();
        let mut y = vec![vec![0xAAu8; ny as usize]; c.ranks as usize];
        let mut at = vec![0usize; c.ranks as usize];
        let mut set = BTreeSet::new();
        let mut state = seed;
        loop {
            let able = |r: usize, set: &BTreeSet<(u32, u32)>| match steps[r].get(at[r]) {
                Some(Step::Wait { slot }) => set.contains(&(r as u32, *slot)),
                s => s.is_some(),
            };
            let ready: Vec<usize> = (0..steps.len()).filter(|r| able(*r, &set)).collect();
            if ready.is_empty() {
                break;
            }
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let r = ready[(state >> 33) as usize % ready.len()];
            match steps[r][at[r]].clone() {
                Step::Record { slot, rank } => assert!(set.insert((rank, slot)), "notify {slot} of {rank} twice"),
                Step::Wait { slot } => assert!(set.remove(&(r as u32, slot))),
                Step::Clear { to } => y[r][(to.offset - Y) as usize..][..to.bytes as usize].fill(0),
                Step::Copy { from, to } | Step::Reduce { from, to } => {
                    assert_eq!(to.rank, u32::MAX, "a rank writes its own memory alone");
                    let n = from.bytes as usize;
                    let of = if from.rank == u32::MAX { r } else { from.rank as usize };
                    let source = if from.offset >= Y {
                        &y[of][(from.offset - Y) as usize..]
                    } else {
                        &x[of][from.offset as usize..]
                    };
                    let source = source[..n].to_vec();
                    let reduce = matches!(steps[r][at[r]], Step::Reduce { .. });
                    let target = &mut y[r][(to.offset - Y) as usize..][..n];
                    for (t, s) in target.iter_mut().zip(source) {
                        *t = if reduce { t.wrapping_add(s) } else { s };
                    }
                }
            }
            at[r] += 1;
            if at[r] == steps[r].len() {
                // A later node may overwrite this node's input immediately.
                x[r].fill(0xEE);
            }
        }
        assert!(at.iter().zip(&steps).all(|(a, s)| *a == s.len()), "a deadlock");
        assert!(set.is_empty());
        y
    }

    fn expected(c: &Collective) -> Vec<Vec<u8>> {
        let (nx, ny) = sizes(c);
        let x = |r: u64, i: u64| (i * 7 + r * 31) as u8;
        let ranks = u64::from(c.ranks);
        let sum = |i: u64| (0..ranks).fold(0u8, |a, r| a.wrapping_add(x(r, i)));
        (0..ranks)
            .map(|me| {
                (0..ny)
                    .map(|i| match c.kind {
                        Kind::AllReduce => sum(i),
                        Kind::AllGather => x(i / nx, i % nx),
                        Kind::ReduceScatter => sum(me * ny + i),
                        Kind::Broadcast => x(u64::from(c.root), i),
                        Kind::AllToAll => x(i / (nx / ranks), me * (nx / ranks) + i % (nx / ranks)),
                        Kind::Transfer if me == u64::from(c.dest) => x(u64::from(c.root), i),
                        Kind::Transfer => 0,
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn every_collective_in_any_interleaving() {
        let kinds = [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::Broadcast, Kind::AllToAll];
        for kind in kinds.into_iter().chain([Kind::Transfer]) {
            for ranks in [1, 2, 3, 5, 8] {
                for count in [120, 18_000] {
                    let c = one(kind, ranks, count);
                    for seed in 0..6 {
                        // Planned for exactly this group, and for any group.
                        assert_eq!(play(&c, ranks, seed), expected(&c), "{c:?} seed {seed}");
                        assert_eq!(play(&c, 0, seed), expected(&c), "any group: {c:?} seed {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn notifies_have_no_gap_in_any_rank() {
        for ranks in 2..6 {
            for (kind, count) in [(Kind::AllReduce, 4), (Kind::AllReduce, 1 << 20), (Kind::Transfer, 9)] {
                let c = one(kind, ranks, count);
                for r in 0..ranks {
                    let used: BTreeSet<u32> = steps(&c, ranks, r, 1, &[place(X, count)], &[place(Y, count)])
                        .iter()
                        .filter_map(|s| match s {
                            Step::Wait { slot } | Step::Record { slot, .. } => Some(*slot),
                            _ => None,
                        })
                        .collect();
                    assert_eq!(used.len() as u32, c.notifies());
                    assert_eq!(used.last(), Some(&(c.notifies() - 1)));
                }
            }
        }
    }

    #[test]
    fn reductions_go_in_rank_order() {
        let c = one(Kind::AllReduce, 4, 8);
        let order: Vec<u32> = steps(&c, 4, 2, 1, &[place(X, 8)], &[place(Y, 8)])
            .iter()
            .filter_map(|s| match s {
                Step::Copy { from, .. } | Step::Reduce { from, .. } => Some(from.rank),
                _ => None,
            })
            .collect();
        assert_eq!(order, [0, 1, u32::MAX, 3]);
    }
}
