//! `StringConcat(x, y) -> z` (ai.onnx 20 on): each string of `x` followed by that of `y`,
//! broadcast.
use super::strings;
use crate::op::Op;
use crate::store::types::TEXT;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (dims, pairs) = strings::pairs(ctx)?;
    let all: Vec<String> = pairs.into_iter().map(|(x, y)| [x, y].concat()).collect();
    strings::write(ctx, 0, &dims, &all)
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[Op::new("StringConcat", run, &[TEXT]).gives(&[TEXT])];
