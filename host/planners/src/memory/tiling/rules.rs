//! Which pieces may be combined at an instant, and how much of the new piece is idle.

use super::piece::{Made, Wheel};
use super::pieces::Pieces;

/// Pieces of two cuts are distinguished only if at most this many begin or end at one instant.
const MOST_AT_ONCE: usize = 4;
/// Number of ends and heights of a wheel that may disagree.
const MOST_FAULTS: usize = 2;
/// Number of pieces that ended alone that are examined from one instant.
const MOST_BEFORE: usize = 256;
/// Number of instants after the end of a piece at which its successor may begin.
const MOST_BEHIND: usize = 64;
/// Number of pieces ending together with a wheel that are examined as possible parts of it.
const MOST_ENDING: usize = 16;
/// Penalty in millionths for assuming that a place differs from what was found.
const DISBELIEF: u64 = 90_000;
/// Pieces with different ends are stacked only if at most this many begin at one instant.
const MOST_STACKED: usize = 24;

/// A possible combination of pieces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Union {
    /// Idle part of the new piece in millionths, penalties included.
    pub(super) idle: u64,
    pub(super) made: Made,
    pub(super) lower: u32,
    pub(super) upper: u32,
    pub(super) size: u64,
    /// Whether the new piece is taller than its parts allow, so that one of them must be wrong.
    pub(super) is_too_tall: bool,
}

fn union(pieces: &Pieces, made: Made, lower: u32, upper: u32, size: u64) -> Union {
    let life = pieces.times[upper as usize] - pieces.times[lower as usize];
    let whole = u128::from(size) * u128::from(life);
    let used: u128 = made.parts().iter().map(|&part| pieces.area_until(part, upper)).sum();
    let idle = whole.saturating_sub(used).saturating_mul(1_000_000) / whole.max(1);
    let idle = u64::try_from(idle).unwrap_or(u64::MAX / 2);
    // If the parts that end last do not end together, one of their ends was assumed wrongly.
    let ends: &[u32] = match &made {
        Made::Stack(two) => two,
        Made::Wheel(wheel) => &[wheel.high, wheel.late],
        Made::Block(_) | Made::Row(_) => &[],
    };
    let is_late = |&part: &u32| pieces.of(part).upper != upper && pieces.of(part).ended != pieces.of(part).upper;
    let is_too_tall = match made {
        Made::Row([first, second]) => pieces.of(first).size != pieces.of(second).size && size > pieces.most(made),
        Made::Wheel(_) => size > pieces.most(made),
        Made::Block(_) | Made::Stack(_) => false,
    };
    let wrong = u64::from(ends.iter().any(is_late)) + u64::from(is_too_tall);
    Union { idle: idle.saturating_add(wrong * DISBELIEF), made, lower, upper, size, is_too_tall }
}

/// Collects all unions whose parts meet at an instant.
pub(super) fn unions(pieces: &Pieces, instant: u32, into: &mut Vec<Union>) {
    stacks(pieces, instant, into);
    rows(pieces, instant, into);
    wheels(pieces, instant, into);
}

/// Stacks of pieces with the same lifetime, or nearly so if it is not known when the place of one
/// of them ends.
fn stacks(pieces: &Pieces, instant: u32, into: &mut Vec<Union>) {
    if pieces.begins[instant as usize].len() < 2 {
        return;
    }
    let mut begun = pieces.begins[instant as usize].clone();
    begun.sort_unstable_by_key(|&piece| (pieces.of(piece).upper, piece));
    let mut stack = |first: u32, second: u32| {
        let size = pieces.of(first).size + pieces.of(second).size;
        into.push(union(pieces, Made::Stack([first, second]), instant, pieces.of(second).upper, size));
    };
    for pair in begun.windows(2) {
        if pieces.of(pair[0]).upper == pieces.of(pair[1]).upper {
            stack(pair[0], pair[1]);
        }
    }
    if begun.len() <= MOST_STACKED {
        for &first in &begun {
            for &second in &begun {
                let end = pieces.of(second).upper;
                if first != second && pieces.of(first).upper != end && pieces.may_end(first, end) {
                    stack(first, second);
                }
            }
        }
    }
}

/// Rows in which one piece takes over the place of another.
fn rows(pieces: &Pieces, instant: u32, into: &mut Vec<Union>) {
    let (begun, ended) = (&pieces.begins[instant as usize], &pieces.ends[instant as usize]);
    let mut row = |first: u32, second: u32| {
        let size = pieces.of(first).size.max(pieces.of(second).size);
        into.push(union(pieces, Made::Row([first, second]), pieces.of(first).lower, pieces.of(second).upper, size));
    };
    match (ended.as_slice(), begun.as_slice()) {
        (&[first], &[second]) => row(first, second),
        (&[], &[second]) => pieces.ended_before(instant).take(MOST_BEFORE).for_each(|first| row(first, second)),
        _ if ended.len().max(begun.len()) <= MOST_AT_ONCE => {
            let one_of =
                |list: &[u32], size: u64| list.iter().filter(|&&piece| pieces.of(piece).size == size).count() == 1;
            for &first in ended {
                let size = pieces.of(first).size;
                for &second in begun {
                    if pieces.of(second).size == size && one_of(ended, size) && one_of(begun, size) {
                        row(first, second);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Wheels of four pieces around one that begins at the instant.
fn wheels(pieces: &Pieces, instant: u32, into: &mut Vec<Union>) {
    let (begun, ended) = (&pieces.begins[instant as usize], &pieces.ends[instant as usize]);
    if begun.len() < 2 || begun.len().max(ended.len()) > MOST_AT_ONCE {
        return;
    }
    let early: Vec<u32> =
        if ended.is_empty() { pieces.ended_before(instant).take(MOST_BEFORE).collect() } else { ended.clone() };
    for &middle in begun {
        for &high in begun.iter().filter(|&&high| high != middle) {
            for late in late_ones(pieces, instant, middle, high) {
                let turn = pieces.of(late).lower;
                let mut low: Vec<u32> =
                    pieces.ends[turn as usize].iter().copied().filter(|&low| low != middle).collect();
                if low.is_empty() {
                    low = pieces.ended_before(turn).take(MOST_BEFORE).collect();
                }
                for &low in low.iter().filter(|&&low| pieces.of(low).lower < instant && low != middle) {
                    for &early in
                        early.iter().filter(|&&early| early != low && pieces.of(early).lower == pieces.of(low).lower)
                    {
                        let wheel = Wheel { early, low, middle, high, late };
                        let wrong = faults(pieces, &wheel);
                        if is_plain(pieces, instant, &wheel) || wrong <= MOST_FAULTS {
                            into.push(turned(pieces, wheel));
                        }
                    }
                }
            }
        }
    }
}

/// The pieces that may begin where the middle of a wheel ends and may end together with `high`.
fn late_ones(pieces: &Pieces, instant: u32, middle: u32, high: u32) -> Vec<u32> {
    let (turn, end) = (pieces.of(middle).upper, pieces.of(high).upper);
    let ends_with = |late: u32| pieces.may_end(late, end) || pieces.may_end(high, pieces.of(late).upper);
    let mut late: Vec<u32> = Vec::new();
    if pieces.begins[turn as usize].len() <= MOST_AT_ONCE {
        late.extend(pieces.begins[turn as usize].iter().copied().filter(|&late| ends_with(late)));
    }
    if pieces.is_alone(middle) {
        let latest = pieces.of(middle).latest;
        let behind = (turn + 1..end).take(MOST_BEHIND).take_while(|&begin| pieces.times[begin as usize] <= latest);
        for begin in behind.filter(|&begin| pieces.begins[begin as usize].len() <= MOST_AT_ONCE) {
            late.extend(pieces.begins[begin as usize].iter().copied().filter(|&late| ends_with(late)));
        }
        if pieces.ends[end as usize].len() <= MOST_ENDING {
            let follows = |late: u32| {
                let begin = pieces.of(late).lower;
                begin >= turn && begin > instant && pieces.times[begin as usize] <= latest
            };
            late.extend(pieces.ends[end as usize].iter().copied().filter(|&late| follows(late)));
        }
    }
    late.retain(|&late| late != middle && late != high && pieces.of(late).lower < end);
    late.sort_unstable();
    late.dedup();
    late
}

/// Whether nothing else happens at the instants at which the pieces of a wheel meet.
fn is_plain(pieces: &Pieces, instant: u32, wheel: &Wheel) -> bool {
    let turn = pieces.of(wheel.late).lower as usize;
    let others = pieces.ends[turn].iter().filter(|&&piece| piece != wheel.middle).count();
    pieces.begins[instant as usize].len() == 2
        && pieces.ends[instant as usize].len() <= 1
        && pieces.begins[turn].len() == 1
        && others <= 1
}

/// Number of mismatches among the six equalities of ends and heights that hold in a wheel without
/// waste.
fn faults(pieces: &Pieces, &Wheel { early, low, middle, high, late }: &Wheel) -> usize {
    let size = |piece: u32| pieces.of(piece).size;
    let agree = [
        size(early) == size(high) + size(middle),
        size(late) == size(low) + size(middle),
        pieces.of(early).upper == pieces.of(middle).lower,
        pieces.of(low).upper == pieces.of(late).lower,
        pieces.of(middle).upper == pieces.of(late).lower,
        pieces.of(late).upper == pieces.of(high).upper,
    ];
    agree.into_iter().filter(|agree| !agree).count()
}

fn turned(pieces: &Pieces, wheel: Wheel) -> Union {
    let Wheel { early, low, middle, high, late } = wheel;
    let size = |piece: u32| pieces.of(piece).size;
    let tall = (size(early) + size(low)).max(size(low) + size(middle) + size(high)).max(size(late) + size(high));
    let [high_end, late_end] = [high, late].map(|piece| pieces.of(piece).upper);
    let upper = if pieces.may_end(high, late_end) { late_end } else { high_end };
    let made = Made::Wheel(wheel);
    union(pieces, made, pieces.of(early).lower, upper, tall)
}
