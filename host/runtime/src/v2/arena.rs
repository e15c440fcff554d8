//! Memory of a round: offsets for tensors by their lives, the lowest gap first.

/// Blocks begin at multiples of this (facts 2.1).
const ALIGN: u64 = 512;

/// A tensor that lives from one launch to another, both included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) bytes: u64,
}

/// An offset for each life, and the bytes of all; None where the sizes overflow.
pub(crate) fn pack(lives: &[Life]) -> Option<(Vec<u64>, u64)> {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    // In the order of birth, the larger first: what lives now is what a new one has to go around.
    order.sort_by_key(|i| (lives[*i].first, std::cmp::Reverse(lives[*i].bytes), *i));
    let mut out = vec![0u64; lives.len()];
    let mut end = 0u64;
    // Those that live, by offset: offset, end, last launch.
    let mut live: Vec<(u64, u64, usize)> = Vec::new();
    for i in order {
        let l = lives[i];
        let bytes = l.bytes.max(1).checked_next_multiple_of(ALIGN)?;
        live.retain(|b| b.2 >= l.first);
        let mut at = 0u64;
        let mut place = live.len();
        for (k, b) in live.iter().enumerate() {
            if b.0.checked_sub(at).is_some_and(|gap| gap >= bytes) {
                place = k;
                break;
            }
            at = at.max(b.1);
        }
        let stop = at.checked_add(bytes)?;
        live.insert(place, (at, stop, l.last));
        out[i] = at;
        end = end.max(stop);
    }
    Some((out, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_at_once_lies_apart() {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let many = next(40);
            let lives: Vec<Life> = (0..many)
                .map(|_| {
                    let first = next(20) as usize;
                    Life { first, last: first + next(10) as usize, bytes: next(5000) }
                })
                .collect();
            let (at, end) = pack(&lives).expect("small sizes");
            for (i, a) in lives.iter().enumerate() {
                assert!(at[i].is_multiple_of(ALIGN) && at[i] + a.bytes <= end);
                for (j, b) in lives.iter().enumerate().skip(i + 1) {
                    let at_once = a.first <= b.last && b.first <= a.last;
                    let apart = at[i] + a.bytes <= at[j] || at[j] + b.bytes <= at[i];
                    assert!(!at_once || apart || a.bytes == 0 || b.bytes == 0, "{lives:?}");
                }
            }
        }
    }

    #[test]
    fn a_chain_needs_two_blocks() {
        let chain: Vec<Life> = (0..10).map(|i| Life { first: i, last: i + 1, bytes: 512 }).collect();
        assert_eq!(pack(&chain).map(|p| p.1), Some(1024));
    }
}
