//! Pieces of a packing: blocks, and pieces put together of others whose places relative to each
//! other are known. They stand in a list by the instants at which they begin and end.

use super::super::problem::{Problem, narrow};
use super::idle::Places;

/// What a block may leave idle of its place, in parts of 100 of its size, and of its life behind it.
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
    /// Units before the place was taken to be larger.
    pub(super) least: u64,
    /// Units that its place may have at most.
    pub(super) most: u64,
    /// When its place may end at the latest, in the caller's time.
    pub(super) latest: u64,
    /// Units times the caller's time of the blocks in it.
    pub(super) content: u128,
    /// Whether it is part of another, or was taken apart.
    pub(super) taken: bool,
}

/// All pieces, and who begins and ends at each instant.
#[derive(Debug, Clone)]
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
            let Piece { lower, upper, size, most, .. } = *self.of(piece);
            places.most.push(most);
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

    /// For how long the place of a piece may be kept beyond its end, in the caller's time.
    pub(super) fn kept(&self, piece: u32) -> u64 {
        let Piece { upper, latest, .. } = *self.of(piece);
        latest.saturating_sub(self.times[upper as usize])
    }

    /// How many units the place of what is made may have at most. Heights that agree are right: it is
    /// unlikely that two pieces leave the same idle.
    pub(super) fn most(&self, made: Made) -> u64 {
        let most = |piece: u32| self.of(piece).most;
        let agree = |one: &[u32], two: &[u32]| {
            let sum = |all: &[u32]| all.iter().map(|&piece| self.of(piece).least).sum::<u64>();
            sum(one) == sum(two)
        };
        let sum = |all: &[u32]| all.iter().map(|&piece| self.of(piece)).map(|piece| piece.most).sum::<u64>();
        match made {
            Made::Block(_) => u64::MAX,
            Made::Stack(two) => sum(&two),
            Made::Row([one, two]) if agree(&[one], &[two]) => self.of(one).least,
            Made::Row([one, two]) => most(one).min(most(two)),
            Made::Wheel(Wheel { early, low, middle, high, late }) => {
                sum(&[early, low]).min(sum(&[low, middle, high])).min(sum(&[late, high]))
            }
        }
    }

    /// When the place of what is made may end at the latest. Ends that agree are right.
    fn latest(&self, made: Made) -> u64 {
        let both = |one: u32, two: u32| {
            let (one, two) = (self.of(one), self.of(two));
            if one.ended == two.ended { self.times[one.ended as usize] } else { one.latest.min(two.latest) }
        };
        match made {
            Made::Block(_) => u64::MAX,
            Made::Stack([one, two]) => both(one, two),
            Made::Row([_, second]) => self.of(second).latest,
            Made::Wheel(Wheel { high, late, .. }) => both(high, late),
        }
    }

    /// Units times the caller's time up to an instant.
    pub(super) fn area_until(&self, piece: u32, instant: u32) -> u128 {
        let Piece { lower, upper, size, .. } = *self.of(piece);
        let life = self.times[upper.min(instant) as usize] - self.times[lower as usize];
        u128::from(size) * u128::from(life)
    }

    /// Units times the caller's time in which nothing lives in the place of a piece.
    pub(super) fn idle(&self, piece: u32) -> u128 {
        self.area_until(piece, u32::MAX).saturating_sub(self.of(piece).content)
    }

    /// Whether a piece ends where nothing else happens.
    pub(super) fn is_alone(&self, piece: u32) -> bool {
        let end = self.of(piece).upper as usize;
        end + 1 < self.times.len() && self.begins[end].is_empty() && self.ends[end].len() == 1
    }

    /// Whether the place of a piece may end at an instant: it does, or it is not known when.
    pub(super) fn may_end(&self, piece: u32, instant: u32) -> bool {
        let Piece { upper, ended, latest, .. } = *self.of(piece);
        if upper == instant {
            return true;
        }
        (ended != upper || self.is_alone(piece)) && instant > ended && self.times[instant as usize] <= latest
    }

    /// Adds a piece; those it is made of leave the list.
    pub(super) fn add(&mut self, lower: u32, upper: u32, size: u64, made: Made) {
        let mut content = 0;
        for part in made.parts() {
            content += self.of(part).content;
            self.unlist(part);
            self.all[part as usize].taken = true;
        }
        let (mut most, mut latest) = (self.most(made).max(size), self.latest(made));
        if matches!(made, Made::Block(_)) {
            let (end, life) = (self.times[upper as usize], self.times[upper as usize] - self.times[lower as usize]);
            content = u128::from(size) * u128::from(life);
            most = size.saturating_add(size.saturating_mul(MOST_IDLE) / 100 + 1);
            latest = end.saturating_add(life.saturating_mul(MOST_IDLE) / 100 + 1);
        }
        let piece = narrow(self.all.len());
        let (ended, least) = (upper, size);
        self.all.push(Piece { lower, upper, ended, size, made, least, most, latest, content, taken: false });
        self.list(piece);
    }

    /// Takes a whole piece apart; its place is what it was made as from now on.
    pub(super) fn dissolve(&mut self, piece: u32) {
        self.unlist(piece);
        self.all[piece as usize].taken = true;
        for part in self.of(piece).made.parts() {
            self.all[part as usize].taken = false;
            self.list(part);
        }
    }

    /// Gives a whole piece the place back that its parts take.
    pub(super) fn shrink(&mut self, piece: u32) {
        self.unlist(piece);
        let Piece { ended, least, .. } = *self.of(piece);
        self.all[piece as usize].upper = ended;
        self.all[piece as usize].size = least;
        self.list(piece);
    }

    fn list(&mut self, piece: u32) {
        let Piece { lower, upper, .. } = *self.of(piece);
        self.begins[lower as usize].push(piece);
        self.ends[upper as usize].push(piece);
    }

    fn unlist(&mut self, piece: u32) {
        let Piece { lower, upper, .. } = *self.of(piece);
        self.begins[lower as usize].retain(|&other| other != piece);
        self.ends[upper as usize].retain(|&other| other != piece);
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
