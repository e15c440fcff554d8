//! Numbers wide enough for every element type of a class, and the conversion of values that do not
//! fit.

/// A number of one of three classes, wide enough for every element type of the class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Num {
    /// A floating-point value. It holds singles and halves exactly.
    F(f64),
    /// A signed integer.
    I(i64),
    /// An unsigned integer or a truth value.
    U(u64),
}

/// Conversion from floating point to integer with the result that the hardware gives.
pub(crate) trait Truncate: Sized {
    fn truncate(v: f64) -> Self;
    fn truncate_single(v: f32) -> Self;
}

/// Implements `Truncate` with a test for doubles and one for singles that tell which values fit.
/// Other values give the smallest number of the type. There is no branch, so that loops become
/// vector instructions.
macro_rules! truncate {
    ($t:ty, $fits:expr, $single:expr) => {
        impl Truncate for $t {
            #[inline(always)]
            fn truncate(v: f64) -> $t {
                let v = if ($fits)(v) { v } else { <$t>::MIN as f64 };
                // SAFETY: a value that passes the test has a whole part within the type, and so has
                // `MIN`.
                unsafe { v.to_int_unchecked() }
            }
            #[inline(always)]
            fn truncate_single(v: f32) -> $t {
                let v = if ($single)(v) { v } else { <$t>::MIN as f32 };
                // SAFETY: as in `truncate`; `MIN` is a negated power of two, which a single holds
                // exactly.
                unsafe { v.to_int_unchecked() }
            }
        }
    };
}
truncate!(i32, |v: f64| v > -2_147_483_649.0 && v < 2_147_483_648.0, |v: f32| v.abs() < 2_147_483_648.0);
truncate!(i64, |v: f64| v.abs() < 9_223_372_036_854_775_808.0, |v: f32| v.abs() < 9_223_372_036_854_775_808.0);

impl Truncate for u64 {
    #[inline(always)]
    fn truncate(v: f64) -> u64 {
        if (9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&v) {
            v as u64
        } else {
            i64::truncate(v) as u64
        }
    }
    #[inline(always)]
    fn truncate_single(v: f32) -> u64 {
        u64::truncate(f64::from(v))
    }
}
