//! Merge. In: `Pieces`. Out: whole graphs again (facts 3.4). PlaceHolder and End are gone, each
//! reader reads what the End read, and nodes stand where they stood. If no engine edits anything,
//! the result equals the model that was cut, byte for byte.

/// Turns a subgraph into one node if its engine requests it.
pub mod fold;

use crate::error::{CompileError, Result};
use crate::ids::NodeKey;
use crate::partition::pieces::{NEW, composite_node};
use crate::partition::{Frame, Piece, Pieces};
use crate::toolbox::{EngineId, Toolbox};
use ge_ir::graph::Loose;
use ge_ir::{Graph, Key, Model, NodeId, ValueRef};
use ge_plugin_api::diagnostic::Diagnostic;
use std::collections::HashMap;

/// Merges the graphs. Subgraphs that became one node follow all other graphs.
///
/// Fails if an engine has removed the End of a PlaceHolder, or has made its subgraphs wait for each
/// other in a circle.
pub fn run(pieces: Pieces, toolbox: &Toolbox) -> Result<Merged> {
    let mut graphs = Vec::with_capacity(pieces.frames.len());
    let mut bodies = Vec::new();
    let mut folded = false;
    let mut touched = Vec::new();
    for (gi, mut f) in pieces.frames.into_iter().enumerate() {
        if f.pieces.is_empty() {
            graphs.push(f.rest.graph);
        } else {
            bodies.extend(f.pieces.iter_mut().flat_map(|p| std::mem::take(&mut p.bodies)));
            folded |= f.pieces.iter().any(|p| composite_node(p.graph.attrs()).is_some());
            graphs.push(join(f, gi, toolbox, &mut bodies, &mut touched)?);
        }
    }
    graphs.extend(bodies);
    let model = Model::from_graphs(graphs).ok_or_else(|| CompileError::internal("merge", "no graph"))?;
    Ok(Merged { model, touched, folded })
}

/// Result of the merge.
pub struct Merged {
    /// The model with whole graphs.
    pub model: Model,
    /// Nodes that engines have added or changed in their subgraphs.
    pub touched: Vec<(EngineId, NodeKey)>,
    /// Whether a subgraph has become one node.
    pub folded: bool,
}

/// A node of some subgraph before it has its place. Its inputs refer to nodes by their ids in the
/// subgraph; [`resolve`] turns these into numbers that count over all subgraphs.
struct Flat {
    node: Loose,
    /// Position in the old order, and 0 for added nodes, which stand before the node of that
    /// position, or 1 for the node itself.
    key: (u32, u8),
}

struct Keys {
    peer: Key,
    parent: Key,
    anchor: Key,
    place_holder: Key,
    end: Key,
}

/// The nodes of one subgraph, numbered from `base`.
struct Side {
    base: u32,
    /// Number of each node, indexed by its id in the subgraph.
    of: Vec<u32>,
    name: String,
    engine: Option<EngineId>,
}

fn join(
    f: Frame,
    gi: usize,
    toolbox: &Toolbox,
    bodies: &mut Vec<Graph>,
    touched: &mut Vec<(EngineId, NodeKey)>,
) -> Result<Graph> {
    let keys = Keys {
        peer: Key::new("peerIndex"),
        parent: Key::new("_parentNodeName"),
        anchor: Key::new("anchorIndex"),
        place_holder: Key::new("PlaceHolder"),
        end: Key::new("End"),
    };
    let name = f.rest.graph.name().to_owned();
    let mut flats: Vec<Flat> = Vec::new();
    let mut sides: Vec<Side> = Vec::new();
    let mut attrs = Default::default();
    let mut marked: Vec<(EngineId, u32)> = Vec::new();
    let all = std::iter::once(f.rest).chain(f.pieces);
    for (k, p) in all.enumerate() {
        let p = match composite_node(p.graph.attrs()) {
            Some(_) if k > 0 => fold::fold(p, toolbox, bodies)?,
            _ => p,
        };
        let changed = p.touched.clone();
        let (a, side) = take(p, &mut flats);
        let flat = |id: NodeId| side.of.get(id.index()).copied().filter(|i| *i != u32::MAX);
        let engine = side.engine;
        marked.extend(changed.into_iter().filter_map(|id| Some((engine?, flat(id)?))));
        if k == 0 {
            attrs = a;
        }
        sides.push(side);
    }
    let ends = ends(&flats, &keys);
    let names: HashMap<String, u32> = (sides[0].base..sides.get(1).map_or(flats.len() as u32, |s| s.base))
        .filter(|i| flats[*i as usize].node.op != keys.end && flats[*i as usize].node.op != keys.place_holder)
        .map(|i| (flats[i as usize].node.name.clone(), i))
        .collect();
    let resolved = resolve(&flats, &sides, &ends, &names, &keys, toolbox)?;
    let order = order(&flats, &resolved, &keys).ok_or_else(|| {
        Diagnostic::error(format!(
            "the subgraphs of `@{name}` wait for each other in a circle after the engines' edits"
        ))
        .help("disable the engine's plugin in plugins.toml, or tell its author")
        .raise(ge_codes::PLUGIN_EDIT)
    })?;
    let mut g = Graph::new(&name);
    *g.attrs_mut() = attrs;
    let mut id_of = vec![NodeId::NONE; flats.len()];
    let mut nodes: Vec<Option<Loose>> = flats.into_iter().map(|f| Some(f.node)).collect();
    for i in order {
        let Some(mut n) = nodes[i as usize].take() else { continue };
        let (inputs, controls) = &resolved[i as usize];
        n.inputs = inputs
            .iter()
            .map(|v| if v.is_absent() { *v } else { ValueRef::new(id_of[v.node.index()], v.output) })
            .collect();
        n.controls = controls.iter().map(|c| id_of[c.index()]).collect();
        id_of[i as usize] = g
            .push(n)
            .ok_or_else(|| CompileError::internal("merge", format!("graph `@{name}` does not fit together")))?;
    }
    let there = |i: u32| Some(id_of[i as usize]).filter(|id| *id != NodeId::NONE);
    touched.extend(marked.into_iter().filter_map(|(e, i)| Some((e, NodeKey::new(gi, there(i)?)))));
    Ok(g)
}

/// Appends the nodes of a subgraph to `flats`; edges keep the subgraph's own ids.
fn take(p: Piece, flats: &mut Vec<Flat>) -> (ge_ir::AttrMap, Side) {
    let base = flats.len() as u32;
    let mut side =
        Side { base, of: vec![u32::MAX; p.graph.id_bound()], name: p.graph.name().to_owned(), engine: p.engine };
    let Piece { graph, origin, .. } = p;
    let net = graph.net_output().map(|n| n.id());
    let (attrs, nodes) = graph.into_nodes();
    let nodes: Vec<(NodeId, Loose)> = nodes.collect();
    let place = |id: NodeId| origin.get(id.index()).copied().unwrap_or(NEW);
    // A node that an engine has added stands before the next old node.
    let mut keys: Vec<(u32, u8)> = Vec::with_capacity(nodes.len());
    let mut next = NEW;
    for (id, _) in nodes.iter().rev() {
        let own = place(*id);
        if own != NEW {
            next = own;
        }
        keys.push(match own {
            NEW => (next, 0),
            // NetOutput closes the graph, whatever nodes engines have put after their last one.
            _ if net == Some(*id) => (NEW, 1),
            _ => (own, 1),
        });
    }
    for ((id, node), key) in nodes.into_iter().zip(keys.into_iter().rev()) {
        side.of[id.index()] = flats.len() as u32;
        flats.push(Flat { node, key });
    }
    (attrs, side)
}

/// The End of each pair, by the pair's number.
fn ends(flats: &[Flat], keys: &Keys) -> HashMap<i64, u32> {
    let peer = |f: &Flat| f.node.attrs.int(keys.peer);
    (0u32..).zip(flats).filter(|(_, f)| f.node.op == keys.end).filter_map(|(i, f)| Some((peer(f)?, i))).collect()
}

type Edges = (Vec<ValueRef>, Vec<NodeId>);

/// Inputs and control inputs of every node by number. PlaceHolders are replaced by what they stand
/// for.
fn resolve(
    flats: &[Flat],
    sides: &[Side],
    ends: &HashMap<i64, u32>,
    names: &HashMap<String, u32>,
    keys: &Keys,
    toolbox: &Toolbox,
) -> Result<Vec<Edges>> {
    let side_of = |i: u32| &sides[sides.partition_point(|s| s.base <= i) - 1];
    let lost = |i: u32, what: &str| {
        let s = side_of(i);
        let f = &flats[i as usize].node;
        let parent = f.attrs.str(keys.parent).unwrap_or("?");
        let who = s.engine.map_or("the text".to_owned(), |e| {
            let e = toolbox.engine(e);
            format!("engine {} of plugin {}", e.info.name, e.plugin)
        });
        let d = Diagnostic::error(format!("`{}` in subgraph `@{}` stands for `{parent}`, {what}", f.name, s.name))
            .note(format!("the subgraph was last changed by {who}"))
            .help("an engine may change its subgraph, but not take away what another one reads of it");
        CompileError::model(if s.engine.is_some() { ge_codes::PLUGIN_EDIT } else { ge_codes::TEXT_FORM }, d)
    };
    // What a PlaceHolder stands for: a node of the frame, or what its End reads, followed through
    // all subgraphs that only pass it on.
    let behind = |start: u32| -> Result<(Vec<ValueRef>, Vec<NodeId>)> {
        let mut at = start;
        for _ in 0..=sides.len() {
            let f = &flats[at as usize].node;
            let peer = f.attrs.int(keys.peer).unwrap_or(-1);
            let Some(&end) = ends.get(&peer) else {
                let parent = f.attrs.str(keys.parent).and_then(|p| names.get(p));
                let Some(&node) = parent else { return Err(lost(at, "whose End is gone")) };
                return Ok(match f.attrs.int(keys.anchor).and_then(|a| u32::try_from(a).ok()) {
                    Some(output) => (vec![ValueRef::new(NodeId(node), output)], Vec::new()),
                    None => (Vec::new(), vec![NodeId(node)]),
                });
            };
            let of = &side_of(end).of;
            let e = &flats[end as usize].node;
            let number = |id: NodeId| of.get(id.index()).copied().unwrap_or(u32::MAX);
            match e.inputs.first() {
                Some(v) if !v.is_absent() => {
                    let n = number(v.node);
                    if flats[n as usize].node.op == keys.place_holder {
                        at = n;
                        continue;
                    }
                    return Ok((vec![ValueRef::new(NodeId(n), v.output)], Vec::new()));
                }
                Some(_) => return Err(lost(start, "whose End reads nothing")),
                None => return Ok((Vec::new(), e.controls.iter().map(|c| NodeId(number(*c))).collect())),
            }
        }
        Err(lost(start, "which is handed round in a circle"))
    };
    let mut out: Vec<Edges> = Vec::with_capacity(flats.len());
    for (k, s) in sides.iter().enumerate() {
        let until = sides.get(k + 1).map_or(flats.len(), |s| s.base as usize);
        for f in &flats[s.base as usize..until] {
            let mut inputs = Vec::with_capacity(f.node.inputs.len());
            let mut controls = Vec::with_capacity(f.node.controls.len());
            if f.node.op != keys.end {
                for v in &f.node.inputs {
                    if v.is_absent() {
                        inputs.push(*v);
                        continue;
                    }
                    let n = s.of[v.node.index()];
                    if flats[n as usize].node.op == keys.place_holder {
                        match behind(n)?.0.first() {
                            Some(v) => inputs.push(*v),
                            None => return Err(lost(n, "whose End reads nothing")),
                        }
                    } else {
                        inputs.push(ValueRef::new(NodeId(n), v.output));
                    }
                }
                let mut todo: Vec<u32> = f.node.controls.iter().rev().map(|c| s.of[c.index()]).collect();
                while let Some(n) = todo.pop() {
                    if flats[n as usize].node.op == keys.place_holder {
                        let (data, waits) = behind(n)?;
                        let found = data.iter().map(|v| v.node).chain(waits);
                        let mut found: Vec<u32> = found.map(|c| c.0).collect();
                        found.reverse();
                        todo.extend(found);
                    } else if !controls.contains(&NodeId(n)) {
                        controls.push(NodeId(n));
                    }
                }
            }
            out.push((inputs, controls));
        }
    }
    Ok(out)
}

/// The nodes without PlaceHolders and Ends, in their old order. A node that must come earlier
/// stands just before its first reader. `None` if there is a circle.
fn order(flats: &[Flat], edges: &[Edges], keys: &Keys) -> Option<Vec<u32>> {
    let joint = |i: u32| {
        let op = flats[i as usize].node.op;
        op == keys.end || op == keys.place_holder
    };
    let mut seeds: Vec<u32> = (0..flats.len() as u32).filter(|i| !joint(*i)).collect();
    seeds.sort_by_key(|&i| flats[i as usize].key);
    let deps = |i: u32, k: usize| {
        let (inputs, controls) = &edges[i as usize];
        match inputs.get(k) {
            Some(v) if v.is_absent() => Some(u32::MAX),
            Some(v) => Some(v.node.0),
            None => controls.get(k - inputs.len()).map(|c| c.0),
        }
    };
    let (open, done) = (1u8, 2u8);
    let mut state = vec![0u8; flats.len()];
    let mut out = Vec::with_capacity(seeds.len());
    let mut stack: Vec<(u32, usize)> = Vec::new();
    for seed in seeds {
        if state[seed as usize] != 0 {
            continue;
        }
        state[seed as usize] = open;
        stack.push((seed, 0));
        while let Some((i, k)) = stack.pop() {
            match deps(i, k) {
                None => {
                    state[i as usize] = done;
                    out.push(i);
                }
                Some(d) => {
                    stack.push((i, k + 1));
                    if d != u32::MAX {
                        match state[d as usize] {
                            0 => {
                                state[d as usize] = open;
                                stack.push((d, 0));
                            }
                            s if s == open => return None,
                            _ => {}
                        }
                    }
                }
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;
