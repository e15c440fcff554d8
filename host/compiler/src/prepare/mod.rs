//! Preparation. in: the graph as the front end built it, out: the same graph with every type and shape that can be known.
pub mod fold;
pub mod infer_shape_pass;
mod subgraphs;

pub use infer_shape_pass::InferShapePass;

use crate::error::Result;
use crate::pass::{PassLevel, PassManager, Records, hooks};
use ge_ir::Model;
use ge_plugin_api::engine::Hook;
use ge_plugin_api::pass::PassStage;

/// Custom passes and engines before shapes, inference with folding, the passes of PrepareOptimize (facts 4.2, 4.3).
pub fn run(model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
    hooks::custom(passes, PassStage::BEFORE_INFER_SHAPE, model, records)?;
    hooks::engines(passes, "prepare", Hook::AFTER_GRAPH_NORMALIZATION, model, records)?;
    hooks::engines(passes, "prepare", Hook::OPTIMIZE_GRAPH_INIT, model, records)?;
    hooks::engines(passes, "prepare", Hook::OPTIMIZE_GRAPH_PREPARE, model, records)?;
    infer(model, passes, records)?;
    hooks::custom(passes, PassStage::AFTER_INFER_SHAPE, model, records)?;
    passes.stage("prepare", model, records)?;
    model.compact();
    Ok(())
}

/// Types and shapes of the whole model, with constants folded as the options say.
pub fn infer(model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
    let fold = passes.enabled("ConstantFoldingPass", PassLevel::O1, Some("ge.oo.constantFolding"));
    InferShapePass::new(passes.toolbox()).folding(fold).run(model, records)
}
