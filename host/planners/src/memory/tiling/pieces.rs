//! Pieces of a packing: blocks, and pieces put together of others whose places relative to each
//! other are known. They stand in a list by the instants at which they begin and end.

use super::super::problem::{Problem, narrow};
use super::idle::Places;

/// For how long a place may be kept beyond the end of its block, in parts of 100 of its life.
const MOST_IDLE: u64 = 54;

/// How a piece is made of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Made {
    /// A block.
    Block(u32),
    /// The second lies on the first.
    Stack([u32; 2]),
    /// The second follows the first in time.
    Row([u32; 2]),
    /// Five pieces around one of them, as a straight cut cannot part them.
    Wheel(Wheel),
}

/// The first part of the time has `early` above and `low` below; then `middle` lies between `low`
/// and `high`; then `late` lies below `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wheel {
    pub(super) early: u32,
    pub(super) low: u32,
    pub(super) middle: u32,
    pub(super) high: u32,
    pub(super) late: u32,
}

/// A rectangle of memory and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) lower: u32,
    pub(super) upper: u32,
    /// The end before the place was taken to be kept for longer.
    pub(super) ended: u32,
    /// Units.
    pub(super) size: u64,
    pub(super) made: Made,
    /// Whether it is part of another.
    pub(super) taken: bool,
}

/// All pieces, and who begins and ends at each instant.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) all: Vec<Piece>,
    pub(super) begins: Vec<Vec<u32>>,
    pub(super) ends: Vec<Vec<u32>>,
    /// The caller's time of each instant.
    pub(super) times: Vec<u64>,
}

impl Made {
    /// The pieces it is made of.
    pub(super) fn parts(&self) -> Vec<u32> {
        match *self {
            Self::Block(_) => Vec::new(),
            Self::Stack(two) | Self::Row(two) => two.to_vec(),
            Self::Wheel(Wheel { early, low, middle, high, late }) => vec![early, low, middle, high, late],
        }
    }
}

impl Pieces {
    /// One piece a block.
    pub(super) fn new(problem: &Problem) -> Self {
        let times = problem.times();
        let (begins, ends) = (vec![Vec::new(); times.len()], vec![Vec::new(); times.len()]);
        let mut pieces = Self { all: Vec::new(), begins, ends, times };
        for block in 0..problem.len() {
            let (lower, upper) = (problem.lower[block], problem.upper[block]);
            pieces.add(lower, upper, problem.size[block], Made::Block(narrow(block)));
        }
        pieces
    }

    /// The rectangles of some pieces.
    pub(super) fn places(&self, of: &[u32]) -> Places {
        let mut places = Places::default();
        for &piece in of {
            let Piece { lower, upper, size, .. } = *self.of(piece);
            places.lower.push(lower);
            places.upper.push(upper);
            places.size.push(size);
            places.kept.push(self.kept(piece));
        }
        places
    }

    /// Gives pieces larger rectangles with the same beginnings.
    pub(super) fn grow(&mut self, which: &[u32], places: &Places) {
        for (&piece, (&upper, &size)) in which.iter().zip(places.upper.iter().zip(&places.size)) {
            let before = std::mem::replace(&mut self.all[piece as usize].upper, upper);
            self.all[piece as usize].size = size;
            if before != upper {
                self.ends[before as usize].retain(|&other| other != piece);
                self.ends[upper as usize].push(piece);
            }
        }
    }

    pub(super) fn of(&self, piece: u32) -> &Piece {
        &self.all[piece as usize]
    }

    /// Length of a life in the caller's time.
    pub(super) fn life(&self, piece: u32) -> u64 {
        let Piece { lower, upper, .. } = *self.of(piece);
        self.times[upper as usize] - self.times[lower as usize]
    }

    /// For how long the place of a piece may be kept beyond its end, in the caller's time: a part of
    /// the life of the block that ends last in it.
    pub(super) fn kept(&self, piece: u32) -> u64 {
        let mut last = piece;
        loop {
            last = match self.of(last).made {
                Made::Block(_) => break,
                Made::Stack([one, two]) => self.shorter(one, two),
                Made::Row([_, second]) => second,
                Made::Wheel(Wheel { high, late, .. }) => self.shorter(high, late),
            };
        }
        self.life(last).saturating_mul(MOST_IDLE) / 100 + 1
    }

    fn shorter(&self, one: u32, two: u32) -> u32 {
        if self.life(one) <= self.life(two) { one } else { two }
    }

    /// Units times the caller's time up to an instant.
    pub(super) fn area_until(&self, piece: u32, instant: u32) -> u128 {
        let Piece { lower, upper, size, .. } = *self.of(piece);
        let life = self.times[upper.min(instant) as usize] - self.times[lower as usize];
        u128::from(size) * u128::from(life)
    }

    /// Whether a piece ends where nothing else happens.
    pub(super) fn is_alone(&self, piece: u32) -> bool {
        let end = self.of(piece).upper as usize;
        end + 1 < self.times.len() && self.begins[end].is_empty() && self.ends[end].len() == 1
    }

    /// Whether the place of a piece may end at an instant: it does, or it is not known when.
    pub(super) fn may_end(&self, piece: u32, instant: u32) -> bool {
        let Piece { upper, ended, .. } = *self.of(piece);
        if upper == instant {
            return true;
        }
        let past = || self.times[instant as usize] - self.times[ended as usize];
        (ended != upper || self.is_alone(piece)) && instant > ended && past() <= self.kept(piece)
    }

    /// Adds a piece; those it is made of leave the list.
    pub(super) fn add(&mut self, lower: u32, upper: u32, size: u64, made: Made) {
        for part in made.parts() {
            let Piece { lower, upper, .. } = self.all[part as usize];
            self.begins[lower as usize].retain(|&other| other != part);
            self.ends[upper as usize].retain(|&other| other != part);
            self.all[part as usize].taken = true;
        }
        let piece = narrow(self.all.len());
        self.all.push(Piece { lower, upper, ended: upper, size, made, taken: false });
        self.begins[lower as usize].push(piece);
        self.ends[upper as usize].push(piece);
    }

    /// Pieces that are no part of another.
    pub(super) fn whole(&self) -> Vec<u32> {
        (0..narrow(self.all.len())).filter(|&piece| !self.of(piece).taken).collect()
    }

    /// Writes the offset of each block, given those of the whole pieces.
    pub(super) fn unfold(&self, whole: &[u32], bottoms: &[u64], blocks: usize) -> Vec<u64> {
        let mut offsets = vec![0; blocks];
        let mut stack: Vec<(u32, u64)> = whole.iter().copied().zip(bottoms.iter().copied()).collect();
        while let Some((piece, bottom)) = stack.pop() {
            let Piece { size, made, .. } = *self.of(piece);
            let top = |part: u32| bottom + size - self.of(part).size;
            match made {
                Made::Block(block) => offsets[block as usize] = bottom,
                Made::Stack([under, over]) => {
                    stack.extend([(under, bottom), (over, bottom + self.of(under).size)]);
                }
                Made::Row(two) => stack.extend(two.map(|part| (part, bottom))),
                Made::Wheel(Wheel { early, low, middle, high, late }) => stack.extend([
                    (early, top(early)),
                    (low, bottom),
                    (middle, bottom + self.of(low).size),
                    (high, top(high)),
                    (late, bottom),
                ]),
            }
        }
        offsets
    }
}
