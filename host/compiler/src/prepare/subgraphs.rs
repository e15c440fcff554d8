//! Passes descriptors between a control node and its subgraphs: down to their Data nodes, and up
//! from their NetOutput (DESIGN 3.2).
use super::branches::{Unsound, is_choice};
use ge_ir::{AttrValue, Dim, Graph, Model, NodeId, Shape, TensorDesc};
use ge_model::gears::BATCH_NUM;

/// Number of inputs of a control node before those of its subgraphs; `None` if the operator type is
/// not supported.
pub(crate) fn own_inputs(op: &str) -> Option<usize> {
    match op {
        "If" | "StatelessIf" | "Case" | "StatelessCase" => Some(1),
        "While" | "StatelessWhile" | "PartitionedCall" => Some(0),
        // The body of a For takes the index in place of the third input.
        "For" => Some(3),
        _ => None,
    }
}

/// Whether a node's subgraph runs again on its own outputs.
pub(super) fn is_loop(op: &str) -> bool {
    matches!(op, "While" | "StatelessWhile" | "For")
}

/// Sets the inputs of a node's subgraphs to what is known of the node's inputs. Returns the
/// subgraphs.
pub(super) fn enter(model: &mut Model, gi: usize, id: NodeId) -> Vec<usize> {
    let g = &model.graphs()[gi];
    let Some(n) = g.get(id) else { return Vec::new() };
    let Some(own) = own_inputs(n.op()) else { return Vec::new() };
    let subs: Vec<usize> = n.subgraphs().into_iter().filter_map(|s| model.graph_index(s)).collect();
    let mut given: Vec<Option<TensorDesc>> = (own..n.inputs().len()).map(|i| g.input_desc(n, i).cloned()).collect();
    if n.op() == "For" {
        given.insert(0, g.input_desc(n, 0).cloned());
    }
    for &s in &subs {
        give(&mut model.graphs_mut()[s], &given);
    }
    subs
}

/// Sets the descriptors of a subgraph's inputs, as far as they are known.
pub(super) fn give(sub: &mut Graph, given: &[Option<TensorDesc>]) {
    let data: Vec<(NodeId, i64)> =
        sub.data_nodes().iter().map(|d| (d.id(), d.attrs().int("index").unwrap_or(0))).collect();
    for (d, index) in data {
        let known = usize::try_from(index).ok().and_then(|k| given.get(k)?.clone());
        if let Some(desc) = known.filter(|d| !d.shape.is_unranked()) {
            sub.set_outputs(d, vec![desc]);
        }
    }
}

/// A descriptor that holds for both: sizes that differ become unknown, and so does the shape if the
/// ranks differ.
pub(crate) fn join(a: &TensorDesc, b: &TensorDesc) -> TensorDesc {
    let mut out = a.clone();
    if out.dtype == ge_ir::DType::UNKNOWN {
        out.dtype = b.dtype;
    }
    match (a.shape.rank(), b.shape.rank()) {
        (Some(x), Some(y)) if x == y => {
            let one = |(p, q): (&Dim, &Dim)| if p.same(*q) { *p } else { Dim::UNKNOWN };
            out.shape = Shape::new(a.shape.dims().iter().zip(b.shape.dims()).map(one).collect::<Vec<_>>());
        }
        _ => out.shape = Shape::unranked(),
    }
    out
}

/// The descriptor with the most bytes; the first one on a tie.
fn largest(first: &TensorDesc, rest: &[&TensorDesc]) -> TensorDesc {
    let more = |a, b: &TensorDesc| if b.data_bytes() > TensorDesc::data_bytes(&a) { b.clone() } else { a };
    rest.iter().fold(first.clone(), |a, b| more(a, b))
}

/// The graph that a loop repeats.
pub(super) fn body(model: &Model, gi: usize, id: NodeId) -> Option<usize> {
    match model.graphs()[gi].get(id)?.attr("body")? {
        AttrValue::Graph(g) => model.graph_index(g),
        _ => None,
    }
}

/// A graph and all graphs that it calls, directly or indirectly, as a model of its own.
pub(super) fn subtree(model: &Model, root: usize) -> Option<Model> {
    let mut list = vec![root];
    let mut at = 0;
    while at < list.len() {
        let named = model.graphs()[list[at]].nodes().flat_map(|n| n.subgraphs()).filter_map(|s| model.graph_index(s));
        for s in named.collect::<Vec<_>>() {
            if !list.contains(&s) {
                list.push(s);
            }
        }
        at += 1;
    }
    Model::from_graphs(list.into_iter().map(|i| model.graphs()[i].clone()).collect())
}

/// Sets a node's outputs from what its subgraphs return: for branches what holds for all of them,
/// for a loop `carried`. An unsound branch never ends, so it says nothing about the node's results.
/// A graph that always reaches an unsound one is unsound itself.
pub(super) fn leave(model: &mut Model, gi: usize, id: NodeId, carried: Option<Vec<TensorDesc>>, unsound: &mut Unsound) {
    let Some(n) = model.graphs()[gi].get(id) else { return };
    if own_inputs(n.op()).is_none() {
        return;
    }
    let called: Vec<usize> = n.subgraphs().into_iter().filter_map(|s| model.graph_index(s)).collect();
    let lost = called.iter().filter(|s| unsound.has(**s)).count();
    // Every gear has to fit.
    let free = is_choice(n.op()) && n.attr(BATCH_NUM).is_none();
    if lost > 0 && (lost == called.len() || !free) {
        unsound.add(gi);
    }
    let ends = |s: &usize| lost == called.len() || !unsound.has(*s);
    let mut outs = n.outputs().to_vec();
    if is_loop(n.op()) {
        for (out, d) in outs.iter_mut().zip(carried.unwrap_or_default()) {
            *out = TensorDesc { attrs: out.attrs.clone(), ..d };
        }
    } else {
        // Each gear writes its own sizes at the beginning of memory that has room for the largest.
        let gears = n.attr(BATCH_NUM).is_some();
        let subs: Vec<&Graph> = called.iter().filter(|s| ends(s)).map(|s| &model.graphs()[*s]).collect();
        for (k, out) in outs.iter_mut().enumerate() {
            let said: Option<Vec<&TensorDesc>> = subs.iter().map(|s| s.input_desc(s.net_output()?, k)).collect();
            let Some((first, rest)) = said.as_deref().and_then(<[_]>::split_first) else { continue };
            let all = if gears && said.iter().flatten().all(|d: &&TensorDesc| d.is_static()) {
                largest(first, rest)
            } else {
                rest.iter().fold((*first).clone(), |a, b| join(&a, b))
            };
            *out = TensorDesc { attrs: out.attrs.clone(), ..all };
        }
    }
    model.graphs_mut()[gi].set_outputs(id, outs);
}
