//! Stage 1. Input: the original graph with its fusions. Output: the same graph without redundant
//! nodes (facts 4.2, 4.4).
pub mod add_n_pass;
pub mod attach_stream_label_pass;
pub mod cast_remove_pass;
pub mod common_subexpression_elimination_pass;
pub mod constant_fuse_same_pass;
pub mod control_trigger_pass;
pub mod ctrl_edge_transfer_pass;
pub mod dim1_transpose_to_squeeze_pass;
pub mod dimension_adjust_pass;
pub mod fuse_data_nodes_with_common_input_pass;
pub mod global_step_insert_pass;
pub mod hccl_tailing_optimization_pass;
pub mod identity_pass;
pub mod iterator_op_pass;
pub mod merge_input_memcpy_pass;
pub mod merge_to_stream_merge_pass;
pub mod multi_batch_pass;
pub mod next_iteration_pass;
pub mod permute_pass;
pub mod process_nullable_output;
pub mod prune_pass;
pub mod reshape_remove_pass;
pub mod same_transdata_breadth_fusion_pass;
pub mod subgraph_multi_dims_pass;
pub mod switch_logic_remove_pass;
pub mod switch_to_stream_switch_pass;
pub mod trans_op_breadth_fusion_pass;
pub mod trans_op_nearby_allreduce_fusion_pass;
pub mod trans_op_symmetry_elimination_pass;
pub mod trans_op_without_reshape_fusion_pass;
pub mod trans_ops;
pub mod transpose_trans_data_pass;
pub mod unchanged_transpose_remove_pass;
pub mod unused_args_clean_pass;
pub mod useless_control_out_remove_pass;
pub mod variable_op_pass;

use crate::error::Result;
use crate::pass::{PassManager, Records, hooks};
use ge_ir::Model;
use ge_plugin_api::engine::Hook;
use ge_plugin_api::pass::PassStage;

/// Runs the passes of stage 1, then the engines, then the custom passes, and then part 1 of its
/// list (control edges of constants, unread optional outputs).
pub fn run(model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
    passes.stage("stage1", model, records)?;
    hooks::engines(passes, "stage1", Hook::AFTER_STAGE1, model, records)?;
    hooks::custom(passes, PassStage::AFTER_ORIGIN_GRAPH_OPTIMIZE, model, records)?;
    passes.part("stage1", 1, model, records)?;
    model.compact();
    Ok(())
}
