//! Error of a function compared with another in double precision.

/// The largest relative error over a dense sweep, and its argument. Results below the smallest
/// normal number count by their absolute error, divided by that number.
pub(super) fn worst(f: fn(f32) -> f32, want: impl Fn(f64) -> f64, from: f32, to: f32) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for i in 0..=400_000u32 {
        let x = from + (to - from) * (i as f32 / 400_000.0);
        let (got, w) = (f64::from(f(x)), want(f64::from(x)));
        let e = (got - w).abs() / w.abs().max(f64::from(f32::MIN_POSITIVE));
        if e > worst.0 {
            worst = (e, x);
        }
    }
    worst
}
