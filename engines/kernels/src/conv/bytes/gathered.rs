//! Convolutions of bytes with AMX tiles: the product of the filter, one row for each output
//! channel, and panels of sixteen output positions that are gathered from the copy.
//!
//! A panel has, for each block of four channels and each tap, the sixty-four bytes that its
//! positions read. Each tile of it serves all output channels, so that gathering costs little, and
//! only the end of the whole sum is padded to the depth of a tile. The panels of two vectors stay
//! in the first-level cache while the filter passes by. The packed filter is divided into steps of
//! half the depth of a tile; each run copies it to whole rows.
use super::joined::{Spot, check_copy};
use super::tile::{DEEP, Step};
use crate::amx::block::{Left, Right, TOGETHER, product, shapes, tile_len};
use crate::amx::{BYTES, ROWS, SignedUnsigned, Tiles};
use crate::scratch::with_scratch;
use crate::view::as_bytes_mut;

/// Bytes of a tile.
const TILE: usize = tile_len::<u8>();
/// Blocks of four channels of a step of the packed filter.
const FOURS: usize = DEEP / 4;
/// Panels that are gathered together.
const PAIR: usize = 2;

/// Rows of the first factor, `stride` bytes apart.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) data: &'a [i8],
    pub(super) stride: usize,
}

impl Rows<'_> {
    /// No rows, for ways that need none.
    pub(super) const NONE: Self = Rows { data: &[], stride: 0 };
}

/// Fewest rows of sums.
pub(super) const LEAST: usize = ROWS;

/// Steps of a tile's depth in the sums of this many blocks of four channels with this many taps.
pub(super) fn steps(fours: usize, taps: usize) -> usize {
    fours.saturating_mul(taps).div_ceil(ROWS)
}

/// Bytes from one row to the next: an odd number of cache lines, so that the rows of a tile are in
/// different sets of the cache.
pub(super) fn stride(steps: usize) -> usize {
    (steps | 1) * BYTES
}

/// One for each element of a row that is one of `deep` input channels, in the order of
/// [`copy_rows`]; zero for those that fill the last block of four channels.
pub(super) fn ones(deep: usize, taps: usize) -> Vec<u8> {
    let lengths = (0..deep).step_by(DEEP).map(|c| (deep - c).min(DEEP));
    let steps = lengths.flat_map(|len| std::iter::repeat_n(len, taps));
    steps.flat_map(|len| (0..len.next_multiple_of(4)).map(move |c| u8::from(c < len))).collect()
}

/// Copies the filters of the output channels from `first` on to rows that are [`stride`] apart. The
/// packed filter must have all of them.
pub(super) fn copy_rows(s: &Step<'_>, first: usize, to: &mut [i8]) {
    let (taps, stride) = (s.places.len(), stride(steps(s.fours, s.places.len())));
    for c in 0..s.fours.div_ceil(FOURS) {
        let len = (s.fours - c * FOURS).min(FOURS) * 4;
        for t in 0..taps {
            let at = c * taps * DEEP + t * len;
            let from = s.filter[(c * taps + t) * s.stride + first * DEEP..].as_chunks::<DEEP>().0;
            for (to, from) in to.chunks_exact_mut(stride).zip(from) {
                match to[at..].first_chunk_mut::<DEEP>() {
                    Some(to) if len == DEEP => *to = *from,
                    _ => to[at..at + len].copy_from_slice(&from[..len]),
                }
            }
        }
    }
}

/// The sums over these vectors of positions, one row for each row of the filter that `sums` has
/// room for, a multiple of sixteen.
pub(super) fn sums<T: Tiles>(s: &Step<'_>, filter: Rows<'_>, spots: &[Spot], sums: &mut [i32]) {
    let (steps, width) = (steps(s.fours, s.places.len()), spots.len() * ROWS);
    if steps == 0 || width == 0 {
        return sums.fill(0);
    }
    let (panel, count) = (steps * TILE, sums.len() / width);
    assert!(count.is_multiple_of(ROWS), "rows of the filter are padded");
    check_copy(s, spots);
    let mut t = T::configure(&shapes(TOGETHER));
    with_scratch(PAIR * panel / 4, |panels| {
        let panels = as_bytes_mut(panels);
        for (v, own) in spots.chunks(PAIR).enumerate() {
            for (spot, panel) in own.iter().zip(panels.chunks_exact_mut(panel)) {
                gather(s, spot, panel);
            }
            let mut right = Right { data: &*panels, panel, whole: steps, rest: &[] };
            for i in (0..count).step_by(TOGETHER) {
                let left =
                    Left { data: &filter.data[i * filter.stride..], stride: filter.stride, whole: steps, rest: &[] };
                let size = [TOGETHER.min(count - i), own.len(), steps];
                let to = &mut sums[i * width + v * PAIR * ROWS..];
                product::<T, SignedUnsigned>(&mut t, size, steps, &left, &mut right, to, width);
            }
        }
    });
}

/// Copies what a vector of positions reads to a panel. `check_copy` must hold.
fn gather(s: &Step<'_>, spot: &Spot, panel: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level() >= crate::simd::Level::Avx512 {
        // SAFETY: the level is only reported if the machine has its features.
        return unsafe { on_avx512(s, spot, panel) };
    }
    let (mut lines, fours) = (panel.as_chunks_mut::<BYTES>().0.iter_mut(), 0..s.fours);
    for c in fours.step_by(FOURS) {
        for place in s.places {
            for (f, line) in (c..s.fours.min(c + FOURS)).zip(&mut lines) {
                for (lane, to) in line.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    *to = match (spot.lanes >> lane & 1, spot.more >> lane & 1) {
                        (0, 0) => [0; 4],
                        (0, _) => s.copy[f * s.four + *place as usize + spot.next as usize + lane].to_le_bytes(),
                        _ => s.copy[f * s.four + *place as usize + spot.at as usize + lane].to_le_bytes(),
                    };
                }
            }
        }
    }
    lines.for_each(|line| line.fill(0));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn on_avx512(s: &Step<'_>, spot: &Spot, panel: &mut [u8]) {
    if spot.lanes == u16::MAX {
        lines::<false>(s, spot, panel);
    } else {
        lines::<true>(s, spot, panel);
    }
}

/// Copies the lines of a panel, from two places of the copy each if `JOINED`.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn lines<const JOINED: bool>(s: &Step<'_>, spot: &Spot, panel: &mut [u8]) {
    use std::arch::x86_64::*;
    let count = s.fours * s.places.len();
    let (lines, beyond) = panel.as_chunks_mut::<BYTES>().0.split_at_mut(count);
    let mut to = lines.as_mut_ptr();
    for c in (0..s.fours).step_by(FOURS) {
        let here = (s.fours - c).min(FOURS);
        for place in s.places {
            let x = s.copy.as_ptr().cast::<i32>().wrapping_add(c * s.four + *place as usize);
            let line = |f: usize| {
                let x = x.wrapping_add(f * s.four);
                let from = x.wrapping_add(spot.at as usize);
                // SAFETY: `check_copy` holds, lanes outside the masks are not read, and there is a
                // line for each block of four channels and each tap.
                unsafe {
                    let v = if JOINED {
                        let near = _mm512_maskz_loadu_epi32(spot.lanes, from);
                        _mm512_mask_loadu_epi32(near, spot.more, x.wrapping_add(spot.next as usize))
                    } else {
                        _mm512_loadu_si512(from.cast())
                    };
                    _mm512_storeu_si512(to.add(f).cast(), v);
                }
            };
            if here == FOURS {
                for f in 0..FOURS {
                    line(f);
                }
            } else {
                for f in 0..here {
                    line(f);
                }
            }
            to = to.wrapping_add(here);
        }
    }
    beyond.iter_mut().for_each(|line| line.fill(0));
}

#[cfg(test)]
mod tests {
    use super::super::joined;
    use super::super::tile as register;
    use super::*;
    use crate::amx::software::Software;
    use crate::simd::{Level, with_level};
    use proptest::prelude::*;

    fn noise(n: usize, seed: u64) -> impl Iterator<Item = u32> {
        let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..n).map(move |_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 24) as u32
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
        #[test]
        fn tiles_give_the_sums_of_the_register_tile(
            fours in 0usize..20, taps in 1usize..5, runs in 1usize..5, width in 1usize..40, between in 0usize..3,
            wide in 1usize..4, first in 0usize..3, seed in 1u64..9999,
        ) {
            let first = first.min(wide - 1) * 16;
            let rows = wide * 16 - first;
            let pitch = width + between;
            let spots = joined::of(width, pitch, runs);
            let places: Vec<u32> = noise(taps, seed).map(|v| v % 50).collect();
            let highest = *places.iter().max().unwrap() as usize;
            let flat = ((runs - 1) * pitch + width).next_multiple_of(16);
            let four = flat + highest + 3;
            let own = wide * 16 * DEEP;
            // The data ends with the last byte that is needed; reading further panics.
            let filter: Vec<i8> = noise(fours.div_ceil(8) * taps * own, seed + 1).map(|v| v as i8).collect();
            let last = if joined::takes(width, pitch) { (runs - 1) * pitch + width } else { flat };
            let copy: Vec<u32> = noise((fours * four).saturating_sub(four - highest - last), seed + 2).collect();
            let places = &places[..if fours == 0 { 0 } else { taps }];
            let step = Step { filter: &filter, stride: own, places, fours, four, copy: &copy };
            let plain = Step { copy: &copy.iter().copied().chain([0; 64]).collect::<Vec<_>>(), ..step };
            let mut want = vec![0i32; rows * flat];
            for (r, want) in want.chunks_exact_mut(register::ROWS * flat).enumerate() {
                register::plain(&plain, first + r * register::ROWS, flat / 16, want);
            }
            let stride = stride(steps(step.fours, step.places.len()));
            let mut data = vec![77i8; rows * stride];
            copy_rows(&step, first, &mut data);
            let mut got = vec![-1i32; rows * spots.len() * 16];
            let check = |got: &[i32]| -> Result<(), TestCaseError> {
                for (got, want) in got.chunks_exact(spots.len() * 16).zip(want.chunks_exact(flat)) {
                    if joined::takes(width, pitch) {
                        let want: Vec<i32> = want.chunks(pitch).flat_map(|row| &row[..width.min(row.len())]).copied().collect();
                        prop_assert_eq!(&got[..runs * width], &want[..runs * width]);
                    } else {
                        prop_assert_eq!(got, want);
                    }
                }
                Ok(())
            };
            for level in [Level::Scalar, Level::Amx] {
                with_level(level, || super::sums::<Software>(&step, Rows { data: &data, stride }, &spots, &mut got));
                check(&got)?;
                got.fill(-1);
            }
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            {
                super::sums::<crate::amx::emulated::Emulated>(&step, Rows { data: &data, stride }, &spots, &mut got);
                check(&got)?;
            }
        }
    }
}
