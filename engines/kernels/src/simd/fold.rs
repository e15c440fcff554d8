//! Sums and extremes of slices. Sums run in sixteen lanes that are added as a tree at the end: one order of additions,
//! whatever the instruction set and the number of blocks.

/// Lanes that a sum runs in.
pub const LANES: usize = 16;

/// The lanes added pairwise: halves, quarters, and so on.
#[inline(always)]
pub fn tree(mut lanes: [f32; LANES]) -> f32 {
    let mut n = LANES / 2;
    while n > 0 {
        let mut i = 0;
        while i < n {
            lanes[i] += lanes[i + n];
            i += 1;
        }
        n /= 2;
    }
    lanes[0]
}

/// The sum of `f(x)` over a slice, in the fixed order; always inlined into a multiversion function.
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

/// The largest number of a slice, minus infinity if it is empty; NaN if there is one.
#[inline(always)]
pub fn max_of(data: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut nan = [false; LANES];
    let (blocks, rest) = data.as_chunks::<LANES>();
    for block in blocks {
        for i in 0..LANES {
            lanes[i] = if block[i] > lanes[i] { block[i] } else { lanes[i] };
            nan[i] |= block[i].is_nan();
        }
    }
    for (i, &x) in rest.iter().enumerate() {
        lanes[i] = if x > lanes[i] { x } else { lanes[i] };
        nan[i] |= x.is_nan();
    }
    let mut best = lanes[0];
    for &l in &lanes[1..] {
        best = if l > best { l } else { best };
    }
    if nan.contains(&true) { f32::NAN } else { best }
}

crate::multiversion! {
    /// The sum of a slice.
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
    /// The largest number of a slice.
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
