//! Slices: `StridedSliceV2` (ONNX's Slice), `StridedSliceD`, `Slice`, `SliceD`; `ReverseSequence`.
use super::moving::{Source, copy_input, with_width, write_moved};
use crate::args::{Arg, axis, bad, int_attr, ints_attr, need_ints, view_error};
use crate::op::Op;
use crate::store::types::{ANY, INDEX};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::infer::slice_of_axis;

/// First index, step and number of indices that ONNX's begin, end and step select from `n`.
fn taken(n: usize, begin: i64, end: i64, step: i64) -> Result<(usize, isize, usize)> {
    if step == 0 {
        return Err(bad("strides", 0, "a step other than zero"));
    }
    let (from, len) = slice_of_axis(n as i64, begin, end, step);
    // Without a second index, no step is needed; this also avoids steps too large for a position.
    Ok((from as usize, if len <= 1 { 1 } else { step as isize }, len as usize))
}
fn cut(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, begin: &[i64], end: &[i64], axes: &[i64], steps: &[i64]) -> Result<()> {
    if begin.len() != end.len() || axes.len() != begin.len() || steps.len() != begin.len() {
        let found = format!("{}, {}, {} and {} numbers", begin.len(), end.len(), axes.len(), steps.len());
        return Err(bad("begin, end, axes and strides", found, "lists of one length"));
    }
    let mut l = x.layout()?;
    let mut seen = vec![false; x.rank()];
    for i in 0..begin.len() {
        let a = axis("axes", axes[i], x.rank())?;
        if std::mem::replace(&mut seen[a], true) {
            return Err(bad("axes", format!("axis {a} twice"), "each axis once"));
        }
        let (from, step, len) = taken(x.shape[a], begin[i], end[i], steps[i])?;
        l = l.slice(a, from, step, len).map_err(view_error)?;
    }
    copy_input(ctx, x, &l)
}
fn run_strided(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let by_attr = ctx.op == "StridedSliceD";
    let (begin, end) = if by_attr {
        (ints_attr(ctx, "begin").unwrap_or_default().to_vec(), ints_attr(ctx, "end").unwrap_or_default().to_vec())
    } else {
        (Arg::of(ctx, 1)?.list()?, Arg::of(ctx, 2)?.list()?)
    };
    let optional = |i: usize| if by_attr { Ok(None) } else { Arg::opt(ctx, i)?.map(|a| a.list()).transpose() };
    let axes = optional(3)?.unwrap_or_else(|| (0..begin.len() as i64).collect());
    let steps = match optional(4)? {
        Some(s) => s,
        None => ints_attr(ctx, "strides")
            .filter(|s| by_attr && !s.is_empty())
            .map_or_else(|| vec![1; begin.len()], <[i64]>::to_vec),
    };
    cut(ctx, &x, &begin, &end, &axes, &steps)
}
fn run_slice(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let (o, s) = (need_ints(ctx, "offsets", 1)?, need_ints(ctx, "size", 2)?);
    if o.len() != x.rank() || s.len() != x.rank() {
        return Err(bad(
            "offsets and size",
            format!("{} and {} numbers", o.len(), s.len()),
            format!("{} each", x.rank()),
        ));
    }
    let mut l = x.layout()?;
    for a in 0..x.rank() {
        let n = x.shape[a] as i64;
        let len = if s[a] == -1 { n.saturating_sub(o[a]) } else { s[a] };
        if o[a] < 0 || len < 0 || o[a].checked_add(len).is_none_or(|e| e > n) {
            return Err(bad(
                format!("slice of dimension {a}"),
                format!("{len} from {}", o[a]),
                format!("a part of {n}"),
            ));
        }
        l = l.slice(a, o[a] as usize, 1, len as usize).map_err(view_error)?;
    }
    copy_input(ctx, &x, &l)
}
/// Reverses the first `seq_lengths[b]` steps of each batch and copies the rest.
fn run_reverse_sequence(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, lens) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let t = axis("attribute `seq_dim`", int_attr(ctx, "seq_dim", 0), x.rank())?;
    let b = axis("attribute `batch_dim`", int_attr(ctx, "batch_dim", 1), x.rank())?;
    lens.need_shape(&[x.shape[b]])?;
    let lens = lens.i64s()?;
    if let Some(l) = lens.iter().find(|&&l| l < 0 || l > x.shape[t] as i64) {
        return Err(bad("input 1", l, format!("0 to {}", x.shape[t])));
    }
    // The two axes, and the numbers of elements before, between and after them.
    let (first, second) = (t.min(b), t.max(b));
    let between: usize = x.shape[first + 1..second].iter().product();
    let inner: usize = x.shape[second + 1..].iter().product();
    let (n, m) = (x.shape[first], x.shape[second]);
    let src = Source::of(&x)?;
    write_moved(ctx, 0, &x.shape, src.bits, |bytes| {
        if bytes.is_empty() {
            return Ok(());
        }
        with_width!(src.width, N => {
            let block = n * between * m * inner;
            let parts = bytes.as_chunks_mut::<N>().0.chunks_exact_mut(block).zip(src.items::<N>().chunks_exact(block));
            for (o, from) in parts {
                for (row, o) in o.chunks_exact_mut(m * inner).enumerate() {
                    let (i, middle) = (row / between, row % between);
                    let line = |i: usize| &from[(i * between + middle) * m * inner..][..m * inner];
                    if t < b {
                        for (j, o) in o.chunks_exact_mut(inner).enumerate() {
                            let len = lens[j] as usize;
                            let step = if i < len { len - 1 - i } else { i };
                            o.copy_from_slice(&line(step)[j * inner..][..inner]);
                        }
                    } else {
                        let (turned, rest) = o.split_at_mut(lens[i] as usize * inner);
                        let (from, same) = line(i).split_at(turned.len());
                        rest.copy_from_slice(same);
                        if inner == 1 {
                            turned.iter_mut().zip(from.iter().rev()).for_each(|(o, v)| *o = *v);
                        } else {
                            let steps = turned.chunks_exact_mut(inner).zip(from.chunks_exact(inner).rev());
                            steps.for_each(|(o, v)| o.copy_from_slice(v));
                        }
                    }
                }
            }
            Ok(())
        })
    })
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("StridedSliceV2", run_strided, &[ANY, INDEX]),
    Op::moves("StridedSliceD", run_strided, &[ANY]),
    Op::moves("Slice", run_slice, &[ANY, INDEX]),
    Op::moves("SliceD", run_slice, &[ANY]),
    Op::moves("ReverseSequence", run_reverse_sequence, &[ANY, INDEX]),
];
