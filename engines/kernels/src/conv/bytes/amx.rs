//! The register tile by the tile registers of the machine: sixteen output channels by four vectors
//! of positions.
//!
//! Both operands are already laid out as tiles. Rows of A are 32 channels of the filter of an
//! output channel, one after the other in the packed filter. Rows of B are blocks of four channels
//! of sixteen positions, as in the copy. A tap is a step of half the depth of a tile. Joining two
//! taps would need a copy of the filter in every run.
use super::tile::{DEEP, MOST_ROWS, Step};
use crate::amx::{Shapes, SignedUnsigned, Tiles};
use crate::view::as_bytes;

/// Fewest blocks of four channels for which tiles pay. With fewer, most of their depth is empty.
pub(super) const LEAST_FOURS: usize = 4;
/// Blocks of four channels of a step.
const FOURS: usize = DEEP / 4;
/// Vectors of positions whose sums are in tiles at a time.
const VECTORS: usize = 4;

/// Tiles 0 to 3 hold sums; 4 and 5 whole steps of A and B; 6 and 7 the last, shorter steps.
fn shapes(rows: usize, last: usize) -> Shapes {
    let sums = (rows, 64);
    let part = |shape: (usize, usize)| if last == 0 { (0, 0) } else { shape };
    [sums, sums, sums, sums, (rows, DEEP), (FOURS, 64), part((rows, last * 4)), part((last, 64))]
}

/// The sums of output channels `first..first + rows` over `vectors` vectors of positions.
pub(super) fn tile<T: Tiles>(s: &Step<'_>, first: usize, rows: usize, vectors: usize, sums: &mut [i32]) {
    assert!(rows <= MOST_ROWS);
    let mut t = T::configure(&shapes(rows, s.fours % FOURS));
    let mut v = 0;
    while v < vectors {
        let sums = &mut sums[v * 16..];
        v += match vectors - v {
            1 => some::<T, 1>(&mut t, s, first, v, vectors, sums),
            2 | 5 => some::<T, 2>(&mut t, s, first, v, vectors, sums),
            3 | 6 => some::<T, 3>(&mut t, s, first, v, vectors, sums),
            _ => some::<T, VECTORS>(&mut t, s, first, v, vectors, sums),
        };
    }
}

/// Computes `P` vectors beginning with vector `v`. Returns `P`.
fn some<T: Tiles, const P: usize>(
    t: &mut T,
    s: &Step<'_>,
    first: usize,
    v: usize,
    vectors: usize,
    sums: &mut [i32],
) -> usize {
    t.zero::<0>();
    t.zero::<1>();
    t.zero::<2>();
    t.zero::<3>();
    let copy = as_bytes(s.copy);
    let apart = s.four * 4;
    for c in 0..s.fours.div_ceil(FOURS) {
        for (at, place) in s.places.iter().enumerate() {
            let filter = &s.filter[(c * s.places.len() + at) * s.stride + first * DEEP..];
            let x = &copy[(c * FOURS * s.four + *place as usize + v * 16) * 4..];
            if s.fours - c * FOURS >= FOURS {
                step::<T, P, 4, 5>(t, filter, x, apart);
            } else {
                step::<T, P, 6, 7>(t, filter, x, apart);
            }
        }
    }
    let stride = vectors * 16;
    t.store::<0, _>(sums, stride);
    if P > 1 {
        t.store::<1, _>(&mut sums[16..], stride);
    }
    if P > 2 {
        t.store::<2, _>(&mut sums[32..], stride);
    }
    if P > 3 {
        t.store::<3, _>(&mut sums[48..], stride);
    }
    P
}

/// Multiplies one step of channels of one tap.
#[inline(always)]
fn step<T: Tiles, const P: usize, const A: usize, const B: usize>(t: &mut T, filter: &[i8], x: &[u8], apart: usize) {
    t.load::<A, _>(filter, DEEP);
    t.load::<B, _>(x, apart);
    t.dot::<SignedUnsigned, 0, A, B>();
    if P > 1 {
        t.load::<B, _>(&x[64..], apart);
        t.dot::<SignedUnsigned, 1, A, B>();
    }
    if P > 2 {
        t.load::<B, _>(&x[128..], apart);
        t.dot::<SignedUnsigned, 2, A, B>();
    }
    if P > 3 {
        t.load::<B, _>(&x[192..], apart);
        t.dot::<SignedUnsigned, 3, A, B>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amx::software::Software;
    use crate::conv::bytes::tile as register;
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
            fours in 0usize..20, taps in 1usize..5, vectors in 1usize..12, wide in 1usize..3, first in 0usize..3,
            both in any::<bool>(), seed in 1u64..9999,
        ) {
            let first = (first * register::ROWS).min(wide * 16 - register::ROWS);
            let rows = if both && first + MOST_ROWS <= wide * 16 { MOST_ROWS } else { register::ROWS };
            let places: Vec<u32> = noise(taps, seed).map(|v| v % 50).collect();
            let highest = *places.iter().max().unwrap() as usize;
            let four = vectors * 16 + highest + 3;
            let stride = wide * 16 * DEEP;
            // The data ends with the last byte that is needed; reading further panics.
            let filter: Vec<i8> = noise(fours.div_ceil(8) * taps * stride, seed + 1).map(|v| v as i8).collect();
            let copy: Vec<u32> = noise(if fours == 0 { 0 } else { (fours - 1) * four + highest + vectors * 16 }, seed + 2).collect();
            let step = Step { filter: &filter, stride, places: &places[..if fours == 0 { 0 } else { taps }], fours, four, copy: &copy };
            let (mut want, mut got) = (vec![0i32; rows * vectors * 16], vec![-1i32; rows * vectors * 16]);
            for (r, want) in want.chunks_exact_mut(register::ROWS * vectors * 16).enumerate() {
                register::plain(&step, first + r * register::ROWS, vectors, want);
            }
            super::tile::<Software>(&step, first, rows, vectors, &mut got);
            prop_assert_eq!(&got, &want);
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            {
                got.fill(-1);
                super::tile::<crate::amx::emulated::Emulated>(&step, first, rows, vectors, &mut got);
                prop_assert_eq!(got, want);
            }
        }
    }
}
