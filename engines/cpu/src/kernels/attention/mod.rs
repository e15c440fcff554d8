//! `PromptFlashAttention`, `Attention` (ONNX 23),
//! `RotaryEmbedding` (`plugins/ops/src/attention.rs`).
pub mod linear;

use crate::args::{Arg, bad, count, filled, float_attr, int_attr, put_f64, size, text};
use crate::kernels::norm::softmax::softmax;
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX, NUMB};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// A tensor of heads, `[batch][head][position][size]`, with strides.
struct Heads {
    v: Vec<f64>,
    b: usize,
    n: usize,
    s: usize,
    d: usize,
    /// Strides of batch, head, position.
    step: [usize; 3],
}
impl Heads {
    fn row(&self, b: usize, n: usize, s: usize) -> &[f64] {
        let at = b * self.step[0] + n * self.step[1] + s * self.step[2];
        &self.v[at..at + self.d]
    }
    /// Makes heads from `[B, N, S, D]`, `[B, S, N, D]` or `[B, S, N*D]`.
    fn of(a: &Arg<'_>, heads: usize, layout: &str) -> Result<Heads> {
        let v = a.f64s()?;
        match (a.shape.as_slice(), layout) {
            (&[b, n, s, d], "BNSD") => Ok(Heads { v, b, n, s, d, step: [n * s * d, s * d, d] }),
            (&[b, s, n, d], "BSND") => Ok(Heads { v, b, n, s, d, step: [s * n * d, d, n * d] }),
            (&[b, s, h], _) if heads > 0 && h % heads == 0 => {
                Ok(Heads { v, b, n: heads, s, d: h / heads, step: [s * h, h / heads, h] })
            }
            _ => Err(bad(
                format!("input {}", a.index),
                format!("shape {:?}", a.shape),
                format!("layout {layout} with {heads} heads"),
            )),
        }
    }
    /// Puts the past positions, if any, before these.
    fn after(self, past: Option<Arg<'_>>) -> Result<Heads> {
        let Some(p) = past else { return Ok(self) };
        if p.rank() != 4 || p.shape[0] != self.b || p.shape[1] != self.n || p.shape[3] != self.d {
            return Err(bad(
                format!("input {}", p.index),
                format!("shape {:?}", p.shape),
                format!("[{}, {}, past, {}]", self.b, self.n, self.d),
            ));
        }
        let (old, s) = (p.f64s()?, p.shape[2] + self.s);
        let mut v = crate::args::room(count(&[self.b, self.n, s, self.d])?)?;
        for i in 0..self.b * self.n {
            v.extend_from_slice(&old[i * p.shape[2] * self.d..][..p.shape[2] * self.d]);
            (0..self.s).for_each(|t| v.extend_from_slice(self.row(i / self.n, i % self.n, t)));
        }
        Ok(Heads { v, s, step: [self.n * s * self.d, s * self.d, self.d], ..self })
    }
    /// The numbers in the order `[B, N, S, D]`.
    fn flat(&self) -> Vec<f64> {
        (0..self.b * self.n * self.s)
            .flat_map(|i| self.row(i / (self.n * self.s), i / self.s % self.n, i % self.s).to_vec())
            .collect()
    }
}
/// A mask, or numbers to add, broadcast to `[B, N, S, T]`.
struct Over {
    v: Vec<f64>,
    at: Box<dyn Fn(usize, usize, usize, usize) -> Option<usize>>,
    /// Whether these are truth values. ONNX adds numbers of any type.
    boolean: bool,
}
impl Over {
    fn of(a: &Arg<'_>, (b, n, s, t): (usize, usize, usize, usize)) -> Result<Over> {
        let mut d = [1usize; 4];
        a.need_rank(0, 4)?;
        d[4 - a.rank()..].copy_from_slice(&a.shape);
        // A shorter last axis counts as padded: positions without a value are masked out.
        if [b, n, s].iter().zip(&d).any(|(w, d)| *d != 1 && d != w) || d[3] > t.max(1) {
            return Err(bad(
                format!("input {}", a.index),
                format!("shape {:?}", a.shape),
                format!("a shape that broadcasts to {:?}", [b, n, s, t]),
            ));
        }
        let pick = |i: usize, d: usize| if d == 1 { 0 } else { i };
        let at = move |i: usize, j: usize, k: usize, l: usize| {
            let l = pick(l, d[3]);
            (l < d[3]).then(|| ((pick(i, d[0]) * d[1] + pick(j, d[1])) * d[2] + pick(k, d[2])) * d[3] + l)
        };
        Ok(Over { v: a.f64s()?, at: Box::new(at), boolean: a.dtype == DType::BOOL })
    }
    fn value(&self, b: usize, n: usize, s: usize, t: usize) -> Option<f64> {
        (self.at)(b, n, s, t).map(|i| self.v[i])
    }
}
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
fn check(q: &Heads, k: &Heads, v: &Heads) -> Result<usize> {
    let fits = q.b == k.b && k.b == v.b && q.d == k.d && k.n == v.n && k.s == v.s && k.n > 0 && q.n.is_multiple_of(k.n);
    if !fits {
        let found = [q, k, v].map(|h| format!("{:?}", [h.b, h.n, h.s, h.d])).join(", ");
        return Err(bad("heads of query, key and value", found, "one batch, head size and length of key and value"));
    }
    Ok(q.n / k.n)
}
/// The rule (`sparse_mode`) that decides by position which keys a query sees, given the numbers of
/// queries and keys.
fn seen(ctx: &KernelCtx<'_>) -> Result<impl Fn([usize; 2], [usize; 2]) -> bool + use<>> {
    let mode = int_attr(ctx, "sparse_mode", 0);
    if ![0, 2, 3, 4].contains(&mode) {
        return Err(bad("attribute `sparse_mode`", mode, "0, 2, 3 or 4"));
    }
    let before = int_attr(ctx, "pre_tokens", 214_748_647).saturating_neg();
    let behind = int_attr(ctx, "next_tokens", 0);
    Ok(move |[s, t]: [usize; 2], [queries, keys]: [usize; 2]| {
        let (ahead, last) = (t as i64 - s as i64, keys as i64 - queries as i64);
        match mode {
            2 => ahead <= 0,
            3 => ahead <= last,
            4 => (before..=behind).contains(&(ahead - last)),
            _ => true,
        }
    })
}
fn run_prompt(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let layout = text(ctx, "input_layout", "BSH");
    let heads = size("attribute `num_heads`", int_attr(ctx, "num_heads", 0))?;
    let kv = match int_attr(ctx, "num_key_value_heads", 0) {
        0 => heads,
        n => size("attribute `num_key_value_heads`", n)?,
    };
    let query = Arg::of(ctx, 0)?;
    let q = Heads::of(&query, heads, layout)?;
    let (k, v) = (Heads::of(&Arg::of(ctx, 1)?, kv, layout)?, Heads::of(&Arg::of(ctx, 2)?, kv, layout)?);
    let group = check(&q, &k, &v)?;
    if v.d != q.d {
        return Err(bad("head size of value", v.d, q.d));
    }
    let full = (q.b, q.n, q.s, k.s);
    let shift = Arg::opt(ctx, 3)?.map(|a| Over::of(&a, full)).transpose()?;
    let mask = Arg::opt(ctx, 4)?.map(|a| Over::of(&a, full)).transpose()?;
    let lens = |i: usize, s: usize| -> Result<Vec<usize>> {
        match Arg::opt(ctx, i)? {
            Some(a) if a.len == q.b => Ok(a.i64s()?.into_iter().map(|n| n.clamp(0, s as i64) as usize).collect()),
            Some(a) => {
                Err(bad(format!("input {i}: lengths"), format!("{} numbers", a.len), format!("{} numbers", q.b)))
            }
            None => Ok(vec![s; q.b]),
        }
    };
    let (lq, lk, own) = (lens(5, q.s)?, lens(6, k.s)?, lens(7, k.s)?);
    let (seen, empty_is_zero) = (seen(ctx)?, int_attr(ctx, "inner_precise", 0) & 2 != 0);
    let (scale, cap) = (float_attr(ctx, "scale_value", 1.0), float_attr(ctx, "softcap", 0.0));
    let score = |x: f64| if cap > 0.0 { cap * (x * scale / cap).tanh() } else { x * scale };
    let mut y = filled(q.v.len(), 0f64)?;
    let mut row = filled(k.s, 0f64)?;
    for b in 0..q.b {
        for n in 0..q.n {
            for s in 0..lq[b] {
                let mut any = false;
                for (t, r) in row.iter_mut().enumerate() {
                    let masked = |m: &Over| m.value(b, n, s, t).is_none_or(|v| v != 0.0);
                    let out =
                        t >= lk[b].min(own[b]) || !seen([s, t], [q.s, own[b]]) || mask.as_ref().is_some_and(masked);
                    // Positions without a value to add are masked out.
                    let add = shift.as_ref().map_or(0.0, |m| m.value(b, n, s, t).unwrap_or(f64::NEG_INFINITY));
                    let dot = || dot(q.row(b, n, s), k.row(b, n / group, t));
                    *r = if out { f64::NEG_INFINITY } else { score(dot()) + add };
                    any |= !(out || empty_is_zero && *r == f64::NEG_INFINITY);
                }
                if any {
                    softmax(&mut row);
                    let at = b * q.step[0] + n * q.step[1] + s * q.step[2];
                    for (t, p) in row.iter().enumerate().filter(|(_, p)| **p != 0.0) {
                        y[at..at + q.d].iter_mut().zip(v.row(b, n / group, t)).for_each(|(y, v)| *y += p * v);
                    }
                }
            }
        }
    }
    put_f64(ctx, 0, &query.shape, &y)
}
fn run_attention(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (qa, ka, va) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    let heads = |key: &str| size(&format!("attribute `{key}`"), int_attr(ctx, key, 0));
    let (qh, kh) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    let q = Heads::of(&qa, qh, "BNSD")?;
    let (k, v) = (Heads::of(&ka, kh, "BNSD")?, Heads::of(&va, kh, "BNSD")?);
    let past = Arg::opt(ctx, 4)?.map_or(0, |p| p.shape.get(2).copied().unwrap_or(0));
    let (k, v) = (k.after(Arg::opt(ctx, 4)?)?, v.after(Arg::opt(ctx, 5)?)?);
    let group = check(&q, &k, &v)?;
    let mask = Arg::opt(ctx, 3)?.map(|a| Over::of(&a, (q.b, q.n, q.s, k.s))).transpose()?;
    let valid = Arg::opt(ctx, 6)?.map(|a| a.need_shape(&[q.b]).and_then(|()| a.i64s())).transpose()?;
    let (causal, cap) = (int_attr(ctx, "is_causal", 0) != 0, float_attr(ctx, "softcap", 0.0));
    let window = ["left_window_size", "right_window_size"].map(|k| Some(int_attr(ctx, k, -1)).filter(|n| *n >= 0));
    let scale = ctx.attrs.float("scale").unwrap_or(1.0 / (q.d as f64).sqrt());
    let mode = int_attr(ctx, "qk_matmul_output_mode", 0);
    let y_shape = if qa.rank() == 4 { vec![q.b, q.n, q.s, v.d] } else { vec![q.b, q.s, q.n * v.d] };
    let mut y = filled(count(&y_shape)?, 0f64)?;
    let mut kept = if ctx.output_count() > 3 { filled(count(&[q.b, q.n, q.s, k.s])?, 0f64)? } else { Vec::new() };
    let mut row = filled(k.s, 0f64)?;
    for b in 0..q.b {
        for n in 0..q.n {
            for s in 0..q.s {
                let at = ((b * q.n + n) * q.s + s) * k.s;
                let mut keep = |row: &[f64], m: i64| {
                    if mode == m && !kept.is_empty() {
                        kept[at..at + k.s].copy_from_slice(row);
                    }
                };
                for (t, r) in row.iter_mut().enumerate() {
                    *r = dot(q.row(b, n, s), k.row(b, n / group, t)) * scale;
                }
                keep(&row, 0);
                if cap > 0.0 {
                    row.iter_mut().for_each(|r| *r = cap * (*r / cap).tanh());
                }
                keep(&row, 1);
                let offset = match &valid {
                    Some(l) => l[b] - q.s as i64,
                    None => past as i64,
                };
                for (t, r) in row.iter_mut().enumerate() {
                    let add = match &mask {
                        Some(m) => match m.value(b, n, s, t) {
                            Some(0.0) if m.boolean => f64::NEG_INFINITY,
                            Some(_) if m.boolean => 0.0,
                            Some(v) => v,
                            None => f64::NEG_INFINITY,
                        },
                        None => 0.0,
                    };
                    // Distance of the key from the query's position among the keys; positive if the
                    // key comes later.
                    let ahead = (t as i64).saturating_sub(s as i64 + offset);
                    let out = (causal && ahead > 0)
                        || window[0].is_some_and(|w| ahead < -w)
                        || window[1].is_some_and(|w| ahead > w)
                        || valid.as_ref().is_some_and(|l| t as i64 >= l[b]);
                    *r += if out { f64::NEG_INFINITY } else { add };
                }
                keep(&row, 2);
                if row.iter().all(|r| *r == f64::NEG_INFINITY) {
                    row.fill(0.0);
                } else {
                    softmax(&mut row);
                }
                keep(&row, 3);
                let to = if qa.rank() == 4 { ((b * q.n + n) * q.s + s) * v.d } else { ((b * q.s + s) * q.n + n) * v.d };
                for (t, p) in row.iter().enumerate().filter(|(_, p)| **p != 0.0) {
                    y[to..to + v.d].iter_mut().zip(v.row(b, n / group, t)).for_each(|(y, v)| *y += p * v);
                }
            }
        }
    }
    put_f64(ctx, 0, &y_shape, &y)?;
    put_f64(ctx, 1, &[k.b, k.n, k.s, k.d], &k.flat())?;
    put_f64(ctx, 2, &[v.b, v.n, v.s, v.d], &v.flat())?;
    if ctx.output_count() > 3 {
        put_f64(ctx, 3, &[q.b, q.n, q.s, k.s], &kept)?;
    }
    Ok(())
}
fn run_rotary(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, cos, sin) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    let heads = size("attribute `num_heads`", int_attr(ctx, "num_heads", 0))?;
    let h = Heads::of(&x, heads, "BNSD")?;
    let rot = match size("attribute `rotary_embedding_dim`", int_attr(ctx, "rotary_embedding_dim", 0))? {
        0 => h.d,
        n => n,
    };
    let half = rot / 2;
    let ids = Arg::opt(ctx, 3)?.map(|a| a.need_shape(&[h.b, h.s]).and_then(|()| a.i64s())).transpose()?;
    let rows = match *cos.shape {
        _ if rot > h.d || cos.shape != sin.shape => None,
        [rows, width] if ids.is_some() && width == half => Some(rows),
        // Tables of one image serve all, as PyTorch writes them.
        [of, s, width] if ids.is_none() && (of == h.b || of == 1) && s == h.s && width == half => Some(of * s),
        [rows, width] if rows == h.b * h.s && width == half => Some(rows),
        _ => None,
    };
    let Some(rows) = rows else {
        let wanted = match &ids {
            Some(_) => format!("[positions, {half}]"),
            None => format!("[{} or 1, {}, {half}]", h.b, h.s),
        };
        return Err(bad("input 1 `cos_cache`", format!("{:?} (`sin_cache` {:?})", cos.shape, sin.shape), wanted));
    };
    let (vc, vs) = (cos.f64s()?, sin.f64s()?);
    let interleaved = int_attr(ctx, "interleaved", 0) != 0;
    let mut y = h.v.clone();
    for b in 0..h.b {
        for s in 0..h.s {
            let p = match &ids {
                Some(i) => crate::kernels::index::gather::within(i[b * h.s + s], rows, 3)? as usize,
                None => (b * h.s + s) % rows,
            };
            for n in 0..h.n {
                let at = b * h.step[0] + n * h.step[1] + s * h.step[2];
                for k in 0..half {
                    let (i, j) = if interleaved { (2 * k, 2 * k + 1) } else { (k, half + k) };
                    let (a, c) = (h.v[at + i], h.v[at + j]);
                    let (cs, sn) = (vc[p * half + k], vs[p * half + k]);
                    y[at + i] = a * cs - c * sn;
                    y[at + j] = a * sn + c * cs;
                }
            }
        }
    }
    put_f64(ctx, 0, &x.shape, &y)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("PromptFlashAttention", run_prompt, &[FLOAT, FLOAT, FLOAT, FLOAT, NUMB, INDEX]).gives(&[FLOAT]),
    Op::new("Attention", run_attention, &[FLOAT, FLOAT, FLOAT, NUMB, FLOAT, FLOAT, INDEX]).gives(&[FLOAT]),
    Op::new("RotaryEmbedding", run_rotary, &[FLOAT, FLOAT, FLOAT, INDEX]).gives(&[FLOAT]),
];
