//! Transposition of matrices with two to four columns or rows, such as pixels with interleaved
//! colours.
use crate::view::{Elem, Out};
use std::ops::Range;

/// Maximum number of columns or rows.
pub const FEW: usize = 4;
/// Positions that are transposed at a time.
const STEP: usize = 512;

/// Transposes a row-major matrix at `base` with `rows` rows and two to four columns, for the rows
/// `part`: `out[base + j * rows + i] = x[base + i * cols + j]`.
pub fn split_columns<T: Elem>(
    [rows, cols]: [usize; 2],
    base: usize,
    part: Range<usize>,
    x: &[T],
    out: &mut Out<'_, T>,
) {
    let mut columns = [[T::default(); STEP]; FEW];
    for start in part.clone().step_by(STEP) {
        let n = STEP.min(part.end - start);
        let from = &x[base + start * cols..base + (start + n) * cols];
        match cols {
            2 => split2(from, &mut columns),
            3 => split3(from, &mut columns),
            _ => split4(from, &mut columns),
        }
        for (j, column) in columns.iter().enumerate().take(cols) {
            out.part(base + j * rows + start, n).copy_from_slice(&column[..n]);
        }
    }
}

/// Transposes a row-major matrix at `base` with two to four rows and `cols` columns, for the
/// columns `part`: `out[base + j * rows + i] = x[base + i * cols + j]`.
pub fn weave_rows<T: Elem>([rows, cols]: [usize; 2], base: usize, part: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    let row = |i: usize| &x[base + i * cols + part.start..base + i * cols + part.end];
    let to = out.part(base + part.start * rows, part.len() * rows);
    match rows {
        2 => weave2([row(0), row(1)], to),
        3 => weave3([row(0), row(1), row(2)], to),
        _ => weave4([row(0), row(1), row(2), row(3)], to),
    }
}

crate::multiversion! {
    fn split2<T: Elem>(from: &[T], to: &mut [[T; STEP]; FEW]) {
        let [a, b, ..] = to;
        for ((v, a), b) in from.as_chunks::<2>().0.iter().zip(a).zip(b) {
            (*a, *b) = (v[0], v[1]);
        }
    }
}
crate::multiversion! {
    fn split3<T: Elem>(from: &[T], to: &mut [[T; STEP]; FEW]) {
        let [a, b, c, _] = to;
        for (((v, a), b), c) in from.as_chunks::<3>().0.iter().zip(a).zip(b).zip(c) {
            (*a, *b, *c) = (v[0], v[1], v[2]);
        }
    }
}
crate::multiversion! {
    fn split4<T: Elem>(from: &[T], to: &mut [[T; STEP]; FEW]) {
        let [a, b, c, d] = to;
        for ((((v, a), b), c), d) in from.as_chunks::<4>().0.iter().zip(a).zip(b).zip(c).zip(d) {
            (*a, *b, *c, *d) = (v[0], v[1], v[2], v[3]);
        }
    }
}
crate::multiversion! {
    fn weave2<T: Elem>(from: [&[T]; 2], to: &mut [T]) {
        for ((to, a), b) in to.as_chunks_mut::<2>().0.iter_mut().zip(from[0]).zip(from[1]) {
            *to = [*a, *b];
        }
    }
}
crate::multiversion! {
    fn weave3<T: Elem>(from: [&[T]; 3], to: &mut [T]) {
        for (((to, a), b), c) in to.as_chunks_mut::<3>().0.iter_mut().zip(from[0]).zip(from[1]).zip(from[2]) {
            *to = [*a, *b, *c];
        }
    }
}
crate::multiversion! {
    fn weave4<T: Elem>(from: [&[T]; 4], to: &mut [T]) {
        let columns = from[0].iter().zip(from[1]).zip(from[2]).zip(from[3]);
        for (to, (((a, b), c), d)) in to.as_chunks_mut::<4>().0.iter_mut().zip(columns) {
            *to = [*a, *b, *c, *d];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::block_range;

    fn check<T: Elem>(make: impl Fn(usize) -> T) {
        for few in 2..=FEW {
            for many in [1, 15, 16, 17, 511, 512, 513, 1300] {
                let x: Vec<T> = (0..2 * few * many).map(&make).collect();
                let (mut split, mut woven) = (vec![T::default(); x.len()], vec![T::default(); x.len()]);
                for base in [0, few * many] {
                    for b in 0..3 {
                        let part = block_range(many, b, 3);
                        split_columns([many, few], base, part.clone(), &x, &mut Out::new(&mut split));
                        weave_rows([few, many], base, part, &x, &mut Out::new(&mut woven));
                    }
                    for i in 0..many {
                        for j in 0..few {
                            assert_eq!(split[base + j * many + i], x[base + i * few + j], "{few} {many}");
                            assert_eq!(woven[base + i * few + j], x[base + j * many + i], "{few} {many}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn each_element_has_its_place() {
        check(|i| i as u8);
        check(|i| i as u16);
        check(|i| i as u32);
        check(|i| i as u64);
    }
}
