//! Re-assignment: a node whose kernel its engine cannot compile after all goes to the next engine that takes it.
//!
//! An op store says yes before the compiler has seen the node (003 §6.1: operators are compiled behind the partition); what the
//! compiler refuses is no failure of the model while another engine takes the node (facts 4.5, CompileNodesPass: engine fallback).
//! Bound nodes stay: `_engine` that was given in the model is asked for by the user.
use super::Placement;
use crate::error::{CompileError, Result};
use crate::ids::NodeKey;
use crate::pass::Records;
use crate::toolbox::{EngineRanks, Toolbox};
use ge_ir::Model;
use ge_ir::view::GraphContext;
use ge_plugin_api::Error;
use ge_plugin_api::engine::Support;
use std::collections::HashSet;

/// What an engine refused to compile, and why.
pub type Refused = Vec<(NodeKey, Error)>;

/// Names of the nodes that the model binds to an engine.
pub fn bound(model: &Model) -> HashSet<String> {
    let given = model.graphs().iter().flat_map(|g| g.nodes()).filter(|n| n.attr("_engine").is_some());
    given.map(|n| n.name().to_owned()).collect()
}

/// Writes another engine on each refused node; why the first was left is kept with the refusals of `EnginePlacer`.
///
/// # Errors
/// The engine's own, with what the others said, where none takes the node.
pub fn run(
    model: &mut Model,
    placement: &Placement,
    toolbox: &Toolbox,
    refused: Refused,
    bound: &HashSet<String>,
    records: &mut Records,
) -> Result<()> {
    let ranks = EngineRanks::new(toolbox)?;
    for (key, mut error) in refused {
        let first = placement.engine[key];
        let next = {
            let Some(n) = key.get(model) else { continue };
            let context = GraphContext::new(model, key.graph as usize);
            let view = context.graph();
            let list = if bound.contains(n.name()) { &[][..] } else { ranks.of(n.op_key()) };
            let behind = list.iter().position(|e| *e == first).map_or(&[][..], |i| &list[i + 1..]);
            let mut taken = None;
            for id in behind {
                let e = toolbox.engine(*id);
                let why = match &e.excluded {
                    Some(why) => why.clone(),
                    None => match e.object.supports(&view.node(key.node))? {
                        Support::Yes => {
                            taken = Some(*id);
                            break;
                        }
                        Support::No(r) => r.into(),
                    },
                };
                error = error.with(|d| d.note(format!("asked: {} ({why})", e.info.name)));
            }
            taken
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
