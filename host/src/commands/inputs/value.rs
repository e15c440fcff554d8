//! Inputs given as values on the command line: `sr=16000`, `size=[224,224]`, `mask=true`.
use super::Wanted;
use super::kernels::Kernels;
use crate::{Diagnostic, Result};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;

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
    /// `usage` if the input's type cannot hold a number.
    pub fn tensor(&self, kernels: &Kernels<'_>, w: &Wanted<'_>) -> Result<HostTensor> {
        let shape = &w.desc.shape;
        // For a single number, sizes that the model leaves open become 1.
        let whole: Option<Vec<u64>> =
            shape.rank().map(|_| shape.dims().iter().map(|d| d.size().unwrap_or(1)).collect());
        let count = |dims: &[u64]| dims.iter().product::<u64>();
        let dims = match (&self.dims, whole, shape.sizes()) {
            (None, Some(all), _) => all,
            (None, None, _) => Vec::new(),
            (Some(d), _, Some(sizes)) if count(d) == count(&sizes) && d.len() == 1 => sizes,
            (Some(d), ..) => d.clone(),
        };
        let numbers: Vec<Number> = match self.numbers.as_slice() {
            [one] if self.dims.is_none() => vec![*one; usize::try_from(count(&dims)).unwrap_or(0)],
            list => list.to_vec(),
        };
        // The numbers are first stored in a type that holds them exactly, then converted with a
        // check.
        let real = numbers.iter().any(|n| matches!(n, Number::Real(_)));
        let (dtype, bytes): (DType, Vec<u8>) = if real {
            let f = |n: &Number| match n {
                Number::Whole(n) => *n as f64,
                Number::Real(r) => *r,
                Number::Truth(t) => f64::from(*t),
            };
            (DType::F64, numbers.iter().flat_map(|n| f(n).to_le_bytes()).collect())
        } else {
            let i = |n: &Number| match n {
                Number::Whole(n) => *n,
                Number::Truth(t) => i128::from(*t),
                Number::Real(_) => 0,
            };
            // Numbers above i64::MAX are stored as i64 with the same 64 bits.
            let large = numbers.iter().any(|n| i(n) > i128::from(i64::MAX));
            let small = numbers.iter().find(|n| i(n) < 0).filter(|_| large);
            if let Some(n) = small {
                return Err(Diagnostic::error(format!("input `{}`: no type holds {} beside the others", w.name, i(n)))
                    .subject(w.name)
                    .raise(ge_codes::INPUT));
            }
            let dtype = if large { DType::U64 } else { DType::I64 };
            (dtype, numbers.iter().flat_map(|n| (i(n) as u64).to_le_bytes()).collect())
        };
        let t = HostTensor::from_bytes(dtype, &dims, &bytes)?;
        kernels.cast(&t, w.desc.dtype, &format!("input `{}`", w.name))
    }
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
}
