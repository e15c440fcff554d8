//! What a node of a compiled model takes: bytes and arithmetic.
use crate::v2::view::OneNode;
use ge_model::CompiledModel;
use ge_plugin::EngineHandle;
use ge_plugin_api::types::Key;

/// What one run of a node takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeWork {
    /// Bytes of its inputs, each once, and of its outputs; 0 where a size is not known.
    pub bytes: u64,
    /// Arithmetic operations, as its engine counts them; 0 where it does not.
    pub operations: u64,
    /// Whether it computes on bytes: its first input is of a type of eight bits.
    pub on_bytes: bool,
}

/// What the node `node` of the graph `graph` of a model takes.
pub fn of(engine: &EngineHandle, m: &CompiledModel, graph: u32, node: u32) -> Option<NodeWork> {
    let nodes = &m.every_graph().nth(graph as usize)?.nodes;
    let n = nodes.get(node as usize)?;
    let read = |v: &ge_model::ValueAt| nodes.get(v.node as usize)?.outputs.get(v.output as usize).cloned();
    let inputs: Vec<_> = n
        .inputs
        .iter()
        .map(|v| v.as_ref().and_then(|v| Some((v.node << 8 | v.output & 0xFF, read(v)?, None))))
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    let once = inputs.iter().flatten().filter(|i| seen.insert(i.0)).map(|i| &i.1);
    let bytes = once.chain(&n.outputs).map(|d| d.data_bytes()).sum::<Option<u64>>().unwrap_or(0);
    let on_bytes = inputs.iter().flatten().next().is_some_and(|i| i.1.dtype.bits() == Some(8));
    let one = OneNode::new(&n.name, (Key::new(&n.op), 0), n.attrs.as_slice(), &inputs, n.outputs.clone());
    let view = one.graph();
    let operations = engine.operations(&one.node(&view)).unwrap_or(0);
    Some(NodeWork { bytes, operations, on_bytes })
}
