//! `AttentionDecomposePass`: turns ONNX's `Attention` into `PromptFlashAttention`, which engines
//! compute by blocks. Concatenations of the past and the new keys and values come before it.
//!
//! Before: `%y, %k2, %v2 = Attention(%q, %k, %v, %mask, %past_k, %past_v) {is_causal = 1}`
//! After: `%k2 = ConcatD(%past_k, %k)  %v2 = ConcatD(%past_v, %v)
//! %y = PromptFlashAttention(%q, %k2, %v2, %mask) {sparse_mode = 3}`
//! When: the heads of query, key and value have the same known size. If there is a past,
//! `[B, S, N * D]` is split into heads first, and the result is converted back. A boolean mask
//! becomes a shift.
//! Refuses: scores as an output, values of another size than keys, a band of keys that begins at
//! neither corner of the scores, computation in double precision.
//! Keeps: the node's name and values. A past that is both an input and an output of the model may
//! grow in place.
use ge_plugin_api::fusion::{Decompose, Replacement, Verdict};
use ge_plugin_api::pass::{PassInfo, PassLevel, PassStage};
use ge_plugin_api::types::{AttrValue, ConstTensor, DType, Dim, ValueRef};
use ge_plugin_api::view::Node;

/// A number of keys that stands for any distance.
const FAR: i64 = 214_748_647;
/// Value of `inner_precise` with which rows whose scores are all minus infinity give zeros.
const EMPTY_IS_ZERO: i64 = 2;

/// The pass that this module describes.
pub struct AttentionDecompose;

/// How a query, a key or a value is divided into heads.
#[derive(Clone, Copy)]
struct Heads {
    /// Whether it is `[B, N, S, D]`; otherwise it is `[B, S, N * D]`.
    apart: bool,
    count: u64,
    positions: Dim,
    size: u64,
}

impl Heads {
    fn of(n: &Node<'_>, i: usize, heads: &str) -> Verdict<Heads> {
        let d = n.input_desc(i).ok_or_else(|| format!("input {i} is missing"))?;
        let known = |d: Dim, what: &str| d.size().ok_or_else(|| format!("the {what} of input {i} is not known"));
        match *d.shape.dims() {
            [_, count, positions, size] => {
                let (count, size) = (known(count, "number of heads")?, known(size, "head size")?);
                Ok(Heads { apart: true, count, positions, size })
            }
            [_, positions, width] => {
                let (width, count) = (known(width, "width")?, n.int(heads).and_then(|c| u64::try_from(c).ok()));
                let count = count.filter(|c| *c > 0 && width % c == 0);
                let count = count.ok_or_else(|| format!("the number of heads of input {i} is not known"))?;
                Ok(Heads { apart: false, count, positions, size: width / count })
            }
            _ => Err(format!("the rank of input {i} is not known")),
        }
    }

    /// Returns a value of these heads as `[B, N, S, D]`.
    fn split(&self, x: ValueRef, r: &Replacement<'_>) -> ValueRef {
        if self.apart {
            return x;
        }
        let shape = vec![0i64, 0, self.count as i64, self.size as i64];
        let parts = r.op("Reshape", [x]).attr("shape", shape);
        r.op("TransposeD", [parts.into()]).attr("perm", vec![0i64, 2, 1, 3]).into()
    }
}

/// The input with the number of keys of each sequence, if it is given.
fn lengths(n: &Node<'_>) -> Option<ValueRef> {
    n.input(6).filter(|v| !v.is_absent())
}

/// Which keys a query sees: the mode, and how many keys before and behind its position.
fn band(n: &Node<'_>, [q, k]: [&Heads; 2]) -> Verdict<[i64; 3]> {
    let side = |key: &str| n.int(key).filter(|w| *w >= 0);
    let (left, right) = (side("left_window_size"), side("right_window_size"));
    let causal = n.int("is_causal").unwrap_or(0) != 0;
    if !causal && left.is_none() && right.is_none() {
        return Ok([0, FAR, FAR]);
    }
    let (past, aligned) = (n.input(4).is_some_and(|v| !v.is_absent()), q.positions.same(k.positions));
    if causal && left.is_none() && !past && lengths(n).is_none() {
        return Ok([2, FAR, 0]);
    }
    // The query's position among the keys is then counted from the last key, or from the last one
    // within the given lengths.
    if !aligned && lengths(n).is_none() {
        return Err("there are as many queries as new keys in no case that is known".into());
    }
    if causal && left.is_none() {
        return Ok([3, FAR, 0]);
    }
    Ok([4, left.unwrap_or(FAR), if causal { 0 } else { right.unwrap_or(FAR) }])
}

/// What is added to the scores, in the type of the query.
fn shift(n: &Node<'_>, dtype: DType, r: &Replacement<'_>) -> Verdict<ValueRef> {
    let Some(mask) = n.input(3).filter(|v| !v.is_absent()) else { return Ok(ValueRef::ABSENT) };
    let of = n.input_desc(3).map_or(DType::UNKNOWN, |d| d.dtype);
    let (shift, of) = match of {
        DType::BOOL => {
            let number = |v: f32| ConstTensor::of(&[], &[v]).map(|t| r.constant(t)).ok_or("a number is no tensor");
            (r.op("SelectV2", [mask, number(0.0)?, number(f32::NEG_INFINITY)?]).into(), DType::F32)
        }
        of if of.is_float() => (mask, of),
        _ => return Err(format!("the mask is of {of}")),
    };
    Ok(if of == dtype { shift } else { r.op("Cast", [shift]).attr("dst_type", dtype).into() })
}

impl Decompose for AttentionDecompose {
    fn info(&self) -> PassInfo {
        let help = "makes an attention by blocks, and concatenations of the past, of ONNX's Attention";
        PassInfo::new("AttentionDecomposePass", PassStage::AFTER_INFER_SHAPE, PassLevel::O3, help)
    }
    fn ops(&self) -> &[&str] {
        &["Attention"]
    }
    fn meets(&self, n: &Node<'_>) -> Verdict {
        if n.outputs().len() > 3 {
            return Err("its scores are an output".into());
        }
        if n.attr("softmax_precision") == Some(&AttrValue::Type(DType::F64)) {
            return Err("its softmax is in double precision".into());
        }
        let dtype = n.input_desc(0).map_or(DType::UNKNOWN, |d| d.dtype);
        let others = [1, 2, 4, 5].into_iter().filter_map(|i| n.input_desc(i)).map(|d| d.dtype);
        match others.into_iter().find(|d| *d != dtype) {
            Some(d) => Err(format!("it reads {d} beside a query of {dtype}")),
            None if dtype == DType::F64 => Err("it is in double precision".into()),
            None => Ok(()),
        }
    }
    fn replacement(&self, n: &Node<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let (q, k, v) =
            (Heads::of(n, 0, "q_num_heads")?, Heads::of(n, 1, "kv_num_heads")?, Heads::of(n, 2, "kv_num_heads")?);
        if k.size != q.size || v.size != q.size || k.count == 0 || q.count % k.count != 0 {
            return Err(format!("heads of {}, {} and {} numbers", q.size, k.size, v.size));
        }
        let past = |i: usize| n.input(i).filter(|v| !v.is_absent());
        let [mode, before, behind] = band(n, [&q, &k])?;
        let dtype = n.input_desc(0).map_or(DType::UNKNOWN, |d| d.dtype);
        let given = |i: usize| n.input(i).ok_or_else(|| format!("input {i} is missing"));
        let all = |i: usize, of: &Heads| -> Verdict<ValueRef> {
            let new = of.split(given(i)?, r);
            Ok(match past(i + 3) {
                Some(old) => r.op("ConcatD", [old, new]).attr("concat_dim", 2i64).attr("N", 2i64).into(),
                None => new,
            })
        };
        let whole = q.apart || past(4).is_some() || past(5).is_some();
        // Without a past and with `[B, S, N * D]`, only the outputs for the present need keys and
        // values by heads.
        let by_heads = whole || n.outputs().len() > 1;
        let [keys, values] = if by_heads { [all(1, &k)?, all(2, &v)?] } else { [ValueRef::ABSENT; 2] };
        let operands = if whole { [q.split(given(0)?, r), keys, values] } else { [given(0)?, given(1)?, given(2)?] };
        let scale = n.float("scale").unwrap_or_else(|| 1.0 / (q.size as f64).sqrt());
        let shift = shift(n, dtype, r)?;
        let lengths = lengths(n).map(|v| [ValueRef::ABSENT, ValueRef::ABSENT, ValueRef::ABSENT, v]);
        let others = [shift].into_iter().chain(lengths.into_iter().flatten());
        let y = r.op("PromptFlashAttention", operands.into_iter().chain(others));
        let y = y.attr("num_heads", q.count as i64).attr("num_key_value_heads", k.count as i64);
        let y = y.attr("input_layout", if whole { "BNSD" } else { "BSH" }).attr("scale_value", scale);
        let y = y.attr("sparse_mode", mode).attr("pre_tokens", before).attr("next_tokens", behind);
        let y = match n.float("softcap").filter(|cap| *cap != 0.0) {
            Some(cap) => y.attr("softcap", cap),
            None => y,
        };
        let mut y: ValueRef = y.attr("inner_precise", EMPTY_IS_ZERO).into();
        if whole && !q.apart {
            let turned = r.op("TransposeD", [y]).attr("perm", vec![0i64, 2, 1, 3]);
            y = r.op("Reshape", [turned.into()]).attr("shape", vec![0i64, 0, (q.count * q.size) as i64]).into();
        }
        Ok([y, keys, values].into_iter().take(n.outputs().len()).collect())
    }
}
