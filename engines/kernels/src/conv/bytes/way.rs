//! The ways to compute the sums of a strip of output positions, and what they need of the filter.
use super::gathered::{self, Rows};
use super::joined::{self, Spot};
use super::tile::{self, DEEP, Kept, ROWS, Step};
use crate::gemm::int8::dot_rows;

/// How the sums of a strip are computed.
pub(super) enum Way {
    /// By the register tile, over this many vectors of the copy as it is.
    Plain(usize),
    /// By the register tile, over output positions alone.
    Joined(Vec<Spot>),
    /// By AMX tiles. The second part tells whether these are output positions alone.
    Gathered(Vec<Spot>, bool),
}

impl Way {
    /// The way for `runs` rows of `width` positions, `pitch` apart in the copy.
    pub(super) fn of(gathered: bool, width: usize, pitch: usize, runs: usize) -> Way {
        if gathered {
            return Way::Gathered(joined::of(width, pitch, runs), joined::takes(width, pitch));
        }
        let flat = || ((runs - 1) * pitch + width).div_ceil(16);
        joined::spots(width, pitch, runs).map_or_else(|| Way::Plain(flat()), Way::Joined)
    }

    /// Vectors of positions of a row of sums.
    pub(super) fn vectors(&self) -> usize {
        match self {
            Way::Plain(vectors) => *vectors,
            Way::Joined(spots) | Way::Gathered(spots, _) => spots.len(),
        }
    }

    /// Whether a row of sums has output positions alone.
    pub(super) fn is_joined(&self) -> bool {
        matches!(self, Way::Joined(_) | Way::Gathered(_, true))
    }

    /// The sums of the output channels from `first` on, one row per channel: eight, or for AMX
    /// tiles those of `rows`.
    pub(super) fn sums(&self, s: &Step<'_>, first: usize, rows: Rows<'_>, kept: &mut Kept, sums: &mut [i32]) {
        match self {
            Way::Plain(vectors) => tile::tile(s, first, *vectors, kept, sums),
            Way::Joined(spots) => joined::tile(s, first, spots, sums),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Way::Gathered(spots, _) => gathered::sums::<crate::amx::hardware::Hardware>(s, rows, spots, sums),
            #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
            Way::Gathered(..) => unreachable!("no tiles here"),
        }
    }

    /// The sum of the bytes that each position reads. `sums` is working memory for the sums of a
    /// unit.
    pub(super) fn totals(&self, s: &Step<'_>, sums: &mut [i32], to: &mut [i32]) {
        let flat = self.vectors() * 16;
        // Rows of ones add up the bytes.
        match self {
            Way::Gathered(..) => {
                let ones = vec![1i8; gathered::stride(gathered::steps(s.fours, s.places.len()))];
                self.sums(
                    s,
                    0,
                    Rows { data: &ones, stride: 0 },
                    &mut Kept::default(),
                    &mut sums[..gathered::LEAST * flat],
                );
            }
            _ => {
                let ones = [1i8; ROWS * DEEP];
                let step = Step { filter: &ones, stride: 0, ..*s };
                self.sums(&step, 0, Rows::NONE, &mut Kept::default(), &mut sums[..ROWS * flat]);
            }
        }
        to[..flat].copy_from_slice(&sums[..flat]);
    }
}

/// The rows of the filters of a group that AMX tiles read. They are copied when they are needed.
pub(super) struct FilterRows<'m> {
    room: &'m mut [i8],
    /// Output channels of a block, and bytes of a row.
    rows: usize,
    stride: usize,
    /// Which blocks of the group have been copied.
    copied: Vec<bool>,
    /// One for each byte of a row that is an element of the filter, zero for the others.
    ones: Vec<u8>,
}

impl<'m> FilterRows<'m> {
    /// Rows of `rows` output channels for each of `blocks` blocks, with `deep` input channels and
    /// `taps` taps each; no rows if their `stride` is 0. The memory must have room for them; none
    /// are there yet.
    pub(super) fn new(
        room: &'m mut [i8],
        [blocks, rows, stride]: [usize; 3],
        [deep, taps]: [usize; 2],
    ) -> FilterRows<'m> {
        let ones = if stride == 0 { vec![] } else { gathered::ones(deep, taps) };
        FilterRows { room, rows, stride, copied: vec![false; blocks], ones }
    }

    /// Another group follows.
    pub(super) fn forget(&mut self) {
        self.copied.fill(false);
    }

    /// The rows of a block, whose first output channel is `first`.
    pub(super) fn of(&mut self, s: &Step<'_>, block: usize, first: usize) -> Rows<'_> {
        let size = self.rows * self.stride;
        if size == 0 {
            return Rows::NONE;
        }
        let own = &mut self.room[block * size..][..size];
        if !std::mem::replace(&mut self.copied[block], true) {
            gathered::copy_rows(s, first, own);
        }
        Rows { data: own, stride: self.stride }
    }

    /// The sum of row `row` of a block that has been copied; `None` if there are no rows.
    pub(super) fn sum(&self, block: usize, row: usize) -> Option<i32> {
        let at = (block * self.rows + row) * self.stride;
        let (own, mut sum) = (self.room.get(at..at + self.stride)?, [0]);
        let row = own.get(..self.ones.len()).filter(|row| !row.is_empty())?;
        dot_rows(&self.ones, row, &mut sum);
        Some(sum[0])
    }
}
