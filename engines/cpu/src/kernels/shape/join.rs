//! Concatenation, packing and splitting along an axis (`plugins/ops/src/concat.rs`).
use super::moving::{Source, copy_through, write_moved};
use crate::args::{Arg, axis, bad, int_attr, ints_attr, size, view_error};
use crate::op::Op;
use crate::store::types::{ANY, INDEX};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn join(ctx: &mut KernelCtx<'_>, args: &[Arg<'_>], ax: usize, shape: &[usize], lens: &[usize]) -> Result<()> {
    args.iter().try_for_each(|a| a.need_type(args[0].dtype))?;
    let src = args.iter().map(Source::of).collect::<Result<Vec<_>>>()?;
    let (bits, width) = (src[0].bits, src[0].width);
    let inner: usize = shape[ax + 1..].iter().product::<usize>() * width;
    let total: usize = lens.iter().sum();
    write_moved(ctx, 0, shape, bits, |o| {
        let mut before = 0;
        for (s, &n) in src.iter().zip(lens) {
            let run = n * inner;
            if run > 0 {
                for (k, part) in s.bytes().chunks_exact(run).enumerate() {
                    let at = k * total * inner + before;
                    o[at..at + run].copy_from_slice(part);
                }
            }
            before += run;
        }
        Ok(())
    })
}
fn run_concat(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let n = ctx.inputs.len();
    let (range, dim) = match ctx.op {
        "Concat" => (1..n, Arg::of(ctx, 0)?.int()?),
        "ConcatV2" if n > 0 => (0..n - 1, Arg::of(ctx, n - 1)?.int()?),
        _ => (0..n, ctx.attrs.int("concat_dim").ok_or_else(|| bad("attribute `concat_dim`", "nothing", "an axis"))?),
    };
    let args = range.map(|i| Arg::of(ctx, i)).collect::<Result<Vec<_>>>()?;
    concat(ctx, &args, dim)
}
fn concat(ctx: &mut KernelCtx<'_>, args: &[Arg<'_>], dim: i64) -> Result<()> {
    let Some(first) = args.first() else { return Err(bad("inputs", "none", "at least one")) };
    let ax = axis("concat_dim", dim, first.rank())?;
    let mut shape = first.shape.clone();
    shape[ax] = 0;
    for a in args {
        let fits = a.rank() == shape.len() && (0..shape.len()).all(|d| d == ax || a.shape[d] == shape[d]);
        if !fits {
            return Err(bad(
                format!("input {}", a.index),
                format!("shape {:?}", a.shape),
                format!("{:?} but for axis {ax}", first.shape),
            ));
        }
        shape[ax] += a.shape[ax];
    }
    let lens: Vec<usize> = args.iter().map(|a| a.shape[ax]).collect();
    join(ctx, args, ax, &shape, &lens)
}
/// `PhonyConcat` as a real concatenation: axes and counts in turn, the first being the innermost
/// grouping. A single level is a plain concatenation; several levels use temporary tensors for each
/// level.
fn run_phony_concat(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let args = crate::args::all(ctx, 0)?;
    let dims = list_or_one(ctx, "concat_dim")?;
    let counts = list_or_one(ctx, "N")?;
    if dims.len() == 1 {
        return concat(ctx, &args, dims[0]);
    }
    if dims.len() != counts.len() || counts.iter().any(|&c| c < 1) || args.is_empty() {
        return Err(bad("attribute `N`", format!("{counts:?}"), "one number a concat_dim"));
    }
    let (d, attrs) = (args[0].dtype, ge_plugin_api::types::AttrMap::default());
    let mut level: Vec<ge_plugin_api::kernel::HostTensor> = Vec::new();
    for a in &args {
        level.push(ge_plugin_api::kernel::HostTensor::from_bytes(d, &crate::args::dims(&a.shape), a.bytes())?);
    }
    for (&dim, &n) in dims.iter().zip(&counts) {
        let mut next = Vec::new();
        for group in level.chunks(n as usize) {
            let inputs = group.iter().map(|t| Some(t.view())).collect();
            let mut c = KernelCtx::new("ConcatD", ctx.node, &attrs, inputs, &[d]);
            let parts = crate::args::all(&c, 0)?;
            concat(&mut c, &parts, dim)?;
            drop(parts);
            next.extend(c.into_made().into_iter().flatten());
        }
        level = next;
    }
    let [one] = level.as_slice() else {
        return Err(bad("attribute `N`", format!("{counts:?}"), "the number of inputs as product"));
    };
    let shape: Vec<usize> = one.view().dims.iter().map(|&d| d as usize).collect();
    crate::args::out_bytes(ctx, 0, &shape)?.copy_from_slice(one.bytes());
    Ok(())
}
fn list_or_one(ctx: &KernelCtx<'_>, key: &str) -> Result<Vec<i64>> {
    match (ints_attr(ctx, key), ctx.attrs.int(key)) {
        (Some(v), _) if !v.is_empty() => Ok(v.to_vec()),
        (_, Some(v)) => Ok(vec![v]),
        _ => Err(bad(format!("attribute `{key}`"), "nothing", "a list of integers")),
    }
}
fn run_pack(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let args = crate::args::all(ctx, 0)?;
    let Some(first) = args.first() else { return Err(bad("inputs", "none", "at least one")) };
    for a in &args {
        a.need_shape(&first.shape)?;
    }
    let ax = axis("attribute `axis`", int_attr(ctx, "axis", 0), first.rank() + 1)?;
    let mut shape = first.shape.clone();
    shape.insert(ax, args.len());
    join(ctx, &args, ax, &shape, &vec![1; args.len()])
}

/// Writes parts of the given lengths along an axis to the outputs; `drop_axis` removes the axis.
fn split(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, ax: usize, lens: &[usize], drop_axis: bool) -> Result<()> {
    let total = lens.iter().try_fold(0usize, |a, &b| a.checked_add(b));
    if total != Some(x.shape[ax]) {
        return Err(bad("size_splits", format!("{lens:?}"), format!("parts of {}", x.shape[ax])));
    }
    if lens.len() != ctx.output_count() {
        return Err(bad("parts", lens.len(), format!("{} outputs", ctx.output_count())));
    }
    let (src, l) = (Source::of(x)?, x.layout()?);
    let mut at = 0;
    for (i, &n) in lens.iter().enumerate() {
        let part = l.slice(ax, at, 1, n).map_err(view_error)?;
        let mut shape = part.shape().to_vec();
        if drop_axis {
            shape.remove(ax);
        }
        copy_through(ctx, i, &shape, &src, &part)?;
        at += n;
    }
    Ok(())
}
fn lengths(list: &[i64], whole: usize) -> Result<Vec<usize>> {
    let known: i64 = list.iter().filter(|&&v| v >= 0).fold(0i64, |a, &b| a.saturating_add(b));
    let open = list.iter().filter(|&&v| v < 0).count();
    if open > 1 {
        return Err(bad("size_splits", format!("{list:?}"), "at most one -1"));
    }
    list.iter().map(|&v| size("size_splits", if v < 0 { whole as i64 - known } else { v })).collect()
}
fn run_split(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (xi, dim) = match ctx.op {
        "Split" => (1, Arg::of(ctx, 0)?.int()?),
        "SplitV" => (0, Arg::of(ctx, 2)?.int()?),
        _ => (0, ctx.attrs.int("split_dim").ok_or_else(|| bad("attribute `split_dim`", "nothing", "an axis"))?),
    };
    let x = Arg::of(ctx, xi)?;
    let ax = axis("split_dim", dim, x.rank())?;
    let n = ctx.output_count();
    let lens = match ctx.op {
        "SplitV" => lengths(&Arg::of(ctx, 1)?.list()?, x.shape[ax])?,
        "SplitVD" => lengths(ints_attr(ctx, "size_splits").unwrap_or_default(), x.shape[ax])?,
        _ => equal_parts(x.shape[ax], n),
    };
    split(ctx, &x, ax, &lens, false)
}
fn equal_parts(whole: usize, n: usize) -> Vec<usize> {
    let each = whole.div_ceil(n.max(1));
    (0..n).map(|k| whole.saturating_sub(k * each).min(each)).collect()
}
fn run_phony_split(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let (dims, counts) = (list_or_one(ctx, "split_dim")?, list_or_one(ctx, "num_split")?);
    let total = counts.iter().try_fold(1i64, |a, &b| a.checked_mul(b));
    if dims.len() != counts.len() || counts.iter().any(|&n| n < 1) || total != Some(ctx.output_count() as i64) {
        return Err(bad(
            "attribute `num_split`",
            format!("{counts:?}"),
            "one number a split_dim, with the outputs as product",
        ));
    }
    let mut level = vec![x.layout()?];
    for (&d, &n) in dims.iter().zip(&counts) {
        let mut next = Vec::new();
        for l in &level {
            let ax = axis("split_dim", d, l.rank())?;
            let mut at = 0;
            for len in equal_parts(l.shape()[ax], n as usize) {
                next.push(l.slice(ax, at, 1, len).map_err(view_error)?);
                at += len;
            }
        }
        level = next;
    }
    let src = Source::of(&x)?;
    for (i, l) in level.iter().enumerate() {
        copy_through(ctx, i, l.shape(), &src, l)?;
    }
    Ok(())
}
fn run_unpack(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let ax = axis("attribute `axis`", int_attr(ctx, "axis", 0), x.rank())?;
    let lens = vec![1; x.shape[ax]];
    split(ctx, &x, ax, &lens, true)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("ConcatD", run_concat, &[ANY]),
    Op::moves("ConcatV2D", run_concat, &[ANY]),
    Op::moves("Concat", run_concat, &[INDEX, ANY]),
    Op::moves("ConcatV2", run_concat, &[ANY]),
    Op::moves("PhonyConcat", run_phony_concat, &[ANY]),
    Op::moves("Pack", run_pack, &[ANY]),
    Op::moves("SplitD", run_split, &[ANY]),
    Op::moves("Split", run_split, &[INDEX, ANY]),
    Op::moves("SplitVD", run_split, &[ANY]),
    Op::moves("SplitV", run_split, &[ANY, INDEX, INDEX]),
    Op::moves("PhonySplit", run_phony_split, &[ANY]),
    Op::moves("Unpack", run_unpack, &[ANY]),
];
