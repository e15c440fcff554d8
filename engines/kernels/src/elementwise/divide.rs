//! Division of many integers by one.

crate::multiversion! {
    /// `y[i] = x[i] / by`, truncated: zero if `by` is zero, and wrapped if the quotient is too
    /// large.
    ///
    /// Multiplies by a reciprocal whose magnitude is rounded up: the product of a whole quotient is
    /// never below it. All products exceed the exact quotient by less than 2^-51 of it, while one
    /// that is not whole is at least 2^-32 of its size below the next whole number.
    pub(super) fn by_one(x: &[i32], by: i32, y: &mut [i32]) {
        match by {
            0 => y.fill(0),
            -1 => {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = x.wrapping_neg();
                }
            }
            _ => {
                let reciprocal = f64::from_bits((1.0 / f64::from(by)).to_bits() + 1);
                for (y, x) in y.iter_mut().zip(x) {
                    // SAFETY: the integer part of the product is a quotient of words, not by -1.
                    *y = unsafe { (f64::from(*x) * reciprocal).to_int_unchecked::<i32>() };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn quotients_are_those_of_whole_numbers() {
        let near = |v: i64| (-2..=2).map(move |d| v + d);
        let ends = [i64::from(i32::MIN), i64::from(i32::MAX), 0, 1 << 30, 1 << 16, 46_341, 1_000_000_007, -65_537];
        let some: Vec<i32> = ends.into_iter().flat_map(near).filter_map(|v| i32::try_from(v).ok()).collect();
        for by in some.iter().copied().chain(3..40) {
            // Multiples of the divisor and their neighbours are the numbers at risk.
            let times = [1, 2, 3, 7, 1000, 46_340, i32::MAX / by.unsigned_abs().max(1) as i32];
            let multiples = times
                .into_iter()
                .flat_map(|k| near(i64::from(by) * i64::from(k)).chain(near(-i64::from(by) * i64::from(k))));
            let x: Vec<i32> = multiples.filter_map(|v| i32::try_from(v).ok()).chain(some.iter().copied()).collect();
            let want: Vec<i32> = x.iter().map(|x| if by == 0 { 0 } else { x.wrapping_div(by) }).collect();
            for level in Level::available() {
                let mut y = vec![1; x.len()];
                with_level(level, || by_one(&x, by, &mut y));
                assert_eq!(y, want, "by {by}, {level:?}");
            }
        }
    }
}
