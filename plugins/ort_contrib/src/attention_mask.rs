//! Masks of the attention operators: padding masks of several forms become one shift that is added
//! to the scores and broadcasts to `[batch, heads, queries, keys]`.
use crate::shared::{apply, rank, real, reshaped, size, unsqueezed};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::{DType, ValueRef};

/// The number of keys, needed where lengths are compared with key positions.
pub(crate) enum Keys {
    /// The size of axis 1 of this value.
    AxisOf(ValueRef),
    /// Unknown to the mapping, because a past precedes the keys.
    WithPast,
}

/// The shift for the padding mask at input `at`: 0 where a key counts, `filter` where it does not.
///
/// Forms: `[batch, keys]`, `[batch, queries, keys]` (a key counts if its entry is not 0), `[batch]`
/// (number of keys that count, from the first on).
pub(crate) fn padding(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    at: usize,
    keys: Keys,
    filter: f64,
    dtype: DType,
) -> Result<Option<ValueRef>> {
    let Some(mask) = n.opt_input(at) else { return Ok(None) };
    let counts = match rank(n, at) {
        Some(2) => {
            let m = not_zero(n, b, mask, at)?;
            unsqueezed(b, m, &[1, 2])
        }
        Some(3) => {
            let m = not_zero(n, b, mask, at)?;
            unsqueezed(b, m, &[1])
        }
        Some(1) => within_length(n, b, mask, at, keys)?,
        Some(r) => {
            return Err(n.refuse(format!("a mask of {r} axes (input {at}) is not computed; give [batch, keys]")));
        }
        None => return Err(n.refuse(format!("the rank of the mask (input {at}) must be known"))),
    };
    let (keep, drop) = (real(b, "counts", 0.0, dtype), real(b, "left_out", filter, dtype));
    Ok(Some(apply(b, "SelectV2", &[counts, keep, drop])))
}

/// Whether each number of a mask is not 0.
fn not_zero(n: &ForeignNode, b: &mut GraphBuilder<'_>, mask: ValueRef, at: usize) -> Result<ValueRef> {
    match n.desc(at).map(|d| d.dtype) {
        Some(DType::BOOL) => Ok(mask),
        _ => Ok(b.node("Cast").input(mask).attr("dst_type", DType::BOOL).build()),
    }
}

/// Whether the position of each key is below the length of its row.
fn within_length(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    lengths: ValueRef,
    at: usize,
    keys: Keys,
) -> Result<ValueRef> {
    if let (Some(batch), Some(len)) = (size(n, 0, 0), size(n, at, 0))
        && batch != len
    {
        return Err(n.refuse(format!(
            "the mask (input {at}) has {len} numbers for a batch of {batch}: ends and starts of packed rows are not \
             computed; give [batch, keys]"
        )));
    }
    let Keys::AxisOf(x) = keys else {
        return Err(n.refuse("lengths of keys together with a past are not computed; give the mask as [batch, keys]"));
    };
    let shape = b.node("Shape").input(x).attr("dtype", DType::I64).attr("start", 1i64).attr("end", 2i64).build();
    let count = b.node("Squeeze").input(shape).attr("axis", vec![0i64]).build();
    let (zero, one) = (crate::shared::scalar(b, "first", 0i64), crate::shared::scalar(b, "step", 1i64));
    let numbers = apply(b, "Range", &[zero, count, one]);
    let lengths = b.node("Cast").input(lengths).attr("dst_type", DType::I64).build();
    let lengths = reshaped(b, lengths, "lengths", &[-1, 1, 1, 1]);
    Ok(apply(b, "Less", &[numbers, lengths]))
}

/// The sum of two shifts, either of which may be absent.
pub(crate) fn both(b: &mut GraphBuilder<'_>, x: Option<ValueRef>, y: Option<ValueRef>) -> Option<ValueRef> {
    match (x, y) {
        (Some(x), Some(y)) => Some(apply(b, "Add", &[x, y])),
        (x, y) => x.or(y),
    }
}
