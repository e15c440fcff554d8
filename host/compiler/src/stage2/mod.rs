//! Stage 2. Input: the placed, merged graph. Output: the same graph, stable, with operators without
//! a task marked (facts 4.2, 4.5).
pub mod assign_remove_pass;
pub mod concat_notask_pass;
pub mod hccl_continuous_memcpy_pass;
pub mod inner_identity_delete_pass;
pub mod link_gen_mask_nodes_pass;
pub mod notask;
pub mod pack_notask_pass;
pub mod parallel_group_pass;
pub mod ref_identity_delete_op_pass;
pub mod tensor_move_delete_pass;

use crate::error::Result;
use crate::pass::{PassManager, Records, hooks};
use ge_ir::Model;
use ge_plugin_api::engine::Hook;
use ge_plugin_api::pass::PassStage;

/// Runs the engines and their libraries' passes on the whole graph, then the passes of stage 2, and
/// then the engines' hook before the build.
pub fn run(model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
    hooks::engines(passes, "stage2", Hook::WHOLE_GRAPH, model, records)?;
    hooks::custom(passes, PassStage::OPTIMIZE_WHOLE_GRAPH, model, records)?;
    passes.stage("stage2", model, records)?;
    hooks::engines(passes, "stage2", Hook::GRAPH_BEFORE_BUILD, model, records)?;
    passes.part("stage2", 1, model, records)?;
    model.compact();
    Ok(())
}
