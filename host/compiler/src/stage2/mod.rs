//! Stage 2. in: the placed, merged graph, out: the same, stable, with operators without a task marked (facts 4.2, 4.5).
pub mod concat_notask_pass;
pub mod notask;
pub mod pack_notask_pass;

use crate::error::Result;
use crate::pass::{PassManager, Records, hooks};
use ge_ir::Model;
use ge_plugin_api::engine::Hook;

/// The engines on the whole graph, the list of stage 2, the engines before the build.
pub fn run(model: &mut Model, passes: &PassManager<'_>, records: &mut Records) -> Result<()> {
    hooks::engines(passes, "stage2", Hook::WHOLE_GRAPH, model, records)?;
    passes.stage("stage2", model, records)?;
    hooks::engines(passes, "stage2", Hook::GRAPH_BEFORE_BUILD, model, records)?;
    model.compact();
    Ok(())
}
