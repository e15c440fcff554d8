//! What plugins may do to a graph: custom passes at their stages and engines' graph optimizers at their hooks (facts 3.3, 4.2).
use super::{PassManager, PassRecord, Records};
use crate::error::Result;
use crate::fusion::FusionPassExecutor;
use ge_ir::Model;
use ge_ir::view::GraphContext;
use ge_plugin::PassHandle;
use ge_plugin_api::engine::Hook;
use ge_plugin_api::pass::PassStage;
use std::time::Instant;

/// Runs the custom passes of a stage, in plugin order.
pub fn custom(m: &PassManager<'_>, stage: PassStage, model: &mut Model, records: &mut Records) -> Result<()> {
    FusionPassExecutor::new(m).stage(stage, model, records)
}

/// Runs one custom pass on each graph.
pub fn custom_pass(m: &PassManager<'_>, p: &PassHandle, model: &mut Model, records: &mut Records) -> Result<()> {
    FusionPassExecutor::new(m).pass(p, model, records).map(|_| ())
}

/// Calls the engines' graph optimizers at a hook, by priority, then plugin order.
pub fn engines(
    m: &PassManager<'_>,
    stage: &'static str,
    hook: Hook,
    model: &mut Model,
    records: &mut Records,
) -> Result<()> {
    let mut order: Vec<_> = m.toolbox().engines.iter().filter(|e| e.excluded.is_none()).collect();
    order.sort_by_key(|e| e.info.optimizer_priority);
    for e in order {
        let start = Instant::now();
        let who = format!("engine {} of plugin {} at {hook}", e.info.name, e.plugin);
        let (mut changes, mut gi) = (0, 0);
        while gi < model.graphs().len() {
            let edits = e.object.optimize(hook, &GraphContext::new(model, gi).graph())?;
            let shapes = !matches!(
                hook,
                Hook::OPTIMIZE_GRAPH_INIT | Hook::OPTIMIZE_GRAPH_PREPARE | Hook::AFTER_GRAPH_NORMALIZATION
            );
            changes += m.apply_foreign(&who, gi, edits, shapes, model)?;
            gi += 1;
        }
        if changes > 0 {
            let micros = start.elapsed().as_micros() as u64;
            let pass = format!("{}.{hook}", e.info.name);
            records.runs.push(PassRecord { stage, pass, micros, visits: 0, changes });
        }
    }
    Ok(())
}
