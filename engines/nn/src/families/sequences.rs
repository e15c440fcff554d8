//! `PromptFlashAttention(query, key, value, pse_shift?, atten_mask?, actual_seq_lengths?,
//! actual_seq_lengths_kv?)` with a boolean mask or sequence lengths, computed row by row without a
//! matrix of scores. f32, f16, bf16, summed in single precision. Rows beyond a sequence's length
//! are zero. If the lengths are not constants, the tiling runs on the device. Without mask and
//! lengths, [`super::attention`] is used.
use crate::kernel::{Io, Kernel, words};
use crate::sig::{Answer, FLOATS, Sig, Tensor};
use ge_kernels::view::{Elem, Kind, Num};
use ge_kernels::with_kind;
use ge_plugin_api::author::tiling_sink;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Maximum number of sequences in a batch, whose lengths are stored in a list.
const MOST_BATCH: usize = 1 << 22;

/// Heads in memory: strides of batch, head and position.
#[derive(Clone, Copy)]
struct Heads {
    heads: usize,
    positions: usize,
    size: usize,
    step: [usize; 3],
}

impl Heads {
    fn of(t: &Tensor, heads: usize, layout: &str) -> Answer<(usize, Heads)> {
        match (t.shape.as_slice(), layout) {
            (&[b, n, s, d], "BNSD") => Ok((b, Heads { heads: n, positions: s, size: d, step: [n * s * d, s * d, d] })),
            (&[b, s, n, d], "BSND") => Ok((b, Heads { heads: n, positions: s, size: d, step: [s * n * d, d, n * d] })),
            (&[b, s, h], _) if heads > 0 && h % heads == 0 => {
                Ok((b, Heads { heads, positions: s, size: h / heads, step: [s * h, h / heads, h] }))
            }
            (shape, _) => Err(format!("shape {shape:?} is none of layout {layout} with {heads} heads")),
        }
    }
    fn row<'x, T>(&self, x: &'x [T], b: usize, n: usize, s: usize) -> &'x [T] {
        let at = self.at(b, n, s);
        &x[at..at + self.size]
    }
    fn at(&self, b: usize, n: usize, s: usize) -> usize {
        b * self.step[0] + n * self.step[1] + s * self.step[2]
    }
}

/// A tensor that broadcasts to [batch, head, position, key].
#[derive(Clone, Copy)]
struct Over {
    kind: Kind,
    dims: [usize; 4],
}

impl Over {
    fn of(t: &Tensor, full: [usize; 4]) -> Answer<Over> {
        let mut dims = [1usize; 4];
        if t.rank() > 4 {
            return Err(format!("shape {:?} has more than four axes", t.shape));
        }
        dims[4 - t.rank()..].copy_from_slice(&t.shape);
        if dims.iter().zip(&full).any(|(d, f)| *d != 1 && d != f) {
            return Err(format!("shape {:?} does not broadcast to {full:?}", t.shape));
        }
        let kind = t.kind.ok_or_else(|| format!("{} is no type of a mask", t.dtype))?;
        Ok(Over { kind, dims })
    }
    fn index(&self, at: [usize; 4]) -> usize {
        at.iter().zip(&self.dims).fold(0, |sum, (i, d)| sum * d + if *d == 1 { 0 } else { *i })
    }
}

struct Attention {
    kind: Kind,
    batch: usize,
    q: Heads,
    kv: Heads,
    group: usize,
    scale: f32,
    shift: Option<Over>,
    mask: Option<Over>,
    /// Lengths of the queries and the keys of each sequence; `None` if the device's tiling computes
    /// them.
    lens: Option<(Vec<usize>, Vec<usize>)>,
}

/// The kernel of an attention.
///
/// # Errors
/// Fails with a reason if types, shapes or values are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    if (4..=6).all(|i| sig.opt_input(i).is_none()) {
        return super::attention::build(sig);
    }
    if sig.int("sparse_mode", 0) != 0 || sig.opt_input(7).is_some() {
        return Err("a mask or lengths beside a band of keys".into());
    }
    if sig.float("softcap", 0.0) != 0.0 {
        return Err("a mask or lengths beside capped scores".into());
    }
    let kind = sig.kind_in(0, FLOATS)?;
    let layout = sig.text("input_layout", "BSH");
    let number = |key: &str, v: i64| usize::try_from(v).map_err(|_| format!("`{key}` is {v}"));
    let heads = number("num_heads", sig.int("num_heads", 0))?;
    let kv_heads = match sig.int("num_key_value_heads", 0) {
        0 => heads,
        n => number("num_key_value_heads", n)?,
    };
    let (batch, q) = Heads::of(sig.input(0)?, heads, layout).map_err(|e| format!("query: {e}"))?;
    let (kb, kv) = Heads::of(sig.input(1)?, kv_heads, layout).map_err(|e| format!("key: {e}"))?;
    let value = sig.input(2)?;
    let fits = kb == batch && kv.size == q.size && value.shape == sig.input(1)?.shape && kv.heads > 0;
    if !fits || q.heads % kv.heads != 0 {
        let shapes = [0, 1, 2].map(|i| sig.input(i).map(|t| t.shape.clone()).unwrap_or_default());
        return Err(format!("query, key and value {shapes:?} do not fit each other"));
    }
    for i in [1, 2] {
        if sig.input(i)?.kind != Some(kind) {
            return Err(format!("input {i} is {}, query {}", sig.input(i)?.dtype, kind.name()));
        }
    }
    let y = sig.output(0)?;
    if y.kind != Some(kind) || y.shape != sig.input(0)?.shape {
        return Err(format!("output 0 is {} {:?}, query {} {:?}", y.dtype, y.shape, kind.name(), sig.input(0)?.shape));
    }
    if batch > MOST_BATCH {
        return Err(format!("a batch of {batch} sequences, it takes {MOST_BATCH}"));
    }
    let full = [batch, q.heads, q.positions, kv.positions];
    let over = |i: usize, kinds: &[Kind]| -> Answer<Option<Over>> {
        let Some(t) = sig.opt_input(i) else { return Ok(None) };
        let o = Over::of(t, full).map_err(|e| format!("input {i}: {e}"))?;
        if kinds.contains(&o.kind) { Ok(Some(o)) } else { Err(format!("input {i} is {}", t.dtype)) }
    };
    let shift = over(3, FLOATS)?;
    let mask = over(4, &[Kind::Bool, Kind::U8, Kind::I8, Kind::F32, Kind::F16, Kind::Bf16])?;
    let lens = |i: usize, most: usize| -> Answer<Option<Vec<usize>>> {
        match sig.opt_input(i) {
            None => Ok(Some(vec![most; batch])),
            Some(t) if t.shape != [batch] => Err(format!("input {i} is {:?}, it takes [{batch}]", t.shape)),
            Some(t) => Ok(t.values.as_ref().map(|v| clamped(v, most))),
        }
    };
    let lens = match (lens(5, q.positions)?, lens(6, kv.positions)?) {
        (Some(q), Some(k)) => Some((q, k)),
        _ if sig.attrs.flag(tiling_sink::SINK) => None,
        _ => return Err("its tiling reads sequence lengths, which are no constants, and is not sunk".into()),
    };
    let scale = sig.float("scale_value", 1.0);
    Ok(Box::new(Attention { kind, batch, q, kv, group: q.heads / kv.heads, scale, shift, mask, lens }))
}

fn clamped(lens: &[i64], most: usize) -> Vec<usize> {
    lens.iter().map(|n| usize::try_from(*n).unwrap_or(0).min(most)).collect()
}

impl Attention {
    fn rows<T: Elem>(&self, units: Range<usize>, lens: (&[usize], &[usize]), io: &Io<'_, '_>) -> Result<()> {
        let (q, k, v) = (io.input::<T>(0)?, io.input::<T>(1)?, io.input::<T>(2)?);
        let read = |over: &Option<Over>, i: usize| -> Result<Vec<f32>> {
            let Some(o) = over else { return Ok(Vec::new()) };
            with_kind!(o.kind, [F32, F16, Bf16, U8, I8, Bool], M => {
                Ok(io.input::<M>(i)?.iter().map(|m| m.to_f32()).collect())
            }, else Err(Error::internal("type of a mask")))
        };
        let (shifts, masks) = (read(&self.shift, 3)?, read(&self.mask, 4)?);
        let mut scores: Vec<f32> = Vec::with_capacity(self.kv.positions);
        let mut sum = vec![0f32; self.q.size];
        io.output::<T, ()>(0, |out| {
            for unit in units {
                let (b, n, s) = (
                    unit / (self.q.heads * self.q.positions),
                    unit / self.q.positions % self.q.heads,
                    unit % self.q.positions,
                );
                sum.fill(0.0);
                if s < lens.0[b] {
                    let row = self.q.row(q, b, n, s);
                    scores.clear();
                    for t in 0..lens.1[b] {
                        let out = self.mask.is_some_and(|m| masks[m.index([b, n, s, t])] != 0.0);
                        let add = self.shift.map_or(0.0, |m| shifts[m.index([b, n, s, t])]);
                        let keys = self.kv.row(k, b, n / self.group, t);
                        let dot: f32 = row.iter().zip(keys).map(|(a, b)| a.to_f32() * b.to_f32()).sum();
                        scores.push(if out { f32::NEG_INFINITY } else { dot * self.scale + add });
                    }
                    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    if most > f32::NEG_INFINITY {
                        let mut total = 0.0;
                        for (t, p) in scores.iter().enumerate() {
                            let p = (p - most).exp();
                            total += p;
                            let values = self.kv.row(v, b, n / self.group, t);
                            sum.iter_mut().zip(values).for_each(|(s, v)| *s += p * v.to_f32());
                        }
                        sum.iter_mut().for_each(|s| *s /= total);
                    }
                }
                for (y, s) in out.part(self.q.at(b, n, s), self.q.size).iter_mut().zip(&sum) {
                    *y = T::from_num(Num::F(f64::from(*s)));
                }
            }
            Ok(())
        })
    }
    fn attend(&self, units: Range<usize>, lens: (&[usize], &[usize]), io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => self.rows::<T>(units, lens, io),
            else Err(Error::internal("type of an attention")))
    }
}

impl Kernel for Attention {
    fn units(&self) -> usize {
        if self.q.size == 0 { 0 } else { self.batch * self.q.heads * self.q.positions }
    }
    fn work(&self) -> u64 {
        self.products()
    }
    fn products(&self) -> u64 {
        (self.units() as u64).saturating_mul(2 * self.kv.positions as u64).saturating_mul(self.q.size as u64)
    }
    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let (q, k) = self.lens.as_ref().ok_or_else(|| Error::internal("an attention without lengths"))?;
        self.attend(units, (q, k), io)
    }
    fn tile(&self, values: &[Option<Vec<i64>>]) -> Result<Vec<u64>> {
        let lens = |i: usize, most: usize| match values.get(i).and_then(Option::as_ref) {
            None => Ok(vec![most; self.batch]),
            Some(v) if v.len() == self.batch => match v.iter().find(|n| **n < 0 || **n > most as i64) {
                Some(n) => Err(Error::failed(format!("a sequence has length {n}, expected 0 to {most}"))),
                None => Ok(clamped(v, most)),
            },
            Some(v) => Err(Error::failed(format!("{} sequence lengths for a batch of {}", v.len(), self.batch))),
        };
        let (q, k) = (lens(0, self.q.positions)?, lens(1, self.kv.positions)?);
        Ok(q.into_iter().chain(k).map(|n| n as u64).collect())
    }
    fn run_tiled(&self, units: Range<usize>, io: &Io<'_, '_>, data: &[u8]) -> Result<()> {
        let words: Vec<usize> = words(data).into_iter().map(|w| w as usize).collect();
        let fits = words.len() == 2 * self.batch;
        let (q, k) = words.split_at(if fits { self.batch } else { 0 });
        if !fits || q.iter().any(|n| *n > self.q.positions) || k.iter().any(|n| *n > self.kv.positions) {
            return Err(Error::failed("tiling data of another attention"));
        }
        self.attend(units, (q, k), io)
    }
}
