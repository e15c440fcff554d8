//! `TransposeD {perm}` and `Transpose(x, perm?) {perm}` (without perm the axes are reversed),
//! `DepthToSpace` and `SpaceToDepth` (ONNX's: DCR and CRD).
use super::moving::{Source, copy_input, copy_through};
use crate::args::{Arg, axis, bad, int_attr, ints_attr, size, text, view_error};
use crate::op::Op;
use crate::store::types::{ANY, INDEX};
use ge_kernels::view::Layout;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run_transpose(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    let r = x.rank();
    let perm = match ints_attr(ctx, "perm").filter(|v| !v.is_empty()) {
        Some(v) => v.to_vec(),
        None => match Arg::opt(ctx, 1)? {
            Some(p) => p.list()?,
            None => (0..r as i64).rev().collect(),
        },
    };
    let p = perm.iter().map(|&a| axis("perm", a, r)).collect::<Result<Vec<_>>>()?;
    let l = x.layout()?.permute(&p).map_err(view_error)?;
    copy_input(ctx, &x, &l)
}
fn block(ctx: &KernelCtx<'_>) -> Result<usize> {
    match size("attribute `block_size`", int_attr(ctx, "block_size", 0))? {
        0 => Err(bad("attribute `block_size`", 0, "1 or more")),
        b => Ok(b),
    }
}
/// Views the source as `split`, permutes it, and writes it with shape `shape`.
fn regroup(ctx: &mut KernelCtx<'_>, x: &Arg<'_>, split: &[usize], perm: &[usize], shape: &[usize]) -> Result<()> {
    let l = Layout::contiguous(split).and_then(|l| l.permute(perm)).map_err(view_error)?;
    copy_through(ctx, 0, shape, &Source::of(x)?, &l)
}
fn run_depth_to_space(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, b) = (Arg::of(ctx, 0)?, block(ctx)?);
    x.need_rank(4, 4)?;
    let [n, c, h, w] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
    let bb = b.checked_mul(b).filter(|bb| c % bb == 0);
    let bb = bb.ok_or_else(|| bad("channels", c, format!("a multiple of the square of {b}")))?;
    let shape = [n, c / bb, h * b, w * b];
    match text(ctx, "mode", "DCR") {
        "CRD" => regroup(ctx, &x, &[n, c / bb, b, b, h, w], &[0, 1, 4, 2, 5, 3], &shape),
        _ => regroup(ctx, &x, &[n, b, b, c / bb, h, w], &[0, 3, 4, 1, 5, 2], &shape),
    }
}
fn run_space_to_depth(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, b) = (Arg::of(ctx, 0)?, block(ctx)?);
    x.need_rank(4, 4)?;
    let [n, c, h, w] = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
    if h % b != 0 || w % b != 0 {
        return Err(bad("height and width", format!("{h} and {w}"), format!("multiples of {b}")));
    }
    let shape = [n, c * b * b, h / b, w / b];
    let order = if text(ctx, "mode", "DCR") == "CRD" { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
    regroup(ctx, &x, &[n, c, h / b, b, w / b, b], &order, &shape)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::moves("TransposeD", run_transpose, &[ANY]),
    Op::moves("Transpose", run_transpose, &[ANY, INDEX]),
    Op::moves("DepthToSpace", run_depth_to_space, &[ANY]),
    Op::moves("SpaceToDepth", run_space_to_depth, &[ANY]),
];
