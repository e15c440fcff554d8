//! The original graph. in: a graph with types and shapes, out: the same after the engines' fusions,
//! precision and formats (facts 4.2, PreRunOptimizeOriginalGraph).
pub mod format;
pub mod precision;
pub mod subexpression_migration_pass;
pub mod what_if;

use crate::error::Result;
use crate::pass::{PassManager, Records, hooks};
use ge_ir::Model;
use ge_plugin_api::engine::Hook;
use ge_plugin_api::pass::PassStage;

/// Part of the stage's list: types, and what casts of constants become.
pub const PRECISION: u8 = 1;

/// Part of the stage's list: formats.
pub const FORMAT: u8 = 2;

/// Fusions of engines, of ours and of custom passes, then precision and formats.
pub fn run(model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
    hooks::engines(passes, "original", Hook::ORIGINAL_GRAPH, model, records)?;
    hooks::custom(passes, PassStage::OPTIMIZE_ORIGINAL_GRAPH, model, records)?;
    passes.stage("original", model, records)?;
    hooks::custom(passes, PassStage::AFTER_BUILTIN_FUSION_PASS, model, records)?;
    hooks::engines(passes, "original", Hook::ORIGINAL_GRAPH_JUDGE_INSERT, model, records)?;
    if precision::wanted(passes)? {
        passes.part("original", PRECISION, model, records)?;
    }
    hooks::custom(passes, PassStage::AFTER_PRECISION_REFINE, model, records)?;
    hooks::engines(passes, "original", Hook::ORIGINAL_GRAPH_JUDGE_FORMAT_INSERT, model, records)?;
    passes.part("original", FORMAT, model, records)?;
    model.compact();
    Ok(())
}
