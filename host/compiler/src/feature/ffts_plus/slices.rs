//! The nodes of a body for one slice: the same operators, in which each value that is cut has only
//! the slice's elements along its axis.
use super::body::{Body, broken, loose};
use crate::error::Result;
use ge_ir::graph::Loose;
use ge_ir::{Graph, Key, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::author::slices::{Cut, EXTENT, INPUT_AXES, OUTPUT_AXES, ROWS, WINDOW};
use std::collections::HashMap;

/// Where a value of a slice graph comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum From {
    /// An input of the call, whole or sliced.
    Input {
        /// Index of the input.
        index: u32,
        /// Whether the input is sliced.
        cut: bool,
    },
    /// An output of a node of the body.
    Node {
        /// Position of the node among the body's nodes with a kernel.
        member: u32,
        /// Index of the output.
        output: u32,
    },
}

/// A node with a kernel.
#[derive(Debug)]
pub struct Member {
    /// Id of the node in the slice's graph.
    pub node: NodeId,
    /// Name of the node in the model.
    pub name: String,
    /// Where its inputs come from; `None` for absent inputs.
    pub inputs: Vec<Option<From>>,
    /// Members that it waits for without reading them.
    pub after: Vec<u32>,
}

/// The nodes of a body for one slice.
#[derive(Debug)]
pub struct Sliced {
    /// The graph of one slice.
    pub graph: Graph,
    /// Nodes with a kernel, in order.
    pub members: Vec<Member>,
    /// Outputs of the call, each as a member and its output index.
    pub outputs: Vec<(u32, u32)>,
}

/// The cut that the body's attributes state. Fails if it is missing or inconsistent.
pub fn cut_of(body: &Body) -> Result<Cut> {
    let get = |key: &str| body.graph.attrs().get(Key::new(key)).and_then(|v| u64::try_from(v.as_int()?).ok());
    let cut = get(EXTENT).zip(get(ROWS)).zip(get(WINDOW)).map(|((extent, rows), window)| Cut { extent, rows, window });
    cut.filter(Cut::holds).ok_or_else(|| broken(&body.call))
}

/// Builds the slice of `rows` elements. `constants` holds the call's inputs that are constants, by
/// index. The names of the nodes end in `suffix`.
pub fn slice(body: &Body, constants: &HashMap<u32, Loose>, rows: u64, name: &str, suffix: &str) -> Result<Sliced> {
    let lost = || broken(&body.call);
    let g = &body.graph;
    let mut out = Sliced { graph: Graph::new(name), members: Vec::new(), outputs: Vec::new() };
    let index_of = |n: &Node| n.attrs().int("index").and_then(|i| u32::try_from(i).ok());
    let mut at: HashMap<NodeId, u32> = HashMap::new();
    let mut given: HashMap<From, NodeId> = HashMap::new();
    let mut made: Vec<NodeId> = Vec::new();
    for n in g.nodes().filter(|n| n.op() != "Data") {
        let axes = n.attrs().ints(INPUT_AXES).unwrap_or(&[]);
        let mut inputs = Vec::with_capacity(n.inputs().len());
        let mut values = Vec::with_capacity(n.inputs().len());
        for (i, v) in n.inputs().iter().enumerate() {
            if v.is_absent() {
                inputs.push(None);
                values.push(*v);
                continue;
            }
            let producer = g.get(v.node).ok_or_else(lost)?;
            let axis = axes.get(i).and_then(|a| usize::try_from(*a).ok());
            let from = match at.get(&v.node) {
                Some(member) => From::Node { member: *member, output: v.output },
                None => From::Input { index: index_of(producer).ok_or_else(lost)?, cut: axis.is_some() },
            };
            let value = match from {
                From::Node { member, output } => ValueRef::new(made[member as usize], output),
                From::Input { index, .. } => {
                    let id = match given.get(&from) {
                        Some(id) => *id,
                        None => {
                            let desc = producer.outputs().first().ok_or_else(lost)?;
                            let new = match (axis, constants.get(&index)) {
                                (None, Some(c)) => Loose { name: format!("{}{suffix}", c.name), ..constant(c) },
                                (axis, _) => data(&body.call, desc, index, axis.map(|a| (a, rows)), suffix),
                            };
                            let id = out.graph.push(new).ok_or_else(lost)?;
                            given.insert(from, id);
                            id
                        }
                    };
                    ValueRef::new(id, 0)
                }
            };
            inputs.push(Some(from));
            values.push(value);
        }
        if n.op() == "NetOutput" {
            let end = |f: &Option<From>| match f {
                Some(From::Node { member, output }) => Ok((*member, *output)),
                _ => Err(lost()),
            };
            out.outputs = inputs.iter().map(end).collect::<Result<_>>()?;
            continue;
        }
        let axes = n.attrs().ints(OUTPUT_AXES).unwrap_or(&[]);
        let mut copy = loose(n);
        copy.name = format!("{}{suffix}", n.name());
        copy.inputs = values;
        copy.controls = Vec::new();
        for (d, axis) in copy.outputs.iter_mut().zip(axes) {
            shorten(d, usize::try_from(*axis).map_err(|_| lost())?, rows).ok_or_else(lost)?;
        }
        if axes.len() != n.outputs().len() {
            return Err(lost());
        }
        let node = out.graph.push(copy).ok_or_else(lost)?;
        let after = n.controls().iter().filter_map(|c| at.get(c).copied()).collect();
        at.insert(n.id(), made.len() as u32);
        made.push(node);
        out.members.push(Member { node, name: n.name().to_owned(), inputs, after });
    }
    Ok(out)
}

fn constant(c: &Loose) -> Loose {
    Loose {
        op: c.op,
        name: c.name.clone(),
        inputs: Vec::new(),
        controls: Vec::new(),
        outputs: c.outputs.clone(),
        attrs: c.attrs.clone(),
    }
}

fn data(call: &str, desc: &TensorDesc, index: u32, cut: Option<(usize, u64)>, suffix: &str) -> Loose {
    let mut desc = desc.clone();
    let part = if cut.is_some() { "slice" } else { "input" };
    if let Some((axis, rows)) = cut {
        shorten(&mut desc, axis, rows);
    }
    let mut attrs = ge_ir::AttrMap::default();
    attrs.set("index", i64::from(index));
    Loose {
        op: Key::new("Data"),
        name: format!("{call}/{part}_{index}{suffix}"),
        inputs: Vec::new(),
        controls: Vec::new(),
        outputs: vec![desc],
        attrs,
    }
}

/// Reduces a descriptor to `rows` elements along one axis. `None` if that is not possible.
fn shorten(d: &mut TensorDesc, axis: usize, rows: u64) -> Option<()> {
    let mut dims = d.shape.sizes_i64()?;
    *dims.get_mut(axis)? = i64::try_from(rows).ok()?;
    d.shape = ge_plugin_api::types::Shape::from_i64(&dims);
    if let ge_plugin_api::abi::ROption::RSome(o) = &mut d.origin {
        o.shape = d.shape.clone();
    }
    Some(())
}
