//! `GroupQueryState`: the part of GroupQueryAttention before its products. From the same inputs, it
//! makes `query [B, N, S, H], present_key [B, KV, T, H], present_value [B, KV, T, H], lengths [B],
//! shift? [B, 1 or N, S, T]`: the heads of the query, rotated and scaled; the keys and values, with
//! the new ones appended to each row's own past; the number of keys of each row; and what is added
//! to the scores: the bias, and minus infinity where a query does not see a key. With
//! `smooth_softmax`, the shift has one more column, the score that is added to the denominator of
//! each head (`head_sink`, or 0).
use crate::group_query_call::{Bias, Call, Prepared, prepared, present};
use crate::numbers::{put, reals};
use ge_plugin_api::kernel::{KernelCtx, TensorMut, TensorView};
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags};
use ge_plugin_api::types::dtype::INDEX;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};
use ge_plugin_api::{Error, Result, register_kernel, register_op};

/// Name of the operator.
pub(crate) const OP: &str = "GroupQueryState";

const REAL: &[DType] = &[DType::F32, DType::F16];

/// Integer attributes that are the foreign node's own, with their defaults.
pub(crate) const INTEGERS: [(&str, i64); 6] = [
    ("num_heads", 0),
    ("kv_num_heads", 0),
    ("do_rotary", 0),
    ("rotary_interleaved", 0),
    ("local_window_size", -1),
    ("causal", 1),
];

fn attribute(c: &InferCtx<'_>, key: &str) -> Result<u64> {
    let v = c.node.int(key).unwrap_or(0);
    u64::try_from(v)
        .ok()
        .filter(|v| *v > 0)
        .ok_or_else(|| Error::failed(format!("attribute `{key}` is {v}, expected 1 or more")))
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let q = c.input(0)?;
    let (heads, kv) = (attribute(c, "num_heads")?, attribute(c, "kv_num_heads")?);
    let at = |i: usize, k: usize| c.opt_input(i).and_then(|d| d.shape.dims().get(k).copied()).unwrap_or(Dim::UNKNOWN);
    if q.shape.rank().is_some_and(|r| r != 3) {
        return Err(Error::failed(format!("input 0 `query`: found {}, expected three axes", q.shape)));
    }
    let packed = c.opt_input(1).is_none();
    let parts = if packed { heads + 2 * kv } else { heads };
    let size = at(0, 2).size().filter(|w| w % parts == 0).map(|w| w / parts);
    let head = size.map_or_else(|| at(3, 3), Dim::known);
    let (batch, steps) = (at(0, 0), at(0, 1));
    let past = if c.opt_input(3).is_some() { at(3, 2).size() } else { Some(0) };
    let total = c.const_ints(6).and_then(|v| v.first().copied());
    let length = match (past, steps.size(), total) {
        (Some(past), Some(steps), Some(total)) => Dim::known(present(past, steps, total)?),
        _ => Dim::UNKNOWN,
    };
    let query = TensorDesc::new(q.dtype, Shape::new([batch, Dim::known(heads), steps, head]));
    let state = TensorDesc::new(q.dtype, Shape::new([batch, Dim::known(kv), length, head]));
    let lengths = TensorDesc::new(DType::I32, Shape::new([batch]));
    let smooth = c.node.int("smooth_softmax").unwrap_or(0) != 0;
    let columns = match length.size() {
        Some(n) if smooth => Dim::known(n + 1),
        None if smooth => Dim::UNKNOWN,
        _ => length,
    };
    let rows = match (c.opt_input(10), c.opt_input(11)) {
        (_, Some(_)) => Dim::known(heads),
        (Some(_), None) => at(10, 1),
        (None, None) => Dim::known(1),
    };
    let shift = TensorDesc::new(q.dtype, Shape::new([batch, rows, steps, columns]));
    let all = [query, state.clone(), state, lengths, shift];
    Ok(all.into_iter().take(c.node.outputs().len().max(4)).collect())
}
register_op!(|| OpDef::new(OP, infer)
    .input("query", REAL, "T")
    .opt("key", REAL, "T")
    .opt("value", REAL, "T")
    .opt("past_key", REAL, "T")
    .opt("past_value", REAL, "T")
    .input("seqlens_k", &[DType::I32], "")
    .input("total_sequence_length", &[DType::I32], "")
    .opt("cos_cache", REAL, "T")
    .opt("sin_cache", REAL, "T")
    .opt("position_ids", INDEX, "")
    .opt("attention_bias", REAL, "T")
    .opt("head_sink", REAL, "T")
    .required_attr("num_heads", AttrKind::INT)
    .range(1.0, f64::INFINITY)
    .required_attr("kv_num_heads", AttrKind::INT)
    .range(1.0, f64::INFINITY)
    .attr("scale", AttrKind::FLOAT, 0.0)
    .attr("do_rotary", AttrKind::INT, 0i64)
    .attr("rotary_interleaved", AttrKind::INT, 0i64)
    .attr("local_window_size", AttrKind::INT, -1i64)
    .attr("causal", AttrKind::INT, 1i64)
    .range(0.0, 1.0)
    .attr("smooth_softmax", AttrKind::INT, 0i64)
    .value_inputs(&[6])
    .flags(flags::LOW_PRECISION | flags::DATA_DEPENDENT_SHAPE | flags::MAY_FAIL)
    .output("query", REAL, "T")
    .output("present_key", REAL, "T")
    .output("present_value", REAL, "T")
    .output("lengths", &[DType::I32], "")
    .opt_output("shift", REAL, "T"));

/// The valid past of each row, followed by the new heads and by zeros.
fn join(past: Option<TensorView<'_>>, new: &[f32], c: &Call, mut to: TensorMut<'_>) -> Result<()> {
    let unit = c.size * to.dtype.bytes_of(1).unwrap_or(0) as usize;
    for i in 0..c.batch * c.kv {
        let before = c.before(i / c.kv);
        let whole = &mut to.bytes[i * c.present * unit..(i + 1) * c.present * unit];
        let (old, rest) = whole.split_at_mut(before * unit);
        let kept = past.map_or(&[][..], |p| &p.bytes[i * c.past * unit..][..before.min(c.past) * unit]);
        old[..kept.len()].copy_from_slice(kept);
        old[kept.len()..].fill(0);
        rest[c.steps * unit..].fill(0);
        let count = c.steps * c.size;
        put(&mut to, (i * c.present + before) * c.size, &new[i * count..(i + 1) * count])?;
    }
    Ok(())
}

/// What is added to the scores: `[B, heads, S, columns]`, and the number of its heads and columns.
fn shift(ctx: &KernelCtx<'_>, c: &Call) -> Result<(Vec<f32>, [usize; 2])> {
    let bias = ctx.opt_input(10).map(|x| Bias::of(&x, c)).transpose()?;
    let sinks = ctx.opt_input(11).map(|x| reals(&x)).transpose()?;
    if let Some(sinks) = sinks.as_ref().filter(|s| s.len() != c.heads) {
        return Err(Error::failed(format!(
            "input 11 `head_sink`: found {} numbers, expected {}",
            sinks.len(),
            c.heads
        )));
    }
    let heads = if sinks.is_some() { c.heads } else { bias.as_ref().map_or(1, |b| b.dims[1]) };
    let smooth = sinks.is_some() || ctx.attrs.int("smooth_softmax").unwrap_or(0) != 0;
    let columns = c.present + usize::from(smooth);
    let mut shift = vec![f32::NEG_INFINITY; c.batch * heads * c.steps * columns];
    for (at, row) in shift.chunks_exact_mut(columns.max(1)).enumerate() {
        let (b, n, s) = (at / (heads * c.steps), at / c.steps % heads, at % c.steps);
        let seen = c.seen(b, s);
        match &bias {
            Some(bias) => row[seen.clone()].copy_from_slice(&bias.row(b, n, s)[seen]),
            None => row[seen].fill(0.0),
        }
        if smooth {
            row[c.present] = sinks.as_ref().map_or(0.0, |s| s[n]);
        }
    }
    Ok((shift, [heads, columns]))
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let Prepared { call: c, mut q, k, v } = prepared(ctx)?;
    q.iter_mut().for_each(|x| *x *= c.scale);
    let shift = if ctx.output_count() > 4 { Some(shift(ctx, &c)?) } else { None };
    let [b, s, n, kv, h, t] = [c.batch, c.steps, c.heads, c.kv, c.size, c.present].map(|v| v as u64);
    put(&mut ctx.alloc_output(0, &[b, n, s, h])?, 0, &q)?;
    for (i, (past, new)) in [(3, &k), (4, &v)].into_iter().enumerate() {
        let past = ctx.opt_input(past);
        join(past, new, &c, ctx.alloc_output(i + 1, &[b, kv, t, h])?)?;
    }
    let lengths: Vec<u8> = (0..c.batch).flat_map(|row| (c.keys(row) as i32).to_le_bytes()).collect();
    ctx.alloc_output(3, &[b])?.bytes.copy_from_slice(&lengths);
    let Some((shift, [heads, columns])) = shift else { return Ok(()) };
    put(&mut ctx.alloc_output(4, &[b, heads as u64, s, columns as u64])?, 0, &shift)
}
register_kernel!("OrtContribEngine", "GroupQueryState", [], run);
