//! `Attention`, `QAttention` and `MultiHeadAttention`: become the built-in `Attention` (that of
//! ONNX 23). The products before it, the masks and the form of the past are built from built-in
//! operators.
use crate::attention_mask::{Keys, both, padding, type_of_scores};
use crate::declare::ort_op;
use crate::products::{Integers, finished, in_f32};
use crate::shared::{Outs, apply, cast, float_type, only, plus, rank, reshaped, size, split, transposed, unsqueezed};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::{DType, ValueRef};

/// Inputs of the built-in operator.
struct Heads {
    /// Query, key and value, `[batch, length, heads by head size]`.
    qkv: [ValueRef; 3],
    /// Added to the scores.
    shift: Option<ValueRef>,
    /// Keys and values of earlier calls, `[batch, heads, length, head size]`.
    past: Option<[ValueRef; 2]>,
    /// The type of all of these except the shift.
    own: DType,
    /// The type of the shift, in which the attention is computed.
    scores: DType,
}

/// Makes the attention node; returns result, present keys and present values.
fn attend(n: &ForeignNode, b: &mut GraphBuilder<'_>, of: Heads) -> Result<Vec<ValueRef>> {
    let heads = n.attrs.int("num_heads").ok_or_else(|| n.refuse("attribute `num_heads` is missing"))?;
    let wide = of.scores != of.own;
    let mut converted = |x: ValueRef| if wide { cast(b, x, of.scores) } else { x };
    let (qkv, past) = (of.qkv.map(&mut converted), of.past.map(|p| p.map(&mut converted)));
    let mut d = b.node("Attention").name(if wide { "" } else { &n.name }).inputs(&qkv).opt_input(of.shift);
    d = d.opt_input(past.map(|p| p[0])).opt_input(past.map(|p| p[1]));
    d = d.attr("q_num_heads", heads).attr("kv_num_heads", heads);
    d = d.attr("is_causal", n.int_or("unidirectional", 0));
    // 0 means the default, 1 / sqrt(head size).
    if let Some(scale) = n.attrs.float("scale").filter(|s| *s != 0.0) {
        d = d.attr("scale", scale);
    }
    let out = d.build_n(3);
    if !wide {
        return Ok(out);
    }
    let name = |k: usize| if k == 0 { n.name.as_str() } else { "" };
    let back = |(k, x)| b.node("Cast").name(name(k)).input(x).attr("dst_type", of.own).build();
    Ok(out.into_iter().enumerate().map(back).collect())
}

/// Splits query, key and value from one product: widths from `qkv_hidden_sizes`, else equal thirds
/// of `width`.
fn thirds(n: &ForeignNode, b: &mut GraphBuilder<'_>, x: ValueRef, width: Option<u64>) -> Result<[ValueRef; 3]> {
    let parts = match (n.attrs.ints("qkv_hidden_sizes"), width) {
        (Some(&[q, k, v]), _) => split(b, x, -1, &[q, k, v]),
        (Some(other), _) => {
            return Err(n.refuse(format!("attribute `qkv_hidden_sizes` has {} numbers, expected 3", other.len())));
        }
        (None, Some(w)) if w % 3 != 0 => {
            return Err(n.refuse(format!("{w} columns are not three equal parts; give `qkv_hidden_sizes`")));
        }
        (None, _) => b.node("SplitD").input(x).attr("split_dim", -1i64).attr("num_split", 3i64).build_n(3),
    };
    match parts[..] {
        [q, k, v] => Ok([q, k, v]),
        _ => Err(n.refuse("a split gave no three parts")),
    }
}

/// Splits a past of `[2, batch, heads, length, head size]` into keys and values.
fn unpacked(b: &mut GraphBuilder<'_>, past: ValueRef) -> [ValueRef; 2] {
    let halves = split(b, past, 0, &[1, 1]);
    [halves[0], halves[1]].map(|h| b.node("Squeeze").input(h).attr("axis", vec![0i64]).build())
}

/// Result and present, from one product of query, key and value.
fn packed(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    qkv: ValueRef,
    width: Option<u64>,
    mask: usize,
    past: usize,
    bias: Option<ValueRef>,
) -> Outs {
    only(n, "do_rotary", 0)?;
    only(n, "past_present_share_buffer", 0)?;
    let own = float_type(n, if n.op == "QAttention" { 3 } else { 0 });
    let filter = n.float_or("mask_filter_value", -10_000.0);
    let scores = type_of_scores(n, mask, filter, own);
    let parts = thirds(n, b, qkv, width)?;
    let keys = if n.opt_input(past).is_some() { Keys::WithPast } else { Keys::AxisOf(parts[1]) };
    let padding = padding(n, b, mask, keys, filter, scores)?;
    let bias = bias.map(|x| if scores == own { x } else { cast(b, x, scores) });
    let shift = both(b, padding, bias);
    let past = n.opt_input(past).map(|p| unpacked(b, p));
    let out = attend(n, b, Heads { qkv: parts, shift, past, own, scores })?;
    if n.output_count() < 2 {
        return Ok(vec![out[0]]);
    }
    let (k, v) = (unsqueezed(b, out[1], &[0]), unsqueezed(b, out[2], &[0]));
    let present = b.node("ConcatD").inputs(&[k, v]).attr("concat_dim", 0i64).attr("N", 2i64).build();
    Ok(vec![out[0], present])
}

/// `input [batch, length, width]`, `weights`, `bias?`, `mask_index?`, `past?`, `attention_bias?`.
fn attention(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let qkv = apply(b, "BatchMatMulV2", &[n.input(0)?, n.input(1)?]);
    let qkv = plus(b, qkv, n.opt_input(2));
    packed(n, b, qkv, size(n, 1, -1), 3, 4, n.opt_input(5))
}
ort_op!(
    "Attention",
    6,
    [
        "num_heads",
        "unidirectional",
        "qkv_hidden_sizes",
        "mask_filter_value",
        "scale",
        "do_rotary",
        "rotary_embedding_dim",
        "past_present_share_buffer"
    ],
    attention
);

/// Inputs: integer `input` and `weight`, `bias`, their two scales, `mask_index?`, their two zero
/// points, `past?`.
fn q_attention(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let of = Integers {
        a: n.input(0)?,
        b: n.input(1)?,
        scales: [in_f32(n, b, 3)?, in_f32(n, b, 4)?],
        zeros: [n.opt_input(6), n.opt_input(7)],
        vectors: false,
    };
    let product = of.product(b, None, 1.0);
    let qkv = finished(n, b, "", product, 2, 3)?;
    packed(n, b, qkv, size(n, 1, -1), 5, 8, None)
}
ort_op!(
    "QAttention",
    9,
    ["num_heads", "unidirectional", "mask_filter_value", "scale", "do_rotary", "past_present_share_buffer"],
    q_attention
);

/// Converts `[batch, heads, length, size]` to `[batch, length, heads by size]`.
fn heads_last(b: &mut GraphBuilder<'_>, x: ValueRef) -> ValueRef {
    let x = transposed(b, x, &[0, 2, 1, 3]);
    reshaped(b, x, "joined", &[0, 0, -1])
}

/// The parts of `[batch, length, heads, count, size]`, each as `[batch, length, heads by size]`.
fn interleaved(b: &mut GraphBuilder<'_>, x: ValueRef, count: usize) -> Vec<ValueRef> {
    let parts = split(b, x, 3, &vec![1i64; count]);
    parts.into_iter().map(|p| reshaped(b, p, "joined", &[0, 0, -1])).collect()
}

/// Query, key and value from any of the operator's forms; a missing key or value is packed into the
/// input before it.
fn separate(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Result<[ValueRef; 3]> {
    let q = n.input(0)?;
    Ok(match (n.opt_input(1), n.opt_input(2)) {
        (None, None) if rank(n, 0) == Some(5) => {
            let parts = interleaved(b, q, 3);
            [parts[0], parts[1], parts[2]]
        }
        (None, None) => return Err(n.refuse("without key and value the query must have five axes, its packed form")),
        (Some(k), None) if rank(n, 1) == Some(5) => {
            let parts = interleaved(b, k, 2);
            [q, parts[0], parts[1]]
        }
        (Some(k), Some(v)) => match rank(n, 1) {
            Some(3) => [q, k, v],
            Some(4) => [q, heads_last(b, k), heads_last(b, v)],
            _ => return Err(n.refuse("key must have three axes, or four with its heads before the length")),
        },
        _ => return Err(n.refuse("key and value must be given together, or packed in five axes")),
    })
}

/// The parts of a bias for query, key and value. Query and key have the same width, which is the
/// last size of `query`; the rest is the value's.
fn parts_of_bias(n: &ForeignNode, b: &mut GraphBuilder<'_>, bias: ValueRef, query: ValueRef) -> [ValueRef; 3] {
    let width = size(n, 0, -1).filter(|_| rank(n, 0) == Some(3)).and_then(|w| i64::try_from(w).ok());
    let [width, both] = match width {
        Some(w) => [b.ints("width", &[w]), b.ints("both", &[2 * w])],
        None => {
            let width = b.node("Shape").input(query).attr("dtype", DType::I64).attr("start", -1i64).build();
            [width, apply(b, "Add", &[width, width])]
        }
    };
    let (zero, end, axes) = (b.ints("begin", &[0]), b.ints("end", &[i64::MAX]), b.ints("axes", &[0]));
    [[zero, width], [width, both], [both, end]].map(|[from, to]| apply(b, "StridedSliceV2", &[bias, from, to, axes]))
}

/// `query`, `key?`, `value?`, `bias?`, `key_padding_mask?`, `attention_bias?`, `past_key?`,
/// `past_value?`.
fn multi_head(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.output_count() > 3 {
        return Err(n.refuse("output 3, the scores, is not computed"));
    }
    let mut qkv = separate(n, b)?;
    if let Some(bias) = n.opt_input(3) {
        let parts = parts_of_bias(n, b, bias, qkv[0]);
        for (x, part) in qkv.iter_mut().zip(parts) {
            *x = apply(b, "Add", &[*x, part]);
        }
    }
    let past = match (n.opt_input(6), n.opt_input(7)) {
        (Some(k), Some(v)) => Some([k, v]),
        (None, None) => None,
        _ => return Err(n.refuse("past_key and past_value must be given together")),
    };
    let keys = if past.is_some() { Keys::WithPast } else { Keys::AxisOf(qkv[1]) };
    let filter = n.float_or("mask_filter_value", -10_000.0);
    let own = float_type(n, 0);
    let scores = type_of_scores(n, 4, filter, own);
    let padding = padding(n, b, 4, keys, filter, scores)?;
    let bias = n.opt_input(5).map(|x| if scores == own { x } else { cast(b, x, scores) });
    let shift = both(b, padding, bias);
    attend(n, b, Heads { qkv, shift, past, own, scores })
}
ort_op!("MultiHeadAttention", 8, ["num_heads", "unidirectional", "mask_filter_value", "scale"], multi_head);
