//! `DFT`, `STFT`, `RFFT`, `IRFFT` by their defining sums, window functions, `MelWeightMatrix`
//! (`plugins/ops/src/fft.rs`).
use crate::args::{Arg, axis, bad, count, filled, flag, int_attr, put_f64, room, size};
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX, INT, NUM};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use std::f64::consts::TAU;

/// Cosines and sines of `k / n` turns.
fn turns(n: usize) -> Result<Vec<(f64, f64)>> {
    let mut v = room(n)?;
    v.extend((0..n).map(|k| {
        let a = TAU * k as f64 / n as f64;
        (a.cos(), a.sin())
    }));
    Ok(v)
}
/// The first `bins` sums of `n` complex numbers; an inverse transform is divided by n.
fn sums(x: &[(f64, f64)], n: usize, bins: usize, inverse: bool, turn: &[(f64, f64)]) -> Vec<(f64, f64)> {
    (0..bins)
        .map(|k| {
            let (mut re, mut im, mut p) = (0.0, 0.0, 0);
            for &(a, b) in x.iter().take(n) {
                let (c, s) = (turn[p].0, if inverse { turn[p].1 } else { -turn[p].1 });
                re += a * c - b * s;
                im += a * s + b * c;
                p += k;
                if p >= n {
                    p %= n;
                }
            }
            let d = if inverse { n as f64 } else { 1.0 };
            (re / d, im / d)
        })
        .collect()
}
/// A half spectrum extended by symmetry to `n` numbers.
fn completed(half: &[(f64, f64)], n: usize) -> Vec<(f64, f64)> {
    let at = |k: usize| half.get(k).copied().unwrap_or((0.0, 0.0));
    (0..n).map(|k| if k <= n / 2 { at(k) } else { (at(n - k).0, -at(n - k).1) }).collect()
}
/// Longest accepted transform: the sums take time quadratic in the length.
const LONGEST: usize = 1 << 17;
fn length(n: i64) -> Result<usize> {
    let n = size("length of the transform", n)?;
    if n == 0 || n > LONGEST { Err(bad("length of the transform", n, format!("1 to {LONGEST}"))) } else { Ok(n) }
}
fn run_dft(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(2, usize::MAX)?;
    let r = x.rank();
    let parts = x.shape[r - 1];
    let a = Arg::opt(ctx, 2)?.map_or(Ok(int_attr(ctx, "axis", -2)), |a| a.int())?;
    let a = axis("axis", a, r)?;
    let (inverse, onesided) = (flag(ctx, "inverse", false), flag(ctx, "onesided", false));
    if a == r - 1 || !(1..=2).contains(&parts) {
        return Err(bad(
            "input 0",
            format!("shape {:?}, axis {a}", x.shape),
            "a last dimension of 1 or 2 behind the axis",
        ));
    }
    let default = if inverse && onesided { 2 * (x.shape[a] as i64 - 1) } else { x.shape[a] as i64 };
    let n = length(Arg::opt(ctx, 1)?.map_or(Ok(default), |l| l.int())?)?;
    let bins = if onesided && !inverse { n / 2 + 1 } else { n };
    let wide = if inverse && onesided { 1 } else { 2 };
    let mut shape = x.shape.clone();
    shape[a] = bins;
    shape[r - 1] = wide;
    let inner: usize = x.shape[a + 1..r - 1].iter().product();
    let (outer, m): (usize, usize) = (x.shape[..a].iter().product(), x.shape[a]);
    let v = x.f64s()?;
    let turn = turns(n)?;
    let mut y = filled(count(&shape)?, 0f64)?;
    for o in 0..outer {
        for i in 0..inner {
            let lane: Vec<(f64, f64)> = (0..m)
                .map(|k| {
                    let p = ((o * m + k) * inner + i) * parts;
                    (v[p], if parts == 2 { v[p + 1] } else { 0.0 })
                })
                .collect();
            let lane = if inverse && onesided { completed(&lane, n) } else { lane };
            for (k, (re, im)) in sums(&lane, n, bins, inverse, &turn).into_iter().enumerate() {
                let p = ((o * bins + k) * inner + i) * wide;
                y[p] = re;
                if wide == 2 {
                    y[p + 1] = im;
                }
            }
        }
    }
    put_f64(ctx, 0, &shape, &y)
}
fn run_stft(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, step, window, len) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?.int()?, Arg::opt(ctx, 2)?, Arg::opt(ctx, 3)?);
    x.need_rank(2, 3)?;
    let parts = x.shape.get(2).copied().unwrap_or(1);
    let (b, l) = (x.shape[0], x.shape[1]);
    let n = match (&len, &window) {
        (Some(n), _) => n.int()?,
        (None, Some(w)) => w.len as i64,
        (None, None) => return Err(bad("input 3 `frame_length`", "nothing", "a length, or a window")),
    };
    let n = length(n)?;
    let step = size("input 1 `frame_step`", step)?;
    if step == 0 || !(1..=2).contains(&parts) || window.as_ref().is_some_and(|w| w.len != n) {
        return Err(bad(
            "frame_step and window",
            format!("step {step}"),
            format!("a step of one or more, a window of {n}"),
        ));
    }
    let w = window.map_or(Ok(vec![1.0; n]), |w| w.f64s())?;
    let frames = if l < n { 0 } else { (l - n) / step + 1 };
    let bins = if flag(ctx, "onesided", true) { n / 2 + 1 } else { n };
    let shape = [b, frames, bins, 2];
    let v = x.f64s()?;
    let turn = turns(n)?;
    let mut y = room(count(&shape)?)?;
    for i in 0..b {
        for f in 0..frames {
            let lane: Vec<(f64, f64)> = (0..n)
                .map(|k| {
                    let p = (i * l + f * step + k) * parts;
                    (v[p] * w[k], if parts == 2 { v[p + 1] * w[k] } else { 0.0 })
                })
                .collect();
            y.extend(sums(&lane, n, bins, false, &turn).into_iter().flat_map(|(a, b)| [a, b]));
        }
    }
    put_f64(ctx, 0, &shape, &y)
}
fn run_rfft(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(1, usize::MAX)?;
    let m = x.shape[x.rank() - 1];
    let n = length(int_attr(ctx, "n", m as i64))?;
    let mut shape = x.shape[..x.rank() - 1].to_vec();
    let rows: usize = shape.iter().product();
    shape.extend([n / 2 + 1, 2]);
    let (v, turn) = (x.f64s()?, turns(n)?);
    let mut y = room(count(&shape)?)?;
    for r in 0..rows {
        let lane: Vec<(f64, f64)> = v[r * m..(r + 1) * m].iter().map(|a| (*a, 0.0)).collect();
        y.extend(sums(&lane, n, n / 2 + 1, false, &turn).into_iter().flat_map(|(a, b)| [a, b]));
    }
    put_f64(ctx, 0, &shape, &y)
}
fn run_irfft(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(2, usize::MAX)?;
    let r = x.rank();
    if x.shape[r - 1] != 2 {
        return Err(bad("input 0", format!("shape {:?}", x.shape), "a last dimension of 2"));
    }
    let m = x.shape[r - 2];
    let n = length(int_attr(ctx, "n", 2 * (m as i64 - 1)))?;
    let mut shape = x.shape[..r - 2].to_vec();
    let rows: usize = shape.iter().product();
    shape.push(n);
    let (v, turn) = (x.f64s()?, turns(n)?);
    let mut y = room(count(&shape)?)?;
    for i in 0..rows {
        let mut half: Vec<(f64, f64)> = v[i * m * 2..(i + 1) * m * 2].chunks_exact(2).map(|c| (c[0], c[1])).collect();
        // Bins that are their own mirror image are real.
        if let Some(first) = half.first_mut() {
            first.1 = 0.0;
        }
        if n % 2 == 0
            && let Some(h) = half.get_mut(n / 2)
        {
            h.1 = 0.0;
        }
        y.extend(sums(&completed(&half, n), n, n, true, &turn).into_iter().map(|(re, _)| re));
    }
    put_f64(ctx, 0, &shape, &y)
}
fn run_window(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let n = size("input 0 `size`", Arg::of(ctx, 0)?.int()?)?;
    let d = if flag(ctx, "periodic", true) { n as f64 } else { n as f64 - 1.0 };
    let (a, b, c) = match ctx.op {
        "HannWindow" => (0.5, 0.5, 0.0),
        "HammingWindow" => (25.0 / 46.0, 21.0 / 46.0, 0.0),
        _ => (0.42, 0.5, 0.08),
    };
    let mut v = room(n)?;
    v.extend((0..n).map(|k| {
        let t = TAU * k as f64 / d;
        a - b * t.cos() + c * (2.0 * t).cos()
    }));
    if ctx.output_dtype(0).is_some_and(|d| d.is_int()) {
        // A window's peak is exactly 1: the last digits of f64 must not truncate it to 0.
        v.iter_mut().for_each(|v| *v = f64::from(*v as f32));
    }
    put_f64(ctx, 0, &[n], &v)
}
/// ONNX's mel filter bank: triangles between mel-spaced edges, whose bin positions are rounded
/// down.
fn run_mel(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let int = |i: usize| Arg::of(ctx, i).and_then(|a| a.int()).and_then(|v| size(&format!("input {i}"), v));
    let (bands, dft, rate) = (int(0)?, int(1)?, int(2)?);
    let (low, high) = (Arg::of(ctx, 3)?.scalar()?, Arg::of(ctx, 4)?.scalar()?);
    if rate == 0 || bands > LONGEST || dft > 2 * LONGEST {
        return Err(bad("inputs 0 to 2", format!("{bands} bands of {dft} at {rate}"), "sizes of a filter bank"));
    }
    let bins = dft / 2 + 1;
    let mel = |f: f64| 2595.0 * (1.0 + f / 700.0).log10();
    let (from, to) = (mel(low), mel(high));
    let edge = |k: usize| {
        let m = from + k as f64 * (to - from) / (bands as f64 + 2.0);
        ((dft as f64 + 1.0) * (700.0 * (10f64.powf(m / 2595.0) - 1.0)) / rate as f64).floor() as i64
    };
    let mut y = filled(count(&[bins, bands])?, 0f64)?;
    for b in 0..bands {
        let (l, c, h) = (edge(b), edge(b + 1), edge(b + 2));
        let mut set = |row: i64, v: f64| {
            if let Some(o) = usize::try_from(row).ok().filter(|r| *r < bins).and_then(|r| y.get_mut(r * bands + b)) {
                *o = v;
            }
        };
        if c == l {
            set(c, 1.0);
        } else {
            (l..=c).for_each(|r| set(r, (r - l) as f64 / (c - l) as f64));
        }
        if h > c {
            (c..h).for_each(|r| set(r, (h - r) as f64 / (h - c) as f64));
        }
    }
    put_f64(ctx, 0, &[bins, bands], &y)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("DFT", run_dft, &[FLOAT, INDEX, INDEX]).gives(&[FLOAT]),
    Op::new("STFT", run_stft, &[FLOAT, INDEX, FLOAT, INDEX]).gives(&[FLOAT]),
    Op::new("RFFT", run_rfft, &[FLOAT]).gives(&[FLOAT]),
    Op::new("IRFFT", run_irfft, &[FLOAT]).gives(&[FLOAT]),
    Op::new("HannWindow", run_window, &[INT]).gives(&[NUM]),
    Op::new("HammingWindow", run_window, &[INT]).gives(&[NUM]),
    Op::new("BlackmanWindow", run_window, &[INT]).gives(&[NUM]),
    Op::new("MelWeightMatrix", run_mel, &[INT, INT, INT, FLOAT, FLOAT]).gives(&[NUM]),
];
