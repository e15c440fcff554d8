//! Product of a matrix and a vector, row by row: sixteen partial sums per row, added as a tree.
//! Every number of the matrix is read only once, so the time is that of reading memory; rows are
//! therefore read from front to back.
use crate::simd::isa::Isa;

/// Rows processed together, so that several sums are in progress at once.
const ROWS: usize = 4;

/// Passes row `i` of `a` times `x` to `to`, for each of `rows` rows of `x.len()` numbers, `stride`
/// apart.
#[inline(always)]
pub(crate) fn dots<I: Isa>(isa: I, a: &[f32], stride: usize, rows: usize, x: &[f32], mut to: impl Each) {
    let k = x.len();
    assert!(rows == 0 || (rows - 1) * stride + k <= a.len());
    let mut i = 0;
    while i < rows {
        // SAFETY: rows `i..i + ROWS`, or row `i`, are within the matrix by the assertion above.
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

/// Receiver of the sums.
pub(crate) trait Each {
    /// Takes the sum of row `i`. Implementations are `#[inline(always)]`.
    fn take(&mut self, i: usize, sum: f32);
}

/// The sums of `R` rows.
///
/// # Safety
/// `R` rows of `x.len()` numbers, `stride` apart, must be readable from `a` on.
#[inline(always)]
unsafe fn group<I: Isa, const R: usize>(isa: I, a: *const f32, stride: usize, x: &[f32], i: usize, to: &mut impl Each) {
    let k = x.len();
    let mut acc = [isa.splat(0.0); R];
    let whole = k / 16 * 16;
    let mut at = 0;
    while at < whole {
        // SAFETY: `x` and each row have sixteen more numbers at `at`.
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
        // SAFETY: only the lanes of the remaining `k - at` numbers of `x` and of each row are read.
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
