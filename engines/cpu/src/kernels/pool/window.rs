//! `MaxPoolV3`, `MaxPoolWithArgmaxV2`, `AvgPoolV2`, `LpPool` over one to three spatial axes
//! (`plugins/ops/src/pool.rs`).
use super::greatest::places;
use crate::args::{Arg, bad, count, filled, flag, float_attr, int_attr, ints_attr, out, put_f64, put_i64};
use crate::kernels::conv::direct::regroup;
use crate::kernels::conv::window::{Apart, Axis, axes, cann_pads, channels_last, spatial_list, three};
use crate::kernels::matrix::product::Wide;
use crate::op::Op;
use crate::par;
use crate::store::types::{FLOAT, NUM};
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Windows over an input, and the shape of the output.
struct Frame {
    ax: [Axis; 3],
    shape: Vec<usize>,
    last: bool,
    n: usize,
    c: usize,
}
struct Pool {
    x: Vec<f64>,
    planes: usize,
    ax: [Axis; 3],
    shape: Vec<usize>,
    last: bool,
    n: usize,
    c: usize,
}

fn frame(ctx: &KernelCtx<'_>, x: &Arg<'_>) -> Result<Frame> {
    x.need_rank(3, 5)?;
    let r = x.rank();
    let last = channels_last(ctx);
    let (n, c) = (x.shape[0], if last { x.shape[r - 1] } else { x.shape[1] });
    let spatial = if last { &x.shape[1..r - 1] } else { &x.shape[2..] };
    if ints_attr(ctx, "ksize").is_none_or(<[i64]>::is_empty) {
        return Err(bad("attribute `ksize`", "nothing", format!("{r} numbers")));
    }
    let k = spatial_list(ctx, "ksize", r, 1)?;
    let (s, d) = (spatial_list(ctx, "strides", r, 1)?, spatial_list(ctx, "dilations", r, 1)?);
    let ax = axes(ctx, Apart::LeavesOut, spatial, &k, &s, &d, &cann_pads(ctx, r - 2)?)?;
    let out = ax.iter().map(|a| a.output);
    let mut shape = vec![n];
    if last {
        shape.extend(out);
        shape.push(c);
    } else {
        shape.push(c);
        shape.extend(out);
    }
    count(&shape)?;
    Ok(Frame { ax: three(&ax)?, shape, last, n, c })
}
fn pool(ctx: &KernelCtx<'_>, x: &Arg<'_>) -> Result<Pool> {
    let Frame { ax, shape, last, n, c } = frame(ctx, x)?;
    let v = x.f64s()?;
    let v = if last { regroup(&v, n, ax.iter().map(|a| a.input).product(), c)? } else { v };
    Ok(Pool { x: v, planes: n * c, ax, shape, last, n, c })
}

impl Pool {
    /// Calls `f(plane, window positions in the plane, output position)` for each output; positions
    /// outside the input are left out.
    fn fold<T: Clone + Default + Send + Sync>(
        &self,
        f: impl Fn(&[f64], &mut dyn Iterator<Item = usize>, [usize; 3]) -> T + Sync,
    ) -> Result<Vec<T>> {
        let [d, h, w] = self.ax;
        let (ip, op) = (d.input * h.input * w.input, d.output * h.output * w.output);
        let mut y = filled(count(&[self.planes, op])?, T::default())?;
        let all = |a: &Axis| (0..a.output).map(|o| places(a, o).collect()).collect::<Vec<Vec<usize>>>();
        let (sd, sh, sw) = (all(&d), all(&h), all(&w));
        par::rows(&mut y, op.max(1), op * d.kernel * h.kernel * w.kernel, |p, out| {
            let plane = &self.x[p * ip..(p + 1) * ip];
            for (i, o) in out.iter_mut().enumerate() {
                let at = [i / (h.output * w.output), i / w.output % h.output, i % w.output];
                let (dd, hh, ww) = (&sd[at[0]], &sh[at[1]], &sw[at[2]]);
                let mut places = dd
                    .iter()
                    .flat_map(|z| hh.iter().map(move |y| z * h.input + y))
                    .flat_map(|zy| ww.iter().map(move |x| zy * w.input + x));
                *o = f(plane, &mut places, at);
            }
            Ok(())
        })?;
        Ok(y)
    }
    /// `end` of the sum of the terms of each window, in the order of its positions; positions
    /// outside the input are left out. Each element's term is computed once, and rows of windows
    /// are summed together.
    fn sums(&self, term: impl Fn(f64) -> f64 + Sync, end: impl Fn(f64) -> f64 + Sync) -> Result<Vec<f64>> {
        let [d, h, w] = self.ax;
        let (ip, op) = (d.input * h.input * w.input, d.output * h.output * w.output);
        let mut y = filled(count(&[self.planes, op])?, 0.0)?;
        par::rows(&mut y, op.max(1), op * d.kernel * h.kernel * w.kernel, |p, out| {
            let terms: Vec<f64> = self.x[p * ip..(p + 1) * ip].iter().map(|v| term(*v)).collect();
            for (row, to) in out.chunks_exact_mut(w.output.max(1)).enumerate() {
                for z in places(&d, row / h.output) {
                    for line in places(&h, row % h.output).map(|y| &terms[(z * h.input + y) * w.input..][..w.input]) {
                        (0..w.kernel).for_each(|k| add_tap(&w, k, line, to));
                    }
                }
                to.iter_mut().for_each(|v| *v = end(*v));
            }
            Ok(())
        })?;
        Ok(y)
    }
    fn back<T: Wide>(&self, y: Vec<T>) -> Result<Vec<T>> {
        let op = self.ax.iter().map(|a| a.output).product();
        if self.last { regroup(&y, self.n, self.c, op) } else { Ok(y) }
    }
}

/// Adds the terms of one tap of a row of windows along the axis, where they are inside the line.
fn add_tap(a: &Axis, tap: usize, line: &[f64], to: &mut [f64]) {
    let (range, first) = a.valid(tap);
    if range.is_empty() {
        return;
    }
    let line = &line[(first + (range.start * a.stride) as i64) as usize..];
    let to = &mut to[range];
    match a.stride {
        1 => lines::update(to, line, |sum, v| sum + v),
        step => to.iter_mut().zip(line.iter().step_by(step)).for_each(|(sum, v)| *sum += v),
    }
}

/// The first position of the greatest element of a window; NaN counts as greatest. `None` if the
/// window is empty.
fn greatest(plane: &[f64], places: &mut dyn Iterator<Item = usize>) -> Option<usize> {
    places.fold(None, |best: Option<usize>, p| match best {
        Some(b) if plane[b] >= plane[p] || plane[b].is_nan() => best,
        _ => Some(p),
    })
}
fn run_max(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let frame = frame(ctx, &x)?;
    if !frame.last {
        let lowest = lowest(&x)?;
        return with_kind!(x.kind()?, T => {
            let y = out::<T>(ctx, 0, &frame.shape)?;
            super::greatest::greatest(x.values::<T>()?, frame.ax, T::from_f64(lowest), y)
        });
    }
    // The channels are moved to the front, and back afterwards.
    let plane = x.len / (frame.n * frame.c).max(1);
    if x.kind()?.is_float() {
        let (shape, y) = greatest_last(&frame, &x.f64s()?, plane, f64::NEG_INFINITY)?;
        return put_f64(ctx, 0, &shape, &y);
    }
    let (shape, y) = greatest_last(&frame, &x.i64s()?, plane, lowest(&x)? as i64)?;
    put_i64(ctx, 0, &shape, &y)
}
/// Greatest elements of windows for channels-last data, with their shape.
fn greatest_last<W: Wide + Elem>(f: &Frame, v: &[W], plane: usize, lowest: W) -> Result<(Vec<usize>, Vec<W>)> {
    let first = regroup(v, f.n, plane, f.c)?;
    let op: usize = f.ax.iter().map(|a| a.output).product();
    let mut y = filled(count(&[f.n, f.c, op])?, W::default())?;
    super::greatest::greatest(&first, f.ax, lowest, &mut y)?;
    Ok((f.shape.clone(), regroup(&y, f.n, f.c, op)?))
}
/// The result of an empty window: minus infinity, or the smallest number of the type.
fn lowest(x: &Arg<'_>) -> Result<f64> {
    use ge_kernels::view::Kind as K;
    Ok(match x.kind()? {
        K::I8 => f64::from(i8::MIN),
        K::I16 => f64::from(i16::MIN),
        K::I32 => f64::from(i32::MIN),
        K::I64 => i64::MIN as f64,
        K::U8 | K::U16 | K::U32 | K::U64 | K::Bool => 0.0,
        _ => f64::NEG_INFINITY,
    })
}
fn run_max_argmax(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let p = pool(ctx, &x)?;
    let [d, h, w] = p.ax;
    let ip = d.input * h.input * w.input;
    let op = d.output * h.output * w.output;
    let at = p.fold(|plane, places, _| greatest(plane, places).map_or(usize::MAX, |b| b))?;
    let lowest = lowest(&x)?;
    let y: Vec<f64> = at
        .iter()
        .enumerate()
        .map(|(i, &a)| if a == usize::MAX { lowest } else { p.x[i / op.max(1) * ip + a] })
        .collect();
    put_f64(ctx, 0, &p.shape, &p.back(y)?)?;
    if ctx.output_count() > 1 {
        let column_major = int_attr(ctx, "storage_order", 0) == 1;
        let flat = at.iter().enumerate().map(|(i, &a)| {
            if a == usize::MAX {
                return -1;
            }
            let (z, y, x) = (a / (h.input * w.input), a / w.input % h.input, a % w.input);
            let a = if column_major { (x * h.input + y) * d.input + z } else { a };
            (i / op.max(1) * ip + a) as i64
        });
        let v: Vec<i64> = flat.collect();
        put_i64(ctx, 1, &p.shape, &p.back(v)?)?;
    }
    Ok(())
}
fn run_avg(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let p = pool(ctx, &x)?;
    let exclusive = flag(ctx, "exclusive", true);
    let ax = p.ax;
    let y = p.fold(|plane, places, at| {
        let (sum, n) = places.fold((0.0, 0usize), |(s, n), q| (s + plane[q], n + 1));
        if exclusive {
            return if n == 0 { 0.0 } else { sum / n as f64 };
        }
        // Padding counts, but positions that ceil_mode adds beyond it do not.
        let whole: usize = ax
            .iter()
            .zip(at)
            .map(|(a, o)| {
                let base = (o * a.stride) as i64 - a.begin;
                (0..a.kernel).filter(|k| base + (k * a.dilation) as i64 <= a.input as i64 - 1 + a.end).count()
            })
            .product();
        sum / whole.max(1) as f64
    })?;
    put_f64(ctx, 0, &p.shape, &p.back(y)?)
}
fn run_lp(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let p = pool(ctx, &x)?;
    let e = float_attr(ctx, "p", 2.0);
    // A square has no rounding error, and a square root the least.
    let y = match e {
        1.0 => p.sums(f64::abs, |v| v)?,
        2.0 => p.sums(|v| v * v, f64::sqrt)?,
        _ => p.sums(|v| v.abs().powf(e), |v| v.powf(1.0 / e))?,
    };
    put_f64(ctx, 0, &p.shape, &p.back(y)?)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("MaxPoolV3", run_max, &[NUM]).gives(&[NUM]),
    Op::new("MaxPoolWithArgmaxV2", run_max_argmax, &[FLOAT_AND_SMALL]).gives(&[NUM, crate::store::types::INDEX]),
    Op::new("AvgPoolV2", run_avg, &[FLOAT]).gives(&[FLOAT]),
    Op::new("LpPool", run_lp, &[FLOAT]).gives(&[FLOAT]),
];
/// Types whose values are all represented exactly by doubles.
const FLOAT_AND_SMALL: &[ge_plugin_api::types::DType] = {
    use ge_plugin_api::types::DType as D;
    &[D::F32, D::F16, D::BF16, D::F64, D::I8, D::I16, D::I32, D::U8, D::U16, D::U32]
};
