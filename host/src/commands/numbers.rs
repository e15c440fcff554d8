//! Elements of tensors as numbers, for comparing them and for showing them to people.
use ge_ir::text::decode_real;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::fmt;

/// The bits of each element, for types of at most 64 bits. Packed elements fill each byte from its
/// low end.
fn bits(t: &HostTensor, width: usize) -> impl Iterator<Item = u64> + '_ {
    let bytes = t.bytes();
    let count = usize::try_from(t.dims.iter().product::<u64>()).unwrap_or(0);
    (0..count).map(move |i| {
        let at = i * width;
        let some = bytes.get(at / 8..(at + width).div_ceil(8)).unwrap_or_default();
        let all = some.iter().rev().fold(0u64, |a, b| a << 8 | u64::from(*b));
        all >> (at % 8) & (u64::MAX >> (64 - width))
    })
}

fn signed(bits: u64, width: usize) -> i64 {
    ((bits << (64 - width)) as i64) >> (64 - width)
}

/// The component type of a type, and the number of components per element.
pub fn parts(dtype: DType) -> (DType, usize) {
    match dtype {
        DType::COMPLEX64 => (DType::F32, 2),
        DType::COMPLEX128 => (DType::F64, 2),
        d => (d, 1),
    }
}

/// The elements as real numbers. Complex numbers give two values each; strings and unknown types
/// give their bytes.
pub fn values(t: &HostTensor) -> Vec<f64> {
    let bytes = || t.bytes().iter().map(|b| f64::from(*b)).collect();
    let (part, each) = parts(t.dtype);
    let Some(width) = part.bits().filter(|w| (1..=64).contains(w) && t.dtype != DType::STRING) else { return bytes() };
    let width = width as usize;
    if each > 1 {
        let one = |c: &[u8]| c.iter().rev().fold(0u64, |a, b| a << 8 | u64::from(*b));
        return t.bytes().chunks_exact(width / 8).filter_map(|c| decode_real(part, one(c))).collect();
    }
    let all: Option<Vec<f64>> = bits(t, width)
        .map(|b| match part {
            DType::BOOL => Some(f64::from(u8::from(b != 0))),
            d if d.is_int() && is_signed(d) => Some(signed(b, width) as f64),
            d if d.is_int() => Some(b as f64),
            d => decode_real(d, b),
        })
        .collect();
    all.unwrap_or_else(bytes)
}

/// An element of a tensor. An integer is exact, also beyond the 53 bits of an `f64`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    /// An integer of 64 bits.
    Whole(i128),
    /// Any other number.
    Real(f64),
}

impl Element {
    /// The nearest real number.
    pub fn real(self) -> f64 {
        match self {
            Element::Whole(n) => n as f64,
            Element::Real(x) => x,
        }
    }
    /// Whether both are the same number. A NaN is the same as a NaN.
    pub fn is(self, other: Element) -> bool {
        let both = |n: i128, x: f64| x.fract() == 0.0 && x as i128 == n;
        match (self, other) {
            (Element::Whole(a), Element::Whole(b)) => a == b,
            (Element::Real(a), Element::Real(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Element::Whole(n), Element::Real(x)) | (Element::Real(x), Element::Whole(n)) => both(n, x),
        }
    }
    /// The distance of two numbers; NaN if it is not defined.
    pub fn apart(self, other: Element) -> f64 {
        match (self, other) {
            (Element::Whole(a), Element::Whole(b)) => a.abs_diff(b) as f64,
            (a, b) => (a.real() - b.real()).abs(),
        }
    }
    /// The element as JSON; null if it is not finite.
    pub fn json(self) -> serde_json::Value {
        match self {
            Element::Whole(n) => i64::try_from(n).map_or_else(|_| (n as u64).into(), Into::into),
            Element::Real(x) => x.into(),
        }
    }
    /// The element as text for people, in a type.
    pub fn word(self, dtype: DType) -> String {
        match self {
            Element::Whole(n) => n.to_string(),
            Element::Real(x) => number(x, dtype),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Whole(n) => n.fmt(f),
            Element::Real(x) => x.fmt(f),
        }
    }
}

/// The elements of a tensor as numbers.
pub enum Elements {
    /// Integers of 64 bits.
    Whole(Vec<i128>),
    /// Other numbers, as [`values`] gives them.
    Real(Vec<f64>),
}

impl Elements {
    /// The elements of a tensor. Complex numbers give two each.
    pub fn of(t: &HostTensor) -> Elements {
        match t.dtype {
            DType::I64 => Elements::Whole(bits(t, 64).map(|b| i128::from(b.cast_signed())).collect()),
            DType::U64 => Elements::Whole(bits(t, 64).map(i128::from).collect()),
            _ => Elements::Real(values(t)),
        }
    }
    /// Number of elements.
    pub fn count(&self) -> usize {
        match self {
            Elements::Whole(all) => all.len(),
            Elements::Real(all) => all.len(),
        }
    }
    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Element> + '_ {
        let at = |i: usize| match self {
            Elements::Whole(all) => Element::Whole(all[i]),
            Elements::Real(all) => Element::Real(all[i]),
        };
        (0..self.count()).map(at)
    }
}

/// Names the place of number `at` of a tensor for people: `element 3`, or `the imaginary part of
/// element 3`.
pub fn place(dtype: DType, at: usize) -> String {
    match (parts(dtype).1, at % 2) {
        (2, 0) => format!("the real part of element {}", at / 2),
        (2, _) => format!("the imaginary part of element {}", at / 2),
        _ => format!("element {at}"),
    }
}

/// The number that an element of a real type, or a component of a complex one, has by its bits.
pub fn of_bits(dtype: DType, bits: u64) -> f64 {
    decode_real(parts(dtype).0, bits).unwrap_or(f64::NAN)
}

fn is_signed(d: DType) -> bool {
    matches!(d, DType::I2 | DType::I4 | DType::I8 | DType::I16 | DType::I32 | DType::I64)
}

/// The first elements as text for people; integers with all digits.
pub fn words(t: &HostTensor, most: usize) -> Vec<String> {
    let width = t.dtype.bits().unwrap_or(0) as usize;
    if t.dtype.is_int() && (1..=64).contains(&width) {
        let word = |b: u64| if is_signed(t.dtype) { signed(b, width).to_string() } else { b.to_string() };
        return bits(t, width).take(most).map(word).collect();
    }
    let (part, each) = parts(t.dtype);
    let all = values(t);
    let one = |c: &[f64]| match c {
        [re, im] if each == 2 => {
            let sign = if im.is_sign_negative() { "" } else { "+" };
            format!("{}{sign}{}i", number(*re, part), number(*im, part))
        }
        other => number(other.first().copied().unwrap_or_default(), part),
    };
    all.chunks_exact(each).take(most).map(one).collect()
}

/// A number as text for people: as few digits as distinguish it from its neighbours in the type,
/// with powers of ten for very small or large numbers.
fn number(x: f64, dtype: DType) -> String {
    let far = x != 0.0 && x.is_finite() && !(1e-5..1e9).contains(&x.abs());
    let short = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    match (dtype.is_int() || dtype == DType::BOOL, short, far) {
        (true, ..) => format!("{x}"),
        (_, true, true) => format!("{:e}", x as f32),
        (_, true, false) => format!("{}", x as f32),
        (_, false, true) => format!("{x:e}"),
        (_, false, false) => format!("{x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_their_type_needs() {
        let small = f64::from(3.388_623_2e-13_f32);
        assert_eq!(number(small, DType::F32), "3.3886232e-13");
        assert_eq!(number(f64::from(0.1f32), DType::F32), "0.1");
        assert_eq!(number(0.1, DType::F64), "0.1");
        assert_eq!(number(3e10, DType::I64), "30000000000");
        assert_eq!(number(0.0, DType::F32), "0");
        assert_eq!(number(f64::NAN, DType::F16), "NaN");
    }

    #[test]
    fn integers_of_64_bits_are_exact() {
        let whole = |n: i64| Elements::of(&tensor(DType::I64, &[1], &n.to_le_bytes())).iter().next().expect("one");
        let (a, b) = (whole(1 << 53), whole((1 << 53) + 1));
        assert!(!a.is(b) && a.apart(b) == 1.0 && b.word(DType::I64) == "9007199254740993");
        assert!(a.is(Element::Real(2f64.powi(53))) && !b.is(Element::Real(2f64.powi(53))) && !a.is(Element::Real(0.5)));
        assert_eq!(whole(i64::MAX).apart(whole(i64::MIN)), 2f64.powi(64));
        assert_eq!(place(DType::COMPLEX64, 1), "the imaginary part of element 0");
    }

    fn tensor(dtype: DType, dims: &[u64], bytes: &[u8]) -> HostTensor {
        HostTensor::from_bytes(dtype, dims, bytes).expect("a tensor")
    }

    #[test]
    fn elements_of_every_type_are_their_numbers() {
        let whole =
            tensor(DType::I64, &[2], &[i64::MAX.to_le_bytes(), (-9_007_199_254_740_993i64).to_le_bytes()].concat());
        assert_eq!(words(&whole, 8), ["9223372036854775807", "-9007199254740993"]);
        let large = tensor(DType::U64, &[1], &u64::MAX.to_le_bytes());
        assert_eq!((words(&large, 8), values(&large)), (vec!["18446744073709551615".to_owned()], vec![2f64.powi(64)]));
        let nibbles = tensor(DType::I4, &[3], &[0x7f, 0x08]);
        assert_eq!((values(&nibbles), words(&nibbles, 2)), (vec![-1.0, 7.0, -8.0], vec!["-1".into(), "7".into()]));
        // Values of the OCP's table: 1.5, the largest number, NaN.
        let eights = tensor(DType::F8E4M3FN, &[3], &[0x3c, 0x7e, 0x7f]);
        let got = values(&eights);
        assert!(got[..2] == [1.5, 448.0] && got[2].is_nan());
        let complex = tensor(DType::COMPLEX64, &[1], &[1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat());
        assert_eq!((words(&complex, 8), values(&complex)), (vec!["1.5-2i".to_owned()], vec![1.5, -2.0]));
        let truths = tensor(DType::BOOL, &[2], &[1, 0]);
        assert_eq!((words(&truths, 8), values(&truths)), (vec!["1".to_owned(), "0".to_owned()], vec![1.0, 0.0]));
        let none = tensor(DType::F32, &[0, 3], &[]);
        assert!(words(&none, 8).is_empty() && values(&none).is_empty());
    }
}
