//! Preparation. Input: the graph as the front end built it. Output: the same graph with every type
//! and shape that can be determined.
pub mod assert_pass;
pub mod branch_to_select_pass;
mod branches;
pub mod computed_reshape_pass;
pub mod cond_pass;
pub mod cond_remove_pass;
pub mod constant_clip_pass;
pub mod constant_folding_pass;
pub mod counted_list_pass;
pub mod dimension_compute_pass;
pub mod drop_out_pass;
pub mod enter_pass;
pub mod fixed_input_pass;
pub mod fold;
pub mod for_pass;
pub mod guarantee_const_pass;
pub mod handle_summary_op;
pub mod infer_shape_pass;
pub mod infer_value_range_pass;
pub mod inline_subgraph_pass;
pub mod loop_invariant_pass;
mod loops;
pub mod merge_pass;
pub mod multi_batch_clone_pass;
pub mod name_open_sizes_pass;
pub mod net_output_pass;
pub mod parallel_concat_start_op_pass;
pub mod placeholder_with_default_pass;
pub mod prevent_gradient_pass;
pub mod print_op_pass;
pub mod replace_trans_shape_pass;
pub mod replace_with_empty_const_pass;
pub mod shape_operate_op_remove_pass;
pub mod snapshot_pass;
pub mod split_shape_n_pass;
pub mod stop_gradient_pass;
pub(crate) mod subgraphs;
pub mod switch_dead_branch_elimination;
pub mod unused_const_pass;
mod value;
pub mod var_is_initialized_op_pass;

pub use infer_shape_pass::InferShapePass;

use crate::error::Result;
use crate::feature::effects;
use crate::pass::{PassLevel, PassManager, Records, hooks};
use ge_ir::Model;
use ge_plugin_api::engine::Hook;
use ge_plugin_api::pass::PassStage;

/// The part that makes gears, before anything else processes the graph.
pub const GEARS: u8 = 9;
/// The part that normalises, before engines see the graph.
pub const NORMALISE: u8 = 10;
/// The part that runs before the inference of each node.
pub const BEFORE: u8 = 11;
/// The part that runs after the inference of each node.
pub const AFTER: u8 = 12;

/// Runs the stage: makes the order of effects explicit as edges, runs custom passes and engines
/// before shapes are known, infers and folds, and runs the passes of PrepareOptimize (facts 4.2,
/// 4.3).
pub fn run(model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
    passes.toolbox().growth.allow(model);
    passes.part("prepare", GEARS, model, records)?;
    // Reads what the imported graph says about variables before anything changes it.
    effects::explicit(model, passes.toolbox())?;
    hooks::custom(passes, PassStage::BEFORE_INFER_SHAPE, model, records)?;
    passes.part("prepare", NORMALISE, model, records)?;
    hooks::engines(passes, "prepare", Hook::AFTER_GRAPH_NORMALIZATION, model, records)?;
    hooks::engines(passes, "prepare", Hook::OPTIMIZE_GRAPH_INIT, model, records)?;
    hooks::engines(passes, "prepare", Hook::OPTIMIZE_GRAPH_PREPARE, model, records)?;
    infer(model, passes, records)?;
    hooks::custom(passes, PassStage::AFTER_INFER_SHAPE, model, records)?;
    passes.stage("prepare", model, records)?;
    model.compact();
    Ok(())
}

/// Infers types and shapes of the whole model, and folds constants as the options say.
pub fn infer(model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
    let fold = passes.enabled(
        "ConstantFoldingPass",
        PassLevel::O1,
        crate::pass::NodePass::switch(&constant_folding_pass::ConstantFoldingPass),
    );
    let first = records.runs.len();
    let out = InferShapePass::new(passes.toolbox()).folding(fold).run(model, passes, records);
    infer_value_range_pass::forget(model);
    passes.tell(first, records, model);
    out
}
