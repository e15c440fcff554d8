//! `Resize(x, roi?, scales?, sizes?)` by ONNX's rules: nearest for elements of any size, linear and
//! cubic for f32, f16, bf16, u8 and i8.
use super::layout::{by_width, width};
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig, Tensor};
use ge_kernels::resize::{Axis, Coordinates, Filter, Method, Resizing, Rounding};
use ge_kernels::view::layout::resolve_axis;
use ge_kernels::view::{Elem, Kind};
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::ops::Range;

/// Types for linear and cubic interpolation.
const KINDS: &[Kind] = &[Kind::F32, Kind::F16, Kind::Bf16, Kind::U8, Kind::I8];

struct Resize {
    kind: Kind,
    plan: Resizing,
    nearest: bool,
    beyond: f64,
}

/// The kernel of `Resize`.
///
/// # Errors
/// Fails with a reason if types, shapes, modes or values are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    width(sig)?;
    sig.plain(0)?;
    let (x, y) = (sig.input(0)?, sig.output(0)?);
    let method = method(sig)?;
    let nearest = matches!(method.filter, Filter::Nearest(_));
    let kind = sig.kind_in(0, if nearest { &Kind::ALL } else { KINDS })?;
    if y.rank() != x.rank() {
        return Err(format!("output 0 is {:?}, input 0 {:?}", y.shape, x.shape));
    }
    let mut axes = vec![None; x.rank()];
    for (axis, how) in axes_of(sig, x, y, method.coordinates)? {
        axes[axis] = Some(how);
    }
    for (d, axis) in axes.iter().enumerate() {
        if axis.is_none() && x.shape[d] != y.shape[d] {
            return Err(format!("output 0 is {:?}, input 0 {:?}, and axis {d} is not resized", y.shape, x.shape));
        }
        sig.holds_lines(x.shape[d].max(y.shape[d]))?;
    }
    if y.count() > 0 && x.count() == 0 {
        return Err(format!("input 0 is {:?}, which has no elements to read", x.shape));
    }
    let plan = Resizing::new(method, &x.shape, &axes);
    if y.count() > 0 {
        sig.holds_lines(x.count().div_ceil(plan.rows().max(1)).max(plan.width()))?;
    }
    Ok(Box::new(Resize { kind, plan, nearest, beyond: f64::from(method.beyond) }))
}

fn method(sig: &Sig) -> Answer<Method> {
    let unknown = |key: &str, value: &str| Err(format!("attribute `{key}` is {value}"));
    let rounding = match sig.text("nearest_mode", "round_prefer_floor") {
        "round_prefer_floor" => Rounding::PreferFloor,
        "round_prefer_ceil" => Rounding::PreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => return unknown("nearest_mode", other),
    };
    let filter = match sig.text("mode", "nearest") {
        "nearest" => Filter::Nearest(rounding),
        "linear" => Filter::Linear,
        "cubic" => Filter::Cubic(sig.attrs.float("cubic_coeff_a").unwrap_or(-0.75)),
        other => return unknown("mode", other),
    };
    let coordinates = match sig.text("coordinate_transformation_mode", "half_pixel") {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_half_pixel_for_nn" => Coordinates::TfHalfPixelForNn,
        "tf_crop_and_resize" => Coordinates::TfCropAndResize,
        other => return unknown("coordinate_transformation_mode", other),
    };
    Ok(Method {
        filter,
        coordinates,
        antialias: sig.int("antialias", 0) != 0,
        exclude_outside: sig.int("exclude_outside", 0) != 0,
        beyond: sig.float("extrapolation_value", 0.0),
    })
}

/// The numbers of an optional input, which must be `count` of them; `None` if it is absent or
/// empty.
fn listed<'t>(
    sig: &'t Sig,
    i: usize,
    count: usize,
    of: impl FnOnce(&'t Tensor) -> Option<Vec<f64>>,
) -> Answer<Option<Vec<f64>>> {
    let Some(t) = sig.opt_input(i).filter(|t| t.count() > 0) else { return Ok(None) };
    match of(t) {
        Some(v) if v.len() == count => Ok(Some(v)),
        Some(v) => Err(format!("input {i} has {} numbers, it takes {count}", v.len())),
        None => Err(format!("input {i} is not a constant of a few values")),
    }
}

/// The resized axes.
fn axes_of(sig: &Sig, x: &Tensor, y: &Tensor, coordinates: Coordinates) -> Answer<Vec<(usize, Axis)>> {
    let axes: Vec<usize> = match sig.attrs.ints("axes").filter(|v| !v.is_empty()) {
        Some(v) => v.iter().map(|&a| resolve_axis(a, x.rank()).map_err(|e| e.to_string())).collect::<Answer<_>>()?,
        None => (0..x.rank()).collect(),
    };
    let count = axes.len();
    let policy = sig.text("keep_aspect_ratio_policy", "stretch");
    let by_size = sig.opt_input(3).is_some_and(|t| t.count() > 0);
    let ratio = |to: f64, d: usize| to / x.shape[d] as f64;
    // With `stretch`, the output's sizes apply, whether or not the `sizes` input is constant.
    let scales: Vec<f64> = if by_size && policy == "stretch" {
        axes.iter().map(|&d| ratio(y.shape[d] as f64, d)).collect()
    } else if by_size {
        let whole = |t: &Tensor| Some(t.values.as_ref()?.iter().map(|v| *v as f64).collect());
        let sizes = listed(sig, 3, count, whole)?.unwrap_or_default();
        let ratios = axes.iter().zip(&sizes).map(|(&d, s)| ratio(*s, d));
        let one = ratios.reduce(if policy == "not_larger" { f64::min } else { f64::max });
        vec![one.unwrap_or(1.0); count]
    } else {
        listed(sig, 2, count, |t| t.reals.clone())?.ok_or("neither scales nor sizes are given")?
    };
    let window = match coordinates {
        Coordinates::TfCropAndResize => {
            listed(sig, 1, 2 * count, |t| t.reals.clone())?.ok_or("input 1 `roi` is missing")?
        }
        _ => [vec![0.0; count], vec![1.0; count]].concat(),
    };
    let mut found = Vec::with_capacity(count);
    for (i, (&d, scale)) in axes.iter().zip(scales).enumerate() {
        let (from, to) = (x.shape[d], y.shape[d]);
        let reached = scale * from as f64;
        // The output size must follow from the scale, except for rounding.
        if from > 0 && !(scale > 0.0 && (reached - to as f64).abs() <= 1.0) && to > 0 {
            return Err(format!("axis {d} has {from}, the output {to}, its scale is {scale}"));
        }
        found.push((d, Axis { from, to, scale, window: [window[i], window[i + count]] }));
    }
    Ok(found)
}

impl Resize {
    fn copied<T: Elem>(&self, units: Range<usize>, beyond: T, io: &Io<'_, '_>) -> Result<()> {
        let x = io.input::<T>(0)?;
        io.output::<T, ()>(0, |out| {
            self.plan.copy(units, x, beyond, out);
            Ok(())
        })
    }
}

impl Kernel for Resize {
    /// One unit per row of the output.
    fn units(&self) -> usize {
        if self.plan.width() == 0 { 0 } else { self.plan.rows() }
    }

    fn operations(&self) -> u64 {
        if self.nearest { 0 } else { self.work().saturating_mul(2) }
    }

    fn work(&self) -> u64 {
        let each = if self.nearest { 1 } else { self.plan.taps() };
        (self.plan.rows() as u64).saturating_mul(self.plan.width() as u64).saturating_mul(each as u64)
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        match self.nearest {
            true if self.beyond == 0.0 => {
                by_width!(self.kind.size(), T => self.copied::<T>(units, T::default(), io))
            }
            true => with_kind!(self.kind, T => self.copied::<T>(units, T::from_f64(self.beyond), io)),
            false => with_kind!(self.kind, [F32, F16, Bf16, U8, I8], T => {
                let x = io.input::<T>(0)?;
                io.output::<T, ()>(0, |out| {
                    self.plan.filter(units, x, out);
                    Ok(())
                })
            }, else Err(Error::internal("type of a resizing"))),
        }
    }
}
