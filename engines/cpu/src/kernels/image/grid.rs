//! `GridSample` over any number of spatial axes, `AffineGrid`,
//! `Col2Im` (`plugins/ops/src/image.rs`).
use crate::args::{Arg, bad, count, filled, flag, ints_attr, put_f64, size, text};
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX, NUM};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn reflect(mut x: f64, low: f64, high: f64) -> f64 {
    let span = high - low;
    if span <= 0.0 {
        return low;
    }
    x = (x - low).abs();
    let turns = (x / span).floor();
    let rest = x - turns * span;
    if turns % 2.0 == 0.0 { rest + low } else { high - rest }
}
/// Weights of the four places around a fraction, `a = -0.75`.
fn cubic(t: f64) -> [f64; 4] {
    let a = -0.75;
    let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}
fn run_grid_sample(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, g) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    x.need_rank(3, 8)?;
    let k = x.rank() - 2;
    if g.rank() != x.rank() || g.shape[0] != x.shape[0] || g.shape[k + 1] != k {
        return Err(bad(
            "input 1 `grid`",
            format!("shape {:?}", g.shape),
            format!("[{}, ..., {k}] of rank {}", x.shape[0], x.rank()),
        ));
    }
    let (mode, pad) = (text(ctx, "interpolation_mode", "bilinear"), text(ctx, "padding_mode", "zeros"));
    let corners = flag(ctx, "align_corners", false);
    let spatial = &x.shape[2..];
    if spatial.contains(&0) {
        return Err(bad("input 0", format!("shape {:?}", x.shape), "places to sample"));
    }
    let plane: usize = spatial.iter().product();
    let mut shape = x.shape[..2].to_vec();
    shape.extend_from_slice(&g.shape[1..k + 1]);
    let each: usize = g.shape[1..k + 1].iter().product();
    let (v, grid) = (x.f64s()?, g.f64s()?);
    let mut y = filled(count(&shape)?, 0f64)?;
    let c = x.shape[1];
    for b in 0..x.shape[0] {
        for p in 0..each {
            // Taps of each axis: places (None: outside, zero) with weights.
            let taps: Vec<Vec<(Option<usize>, f64)>> = (0..k)
                .map(|d| {
                    let n = spatial[d] as f64;
                    let u = grid[(b * each + p) * k + (k - 1 - d)];
                    let (low, high) = if corners { (0.0, n - 1.0) } else { (-0.5, n - 0.5) };
                    let mut at = if corners { (u + 1.0) / 2.0 * (n - 1.0) } else { ((u + 1.0) * n - 1.0) / 2.0 };
                    let fold = |at: f64| match pad {
                        "border" => at.clamp(0.0, n - 1.0),
                        "reflection" => reflect(at, low, high).clamp(0.0, n - 1.0),
                        _ => at,
                    };
                    if mode != "bicubic" {
                        at = fold(at);
                    }
                    let place = |q: f64| {
                        let q = if mode == "bicubic" { fold(q) } else { q };
                        (q >= 0.0 && q <= n - 1.0).then_some(q as usize)
                    };
                    if !at.is_finite() {
                        return vec![(None, 0.0)];
                    }
                    let f = at.floor();
                    match mode {
                        "nearest" => vec![(place(at.round_ties_even()), 1.0)],
                        "bicubic" => {
                            cubic(at - f).iter().enumerate().map(|(i, w)| (place(f - 1.0 + i as f64), *w)).collect()
                        }
                        _ => vec![(place(f), 1.0 - (at - f)), (place(f + 1.0), at - f)],
                    }
                })
                .collect();
            let total: usize = taps.iter().map(Vec::len).product();
            for t in 0..total {
                let (mut rest, mut at, mut w, mut step) = (t, Some(0), 1.0, 1);
                for d in (0..k).rev() {
                    let (q, f) = taps[d][rest % taps[d].len()];
                    rest /= taps[d].len();
                    at = at.zip(q).map(|(a, q)| a + q * step);
                    w *= f;
                    step *= spatial[d];
                }
                if let Some(at) = at.filter(|_| w != 0.0) {
                    (0..c).for_each(|ch| y[(b * c + ch) * each + p] += w * v[(b * c + ch) * plane + at]);
                }
            }
        }
    }
    put_f64(ctx, 0, &shape, &y)
}
fn run_affine_grid(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (theta, want) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?.list()?);
    if want.len() != 4 && want.len() != 5 {
        return Err(bad("input 1 `size`", format!("{} numbers", want.len()), "4 or 5 numbers"));
    }
    let dims = want.iter().map(|&d| size("input 1 `size`", d)).collect::<Result<Vec<_>>>()?;
    let k = dims.len() - 2;
    theta.need_shape(&[dims[0], k, k + 1])?;
    let corners = flag(ctx, "align_corners", false);
    let mut shape = vec![dims[0]];
    shape.extend_from_slice(&dims[2..]);
    shape.push(k);
    let each: usize = dims[2..].iter().product();
    let v = theta.f64s()?;
    let mut y = crate::args::room(count(&shape)?)?;
    for b in 0..dims[0] {
        for p in 0..each {
            // Coordinates in the order x, y, z: the last axis first.
            let mut rest = p;
            let mut at: Vec<f64> = (0..k)
                .rev()
                .map(|d| {
                    let n = dims[2 + d];
                    let i = (rest % n) as f64;
                    rest /= n;
                    let n = n as f64;
                    if !corners {
                        (2.0 * i + 1.0) / n - 1.0
                    } else if n > 1.0 {
                        -1.0 + 2.0 * i / (n - 1.0)
                    } else {
                        0.0
                    }
                })
                .collect();
            at.push(1.0);
            for r in 0..k {
                let row = &v[(b * k + r) * (k + 1)..][..k + 1];
                y.push(row.iter().zip(&at).map(|(a, b)| a * b).sum());
            }
        }
    }
    put_f64(ctx, 0, &shape, &y)
}
fn run_col2im(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(3, 3)?;
    let list =
        |i: usize| Arg::of(ctx, i)?.list()?.iter().map(|&d| size(&format!("input {i}"), d)).collect::<Result<Vec<_>>>();
    let (image, block) = (list(1)?, list(2)?);
    let k = image.len();
    let attr = |key: &str, n: usize, d: i64| match ints_attr(ctx, key) {
        None | Some([]) => Ok(vec![d; n]),
        Some(v) if v.len() == n => Ok(v.to_vec()),
        Some(v) => Err(bad(format!("attribute `{key}`"), format!("{} numbers", v.len()), format!("{n} numbers"))),
    };
    let (dil, pads, strides) = (attr("dilations", k, 1)?, attr("pads", 2 * k, 0)?, attr("strides", k, 1)?);
    let area = count(&block)?;
    if block.len() != k || area == 0 || x.shape[1] % area != 0 || strides.iter().chain(&dil).any(|&s| s < 1) {
        return Err(bad(
            "inputs of Col2Im",
            format!("shape {:?}, block {block:?}", x.shape),
            "whole blocks, strides and dilations of one or more",
        ));
    }
    let mut steps = Vec::new();
    for d in 0..k {
        let room = i128::from(image[d] as u64) + i128::from(pads[d]) + i128::from(pads[k + d])
            - (i128::from(block[d] as u64) - 1) * i128::from(dil[d])
            - 1;
        steps.push(if room < 0 {
            0
        } else {
            usize::try_from(room / i128::from(strides[d])).unwrap_or(usize::MAX - 1) + 1
        });
    }
    if count(&steps)? != x.shape[2] {
        return Err(bad("input 0: columns", x.shape[2], count(&steps)?));
    }
    let (n, c, plane) = (x.shape[0], x.shape[1] / area, count(&image)?);
    let mut shape = vec![n, c];
    shape.extend_from_slice(&image);
    let v = x.f64s()?;
    let mut y = filled(count(&shape)?, 0f64)?;
    for row in 0..n * c {
        for q in 0..area {
            'place: for l in 0..x.shape[2] {
                let (mut rq, mut rl, mut at, mut step) = (q, l, 0usize, 1usize);
                for d in (0..k).rev() {
                    let (bq, bl) = (rq % block[d], rl % steps[d]);
                    rq /= block[d];
                    rl /= steps[d];
                    let p = bl as i64 * strides[d] + bq as i64 * dil[d] - pads[d];
                    if p < 0 || p >= image[d] as i64 {
                        continue 'place;
                    }
                    at += p as usize * step;
                    step *= image[d];
                }
                y[row * plane + at] += v[(row * area + q) * x.shape[2] + l];
            }
        }
    }
    put_f64(ctx, 0, &shape, &y)
}

/// The rows of this file.
pub const OPS: &[Op] = &[
    Op::new("GridSample", run_grid_sample, &[NUM, FLOAT]).gives(&[NUM]),
    Op::new("AffineGrid", run_affine_grid, &[FLOAT, INDEX]).gives(&[FLOAT]),
    Op::new("Col2Im", run_col2im, &[NUM, INDEX]).gives(&[NUM]),
];
