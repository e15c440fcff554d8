//! `Resize(x, roi?, scales?, sizes?)`, ONNX 19: nearest, linear, cubic, with every coordinate mode
//! and antialias. Axes are resized one after the other, because the filters are separable. Nearest
//! copies elements over all axes at once.
use crate::args::{Arg, axis, bad, count, filled, float_attr, int_attr, ints_attr, out, put_f64, size, text};
use crate::op::{Op, Text};
use crate::store::types::{FLOAT, INDEX, NUMB_TEXT};
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// What one output position reads: input positions with weights. `None` if it is outside, where it
/// gets the extrapolation value.
type Taps = Option<Vec<(usize, f64)>>;

struct Mode<'a> {
    kind: &'a str,
    nearest: &'a str,
    a: f64,
    exclude: bool,
    antialias: bool,
}

fn cubic(t: f64, a: f64) -> f64 {
    let t = t.abs();
    if t <= 1.0 {
        ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    } else if t < 2.0 {
        ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a
    } else {
        0.0
    }
}
impl Mode<'_> {
    /// The position nearest to an input coordinate on an axis of size `n`.
    fn place(&self, x: f64, n: usize) -> usize {
        // A coordinate that differs from a half only by rounding counts as a half.
        let half = (x - x.floor() - 0.5).abs() <= 1e-6;
        let p = match (self.nearest, half) {
            ("floor", _) => x.floor(),
            ("ceil", _) | ("round_prefer_ceil", true) => x.ceil(),
            (_, true) => x.floor(),
            (_, false) => x.round(),
        };
        (p as i64).clamp(0, n as i64 - 1) as usize
    }
    /// The taps of an input coordinate on an axis of size `n`.
    fn taps(&self, x: f64, n: usize, scale: f64) -> Vec<(usize, f64)> {
        let last = n as i64 - 1;
        let clamp = |p: i64| p.clamp(0, last) as usize;
        if self.kind == "nearest" {
            return vec![(self.place(x, n), 1.0)];
        }
        // Downscaling with antialias widens the filter.
        let stretch = if self.antialias { scale.min(1.0) } else { 1.0 };
        let radius = if self.kind == "linear" { 1.0 } else { 2.0 } / stretch;
        let weigh = |d: f64| {
            let d = d * stretch;
            if self.kind == "linear" { (1.0 - d.abs()).max(0.0) } else { cubic(d, self.a) }
        };
        let (from, to) = ((x - radius).floor() as i64, (x + radius).ceil() as i64);
        let mut out: Vec<(usize, f64)> = Vec::new();
        let mut sum = 0.0;
        for p in from..=to {
            let w = weigh(p as f64 - x);
            if w == 0.0 || (self.exclude && !(0..=last).contains(&p)) {
                continue;
            }
            sum += w;
            out.push((clamp(p), w));
        }
        if sum != 0.0 && (self.antialias || self.exclude) {
            out.iter_mut().for_each(|t| t.1 /= sum);
        }
        out
    }
}
/// Input coordinate of an output position; `None` if it is outside a crop. It is computed in single
/// precision like in ONNX's runtimes, because the choice of the nearest position depends on it.
fn coordinate(mode: &str, o: usize, (n, m): (usize, usize), scale: f64, roi: (f64, f64)) -> Option<f64> {
    // The resized length before it was cut to an integer, as in ONNX's reference.
    let reached = scale * n as f64;
    let length = if (reached - m as f64).abs() <= 1e-6 * m as f64 { m as f32 } else { reached as f32 };
    let (x, n, m, scale) = (o as f32, n as f32, m as f32, scale as f32);
    let at = match mode {
        "asymmetric" => x / scale,
        "pytorch_half_pixel" => {
            if m > 1.0 {
                (x + 0.5) / scale - 0.5
            } else {
                0.0
            }
        }
        "align_corners" => {
            if m > 1.0 {
                x * (n - 1.0) / (length - 1.0)
            } else {
                0.0
            }
        }
        "tf_half_pixel_for_nn" => (x + 0.5) / scale,
        "half_pixel_symmetric" => {
            let start = n / 2.0 * (1.0 - m / (scale * n));
            (f64::from(start) + (f64::from(x) + 0.5) / f64::from(scale) - 0.5) as f32
        }
        "tf_crop_and_resize" => {
            let (first, last) = (roi.0 as f32, roi.1 as f32);
            let v = if m > 1.0 {
                first * (n - 1.0) + x * (last - first) * (n - 1.0) / (m - 1.0)
            } else {
                0.5 * (first + last) * (n - 1.0)
            };
            if !(0.0..=n - 1.0).contains(&v) {
                return None;
            }
            v
        }
        _ => (x + 0.5) / scale - 0.5,
    };
    Some(f64::from(at))
}
/// Copies each output element from the input positions that are listed for each axis.
fn pick<T: Elem>(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, shape: &[usize], places: &[Vec<usize>]) -> Result<()> {
    let (src, to) = (x.values::<T>()?, out::<T>(ctx, 0, shape)?);
    let Some((last, lead)) = places.split_last() else {
        to.copy_from_slice(src);
        return Ok(());
    };
    let width = x.shape.last().copied().unwrap_or(1);
    crate::par::rows(to, last.len(), last.len(), |row, to| {
        // Rows are numbered with the last leading axis fastest.
        let (mut rest, mut from, mut step) = (row, 0, 1);
        for (axis, at) in lead.iter().enumerate().rev() {
            from += at[rest % at.len()] * step;
            step *= x.shape[axis];
            rest /= at.len();
        }
        let src = &src[from * width..(from + 1) * width];
        to.iter_mut().zip(last).for_each(|(o, p)| *o = src[*p]);
        Ok(())
    })
}
/// The smallest and the greatest number of an integer type or bool; `None` for floating-point
/// types.
fn range(kind: Kind) -> Option<(f64, f64)> {
    let bits = 8 * kind.size() as i32;
    match kind {
        Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 => Some((-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0)),
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 => Some((0.0, 2f64.powi(bits) - 1.0)),
        Kind::Bool => Some((0.0, 1.0)),
        _ => None,
    }
}
fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let r = x.rank();
    let axes: Vec<usize> = match ints_attr(ctx, "axes").filter(|v| !v.is_empty()) {
        Some(v) => v.iter().map(|&a| axis("attribute `axes`", a, r)).collect::<Result<_>>()?,
        None => (0..r).collect(),
    };
    let listed = |i: usize| -> Result<Option<Vec<f64>>> {
        match Arg::opt(ctx, i)? {
            Some(a) if a.len == 0 => Ok(None),
            Some(a) if a.len > 128 => {
                Err(bad(format!("input {i}"), format!("{} numbers", a.len), "one or two numbers an axis"))
            }
            Some(a) => a.f64s().map(Some),
            None => Ok(None),
        }
    };
    let (roi, scales, sizes) = (listed(1)?, listed(2)?, listed(3)?);
    let mut shape = x.shape.clone();
    let mut factor = vec![1.0; r];
    match (&sizes, &scales) {
        (Some(s), _) if s.len() == axes.len() => {
            let ratio = |i: usize| s[i] / x.shape[axes[i]] as f64;
            let all = (0..axes.len()).map(ratio);
            let one = match text(ctx, "keep_aspect_ratio_policy", "stretch") {
                "not_larger" => all.reduce(f64::min),
                "not_smaller" => all.reduce(f64::max),
                _ => None,
            };
            for (i, &a) in axes.iter().enumerate() {
                let n = one.map_or(s[i], |f| (f * x.shape[a] as f64).round());
                shape[a] = size("input 3 `sizes`", n as i64)?;
                factor[a] = one.unwrap_or(shape[a] as f64 / x.shape[a] as f64);
            }
        }
        (None, Some(s)) if s.len() == axes.len() => {
            for (&a, &f) in axes.iter().zip(s) {
                // Sizes are computed in single precision too: 3 times 5/3 is 5.
                let n = f64::from((x.shape[a] as f32 * f as f32).floor());
                if !(f > 0.0 && n < 1e15) {
                    return Err(bad("input 2 `scales`", f, "a positive scale"));
                }
                shape[a] = n as usize;
                factor[a] = f;
            }
        }
        _ => return Err(bad("scales or sizes", "another number of them", format!("{} numbers", axes.len()))),
    }
    let n = count(&shape)?;
    if n > 0 && x.len == 0 {
        return Err(bad("input 0", format!("shape {:?}", x.shape), "elements to read"));
    }
    let mode = Mode {
        kind: text(ctx, "mode", "nearest"),
        nearest: text(ctx, "nearest_mode", "round_prefer_floor"),
        a: float_attr(ctx, "cubic_coeff_a", -0.75),
        exclude: int_attr(ctx, "exclude_outside", 0) != 0,
        antialias: int_attr(ctx, "antialias", 0) != 0,
    };
    let coord = text(ctx, "coordinate_transformation_mode", "half_pixel");
    let beyond = float_attr(ctx, "extrapolation_value", 0.0);
    let crop = coord == "tf_crop_and_resize";
    if crop && roi.as_ref().is_none_or(|v| v.len() != 2 * axes.len()) {
        return Err(bad("input 1 `roi`", "another number of them", format!("{} numbers", 2 * axes.len())));
    }
    if mode.kind == "nearest" && !crop {
        let places = (0..r).map(|a| match axes.contains(&a) {
            false => (0..shape[a]).collect(),
            true => {
                let sizes = (x.shape[a], shape[a]);
                let at = |o| coordinate(coord, o, sizes, factor[a], (0.0, 1.0)).unwrap_or(0.0);
                (0..shape[a]).map(|o| mode.place(at(o), sizes.0)).collect()
            }
        });
        let places: Vec<Vec<usize>> = places.collect();
        return with_kind!(x.kind()?, T => pick::<T>(ctx, &x, &shape, &places));
    }
    let (mut v, mut now) = (x.f64s()?, x.shape.clone());
    let mut outside: Vec<(usize, Vec<bool>)> = Vec::new();
    for (i, &a) in axes.iter().enumerate() {
        let (from, to) = (x.shape[a], shape[a]);
        let window = roi.as_ref().filter(|_| crop).map_or((0.0, 1.0), |v| (v[i], v[i + axes.len()]));
        // Like onnxruntime, an axis that keeps its size is not cropped.
        if from == to && factor[a] == 1.0 {
            continue;
        }
        let taps: Vec<Taps> = (0..to)
            .map(|o| coordinate(coord, o, (from, to), factor[a], window).map(|c| mode.taps(c, from, factor[a])))
            .collect();
        outside.push((a, taps.iter().map(Option::is_none).collect()));
        now[a] = to;
        let inner: usize = now[a + 1..].iter().product();
        let mut y = filled(count(&now)?, 0f64)?;
        crate::par::rows(&mut y, inner.max(1), inner * 4, |row, o| {
            if let Some(t) = &taps[row % to] {
                for &(p, w) in t {
                    let src = &v[(row / to * from + p) * inner..][..inner];
                    o.iter_mut().zip(src).for_each(|(o, s)| *o += w * s);
                }
            }
            Ok(())
        })?;
        v = y;
    }
    for (a, out) in outside {
        let inner: usize = shape[a + 1..].iter().product();
        v.iter_mut().enumerate().filter(|(i, _)| out[i / inner % shape[a]]).for_each(|(_, v)| *v = beyond);
    }
    // Integers are rounded, as the runtimes' filters do; nearest is exact anyway. A cubic filter
    // may leave the range of the type.
    if let Some((least, most)) = range(x.kind()?) {
        v.iter_mut().for_each(|v| *v = v.round_ties_even().clamp(least, most));
    }
    put_f64(ctx, 0, &shape, &v)
}

/// Operator rows of this file.
pub const OPS: &[Op] =
    &[Op::new("Resize", run, &[NUMB_TEXT, FLOAT, FLOAT, INDEX]).gives(&[NUMB_TEXT]).text(Text::Places)];
