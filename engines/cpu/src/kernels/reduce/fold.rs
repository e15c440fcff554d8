//! `ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceLogSumExp ReduceAll ReduceAny` and
//! their `...D` forms (`plugins/ops/src/reduce.rs`: axes, empty lists, empty reductions). Floats in
//! doubles; whole numbers wrap, their means divide toward zero.
use crate::args::{Arg, axes, count, filled, flag, ints_attr, put_f64, put_i64, view_error};
use crate::kernels::math::arith::is_unsigned;
use crate::kernels::math::special::{max, min};
use crate::op::{Op, Run};
use crate::store::types::{BOOL, INDEX, NUM, NUMB};
use ge_kernels::view::{Kind, Layout, Nest};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// The axes that a reduction removes.
pub fn reduced_axes(ctx: &KernelCtx<'_>, rank: usize) -> Result<Vec<usize>> {
    let list = match ints_attr(ctx, "axes") {
        Some(v) => Some(v.to_vec()),
        None => Arg::opt(ctx, 1)?.map(|a| a.i64s()).transpose()?,
    };
    match list {
        Some(v) if v.is_empty() && flag(ctx, "noop_with_empty_axes", true) => Ok(Vec::new()),
        Some(v) if !v.is_empty() => axes("axes", &v, rank),
        _ => Ok((0..rank).collect()),
    }
}
/// The shape without the axes, or with ones in their places.
pub fn kept_shape(shape: &[usize], over: &[usize], keep: bool) -> Vec<usize> {
    (0..shape.len())
        .filter(|a| keep || !over.contains(a))
        .map(|a| if over.contains(&a) { 1 } else { shape[a] })
        .collect()
}
/// Calls `f(output place, element)` for all elements in order.
fn each<T: Copy>(v: &[T], shape: &[usize], over: &[usize], mut f: impl FnMut(usize, T)) -> Result<()> {
    let ones = kept_shape(shape, over, true);
    let l = Layout::contiguous(&ones).and_then(|l| l.broadcast_to(shape)).map_err(view_error)?;
    let mut at = 0;
    Nest::new(shape, [&l]).each_run(|[p], n, [s]| {
        for i in 0..n as isize {
            f((p + i * s) as usize, v[at]);
            at += 1;
        }
    });
    Ok(())
}
fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let over = reduced_axes(ctx, x.rank())?;
    let shape = kept_shape(&x.shape, &over, flag(ctx, "keep_dims", false));
    let n = count(&shape)?;
    let each_n: usize = over.iter().map(|&a| x.shape[a]).product();
    let op = ctx.op.strip_suffix('D').unwrap_or(ctx.op);
    if x.kind()?.is_float() || op == "ReduceLogSumExp" {
        let v = x.f64s()?;
        let start = match op {
            "ReduceMax" => f64::NEG_INFINITY,
            "ReduceMin" => f64::INFINITY,
            "ReduceProd" => 1.0,
            _ => 0.0,
        };
        let mut y = filled(n, start)?;
        match op {
            "ReduceSum" | "ReduceMean" => each(&v, &x.shape, &over, |o, e| y[o] += e)?,
            "ReduceMax" => each(&v, &x.shape, &over, |o, e| y[o] = max(y[o], e))?,
            "ReduceMin" => each(&v, &x.shape, &over, |o, e| y[o] = min(y[o], e))?,
            "ReduceProd" => each(&v, &x.shape, &over, |o, e| y[o] *= e)?,
            _ => {
                let mut top = filled(n, f64::NEG_INFINITY)?;
                each(&v, &x.shape, &over, |o, e| top[o] = max(top[o], e))?;
                let base: Vec<f64> = top.iter().map(|t| if t.is_infinite() { 0.0 } else { *t }).collect();
                each(&v, &x.shape, &over, |o, e| y[o] += (e - base[o]).exp())?;
                y.iter_mut().zip(&base).for_each(|(y, b)| *y = y.ln() + b);
            }
        }
        if op == "ReduceMean" {
            y.iter_mut().for_each(|y| *y /= each_n as f64);
        }
        return put_f64(ctx, 0, &shape, &y);
    }
    let v = x.i64s()?;
    let unsigned = is_unsigned(x.kind()?);
    let bits = 8 * x.kind()?.size() as u32;
    let (least, greatest) = match (x.kind()?, unsigned) {
        (Kind::Bool, _) => (0, 1),
        (_, true) => (0, u64::MAX.checked_shr(64 - bits).unwrap_or(u64::MAX) as i64),
        _ => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
    };
    let less = |a: i64, b: i64| if unsigned { (a as u64) < b as u64 } else { a < b };
    let start = match op {
        "ReduceMax" => least,
        "ReduceMin" => greatest,
        "ReduceProd" | "ReduceAll" => 1,
        _ => 0,
    };
    let mut y = filled(n, start)?;
    match op {
        "ReduceMax" => each(&v, &x.shape, &over, |o, e| y[o] = if less(y[o], e) { e } else { y[o] })?,
        "ReduceMin" => each(&v, &x.shape, &over, |o, e| y[o] = if less(e, y[o]) { e } else { y[o] })?,
        "ReduceProd" => each(&v, &x.shape, &over, |o, e| y[o] = y[o].wrapping_mul(e))?,
        "ReduceAll" => each(&v, &x.shape, &over, |o, e| y[o] &= e)?,
        "ReduceAny" => each(&v, &x.shape, &over, |o, e| y[o] |= e)?,
        _ => each(&v, &x.shape, &over, |o, e| y[o] = y[o].wrapping_add(e))?,
    }
    if op == "ReduceMean" {
        let d = each_n as i64;
        y.iter_mut().for_each(|y| {
            *y = if d == 0 {
                0
            } else if unsigned {
                (*y as u64 / d as u64) as i64
            } else {
                *y / d
            }
        });
    }
    put_i64(ctx, 0, &shape, &y)
}

const fn n(name: &'static str) -> Op {
    Op::new(name, run as Run, &[NUM, INDEX]).gives(&[NUM])
}
const fn m(name: &'static str) -> Op {
    Op::new(name, run as Run, &[NUMB, INDEX]).gives(&[NUMB])
}
const fn b(name: &'static str) -> Op {
    Op::new(name, run as Run, &[BOOL, INDEX]).gives(&[BOOL])
}
/// The rows of this file.
pub const OPS: &[Op] = &[
    n("ReduceSum"),
    n("ReduceMean"),
    m("ReduceMax"),
    m("ReduceMin"),
    n("ReduceProd"),
    n("ReduceLogSumExp"),
    b("ReduceAll"),
    b("ReduceAny"),
    n("ReduceSumD"),
    n("ReduceMeanD"),
    m("ReduceMaxD"),
    m("ReduceMinD"),
    n("ReduceProdD"),
    n("ReduceLogSumExpD"),
    b("ReduceAllD"),
    b("ReduceAnyD"),
];
