//! Maps memory slots of the plan to allocations of the device model.
use crate::error::RuntimeError;
use crate::spot::Spot;
use crate::variables;
use ge_model::{CompiledModel, NodeInfo, SlotInfo};
use ge_plugin_api::device::{Allocation, AllocationKind, MemoryKind, Place};
use ge_plugin_api::types::TensorDesc;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The allocations of a model, and the mapping from slots to them.
pub(crate) struct Places {
    /// Allocations in device order.
    pub(crate) allocations: Vec<Allocation>,
    weights: u32,
    /// First byte, size in bytes and allocation of each variable, sorted by first byte.
    variables: Vec<(u64, u64, u32)>,
    /// Memory kind, first byte and allocation of each piece of the feature maps. Pieces of one kind
    /// are sorted by first byte.
    feature: Vec<(u8, u64, u32)>,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    /// Tiling contexts by node, all in one allocation of task-scheduler (TS) memory.
    contexts: BTreeMap<(u32, u32), Spot>,
    context_memory: u32,
}

/// The place of an argument without memory.
pub(crate) const NULL: Place = Place { allocation: u32::MAX, offset: 0, bytes: 0, rank: u32::MAX };

impl Places {
    pub(crate) fn new(m: &CompiledModel) -> Result<Places, RuntimeError> {
        let mut p = Places {
            allocations: Vec::new(),
            weights: 0,
            variables: Vec::new(),
            feature: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            contexts: BTreeMap::new(),
            context_memory: u32::MAX,
        };
        for s in &m.memory.spaces {
            let memory = MemoryKind::from_name(&s.memory).unwrap_or(MemoryKind::HBM);
            let arena = s.size.saturating_sub(s.zero_copy);
            let begins: &[u64] = if s.pieces.is_empty() { &[0] } else { &s.pieces };
            let ends = begins.iter().skip(1).copied().chain([arena]);
            for (begin, end) in begins.iter().zip(ends) {
                let at = p.add(AllocationKind::FEATURE_MAP, memory, end.saturating_sub(*begin), 0);
                p.feature.push((memory.code(), *begin, at));
            }
        }
        p.weights = p.add(AllocationKind::WEIGHTS, MemoryKind::HBM, m.memory.weights, 0);
        for s in variables::spans(m)? {
            let at = p.add(AllocationKind::VARIABLES, MemoryKind::HBM, s.bytes, s.index);
            p.variables.push((s.begin, s.bytes, at));
        }
        for k in 0..m.inputs.len() {
            let at = p.add(AllocationKind::INPUT, MemoryKind::HBM, m.input_bytes(k).unwrap_or(0), k as u32);
            p.inputs.push(at);
        }
        if let Some(bytes) = m.selector_bytes() {
            let at = p.add(AllocationKind::INPUT, MemoryKind::HBM, bytes, m.inputs.len() as u32);
            p.inputs.push(at);
        }
        for k in 0..m.outputs.len() {
            let at = p.add(AllocationKind::OUTPUT, MemoryKind::HBM, m.output_bytes(k).unwrap_or(0), k as u32);
            p.outputs.push(at);
        }
        let mut bytes = 0;
        for t in m.tasks.iter().filter(|t| t.args_format.contains("{tiling_context") && t.nodes.is_empty()) {
            let of = (t.graph, t.node);
            if let Entry::Vacant(e) = p.contexts.entry(of) {
                bytes += e.insert(Spot::new(m, of, bytes)?).bytes() as u64;
            }
        }
        if !p.contexts.is_empty() {
            p.context_memory = p.add(AllocationKind::FEATURE_MAP, MemoryKind::TS, bytes, 0);
        }
        Ok(p)
    }

    /// Tiling contexts, by the graph and position of their node.
    pub(crate) fn contexts(&self) -> &BTreeMap<(u32, u32), Spot> {
        &self.contexts
    }
    /// The allocation that contains the tiling contexts.
    pub(crate) fn context_memory(&self) -> u32 {
        self.context_memory
    }

    /// The place of a node's tiling context or of a part of it (001 §5.1); `None` if `item` names
    /// neither or the node has no context.
    pub(crate) fn context(&self, graph: u32, node: u32, item: &str) -> Option<Place> {
        let (offset, bytes) = self.contexts.get(&(graph, node))?.part(item)?;
        Some(Place { allocation: self.context_memory, offset, bytes, rank: u32::MAX })
    }

    pub(crate) fn add(&mut self, kind: AllocationKind, memory: MemoryKind, bytes: u64, index: u32) -> u32 {
        self.allocations.push(Allocation { kind, memory, bytes, index });
        (self.allocations.len() - 1) as u32
    }

    /// The place of a slot, limited to the `bytes` that may be touched.
    pub(crate) fn of(&self, m: &CompiledModel, slot: &SlotInfo, bytes: u64) -> Result<Place, RuntimeError> {
        let at = |allocation: u32, offset: u64| Place { allocation, offset, bytes, rank: u32::MAX };
        Ok(match slot.space {
            SlotInfo::WEIGHTS => at(self.weights, slot.offset),
            SlotInfo::VARIABLES => {
                let known = self.variables.partition_point(|(begin, ..)| *begin <= slot.offset);
                let (begin, held, allocation) =
                    known.checked_sub(1).and_then(|k| self.variables.get(k)).copied().ok_or_else(|| {
                        RuntimeError::Damaged { what: "a slot lies in the variables, where there is none".into() }
                    })?;
                let inside = slot.offset - begin;
                if inside.checked_add(bytes).is_none_or(|end| end > held) {
                    return Err(RuntimeError::Damaged { what: "a slot lies beyond its variable".into() });
                }
                at(allocation, inside)
            }
            SlotInfo::FEATURE if slot.zero_copy => {
                // An output in an input's memory belongs to the range of the input.
                let mut ranges = m.memory.zero_copy.iter().filter(|z| z.of_input.is_none());
                let z = ranges.clone().find(|z| {
                    z.memory == slot.memory
                        && slot.offset >= z.offset
                        && slot.offset - z.offset <= z.size
                        && bytes <= z.size - (slot.offset - z.offset)
                });
                // A tensor without bytes touches no memory, so any range of its memory kind will
                // do.
                let z = z.or_else(|| ranges.find(|z| bytes == 0 && z.memory == slot.memory));
                let Some(z) = z else {
                    // If all inputs and outputs of a model are without bytes, there is no range at
                    // all.
                    if bytes == 0 {
                        return Ok(NULL);
                    }
                    return Err(RuntimeError::Damaged { what: "a zero-copy slot lies in no zero-copy range".into() });
                };
                let list = if z.output { &self.outputs } else { &self.inputs };
                let a = list
                    .get(z.index as usize)
                    .ok_or_else(|| RuntimeError::Damaged { what: "a zero-copy range has no input or output".into() })?;
                // A tensor without bytes may lie on the border of two ranges, so its offset means
                // nothing.
                at(*a, if bytes == 0 { 0 } else { slot.offset - z.offset })
            }
            SlotInfo::FEATURE => {
                let piece = self.feature.iter().rfind(|(k, begin, _)| *k == slot.memory && *begin <= slot.offset);
                let (_, begin, allocation) = piece.ok_or_else(|| RuntimeError::Damaged {
                    what: "a slot lies in a memory kind that the model lacks".into(),
                })?;
                at(*allocation, slot.offset - begin)
            }
            _ => NULL,
        })
    }

    /// Descriptor (of the producer) and place of input `i` of a node; `None` if it is not
    /// connected.
    pub(crate) fn input<'m>(
        &self,
        m: &'m CompiledModel,
        graph: u32,
        node: &NodeInfo,
        i: usize,
    ) -> Result<Option<(&'m TensorDesc, Place)>, RuntimeError> {
        let Some(Some(v)) = node.inputs.get(i) else { return Ok(None) };
        let p = m
            .node(graph, v.node)
            .ok_or_else(|| RuntimeError::Damaged { what: format!("`{}` reads a node that is not there", node.name) })?;
        let (Some(d), Some(s)) = (p.outputs.get(v.output as usize), p.slots.get(v.output as usize)) else {
            return Err(RuntimeError::Damaged { what: format!("`{}` reads an output that is not there", node.name) });
        };
        Ok(Some((d, self.of(m, s, touched(d, s))?)))
    }

    /// Descriptor and place of output `k` of a node; `None` if the node has no such output.
    pub(crate) fn output<'m>(
        &self,
        m: &CompiledModel,
        node: &'m NodeInfo,
        k: usize,
    ) -> Result<Option<(&'m TensorDesc, Place)>, RuntimeError> {
        let (Some(d), Some(s)) = (node.outputs.get(k), node.slots.get(k)) else { return Ok(None) };
        Ok(Some((d, self.of(m, s, touched(d, s))?)))
    }
}

/// Bytes of a tensor that its tasks may touch: its data, or the whole slot if the data size is
/// unknown.
fn touched(d: &TensorDesc, s: &SlotInfo) -> u64 {
    d.data_bytes().unwrap_or(s.size).min(s.size)
}
