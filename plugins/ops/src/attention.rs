//! Attention and related operators.
//!
//! * `PromptFlashAttention(query, key, value, pse_shift?, atten_mask?, actual_seq_lengths?, actual_seq_lengths_kv?, kv_lengths?) {num_heads, scale_value, softcap = 0, sparse_mode = 0, pre_tokens, next_tokens, inner_precise = 0, input_layout = BSH|BNSD|BSND, num_key_value_heads = 0 (as num_heads)}`:
//!   softmax(cap(q·kᵀ·scale) + pse_shift, masked where atten_mask is true or beyond the lengths)·v,
//!   in query's layout. cap(x) is softcap·tanh(x / softcap), or x if softcap is 0. The lengths are
//!   read by value. `sparse_mode` says which keys a query sees, given its position: 0 all; 2 those
//!   up to its own number; 3 as 2, but with the last query aligned to the last key; 4 from
//!   `pre_tokens` before that aligned position to `next_tokens` behind it. `kv_lengths`, which
//!   CANN's operator does not have, is the number of keys of each sequence in the batch. A kernel
//!   reads it like any tensor, and the last key in modes 3 and 4 is then the last of these. A query
//!   whose keys are all masked by a boolean mask, position or lengths gives zeros; with
//!   `inner_precise` 2, so does a query whose scores are all minus infinity.
//! * `Attention(Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen?) {is_causal, q_num_heads, kv_num_heads, scale, softcap, left_window_size, right_window_size, softmax_precision, qk_matmul_output_mode} -> Y, present_key, present_value, qk_matmul_output`:
//!   as in ONNX.
//! * `LinearAttention(query [B,T,q_num_heads*k], key [B,T,kv_num_heads*k], value [B,T,kv_num_heads*v], past_state? [B,kv_num_heads,k,v], decay?, beta?) {q_num_heads, kv_num_heads, update_rule = gated_delta|linear|gated|delta, scale = 0} -> output [B,T,q_num_heads*v], present_state`:
//!   as in ONNX. Each position multiplies the state by exp(decay) (gated), subtracts from its value
//!   what the state returns for its key and multiplies the difference by beta (delta), and adds the
//!   product of key and value to the state. Its queries then read the state, times scale (0 means
//!   1/√k). The state has the type of `past_state`, or else of the query.
//! * `RotaryEmbedding(X, cos_cache, sin_cache, position_ids?) {interleaved, num_heads, rotary_embedding_dim}`:
//!   as in ONNX.
use crate::dims;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{
    AttrKind, InferCtx, OpDef,
    flags::{LOW_PRECISION, wide},
    infer,
};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, FLOATS, INDEX};
use ge_plugin_api::types::{Dim, Shape, TensorDesc};

fn prompt_flash(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "query", 3, 4)?;
    Ok(vec![c.like(0)?])
}
fn attention(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (q, k, v) = (c.input(0)?, c.input(1)?, c.input(2)?);
    let unknown = TensorDesc::new(q.dtype, Shape::unranked());
    let (Some(rq), Some(rk), Some(rv)) = (q.shape.rank(), k.shape.rank(), v.shape.rank()) else {
        return Ok(vec![
            unknown.clone(),
            TensorDesc::new(k.dtype, dims::unknown(4)),
            TensorDesc::new(v.dtype, dims::unknown(4)),
            unknown,
        ]);
    };
    if rq != rk || rk != rv || !(3..=4).contains(&rq) {
        return Err(read::bad(
            "inputs Q, K, V",
            format!("{}, {}, {}", q.shape, k.shape, v.shape),
            "all of rank 3 or all of rank 4",
        ));
    }
    let heads = |key: &str| dims::from_i64(c.node.int(key).unwrap_or(-1));
    let over = |d: Dim, h: Dim| match (dims::size(d), dims::size(h)) {
        (Some(n), Some(h)) if h > 0 && n % h == 0 => dims::from_i64(n / h),
        _ => Dim::UNKNOWN,
    };
    let four = |s: &Shape, key: &str| -> [Dim; 4] {
        let d = s.dims();
        if s.rank() == Some(4) { [d[0], d[1], d[2], d[3]] } else { [d[0], heads(key), d[1], over(d[2], heads(key))] }
    };
    let (fq, fk, fv) = (four(&q.shape, "q_num_heads"), four(&k.shape, "kv_num_heads"), four(&v.shape, "kv_num_heads"));
    let past = |i: usize| match c.opt_input(i) {
        Some(d) => d.shape.dims().get(2).copied().unwrap_or(Dim::UNKNOWN),
        None => Dim::known(0),
    };
    let (total_k, total_v) = (dims::add(past(4), fk[2]), dims::add(past(5), fv[2]));
    let y = if rq == 4 {
        Shape::new([fq[0], fq[1], fq[2], fv[3]])
    } else {
        Shape::new([fq[0], fq[2], dims::mul(fq[1], fv[3])])
    };
    let mut out = vec![
        TensorDesc::new(q.dtype, y),
        TensorDesc::new(k.dtype, Shape::new([fk[0], fk[1], total_k, fk[3]])),
        TensorDesc::new(v.dtype, Shape::new([fv[0], fv[1], total_v, fv[3]])),
        TensorDesc::new(q.dtype, Shape::new([fq[0], fq[1], fq[2], total_k])),
    ];
    out.truncate(c.node.outputs().len().max(1));
    Ok(out)
}

fn linear(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let axis = |i: usize, name: &str, axis: usize| -> Result<Dim> {
        let rank = read::rank_in(c, i, name, 3, 3)?;
        Ok(if rank.is_some() { c.input(i)?.shape.dims()[axis] } else { Dim::UNKNOWN })
    };
    let q = c.input(0)?;
    let (hq, hk) = (read::int(c, "q_num_heads", 0), read::int(c, "kv_num_heads", 0));
    if hq < 1 || hk < 1 || hq % hk != 0 {
        return Err(read::bad("attribute `q_num_heads`", hq, format!("a multiple of `kv_num_heads`, {hk}")));
    }
    let batch = dims::equal("dimension 0 of key", axis(0, "query", 0)?, axis(1, "key", 0)?)?;
    let batch = dims::equal("dimension 0 of value", batch, axis(2, "value", 0)?)?;
    let length = dims::equal("dimension 1 of key", axis(0, "query", 1)?, axis(1, "key", 1)?)?;
    let length = dims::equal("dimension 1 of value", length, axis(2, "value", 1)?)?;
    let each = dims::equal("size of a key", dims::over(axis(0, "query", 2)?, hq), dims::over(axis(1, "key", 2)?, hk))?;
    let wide = dims::over(axis(2, "value", 2)?, hk);
    let state = Shape::new([batch, dims::from_i64(hk), each, wide]);
    let (state, kind) = match c.opt_input(3) {
        Some(past) => (dims::equal_shapes("input 3 `past_state`", &state, &past.shape)?, past.dtype),
        None => (state, q.dtype),
    };
    let y = Shape::new([batch, length, dims::mul(wide, dims::from_i64(hq))]);
    Ok(vec![TensorDesc::new(q.dtype, y), TensorDesc::new(kind, state)])
}

fn defs() -> Vec<OpDef> {
    let (i, f) = (AttrKind::INT, AttrKind::FLOAT);
    vec![
        OpDef::new("PromptFlashAttention", prompt_flash)
            .input("query", FLOATS, "T")
            .input("key", FLOATS, "T")
            .input("value", FLOATS, "T")
            .opt("pse_shift", FLOATS, "")
            .opt("atten_mask", ANY, "")
            .opt("actual_seq_lengths", INDEX, "")
            .opt("actual_seq_lengths_kv", INDEX, "")
            .opt("kv_lengths", INDEX, "")
            .output("attention_out", FLOATS, "T")
            .required_attr("num_heads", i)
            .range(1.0, f64::INFINITY)
            .attr("scale_value", f, 1.0)
            .attr("softcap", f, 0.0)
            .attr("sparse_mode", i, 0i64)
            .attr("pre_tokens", i, 214_748_647i64)
            .attr("next_tokens", i, 0i64)
            .attr("inner_precise", i, 0i64)
            .attr("input_layout", AttrKind::STRING, "BSH")
            .choices(&["BSH", "BNSD", "BSND"])
            .attr("num_key_value_heads", i, 0i64)
            .value_inputs(&[5, 6])
            .flags(LOW_PRECISION | wide(3)),
        OpDef::new("Attention", attention)
            .input("Q", FLOATS, "")
            .input("K", FLOATS, "")
            .input("V", FLOATS, "")
            .opt("attn_mask", ANY, "")
            .opt("past_key", FLOATS, "")
            .opt("past_value", FLOATS, "")
            .opt("nonpad_kv_seqlen", INDEX, "")
            .output("Y", FLOATS, "")
            .opt_output("present_key", FLOATS, "")
            .opt_output("present_value", FLOATS, "")
            .opt_output("qk_matmul_output", FLOATS, "")
            .attr("is_causal", i, 0i64)
            .opt_attr("q_num_heads", i)
            .opt_attr("kv_num_heads", i)
            .opt_attr("scale", f)
            .attr("softcap", f, 0.0)
            .opt_attr("softmax_precision", AttrKind::TYPE)
            .attr("left_window_size", i, -1i64)
            .attr("right_window_size", i, -1i64)
            .attr("qk_matmul_output_mode", i, 0i64)
            .range(0.0, 3.0)
            .flags(LOW_PRECISION | wide(3)),
        OpDef::new("LinearAttention", linear)
            .input("query", FLOATS, "T")
            .input("key", FLOATS, "T")
            .input("value", FLOATS, "T")
            .opt("past_state", FLOATS, "")
            .opt("decay", FLOATS, "T")
            .opt("beta", FLOATS, "T")
            .output("output", FLOATS, "T")
            .output("present_state", FLOATS, "")
            .required_attr("q_num_heads", i)
            .range(1.0, f64::INFINITY)
            .required_attr("kv_num_heads", i)
            .range(1.0, f64::INFINITY)
            .attr("update_rule", AttrKind::STRING, "gated_delta")
            .choices(&["linear", "gated", "delta", "gated_delta"])
            .attr("scale", f, 0.0),
        OpDef::new("RotaryEmbedding", infer::same)
            .input("X", FLOATS, "T")
            .input("cos_cache", FLOATS, "T")
            .input("sin_cache", FLOATS, "T")
            .opt("position_ids", INDEX, "")
            .output("Y", FLOATS, "T")
            .attr("interleaved", i, 0i64)
            .attr("num_heads", i, 0i64)
            .attr("rotary_embedding_dim", i, 0i64),
    ]
}
register_ops!(|| crate::value_ranges::given(defs()));
