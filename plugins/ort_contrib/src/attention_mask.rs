//! Masks of the attention operators: padding masks of several forms become one shift that is added
//! to the scores and broadcasts to `[batch, heads, queries, keys]`.
use crate::shared::{apply, cast, known_type, rank, real, reshaped, scalar, size, unsqueezed};
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

/// The type of scores: `own`, or f32 if there is a mask at input `at` and `own` cannot hold its
/// filter. There the filter would be infinite, and a row without keys would have no mean.
pub(crate) fn type_of_scores(n: &ForeignNode, at: usize, filter: f64, own: DType) -> DType {
    let largest = match own {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        _ => f64::MAX,
    };
    if n.opt_input(at).is_some() && filter.abs() > largest { DType::F32 } else { own }
}

/// The shift for the padding mask at input `at`, of type `dtype`: 0 where a key counts, `filter`
/// where it does not.
///
/// Forms: `[batch, keys]`, `[batch, queries, keys]` (a key counts if its entry is above 0),
/// `[batch]` (number of keys that count, from the first on), `[2 * batch]` (the end of the keys
/// that count in each row, then their starts).
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
            let m = positive(n, b, mask, at);
            unsqueezed(b, m, &[1, 2])
        }
        Some(3) => {
            let m = positive(n, b, mask, at);
            unsqueezed(b, m, &[1])
        }
        Some(1) => within_ends(n, b, mask, at, keys)?,
        Some(r) => {
            return Err(n.refuse(format!("a mask of {r} axes (input {at}) is not computed; give [batch, keys]")));
        }
        None => return Err(n.refuse(format!("the rank of the mask (input {at}) must be known"))),
    };
    let (keep, drop) = (real(b, "counts", 0.0, dtype), real(b, "left_out", filter, dtype));
    Ok(Some(apply(b, "SelectV2", &[counts, keep, drop])))
}

/// Whether each number of a mask is above 0.
fn positive(n: &ForeignNode, b: &mut GraphBuilder<'_>, mask: ValueRef, at: usize) -> ValueRef {
    let mask = match known_type(n, at) {
        Some(DType::BOOL) => return mask,
        Some(DType::I32) => mask,
        _ => cast(b, mask, DType::I32),
    };
    let zero = scalar(b, "zero", 0i32);
    apply(b, "Greater", &[mask, zero])
}

/// The halves of a mask `[2 * batch]`. A mask `[batch]` is its first half, and its second one is
/// zeros.
fn ends_and_starts(n: &ForeignNode, b: &mut GraphBuilder<'_>, mask: ValueRef) -> Result<[ValueRef; 2]> {
    let x = n.input(0)?;
    let batch = b.node("Shape").input(x).attr("dtype", DType::I64).attr("start", 0i64).attr("end", 1i64).build();
    let both = apply(b, "Add", &[batch, batch]);
    let zero = scalar(b, "zero", 0i64);
    let zeros = apply(b, "BroadcastTo", &[zero, batch]);
    let all = b.node("ConcatD").inputs(&[mask, zeros]).attr("concat_dim", 0i64).attr("N", 2i64).build();
    let (begin, axes) = (b.ints("begin", &[0]), b.ints("axes", &[0]));
    Ok([[begin, batch], [batch, both]].map(|[from, to]| apply(b, "StridedSliceV2", &[all, from, to, axes])))
}

/// Whether the position of each key is before the end of its row and, if the mask has starts, not
/// before its start.
fn within_ends(n: &ForeignNode, b: &mut GraphBuilder<'_>, mask: ValueRef, at: usize, keys: Keys) -> Result<ValueRef> {
    let sizes = size(n, 0, 0).zip(size(n, at, 0));
    if let Some((batch, len)) = sizes.filter(|(batch, len)| len != batch && Some(*len) != batch.checked_mul(2)) {
        return Err(n.refuse(format!(
            "the mask (input {at}) has {len} numbers for a batch of {batch}: offsets of packed rows are not computed; \
             give [batch, keys]"
        )));
    }
    let Keys::AxisOf(x) = keys else {
        return Err(n.refuse("lengths of keys together with a past are not computed; give the mask as [batch, keys]"));
    };
    let shape = b.node("Shape").input(x).attr("dtype", DType::I64).attr("start", 1i64).attr("end", 2i64).build();
    let count = b.node("Squeeze").input(shape).attr("axis", vec![0i64]).build();
    let (zero, one) = (scalar(b, "first", 0i64), scalar(b, "step", 1i64));
    let numbers = apply(b, "Range", &[zero, count, one]);
    let mask = cast(b, mask, DType::I64);
    let rows = |b: &mut GraphBuilder<'_>, x: ValueRef| reshaped(b, x, "rows", &[-1, 1, 1, 1]);
    if sizes.is_some_and(|(batch, len)| batch == len) {
        let ends = rows(b, mask);
        return Ok(apply(b, "Less", &[numbers, ends]));
    }
    let [ends, starts] = ends_and_starts(n, b, mask)?.map(|x| rows(b, x));
    let (before, from) = (apply(b, "Less", &[numbers, ends]), apply(b, "GreaterEqual", &[numbers, starts]));
    Ok(apply(b, "LogicalAnd", &[before, from]))
}

/// The sum of two shifts, either of which may be absent.
pub(crate) fn both(b: &mut GraphBuilder<'_>, x: Option<ValueRef>, y: Option<ValueRef>) -> Option<ValueRef> {
    match (x, y) {
        (Some(x), Some(y)) => Some(apply(b, "Add", &[x, y])),
        (x, y) => x.or(y),
    }
}
