//! `Attention`, `QAttention` and `MultiHeadAttention`: become the built-in `Attention` (that of
//! ONNX 23). The products before it, the masks and the form of the past are built from built-in
//! operators.
use crate::attention_mask::{Keys, both, padding};
use crate::products::Integers;
use crate::shared::{
    Outs, apply, float_type, no_more_inputs, only, plus, rank, reshaped, size, split, transposed, unsqueezed,
};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::ValueRef;

/// Inputs of the built-in operator.
struct Heads {
    /// Query, key and value, `[batch, length, heads by head size]`.
    qkv: [ValueRef; 3],
    /// Added to the scores.
    shift: Option<ValueRef>,
    /// Keys and values of earlier calls, `[batch, heads, length, head size]`.
    past: Option<[ValueRef; 2]>,
}

/// Makes the attention node; returns result, present keys and present values.
fn attend(n: &ForeignNode, b: &mut GraphBuilder<'_>, of: Heads) -> Result<Vec<ValueRef>> {
    let heads = n.attrs.int("num_heads").ok_or_else(|| n.refuse("attribute `num_heads` is missing"))?;
    let mut d = b.node("Attention").name(&n.name).inputs(&of.qkv).opt_input(of.shift);
    d = d.opt_input(of.past.map(|p| p[0])).opt_input(of.past.map(|p| p[1]));
    d = d.attr("q_num_heads", heads).attr("kv_num_heads", heads);
    d = d.attr("is_causal", n.int_or("unidirectional", 0));
    // 0 means the default, 1 / sqrt(head size).
    if let Some(scale) = n.attrs.float("scale").filter(|s| *s != 0.0) {
        d = d.attr("scale", scale);
    }
    Ok(d.build_n(3))
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
    let dtype = float_type(n, if n.op == "QAttention" { 3 } else { 0 });
    let parts = thirds(n, b, qkv, width)?;
    let keys = if n.opt_input(past).is_some() { Keys::WithPast } else { Keys::AxisOf(parts[1]) };
    let padding = padding(n, b, mask, keys, n.float_or("mask_filter_value", -10_000.0), dtype)?;
    let shift = both(b, padding, bias);
    let past = n.opt_input(past).map(|p| unpacked(b, p));
    let out = attend(n, b, Heads { qkv: parts, shift, past })?;
    if n.output_count() < 2 {
        return Ok(vec![out[0]]);
    }
    let (k, v) = (unsqueezed(b, out[1], &[0]), unsqueezed(b, out[2], &[0]));
    let present = b.node("ConcatD").inputs(&[k, v]).attr("concat_dim", 0i64).attr("N", 2i64).build();
    Ok(vec![out[0], present])
}

/// `input [batch, length, width]`, `weights`, `bias?`, `mask_index?`, `past?`, `attention_bias?`.
fn attention(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    no_more_inputs(n, 6, "a past that shares its buffer with the present")?;
    let qkv = apply(b, "BatchMatMulV2", &[n.input(0)?, n.input(1)?]);
    let qkv = plus(b, qkv, n.opt_input(2));
    packed(n, b, qkv, size(n, 1, -1), 3, 4, n.opt_input(5))
}
map_op!("onnx", "com.microsoft", "Attention", 1..=u32::MAX, attention);

/// Inputs: integer `input` and `weight`, `bias`, their two scales, `mask_index?`, their two zero
/// points, `past?`.
fn q_attention(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let of = Integers {
        a: n.input(0)?,
        b: n.input(1)?,
        scales: [n.input(3)?, n.input(4)?],
        zeros: [n.opt_input(6), n.opt_input(7)],
    };
    let product = of.product(b, None, 1.0);
    let qkv = plus(b, product, n.opt_input(2));
    packed(n, b, qkv, size(n, 1, -1), 5, 8, None)
}
map_op!("onnx", "com.microsoft", "QAttention", 1..=u32::MAX, q_attention);

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

/// `query`, `key?`, `value?`, `bias?`, `key_padding_mask?`, `attention_bias?`, `past_key?`,
/// `past_value?`.
fn multi_head(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    no_more_inputs(n, 8, "a past that shares its buffer with the present")?;
    if n.output_count() > 3 {
        return Err(n.refuse("output 3, the scores, is not computed"));
    }
    let mut qkv = separate(n, b)?;
    if let Some(bias) = n.opt_input(3) {
        // Query and key have the same width; the rest is the value's.
        let parts = match (size(n, 0, -1).filter(|_| rank(n, 0) == Some(3)), size(n, 3, 0)) {
            (Some(q), Some(all)) if all > 2 * q => {
                let (q, all) = (q as i64, all as i64);
                split(b, bias, 0, &[q, q, all - 2 * q])
            }
            _ => b.node("SplitD").input(bias).attr("split_dim", 0i64).attr("num_split", 3i64).build_n(3),
        };
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
    let padding = padding(n, b, 4, keys, filter, float_type(n, 0))?;
    let shift = both(b, padding, n.opt_input(5));
    attend(n, b, Heads { qkv, shift, past })
}
map_op!("onnx", "com.microsoft", "MultiHeadAttention", 1..=u32::MAX, multi_head);
