//! Sums of products and of squares of differences, in f64. Each has a fixed number of parts that
//! are added side by side and in a fixed order, so that it is the same on every instruction set.
use crate::rows::Feature;

/// Numbers that are added side by side.
const PARTS: usize = 8;
const HALF: usize = PARTS / 2;

/// The sum over two lists of what `of` makes of their numbers.
#[inline(always)]
fn folded<X: Feature, V: Feature>(x: &[X], v: &[V], of: impl Fn(f64, f64) -> f64) -> f64 {
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

ge_kernels::multiversion! {
    /// The sum of the absolute values of a row.
    pub fn sum_of_sizes<X: Feature>(x: &[X]) -> f64 {
        folded(x, x, |a, _| a.abs())
    }
}
ge_kernels::multiversion! {
    /// The sum of the squares of a row.
    pub fn sum_of_squares<X: Feature>(x: &[X]) -> f64 {
        folded(x, x, |a, b| a * b)
    }
}
ge_kernels::multiversion! {
    /// The greatest number of a row, negative infinity if there is none. NaN is left out.
    pub fn greatest<X: Feature>(x: &[X]) -> f64 {
        let higher = |a: f64, b: f64| if b > a { b } else { a };
        let (x, rest) = x.as_chunks::<PARTS>();
        let mut most = [f64::NEG_INFINITY; PARTS];
        for x in x {
            for k in 0..PARTS {
                most[k] = higher(most[k], x[k].wide());
            }
        }
        most.into_iter().chain(rest.iter().map(|v| v.wide())).fold(f64::NEG_INFINITY, higher)
    }
}
ge_kernels::multiversion! {
    /// `out[i] = x[i] / by`. In the middle of the range, the quotient is the product with the
    /// reciprocal, which is right to 1.5 units in the last place of f64.
    pub fn quotients<X: Feature>(x: &[X], by: f64, out: &mut [f64]) {
        let one = 1.0 / by;
        if (1e-300..1e300).contains(&by.abs()) {
            out.iter_mut().zip(x).for_each(|(o, v)| *o = v.wide() * one);
        } else {
            out.iter_mut().zip(x).for_each(|(o, v)| *o = v.wide() / by);
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

    #[test]
    fn quotients_stand_at_the_ends_of_the_range() {
        let tiny = 4e-310;
        let mut out = [0.0; 3];
        quotients(&[tiny, -tiny / 2.0, 0.0], tiny, &mut out);
        assert_eq!(out, [1.0, -0.5, 0.0]);
        quotients(&[1.0f32, f32::INFINITY, 0.0], f64::INFINITY, &mut out);
        assert!(out[0] == 0.0 && out[1].is_nan() && out[2] == 0.0);
        let row: Vec<f32> = (0..21).map(|i| (i * 5 % 21) as f32 - 30.0).chain([f32::NAN]).collect();
        assert_eq!(greatest(&row), -10.0);
        assert_eq!(sum_of_sizes(&row[..21]), 420.0);
        assert_eq!(sum_of_squares(&[3.0f32, 4.0]), 25.0);
    }
}
