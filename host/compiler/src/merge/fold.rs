//! Turns a subgraph into one node if its composite engine requests it with the graph attribute
//! `_composite_node = "TYPE"`.
//!
//! The node has the name of the subgraph. Its inputs are the subgraph's data PlaceHolders, and its
//! outputs are the distinct values that its Ends read. The nodes of the subgraph become the body, a
//! graph that the attribute `f` names. The body is not cut again (`no_need_partition`), unless it
//! was cut by shape. Attributes that the engine has set on the subgraph stay on the body.
use crate::error::{CompileError, Result};
use crate::partition::cut::NO_PARTITION;
use crate::partition::{Piece, pieces};
use crate::toolbox::Toolbox;
use ge_ir::graph::Loose;
use ge_ir::{AttrMap, AttrValue, Graph, Key, NodeId, ValueRef};

/// Returns the subgraph as a piece with one node between its PlaceHolders and Ends, and appends the
/// body to `bodies`.
pub fn fold(p: Piece, toolbox: &Toolbox, bodies: &mut Vec<Graph>) -> Result<Piece> {
    let name = p.graph.name().to_owned();
    let broken = || CompileError::internal("merge", format!("subgraph `@{name}` cannot become one node"));
    let op = Key::new(pieces::composite_node(p.graph.attrs()).unwrap_or("PartitionedCall"));
    let place = p.graph.order().iter().map(|id| p.place(*id)).min().unwrap_or(pieces::NEW);
    let (holder, end, data) = (Key::new("PlaceHolder"), Key::new("End"), Key::new("Data"));
    let mut body = Graph::new(&name);
    let mut outer = Piece { graph: Graph::new(&name), engine: p.engine, ..Piece::default() };
    // Outputs: the distinct values that Ends read.
    let mut values: Vec<ValueRef> = Vec::new();
    for v in p.graph.nodes().filter(|n| n.op_key() == end).flat_map(|e| e.inputs()).filter(|v| !v.is_absent()) {
        if !values.contains(v) {
            values.push(*v);
        }
    }
    let outputs = values.iter().map(|v| p.graph.desc(*v).cloned().ok_or_else(broken)).collect::<Result<Vec<_>>>()?;
    let mut inner = vec![NodeId::NONE; p.graph.id_bound()];
    let (mut attrs, nodes) = p.graph.into_nodes();
    attrs.remove(Key::new("_composite_node"));
    // Parts of a graph that was cut by shape are later cut by engine.
    if attrs.get("_is_unknown_shape").is_none() {
        attrs.set(NO_PARTITION, true);
    }
    *body.attrs_mut() = attrs;
    let mut call =
        Loose { op, name: name.clone(), inputs: Vec::new(), controls: Vec::new(), outputs, attrs: AttrMap::default() };
    let mut ends: Vec<Loose> = Vec::new();
    for (id, mut n) in nodes {
        if n.op == end {
            ends.push(n);
            continue;
        }
        if n.op == holder {
            let outside = outer.graph.push(n.clone()).ok_or_else(broken)?;
            outer.origin.push(pieces::NEW);
            if n.outputs.is_empty() {
                call.controls.push(outside);
                continue;
            }
            let mut attrs = AttrMap::default();
            attrs.set("index", call.inputs.len() as i64);
            call.inputs.push(ValueRef::new(outside, 0));
            inner[id.index()] = body
                .push(Loose {
                    op: data,
                    name: n.name,
                    inputs: Vec::new(),
                    controls: Vec::new(),
                    outputs: n.outputs,
                    attrs,
                })
                .ok_or_else(broken)?;
            continue;
        }
        for v in n.inputs.iter_mut().filter(|v| !v.is_absent()) {
            v.node = inner[v.node.index()];
        }
        n.controls = n.controls.iter().map(|c| inner[c.index()]).filter(|c| *c != NodeId::NONE).collect();
        inner[id.index()] = body.push(n).ok_or_else(broken)?;
    }
    body.push(Loose {
        op: Key::new("NetOutput"),
        name: format!("{name}/NetOutput"),
        inputs: values.iter().map(|v| ValueRef::new(inner[v.node.index()], v.output)).collect(),
        controls: Vec::new(),
        outputs: Vec::new(),
        attrs: AttrMap::default(),
    })
    .ok_or_else(broken)?;
    call.attrs.set("f", AttrValue::Graph(name.as_str().into()));
    if let Some(e) = p.engine {
        let info = &toolbox.engine(e).info;
        call.attrs.set("_engine", info.name.clone());
        call.attrs.set("_op_kernel_lib", info.kernel_lib.clone());
    }
    let call = outer.graph.push(call).ok_or_else(broken)?;
    outer.origin.push(place);
    for mut e in ends {
        for v in e.inputs.iter_mut().filter(|v| !v.is_absent()) {
            let output = values.iter().position(|w| w == v).unwrap_or(0);
            *v = ValueRef::new(call, output as u32);
        }
        if e.inputs.is_empty() {
            e.controls = vec![call];
        }
        outer.graph.push(e).ok_or_else(broken)?;
        outer.origin.push(pieces::NEW);
    }
    bodies.push(body);
    Ok(outer)
}
