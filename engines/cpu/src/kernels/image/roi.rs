//! `RoiAlign`, `MaxRoiPool`: regions of feature maps, brought to one size
//! (`plugins/ops/src/pool.rs`).
use crate::args::{Arg, bad, count, filled, float_attr, int_attr, ints_attr, put_f64, size, text};
use crate::op::Op;
use crate::par;
use crate::store::types::{FLOAT, INDEX};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Most samples of a cell along one axis: a region that needs more lies far outside of any map.
const MOST_SAMPLES: f64 = 16_384.0;

/// Values and weights of the four places around a point; None where it lies outside by more than
/// one.
fn corners(plane: &[f64], [h, w]: [usize; 2], [y, x]: [f64; 2]) -> Option<[[f64; 2]; 4]> {
    if !(-1.0..=h as f64).contains(&y) || !(-1.0..=w as f64).contains(&x) {
        return None;
    }
    // Low place, high place, weight of the high one.
    let axis = |at: f64, n: usize| {
        let at = at.max(0.0);
        let low = (at as usize).min(n - 1);
        if low == n - 1 { (low, low, 0.0) } else { (low, low + 1, at - low as f64) }
    };
    let ((y0, y1, fy), (x0, x1, fx)) = (axis(y, h), axis(x, w));
    let at = |y: usize, x: usize| plane[y * w + x];
    Some([
        [at(y0, x0), (1.0 - fy) * (1.0 - fx)],
        [at(y0, x1), (1.0 - fy) * fx],
        [at(y1, x0), fy * (1.0 - fx)],
        [at(y1, x1), fy * fx],
    ])
}

/// Start and length of a cell along an axis, and how many samples it takes.
fn cells(from: f64, to: f64, half: bool, cells: usize, samples: i64) -> Result<(f64, f64, usize)> {
    let length = if half { to - from } else { (to - from).max(1.0) };
    let taken = if samples > 0 { samples as f64 } else { (length / cells as f64).ceil().max(0.0) };
    if !from.is_finite() || !length.is_finite() || taken > MOST_SAMPLES {
        return Err(bad(
            "input 1 `rois`",
            format!("a region from {from} to {to}"),
            "a region about as large as the map",
        ));
    }
    Ok((from, length / cells as f64, taken as usize))
}

fn run_roi_align(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, rois, batch) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    x.need_rank(4, 4)?;
    let regions = rois.shape.first().copied().unwrap_or(0);
    rois.need_shape(&[regions, 4])?;
    batch.need_shape(&[regions])?;
    let half = text(ctx, "coordinate_transformation_mode", "half_pixel") == "half_pixel";
    let most = text(ctx, "mode", "avg") == "max";
    let out = [
        size("attribute `output_height`", int_attr(ctx, "output_height", 1))?,
        size("attribute `output_width`", int_attr(ctx, "output_width", 1))?,
    ];
    let (samples, scale) = (int_attr(ctx, "sampling_ratio", 0), float_attr(ctx, "spatial_scale", 1.0));
    let [n, c, h, w] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
    let (v, r, of) = (x.f64s()?, rois.f64s()?, batch.i64s()?);
    let shape = [regions, c, out[0], out[1]];
    let mut y = filled(count(&shape)?, 0f64)?;
    let each = out[0] * out[1];
    if h * w == 0 && !y.is_empty() {
        return Err(bad("input 0", format!("shape {:?}", x.shape), "places to sample"));
    }
    let shift = if half { 0.5 } else { 0.0 };
    par::rows(&mut y, each, each * 16, |row, o| {
        let (roi, ch) = (row / c, row % c);
        let b = usize::try_from(of[roi]).ok().filter(|b| *b < n);
        let b = b.ok_or_else(|| bad("input 2 `batch_indices`", of[roi], format!("0 to {}", n as i64 - 1)))?;
        let plane = &v[(b * c + ch) * h * w..][..h * w];
        let [x1, y1, x2, y2] = [0, 1, 2, 3].map(|k| r[roi * 4 + k] * scale - shift);
        let (top, tall, down) = cells(y1, y2, half, out[0], samples)?;
        let (left, wide, across) = cells(x1, x2, half, out[1], samples)?;
        for (k, o) in o.iter_mut().enumerate() {
            let (ph, pw) = ((k / out[1]) as f64, (k % out[1]) as f64);
            let (mut sum, mut best) = (0.0, None::<f64>);
            for i in 0..down * across {
                let (iy, ix) = ((i / across) as f64, (i % across) as f64);
                let at = [
                    top + ph * tall + (iy + 0.5) * tall / down as f64,
                    left + pw * wide + (ix + 0.5) * wide / across as f64,
                ];
                let around = corners(plane, [h, w], at).unwrap_or([[0.0; 2]; 4]);
                let parts = around.map(|[v, f]| v * f);
                sum += parts.iter().sum::<f64>();
                let own = parts.into_iter().fold(f64::NEG_INFINITY, f64::max);
                best = Some(best.map_or(own, |b| b.max(own)));
            }
            *o = if most { best.unwrap_or(0.0) } else { sum / ((down * across).max(1) as f64) };
        }
        Ok(())
    })?;
    put_f64(ctx, 0, &shape, &y)
}

fn run_max_roi_pool(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, rois) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    x.need_rank(4, 4)?;
    let regions = rois.shape.first().copied().unwrap_or(0);
    rois.need_shape(&[regions, 5])?;
    let Some(&[ph, pw]) = ints_attr(ctx, "pooled_shape") else {
        return Err(bad("attribute `pooled_shape`", "another number of sizes", "two sizes"));
    };
    let out = [size("attribute `pooled_shape`", ph)?, size("attribute `pooled_shape`", pw)?];
    let scale = float_attr(ctx, "spatial_scale", 1.0);
    let [n, c, h, w] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
    let (v, r) = (x.f64s()?, rois.f64s()?);
    let shape = [regions, c, out[0], out[1]];
    let mut y = filled(count(&shape)?, 0f64)?;
    let each = out[0] * out[1];
    par::rows(&mut y, each, h * w + each, |row, o| {
        let (roi, ch) = (row / c, row % c);
        let own = &r[roi * 5..][..5];
        if !(0.0..n as f64).contains(&own[0]) {
            return Err(bad("input 1 `rois`", format!("batch {}", own[0]), format!("0 to {}", n as i64 - 1)));
        }
        let plane = &v[(own[0] as usize * c + ch) * h * w..][..h * w];
        // The places of cell `k` of an axis; whole numbers, ends included.
        let range = |from: f64, to: f64, k: usize, cells: usize, n: usize| {
            let (from, to) = ((from * scale).round(), (to * scale).round());
            let step = (to - from + 1.0).max(1.0) / cells as f64;
            let at = |q: f64| (q + from).clamp(0.0, n as f64) as usize;
            at((k as f64 * step).floor())..at(((k + 1) as f64 * step).ceil())
        };
        for (k, o) in o.iter_mut().enumerate() {
            let rows = range(own[2], own[4], k / out[1], out[0], h);
            let cols = range(own[1], own[3], k % out[1], out[1], w);
            let seen = rows.flat_map(|i| cols.clone().map(move |j| plane[i * w + j]));
            *o = seen.reduce(f64::max).unwrap_or(0.0);
        }
        Ok(())
    })?;
    put_f64(ctx, 0, &shape, &y)
}

/// The rows of this file.
pub const OPS: &[Op] = &[
    Op::new("RoiAlign", run_roi_align, &[FLOAT, FLOAT, INDEX]).gives(&[FLOAT]),
    Op::new("MaxRoiPool", run_max_roi_pool, &[FLOAT]).gives(&[FLOAT]),
];
