//! A matrix by a vector, row by row: sixteen partial sums a row, added as a tree. What reads each
//! number of the matrix once lives by how it is read, and rows are read from front to back.
use crate::simd::isa::Isa;

/// Rows that are read side by side, so that several sums are under way.
const ROWS: usize = 4;

/// `to(i, row i of a * x)` for `rows` rows of `x.len()` numbers, `stride` apart.
#[inline(always)]
pub(crate) fn dots<I: Isa>(isa: I, a: &[f32], stride: usize, rows: usize, x: &[f32], mut to: impl Each) {
    let k = x.len();
    assert!(rows == 0 || (rows - 1) * stride + k <= a.len());
    let mut i = 0;
    while i < rows {
        // SAFETY: rows `i..i + ROWS`, or row `i`, are rows of the matrix.
        unsafe {
            let from = a.as_ptr().wrapping_add(i * stride);
            if i + ROWS <= rows {
                group::<I, ROWS>(isa, from, stride, x, i, &mut to);
                i += ROWS;
            } else {
                group::<I, 1>(isa, from, stride, x, i, &mut to);
                i += 1;
            }
        }
    }
}

/// Who takes the sums.
pub(crate) trait Each {
    /// The sum of row `i`. Implementations are `#[inline(always)]`.
    fn take(&mut self, i: usize, sum: f32);
}

/// `R` rows.
///
/// # Safety
/// So many rows of `x.len()` numbers can be read from `a` on, `stride` apart.
#[inline(always)]
unsafe fn group<I: Isa, const R: usize>(isa: I, a: *const f32, stride: usize, x: &[f32], i: usize, to: &mut impl Each) {
    let k = x.len();
    let mut acc = [isa.splat(0.0); R];
    let whole = k / 16 * 16;
    let mut at = 0;
    while at < whole {
        // SAFETY: sixteen numbers of `x`, and of each row.
        unsafe {
            let v = isa.load(&*x.as_ptr().wrapping_add(at).cast());
            for (r, acc) in acc.iter_mut().enumerate() {
                *acc = isa.fma(isa.load(&*a.wrapping_add(r * stride + at).cast()), v, *acc);
            }
        }
        at += 16;
    }
    if at < k {
        let some = isa.lanes(0, k - at);
        // SAFETY: the numbers of the last lanes of `x`, and of each row.
        unsafe {
            let v = isa.load_some(x.as_ptr().wrapping_add(at), some);
            for (r, acc) in acc.iter_mut().enumerate() {
                *acc = isa.fma(isa.load_some(a.wrapping_add(r * stride + at), some), v, *acc);
            }
        }
    }
    for (r, acc) in acc.into_iter().enumerate() {
        let mut lanes = [0.0f32; 16];
        isa.store(acc, &mut lanes);
        let mut n = 8;
        while n > 0 {
            for l in 0..n {
                lanes[l] += lanes[l + n];
            }
            n /= 2;
        }
        to.take(i + r, lanes[0]);
    }
}
