//! Inputs given as values on the command line: `sr=16000`, `size=[224,224]`, `mask=true`.
use super::Wanted;
use super::kernels::Kernels;
use crate::{Diagnostic, Error, Result};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{DType, Shape, bytes_of_strings};
use ge_runtime::npy_text::texts;

/// A number, or nested lists of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Sizes; `None` for a single number, which fits any shape.
    dims: Option<Vec<u64>>,
    numbers: Vec<Number>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Whole(i128),
    Real(f64),
    Truth(bool),
}

/// Parses a value; `None` if the text is not one.
pub fn parse(text: &str) -> Option<Value> {
    let text = text.trim();
    if let Some(n) = number(text) {
        return Some(Value { dims: None, numbers: vec![n] });
    }
    if text.starts_with('[') {
        let json: serde_json::Value = serde_json::from_str(text).ok()?;
        let mut numbers = Vec::new();
        let dims = flatten(&json, &mut numbers)?;
        return Some(Value { dims: Some(dims), numbers });
    }
    let numbers: Option<Vec<Number>> = text.split(',').map(|t| number(t.trim())).collect();
    numbers.filter(|n| n.len() > 1).map(|numbers| Value { dims: Some(vec![numbers.len() as u64]), numbers })
}

fn number(text: &str) -> Option<Number> {
    match text {
        "true" => Some(Number::Truth(true)),
        "false" => Some(Number::Truth(false)),
        t => match t.parse::<i128>().ok().filter(|n| is_held(*n)) {
            Some(n) => Some(Number::Whole(n)),
            None => t.parse::<f64>().ok().map(Number::Real),
        },
    }
}

/// Whether some 64-bit integer type can hold the number.
fn is_held(n: i128) -> bool {
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&n)
}

/// Collects the numbers of nested lists and returns their sizes; `None` if depths or lengths
/// differ.
fn flatten(v: &serde_json::Value, out: &mut Vec<Number>) -> Option<Vec<u64>> {
    match v {
        serde_json::Value::Array(list) => {
            let mut inner: Option<Vec<u64>> = None;
            for v in list {
                let dims = flatten(v, out)?;
                if inner.as_ref().is_some_and(|i| *i != dims) {
                    return None;
                }
                inner = Some(dims);
            }
            let mut dims = vec![list.len() as u64];
            dims.extend(inner.unwrap_or_default());
            Some(dims)
        }
        serde_json::Value::Bool(b) => {
            out.push(Number::Truth(*b));
            Some(Vec::new())
        }
        serde_json::Value::Number(n) => {
            let whole = n.as_i64().map(i128::from).or(n.as_u64().map(i128::from));
            out.push(whole.map(Number::Whole).or_else(|| n.as_f64().map(Number::Real))?);
            Some(Vec::new())
        }
        _ => None,
    }
}

impl Value {
    /// The tensor for an input: a single number fills it; a list with the same number of elements
    /// takes the input's shape.
    ///
    /// # Errors
    /// `usage` if the input's type cannot hold a number; `failed` if there is not enough memory.
    pub fn tensor(&self, kernels: &Kernels<'_>, w: &Wanted<'_>) -> Result<HostTensor> {
        let shape = &w.desc.shape;
        // For a single number, sizes that the model leaves open become 1.
        let whole: Option<Vec<u64>> =
            shape.rank().map(|_| shape.dims().iter().map(|d| d.size().unwrap_or(1)).collect());
        let count = |dims: &[u64]| Shape::of(dims).count();
        let dims = match (&self.dims, whole, shape.sizes()) {
            (None, Some(all), _) => all,
            (None, None, _) => Vec::new(),
            (Some(d), _, Some(sizes)) if count(d) == count(&sizes) && d.len() == 1 => sizes,
            (Some(d), ..) => d.clone(),
        };
        // A single number is converted once and then repeated.
        let sizes = self.dims.as_ref().map_or(&[1][..], |_| &dims);
        let (dtype, bytes) = stored(&self.numbers, w)?;
        let t = HostTensor::from_bytes(dtype, sizes, &bytes)?;
        let t = kernels.cast(&t, w.desc.dtype, &format!("input `{}`", w.name))?;
        if self.dims.is_some() { Ok(t) } else { repeated(&t, &dims) }
    }
}

/// Numbers in a type that holds them exactly, as bytes: integers of 64 bits where the input takes
/// integers and all of them are whole, else `f64`.
///
/// # Errors
/// `usage` if no type holds all of them.
fn stored(numbers: &[Number], w: &Wanted<'_>) -> Result<(DType, Vec<u8>)> {
    let whole = |n: &Number| match n {
        Number::Whole(n) => Some(*n),
        Number::Truth(t) => Some(i128::from(*t)),
        // `1.0` is an integer only for an input of integers.
        Number::Real(r) if w.desc.dtype.is_int() && r.fract() == 0.0 => Some(*r as i128).filter(|n| is_held(*n)),
        Number::Real(_) => None,
    };
    let Some(all) = numbers.iter().map(whole).collect::<Option<Vec<i128>>>() else {
        let real = |n: &Number| match n {
            Number::Whole(n) => *n as f64,
            Number::Real(r) => *r,
            Number::Truth(t) => f64::from(*t),
        };
        return Ok((DType::F64, numbers.iter().flat_map(|n| real(n).to_le_bytes()).collect()));
    };
    let large = all.iter().any(|n| *n > i128::from(i64::MAX));
    if let Some(n) = all.iter().find(|n| large && **n < 0) {
        return Err(Diagnostic::error(format!("input `{}`: no type holds {n} beside the others", w.name))
            .subject(w.name)
            .raise(ge_codes::INPUT));
    }
    let dtype = if large { DType::U64 } else { DType::I64 };
    Ok((dtype, all.iter().flat_map(|n| (*n as u64).to_le_bytes()).collect()))
}

/// A tensor that has the one element of `t` everywhere.
///
/// # Errors
/// Fails if there is not enough memory.
fn repeated(t: &HostTensor, dims: &[u64]) -> Result<HostTensor> {
    let none = || Error::failed(format!("no memory for a tensor {}{dims:?}", t.dtype));
    let count = Shape::of(dims).count().ok_or_else(none)?;
    if let Some(text) = texts(t).filter(|_| t.dtype == DType::STRING) {
        let count = usize::try_from(count).map_err(|_| none())?;
        let mut all: Vec<&[u8]> = Vec::new();
        all.try_reserve_exact(count).map_err(|_| none())?;
        all.resize(count, text.first().copied().unwrap_or_default());
        return HostTensor::from_bytes(DType::STRING, dims, &bytes_of_strings(&all));
    }
    let mut out = HostTensor::zeroed(t.dtype, dims)?;
    match t.dtype.bits() {
        Some(bits) if bits < 8 => {
            let one = t.bytes().first().copied().unwrap_or(0) & ((1 << bits) - 1);
            let all = (0..8 / bits).fold(0, |all, k| all | one << (k * bits));
            out.bytes_mut().fill(all);
            // What the last byte has beyond the elements stays zero.
            let used = count * bits % 8;
            if let Some(last) = out.bytes_mut().last_mut().filter(|_| used > 0) {
                *last &= (1 << used) - 1;
            }
        }
        _ => out.bytes_mut().chunks_exact_mut(t.bytes().len().max(1)).for_each(|e| e.copy_from_slice(t.bytes())),
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lists_and_truths_are_values_and_names_are_not() {
        let one = |n| Some(Value { dims: None, numbers: vec![n] });
        assert_eq!(parse("16000"), one(Number::Whole(16000)));
        assert_eq!(parse("18446744073709551615"), one(Number::Whole(i128::from(u64::MAX))));
        assert_eq!(parse("18446744073709551616"), one(Number::Real(2f64.powi(64))));
        assert_eq!(parse("-1.5e3"), one(Number::Real(-1500.0)));
        assert_eq!(parse("true"), one(Number::Truth(true)));
        let list = |dims: &[u64], numbers: &[i64]| {
            Some(Value {
                dims: Some(dims.to_vec()),
                numbers: numbers.iter().map(|n| Number::Whole(i128::from(*n))).collect(),
            })
        };
        assert_eq!(parse("[1,2,3]"), list(&[3], &[1, 2, 3]));
        assert_eq!(parse("1, 2"), list(&[2], &[1, 2]));
        assert_eq!(parse("[[1,2],[3,4]]"), list(&[2, 2], &[1, 2, 3, 4]));
        assert_eq!(parse("[]"), list(&[0], &[]));
        for none in ["cat.jpg", "[1,[2]]", "[1,2", "x=1", "[\"a\"]", ""] {
            assert_eq!(parse(none), None, "{none}");
        }
    }

    #[test]
    fn one_number_is_repeated_and_too_many_of_it_are_an_error() {
        let one = |dtype, bytes: &[u8]| HostTensor::from_bytes(dtype, &[1], bytes).expect("one");
        let t = repeated(&one(DType::I4, &[0xe]), &[3]).expect("three");
        assert_eq!((t.dims.as_slice(), t.bytes()), (&[3][..], &[0xee, 0x0e][..]));
        let t = repeated(&one(DType::U16, &[1, 2]), &[2, 1]).expect("two");
        assert_eq!(t.bytes(), [1, 2, 1, 2]);
        assert!(repeated(&one(DType::F32, &[0; 4]), &[0, 3]).expect("none").bytes().is_empty());
        for dims in [&[1 << 31, 1 << 31][..], &[1 << 40, 1 << 40]] {
            for t in [one(DType::F32, &[0; 4]), one(DType::STRING, &bytes_of_strings(&["a"]))] {
                assert!(repeated(&t, dims).is_err());
            }
        }
    }

    #[test]
    fn integers_among_reals_are_exact_for_an_input_of_integers() {
        let of = |dtype| {
            let desc = ge_plugin_api::types::TensorDesc { dtype, ..ge_plugin_api::types::TensorDesc::unknown() };
            let w = Wanted { name: "x", desc: &desc, file: None };
            stored(&[Number::Whole(9_007_199_254_740_993), Number::Real(1.0)], &w).expect("held")
        };
        let (dtype, bytes) = of(DType::I64);
        assert_eq!((dtype, &bytes[..8]), (DType::I64, &9_007_199_254_740_993u64.to_le_bytes()[..]));
        assert_eq!(of(DType::F32).0, DType::F64);
    }
}
