//! Sums and extremes of slices. Sums use 64 lanes that are added as a tree at the end: the order of
//! additions does not depend on the instruction set or the number of blocks.

/// Lanes of a sum: several registers, so that no addition waits for the previous one.
pub const LANES: usize = 64;

/// Adds the lanes pairwise: halves, quarters, and so on.
#[inline(always)]
pub fn tree(lanes: [f32; LANES]) -> f32 {
    pairwise(lanes, |a, b| a + b)
}

/// Joins the lanes pairwise in arrays of half the length, so that they stay in registers.
#[inline(always)]
pub(crate) fn pairwise(lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32 + Copy) -> f32 {
    #[inline(always)]
    fn half<const N: usize, const H: usize>(v: [f32; N], join: impl Fn(f32, f32) -> f32) -> [f32; H] {
        std::array::from_fn(|i| join(v[i], v[i + H]))
    }
    let v: [f32; 32] = half(lanes, join);
    let v: [f32; 16] = half(v, join);
    let v: [f32; 8] = half(v, join);
    let v: [f32; 4] = half(v, join);
    let v: [f32; 2] = half(v, join);
    join(v[0], v[1])
}

/// The sum of `f(x)` over a slice, in the fixed order. It is inlined into a multiversion function.
#[inline(always)]
pub fn sum_by(data: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (blocks, rest) = data.as_chunks::<LANES>();
    for block in blocks {
        for (l, &x) in lanes.iter_mut().zip(block) {
            *l += f(x);
        }
    }
    for (l, &x) in lanes.iter_mut().zip(rest) {
        *l += f(x);
    }
    tree(lanes)
}

/// The largest number of a slice: minus infinity if it is empty, NaN if it contains one.
#[inline(always)]
pub fn max_of(data: &[f32]) -> f32 {
    most_by(data, |x| x)
}

/// The smallest number of a slice: infinity if it is empty, NaN if it contains one.
#[inline(always)]
pub fn min_of(data: &[f32]) -> f32 {
    -most_by(data, |x| -x)
}

#[inline(always)]
fn most_by(data: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (blocks, rest) = data.as_chunks::<LANES>();
    for block in blocks {
        for (l, &x) in lanes.iter_mut().zip(block) {
            *l = larger(*l, f(x));
        }
    }
    for (l, &x) in lanes.iter_mut().zip(rest) {
        *l = larger(*l, f(x));
    }
    pairwise(lanes, larger)
}

/// The larger of two numbers; NaN if either is NaN.
#[inline(always)]
pub(crate) fn larger(a: f32, b: f32) -> f32 {
    if b <= a || a.is_nan() { a } else { b }
}

crate::multiversion! {
    /// The sum of a slice, in the fixed order.
    pub fn sum(data: &[f32]) -> f32 {
        sum_by(data, |x| x)
    }
}

crate::multiversion! {
    /// The sum of squared distances from a centre.
    pub fn sum_of_squares(data: &[f32], centre: f32) -> f32 {
        let mut lanes = [0.0f32; LANES];
        let (blocks, rest) = data.as_chunks::<LANES>();
        for block in blocks {
            for (l, &x) in lanes.iter_mut().zip(block) {
                let d = x - centre;
                *l = d.mul_add(d, *l);
            }
        }
        for (l, &x) in lanes.iter_mut().zip(rest) {
            let d = x - centre;
            *l = d.mul_add(d, *l);
        }
        tree(lanes)
    }
}

crate::multiversion! {
    /// The largest number of a slice, as [`max_of`].
    pub fn max(data: &[f32]) -> f32 {
        max_of(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn sums_have_one_order_on_every_level() {
        let v: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.7).sin() * 1e3).collect();
        for n in [0, 1, 15, 16, 17, 1000] {
            let want = with_level(Level::Scalar, || (sum(&v[..n]), sum_of_squares(&v[..n], 3.0), max(&v[..n])));
            for level in Level::available() {
                let got = with_level(level, || (sum(&v[..n]), sum_of_squares(&v[..n], 3.0), max(&v[..n])));
                assert_eq!(got, want, "{level:?} {n}");
            }
            let exact: f64 = v[..n].iter().map(|&x| f64::from(x)).sum();
            assert!((f64::from(want.0) - exact).abs() < 0.1);
        }
        assert!(max(&[1.0, f32::NAN, 2.0]).is_nan());
    }
}
