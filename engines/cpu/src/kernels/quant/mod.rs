//! `QuantizeLinear`, `DequantizeLinear` (per tensor, per axis, blocked), `DynamicQuantizeLinear`,
//! with ONNX's semantics.
use crate::args::{Arg, axis, bad, flag, int_attr, kind_of, put_f64, room, size, type_attr, view_error};
use crate::kernels::math::cast::{double, doubles, nums, put_nums};
use crate::kernels::math::zip::zip_layouts;
use crate::op::Op;
use crate::store::types::{FLOAT, REAL};
use ge_kernels::view::{Elem, Kind, Layout, Num, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;
use half::{bf16, f16};

/// A function that gives, for each element of x, the index of its scale.
fn scale_index(ctx: &KernelCtx<'_>, x: &Arg<'_>, s: &Arg<'_>) -> Result<Box<dyn Fn(usize) -> usize>> {
    if s.len == 1 && s.rank() <= 1 {
        return Ok(Box::new(|_| 0));
    }
    let a = axis("attribute `axis`", int_attr(ctx, "axis", 1), x.rank())?;
    let inner: usize = x.shape[a + 1..].iter().product();
    let n = x.shape[a];
    let block = size("attribute `block_size`", int_attr(ctx, "block_size", 0))?;
    if block == 0 {
        if s.len != n || s.rank() > 1 {
            return Err(bad(
                "input 1: scales",
                format!("shape {:?}", s.shape),
                format!("[{n}], as axis {a} of {:?}", x.shape),
            ));
        }
        return Ok(Box::new(move |i| i / inner % n));
    }
    let m = n.div_ceil(block);
    let mut want = x.shape.clone();
    want[a] = m;
    s.need_shape(&want)?;
    Ok(Box::new(move |i| (i / (inner * n) * m + i / inner % n / block) * inner + i % inner))
}
/// The same assignment of scales to elements, as a layout; `None` for blocks.
fn scale_layout(ctx: &KernelCtx<'_>, x: &Arg<'_>, s: &Arg<'_>) -> Result<Option<Layout>> {
    let shape = if s.len == 1 && s.rank() <= 1 {
        vec![1; x.rank()]
    } else if int_attr(ctx, "block_size", 0) == 0 {
        let a = axis("attribute `axis`", int_attr(ctx, "axis", 1), x.rank())?;
        (0..x.rank()).map(|d| if d == a { s.len } else { 1 }).collect()
    } else {
        return Ok(None);
    };
    Layout::contiguous(&shape).and_then(|l| l.broadcast_to(&x.shape)).map(Some).map_err(view_error)
}
/// Pairs of scale and zero point.
fn steps(scales: &[f64], zero: Option<&Vec<f64>>) -> Vec<(f64, f64)> {
    scales.iter().enumerate().map(|(k, s)| (*s, zero.map_or(0.0, |z| z[k]))).collect()
}
/// The smallest and the greatest number of an integer type; `None` for other types.
pub fn limits(d: DType) -> Option<(f64, f64)> {
    Some(match d {
        DType::I8 => (-128.0, 127.0),
        DType::U8 => (0.0, 255.0),
        DType::I16 => (-32768.0, 32767.0),
        DType::U16 => (0.0, 65535.0),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::U32 => (0.0, f64::from(u32::MAX)),
        DType::I4 => (-8.0, 7.0),
        DType::U4 => (0.0, 15.0),
        DType::I2 => (-2.0, 1.0),
        DType::U2 => (0.0, 3.0),
        _ => return None,
    })
}
fn zero_points(ctx: &KernelCtx<'_>, s: &Arg<'_>) -> Result<Option<Vec<f64>>> {
    let Some(z) = Arg::opt(ctx, 2)? else { return Ok(None) };
    if z.len != s.len {
        return Err(bad(
            "input 2: zero points",
            format!("shape {:?}", z.shape),
            format!("{:?} as the scales", s.shape),
        ));
    }
    Ok(Some(doubles(&z)?))
}
/// A quotient, computed in the type `by`.
fn quotient(by: DType, x: f64, scale: f64) -> f64 {
    match by {
        DType::F16 => (f16::from_f64(x) / f16::from_f64(scale)).to_f64(),
        DType::BF16 => (bf16::from_f64(x) / bf16::from_f64(scale)).to_f64(),
        DType::F32 => f64::from(x as f32 / scale as f32),
        _ => x / scale,
    }
}
fn run_quantize(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, s) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let at = scale_index(ctx, &x, &s)?;
    let zero = zero_points(ctx, &s)?;
    let scales = doubles(&s)?;
    let d = ctx.output_dtype(0).unwrap_or_default();
    // Without `precision`, the scale's type decides, except that a quotient by an f16 scale is not
    // rounded to f16, as in onnxruntime.
    let by = type_attr(ctx, "precision").unwrap_or(match s.dtype {
        DType::F32 | DType::BF16 if x.dtype != DType::F64 => s.dtype,
        _ => DType::F64,
    });
    if let (Some(to), Some((lo, hi)), Ok(from), Some(ls)) =
        (kind_of(d), limits(d), x.kind(), scale_layout(ctx, &x, &s)?)
        && by == DType::F32
        && matches!(from, Kind::F32 | Kind::F16 | Kind::Bf16)
        && matches!(to, Kind::I8 | Kind::U8 | Kind::I16 | Kind::U16)
    {
        let (lx, steps) = (x.layout()?, steps(&scales, zero.as_ref()));
        return with_kind!(from, [F32, F16, Bf16], S => with_kind!(to, [I8, U8, I16, U16], D => {
            let one = |v: S, (scale, z): (f64, f64)| {
                let r = f64::from(v.to_f32() / scale as f32);
                D::from_f64(if r.is_nan() { z } else { (r.round_ties_even() + z).clamp(lo, hi) })
            };
            zip_layouts::<S, (f64, f64), D>(ctx, (&lx, x.values()?), (&ls, &steps), &|o, v, s| lines::zip(o, v, s, one))
        }, else x.refused()), else x.refused());
    }
    let v = doubles(&x)?;
    let mut q = room(v.len())?;
    for (i, v) in v.into_iter().enumerate() {
        let k = at(i);
        let r = quotient(by, v, scales[k]);
        let z = zero.as_ref().map_or(0.0, |z| z[k]);
        q.push(match limits(d) {
            Some((lo, hi)) => Num::I(if r.is_nan() { z } else { (r.round_ties_even() + z).clamp(lo, hi) } as i64),
            None => Num::F(r + z),
        });
    }
    let saturate = flag(ctx, "saturate", true);
    put_nums(ctx, 0, &x.shape, &q, saturate, "up")
}
fn run_dequantize(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, s) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let at = scale_index(ctx, &x, &s)?;
    let zero = zero_points(ctx, &s)?;
    let scales = doubles(&s)?;
    let to = ctx.output_dtype(0).and_then(kind_of).filter(|k| k.is_float());
    if let (Ok(Kind::I8 | Kind::U8 | Kind::I16 | Kind::U16 | Kind::I32), Some(to), Some(ls)) =
        (x.kind(), to, scale_layout(ctx, &x, &s)?)
    {
        let (lx, steps) = (x.layout()?, steps(&scales, zero.as_ref()));
        return with_kind!(x.kind()?, [I8, U8, I16, U16, I32], S => with_kind!(to, [F32, F64, F16, Bf16], D => {
            let one = |v: S, (scale, z): (f64, f64)| D::from_f64((v.to_f64() - z) * scale);
            zip_layouts::<S, (f64, f64), D>(ctx, (&lx, x.values()?), (&ls, &steps), &|o, v, s| lines::zip(o, v, s, one))
        }, else x.refused()), else x.refused());
    }
    let mut y = room(x.len)?;
    for (i, n) in nums(&x)?.into_iter().enumerate() {
        let k = at(i);
        y.push((double(n) - zero.as_ref().map_or(0.0, |z| z[k])) * scales[k]);
    }
    put_f64(ctx, 0, &x.shape, &y)
}
/// Numbers quantised to u8 by their own extremes, with scale and zero point. The scale is one if
/// all numbers are zero, as in onnxruntime. NaN counts as zero.
pub fn by_extremes(v: &[f32]) -> (Vec<f64>, f32, f32) {
    let (lo, hi) = v.iter().fold((0f32, 0f32), |(l, h), &v| (l.min(v), h.max(v)));
    // All in single precision: the scale is an output, and the quantised numbers must agree with
    // it.
    let scale = match (hi - lo) / 255.0 {
        0.0 => 1.0,
        scale => scale,
    };
    let or = |v: f32, other: f32| if v.is_nan() { other } else { v };
    let zero = or((-lo / scale).clamp(0.0, 255.0).round_ties_even(), 0.0);
    let one = |v: &f32| f64::from(or(((v / scale).round_ties_even() + zero).clamp(0.0, 255.0), zero));
    (v.iter().map(one).collect(), scale, zero)
}
fn run_dynamic(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let (q, scale, zero) = by_extremes(x.values()?);
    put_f64(ctx, 0, &x.shape, &q)?;
    put_f64(ctx, 1, &[], &[f64::from(scale)])?;
    put_f64(ctx, 2, &[], &[f64::from(zero)])
}
/// Types that scales can have.
const SCALE: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::F8E8M0];

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("QuantizeLinear", run_quantize, &[REAL, SCALE, REAL]).gives(&[REAL]),
    Op::new("DequantizeLinear", run_dequantize, &[REAL, SCALE, REAL]).gives(&[FLOAT]),
    Op::new("DynamicQuantizeLinear", run_dynamic, &[&[DType::F32]]).gives(&[&[DType::U8], &[DType::F32], &[DType::U8]]),
];
