//! What plugins may do to a graph: custom passes run at their stages, and graph optimizers of
//! engines run at their hooks (facts 3.3, 4.2).
use super::{PassManager, PassRecord, Records, owner};
use crate::error::{CompileError, Result};
use crate::fusion::FusionPassExecutor;
use ge_ir::Model;
use ge_plugin::{EngineHandle, PassHandle};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::engine::Hook;
use ge_plugin_api::pass::PassStage;
use ge_plugin_api::patch::Edit;
use std::time::Instant;

/// Attributes that carry decisions of stages, or on which these decisions depend. They are fixed
/// once streams are assigned.
const SETTLED: &[&str] = &[
    "_attached_stream_ids",
    "_engine",
    "_logic_stream_id",
    "_no_task",
    "_op_kernel_lib",
    "_recv_event_ids",
    "_recv_notify_ids",
    "_send_event_ids",
    "_send_notify_ids",
    "_stream_id",
    "_workspace_offsets",
    "_workspace_sizes",
    "active_stream_list",
];

/// Runs the custom passes of a stage, in plugin order.
pub fn custom(m: &PassManager<'_>, stage: PassStage, model: &mut Model, records: &mut Records) -> Result<()> {
    FusionPassExecutor::new(m).stage(stage, model, records)
}

/// Runs one custom pass on each graph.
pub fn custom_pass(m: &PassManager<'_>, p: &PassHandle, model: &mut Model, records: &mut Records) -> Result<()> {
    FusionPassExecutor::new(m).pass(p, model, records).map(|_| ())
}

/// Calls the engines' graph optimizers at a hook, in order of priority, then of plugins.
pub fn engines(
    m: &PassManager<'_>,
    stage: &'static str,
    hook: Hook,
    model: &mut Model,
    records: &mut Records,
) -> Result<()> {
    for e in by_priority(m) {
        let start = Instant::now();
        let who = format!("engine {} of plugin {} at {hook}", e.info.name, e.plugin);
        let (mut changes, mut gi) = (0, 0);
        while gi < model.graphs().len() {
            let edits = e.object.optimize(hook, &m.toolbox().lend(model, gi).graph())?;
            owner::check(e, hook, m.toolbox(), model, gi, &edits)?;
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
            m.tell(records.runs.len() - 1, records, model);
        }
    }
    Ok(())
}

/// The engines that are not excluded, in order of optimizer priority, then of plugins.
fn by_priority<'m>(m: &'m PassManager<'_>) -> Vec<&'m crate::toolbox::EngineEntry> {
    let mut order: Vec<_> = m.toolbox().engines.iter().filter(|e| e.excluded.is_none()).collect();
    order.sort_by_key(|e| e.info.optimizer_priority);
    order
}

/// Calls the engines' graph optimizers after streams, memory and synchronisation are settled. They
/// may only set or remove attributes of nodes, and only attributes that carry no decision.
///
/// # Errors
/// Returns the engine's own error, or an error if the engine returns any other edit.
pub fn streamed(
    m: &PassManager<'_>,
    stage: &'static str,
    hook: Hook,
    model: &mut Model,
    records: &mut Records,
) -> Result<()> {
    for e in by_priority(m) {
        let start = Instant::now();
        let mut changes = 0;
        for gi in 0..model.graphs().len() {
            let edits = e.object.optimize(hook, &m.toolbox().lend(model, gi).graph())?;
            let g = &mut model.graphs_mut()[gi];
            changes += edits.len() as u64;
            for edit in edits {
                match edit {
                    Edit::SetAttr(id, a) if !SETTLED.contains(&a.key.as_str()) && g.get(id).is_some() => {
                        g.set_attr(id, a.key, a.value);
                    }
                    Edit::RemoveAttr(id, key) if !SETTLED.contains(&key.as_str()) && g.get(id).is_some() => {
                        g.remove_attr(id, key);
                    }
                    other => return Err(settled(&e.object, hook, &other)),
                }
            }
        }
        if changes > 0 {
            let micros = start.elapsed().as_micros() as u64;
            let pass = format!("{}.{hook}", e.info.name);
            records.runs.push(PassRecord { stage, pass, micros, visits: 0, changes });
            m.tell(records.runs.len() - 1, records, model);
        }
    }
    Ok(())
}

fn settled(engine: &EngineHandle, hook: Hook, edit: &Edit) -> CompileError {
    let what: String = format!("{edit:?}").chars().take(120).collect();
    let d = Diagnostic::error(format!(
        "engine {} of {} changes the graph at {hook}, where streams, memory and events are settled: it may set attributes of nodes there, \
         but no decision",
        engine.name(),
        engine.owner()
    ));
    CompileError::model(
        ge_codes::PLUGIN_EDIT,
        d.note(format!("its edit: {what}"))
            .help("report it to the plugin's maker; `enabled = false` in plugins.toml leaves the plugin out"),
    )
}
