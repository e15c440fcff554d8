//! Products of bytes with AMX tiles. The packed format of [`crate::gemm::int8`] is that of a tile,
//! so it is read in place. The part of K beyond whole steps of sixty-four is copied, for each panel
//! and each block of rows.
use crate::amx::block::{Left, Right, STEPS, Shaped, TOGETHER, depth, product, tile_len};
use crate::amx::{Tiles, UnsignedSigned};
use crate::gemm::int8::GemmInt8;
use crate::scratch::with_scratch;
use crate::view::{Out, seen_as_mut};
use std::ops::Range;

/// Numbers in a tile of B.
const TILE: usize = tile_len::<i8>();
/// Length along k of one step.
const DEPTH: usize = depth::<u8>();

/// Does the units as [`GemmInt8::run`] specifies.
pub(super) fn run<T: Tiles>(g: &GemmInt8, units: Range<usize>, a: &[u8], packed: &[i8], out: &mut Out<'_, i32>) {
    let len = g.k.div_ceil(4) * 64;
    let (whole, steps) = (g.k / DEPTH, g.k.div_ceil(DEPTH));
    let most = g.panels_of(0).len();
    let direct = g.across() == 1 && g.n.is_multiple_of(16);
    let mut tiles = Shaped::<T>::none();
    let mut rest_a = [0u8; TOGETHER * DEPTH];
    let mut rest_b = vec![0i8; if whole < steps { most * TILE } else { 0 }];
    let mut rest_of = None;
    with_scratch(if direct { 0 } else { TOGETHER * most * 16 }, |sums| {
        // The working memory is lent as floats; here it holds integers of the same size.
        let Ok(sums) = seen_as_mut::<i32, _>(sums) else { return };
        for unit in units.start..units.end.min(g.units()) {
            let (rows, own) = (g.rows_of(unit), g.panels_of(unit));
            let packed = &packed[own.start * len..own.end * len];
            if whole < steps && rest_of.replace(own.start) != Some(own.start) {
                for (to, panel) in rest_b.chunks_exact_mut(TILE).zip(packed.chunks_exact(len)) {
                    let from = &panel[whole * TILE..];
                    to[..from.len()].copy_from_slice(from);
                }
            }
            let mut right = Right { data: packed, panel: len, whole, rest: &rest_b };
            let width = own.len() * 16;
            for i in rows.clone().step_by(TOGETHER) {
                let count = TOGETHER.min(rows.end - i);
                let a = &a[i * g.a_row..];
                if whole < steps {
                    for (r, to) in rest_a.chunks_exact_mut(DEPTH).take(count).enumerate() {
                        let from = &a[r * g.a_row + whole * DEPTH..r * g.a_row + g.k];
                        to[..from.len()].copy_from_slice(from);
                    }
                }
                let left = Left { data: a, stride: g.a_row, whole, rest: &rest_a };
                let shape = [count, own.len(), steps];
                if direct {
                    let to = out.part(i * g.n, count * g.n);
                    product::<T, UnsignedSigned>(tiles.of(count), shape, STEPS, &left, &mut right, to, width);
                    continue;
                }
                product::<T, UnsignedSigned>(tiles.of(count), shape, STEPS, &left, &mut right, sums, width);
                let (first, wide) = (own.start * 16, width.min(g.n - own.start * 16));
                for (r, row) in sums.chunks_exact(width).take(count).enumerate() {
                    out.part((i + r) * g.n + first, wide).copy_from_slice(&row[..wide]);
                }
            }
        }
    });
}

/// Minimum number of rows for which tiles are worthwhile: with fewer, reading B takes the time.
pub(super) const LEAST_ROWS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amx::software::Software;
    use crate::gemm::{pack_int8, packed_int8_len};
    use crate::view::block_range;
    use proptest::prelude::*;

    fn bytes(n: usize, seed: u64) -> Vec<u8> {
        let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..n)
            .map(|_| {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                (s >> 40) as u8
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
        #[test]
        fn tiles_give_the_sums_of_the_other_instructions(
            m in 1usize..70, n in 1usize..150, k in 0usize..2600, more in 0usize..40, wide in any::<bool>(), seed in 1u64..9999,
        ) {
            // Sometimes more columns than a unit has.
            let n = if wide { n + crate::gemm::int8::PANELS * 16 - 40 } else { n };
            let g = GemmInt8 { m, n, k, a_row: k + more };
            // No byte follows the last row, so that reading beyond it panics.
            let a = bytes((m - 1) * g.a_row + k, seed);
            let b: Vec<i8> = bytes(k * n, seed + 1).into_iter().map(|v| v as i8).collect();
            let mut packed = vec![0i8; packed_int8_len(k, n)];
            pack_int8(&b, k, n, n, 1, &mut packed);
            let (mut want, mut got) = (vec![0i32; m * n], vec![-1i32; m * n]);
            g.by_vectors(0..g.units(), &a, &packed, &mut Out::new(&mut want));
            for block in [2, 0, 1] {
                run::<Software>(&g, block_range(g.units(), block, 3), &a, &packed, &mut Out::new(&mut got));
            }
            prop_assert_eq!(&got, &want);
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            {
                got.fill(-1);
                run::<crate::amx::emulated::Emulated>(&g, 0..g.units(), &a, &packed, &mut Out::new(&mut got));
                prop_assert_eq!(got, want);
            }
        }
    }
}
