//! Transposition of matrices in squares: elements of four bytes in vectors of sixteen, others in
//! blocks of whole cache lines.
use super::runs::{copy_run, whole as whole_run};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, Work, dispatch};
use crate::simd::turn::turn;
use crate::view::{Elem, Out, as_bytes, as_bytes_mut, seen_as, seen_as_mut};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128i;
#[cfg(target_arch = "x86_64")]
use std::mem::transmute;
use std::ops::Range;

/// Rows and columns of a square of elements of four bytes.
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
    blocks(rows, cols, start..end, x, to);
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
        turned(isa, &x[columns.start..], cols, (rows, columns.len()), to, rows);
    }
}

/// `to[j * to_pitch + i] = x[i * pitch + j]`, for `rows` rows and `cols` columns.
#[inline(always)]
pub(crate) fn turned<I: Isa>(
    isa: I,
    x: &[f32],
    pitch: usize,
    (rows, cols): (usize, usize),
    to: &mut [f32],
    to_pitch: usize,
) {
    for j in begins(0..cols) {
        let wide = SIDE.min(cols - j);
        let to = &mut to[j * to_pitch..];
        for i in begins(0..rows) {
            let high = SIDE.min(rows - i);
            if wide == SIDE && high == SIDE {
                whole(isa, &x[i * pitch + j..], pitch, &mut to[i..], to_pitch);
                continue;
            }
            let mut square = [isa.splat(0.0); SIDE];
            let (across, down) = (isa.lanes(0, wide), isa.lanes(0, high));
            for (r, v) in square.iter_mut().enumerate().take(high) {
                let row = &x[(i + r) * pitch + j..][..wide];
                // SAFETY: only as many lanes are used as there are elements.
                *v = unsafe { isa.load_some(row.as_ptr(), across) };
            }
            turn(isa, &mut square);
            for (c, v) in square.iter().enumerate().take(wide) {
                let to = &mut to[c * to_pitch + i..][..high];
                // SAFETY: as above.
                unsafe { isa.store_some(*v, to.as_mut_ptr(), down) };
            }
        }
    }
}

/// Transposes a whole square: rows of `x` are `cols` apart, those of `to` are `rows` apart.
#[inline(always)]
fn whole<I: Isa>(isa: I, x: &[f32], cols: usize, to: &mut [f32], rows: usize) {
    assert!((SIDE - 1) * cols + SIDE <= x.len() && (SIDE - 1) * rows + SIDE <= to.len());
    // SAFETY: the last row is within each slice, and so are those before it.
    unsafe { isa.turn_square(x.as_ptr(), cols, to.as_mut_ptr(), rows) };
}

/// Bytes of a block's row: a line of the cache, which is read and written as a whole.
const LINE: usize = 64;

/// The same as [`Singles`], for elements of any size. Blocks of lines are copied to working memory,
/// transposed there and copied to their place: neighbouring rows of a large matrix are often at
/// distances that share few places of the cache.
fn blocks<T: Elem>(rows: usize, cols: usize, columns: Range<usize>, x: &[T], to: &mut [T]) {
    let lines = LINE / size_of::<T>();
    with_scratch(2 * lines * LINE / size_of::<f32>(), |room| {
        let (from, turned) = as_bytes_mut(room).as_chunks_mut::<LINE>().0.split_at_mut(lines);
        in_blocks(rows, cols, columns, x, to, from, turned);
    });
}

crate::multiversion! {
    fn in_blocks<T: Elem>(
        rows: usize,
        cols: usize,
        columns: Range<usize>,
        x: &[T],
        to: &mut [T],
        from: &mut [[u8; LINE]],
        turned: &mut [[u8; LINE]],
    ) {
        let side = LINE / size_of::<T>();
        for j in columns.clone().step_by(side) {
            let wide = side.min(columns.end - j);
            let to = &mut to[(j - columns.start) * rows..][..wide * rows];
            for i in (0..rows).step_by(side) {
                let high = side.min(rows - i);
                for (r, line) in from.iter_mut().enumerate().take(high) {
                    copy_piece(as_bytes(&x[(i + r) * cols + j..][..wide]), &mut line[..wide * size_of::<T>()]);
                }
                // Rows and columns that are not there are transposed too, and not copied.
                turn_lines(from, turned, size_of::<T>(), high, wide);
                for (to, line) in to.chunks_exact_mut(rows).zip(&*turned) {
                    copy_piece(&line[..high * size_of::<T>()], as_bytes_mut(&mut to[i..i + high]));
                }
            }
        }
    }
}

/// Copies the used part of a line; a whole one and a vector are told apart from the others first.
#[inline(always)]
fn copy_piece(from: &[u8], to: &mut [u8]) {
    match from.len() {
        LINE => whole_run::<LINE>(from, to),
        16 => whole_run::<16>(from, to),
        _ => copy_run(from, to),
    }
}

/// Transposes a block of elements of `size` bytes, of which `high` rows and `wide` columns are used.
#[inline(always)]
fn turn_lines(from: &[[u8; LINE]], to: &mut [[u8; LINE]], size: usize, high: usize, wide: usize) {
    let side = 16 / size;
    for i in (0..high).step_by(side) {
        for j in (0..wide).step_by(side) {
            #[cfg(target_arch = "x86_64")]
            match size {
                1 => turn_square::<16>(from, to, [i, j], woven::bytes),
                2 => turn_square::<8>(from, to, [i, j], woven::pairs),
                4 => turn_square::<4>(from, to, [i, j], woven::fours),
                _ => turn_square::<2>(from, to, [i, j], woven::eights),
            }
            #[cfg(not(target_arch = "x86_64"))]
            for c in 0..side {
                for r in 0..side {
                    for b in 0..size {
                        to[j + c][(i + r) * size + b] = from[i + r][(j + c) * size + b];
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod woven {
    //! Pairs of vectors whose elements are interleaved.
    use std::arch::x86_64::*;

    macro_rules! woven {
        ($name:ident, $low:ident, $high:ident) => {
            #[inline(always)]
            pub(super) fn $name(a: __m128i, b: __m128i) -> [__m128i; 2] {
                // SAFETY: x86-64 always has these instructions.
                unsafe { [$low(a, b), $high(a, b)] }
            }
        };
    }
    woven!(bytes, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
    woven!(pairs, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
    woven!(fours, _mm_unpacklo_epi32, _mm_unpackhi_epi32);
    woven!(eights, _mm_unpacklo_epi64, _mm_unpackhi_epi64);
}

/// Transposes a square of `N` rows of sixteen bytes, whose first element is in row `i` and column
/// `j` of the block: the rows of both halves are interleaved until each has become a column.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn turn_square<const N: usize>(
    from: &[[u8; LINE]],
    to: &mut [[u8; LINE]],
    [i, j]: [usize; 2],
    weave: impl Fn(__m128i, __m128i) -> [__m128i; 2],
) {
    let (from, to) = (&from[i..][..N], &mut to[j..][..N]);
    let (first, own) = (j * (16 / N), i * (16 / N));
    let piece = |line: &[u8; LINE]| line[first..].first_chunk::<16>().copied().unwrap_or_default();
    // SAFETY: sixteen bytes are a vector.
    let mut v: [__m128i; N] = std::array::from_fn(|r| unsafe { transmute::<[u8; 16], __m128i>(piece(&from[r])) });
    for _ in 0..N.ilog2() {
        let old = v;
        for k in 0..N / 2 {
            [v[2 * k], v[2 * k + 1]] = weave(old[k], old[k + N / 2]);
        }
    }
    for (to, v) in to.iter_mut().zip(v) {
        if let Some(to) = to[own..].first_chunk_mut::<16>() {
            // SAFETY: as above.
            *to = unsafe { transmute::<__m128i, [u8; 16]>(v) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};
    use crate::view::{Bytes, block_range};

    fn check<T: Elem>(make: impl Fn(usize) -> T) {
        let sizes = [1, 5, 15, 16, 17, 33, 40, 70, 130];
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
        check(|i| Bytes((i as u16).to_ne_bytes()));
        check(|i| Bytes((i as u32).to_ne_bytes()));
        check(|i| Bytes((i as u64).to_ne_bytes()));
        transpose::<u32>(0, 3, 0, 0..3, &[], &mut Out::new(&mut []));
    }
}
