//! The memory traffic and arithmetic of a node of a compiled model.
use crate::v2::view::OneNode;
use ge_model::{CompiledModel, ValueAt};
use ge_plugin::EngineHandle;
use ge_plugin_api::types::{DType, Key};
use ge_plugin_api::view::Node;

/// The work of one run of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeWork {
    /// Bytes of its distinct inputs and its outputs; 0 if a size is unknown.
    pub bytes: u64,
    /// Arithmetic operations as counted by the node's engine; 0 if the engine does not count them.
    pub operations: u64,
    /// Whether it computes on 8-bit values: its first input has an 8-bit type.
    pub on_bytes: bool,
    /// Whether it computes on bf16 values: its first input is bf16.
    pub on_bf16: bool,
}

/// The work of node `node` of graph `graph`.
pub fn of(engine: &EngineHandle, m: &CompiledModel, graph: u32, node: u32) -> Option<NodeWork> {
    of_node(m, graph, node, |n| {
        let inputs: Vec<_> = (0..n.inputs().len()).filter_map(|i| Some((n.inputs()[i], n.input_desc(i)?))).collect();
        let mut seen = std::collections::HashSet::new();
        let once = inputs.iter().filter(|i| seen.insert((i.0.node, i.0.output))).map(|i| i.1);
        let bytes = once.chain(n.outputs()).map(|d| d.data_bytes()).sum::<Option<u64>>().unwrap_or(0);
        let first = inputs.first().map(|i| i.1.dtype);
        let (on_bytes, on_bf16) = (first.is_some_and(|t| t.bits() == Some(8)), first == Some(DType::BF16));
        NodeWork { bytes, operations: engine.operations(n).unwrap_or(0), on_bytes, on_bf16 }
    })
}

/// Calls `f` with the node in the form in which plugins see it.
fn of_node<T>(m: &CompiledModel, graph: u32, node: u32, f: impl FnOnce(&Node<'_>) -> T) -> Option<T> {
    let nodes = &m.every_graph().nth(graph as usize)?.nodes;
    let n = nodes.get(node as usize)?;
    let read = |v: &ValueAt| nodes.get(v.node as usize)?.outputs.get(v.output as usize).cloned();
    let given = |v: &Option<ValueAt>| v.as_ref().and_then(|v| Some((v.node << 8 | v.output & 0xFF, read(v)?, None)));
    let inputs: Vec<_> = n.inputs.iter().map(given).collect();
    let one = OneNode::new(&n.name, (Key::new(&n.op), 0), n.attrs.as_slice(), &inputs, n.outputs.clone());
    let view = one.graph();
    Some(f(&one.node(&view)))
}

/// Alternative schedules for the kernel of node `node` of graph `graph`, as its engine lists them.
pub fn schedules(engine: &EngineHandle, m: &CompiledModel, graph: u32, node: u32) -> Vec<String> {
    of_node(m, graph, node, |n| engine.schedules(n).unwrap_or_default()).unwrap_or_default()
}
