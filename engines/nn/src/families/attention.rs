//! `PromptFlashAttention`: softmax(scale * q·kᵀ + pse_shift)·v by heads, a block of query positions at a time, without the whole matrix of scores in memory. Layouts BSH, BSND, BNSD; key and value may have fewer heads; f32, f16, bf16. `pse_shift`
//! broadcasts to `[B, N, Sq, Skv]`. A mask by truth values and lengths by value are left to others.
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, FLOATS, Sig, Tensor};
use ge_kernels::gemm::{BMatrix, Epilogue, Gemm, Matrix};
use ge_kernels::norm::{Softmax, softmax as soft};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::{Kind, Layout, Nest, Out};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Query positions of a unit of work.
const ROWS: usize = 64;

/// Heads in memory: sizes and strides of batch, head, position.
#[derive(Clone, Copy)]
struct Heads {
    b: usize,
    n: usize,
    s: usize,
    d: usize,
    step: [usize; 3],
}

impl Heads {
    fn of(t: &Tensor, heads: usize, layout: &str) -> Answer<Heads> {
        match (t.shape.as_slice(), layout) {
            (&[b, n, s, d], "BNSD") if n == heads => Ok(Heads { b, n, s, d, step: [n * s * d, s * d, d] }),
            (&[b, s, n, d], "BSND") if n == heads => Ok(Heads { b, n, s, d, step: [s * n * d, d, n * d] }),
            (&[b, s, h], "BSH") if heads > 0 && h % heads == 0 => {
                Ok(Heads { b, n: heads, s, d: h / heads, step: [s * h, h / heads, h] })
            }
            _ => Err(format!("{:?} is not {layout} with {heads} heads", t.shape)),
        }
    }
    fn at(&self, b: usize, n: usize, s: usize) -> usize {
        b * self.step[0] + n * self.step[1] + s * self.step[2]
    }
}

struct Attention {
    kind: Kind,
    q: Heads,
    k: Heads,
    v: Heads,
    group: usize,
    scale: f32,
    /// Places of the shift for every score.
    shift: Option<Nest<1>>,
    /// The shift is f32 beside half types: what it masks keeps to numbers that these hold.
    wide_shift: bool,
}

/// What a masked score in a half type is at least: a row that is masked as a whole stays a row of
/// numbers.
const MASKED: f32 = -65504.0;

/// The kernel of an attention.
///
/// # Errors
/// Types, shapes or inputs that it does not take, in words.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let wide_shift =
        sig.opt_input(3).is_some_and(|t| t.kind == Some(Kind::F32)) && sig.kind_in(0, FLOATS)? != Kind::F32;
    let kind = if wide_shift { sig.kind_in(0, FLOATS)? } else { sig.one_kind(FLOATS)? };
    let others = [sig.input(1)?, sig.input(2)?, sig.output(0)?];
    if let Some(t) = others.iter().find(|t| t.kind != Some(kind)) {
        return Err(format!("{} beside a query of {}", t.dtype, kind.name()));
    }
    for (i, what) in [(4, "atten_mask"), (5, "actual_seq_lengths"), (6, "actual_seq_lengths_kv")] {
        if sig.opt_input(i).is_some() {
            return Err(format!("input {i} `{what}` is given"));
        }
    }
    let count = |key: &str| usize::try_from(sig.int(key, 0)).map_err(|_| format!("attribute `{key}` is negative"));
    let heads = count("num_heads")?;
    let kv = match count("num_key_value_heads")? {
        0 => heads,
        n => n,
    };
    let layout = sig.text("input_layout", "BSH");
    let q = Heads::of(sig.input(0)?, heads, layout)?;
    let (k, v) = (Heads::of(sig.input(1)?, kv, layout)?, Heads::of(sig.input(2)?, kv, layout)?);
    let fits = q.b == k.b && k.b == v.b && q.d == k.d && v.d == q.d && k.n == v.n && k.s == v.s;
    if !fits || kv == 0 || heads % kv != 0 {
        let [q, k, v] = [q, k, v].map(|h| [h.b, h.n, h.s, h.d]);
        return Err(format!("key {k:?} and value {v:?} for query {q:?}"));
    }
    if sig.output(0)?.shape != sig.input(0)?.shape {
        return Err(format!("output 0 is {:?}, query {:?}", sig.output(0)?.shape, sig.input(0)?.shape));
    }
    let shift = match sig.opt_input(3) {
        None => None,
        Some(t) => {
            let full = [q.b, q.n, q.s, k.s];
            ge_kernels::view::element_count(&full).map_err(|e| e.to_string())?;
            let l = Layout::contiguous(&t.shape).and_then(|l| l.broadcast_to(&full)).map_err(|e| e.to_string())?;
            Some(Nest::new(&full, [&l]))
        }
    };
    let scale = sig.float("scale_value", 1.0);
    Ok(Box::new(Attention { kind, q, k, v, group: heads / kv, scale, shift, wide_shift }))
}

impl Attention {
    fn blocks(&self) -> usize {
        self.q.s.div_ceil(ROWS)
    }

    fn unit<T: PanelElem>(&self, unit: usize, io: &Io<'_, '_>) -> Result<()> {
        let (q, k, v) = (self.q, self.k, self.v);
        let (image, block) = (unit / self.blocks(), unit % self.blocks());
        let (b, n) = (image / q.n, image % q.n);
        let (s0, s1) = (block * ROWS, ((block + 1) * ROWS).min(q.s));
        let (m, keys, d) = (s1 - s0, k.s, q.d);
        let failed = |e: ge_kernels::gemm::GemmError| Error::failed(e.to_string());
        let mut scores = vec![T::narrow(0.0); m * keys];
        let kn = n / self.group;
        let first = Gemm::new(
            [m, keys, d],
            Matrix { row: q.step[2], col: 1 },
            BMatrix::Plain(Matrix { row: 1, col: k.step[2] }),
            vec![[q.at(b, n, s0), k.at(b, kn, 0)]],
        )
        .map_err(failed)?;
        let e = Epilogue { alpha: self.scale, ..Epilogue::default() };
        let all = 0..first.units();
        first.run(all, io.input::<T>(0)?, io.input::<T>(1)?, &e, &mut Out::new(&mut scores)).map_err(failed)?;
        if let (Some(nest), true) = (&self.shift, self.wide_shift) {
            let x = io.input::<f32>(3)?;
            let start = (image * q.s + s0) * keys;
            let mut at = 0;
            nest.each_run_in(start..start + m * keys, |[p], len, [s]| {
                for (i, o) in scores[at..at + len].iter_mut().enumerate() {
                    *o = T::narrow((o.wide() + x[(p + i as isize * s) as usize]).max(MASKED));
                }
                at += len;
            });
        } else if let Some(nest) = &self.shift {
            let x = io.input::<T>(3)?;
            let start = (image * q.s + s0) * keys;
            let mut at = 0;
            nest.each_run_in(start..start + m * keys, |[p], len, [s]| {
                for (i, o) in scores[at..at + len].iter_mut().enumerate() {
                    *o = T::narrow(o.wide() + x[(p + i as isize * s) as usize].wide());
                }
                at += len;
            });
        }
        let mut weights = vec![T::narrow(0.0); m * keys];
        let plan = Softmax { outer: m, len: keys, inner: 1, log: false };
        soft(&plan, 0..plan.units(), &scores, &mut Out::new(&mut weights));
        let second = Gemm::new(
            [m, d, keys],
            Matrix::rows(keys),
            BMatrix::Plain(Matrix { row: v.step[2], col: 1 }),
            vec![[0, v.at(b, kn, 0)]],
        )
        .map_err(failed)?;
        let mut y = vec![T::narrow(0.0); m * d];
        let all = 0..second.units();
        second.run(all, &weights, io.input::<T>(2)?, &Epilogue::default(), &mut Out::new(&mut y)).map_err(failed)?;
        io.output::<T, ()>(0, |out| {
            for (i, row) in y.chunks_exact(d.max(1)).enumerate() {
                out.part(q.at(b, n, s0 + i), d).copy_from_slice(row);
            }
            Ok(())
        })
    }
}

impl Kernel for Attention {
    fn units(&self) -> usize {
        if self.q.d == 0 || self.k.s == 0 { 0 } else { self.q.b * self.q.n * self.blocks() }
    }

    fn work(&self) -> u64 {
        self.products() / 16
    }

    fn products(&self) -> u64 {
        let scores = (self.q.b * self.q.n) as u64 * (self.q.s as u64).saturating_mul(self.k.s as u64);
        scores.saturating_mul(self.q.d as u64).saturating_mul(2)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            units.into_iter().try_for_each(|u| self.unit::<T>(u, io))
        }, else Err(Error::internal("type of an attention")))
    }
}
