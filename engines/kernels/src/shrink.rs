//! The search by which plans make their units smaller until there are enough for the cores of a
//! device.

/// Maximum number of steps: every step halves something, and the bits of the two sizes together
/// bound the number of halvings.
const STEPS: u32 = 2 * usize::BITS;

/// The first of `start`, `next(start)`, ... that is `enough`, or the last one if `next` has no
/// smaller units to offer.
///
/// It ends for every `next`: it stops when `next` changes nothing, and the number of steps is
/// bounded.
pub(crate) fn shrink<S: Copy + PartialEq>(start: S, enough: impl Fn(S) -> bool, next: impl Fn(S) -> Option<S>) -> S {
    let mut size = start;
    for _ in 0..STEPS {
        match next(size) {
            Some(smaller) if smaller != size && !enough(size) => size = smaller,
            _ => break,
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stops_where_there_is_enough_or_nothing_smaller() {
        let half = |v: usize| (v > 3).then_some(v / 2);
        assert_eq!(shrink(64, |v| v <= 20, half), 16);
        assert_eq!(shrink(64, |_| false, half), 2);
        assert_eq!(shrink(64, |_| true, half), 64);
    }

    #[test]
    fn a_step_that_changes_nothing_or_goes_round_ends() {
        assert_eq!(shrink(1usize, |_| false, |v| Some(v.div_ceil(2))), 1);
        assert!([3, 4].contains(&shrink(3, |_| false, |v| Some(7 - v))));
    }
}
