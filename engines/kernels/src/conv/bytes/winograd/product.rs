//! The products of one place: eight output channels by vectors of sixteen tiles, summed over pairs
//! of channels. The machine multiplies and adds pairs of 16-bit numbers in one step.
use super::{LANES, PLACES, ROWS};

/// If at most this many tiles follow the last full vector, their lanes are the output channels.
const FEW: usize = 6;

/// `products[r][place][tile] = sum_c filter[c][r] seen[c][tile]`. Rows of `seen` have `wide`
/// elements, of which `tiles`, rounded up to whole vectors, are read and written.
pub(super) fn rows(filter: &[u32], seen: &[u32], [wide, tiles]: [usize; 2], place: usize, products: &mut [i32]) {
    let (pairs, vectors) = (filter.len() / ROWS, tiles.div_ceil(LANES));
    assert!(filter.len() == pairs * ROWS && seen.len() >= pairs * wide && vectors * LANES <= wide);
    assert!(place < PLACES && products.len() >= ROWS * PLACES * vectors * LANES);
    #[cfg(target_arch = "x86_64")]
    {
        if crate::simd::level::vnni() {
            let few = if tiles % LANES <= FEW { tiles % LANES } else { 0 };
            // SAFETY: the machine was asked for the features, and the lengths were checked above.
            return unsafe {
                vnni(filter, seen, [wide, vectors, vectors - usize::from(few > 0)], place, products);
                vnni_few(filter, seen, [wide, vectors, few], place, products);
            };
        }
        if crate::simd::level() >= crate::simd::Level::Avx512 {
            // SAFETY: as above.
            return unsafe { avx512(filter, seen, [wide, vectors, vectors], place, products) };
        }
        if crate::simd::level() >= crate::simd::Level::Avx2 {
            // SAFETY: as above.
            return unsafe { avx2(filter, seen, [wide, tiles], place, products) };
        }
    }
    plain(filter, seen, [wide, vectors], place, products);
}

/// Computes the last `few` tiles of the last vector, with eight output channels as lanes.
///
/// # Safety
/// The machine must have the features, and the lengths must be those that [`rows`] checks.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn vnni_few(filter: &[u32], seen: &[u32], [wide, vectors, few]: [usize; 3], place: usize, products: &mut [i32]) {
    let first = (vectors.max(1) - 1) * LANES;
    let (mut tile, end) = (first, first + few);
    while tile < end {
        // SAFETY: as the caller guarantees; the tiles exist.
        unsafe {
            tile += match end - tile {
                1 => few_tiles::<1, 8>(filter, seen, [wide, vectors], [place, tile], products),
                2 => few_tiles::<2, 4>(filter, seen, [wide, vectors], [place, tile], products),
                _ => few_tiles::<3, 4>(filter, seen, [wide, vectors], [place, tile], products),
            };
        }
    }
}

/// Computes `T` tiles beginning with `tile`, by `CHAINS` pairs of channels at a time, so that their
/// sums do not wait for each other. Returns `T`.
///
/// # Safety
/// The machine must have the features, the lengths must be those that [`rows`] checks, and the
/// tiles must exist.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn few_tiles<const T: usize, const CHAINS: usize>(
    filter: &[u32],
    seen: &[u32],
    [wide, vectors]: [usize; 2],
    [place, tile]: [usize; 2],
    products: &mut [i32],
) -> usize {
    use std::arch::x86_64::*;
    let mut acc = [[_mm256_setzero_si256(); T]; CHAINS];
    let mut x = seen.as_ptr().wrapping_add(tile);
    for filters in filter.chunks(CHAINS * ROWS) {
        for (w, acc) in filters.as_chunks::<ROWS>().0.iter().zip(&mut acc) {
            for (t, acc) in acc.iter_mut().enumerate() {
                // SAFETY: the input has a row for each pair of the filter, and these tiles are in
                // it.
                unsafe {
                    let x = _mm256_set1_epi32(x.add(t).read() as i32);
                    *acc = _mm256_dpwssd_epi32(*acc, x, _mm256_loadu_si256(w.as_ptr().cast()));
                }
            }
            x = x.wrapping_add(wide);
        }
    }
    let (sum, more) = acc.split_at_mut(1);
    for more in more {
        for (sum, more) in sum[0].iter_mut().zip(more) {
            *sum = _mm256_add_epi32(*sum, *more);
        }
    }
    for (t, sum) in acc[0].iter().enumerate() {
        let mut sums = [0i32; ROWS];
        // SAFETY: this writes eight numbers.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), *sum) };
        for (r, sum) in sums.into_iter().enumerate() {
            products[(r * PLACES + place) * vectors * LANES + tile + t] = sum;
        }
    }
    T
}

crate::multiversion! {
    fn plain(filter: &[u32], seen: &[u32], sizes: [usize; 2], place: usize, products: &mut [i32]) {
        let [wide, vectors] = sizes;
        let halves = |v: u32| [i32::from(v as i16), (v as i32) >> 16];
        for r in 0..ROWS {
            for v in 0..vectors {
                let mut sum = [0i32; LANES];
                for (w, x) in filter.as_chunks::<ROWS>().0.iter().zip(seen.chunks(wide)) {
                    let [a, b] = halves(w[r]);
                    let Some(x) = x[v * LANES..].first_chunk::<LANES>() else { continue };
                    for (sum, x) in sum.iter_mut().zip(x) {
                        let [c, d] = halves(*x);
                        *sum = sum.wrapping_add(a * c + b * d);
                    }
                }
                products[((r * PLACES + place) * vectors + v) * LANES..][..LANES].copy_from_slice(&sum);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! tile {
    ($name:ident, $one:ident, $features:literal, |$sum:ident, $x:ident, $w:ident| $step:expr) => {
        /// # Safety
        /// The machine must have the features, and the lengths must be those that [`rows`] checks.
        #[target_feature(enable = $features)]
        unsafe fn $name(
            filter: &[u32],
            seen: &[u32],
            [wide, all, vectors]: [usize; 3],
            place: usize,
            products: &mut [i32],
        ) {
            let sizes = [wide, all];
            let mut v = 0;
            while v < vectors {
                // SAFETY: as the caller guarantees; the vectors exist.
                unsafe {
                    v += match vectors - v {
                        1 => $one::<1>(filter, seen, sizes, [place, v], products),
                        2 | 4 => $one::<2>(filter, seen, sizes, [place, v], products),
                        _ => $one::<3>(filter, seen, sizes, [place, v], products),
                    };
                }
            }
        }

        /// Computes `NP` vectors beginning with vector `v`. Returns `NP`.
        ///
        /// # Safety
        /// As above, and the vectors must exist.
        #[target_feature(enable = $features)]
        unsafe fn $one<const NP: usize>(
            filter: &[u32],
            seen: &[u32],
            [wide, vectors]: [usize; 2],
            [place, v]: [usize; 2],
            products: &mut [i32],
        ) -> usize {
            use std::arch::x86_64::*;
            let mut acc = [[_mm512_setzero_si512(); NP]; ROWS];
            let (mut w, mut x) = (filter.as_ptr(), seen.as_ptr().wrapping_add(v * LANES));
            for _ in 0..filter.len() / ROWS {
                // SAFETY: filter and input have that many pairs.
                unsafe {
                    let lanes: [__m512i; NP] = std::array::from_fn(|p| _mm512_loadu_si512(x.add(p * LANES).cast()));
                    for (r, acc) in acc.iter_mut().enumerate() {
                        let $w = _mm512_set1_epi32(w.add(r).read() as i32);
                        for ($sum, $x) in acc.iter_mut().zip(lanes) {
                            *$sum = $step;
                        }
                    }
                }
                (w, x) = (w.wrapping_add(ROWS), x.wrapping_add(wide));
            }
            for (r, acc) in acc.iter().enumerate() {
                for (p, a) in acc.iter().enumerate() {
                    let at = ((r * PLACES + place) * vectors + v + p) * LANES;
                    // SAFETY: the products have these vectors.
                    unsafe { _mm512_storeu_si512(products.as_mut_ptr().add(at).cast(), *a) };
                }
            }
            NP
        }
    };
}

#[cfg(target_arch = "x86_64")]
tile!(vnni, vnni_some, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni", |sum, x, w| _mm512_dpwssd_epi32(*sum, x, w));
#[cfg(target_arch = "x86_64")]
tile!(avx512, avx512_some, "avx512f,avx512bw,avx512dq,avx512vl", |sum, x, w| {
    _mm512_add_epi32(*sum, _mm512_madd_epi16(x, w))
});

/// Tiles of a register of eight lanes.
#[cfg(target_arch = "x86_64")]
const NARROW: usize = LANES / 2;
/// If at most this many tiles follow the last full register, their lanes are the output channels.
#[cfg(target_arch = "x86_64")]
const FEW_NARROW: usize = 4;

/// Computes as many sums at a time as the registers hold besides the operands: four output channels
/// by a vector, or eight by half of one, or by the last few tiles.
///
/// # Safety
/// The machine must have the features, and the lengths must be those that [`rows`] checks.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2(filter: &[u32], seen: &[u32], [wide, tiles]: [usize; 2], place: usize, products: &mut [i32]) {
    let few = if tiles % NARROW <= FEW_NARROW { tiles % NARROW } else { 0 };
    let (sizes, end) = ([wide, tiles.div_ceil(LANES)], (tiles - few).next_multiple_of(NARROW));
    // SAFETY: as the caller guarantees; the tiles exist, rounded up to whole registers.
    unsafe {
        for tile in (0..end - end % LANES).step_by(LANES) {
            narrow::<4, 2>(filter, seen, sizes, [place, 0, tile], products);
            narrow::<4, 2>(filter, seen, sizes, [place, 4, tile], products);
        }
        if end % LANES > 0 {
            narrow::<8, 1>(filter, seen, sizes, [place, 0, end - NARROW], products);
        }
        match few {
            0 => {}
            1 => narrow_few::<1>(filter, seen, sizes, [place, end], products),
            2 => narrow_few::<2>(filter, seen, sizes, [place, end], products),
            3 => narrow_few::<3>(filter, seen, sizes, [place, end], products),
            _ => narrow_few::<FEW_NARROW>(filter, seen, sizes, [place, end], products),
        }
    }
}

/// Computes `R` output channels from `first` on, by `P` registers beginning with tile `tile`.
///
/// # Safety
/// As for [`avx2`], and the tiles must exist.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn narrow<const R: usize, const P: usize>(
    filter: &[u32],
    seen: &[u32],
    [wide, vectors]: [usize; 2],
    [place, first, tile]: [usize; 3],
    products: &mut [i32],
) {
    use std::arch::x86_64::*;
    let mut acc = [[_mm256_setzero_si256(); P]; R];
    let (mut w, mut x) = (filter.as_ptr().wrapping_add(first), seen.as_ptr().wrapping_add(tile));
    for _ in 0..filter.len() / ROWS {
        // SAFETY: filter and input have that many pairs.
        unsafe {
            let lanes: [__m256i; P] = std::array::from_fn(|p| _mm256_loadu_si256(x.add(p * NARROW).cast()));
            for (r, acc) in acc.iter_mut().enumerate() {
                let w = _mm256_set1_epi32(w.add(r).read() as i32);
                for (sum, x) in acc.iter_mut().zip(lanes) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, w));
                }
            }
        }
        (w, x) = (w.wrapping_add(ROWS), x.wrapping_add(wide));
    }
    for (r, acc) in acc.iter().enumerate() {
        let at = ((first + r) * PLACES + place) * vectors * LANES + tile;
        for (to, acc) in products[at..at + P * NARROW].as_chunks_mut::<NARROW>().0.iter_mut().zip(acc) {
            // SAFETY: this writes eight numbers.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), *acc) };
        }
    }
}

/// Computes `T` tiles beginning with `tile`; the lanes are the eight output channels.
///
/// # Safety
/// As for [`avx2`], and the tiles must exist.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn narrow_few<const T: usize>(
    filter: &[u32],
    seen: &[u32],
    [wide, vectors]: [usize; 2],
    [place, tile]: [usize; 2],
    products: &mut [i32],
) {
    use std::arch::x86_64::*;
    let mut acc = [_mm256_setzero_si256(); T];
    let mut x = seen.as_ptr().wrapping_add(tile);
    for w in filter.as_chunks::<ROWS>().0 {
        // SAFETY: the input has a row for each pair of the filter, and these tiles are in it.
        unsafe {
            let w = _mm256_loadu_si256(w.as_ptr().cast());
            for (t, sum) in acc.iter_mut().enumerate() {
                let x = _mm256_set1_epi32(x.add(t).read() as i32);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(x, w));
            }
        }
        x = x.wrapping_add(wide);
    }
    for (t, sum) in acc.iter().enumerate() {
        let mut sums = [0i32; ROWS];
        // SAFETY: this writes eight numbers.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), *sum) };
        for (r, sum) in sums.into_iter().enumerate() {
            products[(r * PLACES + place) * vectors * LANES + tile + t] = sum;
        }
    }
}
