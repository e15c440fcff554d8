//! How far a function is from another in double precision.

/// The worst relative error over a dense sweep, where the result is a normal number.
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
