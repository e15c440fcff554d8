//! Descriptors between a control node and its subgraphs: down to their Data nodes, up from their NetOutput (DESIGN 3.2).
use ge_ir::{Model, NodeId, TensorDesc};

/// Inputs of a control node before those of its subgraphs.
fn own_inputs(op: &str) -> Option<usize> {
    match op {
        "If" | "StatelessIf" | "Case" | "StatelessCase" => Some(1),
        "While" | "StatelessWhile" | "PartitionedCall" => Some(0),
        // Its body takes the index in place of the third.
        "For" => Some(3),
        _ => None,
    }
}

/// Gives the subgraphs of a node what is known of its inputs; the subgraphs.
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
        let sub = &mut model.graphs_mut()[s];
        let data: Vec<(NodeId, i64)> =
            sub.data_nodes().iter().map(|d| (d.id(), d.attrs().int("index").unwrap_or(0))).collect();
        for (d, index) in data {
            let known = usize::try_from(index).ok().and_then(|k| given.get(k)?.clone());
            if let Some(desc) = known.filter(|d| !d.shape.is_unranked()) {
                sub.set_outputs(d, vec![desc]);
            }
        }
    }
    subs
}

/// Gives a node what its subgraphs return, where all of them say the same.
pub(super) fn leave(model: &mut Model, gi: usize, id: NodeId) {
    let Some(n) = model.graphs()[gi].get(id) else { return };
    let Some(own) = own_inputs(n.op()) else { return };
    let mut outs = n.outputs().to_vec();
    let is_loop = n.op().ends_with("While") || n.op() == "For";
    let subs: Vec<&ge_ir::Graph> = if is_loop {
        n.attr("body")
            .and_then(|v| if let ge_ir::AttrValue::Graph(g) = v { model.graph(g) } else { None })
            .into_iter()
            .collect()
    } else {
        n.subgraphs().into_iter().filter_map(|s| model.graph(s)).collect()
    };
    for (k, out) in outs.iter_mut().enumerate() {
        let mut said = subs.iter().map(|s| {
            let o = s.net_output()?;
            s.input_desc(o, k)
        });
        let Some(Some(first)) = said.next() else { continue };
        let first = first.clone();
        // A loop that changes a shape has none that is known.
        let before = if is_loop { model.graphs()[gi].input_desc(n, own + k) } else { Some(&first) };
        let same = |d: Option<&TensorDesc>| d.is_some_and(|d| d.dtype == first.dtype && d.shape == first.shape);
        if same(before) && said.all(same) {
            *out = TensorDesc { attrs: out.attrs.clone(), ..first };
        } else if out.dtype == ge_ir::DType::UNKNOWN {
            out.dtype = first.dtype;
        }
    }
    model.graphs_mut()[gi].set_outputs(id, outs);
}
