//! Sums of products and of squares of differences, in f64. Each has a fixed number of parts that
//! are added side by side and in a fixed order, so that it is the same on every instruction set.
use crate::rows::Feature;

/// Numbers that are added side by side.
const PARTS: usize = 8;
const HALF: usize = PARTS / 2;

/// The sum over two lists of what `of` makes of their numbers.
#[inline(always)]
pub(crate) fn folded<X: Feature, V: Feature>(x: &[X], v: &[V], of: impl Fn(f64, f64) -> f64) -> f64 {
    let len = x.len().min(v.len());
    let ((x, x_rest), (v, v_rest)) = (x[..len].as_chunks::<PARTS>(), v[..len].as_chunks::<PARTS>());
    let mut sums = [0.0; PARTS];
    for (x, v) in x.iter().zip(v) {
        for k in 0..PARTS {
            sums[k] += of(x[k].wide(), v[k].wide());
        }
    }
    let mut halves: [f64; HALF] = std::array::from_fn(|k| sums[k] + sums[k + HALF]);
    let ((x, x_rest), (v, v_rest)) = (x_rest.as_chunks::<HALF>(), v_rest.as_chunks::<HALF>());
    for (x, v) in x.iter().zip(v) {
        for k in 0..HALF {
            halves[k] += of(x[k].wide(), v[k].wide());
        }
    }
    let rest: f64 = x_rest.iter().zip(v_rest).map(|(a, b)| of(a.wide(), b.wide())).sum();
    (halves[0] + halves[2]) + (halves[1] + halves[3]) + rest
}

ge_kernels::multiversion! {
    /// `out[i][j]` is the sum of the products of row `i` of `x` and row `j` of `table`; rows have
    /// `width` numbers, and `out` has as many columns as `table` has rows.
    pub fn products<X: Feature, V: Feature>(x: &[X], table: &[V], width: usize, out: &mut [f64]) {
        let columns = (table.len() / width.max(1)).max(1);
        for (x, out) in x.chunks_exact(width.max(1)).zip(out.chunks_exact_mut(columns)) {
            for (v, out) in table.chunks_exact(width.max(1)).zip(out) {
                *out = folded(x, v, |a, b| a * b);
            }
        }
    }
}

ge_kernels::multiversion! {
    /// Like [`products`], for the squares of the distances, rounded once.
    pub fn distances<X: Feature, V: Feature>(x: &[X], table: &[V], width: usize, out: &mut [f32]) {
        let columns = (table.len() / width.max(1)).max(1);
        for (x, out) in x.chunks_exact(width.max(1)).zip(out.chunks_exact_mut(columns)) {
            for (v, out) in table.chunks_exact(width.max(1)).zip(out) {
                *out = folded(x, v, |a, b| (a - b) * (a - b)) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_for_whole_numbers_of_any_length() {
        for width in 1..40usize {
            let x: Vec<f32> = (0..3 * width).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
            let v: Vec<f64> = (0..2 * width).map(|i| (i * 5 % 13) as f64 - 6.0).collect();
            let at = |i: usize, j: usize, of: fn(f64, f64) -> f64| -> f64 {
                (0..width).map(|k| of(f64::from(x[i * width + k]), v[j * width + k])).sum()
            };
            let (mut dots, mut far) = ([0.0; 6], [0.0; 6]);
            products(&x, &v, width, &mut dots);
            distances(&x, &v, width, &mut far);
            for c in 0..6 {
                assert_eq!(dots[c], at(c / 2, c % 2, |a, b| a * b), "{width}");
                assert_eq!(f64::from(far[c]), at(c / 2, c % 2, |a, b| (a - b) * (a - b)), "{width}");
            }
        }
    }
}
