//! `DeformConv` over two spatial axes: a convolution whose kernel places are moved by an input (`plugins/ops/src/conv.rs`).
use super::direct::{check, groups};
use super::window::{Apart, axes, onnx_lists};
use crate::args::{Arg, bad, count, filled, int_attr, put_f64};
use crate::op::Op;
use crate::par;
use crate::store::types::FLOAT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// The value between four places; what lies outside counts as zero.
fn between(plane: &[f64], [h, w]: [usize; 2], [y, x]: [f64; 2]) -> f64 {
    if !(y > -1.0 && y < h as f64 && x > -1.0 && x < w as f64) {
        return 0.0;
    }
    let (y0, x0) = (y.floor(), x.floor());
    let mut sum = 0.0;
    for (yi, wy) in [(y0, 1.0 - (y - y0)), (y0 + 1.0, y - y0)] {
        for (xi, wx) in [(x0, 1.0 - (x - x0)), (x0 + 1.0, x - x0)] {
            let inside = yi >= 0.0 && xi >= 0.0 && yi < h as f64 && xi < w as f64;
            if inside && wy * wx != 0.0 {
                sum += wy * wx * plane[yi as usize * w + xi as usize];
            }
        }
    }
    sum
}

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, w, moved) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    let (bias, mask) = (Arg::opt(ctx, 3)?, Arg::opt(ctx, 4)?);
    x.need_rank(4, 4)?;
    w.need_rank(4, 4)?;
    let [n, c, h, width] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
    let [o, cg, kh, kw] = [w.shape[0], w.shape[1], w.shape[2], w.shape[3]];
    let g = groups(ctx, "group", c)?;
    check(c, cg, o, g)?;
    let (s, d, p) = onnx_lists(ctx, 2)?;
    let ax = axes(ctx, Apart::FromTheFirst, &x.shape[2..], &[kh as i64, kw as i64], &s, &d, &p)?;
    let (oh, ow, places) = (ax[0].output, ax[1].output, kh * kw);
    let sets = int_attr(ctx, "offset_group", 1);
    let sets = usize::try_from(sets).ok().filter(|k| *k > 0 && c % k == 0);
    let sets = sets.ok_or_else(|| {
        bad("attribute `offset_group`", int_attr(ctx, "offset_group", 1), format!("a divisor of {c}"))
    })?;
    moved.need_shape(&[n, sets * places * 2, oh, ow])?;
    if let Some(m) = &mask {
        m.need_shape(&[n, sets * places, oh, ow])?;
    }
    if let Some(b) = &bias {
        b.need_shape(&[o])?;
    }
    let (v, f, at) = (x.f64s()?, w.f64s()?, moved.f64s()?);
    let (mask, bias) = (mask.map(|m| m.f64s()).transpose()?, bias.map(|b| b.f64s()).transpose()?);
    let shape = [n, o, oh, ow];
    let mut y = filled(count(&shape)?, 0f64)?;
    let plane = oh * ow;
    par::rows(&mut y, plane, plane * cg * places, |row, out| {
        let (b, to) = (row / o, row % o);
        let first = to / (o / g) * cg;
        for (k, y) in out.iter_mut().enumerate() {
            let (i, j) = (k / ow, k % ow);
            let mut sum = bias.as_ref().map_or(0.0, |b| b[to]);
            for from in 0..cg {
                let ch = first + from;
                let set = ch / (c / sets);
                let map = &v[(b * c + ch) * h * width..][..h * width];
                for q in 0..places {
                    let place = (b * sets + set) * places + q;
                    let own = |axis: usize, at_out: usize, k: usize| {
                        let a = &ax[axis];
                        let whole = (at_out * a.stride + k * a.dilation) as f64 - a.begin as f64;
                        whole + at[(place * 2 + axis) * plane + i * ow + j]
                    };
                    let value = between(map, [h, width], [own(0, i, q / kw), own(1, j, q % kw)]);
                    let by = mask.as_ref().map_or(1.0, |m| m[place * plane + i * ow + j]);
                    sum += value * by * f[(to * cg + from) * places + q];
                }
            }
            *y = sum;
        }
        Ok(())
    })?;
    put_f64(ctx, 0, &shape, &y)
}

/// The rows of this file.
pub const OPS: &[Op] = &[Op::new("DeformConv", run, &[FLOAT]).gives(&[FLOAT])];
