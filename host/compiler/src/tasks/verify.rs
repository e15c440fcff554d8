//! Checks the engines' task lists against the rules of task lists before they are used. A violation
//! is the engine's fault; the error names engine, plugin, node, rule and remedy. Only the first
//! such node in order is reported.
use super::generator::{NodeTasks, TaskGenerator};
use crate::error::{CompileError, Result};
use crate::feature::shared_memory::rules::Rules;
use crate::ids::{ModelMap, NodeKey, PORTION};
use crate::streams::StreamPlan;
use crate::sync::SyncPlan;
use ge_ir::Model;
use ge_plugin::tasks::Granted;
use ge_plugin_api::engine::flags;
use rayon::prelude::*;
use std::collections::HashSet;

/// Checks the task list of every node against the rules.
pub(super) fn lists(
    g: &TaskGenerator<'_>,
    model: &Model,
    streams: &StreamPlan,
    sync: &SyncPlan,
    own: &ModelMap<NodeTasks>,
) -> Result<()> {
    let keys =
        model.graphs().iter().enumerate().flat_map(|(gi, g)| g.order().iter().map(move |id| NodeKey::new(gi, *id)));
    let store: HashSet<&str> = keys.filter_map(|key| own[key].1.as_ref()).map(|k| k.name.as_str()).collect();
    let rules = Rules::new(g.toolbox);
    let stored = |name: &str| store.contains(name);
    for (gi, graph) in model.graphs().iter().enumerate() {
        let verdicts: Vec<Result<()>> = graph
            .order()
            .par_chunks(PORTION)
            .map(|chunk| {
                let context = g.toolbox.lend(model, gi);
                let view = context.graph();
                for &id in chunk {
                    let (key, node) = (NodeKey::new(gi, id), view.node(id));
                    let (tasks, _) = &own[key];
                    let engine = g.toolbox.engine(g.placement.engine[key]);
                    // Nodes that are computed without a task: the output is part of memory that
                    // other nodes write, the host has a plan for it, or the engine has no tasks.
                    let elsewhere = node.flag("_no_task") && graph.get(id).is_some_and(|n| rules.derives(n));
                    let taskless = elsewhere
                        || engine.object.info.flags & (flags::NO_TASK | flags::STRUCTURAL) != 0
                        || g.calls.contains_key(node.name());
                    if taskless && tasks.is_empty() {
                        continue;
                    }
                    let read: Vec<bool> = node
                        .outputs()
                        .iter()
                        .zip(0u32..)
                        .map(|(d, k)| !taskless && d.data_bytes() != Some(0) && !view.users(node.value(k)).is_empty())
                        .collect();
                    let notify: Option<Vec<bool>> =
                        sync.resources.get(&key).map(|all| all.iter().map(|r| r.notify).collect());
                    let has = Granted {
                        inputs: node.inputs().len(),
                        read: &read,
                        params: &g.params[key],
                        attached: Some(streams.attached[key].len()),
                        sync: Some(notify.as_deref().unwrap_or_default()),
                        stored: Some(&stored),
                        soc: &g.toolbox.target.soc,
                    };
                    engine.object.check_tasks(&node, tasks, &has).map_err(CompileError::Plugin)?;
                }
                Ok(())
            })
            .collect();
        verdicts.into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}
