//! The register tile of a convolution of bytes: eight output channels by up to three vectors of
//! sixteen positions.

/// Input channels of a step of the packed filter.
pub(super) const DEEP: usize = 32;
/// Output channels of a tile.
pub(super) const ROWS: usize = 8;

/// The operands of a tile. Step `(c, t)` of the filter, 32 channels by one tap, begins at `(c *
/// taps + t) * stride`. In it each output channel has a row of 32 bytes, in which four channels are
/// four bytes. For tap `t`, the run of the block `f` of four channels begins at `f * four +
/// places[t]` of the copy.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) filter: &'a [i8],
    pub(super) stride: usize,
    pub(super) places: &'a [u32],
    pub(super) fours: usize,
    pub(super) four: usize,
    pub(super) copy: &'a [u32],
}

impl Step<'_> {
    /// Panics if a tile would read beyond the filter or the copy.
    fn check(&self, first: usize, vectors: usize) {
        if self.fours == 0 || self.places.is_empty() {
            return;
        }
        let steps = self.fours.div_ceil(8) * self.places.len();
        let last = (steps - 1) * self.stride + (first + ROWS) * DEEP;
        assert!(last <= self.filter.len());
        let highest = self.places.iter().copied().max().unwrap_or(0) as usize;
        assert!((self.fours - 1) * self.four + highest + vectors * 16 <= self.copy.len());
    }
}

/// How many of the `left` vectors are computed together: three, or fewer at the end, so that one is
/// alone only if there is no other.
pub(super) fn together(left: usize) -> usize {
    match left {
        1 => 1,
        2 | 4 => 2,
        _ => 3,
    }
}

/// The filters of a group that the register tile has prepared, for all strips of the input.
#[derive(Default)]
pub(super) struct Kept {
    #[cfg(target_arch = "x86_64")]
    split: Vec<Option<super::paired::Split>>,
}

impl Kept {
    /// Another group follows.
    pub(super) fn forget(&mut self) {
        *self = Kept::default();
    }
}

/// The sums of output channels `first..first + 8` over `vectors` vectors of positions, one row per
/// channel. `kept` is of this filter and this copy; `first` is a multiple of eight.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
pub(super) fn tile(s: &Step<'_>, first: usize, vectors: usize, kept: &mut Kept, sums: &mut [i32]) {
    assert!(sums.len() == ROWS * vectors * 16);
    s.check(first, vectors);
    #[cfg(target_arch = "x86_64")]
    {
        if crate::simd::level::vnni() {
            // SAFETY: the machine was asked for the features, and `check` holds.
            return unsafe { on_vnni(s, first, vectors, sums) };
        }
        if crate::simd::level() >= crate::simd::Level::Avx2 {
            // SAFETY: as above.
            return unsafe { super::paired::tile(s, first, vectors, &mut kept.split, sums) };
        }
    }
    plain(s, first, vectors, sums);
}

pub(super) fn plain(s: &Step<'_>, first: usize, vectors: usize, sums: &mut [i32]) {
    sums.fill(0);
    for c in 0..s.fours.div_ceil(8) {
        for (t, place) in s.places.iter().enumerate() {
            let filter = &s.filter[(c * s.places.len() + t) * s.stride + first * DEEP..];
            for f in c * 8..s.fours.min(c * 8 + 8) {
                let x = &s.copy[f * s.four + *place as usize..][..vectors * 16];
                for (r, sums) in sums.chunks_exact_mut(vectors * 16).enumerate() {
                    let w = &filter[r * DEEP + f % 8 * 4..][..4];
                    for (sum, x) in sums.iter_mut().zip(x) {
                        for (x, w) in x.to_le_bytes().iter().zip(w) {
                            *sum = sum.wrapping_add(i32::from(*x) * i32::from(*w));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn on_vnni(s: &Step<'_>, first: usize, vectors: usize, sums: &mut [i32]) {
    let mut v = 0;
    while v < vectors {
        let here = together(vectors - v);
        // SAFETY: as the caller guarantees; the vectors are below `vectors`.
        unsafe {
            match here {
                1 => vnni::<1>(s, first, v, vectors, sums),
                2 => vnni::<2>(s, first, v, vectors, sums),
                _ => vnni::<3>(s, first, v, vectors, sums),
            }
        }
        v += here;
    }
}

/// Computes `NP` vectors beginning with vector `v`.
///
/// # Safety
/// The machine must have the features, and [`Step::check`] must hold for `vectors`, of which these
/// are some.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn vnni<const NP: usize>(s: &Step<'_>, first: usize, v: usize, vectors: usize, sums: &mut [i32]) {
    use std::arch::x86_64::*;
    let mut acc = [[_mm512_setzero_si512(); NP]; ROWS];
    // SAFETY: filter and copy are long enough by `check`.
    unsafe {
        let mut filter = s.filter.as_ptr().add(first * DEEP);
        for c in 0..s.fours.div_ceil(8) {
            let here = (s.fours - c * 8).min(8);
            let x = s.copy.as_ptr().add(c * 8 * s.four + v * 16);
            for place in s.places {
                let x = x.add(*place as usize);
                // The next step is too far away for the hardware to predict. A prefetch beyond the
                // filter is harmless.
                for line in 0..ROWS * DEEP / 64 {
                    _mm_prefetch::<_MM_HINT_T0>(filter.wrapping_add(s.stride + line * 64));
                }
                let mut four = |f: usize| {
                    let lanes: [__m512i; NP] =
                        std::array::from_fn(|p| _mm512_loadu_si512(x.add(f * s.four + p * 16).cast()));
                    for (r, acc) in acc.iter_mut().enumerate() {
                        let w = _mm512_set1_epi32(filter.add(r * DEEP + f * 4).cast::<i32>().read_unaligned());
                        for (a, x) in acc.iter_mut().zip(lanes) {
                            *a = _mm512_dpbusd_epi32(*a, x, w);
                        }
                    }
                };
                if here == 8 {
                    for f in 0..8 {
                        four(f);
                    }
                } else {
                    for f in 0..here {
                        four(f);
                    }
                }
                filter = filter.add(s.stride);
            }
        }
        for (r, acc) in acc.iter().enumerate() {
            for (p, a) in acc.iter().enumerate() {
                let to = sums.as_mut_ptr().add((r * vectors + v + p) * 16);
                _mm512_storeu_si512(to.cast(), *a);
            }
        }
    }
}
