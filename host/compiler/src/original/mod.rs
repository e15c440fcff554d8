//! The original graph. In: a graph with types and shapes. Out: the same graph after the engines'
//! fusions, precision and formats (facts 4.2, PreRunOptimizeOriginalGraph).
pub mod format;
pub mod precision;
pub mod subexpression_migration_pass;
pub mod what_if;

use crate::error::Result;
use crate::pass::{PassManager, Records, hooks};
use ge_ir::Model;
use ge_plugin_api::engine::Hook;
use ge_plugin_api::pass::PassStage;

/// Number of the stage's part that changes types and handles the resulting casts of constants.
pub const PRECISION: u8 = 1;

/// Number of the stage's part that changes formats.
pub const FORMAT: u8 = 2;

/// Runs the fusions of engines, the built-in ones and those of custom passes, then precision and
/// formats.
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
