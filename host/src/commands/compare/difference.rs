//! Comparison of two tensors, element by element.
use super::Outcome;
use crate::commands::numbers::{Element, Elements, place};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::npy_text::texts;
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
    /// Index of the first number beyond the tolerance; a complex element counts as two.
    pub at: usize,
    /// Where that is, for people.
    pub place: String,
    /// Its value in the first tensor.
    pub a: Element,
    /// Its value in the second.
    pub b: Element,
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
            "{}: {} and {}; at most {:.3e} apart ({:.3e} relative), {} of {} elements beyond the tolerance",
            self.place, self.a, self.b, self.max_abs, self.max_rel, self.count, self.of
        )
    }
}

/// Compares two tensors.
pub fn difference(a: &HostTensor, b: &HostTensor, tolerance: Tolerance) -> Outcome {
    if a.dims != b.dims {
        return Outcome::Apart(format!("shape {:?} and {:?}", a.dims, b.dims));
    }
    if [a.dtype, b.dtype].contains(&DType::STRING) {
        return strings(a, b);
    }
    let (x, y) = (Elements::of(a), Elements::of(b));
    if x.count() != y.count() {
        return Outcome::Apart(format!("{} and {} elements", x.count(), y.count()));
    }
    match elements(&x, &y, tolerance) {
        None => Outcome::Same,
        Some(d) => Outcome::Differs(Difference { place: place(a.dtype, d.at), ..d }),
    }
}

/// Compares two tensors of which one holds strings. No tolerance makes two strings equal.
fn strings(a: &HostTensor, b: &HostTensor) -> Outcome {
    let of = |t| Some(t).filter(|t: &&HostTensor| t.dtype == DType::STRING).and_then(texts);
    let (Some(x), Some(y)) = (of(a), of(b)) else {
        return Outcome::Apart(format!("{} and {} elements", a.dtype, b.dtype));
    };
    let other: Vec<usize> = (0..x.len()).filter(|i| x[*i] != y[*i]).collect();
    let Some(at) = other.first() else { return Outcome::Same };
    let word = |text: &[u8]| format!("{:?}", String::from_utf8_lossy(text));
    let (count, of) = (other.len(), x.len());
    Outcome::Apart(format!("element {at}: {} and {}; {count} of {of} strings differ", word(x[*at]), word(y[*at])))
}

fn elements(x: &Elements, y: &Elements, t: Tolerance) -> Option<Difference> {
    let none = Element::Real(0.0);
    let place = String::new();
    let mut out = Difference { at: 0, place, a: none, b: none, max_abs: 0.0, max_rel: 0.0, count: 0, of: x.count() };
    for (i, (a, b)) in x.iter().zip(y.iter()).enumerate() {
        if a.is(b) {
            continue;
        }
        let apart = a.apart(b);
        let apart = if apart.is_nan() { f64::INFINITY } else { apart };
        out.max_abs = out.max_abs.max(apart);
        out.max_rel = out.max_rel.max(apart / b.real().abs());
        // An infinity on one side is beyond any tolerance, although `rtol * inf` is infinite.
        let within = apart.is_finite() && apart <= t.atol + t.rtol * b.real().abs();
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

    fn elements(x: &[f64], y: &[f64], t: Tolerance) -> Option<Difference> {
        super::elements(&Elements::Real(x.to_vec()), &Elements::Real(y.to_vec()), t)
    }

    #[test]
    fn the_first_element_and_the_greatest_difference_are_told() {
        let d = elements(&[1.0, 2.5, 0.0, 9.0], &[1.05, 2.0, 0.0, 4.0], T).expect("a difference");
        assert_eq!((d.at, d.a.real(), d.b.real(), d.count, d.of), (1, 2.5, 2.0, 2, 4));
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

    #[test]
    fn strings_are_the_same_only_letter_by_letter() {
        let of = |words: &[&str]| {
            let bytes = ge_plugin_api::types::bytes_of_strings(words);
            HostTensor::from_bytes(DType::STRING, &[words.len() as u64], &bytes).expect("strings")
        };
        let all = Tolerance { rtol: 9.0, atol: 9.0 };
        assert!(matches!(difference(&of(&["a", "b"]), &of(&["a", "b"]), T), Outcome::Same));
        let Outcome::Apart(why) = difference(&of(&["a", "b"]), &of(&["a", "c"]), all) else { panic!("not the same") };
        assert_eq!(why, "element 1: \"b\" and \"c\"; 1 of 2 strings differ");
    }
}
