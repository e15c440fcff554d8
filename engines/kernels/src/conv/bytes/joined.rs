//! Vectors of output positions alone, and the register tile by VNNI over them. If a row ends within
//! a vector, the remaining lanes are the first positions of the next row. The copy has border
//! columns between two rows. The plain tile computes these too; here they are left out, and the
//! sums are laid out like the output.
use super::tile::{DEEP, ROWS, Step, together};

/// A vector of sixteen positions. The lanes in `lanes` are read at `at` in the copy, the lanes in
/// `more` at `next`. Both offsets are those of lane zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) at: u32,
    pub(super) lanes: u16,
    pub(super) next: u32,
    pub(super) more: u16,
}

/// The vectors of `runs` rows of `width` positions, `pitch` apart in the copy. `None` if the tile
/// does not apply to these rows or to this machine.
pub(super) fn spots(width: usize, pitch: usize, runs: usize) -> Option<Vec<Spot>> {
    (crate::simd::level::vnni() && takes(width, pitch)).then(|| all(width, pitch, runs))?
}

/// Like [`spots`] on any machine; vectors of the copy as it is where they do not apply.
pub(super) fn of(width: usize, pitch: usize, runs: usize) -> Vec<Spot> {
    let own = if takes(width, pitch) { all(width, pitch, runs) } else { None };
    own.unwrap_or_else(|| {
        let flat = if runs == 0 { 0 } else { (runs - 1) * pitch + width };
        (0..flat).step_by(16).map(|at| Spot { at: at as u32, lanes: u16::MAX, next: 0, more: 0 }).collect()
    })
}

/// Whether a vector has positions of at most two rows, and there are columns between rows.
pub(super) fn takes(width: usize, pitch: usize) -> bool {
    width > 15 && width < pitch
}

fn all(width: usize, pitch: usize, runs: usize) -> Option<Vec<Spot>> {
    let total = runs * width;
    let lanes = |n: usize| u16::MAX.checked_shr(16 - n.min(16) as u32).unwrap_or(0);
    let spot = |first: usize| {
        let (row, column) = (first / width, first % width);
        let (here, left) = ((width - column).min(16), (total - first).min(16));
        let (at, next) = (row * pitch + column, (row + 1) * pitch - here.min(pitch));
        let own = lanes(here.min(left));
        let more = lanes(left) & !own;
        Some(Spot { at: u32::try_from(at).ok()?, lanes: own, next: u32::try_from(next).ok()?, more })
    };
    (0..total).step_by(16).map(spot).collect()
}

/// The sums of output channels `first..first + 8` over these vectors, one row per channel.
pub(super) fn tile(s: &Step<'_>, first: usize, spots: &[Spot], sums: &mut [i32]) {
    assert!(crate::simd::level::vnni(), "spots are for VNNI alone");
    check(s, first, spots);
    assert!(sums.len() == ROWS * spots.len() * 16);
    // SAFETY: the machine was asked for the features, and `check` holds.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        on_vnni(s, first, spots, sums);
    }
}

/// Panics if a tile would read beyond the filter or the copy.
fn check(s: &Step<'_>, first: usize, spots: &[Spot]) {
    if s.fours == 0 || s.places.is_empty() {
        return;
    }
    let steps = s.fours.div_ceil(8) * s.places.len();
    assert!((steps - 1) * s.stride + (first + ROWS) * DEEP <= s.filter.len());
    check_copy(s, spots);
}

/// Panics if these vectors would read beyond the copy.
pub(super) fn check_copy(s: &Step<'_>, spots: &[Spot]) {
    if s.fours == 0 || s.places.is_empty() {
        return;
    }
    let end = |from: u32, lanes: u16| if lanes == 0 { 0 } else { from as usize + 16 - lanes.leading_zeros() as usize };
    let far = spots.iter().map(|s| end(s.at, s.lanes).max(end(s.next, s.more))).max().unwrap_or(0);
    let highest = s.places.iter().copied().max().unwrap_or(0) as usize;
    assert!((s.fours - 1) * s.four + highest + far <= s.copy.len());
}

/// # Safety
/// The machine must have the features, and [`check`] must hold.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn on_vnni(s: &Step<'_>, first: usize, spots: &[Spot], sums: &mut [i32]) {
    let mut v = 0;
    while v < spots.len() {
        let here = together(spots.len() - v);
        let joined = spots[v..v + here].iter().any(|s| s.more != 0 || s.lanes != u16::MAX);
        // SAFETY: as the caller guarantees.
        unsafe {
            match (here, joined) {
                (1, false) => vnni::<1, false>(s, first, v, spots, sums),
                (2, false) => vnni::<2, false>(s, first, v, spots, sums),
                (_, false) => vnni::<3, false>(s, first, v, spots, sums),
                (1, true) => vnni::<1, true>(s, first, v, spots, sums),
                (2, true) => vnni::<2, true>(s, first, v, spots, sums),
                (_, true) => vnni::<3, true>(s, first, v, spots, sums),
            }
        }
        v += here;
    }
}

/// Computes `NP` vectors beginning with vector `v`. If `JOINED`, some may be of two rows or
/// partial. A single function for this and the plain tile, with the way to read lanes as a
/// parameter, was 2 % slower on whole models.
///
/// # Safety
/// As for [`on_vnni`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn vnni<const NP: usize, const JOINED: bool>(
    s: &Step<'_>,
    first: usize,
    v: usize,
    spots: &[Spot],
    sums: &mut [i32],
) {
    use std::arch::x86_64::*;
    let mut acc = [[_mm512_setzero_si512(); NP]; ROWS];
    let own: [Spot; NP] = std::array::from_fn(|p| spots[v + p]);
    // SAFETY: filter and copy are long enough by `check`; lanes outside the masks are not read.
    unsafe {
        let mut filter = s.filter.as_ptr().add(first * DEEP);
        for c in 0..s.fours.div_ceil(8) {
            let here = (s.fours - c * 8).min(8);
            let x = s.copy.as_ptr().add(c * 8 * s.four).cast::<i32>();
            for place in s.places {
                let x = x.wrapping_add(*place as usize);
                // The next step is too far away for the hardware to predict. A prefetch beyond the
                // filter is harmless.
                for line in 0..ROWS * DEEP / 64 {
                    _mm_prefetch::<_MM_HINT_T0>(filter.wrapping_add(s.stride + line * 64));
                }
                let mut four = |f: usize| {
                    let x = x.wrapping_add(f * s.four);
                    let lanes: [__m512i; NP] = std::array::from_fn(|p| {
                        let from = x.wrapping_add(own[p].at as usize);
                        if !JOINED {
                            return _mm512_loadu_si512(from.cast());
                        }
                        let near = _mm512_maskz_loadu_epi32(own[p].lanes, from);
                        _mm512_mask_loadu_epi32(near, own[p].more, x.wrapping_add(own[p].next as usize))
                    });
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
                filter = filter.wrapping_add(s.stride);
            }
        }
        for (r, acc) in acc.iter().enumerate() {
            for (p, a) in acc.iter().enumerate() {
                let to = sums.as_mut_ptr().add((r * spots.len() + v + p) * 16);
                _mm512_storeu_si512(to.cast(), *a);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_the_places_of_the_output_in_order() {
        for (width, pitch, runs) in
            [(16, 18, 4), (32, 33, 3), (17, 19, 1), (17, 18, 5), (28, 30, 7), (31, 33, 3), (56, 58, 9), (100, 107, 2)]
        {
            let spots = all(width, pitch, runs).unwrap();
            let mut got = vec![];
            for s in &spots {
                for lane in 0..16u32 {
                    match (s.lanes >> lane & 1, s.more >> lane & 1) {
                        (1, 0) => got.push((s.at + lane) as usize),
                        (0, 1) => got.push((s.next + lane) as usize),
                        (a, b) => assert_eq!((a, b), (0, 0), "{s:?}"),
                    }
                }
            }
            let want = (0..runs).flat_map(|r| (0..width).map(move |c| r * pitch + c));
            assert_eq!(got, want.collect::<Vec<_>>(), "{width} {pitch} {runs}");
        }
    }
}
