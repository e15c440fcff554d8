//! Filters transformed for minimal filtering in integers before any run, in a layout that does not
//! depend on the instruction set. For each eight output channels of a group (the last block may
//! have fewer, and is filled with zeros), for each of the 36 places and for each pair of input
//! channels there are eight pairs of 16-bit numbers. The sum of each output channel's filter
//! follows, in 32 bits.
use super::{LANES, PLACES, ROWS, SIDE, takes};
use crate::conv::bytes::of_channel;
use crate::conv::spec::ConvSpec;
use crate::view::cast_slice;

/// Sums of an output channel must stay below this, whatever the bytes are.
const LIMIT: i64 = 1 << 25;

/// Pairs of 16-bit numbers of the transformed filters of a group.
fn group_len(s: &ConvSpec) -> Option<usize> {
    let rows = (s.channels_out / s.groups).div_ceil(ROWS).checked_mul(PLACES * ROWS)?;
    rows.checked_mul((s.channels_in / s.groups).div_ceil(2))
}

/// Bytes of the transformed filters of a convolution and the sums that follow them. `None` if
/// minimal filtering does not apply, or if they are too many to count.
pub fn changed_filters_len(s: &ConvSpec) -> Option<usize> {
    if !takes(s) || s.groups == 0 {
        return None;
    }
    group_len(s)?.checked_mul(s.groups)?.checked_add(s.channels_out)?.checked_mul(4)
}

/// `S G g` of three numbers.
#[inline(always)]
pub(super) fn taps(g: [i32; 3]) -> [i32; SIDE] {
    let [near, far] = [g[0] + g[2], g[0] + 4 * g[2]];
    [g[0], -near - g[1], g[1] - near, far + 2 * g[1], far - 2 * g[1], g[2]]
}

/// Transforms a filter `[O, C / groups, 3, 3]` minus its zero points: one, or one per output
/// channel; empty means zero. `None` if minimal filtering does not apply, if a sum of products
/// could be too large for it, if a zero point is not in -256..256, or if `w` does not have the
/// length of the filter.
pub fn change_filters(s: &ConvSpec, w: &[i8], zeros: &[i32]) -> Option<Vec<u8>> {
    let mut to = vec![0; changed_filters_len(s)?];
    let (deep, own) = (s.channels_in / s.groups, s.channels_out / s.groups);
    let one = |o: usize| of_channel(zeros, o);
    if w.len() != s.channels_out.checked_mul(deep * 9)? || (0..s.channels_out).any(|o| !(-256..256).contains(&one(o))) {
        return None;
    }
    let group = group_len(s)? * 4;
    let (all, sums) = to.split_at_mut(group * s.groups);
    for (o, (w, sum)) in w.chunks_exact((deep * 9).max(1)).zip(sums.as_chunks_mut::<4>().0).enumerate() {
        let zero = one(o);
        let [mut above, mut below] = [0i64; 2];
        for v in w.iter().map(|v| i64::from(*v) - i64::from(zero)) {
            *(if v > 0 { &mut above } else { &mut below }) += v;
        }
        if above.max(-below) * 255 >= LIMIT {
            return None;
        }
        *sum = ((above + below) as i32).to_le_bytes();
        let (g, row) = (o / own, o % own);
        let block = &mut all[g * group + row / ROWS * PLACES * deep.div_ceil(2) * ROWS * 4..];
        for (c, w) in w.as_chunks::<9>().0.iter().enumerate() {
            let v = w.map(|v| i32::from(v) - zero);
            let down: [[i32; SIDE]; 3] = std::array::from_fn(|k| taps([v[k], v[3 + k], v[6 + k]]));
            let across: [[i32; SIDE]; SIDE] = std::array::from_fn(|i| taps(down.map(|d| d[i])));
            for (i, places) in across.into_iter().enumerate() {
                for (j, v) in places.into_iter().enumerate() {
                    let pair = ((i * SIDE + j) * deep.div_ceil(2) + c / 2) * ROWS + row % ROWS;
                    block[pair * 4 + c % 2 * 2..][..2].copy_from_slice(&(v as i16).to_le_bytes());
                }
            }
        }
    }
    Some(to)
}

/// Transformed filters in the layout that the products read.
#[derive(Clone, Copy)]
pub(in super::super) struct Changed<'a> {
    pairs: &'a [u32],
    /// The sum of each output channel's filter.
    pub(super) sums: &'a [i32],
    /// Number of pairs of a group, and of eight of its output channels.
    each: [usize; 2],
}

impl<'a> Changed<'a> {
    /// Reads the result of `change_filters` for this convolution. `None` if it is too short or not
    /// aligned for 32-bit words.
    pub(in super::super) fn of(s: &ConvSpec, bytes: &'a [u8]) -> Option<Changed<'a>> {
        let whole = bytes.get(..changed_filters_len(s)?)?;
        let group = group_len(s)?;
        let (pairs, sums) = whole.split_at(group * s.groups * 4);
        let block = PLACES * ROWS * (s.channels_in / s.groups).div_ceil(2);
        Some(Changed { pairs: cast_slice(pairs).ok()?, sums: cast_slice(sums).ok()?, each: [group, block] })
    }

    /// The pairs of the eight output channels of group `g` that begin at `o`.
    pub(super) fn rows(&self, g: usize, o: usize) -> &'a [u32] {
        &self.pairs[g * self.each[0] + o / ROWS * self.each[1]..][..self.each[1]]
    }
}

const _: () = assert!(LANES == 16 && ROWS == 8);
