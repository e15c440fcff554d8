//! Memory of one slice: where the values lie that the nodes of a body pass to each other. A value
//! may take the place of another one whose last reader stands before the value's own node; the node
//! then waits for the readers of the old value.
use ge_plugin_api::author::slices::Cut;

/// Alignment of values, in bytes.
const ALIGN: u64 = 64;
/// The bytes of one slice are a multiple of this.
const BLOCK: u64 = 512;

/// A value between two nodes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Position of the node that produces the value.
    pub from: u32,
    /// Position of the last node that reads the value; the producer's own if nobody does.
    pub to: u32,
    /// Size of the value in one slice, in bytes.
    pub bytes: u64,
}

/// Placement of the values of one slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arena {
    /// Offset of each value in bytes.
    pub offsets: Vec<u64>,
    /// Pairs of values: the second takes bytes of the first.
    pub follows: Vec<(usize, usize)>,
    /// Bytes of one slice.
    pub bytes: u64,
}

/// Places the values, which come in the order of their nodes, each at the lowest free offset.
pub fn place(values: &[Value]) -> Arena {
    let mut out = Arena::default();
    let mut live: Vec<(u64, u64, usize)> = Vec::new();
    let mut past: Vec<(u64, u64, usize)> = Vec::new();
    for (k, v) in values.iter().enumerate() {
        let size = v.bytes.max(1).next_multiple_of(ALIGN);
        let (gone, stays): (Vec<_>, Vec<_>) = live.into_iter().partition(|(_, _, o)| values[*o].to < v.from);
        live = stays;
        past.extend(gone);
        live.sort_unstable();
        let mut at = 0;
        for (begin, end, _) in &live {
            if at + size <= *begin {
                break;
            }
            at = at.max(*end);
        }
        out.follows.extend(past.iter().filter(|(b, e, _)| *b < at + size && at < *e).map(|(_, _, o)| (*o, k)));
        live.push((at, at + size, k));
        out.offsets.push(at);
        out.bytes = out.bytes.max(at + size);
    }
    out.bytes = out.bytes.next_multiple_of(BLOCK);
    out
}

/// Bytes of all slices that run at once; `None` on overflow.
pub fn all_lanes(arena: &Arena, cut: Cut) -> Option<u64> {
    arena.bytes.checked_mul(cut.window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_goes_to_and_fro_between_two_places() {
        let v = |from, to| Value { from, to, bytes: 100 };
        let a = place(&[v(0, 1), v(1, 2), v(2, 3), v(3, 3)]);
        assert_eq!(a.offsets, [0, 128, 0, 128]);
        assert_eq!((a.bytes, &a.follows[..]), (512, &[(0, 2), (1, 3)][..]));
    }

    #[test]
    fn no_two_values_that_live_at_once_share_a_byte() {
        let mut seed = 7u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..200 {
            let n = 1 + next(20) as u32;
            let values: Vec<Value> =
                (0..n).map(|from| Value { from, to: (from + next(6) as u32).min(n), bytes: next(300) }).collect();
            let a = place(&values);
            for (i, x) in values.iter().enumerate() {
                for (j, y) in values.iter().enumerate().skip(i + 1) {
                    let apart = a.offsets[i] + x.bytes <= a.offsets[j] || a.offsets[j] + y.bytes <= a.offsets[i];
                    let ordered = x.to < y.from;
                    assert!(apart || ordered, "{values:?} {a:?}");
                    // A value that takes the place of another knows which one it was.
                    assert!(apart || a.follows.contains(&(i, j)), "{values:?} {a:?}");
                }
            }
            assert!(values.iter().zip(&a.offsets).all(|(v, o)| o + v.bytes <= a.bytes));
        }
    }
}
