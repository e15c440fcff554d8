//! A piece of a packing: a block, or several pieces whose places relative to each other are known.

/// How a piece is made from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Made {
    /// A single block.
    Block(u32),
    /// The second piece lies on the first.
    Stack([u32; 2]),
    /// The second follows the first in time.
    Row([u32; 2]),
    /// Four pieces around a fifth, which no straight cut can separate.
    Wheel(Wheel),
}

/// The arrangement in time: first `early` above `low`; then `middle` between `low` and `high`; then
/// `high` above `late`.
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
    /// Its end before the place was assumed to be kept longer.
    pub(super) ended: u32,
    /// Size in units.
    pub(super) size: u64,
    pub(super) made: Made,
    /// Size in units before the place was assumed to be larger.
    pub(super) least: u64,
    /// Greatest size in units that its place may have.
    pub(super) most: u64,
    /// Latest end of its place, in the caller's time.
    pub(super) latest: u64,
    /// Content of its blocks, in units times the caller's time.
    pub(super) content: u128,
    /// Whether it is part of another piece, or was taken apart.
    pub(super) taken: bool,
    /// The piece that it is part of.
    pub(super) parent: u32,
    /// A number that is equal for pieces made from the same blocks in the same way.
    pub(super) fingerprint: u64,
}

/// A list of up to five pieces.
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
    /// The pieces that it is made from.
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
