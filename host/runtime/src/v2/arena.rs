//! Memory layout of a round: assigns offsets to tensors by their lifetimes, using the lowest gap
//! that fits.
//!
//! Two tensors share bytes only if one is over before the other begins under every schedule,
//! because of the order within a stream and of events.
use super::streams::Streams;

/// Alignment in bytes of blocks (facts 2.1).
const ALIGN: u64 = 512;

/// A tensor that lives from the launch that makes it to the launches that use it last.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) first: u32,
    /// Its last use on each stream that uses it, the first launch included.
    last: Vec<u32>,
    pub(crate) bytes: u64,
}

impl Life {
    /// A tensor that so far only its own launch uses.
    pub(crate) fn new(first: u32, bytes: u64) -> Life {
        Life { first, last: vec![first], bytes }
    }
    /// Records a use by a later launch.
    pub(crate) fn used(&mut self, by: u32, streams: &Streams) {
        let stream = |l: u32| streams.launches[l as usize].stream;
        match self.last.iter_mut().find(|l| stream(**l) == stream(by)) {
            Some(l) => *l = by,
            None => self.last.push(by),
        }
    }
}

/// An offset for each life, and the total size in bytes; `None` if the sizes overflow.
pub(crate) fn pack(lives: &[Life], streams: &Streams) -> Option<(Vec<u64>, u64)> {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    // In the order of first launches, larger tensors first: a new tensor only has to avoid the live
    // ones.
    order.sort_by_key(|i| (lives[*i].first, std::cmp::Reverse(lives[*i].bytes), *i));
    let mut out = vec![0u64; lives.len()];
    let mut end = 0u64;
    // Blocks that some stream may still use, sorted by offset: offset, end, index of the life.
    let mut live: Vec<(u64, u64, usize)> = Vec::new();
    // The launch that begins now, and the last earlier launch of each stream.
    let mut now = 0;
    let mut heads: Vec<Option<u32>> = vec![None; streams.logical.len()];
    for i in order {
        let l = &lives[i];
        let bytes = l.bytes.max(1).checked_next_multiple_of(ALIGN)?;
        if l.first != now {
            (now..l.first).for_each(|k| heads[streams.launches[k as usize].stream] = Some(k));
            now = l.first;
            live.retain(|b| !lives[b.2].last.iter().all(|u| streams.is_over_for_all(*u, now, &heads)));
        }
        let is_over = |b: &(u64, u64, usize)| lives[b.2].last.iter().all(|u| streams.is_before(*u, now));
        let mut at = 0u64;
        for b in live.iter().filter(|b| !is_over(b)) {
            if b.0.checked_sub(at).is_some_and(|gap| gap >= bytes) {
                break;
            }
            at = at.max(b.1);
        }
        let stop = at.checked_add(bytes)?;
        let place = live.partition_point(|b| b.0 <= at);
        live.insert(place, (at, stop, i));
        out[i] = at;
        end = end.max(stop);
    }
    Some((out, end))
}

#[cfg(test)]
mod tests {
    use super::super::streams::tests::{chance, closure, drawn};
    use super::super::streams::{Limits, Streams};
    use super::*;

    const NO_LIMITS: Limits =
        Limits { normal: usize::MAX, longest: usize::MAX, huge: 0, streams: 99, events: usize::MAX >> 1 };

    /// The offsets with a single stream, where a life lasts from its first launch to its last.
    fn of_one_stream(lives: &[(u32, u32, u64)]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..lives.len()).collect();
        order.sort_by_key(|i| (lives[*i].0, std::cmp::Reverse(lives[*i].2), *i));
        let mut out = vec![0; lives.len()];
        let mut live: Vec<(u64, u64, u32)> = Vec::new();
        for i in order {
            let bytes = lives[i].2.max(1).next_multiple_of(ALIGN);
            live.retain(|b| b.2 >= lives[i].0);
            let mut at = 0;
            for b in &live {
                if b.0 >= at && b.0 - at >= bytes {
                    break;
                }
                at = at.max(b.1);
            }
            live.push((at, at + bytes, lives[i].1));
            live.sort_unstable();
            out[i] = at;
        }
        out
    }

    #[test]
    fn bytes_are_shared_by_what_streams_and_events_order_alone() {
        let mut next = chance(3);
        let (mut shared, mut apart) = (0, 0);
        for _ in 0..3000 {
            let wide = 1 + next(5);
            let d = drawn(&mut next, wide, NO_LIMITS);
            let s = &d.streams;
            let many = s.launches.len() as u32;
            // Each launch makes a tensor, which is read by the launches that depend on it, and has
            // a workspace.
            let (mut lives, mut uses) = (Vec::new(), Vec::new());
            for k in 0..many {
                let mut tensor = Life::new(k, next(5000));
                let readers: Vec<u32> = (k + 1..many).filter(|b| d.deps[*b as usize].contains(&k)).collect();
                readers.iter().for_each(|b| tensor.used(*b, s));
                lives.extend([tensor, Life::new(k, next(3000))]);
                uses.extend([[&[k], &readers[..]].concat(), vec![k]]);
            }
            let (at, end) = pack(&lives, s).expect("small sizes");
            let events: Vec<(usize, usize)> = (s.launches.iter().enumerate())
                .flat_map(|(k, p)| p.waits.iter().map(move |a| (*a as usize, k)))
                .collect();
            let before = closure(s, &events);
            let over = |a: usize, b: usize| uses[a].iter().all(|u| before[*u as usize][lives[b].first as usize]);
            for (a, b) in (0..lives.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                assert!(at[a].is_multiple_of(ALIGN) && at[a] + lives[a].bytes <= end);
                let meet = at[a] < at[b] + lives[b].bytes.max(1) && at[b] < at[a] + lives[a].bytes.max(1);
                assert!(!meet || over(a, b) || over(b, a), "{s:?} {lives:?} {at:?}");
                shared += usize::from(meet);
                apart += usize::from(!meet);
            }
            if s.logical.len() == 1 {
                let plain: Vec<_> = lives.iter().zip(&uses).map(|(l, u)| (l.first, u[u.len() - 1], l.bytes)).collect();
                assert_eq!(at, of_one_stream(&plain));
            }
        }
        assert!(shared > 1000 && apart > 1000, "{shared} {apart}");
    }

    #[test]
    fn a_chain_needs_two_blocks_on_one_stream_or_two() {
        for two in [false, true] {
            let mut s = Streams::new(NO_LIMITS);
            let mut lives = Vec::new();
            for k in 0..10u32 {
                let behind: Vec<u32> = k.checked_sub(1).into_iter().collect();
                assert!(s.add(u32::from(two) * (k % 2), 1, &behind));
                lives.push(Life::new(k, 512));
                if k > 0 {
                    lives[k as usize - 1].used(k, &s);
                }
            }
            assert_eq!(pack(&lives, &s).map(|p| p.1), Some(1024));
        }
    }
}
