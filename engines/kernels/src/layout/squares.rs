//! Transposition of matrices in squares of sixteen: elements of four bytes in vectors, others in
//! arrays.
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::turn::turn;
use crate::view::{Elem, Out, as_bytes, as_bytes_mut, seen_as, seen_as_mut};
use std::ops::Range;

/// Rows and columns of a square.
const SIDE: usize = 16;

/// Transposes a row-major matrix at `base`: `out[base + j * rows + i] = x[base + i * cols + j]`,
/// for the output rows (input columns) `units`.
pub fn transpose<T: Elem>(rows: usize, cols: usize, base: usize, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    let (start, end) = (units.start, units.end.min(cols));
    if start >= end || rows == 0 {
        return;
    }
    let x = &x[base..base + rows * cols];
    let to = out.part(base + start * rows, (end - start) * rows);
    if T::KIND.size() == 4
        && let (Ok(x), Ok(to)) = (seen_as::<f32, _>(x), seen_as_mut::<f32, _>(to))
    {
        return dispatch(Singles { rows, cols, columns: start..end, x, to });
    }
    arrays(rows, cols, start..end, x, to);
}

/// Where the squares over these positions begin. If the last one would be incomplete, it is moved
/// back to overlap the one before, if there is one.
#[inline(always)]
fn begins(places: Range<usize>) -> impl Iterator<Item = usize> {
    let last = places.end.saturating_sub(SIDE).max(places.start);
    places.step_by(SIDE).map(move |at| at.min(last))
}

/// Some columns of a matrix of four-byte elements, which become the rows of `to`.
struct Singles<'a> {
    rows: usize,
    cols: usize,
    columns: Range<usize>,
    x: &'a [f32],
    to: &'a mut [f32],
}

impl Work for Singles<'_> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Singles { rows, cols, columns, x, to } = self;
        for j in begins(columns.clone()) {
            let wide = SIDE.min(columns.end - j);
            let to = &mut to[(j - columns.start) * rows..][..wide * rows];
            for i in begins(0..rows) {
                let high = SIDE.min(rows - i);
                if wide == SIDE && high == SIDE {
                    whole(isa, &x[i * cols + j..], cols, &mut to[i..], rows);
                    continue;
                }
                let mut square = [isa.splat(0.0); SIDE];
                let (across, down) = (isa.lanes(0, wide), isa.lanes(0, high));
                for (r, v) in square.iter_mut().enumerate().take(high) {
                    let row = &x[(i + r) * cols + j..][..wide];
                    // SAFETY: only as many lanes are used as there are elements.
                    *v = unsafe { isa.load_some(row.as_ptr(), across) };
                }
                turn(isa, &mut square);
                for (c, v) in square.into_iter().enumerate().take(wide) {
                    let to = &mut to[c * rows + i..][..high];
                    // SAFETY: as above.
                    unsafe { isa.store_some(v, to.as_mut_ptr(), down) };
                }
            }
        }
    }
}

/// Transposes a whole square: rows of `x` are `cols` apart, those of `to` are `rows` apart.
#[inline(always)]
fn whole<I: Isa>(isa: I, x: &[f32], cols: usize, to: &mut [f32], rows: usize) {
    let mut square = [isa.splat(0.0); SIDE];
    for (r, v) in square.iter_mut().enumerate() {
        if let Some(row) = x[r * cols..].first_chunk() {
            *v = isa.load(row);
        }
    }
    turn(isa, &mut square);
    for (c, v) in square.into_iter().enumerate() {
        if let Some(to) = to[c * rows..].first_chunk_mut() {
            isa.store(v, to);
        }
    }
}

crate::multiversion! {
    /// The same as [`Singles`], for elements of any size.
    fn arrays<T: Elem>(rows: usize, cols: usize, columns: Range<usize>, x: &[T], to: &mut [T]) {
        for j in begins(columns.clone()) {
            let wide = SIDE.min(columns.end - j);
            let to = &mut to[(j - columns.start) * rows..][..wide * rows];
            for i in begins(0..rows) {
                let high = SIDE.min(rows - i);
                if high < SIDE || wide < SIDE {
                    for (c, to) in to.chunks_exact_mut(rows).enumerate() {
                        for (r, to) in to[i..i + high].iter_mut().enumerate() {
                            *to = x[(i + r) * cols + j + c];
                        }
                    }
                    continue;
                }
                let mut square = [[T::default(); SIDE]; SIDE];
                for (r, own) in square.iter_mut().enumerate() {
                    own.copy_from_slice(&x[(i + r) * cols + j..][..SIDE]);
                }
                let square = turned(&square);
                for (to, column) in to.chunks_exact_mut(rows).zip(&square) {
                    to[i..i + SIDE].copy_from_slice(column);
                }
            }
        }
    }
}

/// Transposes a square.
#[inline(always)]
fn turned<T: Elem>(square: &[[T; SIDE]; SIDE]) -> [[T; SIDE]; SIDE] {
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == 1 {
        let mut to = [[T::default(); SIDE]; SIDE];
        turn_bytes(as_bytes(square.as_flattened()), as_bytes_mut(to.as_flattened_mut()));
        return to;
    }
    std::array::from_fn(|c| std::array::from_fn(|r| square[r][c]))
}

/// Transposes a square of bytes: the rows of both halves are interleaved, four times.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn turn_bytes(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::*;
    assert!(from.len() == SIDE * SIDE && to.len() == from.len());
    // SAFETY: each access covers sixteen of the 256 bytes; x86-64 always has these instructions.
    unsafe {
        let mut v = [_mm_setzero_si128(); SIDE];
        for (r, v) in v.iter_mut().enumerate() {
            *v = _mm_loadu_si128(from.as_ptr().add(r * SIDE).cast());
        }
        for _ in 0..4 {
            let mut woven = v;
            for i in 0..SIDE / 2 {
                woven[2 * i] = _mm_unpacklo_epi8(v[i], v[i + SIDE / 2]);
                woven[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + SIDE / 2]);
            }
            v = woven;
        }
        for (r, v) in v.into_iter().enumerate() {
            _mm_storeu_si128(to.as_mut_ptr().add(r * SIDE).cast(), v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::block_range;

    fn check<T: Elem>(make: impl Fn(usize) -> T) {
        let sizes = [1, 5, 15, 16, 17, 33, 40];
        for (rows, cols) in sizes.into_iter().flat_map(|r| sizes.map(|c| (r, c))) {
            let x: Vec<T> = (0..2 * rows * cols).map(&make).collect();
            for level in Level::available() {
                let mut y = vec![T::default(); x.len()];
                for (base, b) in [0, rows * cols].into_iter().flat_map(|base| [0, 1, 2].map(|b| (base, b))) {
                    let units = block_range(cols, b, 3);
                    with_level(level, || transpose(rows, cols, base, units, &x, &mut Out::new(&mut y)));
                }
                for (at, v) in x.iter().enumerate() {
                    let (base, i, j) = (at / (rows * cols), at / cols % rows, at % cols);
                    assert_eq!(y[base * rows * cols + j * rows + i], *v, "{rows} x {cols}, {level:?}");
                }
            }
        }
    }

    #[test]
    fn each_element_has_its_place_with_every_instruction_set() {
        check(|i| i as u8);
        check(|i| i as u16);
        check(|i| 0x7f80_0000 + i as u32);
        check(|i| i as u64);
        transpose::<u32>(0, 3, 0, 0..3, &[], &mut Out::new(&mut []));
    }
}
