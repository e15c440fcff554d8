//! Which nodes composite engines take (facts 3.2). The engines are asked about each node in order
//! of cost, then of plugins, and the first that takes it gets it. A node without a task follows its
//! inputs if they all agree; a node that calls subgraphs follows the nodes in them. No engine takes
//! NetOutput.
use crate::error::Result;
use crate::ids::{ModelMap, NodeKey};
use crate::place::Placement;
use crate::toolbox::{EngineId, Toolbox};
use ge_ir::{Key, Model, Node};
use ge_plugin_api::engine::flags;
use std::collections::HashSet;

/// Maximum nesting depth of subgraphs that is inspected.
const DEPTH: usize = 25;

/// Returns the composite engine of each node and writes it as `_composite_engine`. An engine given
/// by that attribute in the text is binding. Returns `None` if there is no composite engine, or
/// none takes a node.
pub fn claims(
    model: &mut Model,
    placement: &Placement,
    toolbox: &Toolbox,
) -> Result<Option<ModelMap<Option<EngineId>>>> {
    let mut engines: Vec<(EngineId, Option<HashSet<Key>>)> = Vec::new();
    for (i, e) in toolbox.engines.iter().enumerate() {
        if e.info.flags & flags::COMPOSITE == 0 || e.excluded.is_some() {
            continue;
        }
        let types = e.object.op_types()?;
        let all = types.iter().any(|t| t == "*");
        let types = types.iter().map(|t| Key::new(t)).collect();
        engines.push((EngineId(i as u16), if all { None } else { Some(types) }));
    }
    engines.sort_by_key(|(id, _)| (toolbox.engine(*id).info.cost, *id));
    if engines.is_empty() {
        return Ok(None);
    }
    let attr = Key::new("_composite_engine");
    let mut out = ModelMap::new(model, None);
    let mut any = false;
    for (gi, g) in model.graphs().iter().enumerate() {
        let context = toolbox.lend(model, gi);
        let view = context.graph();
        for n in g.nodes() {
            let key = NodeKey::new(gi, n.id());
            let given = n.attrs().str(attr).and_then(|e| toolbox.engine_named(e));
            let mut found = given.filter(|e| engines.iter().any(|(id, _)| id == e));
            for (id, types) in engines.iter().filter(|_| given.is_none()) {
                if types.as_ref().is_some_and(|t| !t.contains(&n.op_key())) || n.op() == "NetOutput" {
                    continue;
                }
                if toolbox.engine(*id).object.supports(&view.node(n.id()))?.takes() {
                    found = Some(*id);
                    break;
                }
            }
            any |= found.is_some();
            out[key] = found;
        }
    }
    if !any {
        return Ok(None);
    }
    follow(model, placement, toolbox, &mut out);
    for gi in 0..model.graphs().len() {
        for id in model.graphs()[gi].order().to_vec() {
            if let Some(e) = out[NodeKey::new(gi, id)] {
                let name = toolbox.engine(e).info.name.clone();
                model.graphs_mut()[gi].set_attr(id, attr, name);
            }
        }
    }
    Ok(Some(out))
}

/// Assigns nodes without a task the engine of their inputs, and nodes with subgraphs the engine of
/// these. Graphs are processed in reverse order, nested ones before those that call them.
fn follow(model: &Model, placement: &Placement, toolbox: &Toolbox, out: &mut ModelMap<Option<EngineId>>) {
    for gi in (0..model.graphs().len()).rev() {
        for n in model.graphs()[gi].nodes() {
            let key = NodeKey::new(gi, n.id());
            if out[key].is_some() || n.op() == "NetOutput" {
                continue;
            }
            let agreed = if n.subgraphs().is_empty() {
                let taskless = toolbox.engine(placement.engine[key]).info.flags & flags::NO_TASK != 0;
                if !taskless {
                    continue;
                }
                all(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| out[NodeKey::new(gi, v.node)]))
            } else {
                of_subgraphs(model, n, out, DEPTH)
            };
            out[key] = agreed;
        }
    }
}

fn of_subgraphs(model: &Model, n: &Node, out: &ModelMap<Option<EngineId>>, depth: usize) -> Option<EngineId> {
    if depth == 0 {
        return None;
    }
    let inner = n.subgraphs().into_iter().filter_map(|name| model.graph_index(name)).flat_map(|gi| {
        let nodes = model.graphs()[gi].nodes();
        nodes.filter(|n| !matches!(n.op(), "Data" | "NetOutput" | "Const" | "Constant")).map(move |n| (gi, n))
    });
    all(inner.map(|(gi, n)| {
        if n.subgraphs().is_empty() { out[NodeKey::new(gi, n.id())] } else { of_subgraphs(model, n, out, depth - 1) }
    }))
}

/// The engine that all entries have; `None` if they differ or there are none.
fn all(mut of: impl Iterator<Item = Option<EngineId>>) -> Option<EngineId> {
    let first = of.next()??;
    of.all(|e| e == Some(first)).then_some(first)
}
