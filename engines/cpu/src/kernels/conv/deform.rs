//! `DeformConv` over two spatial axes: a convolution whose kernel positions are moved by an input
//! (`plugins/ops/src/conv.rs`).
use super::direct::{check, groups};
use super::window::{Apart, axes, onnx_lists};
use crate::args::{Arg, bad, count, filled, int_attr, put_f64};
use crate::kernels::matrix::product::{Mat, add_product};
use crate::op::Op;
use crate::par;
use crate::store::types::FLOAT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Positions in a map, with weights.
type Taps = [(usize, f64); 4];

/// The four positions around a point, with weights. Positions outside the map have weight zero.
fn around([h, w]: [usize; 2], [y, x]: [f64; 2]) -> Taps {
    let mut taps = [(0, 0.0); 4];
    if !(y > -1.0 && y < h as f64 && x > -1.0 && x < w as f64) {
        return taps;
    }
    let (y0, x0) = (y.floor(), x.floor());
    let rows = [(y0, 1.0 - (y - y0)), (y0 + 1.0, y - y0)];
    let columns = [(x0, 1.0 - (x - x0)), (x0 + 1.0, x - x0)];
    for (i, tap) in taps.iter_mut().enumerate() {
        let ((yi, wy), (xi, wx)) = (rows[i / 2], columns[i % 2]);
        if yi >= 0.0 && xi >= 0.0 && yi < h as f64 && xi < w as f64 {
            *tap = (yi as usize * w + xi as usize, wy * wx);
        }
    }
    taps
}

/// The weighted sum of positions. Positions of weight zero contribute zero, whatever their value
/// is.
fn between(map: &[f64], taps: &Taps) -> f64 {
    taps.iter().fold(0.0, |s, (at, w)| if *w == 0.0 { s } else { s + w * map[*at] })
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
    if y.is_empty() {
        return put_f64(ctx, 0, &shape, &y);
    }
    // What each filter position of each channel reads at each output position; a filter's outputs
    // are weighted sums of these lines.
    let mut columns = filled(count(&[c, places, plane])?, 0f64)?;
    for (b, y) in y.chunks_exact_mut(o * plane).enumerate() {
        par::rows(&mut columns, plane * (c / sets) * places, plane * (c / sets) * places * 4, |set, lines| {
            for q in 0..places {
                let place = (b * sets + set) * places + q;
                let own = |axis: usize, at_out: usize, k: usize, at_plane: usize| {
                    let a = &ax[axis];
                    let whole = (at_out * a.stride + k * a.dilation) as f64 - a.begin as f64;
                    whole + at[(place * 2 + axis) * plane + at_plane]
                };
                let point = |k: usize| [own(0, k / ow, q / kw, k), own(1, k % ow, q % kw, k)];
                let taps: Vec<Taps> = (0..plane).map(|k| around([h, width], point(k))).collect();
                for (from, lines) in lines.chunks_exact_mut(places * plane).enumerate() {
                    let map = &v[(b * c + set * (c / sets) + from) * h * width..][..h * width];
                    let line = &mut lines[q * plane..][..plane];
                    line.iter_mut().zip(&taps).for_each(|(o, t)| *o = between(map, t));
                    if let Some(m) = &mask {
                        line.iter_mut().zip(&m[place * plane..]).for_each(|(o, m)| *o *= m);
                    }
                }
            }
            Ok(())
        })?;
        for (group, y) in y.chunks_exact_mut(o / g * plane).enumerate() {
            let depth = cg * places;
            if let Some(b) = &bias {
                let own = &b[group * (o / g)..];
                y.chunks_exact_mut(plane).zip(own).for_each(|(y, b)| y.fill(*b));
            }
            let filters = Mat { data: &f[group * (o / g) * depth..], row: depth, col: 1 };
            let lines = Mat { data: &columns[group * depth * plane..], row: plane, col: 1 };
            add_product(filters, lines, (o / g, plane, depth), y)?;
        }
    }
    put_f64(ctx, 0, &shape, &y)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("DeformConv", run, &[FLOAT]).gives(&[FLOAT])];
