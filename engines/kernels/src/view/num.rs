//! Numbers wide enough for every element type of a class, and what becomes of those that do not fit.

/// A number of one of the three classes, wide enough for every element type of the class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Num {
    /// A floating-point value; singles and halves are exact in it.
    F(f64),
    /// A signed integer.
    I(i64),
    /// An unsigned integer or a truth value.
    U(u64),
}

/// Floating to integer as the hardware does it.
pub(crate) trait Truncate: Sized {
    fn truncate(v: f64) -> Self;
}

impl Truncate for i32 {
    #[inline(always)]
    fn truncate(v: f64) -> i32 {
        if v > -2_147_483_649.0 && v < 2_147_483_648.0 { v as i32 } else { i32::MIN }
    }
}

impl Truncate for i64 {
    #[inline(always)]
    fn truncate(v: f64) -> i64 {
        if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&v) { v as i64 } else { i64::MIN }
    }
}

impl Truncate for u64 {
    #[inline(always)]
    fn truncate(v: f64) -> u64 {
        if (9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&v) {
            v as u64
        } else {
            i64::truncate(v) as u64
        }
    }
}
