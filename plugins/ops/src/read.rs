//! Reading a node during inference: attributes with defaults, axes, constant inputs, and the errors
//! that may occur.
use ge_plugin_api::diagnostic::{Diagnostic, Error, ErrorKind, Result};
use ge_plugin_api::ops::InferCtx;
use ge_plugin_api::types::{AttrValue, DType, Shape, TensorDesc};

/// The error that one input, output or attribute does not fit.
pub fn bad(subject: impl Into<String>, found: impl ToString, expected: impl ToString) -> Error {
    let subject = subject.into();
    Diagnostic::error(format!("{subject} does not fit"))
        .subject(subject)
        .found(found.to_string(), expected.to_string())
        .of(ErrorKind::FAILED)
}
/// An integer attribute, or the default.
pub fn int(c: &InferCtx<'_>, key: &str, default: i64) -> i64 {
    c.node.int(key).unwrap_or(default)
}
/// A boolean attribute, or the default.
pub fn flag(c: &InferCtx<'_>, key: &str, default: bool) -> bool {
    c.node.attr(key).and_then(AttrValue::as_bool).unwrap_or(default)
}
/// A string attribute, or the default.
pub fn text<'a>(c: &InferCtx<'a>, key: &str, default: &'a str) -> &'a str {
    c.node.str(key).unwrap_or(default)
}
/// A list-of-integers attribute, if it is set.
pub fn ints<'a>(c: &InferCtx<'a>, key: &str) -> Option<&'a [i64]> {
    c.node.ints(key)
}
/// A list-of-integers attribute; an error if it is missing.
pub fn need_ints<'a>(c: &InferCtx<'a>, key: &str) -> Result<&'a [i64]> {
    ints(c, key).ok_or_else(|| bad(key, "nothing", "a list of integers"))
}
/// An element-type attribute, given as a type or by name.
pub fn dtype(c: &InferCtx<'_>, key: &str) -> Option<DType> {
    match c.node.attr(key)? {
        AttrValue::Type(t) => Some(*t),
        AttrValue::Str(s) => DType::from_name(s),
        _ => None,
    }
}
/// Several integers from the attribute of that name, or else from a constant input.
pub fn ints_or_input(c: &InferCtx<'_>, key: &str, input: usize) -> Option<Vec<i64>> {
    match ints(c, key) {
        Some(v) => Some(v.to_vec()),
        None => c.const_ints(input),
    }
}
/// The index of an axis, which counts from the end if negative; an error if it is out of range.
pub fn axis(subject: &str, axis: i64, rank: usize) -> Result<usize> {
    let r = i64::try_from(rank).unwrap_or(i64::MAX);
    let a = if axis < 0 { axis.saturating_add(r) } else { axis };
    if (0..r).contains(&a) {
        Ok(usize::try_from(a).unwrap_or(0))
    } else {
        Err(bad(subject, axis, format!("-{rank} to {}", r - 1)))
    }
}
/// The indices of several axes, sorted; an error if one is out of range or occurs twice.
pub fn axes(subject: &str, list: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut v = list.iter().map(|&a| axis(subject, a, rank)).collect::<Result<Vec<_>>>()?;
    v.sort_unstable();
    match v.windows(2).find(|w| w[0] == w[1]) {
        Some(w) => Err(bad(subject, format!("axis {} twice", w[0]), "each axis once")),
        None => Ok(v),
    }
}
/// A tensor of a type and shape. It has the format of input 0 if the ranks are equal.
pub fn out(c: &InferCtx<'_>, dtype: DType, shape: Shape) -> TensorDesc {
    let mut d = TensorDesc::new(dtype, shape);
    if let Some(i) = c.opt_input(0) {
        if i.shape.rank() == d.shape.rank() {
            d.format = i.format;
        }
    }
    d
}
/// A single output of this shape with the type of input 0.
pub fn one(c: &InferCtx<'_>, shape: Shape) -> Result<Vec<TensorDesc>> {
    Ok(vec![out(c, c.input(0)?.dtype, shape)])
}
/// A single output of this shape for a matrix product or a similar operator: its type is `y_dtype`,
/// or else that of input 0.
pub fn product(c: &InferCtx<'_>, shape: Shape) -> Result<Vec<TensorDesc>> {
    Ok(vec![out(c, dtype(c, "y_dtype").unwrap_or(c.input(0)?.dtype), shape)])
}
/// Rank of input `i`, `None` if it is not known; an error if it is not between `least` and `most`.
pub fn rank_in(c: &InferCtx<'_>, i: usize, name: &str, least: usize, most: usize) -> Result<Option<usize>> {
    match c.input(i)?.shape.rank() {
        Some(r) if r < least || r > most => {
            let want = if least == most {
                format!("rank {least}")
            } else if most == usize::MAX {
                format!("rank {least} or more")
            } else {
                format!("rank {least} to {most}")
            };
            Err(bad(format!("input {i} `{name}`"), format!("rank {r} ({})", c.input(i)?.shape), want))
        }
        r => Ok(r),
    }
}
