//! Re-assignment: a node whose engine cannot compile its kernel goes to the next engine that takes
//! it.
//!
//! An op store accepts a node before the compiler has seen it (003 §6.1: operators are compiled
//! after the partition). If the compiler refuses the node, the model does not fail as long as
//! another engine takes it (facts 4.5, CompileNodesPass: engine fallback). Bound nodes stay,
//! because the user requested the `_engine` given in the model. A node that its engine refuses when
//! asked for sizes or tasks has no fallback, as in the original (facts 1.1: CalcOpParam and
//! GenerateTask end the build), because plans depend on the engine by then. The error names the
//! engine, its reason, and the engines that would take the node.
use super::Placement;
use crate::error::{CompileError, Result};
use crate::ids::NodeKey;
use crate::pass::Records;
use crate::toolbox::{EngineEntry, Toolbox};
use ge_ir::Model;
use ge_plugin_api::Error;
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::view::Node;
use std::collections::HashSet;

/// Nodes that an engine refused to compile, with the reasons.
pub type Refused = Vec<(NodeKey, Error)>;

/// Names of the nodes that the model binds to an engine.
pub fn bound(model: &Model) -> HashSet<String> {
    let given = model.graphs().iter().flat_map(|g| g.nodes()).filter(|n| n.attr("_engine").is_some());
    given.map(|n| n.name().to_owned()).collect()
}

/// Assigns another engine to each refused node. The reason why the first engine lost it is recorded
/// with the refusals of `EnginePlacer`.
///
/// # Errors
/// If no other engine takes a node, returns the first engine's error with the answers of the
/// others.
pub fn run(
    model: &mut Model,
    placement: &Placement,
    toolbox: &Toolbox,
    refused: Refused,
    bound: &HashSet<String>,
    records: &mut Records,
) -> Result<()> {
    let ranks = toolbox.ranks()?;
    for (key, mut error) in refused {
        let first = placement.engine[key];
        let next = {
            let Some(n) = key.get(model) else { continue };
            let context = toolbox.lend(model, key.graph as usize);
            let view = context.graph();
            if bound.contains(n.name()) {
                None
            } else {
                let mut said = Vec::new();
                let node = view.node(key.node);
                let refused = |e: &EngineEntry, why: &str| said.push(format!("asked: {} ({why})", e.info.name));
                let next = ranks.behind(toolbox, &node, first, refused)?.first().copied();
                for s in said {
                    error = error.with(|d| d.note(s));
                }
                next
            }
        };
        let from = toolbox.engine(first).info.name.to_string();
        let Some(next) = next else { return Err(CompileError::Plugin(error)) };
        let why = format!("its kernel was not compiled: {}", error.message());
        records.refuse(&key.name(model), &format!("EnginePlacer/{from}"), why);
        let info = &toolbox.engine(next).info;
        let g = &mut model.graphs_mut()[key.graph as usize];
        g.set_attr(key.node, "_engine", info.name.clone());
        g.set_attr(key.node, "_op_kernel_lib", info.kernel_lib.clone());
    }
    Ok(())
}

/// The error for a node that its engine took and now refuses to size or to generate tasks for. It
/// names the engine and suggests a remedy.
pub fn refused_late(error: Error, node: &Node<'_>, placement: &Placement, toolbox: &Toolbox, key: NodeKey) -> Error {
    let error = error.at_node(node.name(), node.op());
    if matches!(error.kind, ErrorKind::PANIC | ErrorKind::PLUGIN | ErrorKind::INTERNAL | ErrorKind::CANCELLED) {
        return error;
    }
    let first = toolbox.engine(placement.engine[key]);
    let others: Vec<String> = toolbox
        .ranks()
        .map(|ranks| ranks.of(node.op_key()).to_vec())
        .unwrap_or_default()
        .into_iter()
        .filter(|id| *id != placement.engine[key])
        .map(|id| toolbox.engine(id))
        .filter(|e| e.excluded.is_none() && e.object.supports(node).is_ok_and(|s| s.takes()))
        .map(|e| e.info.name.to_string())
        .collect();
    let (name, plugin) = (&first.info.name, &first.plugin);
    let help = match others.as_slice() {
        [] => "no other enabled engine takes the node: change what the reason names".to_owned(),
        [next, ..] => format!(
            "`exclude_engines = [\"{name}\"]` at plugin `{plugin}` in plugins.toml leaves such nodes to {}, `_engine = \"{next}\"` this one",
            others.join(", ")
        ),
    };
    let kind = error.kind;
    error.with(|mut d| {
        d.message = format!("engine {name} took the node and refuses it when it is built: {}", d.message).into();
        // Other kinds of failure keep the code of their kind.
        if d.code.is_empty() && kind == ge_codes::REFUSED_LATE.kind() {
            d.code = ge_codes::REFUSED_LATE.text().into();
        }
        if d.help.is_empty() {
            d.help = help.into();
        }
        d
    })
}
