//! Comparison of two tensors, element by element.
use super::Outcome;
use crate::commands::numbers::values;
use ge_plugin_api::kernel::HostTensor;
use std::fmt;

/// Two values count as equal if `|a - b| <= atol + rtol * |b|`, if both are NaN, or if both are the
/// same infinity.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
}

/// How much two tensors differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Index of the first element beyond the tolerance.
    pub at: usize,
    /// Its value in the first tensor.
    pub a: f64,
    /// Its value in the second.
    pub b: f64,
    /// Largest absolute difference of two elements.
    pub max_abs: f64,
    /// Largest difference relative to the second tensor's element.
    pub max_rel: f64,
    /// Number of elements beyond the tolerance.
    pub count: usize,
    /// Number of elements.
    pub of: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "element {}: {} and {}; at most {:.3e} apart ({:.3e} relative), {} of {} elements beyond the tolerance",
            self.at, self.a, self.b, self.max_abs, self.max_rel, self.count, self.of
        )
    }
}

/// Compares two tensors.
pub fn difference(a: &HostTensor, b: &HostTensor, tolerance: Tolerance) -> Outcome {
    if a.dims != b.dims {
        return Outcome::Apart(format!("shape {:?} and {:?}", a.dims, b.dims));
    }
    let (x, y) = (values(a), values(b));
    if x.len() != y.len() {
        return Outcome::Apart(format!("{} and {} elements", x.len(), y.len()));
    }
    match elements(&x, &y, tolerance) {
        None => Outcome::Same,
        Some(d) => Outcome::Differs(d),
    }
}

fn elements(x: &[f64], y: &[f64], t: Tolerance) -> Option<Difference> {
    let mut out = Difference { at: 0, a: 0.0, b: 0.0, max_abs: 0.0, max_rel: 0.0, count: 0, of: x.len() };
    for (i, (&a, &b)) in x.iter().zip(y).enumerate() {
        if a == b || (a.is_nan() && b.is_nan()) {
            continue;
        }
        let apart = (a - b).abs();
        let apart = if apart.is_nan() { f64::INFINITY } else { apart };
        out.max_abs = out.max_abs.max(apart);
        out.max_rel = out.max_rel.max(apart / b.abs());
        // An infinity on one side is beyond any tolerance, although `rtol * inf` is infinite.
        let within = apart.is_finite() && apart <= t.atol + t.rtol * b.abs();
        if !within {
            if out.count == 0 {
                (out.at, out.a, out.b) = (i, a, b);
            }
            out.count += 1;
        }
    }
    (out.count > 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Tolerance = Tolerance { rtol: 0.1, atol: 0.01 };

    #[test]
    fn the_first_element_and_the_greatest_difference_are_told() {
        let d = elements(&[1.0, 2.5, 0.0, 9.0], &[1.05, 2.0, 0.0, 4.0], T).expect("a difference");
        assert_eq!((d.at, d.a, d.b, d.count, d.of), (1, 2.5, 2.0, 2, 4));
        assert_eq!((d.max_abs, d.max_rel), (5.0, 1.25));
    }

    #[test]
    fn what_is_no_number_is_the_same_only_as_itself() {
        let inf = f64::INFINITY;
        assert_eq!(elements(&[f64::NAN, inf, -inf], &[f64::NAN, inf, -inf], T), None);
        for (a, b) in [(f64::NAN, 0.0), (0.0, f64::NAN), (inf, 1.0), (1.0, inf), (inf, -inf)] {
            assert_eq!(elements(&[a], &[b], T).map(|d| d.count), Some(1), "{a} and {b}");
        }
        assert_eq!(elements(&[0.0], &[-0.0], Tolerance { rtol: 0.0, atol: 0.0 }), None);
    }
}
