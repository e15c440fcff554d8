//! `PromptFlashAttention`: softmax(scale * q·kᵀ + pse_shift)·v per head, computed one block of
//! query positions at a time without the whole matrix of scores in memory. Layouts BSH, BSND, BNSD;
//! key and value may have fewer heads; f32, f16, bf16. `pse_shift` broadcasts to `[B, N, Sq, Skv]`.
//! With a `sparse_mode`, each query sees a band of keys, and only these keys are read; keys beyond
//! `kv_lengths` are not read either. Boolean masks and sequence lengths by value are handled in
//! `sequences.rs`.
use super::band::Band;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, FLOATS, Sig, Tensor};
use ge_kernels::gemm::{BMatrix, Epilogue, Gemm, GemmError, Matrix};
use ge_kernels::norm::{Softmax, softmax as soft};
use ge_kernels::scratch::with_scratch;
use ge_kernels::simd::act::{self, map_in_place};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::cast::cast_all;
use ge_kernels::view::{Kind, Layout, Nest, Out};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Query positions of a unit of work, at least, if there are as many.
const LEAST_ROWS: usize = 64;
/// The same, at most: keys and values are packed once for all of them.
const MOST_ROWS: usize = 192;
/// Most scores of a unit, so that they stay in the second-level cache beside their weights.
const SCORES: usize = 64 * 1024;
/// Number of units that keeps the cores of a device busy.
const WANTED: usize = 12;
/// Most columns of a product that are packed at a time.
const COLUMNS: usize = 256;

/// Heads in memory: sizes, and strides of batch, head and position.
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
    /// Query positions of a unit.
    rows: usize,
    scale: f32,
    /// Scores are limited to the range from `-cap` to `cap`; 0: no limit.
    cap: f32,
    /// Position in the shift for each score.
    shift: Option<Nest<1>>,
    /// The shift is f32 although the operands are 16-bit; masked scores then stay finite.
    wide_shift: bool,
    /// The keys that each query sees.
    band: Band,
    /// Integer type of the input with the number of keys of each sequence in the batch, if it is
    /// given.
    lengths: Option<Kind>,
    /// Whether a query that sees no key gives zeros.
    empty_is_zero: bool,
}

/// The score with a mask added: never infinite, so that a fully masked row gives finite numbers.
/// NaN stays as it is.
fn limited(score: f32) -> f32 {
    if score < f32::MIN { f32::MIN } else { score }
}

/// The kernel of an attention.
///
/// # Errors
/// Fails with a reason if types, shapes or inputs are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let wide_shift =
        sig.opt_input(3).is_some_and(|t| t.kind == Some(Kind::F32)) && sig.kind_in(0, FLOATS)? != Kind::F32;
    let has_lengths = sig.opt_input(7).is_some();
    let kind = if wide_shift || has_lengths { sig.kind_in(0, FLOATS)? } else { sig.one_kind(FLOATS)? };
    let shift = sig.opt_input(3).filter(|_| !wide_shift);
    let others = [sig.input(1)?, sig.input(2)?, sig.output(0)?].into_iter().chain(shift);
    if let Some(t) = others.into_iter().find(|t| t.kind != Some(kind)) {
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
    let band = Band::of(sig, q.s, k.s)?;
    let lengths = match sig.opt_input(7) {
        None => None,
        Some(t) if t.shape == [q.b] => Some(sig.kind_in(7, &[Kind::I32, Kind::I64])?),
        Some(t) => return Err(format!("input 7 `kv_lengths` is {:?}, it takes [{}]", t.shape, q.b)),
    };
    let empty_is_zero = sig.int("inner_precise", 0) & 2 != 0;
    let (group, cap) = (heads / kv, sig.float("softcap", 0.0));
    let rows = rows_of_unit(q, &band, k.s);
    Ok(Box::new(Attention { kind, q, k, v, group, rows, scale, cap, shift, wide_shift, band, lengths, empty_is_zero }))
}

/// Query positions of a unit: nearly as many in all units of a head. Where queries see only a band
/// of keys, a large unit would compute scores that are not wanted.
fn rows_of_unit(q: Heads, band: &Band, keys: usize) -> usize {
    let most = if band.is_whole() { (SCORES / keys.max(1)).clamp(LEAST_ROWS, MOST_ROWS) } else { LEAST_ROWS };
    let wanted = WANTED.div_ceil(q.b.saturating_mul(q.n).max(1)).min(q.s.div_ceil(LEAST_ROWS));
    q.s.div_ceil(q.s.div_ceil(most).max(wanted).max(1)).max(1)
}

/// A product whose second factor is packed once, unless there are few rows.
fn packed_once(product: Gemm, [rows, columns]: [usize; 2]) -> Gemm {
    if rows <= LEAST_ROWS / 2 {
        return product;
    }
    product.with_tile(rows, columns.div_ceil(columns.div_ceil(COLUMNS).max(1)))
}

/// The queries that one unit computes: positions of one head or, with a single position, the heads
/// that share a key.
struct Queries {
    b: usize,
    /// The first head and the first position.
    at: [usize; 2],
    count: usize,
    /// Whether consecutive queries are consecutive heads (else consecutive positions).
    by_head: bool,
}

impl Queries {
    /// Head and position of query `i`.
    fn of(&self, i: usize) -> [usize; 2] {
        if self.by_head { [self.at[0] + i, self.at[1]] } else { [self.at[0], self.at[1] + i] }
    }
}

impl Attention {
    /// Number of units per batch entry: blocks of positions of each head, or groups of heads.
    fn units_of_batch(&self) -> usize {
        if self.by_head() { self.k.n } else { self.q.n * self.q.s.div_ceil(self.rows) }
    }

    fn by_head(&self) -> bool {
        self.q.s == 1
    }

    fn queries(&self, unit: usize) -> Queries {
        let (b, unit) = (unit / self.units_of_batch(), unit % self.units_of_batch());
        if self.by_head() {
            return Queries { b, at: [unit * self.group, 0], count: self.group, by_head: true };
        }
        let blocks = self.q.s.div_ceil(self.rows);
        let (n, s) = (unit / blocks, unit % blocks * self.rows);
        Queries { b, at: [n, s], count: self.rows.min(self.q.s - s), by_head: false }
    }

    /// Adds the shift to the scores of some queries with some of the keys.
    fn shifted<T: PanelElem>(
        &self,
        of: &Queries,
        keys: &Range<usize>,
        scores: &mut [f32],
        io: &Io<'_, '_>,
    ) -> Result<()> {
        let Some(nest) = &self.shift else { return Ok(()) };
        for (i, row) in scores.chunks_exact_mut(keys.len()).enumerate() {
            let [n, s] = of.of(i);
            let start = ((of.b * self.q.n + n) * self.q.s + s) * self.k.s + keys.start;
            let places = (nest, start..start + keys.len());
            if self.wide_shift {
                add(row, places, io.input::<f32>(3)?, limited);
            } else {
                add(row, places, io.input::<T>(3)?, |sum| sum);
            }
        }
        Ok(())
    }

    /// The keys that the queries of a sequence see.
    fn band_of(&self, batch: usize, io: &Io<'_, '_>) -> Result<Band> {
        let keys = match self.lengths {
            None => return Ok(self.band),
            Some(Kind::I32) => i64::from(io.input::<i32>(7)?[batch]),
            Some(_) => io.input::<i64>(7)?[batch],
        };
        Ok(self.band.of_keys(usize::try_from(keys).unwrap_or(0)))
    }

    fn unit<T: PanelElem>(&self, unit: usize, io: &Io<'_, '_>) -> Result<()> {
        let (q, d) = (self.q, self.q.d);
        let of = self.queries(unit);
        let [n, s] = of.at;
        if d == if of.by_head { q.step[1] } else { q.step[2] } {
            return io.output::<T, ()>(0, |out| self.attend(&of, out.part(q.at(of.b, n, s), of.count * d), io));
        }
        let mut y = vec![T::narrow(0.0); of.count * d];
        self.attend(&of, &mut y, io)?;
        io.output::<T, ()>(0, |out| {
            for (i, row) in y.chunks_exact(d.max(1)).enumerate() {
                let [n, s] = of.of(i);
                out.part(q.at(of.b, n, s), d).copy_from_slice(row);
            }
            Ok(())
        })
    }

    /// Computes what some queries see; `y` gets one row for each.
    fn attend<T: PanelElem>(&self, of: &Queries, y: &mut [T], io: &Io<'_, '_>) -> Result<()> {
        let s = of.at[1];
        let last = of.of(of.count - 1)[1];
        let band = self.band_of(of.b, io)?;
        let keys = band.keys_of_all(s..last + 1);
        if keys.is_empty() {
            y.fill(T::narrow(0.0));
            return Ok(());
        }
        // Scores and weights are in single precision, whatever the type of the operands.
        let size = of.count * keys.len();
        with_scratch(2 * size, |both| {
            let (scores, weights) = both.split_at_mut(size);
            self.score::<T>(of, &keys, scores, io)?;
            for (i, row) in scores.chunks_exact_mut(keys.len()).enumerate() {
                let seen = band.keys_of(of.of(i)[1]);
                let (from, to) = (seen.start.max(keys.start) - keys.start, seen.end.max(keys.start) - keys.start);
                row[..from.min(keys.len())].fill(f32::NEG_INFINITY);
                row[to.min(keys.len())..].fill(f32::NEG_INFINITY);
            }
            let plan = Softmax { outer: of.count, len: keys.len(), inner: 1, log: false };
            soft(&plan, 0..plan.units(), scores, &mut Out::new(weights));
            let rows = scores.chunks_exact(keys.len()).zip(weights.chunks_exact_mut(keys.len()));
            let sees_none = |i: usize| band.keys_of(of.of(i)[1]).is_empty();
            let empty = |row: &[f32]| self.empty_is_zero && row.iter().all(|s| *s == f32::NEG_INFINITY);
            let rows = rows.enumerate().filter(|(i, (s, _))| sees_none(*i) || empty(s));
            rows.for_each(|(_, (_, w))| w.fill(0.0));
            self.weigh(of, &keys, weights, y, io)
        })
    }

    /// The scores of some queries with some of the keys.
    fn score<T: PanelElem>(
        &self,
        of: &Queries,
        keys: &Range<usize>,
        scores: &mut [f32],
        io: &Io<'_, '_>,
    ) -> Result<()> {
        let (q, k, [n, s]) = (self.q, self.k, of.at);
        let product = Gemm::new(
            [of.count, keys.len(), q.d],
            Matrix { row: if of.by_head { q.step[1] } else { q.step[2] }, col: 1 },
            BMatrix::Plain(Matrix { row: 1, col: k.step[2] }),
            vec![[q.at(of.b, n, s), k.at(of.b, n / self.group, keys.start)]],
        );
        let product = packed_once(product.map_err(failed)?, [of.count, keys.len()]);
        let e = Epilogue { alpha: self.scale, ..Epilogue::default() };
        let all = 0..product.units();
        product.run(all, io.input::<T>(0)?, io.input::<T>(1)?, &e, &mut Out::new(&mut *scores)).map_err(failed)?;
        if self.cap > 0.0 {
            capped(self.cap, scores);
        }
        self.shifted::<T>(of, keys, scores, io)
    }

    /// The sums of the values of some keys with these weights.
    fn weigh<T: PanelElem>(
        &self,
        of: &Queries,
        keys: &Range<usize>,
        weights: &[f32],
        y: &mut [T],
        io: &Io<'_, '_>,
    ) -> Result<()> {
        let (v, d, n) = (self.v, self.q.d, of.at[0] / self.group);
        let given = io.input::<T>(2)?;
        let mut room = Vec::new();
        let (values, pitch, first) = match T::singles(given) {
            Some(values) => (values, v.step[2], v.at(of.b, n, keys.start)),
            None => {
                room.resize(keys.len() * d, 0f32);
                for (t, to) in keys.clone().zip(room.chunks_exact_mut(d)) {
                    cast_all(&given[v.at(of.b, n, t)..][..d], to);
                }
                (&room[..], d, 0)
            }
        };
        let by_rows = BMatrix::Plain(Matrix { row: pitch, col: 1 });
        let product = Gemm::new([of.count, d, keys.len()], Matrix::rows(keys.len()), by_rows, vec![[0, first]]);
        let product = packed_once(product.map_err(failed)?, [of.count, d]);
        product.run(0..product.units(), weights, values, &Epilogue::default(), &mut Out::new(y)).map_err(failed)
    }
}

fn failed(e: GemmError) -> Error {
    Error::failed(e.to_string())
}

/// Replaces each score by `cap * tanh(score / cap)`.
fn capped(cap: f32, scores: &mut [f32]) {
    let down = 1.0 / cap;
    for s in scores.iter_mut() {
        *s *= down;
    }
    map_in_place(act::Tanh, scores);
    for s in scores.iter_mut() {
        *s *= cap;
    }
}

/// Adds elements of `x`, as selected by a nest and a range, to a row of scores; `f` of each sum is
/// the new score.
fn add<X: PanelElem>(row: &mut [f32], (nest, range): (&Nest<1>, Range<usize>), x: &[X], f: impl Fn(f32) -> f32) {
    let mut at = 0;
    nest.each_run_in(range, |[p], len, [step]| {
        let row = &mut row[at..at + len];
        at += len;
        match step {
            0 => row.iter_mut().for_each(|o| *o = f(*o + x[p as usize].wide())),
            1 => {
                for (o, x) in row.iter_mut().zip(&x[p as usize..][..len]) {
                    *o = f(*o + x.wide());
                }
            }
            _ => {
                for (i, o) in row.iter_mut().enumerate() {
                    *o = f(*o + x[(p + i as isize * step) as usize].wide());
                }
            }
        }
    });
}

impl Kernel for Attention {
    fn units(&self) -> usize {
        if self.q.d == 0 { 0 } else { self.q.b * self.units_of_batch() }
    }

    fn work(&self) -> u64 {
        self.products() / 16
    }

    fn products(&self) -> u64 {
        let scores = (self.q.b * self.q.n) as u64 * self.band.scores();
        scores.saturating_mul(self.q.d as u64).saturating_mul(2)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => {
            units.into_iter().try_for_each(|u| self.unit::<T>(u, io))
        }, else Err(Error::internal("type of an attention")))
    }
}
