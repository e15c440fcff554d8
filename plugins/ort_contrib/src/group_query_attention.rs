//! `GroupQueryAttention(query [B, S, N·H] or packed, key?, value?, past_key? [B, KV, P, H],
//! past_value?, seqlens_k [B], total_sequence_length, cos?, sin?, position_ids?, attention_bias?,
//! head_sink? [N]) -> output [B, S, N·H], present_key, present_value [B, KV, max(P, total), H]`:
//! attention of a decoder, where several query heads share a key head and the keys of earlier
//! calls precede the new ones.
//!
//! `seqlens_k` is the last valid position of each row. The new keys of a row are appended to its
//! own past, so that a batch may hold rows of different lengths. `group_query_state` computes
//! everything before the products; the rest is the built-in attention.
use crate::declare::ort_op;
use crate::group_query_state;
use crate::shared::{Outs, only};
use ge_plugin_api::Result;
use ge_plugin_api::diagnostic::Error;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::ValueRef;

/// Inputs that are given together or not at all.
const PAIRS: [[(usize, &str); 2]; 3] =
    [[(1, "key"), (2, "value")], [(3, "past_key"), (4, "past_value")], [(7, "cos_cache"), (8, "sin_cache")]];

/// Refuses what is not computed, and inputs that do not go together.
fn check(n: &ForeignNode) -> Result<()> {
    only(n, "qk_output", 0)?;
    only(n, "sliding_window_cache", 0)?;
    if let Some(kind) = ["k_quant_type", "v_quant_type"].into_iter().find(|k| !matches!(n.str_or(k, "NONE"), "NONE")) {
        return Err(n.refuse(format!("attribute `{kind}`: quantised keys and values are not computed")));
    }
    if let Some(i) = [14, 15].into_iter().find(|i| n.opt_input(*i).is_some()) {
        return Err(n.refuse(format!("input {i} is given: norms of the heads of query and key are not computed")));
    }
    for [(i, one), (k, other)] in PAIRS {
        if n.opt_input(i).is_some() != n.opt_input(k).is_some() {
            return Err(n.refuse(format!("inputs {i} `{one}` and {k} `{other}` must be given together or not at all")));
        }
    }
    if n.int_or("do_rotary", 0) != 0 && n.opt_input(7).is_none() {
        return Err(n.refuse("attribute `do_rotary` is 1, but inputs 7 `cos_cache` and 8 `sin_cache` are missing"));
    }
    let window = n.int_or("local_window_size", -1);
    match n.int_or("causal", 1) {
        1 => Ok(()),
        0 if window < 0 => Ok(()),
        0 => Err(n.refuse(format!("attribute `local_window_size` is {window}; it must be -1 if `causal` is 0"))),
        other => Err(n.refuse(format!("attribute `causal` is {other}, expected 0 or 1"))),
    }
}

/// Appends a position of zeros to keys or values `[B, KV, T, H]`.
fn with_empty_position(b: &mut GraphBuilder<'_>, x: ValueRef) -> ValueRef {
    let pads = b.ints("pads", &[0, 0, 0, 0, 0, 1, 0, 0]);
    b.node("PadV3").input(x).input(pads).attr("mode", "constant").build()
}

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    check(n)?;
    let smooth = n.int_or("smooth_softmax", 0) == 1 || n.opt_input(11).is_some();
    let shifted = smooth || n.opt_input(10).is_some();
    let given: Vec<ValueRef> =
        (0..n.inputs.len().min(12)).map(|i| n.opt_input(i).unwrap_or(ValueRef::ABSENT)).collect();
    let mut d = b.node(group_query_state::OP).inputs(&given);
    for (key, or) in group_query_state::INTEGERS {
        d = d.attr(key, n.int_or(key, or));
    }
    let d = d.attr("scale", n.float_or("scale", 0.0)).attr("smooth_softmax", i64::from(smooth));
    let made = d.build_n(if shifted { 5 } else { 4 });
    let [q, keys, values, lengths, ref shift @ ..] = made[..] else {
        return Err(Error::internal("a node of four outputs has fewer"));
    };
    // The denominator of a smooth softmax has one more term. It is that of a key and a value of
    // zeros, whose score is the shift alone.
    let [k, v] = [keys, values].map(|x| if smooth { with_empty_position(b, x) } else { x });
    let d = b.node("PromptFlashAttention").input(q).input(k).input(v);
    let d = match shift.first() {
        // The shift includes the mask.
        Some(shift) => d.input(*shift),
        None => {
            let d = (0..4).fold(d, |d, _| d.input(ValueRef::ABSENT)).input(lengths);
            match (n.int_or("causal", 1), n.int_or("local_window_size", -1)) {
                (0, _) => d.attr("sparse_mode", 0i64),
                (_, ..0) => d.attr("sparse_mode", 3i64),
                (_, window) => d.attr("sparse_mode", 4i64).attr("pre_tokens", window - 1).attr("next_tokens", 0i64),
            }
        }
    };
    let d = d.attr("num_heads", n.int_or("num_heads", 0)).attr("num_key_value_heads", n.int_or("kv_num_heads", 0));
    let d = d.attr("softcap", n.float_or("softcap", 0.0));
    // The query is already scaled; a query that sees no key gives zeros.
    let y = d.attr("scale_value", 1.0).attr("input_layout", "BNSD").attr("inner_precise", 2i64).build();
    let y = b.node("TransposeD").input(y).attr("perm", vec![0i64, 2, 1, 3]).build();
    let rows = b.ints("rows", &[0, 0, -1]);
    let y = b.node("Reshape").name(&n.name).input(y).input(rows).build();
    Ok(vec![y, keys, values])
}
ort_op!(
    "GroupQueryAttention",
    16,
    [
        "num_heads",
        "kv_num_heads",
        "scale",
        "softcap",
        "do_rotary",
        "rotary_interleaved",
        "local_window_size",
        "causal",
        "smooth_softmax",
        "qk_output",
        "sliding_window_cache",
        "k_quant_type",
        "v_quant_type",
        // Without meaning where keys and values are not quantised and heads have no norms.
        "kv_cache_bit_width",
        "qk_norm_epsilon",
    ],
    map
);

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::NodeId;

    #[test]
    fn what_does_not_go_together_is_refused() {
        let told = |given: &[u32], attrs: &[(&str, i64)]| {
            let input = |i| if given.contains(&i) { ValueRef::new(NodeId(i), 0) } else { ValueRef::ABSENT };
            let mut n = ForeignNode { inputs: (0..16).map(input).collect(), ..ForeignNode::default() };
            attrs.iter().for_each(|(key, value)| n.attrs.set(*key, *value));
            check(&n).map_err(|e| e.message().to_owned())
        };
        let refused = |given: &[u32], attrs: &[(&str, i64)], words: &str| {
            let said = told(given, attrs).expect_err(words);
            assert!(said.contains(words), "{said}");
        };
        assert_eq!(told(&[0, 1, 2, 5, 6], &[("causal", 0), ("local_window_size", -1)]), Ok(()));
        refused(&[0, 1, 5, 6], &[], "1 `key` and 2 `value`");
        refused(&[0, 4, 5, 6], &[], "3 `past_key` and 4 `past_value`");
        refused(&[0, 5, 6], &[("do_rotary", 1)], "`cos_cache`");
        refused(&[0, 5, 6], &[("causal", 0), ("local_window_size", 4)], "must be -1 if `causal` is 0");
        refused(&[0, 5, 6], &[("sliding_window_cache", 1)], "`sliding_window_cache` is 1");
        refused(&[0, 5, 6, 14], &[], "input 14 is given");
    }
}
