//! `GroupQueryAttention(query [B, S, N·H] or packed, key?, value?, past_key? [B, KV, P, H],
//! past_value?, seqlens_k [B], total_sequence_length, cos?, sin?, position_ids?, attention_bias?)
//! -> output [B, S, N·H], present_key, present_value [B, KV, max(P, total), H]`: causal attention
//! of a decoder, where several query heads share a key head and the keys of earlier calls precede
//! the new ones.
//!
//! `seqlens_k` is the last valid position of each row. The new keys of a row are appended to its
//! own past, so that a batch may hold rows of different lengths. `group_query_state` computes
//! everything before the products; the rest is the built-in attention. Only capped scores with a
//! bias are computed here.
use crate::group_query_state;
use crate::mat_mul_n_bits::{dot, put, reals};
use crate::rotary_embedding::{Turn, indices};
use crate::shared::{Outs, only};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{KernelCtx, TensorView};
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags};
use ge_plugin_api::services::parallel_for;
use ge_plugin_api::types::dtype::INDEX;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc, ValueRef};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};
use std::sync::Mutex;

pub(crate) const REAL: &[DType] = &[DType::F32, DType::F16];

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    only(n, "smooth_softmax", 0)?;
    only(n, "qk_output", 0)?;
    if n.opt_input(11).is_some() {
        return Err(n.refuse("input 11 `head_sink` is not computed"));
    }
    if let Some(kind) = ["k_quant_type", "v_quant_type"].into_iter().find(|k| !matches!(n.str_or(k, "NONE"), "NONE")) {
        return Err(n.refuse(format!("attribute `{kind}`: quantised keys and values are not computed")));
    }
    let given: Vec<ValueRef> = (0..n.inputs.len()).map(|i| n.opt_input(i).unwrap_or(ValueRef::ABSENT)).collect();
    let (cap, has_bias) = (n.float_or("softcap", 0.0), n.opt_input(10).is_some());
    let capped = cap != 0.0 && has_bias;
    let built = |op: &str, outputs: usize, b: &mut GraphBuilder<'_>| {
        let mut d = b.node(op).name(if capped { &n.name } else { "" }).inputs(&given);
        for (key, or) in ATTRIBUTES {
            d = d.attr(key, n.int_or(key, or));
        }
        let d = d.attr("scale", n.float_or("scale", 0.0)).attr("softcap", cap);
        d.build_n(outputs)
    };
    if capped {
        return Ok(built("GroupQueryAttention", 3, b));
    }
    let made = built(group_query_state::OP, if has_bias { 5 } else { 4 }, b);
    let [q, keys, values, lengths, ref shift @ ..] = made[..] else {
        return Err(Error::internal("a node of four outputs has fewer"));
    };
    let heads = n.int_or("num_heads", 0);
    let d = b.node("PromptFlashAttention").input(q).input(keys).input(values);
    let d = match shift.first() {
        // The shift includes the mask.
        Some(shift) => d.input(*shift),
        None => {
            let window = Some(n.int_or("local_window_size", -1)).filter(|w| *w > 0);
            let d = (0..4).fold(d, |d, _| d.input(ValueRef::ABSENT)).input(lengths).attr("softcap", cap);
            let d = d.attr("sparse_mode", if window.is_some() { 4i64 } else { 3 });
            match window {
                Some(w) => d.attr("pre_tokens", w - 1).attr("next_tokens", 0i64),
                None => d,
            }
        }
    };
    let d = d.attr("num_heads", heads).attr("num_key_value_heads", n.int_or("kv_num_heads", 0));
    // The query is already scaled; a query that sees no key gives zeros.
    let y = d.attr("scale_value", 1.0).attr("input_layout", "BNSD").attr("inner_precise", 2i64).build();
    let y = b.node("TransposeD").input(y).attr("perm", vec![0i64, 2, 1, 3]).build();
    let rows = b.ints("rows", &[0, 0, -1]);
    let y = b.node("Reshape").name(&n.name).input(y).input(rows).build();
    Ok(vec![y, keys, values])
}

/// Integer attributes and their defaults.
const ATTRIBUTES: [(&str, i64); 5] =
    [("num_heads", 0), ("kv_num_heads", 0), ("do_rotary", 0), ("rotary_interleaved", 0), ("local_window_size", -1)];
map_op!("onnx", "com.microsoft", "GroupQueryAttention", 1..=u32::MAX, map);

fn attribute(c: &InferCtx<'_>, key: &str) -> Result<u64> {
    let v = c.node.int(key).unwrap_or(0);
    u64::try_from(v)
        .ok()
        .filter(|v| *v > 0)
        .ok_or_else(|| Error::failed(format!("attribute `{key}` is {v}, expected 1 or more")))
}

/// Known sizes: numbers of query heads and key heads, batch, steps, head size, present length.
pub(crate) struct Sizes {
    pub(crate) heads: u64,
    pub(crate) kv: u64,
    pub(crate) batch: Dim,
    pub(crate) steps: Dim,
    pub(crate) head: Dim,
    pub(crate) present: Dim,
}

/// The sizes of a node, from its inputs.
pub(crate) fn sizes(c: &InferCtx<'_>) -> Result<Sizes> {
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
    let past = if c.opt_input(3).is_some() { at(3, 2).size() } else { Some(0) };
    let total = c.const_ints(6).and_then(|v| v.first().copied()).and_then(|v| u64::try_from(v).ok());
    let length = match (past, total) {
        (Some(p), Some(t)) => Dim::known(p.max(t)),
        _ => Dim::UNKNOWN,
    };
    Ok(Sizes { heads, kv, batch: at(0, 0), steps: at(0, 1), head, present: length })
}

impl Sizes {
    /// Descriptor of the present keys or values.
    pub(crate) fn state(&self, dtype: DType) -> TensorDesc {
        TensorDesc::new(dtype, Shape::new([self.batch, Dim::known(self.kv), self.present, self.head]))
    }
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (s, dtype) = (sizes(c)?, c.input(0)?.dtype);
    let width = s.head.size().map_or(Dim::UNKNOWN, |h| Dim::known(h * s.heads));
    Ok(vec![TensorDesc::new(dtype, Shape::new([s.batch, s.steps, width])), s.state(dtype), s.state(dtype)])
}

/// The prototype of an operator with these inputs and attributes, without outputs.
pub(crate) fn prototype(name: &str, infer: ge_plugin_api::ops::InferFn) -> OpDef {
    OpDef::new(name, infer)
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
        .required_attr("num_heads", AttrKind::INT)
        .range(1.0, f64::INFINITY)
        .required_attr("kv_num_heads", AttrKind::INT)
        .range(1.0, f64::INFINITY)
        .attr("scale", AttrKind::FLOAT, 0.0)
        .attr("softcap", AttrKind::FLOAT, 0.0)
        .attr("do_rotary", AttrKind::INT, 0i64)
        .attr("rotary_interleaved", AttrKind::INT, 0i64)
        .attr("local_window_size", AttrKind::INT, -1i64)
        .value_inputs(&[6])
        .flags(flags::LOW_PRECISION | flags::DATA_DEPENDENT_SHAPE | flags::MAY_FAIL)
}
register_op!(|| prototype("GroupQueryAttention", infer)
    .output("output", REAL, "T")
    .output("present_key", REAL, "T")
    .output("present_value", REAL, "T"));

/// Sizes and settings of a call.
pub(crate) struct Call {
    pub(crate) batch: usize,
    pub(crate) steps: usize,
    pub(crate) heads: usize,
    pub(crate) kv: usize,
    pub(crate) size: usize,
    pub(crate) past: usize,
    pub(crate) present: usize,
    pub(crate) scale: f32,
    softcap: f32,
    window: Option<usize>,
    /// Number of valid positions of each row, including the new ones.
    lengths: Vec<usize>,
    /// Whether no row has a past.
    first: bool,
}

impl Call {
    /// The positions that query `step` of a row sees.
    pub(crate) fn seen(&self, row: usize, step: usize) -> std::ops::Range<usize> {
        let end = (self.before(row) + step + 1).min(self.present);
        self.window.map_or(0, |w| end.saturating_sub(w))..end
    }
    /// Number of positions before the new ones of a row.
    pub(crate) fn before(&self, row: usize) -> usize {
        if self.first { 0 } else { self.lengths[row] - self.steps }
    }
}

fn wrong(what: &str, found: &[u64], expected: &str) -> Error {
    Error::failed(format!("{what}: found shape {found:?}, expected {expected}"))
}

/// The new heads `[B, heads, S, H]` from rows of `width` numbers, starting at number `offset`.
fn heads_of(x: &[f32], c: &Call, width: usize, offset: usize, heads: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(c.batch * heads * c.steps * c.size);
    for b in 0..c.batch {
        for n in 0..heads {
            for s in 0..c.steps {
                let at = (b * c.steps + s) * width + offset + n * c.size;
                out.extend_from_slice(&x[at..at + c.size]);
            }
        }
    }
    out
}

/// Rotates every new head by its position.
fn rotate(x: &mut [f32], c: &Call, heads: usize, turn: &Turn, ids: Option<&[i64]>) -> Result<()> {
    if c.size == 0 {
        return Ok(());
    }
    for (i, head) in x.chunks_exact_mut(c.size).enumerate() {
        let (s, b) = (i % c.steps, i / (c.steps * heads));
        // Padding steps after the end of a row use an arbitrary position of the table.
        let padded = c.first && s >= c.lengths[b];
        let position = match ids {
            Some(ids) => ids[b * c.steps + s],
            None if padded => 1,
            None => (c.before(b) + s) as i64,
        };
        turn.apply(head, position)?;
    }
    Ok(())
}

/// The valid past of each row, followed by the new heads and by zeros: `[B, KV, present, H]`.
fn joined(past: Option<&[f32]>, new: &[f32], c: &Call) -> Vec<f32> {
    let mut out = vec![0f32; c.batch * c.kv * c.present * c.size];
    for i in 0..c.batch * c.kv {
        let before = c.before(i / c.kv);
        let to = &mut out[i * c.present * c.size..(i + 1) * c.present * c.size];
        if let Some(p) = past {
            let count = before.min(c.past) * c.size;
            to[..count].copy_from_slice(&p[i * c.past * c.size..][..count]);
        }
        let count = c.steps * c.size;
        to[before * c.size..][..count].copy_from_slice(&new[i * count..(i + 1) * count]);
    }
    out
}

/// Turns the scores of one query into weights; keys before `from` and after the row's end get none.
fn weights(scores: &mut [f32], from: usize, softcap: f32) {
    let seen = &mut scores[from..];
    if softcap > 0.0 {
        seen.iter_mut().for_each(|s| *s = softcap * (*s / softcap).tanh());
    }
    let top = seen.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for s in seen.iter_mut() {
        *s = (*s - top).exp();
        sum += *s;
    }
    seen.iter_mut().for_each(|s| *s /= sum);
}

/// A bias `[B or 1, N or 1, S, T]` that is added to the scores.
pub(crate) struct Bias {
    values: Vec<f32>,
    pub(crate) dims: [usize; 4],
}
impl Bias {
    pub(crate) fn of(x: &TensorView<'_>, c: &Call) -> Result<Bias> {
        let [b, n, s, t] = *x.dims else { return Err(wrong("input 10 `attention_bias`", x.dims, "four axes")) };
        let dims = [b as usize, n as usize, s as usize, t as usize];
        let fits = |d: usize, to: usize| d == 1 || d == to;
        let longest = c.lengths.iter().copied().max().unwrap_or(0);
        if !fits(dims[0], c.batch) || !fits(dims[1], c.heads) || dims[2] != c.steps || dims[3] < longest {
            return Err(wrong("input 10 `attention_bias`", x.dims, "[B or 1, N or 1, S, total]"));
        }
        Ok(Bias { values: reals(x)?, dims })
    }
    pub(crate) fn row(&self, b: usize, n: usize, s: usize) -> &[f32] {
        let [db, dn, ds, dt] = self.dims;
        let at = ((b % db * dn + n % dn) * ds + s) * dt;
        &self.values[at..at + dt]
    }
}

/// The result of one head of one row, `[S, H]`.
fn head(c: &Call, q: &[f32], k: &[f32], v: &[f32], bias: impl Fn(usize) -> Option<Vec<f32>>, row: usize) -> Vec<f32> {
    let mut y = vec![0f32; c.steps * c.size];
    let mut scores = vec![0f32; c.present];
    for s in 0..c.steps {
        let std::ops::Range { start: from, end: seen } = c.seen(row, s);
        let query = &q[s * c.size..(s + 1) * c.size];
        let shift = bias(s);
        for t in from..seen {
            let add = shift.as_ref().map_or(0.0, |b| b.get(t).copied().unwrap_or(0.0));
            scores[t] = dot(query, &k[t * c.size..(t + 1) * c.size]) * c.scale + add;
        }
        weights(&mut scores[..seen], from, c.softcap);
        let out = &mut y[s * c.size..(s + 1) * c.size];
        for t in from..seen {
            let w = scores[t];
            out.iter_mut().zip(&v[t * c.size..(t + 1) * c.size]).for_each(|(y, v)| *y += w * v);
        }
    }
    y
}

fn call(ctx: &KernelCtx<'_>) -> Result<(Call, usize)> {
    let q = ctx.input(0)?;
    let attr = |key: &str| ctx.attrs.int(key).and_then(|v| usize::try_from(v).ok()).unwrap_or(0);
    let (heads, kv) = (attr("num_heads"), attr("kv_num_heads"));
    let [batch, steps, width] = *q.dims else { return Err(wrong("input 0 `query`", q.dims, "three axes")) };
    let (batch, steps, width) = (batch as usize, steps as usize, width as usize);
    let parts = if ctx.opt_input(1).is_none() { heads + 2 * kv } else { heads };
    if kv == 0 || heads == 0 || heads % kv != 0 || width % parts != 0 {
        return Err(Error::failed(format!("a width of {width} is not {heads} heads over {kv} key heads")));
    }
    let size = width / parts;
    let past = match ctx.opt_input(3) {
        None => 0,
        Some(p) => match *p.dims {
            [b, n, p, h] if [b, n, h] == [batch as u64, kv as u64, size as u64] => p as usize,
            _ => return Err(wrong("input 3 `past_key`", p.dims, &format!("[{batch}, {kv}, past, {size}]"))),
        },
    };
    let total = ctx.input(6)?.values::<i32>()?.first().copied().unwrap_or(0);
    let total = usize::try_from(total).map_err(|_| Error::failed(format!("total_sequence_length is {total}")))?;
    let first = total == steps;
    let lengths = ctx.input(5)?.values::<i32>()?.iter().map(|l| usize::try_from(*l + 1)).collect::<Result<Vec<_>, _>>();
    let present = past.max(total);
    let lengths = lengths.map_err(|_| Error::failed("seqlens_k has a negative number"))?;
    let fits = |l: &usize| *l <= present && (first || *l >= steps);
    if lengths.len() != batch || !lengths.iter().all(fits) || present < steps {
        return Err(Error::failed(format!(
            "seqlens_k {lengths:?} with {steps} new positions and a total of {total}: expected {batch} lengths up to the total"
        )));
    }
    let scale = match ctx.attrs.float("scale").unwrap_or(0.0) {
        0.0 => 1.0 / (size.max(1) as f32).sqrt(),
        s => s as f32,
    };
    let window = ctx.attrs.int("local_window_size").and_then(|w| usize::try_from(w).ok()).filter(|w| *w > 0);
    let softcap = ctx.attrs.float("softcap").unwrap_or(0.0) as f32;
    Ok((Call { batch, steps, heads, kv, size, past, present, scale, softcap, window, lengths, first }, width))
}

/// A call with its new heads, rotated by their positions: `[B, N, S, H]` and twice `[B, KV, S, H]`.
pub(crate) struct Prepared {
    pub(crate) call: Call,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
}

/// Reads a call.
///
/// # Errors
/// Fails if shapes or values do not match each other.
pub(crate) fn prepared(ctx: &KernelCtx<'_>) -> Result<Prepared> {
    let (c, width) = call(ctx)?;
    let x = reals(&ctx.input(0)?)?;
    let mut q = heads_of(&x, &c, width, 0, c.heads);
    let (mut k, v) = match (ctx.opt_input(1), ctx.opt_input(2)) {
        (Some(k), Some(v)) => {
            for (i, t) in [(1, &k), (2, &v)] {
                if t.count() != c.batch * c.steps * c.kv * c.size {
                    return Err(wrong(
                        &format!("input {i}"),
                        t.dims,
                        &format!("[{}, {}, {}]", c.batch, c.steps, c.kv * c.size),
                    ));
                }
            }
            let wide = c.kv * c.size;
            (heads_of(&reals(&k)?, &c, wide, 0, c.kv), heads_of(&reals(&v)?, &c, wide, 0, c.kv))
        }
        _ => {
            let at = c.heads * c.size;
            (heads_of(&x, &c, width, at, c.kv), heads_of(&x, &c, width, at + c.kv * c.size, c.kv))
        }
    };
    if ctx.attrs.int("do_rotary").unwrap_or(0) != 0 {
        let turn = Turn::of(&ctx.input(7)?, &ctx.input(8)?, ctx.attrs.int("rotary_interleaved").unwrap_or(0) != 0)?;
        if turn.width() > c.size {
            return Err(Error::failed(format!("tables turn {} numbers of heads of {}", turn.width(), c.size)));
        }
        let ids = ctx.opt_input(9).map(|i| indices(&i)).transpose()?;
        if ids.as_ref().is_some_and(|i| i.len() != c.batch * c.steps) {
            return Err(Error::failed(format!("input 9 `position_ids`: expected {} numbers", c.batch * c.steps)));
        }
        rotate(&mut q, &c, c.heads, &turn, ids.as_deref())?;
        rotate(&mut k, &c, c.kv, &turn, ids.as_deref())?;
    }
    Ok(Prepared { call: c, q, k, v })
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let Prepared { call: c, q, k, v } = prepared(ctx)?;
    let old = |i: usize| ctx.opt_input(i).map(|p| reals(&p)).transpose();
    let (keys, values) = (joined(old(3)?.as_deref(), &k, &c), joined(old(4)?.as_deref(), &v, &c));
    let bias = ctx.opt_input(10).map(|b| Bias::of(&b, &c)).transpose()?;
    let done: Vec<Mutex<Vec<f32>>> = (0..c.batch * c.heads).map(|_| Mutex::default()).collect();
    parallel_for(done.len(), 1, |range| {
        for i in range {
            let (b, n) = (i / c.heads, i % c.heads);
            let from = (b * c.kv + n / (c.heads / c.kv)) * c.present * c.size;
            let (k, v) = (&keys[from..][..c.present * c.size], &values[from..][..c.present * c.size]);
            let shift = |s: usize| bias.as_ref().map(|x| x.row(b, n, s).to_vec());
            let y = head(&c, &q[i * c.steps * c.size..][..c.steps * c.size], k, v, shift, b);
            *done[i].lock().unwrap_or_else(|p| p.into_inner()) = y;
        }
        Ok(())
    })?;
    let mut y = vec![0f32; c.batch * c.steps * c.heads * c.size];
    for (i, part) in done.into_iter().enumerate() {
        let part = part.into_inner().unwrap_or_else(|p| p.into_inner());
        for s in 0..c.steps {
            let at = ((i / c.heads * c.steps + s) * c.heads + i % c.heads) * c.size;
            y[at..at + c.size].copy_from_slice(&part[s * c.size..(s + 1) * c.size]);
        }
    }
    let [b, s, n, h, kv, p] = [c.batch, c.steps, c.heads, c.size, c.kv, c.present].map(|v| v as u64);
    put(&mut ctx.alloc_output(0, &[b, s, n * h])?, 0, &y)?;
    put(&mut ctx.alloc_output(1, &[b, kv, p, h])?, 0, &keys)?;
    put(&mut ctx.alloc_output(2, &[b, kv, p, h])?, 0, &values)
}
register_kernel!("OrtContribEngine", "GroupQueryAttention", [], run);
