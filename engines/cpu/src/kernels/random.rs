//! Random numbers: `RandomUniform`, `RandomNormal`, their `Like` forms, `Bernoulli`, `Multinomial`.
//!
//! They use SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators"),
//! seeded by `seed`, or by the node's name without one, and by the turn of the loop, so that a
//! compiled model gives the same numbers in each run and other ones in each turn. Normal numbers use
//! the method of Box and Muller.
use crate::args::{Arg, bad, count, filled, float_attr, int_attr, ints_attr, put_f64, put_i64, room, size};
use crate::kernels::math::special::{cos_of_turns, ln_in_line};
use crate::op::Op;
use crate::store::types::{BITS, FLOAT, INDEX, NUMB};
use ge_kernels::view::lines;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// Normal numbers that are computed at a time.
const SOME: usize = 256;

/// A stream of random numbers.
pub struct Source(u64);
impl Source {
    /// Seeded by the node's `seed`, or by its name, and by its input `turn`, which is input `at`.
    pub fn of(ctx: &KernelCtx<'_>, at: usize) -> Result<Source> {
        let seed = match ctx.attrs.float("seed") {
            Some(s) => s.to_bits(),
            None => {
                ctx.node.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
            }
        };
        let turn = Arg::opt(ctx, at)?.map_or(Ok(0), |t| t.int())?;
        // The seeds of turns are far apart: neighbouring seeds would give parts of one stream.
        Ok(Source(seed ^ mixed(turn as u64)))
    }
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }
    /// A uniform number in `0..1`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Normal numbers with mean 0 and standard deviation 1.
    pub fn normals(&mut self, n: usize) -> Result<Vec<f64>> {
        let (mut v, [mut radii, mut turns]) = (filled(n, 0f64)?, [[0.0; SOME]; 2]);
        for part in v.chunks_mut(SOME) {
            for (radius, turn) in radii.iter_mut().zip(&mut turns).take(part.len()) {
                (*radius, *turn) = (1.0 - self.unit(), self.unit());
            }
            lines::zip(part, &radii, &turns, |u, v| (-2.0 * ln_in_line(u)).sqrt() * cos_of_turns(v));
        }
        Ok(v)
    }
}
/// The mixing function of SplitMix64; 0 stays 0.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
/// A mask of the elements that a dropout keeps: each is dropped with probability `ratio`. Input
/// `turn` of the node is the number of the turn.
pub fn mask(ctx: &KernelCtx<'_>, turn: usize, n: usize, ratio: f64) -> Result<Vec<bool>> {
    let mut s = Source::of(ctx, turn)?;
    let mut v = room(n)?;
    v.extend((0..n).map(|_| s.unit() >= ratio));
    Ok(v)
}
fn run_plain(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let is_like = ctx.op.ends_with("Like");
    let shape = if is_like {
        ctx.input(0)?.dims.iter().map(|&d| size("input 0", d as i64)).collect::<Result<Vec<_>>>()?
    } else {
        let s = ints_attr(ctx, "shape").ok_or_else(|| bad("attribute `shape`", "nothing", "a list of integers"))?;
        s.iter().map(|&d| size("attribute `shape`", d)).collect::<Result<Vec<_>>>()?
    };
    let n = count(&shape)?;
    let mut s = Source::of(ctx, usize::from(is_like))?;
    let v = if ctx.op.contains("Normal") {
        let (mean, scale) = (float_attr(ctx, "mean", 0.0), float_attr(ctx, "scale", 1.0));
        let mut v = s.normals(n)?;
        v.iter_mut().for_each(|v| *v = mean + scale * *v);
        v
    } else {
        let (low, high) = (float_attr(ctx, "low", 0.0), float_attr(ctx, "high", 1.0));
        let mut v = room(n)?;
        v.extend((0..n).map(|_| low + (high - low) * s.unit()));
        v
    };
    put_f64(ctx, 0, &shape, &v)
}
/// `DropOutGenMask(shape, prob) {seed, seed2}`: a mask of bits, each one with probability `prob`
/// (kept), padded with zeros to a multiple of 128 bits.
fn run_gen_mask(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let shape = Arg::of(ctx, 0)?.list()?;
    let shape = shape.iter().map(|&d| size("input 0", d)).collect::<Result<Vec<_>>>()?;
    let (n, keep) = (count(&shape)?, Arg::of(ctx, 1)?.scalar()?);
    let (first, second) = (int_attr(ctx, "seed", 0), int_attr(ctx, "seed2", 0));
    let seed = (first as u64).rotate_left(32) ^ second as u64;
    let mut s = if seed == 0 { Source::of(ctx, 2)? } else { Source(seed) };
    let bytes = n.div_ceil(128) * 16;
    let mut mask = room(bytes)?;
    mask.extend((0..bytes).map(|k| {
        let bit = |b: usize| if k * 8 + b < n && s.unit() < keep { 1i64 << b } else { 0 };
        (0..8).map(bit).sum::<i64>()
    }));
    put_i64(ctx, 0, &[bytes], &mask)
}
/// `DropOutDoMask(x, mask, keep_prob)`: `x / keep_prob` where the mask bit is one, otherwise 0.
fn run_do_mask(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, mask, keep) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?.i64s()?, Arg::of(ctx, 2)?.scalar()?);
    if mask.len() < x.len.div_ceil(8) {
        return Err(bad("input 1", format!("{} bytes", mask.len()), format!("a bit for each of {} values", x.len)));
    }
    let mut v = x.f64s()?;
    let is_kept = |i: usize| mask[i / 8] >> (i % 8) & 1 == 1;
    v.iter_mut().enumerate().for_each(|(i, v)| *v = if is_kept(i) { *v / keep } else { 0.0 });
    put_f64(ctx, 0, &x.shape, &v)
}
fn run_bernoulli(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let mut s = Source::of(ctx, 1)?;
    let v: Vec<i64> = x.f64s()?.into_iter().map(|p| i64::from(s.unit() < p)).collect();
    put_i64(ctx, 0, &x.shape, &v)
}
/// Draws samples by unnormalised log probabilities.
fn run_multinomial(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(2, 2)?;
    let n = size("attribute `sample_size`", int_attr(ctx, "sample_size", 1))?;
    let shape = [x.shape[0], n];
    if x.shape[1] == 0 {
        return Err(bad("input 0", format!("shape {:?}", x.shape), "at least one class"));
    }
    let mut s = Source::of(ctx, 1)?;
    let mut v = room(count(&shape)?)?;
    for row in x.f64s()?.chunks_exact_mut(x.shape[1]) {
        crate::kernels::norm::softmax::softmax(row);
        for _ in 0..n {
            let u = s.unit();
            let mut sum = 0.0;
            let at = row.iter().position(|p| {
                sum += p;
                u < sum
            });
            v.push(at.unwrap_or(row.len() - 1) as i64);
        }
    }
    put_i64(ctx, 0, &shape, &v)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("DropOutGenMask", run_gen_mask, &[INDEX, FLOAT]).gives(&[&[DType::U8]]),
    Op::new("DropOutDoMask", run_do_mask, &[FLOAT, &[DType::U8], FLOAT]).gives(&[FLOAT]),
    Op::new("RandomUniform", run_plain, &[INDEX]).gives(&[FLOAT]),
    Op::new("RandomNormal", run_plain, &[INDEX]).gives(&[FLOAT]),
    Op::new("RandomUniformLike", run_plain, &[BITS, INDEX]).gives(&[FLOAT]),
    Op::new("RandomNormalLike", run_plain, &[BITS, INDEX]).gives(&[FLOAT]),
    Op::new("Bernoulli", run_bernoulli, &[FLOAT, INDEX]).gives(&[NUMB]),
    Op::new("Multinomial", run_multinomial, &[FLOAT, INDEX]).gives(&[NUMB]),
];
