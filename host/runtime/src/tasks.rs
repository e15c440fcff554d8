//! Checks the tasks of an OM against the rules of task lists before any task is bound. A task that
//! breaks a rule means that the file is damaged.
use crate::error::RuntimeError;
use crate::request::Engines;
use crate::several::own_task;
use ge_model::{CompiledModel, NodeInfo, TaskInfo, context_graph, launch};
use ge_plugin::tasks::args_format::Arity;
use ge_plugin::tasks::{Broken, Rule, Seen, check_one, written};
use ge_plugin_api::engine::flags;
use ge_plugin_api::task::TaskType;
use std::collections::{HashMap, HashSet};

/// The view of an OM task that the rules check.
fn seen(t: &TaskInfo) -> Seen<'_> {
    let kernel = (!t.kernel_name.is_empty()).then_some((t.kernel_name.as_str(), t.kernel_type, t.block_dim));
    let (kind, operands, numbers) = (TaskType(t.kind), t.args_format.as_str(), t.numbers.as_slice());
    Seen { kind, kernel, operands, numbers, private: !t.private.is_empty() }
}

fn damaged(node: &NodeInfo, task: Option<usize>, broken: &Broken) -> RuntimeError {
    let broken = Broken { task, ..broken.clone() };
    RuntimeError::Damaged { what: format!("the tasks of `{}` ({}): {broken}", node.name, node.op) }
}

/// How many inputs, outputs and workspaces of a node a task may name.
fn arity(node: &NodeInfo) -> Arity {
    Arity {
        inputs: node.inputs.len(),
        outputs: node.outputs.len(),
        workspaces: node.workspaces.len(),
        events: usize::MAX,
    }
}

/// Checks each launch of a chain against its node.
fn chain(m: &CompiledModel, i: usize, t: &TaskInfo) -> Result<(), RuntimeError> {
    let damaged_task = |what: String| RuntimeError::Damaged { what: format!("task {i}: {what}") };
    let launches = launch::decode(&t.private).map_err(|e| damaged_task(e.to_string()))?;
    let nodes = m.graphs.get(t.graph as usize).map_or(&[][..], |g| &g.nodes);
    for l in &launches {
        let name = t.nodes.get(l.node as usize).ok_or_else(|| damaged_task(format!("it has no node {}", l.node)))?;
        let found = (0u32..).zip(nodes).find(|(_, n)| n.name == *name);
        let (at, node) = found.ok_or_else(|| damaged_task(format!("its node `{name}` is missing")))?;
        let own = own_task(t, l, at);
        check_one(&seen(&own), arity(node)).map_err(|b| damaged(node, Some(i), &b))?;
    }
    Ok(())
}

/// Checks all tasks of a model against the rules.
///
/// # Errors
/// Returns `Damaged` for the first rule that is broken, with its node and task.
pub(crate) fn check(m: &CompiledModel, engines: &Engines) -> Result<(), RuntimeError> {
    let mut done: HashMap<(u32, u32), Vec<bool>> = HashMap::new();
    let mut several: HashSet<&str> = HashSet::new();
    // Names of graphs of slices: their nodes run as contexts of a task and have no tasks of their
    // own.
    let mut sliced: HashSet<String> = HashSet::new();
    for (i, t) in m.tasks.iter().enumerate() {
        let node = m
            .node(t.graph, t.node)
            .ok_or_else(|| RuntimeError::Damaged { what: format!("task {i} belongs to no node") })?;
        let task = seen(t);
        let outputs = done.entry((t.graph, t.node)).or_insert_with(|| vec![false; node.outputs.len()]);
        if task.is_several() {
            outputs.fill(true);
            several.extend(t.nodes.iter().map(String::as_str));
            if task.kind == TaskType::SUPER_KERNEL {
                chain(m, i, t)?;
                continue;
            }
            // Errors in these bytes are reported when the task is bound.
            if let Ok((of, _)) = context_graph::decode(&t.private) {
                sliced.extend([of.graph, of.tail]);
            }
        }
        let items = check_one(&task, arity(node)).map_err(|b| damaged(node, Some(i), &b))?;
        written(&items, outputs);
    }
    for (gi, graph) in (0u32..).zip(&m.graphs).filter(|(_, g)| !sliced.contains(&g.name)) {
        let reads = graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten());
        let read: HashSet<(u32, u32)> = reads.map(|v| (v.node, v.output)).collect();
        for (ni, node) in (0u32..).zip(&graph.nodes) {
            let Some(e) = engines.by_name.get(&node.engine) else { continue };
            if e.info.flags & (flags::NO_TASK | flags::STRUCTURAL | flags::COMPOSITE) != 0
                || node.attrs.flag("_no_task")
                || several.contains(node.name.as_str())
            {
                continue;
            }
            let done = done.get(&(gi, ni)).map_or(&[][..], Vec::as_slice);
            let lost = (0u32..).zip(&node.outputs).find(|(k, d)| {
                read.contains(&(ni, *k)) && d.data_bytes() != Some(0) && done.get(*k as usize) != Some(&true)
            });
            if let Some((k, _)) = lost {
                let what = format!("no task writes output {k}, which is read");
                return Err(damaged(node, None, &Broken { rule: Rule::T1, task: None, what }));
            }
        }
    }
    Ok(())
}
