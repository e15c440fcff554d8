//! The gate of 001 §4.1: finds the nodes whose tiling reads values, and decides whether it may run
//! on the device.
//!
//! A node is marked `_dynamic_tiling_depend_op` if its tiling reads the value of an input that is
//! not a constant. If the option, the device (online only) and the operator allow it, the node gets
//! `_tiling_sink_op`; otherwise it gets `_force_unknown_shape`, and the reason is recorded. If a
//! composite engine takes part, its tasks may launch the node's kernel (001 §4.5); the engine of
//! the kernel says whether it can be launched so.
use crate::error::{CompileError, Result};
use crate::ids::NodeKey;
use crate::options::Options;
use crate::pass::Records;
use crate::toolbox::Toolbox;
use ge_ir::{Model, Node};
use ge_plugin_api::author::tiling_sink::{ALIAS, SINK};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::engine::flags;
use std::collections::{BTreeMap, BTreeSet};

/// Attribute of a node whose tiling reads a value that is not a constant.
pub const DEPENDS: &str = "_dynamic_tiling_depend_op";
/// Attribute of a node that would have to run with unknown shapes.
pub const FORCED: &str = "_force_unknown_shape";
/// Attribute of a node that never times out; it excludes tiling sink (001 §2.3).
pub const NEVER_TIMEOUT: &str = "_op_exec_never_timeout";
/// Attribute of a super kernel of a reused binary; it requires tiling sink (001 §4.4).
pub const REUSED_BINARY: &str = "super_kernel_reuse_binary";
/// Name under which refusals are recorded.
pub const NAME: &str = "TilingSink";
/// Name of the option that switches tiling sink on.
pub const OPTION: &str = "ge.tiling_schedule_optimize";

/// Marks the nodes of all graphs. Fails if attributes contradict the decision; the error names node
/// and attribute.
pub fn mark(model: &mut Model, toolbox: &Toolbox, options: &Options, records: &mut Records) -> Result<()> {
    let placements = placements(toolbox)?;
    let mut marks: Vec<(NodeKey, Option<String>)> = Vec::new();
    let mut stale: Vec<NodeKey> = Vec::new();
    let mut failures = Vec::new();
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes() {
            let depends = placements.contains_key(n.op()) && reads_values(toolbox, g, n);
            let refusal = depends.then(|| refuse(toolbox, options, &placements, g, n));
            let sunk = refusal == Some(None);
            if sunk && n.attrs().flag(NEVER_TIMEOUT) {
                failures.push(fault(n, NEVER_TIMEOUT, "a node with tiling sink cannot be one that never times out"));
            }
            if !sunk && n.attrs().flag(REUSED_BINARY) {
                failures.push(fault(n, REUSED_BINARY, "a super kernel of a reused binary needs tiling sink"));
            }
            match refusal {
                Some(r) => marks.push((NodeKey::new(gi, n.id()), r)),
                // Only this gate sets these marks: where no value is read there is nothing to sink,
                // whatever the model says.
                None if [SINK, DEPENDS].iter().any(|a| n.attr(*a).is_some()) => stale.push(NodeKey::new(gi, n.id())),
                None => {}
            }
        }
    }
    if !failures.is_empty() {
        return Err(CompileError::Model { code: ge_codes::TILING_SINK, all: failures });
    }
    for key in stale {
        let g = &mut model.graphs_mut()[key.graph as usize];
        [SINK, DEPENDS].iter().for_each(|a| drop(g.remove_attr(key.node, *a)));
    }
    let composite = toolbox.engines.iter().find(|e| e.excluded.is_none() && e.info.flags & flags::COMPOSITE != 0);
    for (key, refusal) in marks {
        let name = key.name(model);
        let g = &mut model.graphs_mut()[key.graph as usize];
        g.set_attr(key.node, DEPENDS, true);
        match refusal {
            None => {
                g.set_attr(key.node, SINK, true);
                if let Some(e) = composite {
                    g.set_attr(key.node, ALIAS, e.info.name.as_str());
                }
            }
            Some(why) => {
                g.remove_attr(key.node, SINK);
                g.set_attr(key.node, FORCED, true);
                records.refuse(&name, NAME, why);
            }
        }
    }
    Ok(())
}

/// Where the tiling functions of each operator can run, over all engines that take part.
fn placements(toolbox: &Toolbox) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for e in toolbox.engines.iter().filter(|e| e.excluded.is_none()) {
        for (op, place) in e.object.tilings()? {
            out.entry(op).or_default().insert(place);
        }
    }
    Ok(out)
}

fn reads_values(toolbox: &Toolbox, g: &ge_ir::Graph, n: &Node) -> bool {
    let Some(op) = toolbox.op(n.op_key()) else { return false };
    op.proto.value_inputs.iter().any(|i| {
        let value = n.input(*i as usize).filter(|v| !v.is_absent());
        value.is_some_and(|v| g.constant(v).is_none())
    })
}

/// Why a node's tiling stays on the host; `None` if it goes to the device.
fn refuse(
    toolbox: &Toolbox,
    options: &Options,
    placements: &BTreeMap<String, BTreeSet<String>>,
    g: &ge_ir::Graph,
    n: &Node,
) -> Option<String> {
    if !options.tiling_sink {
        return Some(format!("option {OPTION} is not 1"));
    }
    let soc = &toolbox.target.soc;
    if toolbox.target.online && !soc.model_task_update {
        return Some(format!("device {} cannot update tasks of a model", soc.name));
    }
    if !placements.get(n.op()).is_some_and(|p| p.contains("aicpu")) {
        return Some(format!("no engine has a tiling function of {} for the device (TILING_ON_AICPU)", n.op()));
    }
    let unknown = |d: &ge_ir::TensorDesc| d.shape.sizes().is_none();
    let inputs = (0..n.inputs().len()).filter_map(|i| g.input_desc(n, i)).any(unknown);
    if inputs || n.outputs().iter().any(unknown) {
        return Some("its shapes are not all known: tiling sink is for static graphs".into());
    }
    None
}

fn fault(n: &Node, attribute: &str, why: &str) -> Diagnostic {
    Diagnostic::error(format!("`{}` ({}) has `{attribute}`: {why}", n.name(), n.op()))
        .code(ge_codes::TILING_SINK)
        .node(n.name(), n.op())
        .subject(attribute)
        .help(format!("remove the attribute, or change {OPTION}"))
}
