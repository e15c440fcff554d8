//! A piece of a packing: a block, or pieces put together whose places relative to each other are known.

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
    /// The piece that it is part of.
    pub(super) parent: u32,
    /// A number that pieces made of the same blocks in the same way share.
    pub(super) fingerprint: u64,
}

/// Up to five pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    list: [u32; 5],
    count: usize,
}

impl std::ops::Deref for Parts {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.list[..self.count]
    }
}

impl Made {
    /// The pieces it is made of.
    pub(super) fn parts(&self) -> Parts {
        match *self {
            Self::Block(_) => Parts { list: [0; 5], count: 0 },
            Self::Stack([one, two]) | Self::Row([one, two]) => Parts { list: [one, two, 0, 0, 0], count: 2 },
            Self::Wheel(Wheel { early, low, middle, high, late }) => {
                Parts { list: [early, low, middle, high, late], count: 5 }
            }
        }
    }
}
