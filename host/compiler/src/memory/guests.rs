//! Values in the caller's memory (facts 2.4, 2.5 level 2): in an input that has already been read,
//! or in an output that is not written yet, as far as `ge.exec.inputReuseMemIndexes` and
//! `ge.exec.outputReuseMemIndexes` permit.
//!
//! The values that live where the plan needs most memory move first, the largest one that fits
//! anywhere, until none of them fits. Cost: blocks times moved values, of which there are at most
//! `MOST_MOVED`.
use ge_planners::memory::{Block, StreamUse};

/// Maximum number of values that are moved.
const MOST_MOVED: usize = 1024;

/// Memory that the caller lends.
#[derive(Clone, Debug)]
pub struct Host {
    /// Bytes that the caller provides.
    pub capacity: u64,
    /// The same memory in whole blocks, as the plan counts it.
    pub room: u64,
    /// Uses of the memory as the input or output itself.
    pub uses: StreamUse,
}

/// A value that may move into a host.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Lifetime and size of the value.
    pub block: Block,
    /// Bytes of the value that some node touches.
    pub touched: u64,
    /// Uses of the value.
    pub uses: StreamUse,
    /// Whether the value may be placed elsewhere.
    pub movable: bool,
}

/// Places values in hosts. Returns for each value its host and its offset there, or `None` if it
/// stays in the plan's own memory.
pub fn invite(guests: &[Guest], hosts: &[Host], ordered: &dyn Fn(u32, u32) -> bool) -> Vec<Option<(usize, u64)>> {
    let mut at: Vec<Option<(usize, u64)>> = vec![None; guests.len()];
    let mut by_room: Vec<usize> = (0..hosts.len()).collect();
    by_room.sort_by_key(|h| (hosts[*h].capacity, *h));
    for _ in 0..MOST_MOVED {
        let Some(peak) = peak(guests, &at) else { break };
        let mut live: Vec<usize> = (0..guests.len())
            .filter(|g| at[*g].is_none() && guests[*g].movable && lives(&guests[*g].block, peak))
            .collect();
        live.sort_by_key(|g| (std::cmp::Reverse(guests[*g].block.size), *g));
        let moved = live.into_iter().find_map(|g| {
            let place = |h: &usize| Some((*h, place(g, *h, guests, hosts, &at, ordered)?));
            Some((g, by_room.iter().find_map(place)?))
        });
        let Some((g, place)) = moved else { break };
        at[g] = Some(place);
    }
    at
}

fn lives(b: &Block, at: u64) -> bool {
    b.size > 0 && b.lower <= at && at < b.upper
}

/// The first point in time at which the values without a host need most memory.
fn peak(guests: &[Guest], at: &[Option<(usize, u64)>]) -> Option<u64> {
    let mut steps: Vec<(u64, bool, u64)> = Vec::new();
    for (g, _) in guests.iter().zip(at).filter(|(g, a)| a.is_none() && g.block.size > 0) {
        steps.push((g.block.lower, true, g.block.size));
        steps.push((g.block.upper, false, g.block.size));
    }
    steps.sort_unstable();
    let (mut load, mut most) = (0u64, (0u64, None));
    for (when, begins, size) in steps {
        load = if begins { load.saturating_add(size) } else { load.saturating_sub(size) };
        if load > most.0 {
            most = (load, Some(when));
        }
    }
    most.1
}

fn over_before(a: &StreamUse, b: &StreamUse, ordered: &dyn Fn(u32, u32) -> bool) -> bool {
    let apart = |last: &u32| b.first.iter().all(|first| ordered(*last, *first));
    !a.last.is_empty() && !b.first.is_empty() && a.last.iter().all(apart)
}

/// The lowest offset at which a value fits into a host; `None` if it does not fit.
fn place(
    g: usize,
    h: usize,
    guests: &[Guest],
    hosts: &[Host],
    at: &[Option<(usize, u64)>],
    ordered: &dyn Fn(u32, u32) -> bool,
) -> Option<u64> {
    let (guest, host) = (&guests[g], &hosts[h]);
    let apart = |a: &StreamUse, b: &StreamUse| over_before(a, b, ordered) || over_before(b, a, ordered);
    if guest.touched > host.capacity || !apart(&guest.uses, &host.uses) {
        return None;
    }
    let mut others: Vec<(u64, u64)> = guests
        .iter()
        .zip(at)
        .filter(|(o, a)| a.is_some_and(|a| a.0 == h) && !apart(&guest.uses, &o.uses))
        .filter_map(|(o, a)| Some((a.as_ref()?.1, o.block.size)))
        .collect();
    others.sort_unstable();
    let mut from = 0u64;
    for (begin, size) in others {
        if begin >= from.saturating_add(guest.block.size) {
            break;
        }
        from = from.max(begin.saturating_add(size));
    }
    let fits =
        from.saturating_add(guest.touched) <= host.capacity && from.saturating_add(guest.block.size) <= host.room;
    fits.then_some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(first: u32, last: u32) -> StreamUse {
        StreamUse { first: vec![first], last: vec![first, last] }
    }
    fn guest(id: u64, (first, last): (u32, u32), size: u64) -> Guest {
        let (lower, upper) = (u64::from(first), u64::from(last) + 1);
        let block = Block { id, lower, upper, size, align: 512, stream: 0, reuse: true, fixed: None };
        Guest { block, touched: size - 32, uses: uses(first, last), movable: true }
    }

    #[test]
    fn a_host_takes_what_lives_beside_it_in_time() {
        let ordered = |a: u32, b: u32| a < b;
        // An input that is read until step 2, and an output that is written from step 6 on.
        let hosts = [
            Host { capacity: 1504, room: 1536, uses: uses(0, 2) },
            Host { capacity: 1504, room: 1536, uses: uses(6, 9) },
        ];
        let guests = [
            guest(0, (1, 4), 1536), // lives beside the input, ends before the output
            guest(1, (3, 4), 1024), // begins when the input is read
            guest(2, (4, 7), 512),  // beside it there is room
            guest(3, (3, 8), 2048), // too large for both
        ];
        assert_eq!(invite(&guests, &hosts, &ordered), [Some((1, 0)), Some((0, 0)), Some((0, 1024)), None]);
        // If nothing is ordered, no value may move.
        assert_eq!(invite(&guests, &hosts, &|_, _| false), [None; 4]);
    }

    #[test]
    fn what_keeps_its_memory_stays_and_touched_bytes_count() {
        let ordered = |a: u32, b: u32| a < b;
        let hosts = [Host { capacity: 500, room: 512, uses: uses(0, 1) }];
        let mut one = guest(0, (2, 3), 512);
        assert_eq!(invite(std::slice::from_ref(&one), &hosts, &ordered), [Some((0, 0))]);
        one.touched = 501;
        assert_eq!(invite(std::slice::from_ref(&one), &hosts, &ordered), [None]);
        one.touched = 100;
        one.movable = false;
        assert_eq!(invite(&[one], &hosts, &ordered), [None]);
    }
}
