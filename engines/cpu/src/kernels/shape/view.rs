//! Operators whose output has the input's elements in the same order, and operators that read only
//! shapes. The former are copies here; where no copy is needed, another engine takes them.
use crate::args::{Arg, axes, axis, bad, int_attr, ints_or_input, need_ints, out_bytes, put_i64};
use crate::op::{Op, Run};
use crate::store::types::{ANY, INDEX, INT};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn same_elements(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, shape: &[usize]) -> Result<()> {
    let o = out_bytes(ctx, 0, shape)?;
    if o.len() != x.bytes().len() {
        return Err(bad("shape", format!("{shape:?}"), format!("{} elements as in {:?}", x.len, x.shape)));
    }
    o.copy_from_slice(x.bytes());
    Ok(())
}
fn run_identity(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    same_elements(ctx, &x, &x.shape)
}
fn run_same_size(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, like) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let here = x.shape[checked_axis(ctx, "axis", 0, x.rank())?];
    let there = like.shape[checked_axis(ctx, "like_axis", 0, like.rank())?];
    if here != there {
        let what = ctx.attrs.str("what").unwrap_or("size");
        return Err(bad(what, format!("{here} ({:?})", x.shape), format!("{there} as in {:?}", like.shape)));
    }
    same_elements(ctx, &x, &x.shape)
}
fn run_identity_n(ctx: &mut KernelCtx<'_>) -> Result<()> {
    for i in 0..ctx.output_count() {
        let x = Arg::of(ctx, i)?;
        out_bytes(ctx, i, &x.shape)?.copy_from_slice(x.bytes());
    }
    Ok(())
}
/// The shape that a Reshape requests: 0 copies a dimension unless `allow_zero`, and one -1 is
/// computed.
pub fn reshaped(shape: &[usize], wanted: &[i64], allow_zero: bool) -> Result<Vec<usize>> {
    let total = crate::args::count(shape)?;
    let mut out = Vec::with_capacity(wanted.len());
    let mut hole = None;
    for (i, &w) in wanted.iter().enumerate() {
        out.push(match w {
            -1 if hole.is_none() => {
                hole = Some(i);
                1
            }
            0 if !allow_zero => {
                *shape.get(i).ok_or_else(|| bad("shape", format!("0 at {i}"), format!("a place within {shape:?}")))?
            }
            w => usize::try_from(w).map_err(|_| bad("shape", format!("{wanted:?}"), "sizes, and at most one -1"))?,
        });
    }
    if let Some(h) = hole {
        let rest = crate::args::count(&out)?;
        if rest == 0 || total % rest != 0 {
            if !(rest == 0 && total == 0) {
                return Err(bad("shape", format!("{wanted:?}"), format!("sizes that {total} elements can take")));
            }
            out[h] = 0;
        } else {
            out[h] = total / rest;
        }
    }
    if crate::args::count(&out)? != total {
        return Err(bad("shape", format!("{out:?}"), format!("{total} elements as in {shape:?}")));
    }
    Ok(out)
}
fn run_reshape(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let shape = reshaped(&x.shape, &need_ints(ctx, "shape", 1)?, int_attr(ctx, "allowzero", 0) != 0)?;
    same_elements(ctx, &x, &shape)
}
fn run_flatten(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let a = int_attr(ctx, "axis", 1);
    let at = usize::try_from(if a < 0 { a.saturating_add(x.rank() as i64) } else { a }).ok().filter(|&a| a <= x.rank());
    let at = at.ok_or_else(|| bad("attribute `axis`", a, format!("-{0} to {0}", x.rank())))?;
    let shape = [x.shape[..at].iter().product(), x.shape[at..].iter().product()];
    same_elements(ctx, &x, &shape)
}
fn run_squeeze(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let list = ints_or_input(ctx, "axis", 1)?.unwrap_or_default();
    let list = if list.is_empty() { Arg::opt(ctx, 1)?.map_or(Ok(list), |a| a.list())? } else { list };
    let gone = if list.is_empty() {
        (0..x.rank()).filter(|&a| x.shape[a] == 1).collect()
    } else {
        axes("axes", &list, x.rank())?
    };
    if let Some(&a) = gone.iter().find(|&&a| x.shape[a] != 1) {
        return Err(bad(format!("dimension {a} of {:?}", x.shape), x.shape[a], "1"));
    }
    let shape: Vec<usize> = (0..x.rank()).filter(|a| !gone.contains(a)).map(|a| x.shape[a]).collect();
    same_elements(ctx, &x, &shape)
}
fn run_unsqueeze(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let list = match ctx.attrs.int("axis") {
        Some(a) if ctx.op == "ExpandDims" => vec![a],
        _ => match Arg::opt(ctx, 1)? {
            Some(a) => a.i64s()?,
            None => need_ints(ctx, "axes", 1)?,
        },
    };
    let rank = x.rank() + list.len();
    let new = axes("axes", &list, rank)?;
    let mut rest = x.shape.iter();
    let shape: Vec<usize> =
        (0..rank).map(|i| if new.contains(&i) { 1 } else { rest.next().copied().unwrap_or(1) }).collect();
    same_elements(ctx, &x, &shape)
}
fn run_shape(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let d = ctx.input(0)?.dims;
    let r = d.len() as i64;
    let clamp = |v: i64| (if v < 0 { v.saturating_add(r) } else { v }).clamp(0, r) as usize;
    let (b, e) = (clamp(int_attr(ctx, "start", 0)), clamp(int_attr(ctx, "end", r)));
    let v: Vec<i64> = d[b..e.max(b)].iter().map(|&d| d as i64).collect();
    put_i64(ctx, 0, &[v.len()], &v)
}
fn run_size(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let d = ctx.input(0)?.dims;
    let n = if d.contains(&0) { Some(0) } else { d.iter().try_fold(1u64, |a, &b| a.checked_mul(b)) };
    let n = n
        .and_then(|n| i64::try_from(n).ok())
        .ok_or_else(|| bad("input 0", format!("{d:?}"), "sizes that can be counted"))?;
    put_i64(ctx, 0, &[], &[n])
}
fn run_rank(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let r = ctx.input(0)?.dims.len() as i64;
    put_i64(ctx, 0, &[], &[r])
}
/// Reads an axis attribute and checks that it is in range.
pub fn checked_axis(ctx: &KernelCtx<'_>, key: &str, default: i64, rank: usize) -> Result<usize> {
    axis(&format!("attribute `{key}`"), int_attr(ctx, key, default), rank)
}

const fn v(name: &'static str, run: Run) -> Op {
    Op::moves(name, run, &[ANY, INDEX])
}
const fn s(name: &'static str, run: Run) -> Op {
    Op::new(name, run, &[ANY]).gives(&[INT])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("Identity", run_identity, &[ANY]),
    Op::moves("TensorMove", run_identity, &[ANY]),
    Op::moves("IdentityN", run_identity_n, &[ANY]),
    Op::moves("MemcpyAsync", run_identity, &[ANY]),
    v("Reshape", run_reshape),
    v("Flatten", run_flatten),
    v("Squeeze", run_squeeze),
    v("SqueezeV3", run_squeeze),
    v("Unsqueeze", run_unsqueeze),
    v("UnsqueezeV3", run_unsqueeze),
    v("ExpandDims", run_unsqueeze),
    Op::moves("SameSize", run_same_size, &[ANY, ANY]),
    s("Shape", run_shape),
    s("Size", run_size),
    s("Rank", run_rank),
];
