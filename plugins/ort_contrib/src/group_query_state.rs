//! `GroupQueryState` with the inputs and attributes of `GroupQueryAttention` `-> query [B, N, S,
//! H], present_key [B, KV, T, H], present_value [B, KV, T, H], lengths [B], shift? [B, 1 or N, S,
//! T]`. Returns the heads of the query, rotated and scaled; the keys and values, with the new ones
//! appended to each row's own past; and the number of keys of each row. With a bias, it also
//! returns what is added to the scores: the bias, and minus infinity where a query does not see a
//! key.
use crate::group_query_attention::{Bias, Call, Prepared, REAL, prepared, prototype, sizes};
use crate::mat_mul_n_bits::put;
use ge_plugin_api::kernel::{KernelCtx, TensorMut, TensorView};
use ge_plugin_api::ops::InferCtx;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};
use ge_plugin_api::{Result, register_kernel, register_op};

/// Name of the operator.
pub(crate) const OP: &str = "GroupQueryState";

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (s, dtype) = (sizes(c)?, c.input(0)?.dtype);
    let query = TensorDesc::new(dtype, Shape::new([s.batch, Dim::known(s.heads), s.steps, s.head]));
    let heads = match c.opt_input(10) {
        Some(bias) => bias.shape.dims().get(1).copied().unwrap_or(Dim::UNKNOWN),
        None => Dim::known(1),
    };
    let lengths = TensorDesc::new(DType::I32, Shape::new([s.batch]));
    let shift = TensorDesc::new(dtype, Shape::new([s.batch, heads, s.steps, s.present]));
    let all = [query, s.state(dtype), s.state(dtype), lengths, shift];
    Ok(all.into_iter().take(c.node.outputs().len().max(4)).collect())
}
register_op!(|| prototype(OP, infer)
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

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let Prepared { call: c, mut q, k, v } = prepared(ctx)?;
    q.iter_mut().for_each(|x| *x *= c.scale);
    let [b, s, n, kv, h, t] = [c.batch, c.steps, c.heads, c.kv, c.size, c.present].map(|v| v as u64);
    put(&mut ctx.alloc_output(0, &[b, n, s, h])?, 0, &q)?;
    for (i, (past, new)) in [(3, &k), (4, &v)].into_iter().enumerate() {
        let past = ctx.opt_input(past);
        join(past, new, &c, ctx.alloc_output(i + 1, &[b, kv, t, h])?)?;
    }
    let lengths: Vec<u8> = (0..c.batch).flat_map(|row| ((c.before(row) + c.steps) as i32).to_le_bytes()).collect();
    ctx.alloc_output(3, &[b])?.bytes.copy_from_slice(&lengths);
    let Some(bias) = ctx.opt_input(10).filter(|_| ctx.output_count() > 4) else { return Ok(()) };
    let bias = Bias::of(&bias, &c)?;
    let heads = bias.dims[1];
    let mut shift = vec![f32::NEG_INFINITY; c.batch * heads * c.steps * c.present];
    for (at, row) in shift.chunks_exact_mut(c.present.max(1)).enumerate() {
        let (b, n, s) = (at / (heads * c.steps), at / c.steps % heads, at % c.steps);
        let seen = c.seen(b, s);
        row[seen.clone()].copy_from_slice(&bias.row(b, n, s)[seen]);
    }
    put(&mut ctx.alloc_output(4, &[b, heads as u64, s, t])?, 0, &shift)
}
register_kernel!("OrtContribEngine", "GroupQueryState", [], run);
