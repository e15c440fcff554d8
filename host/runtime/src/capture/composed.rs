//! The values of nodes without a task, such as a `ConcatD` whose inputs were written in their place:
//! they are composed of the bytes of the nodes' inputs.
use super::copy::Mark;
use super::{Captured, Key};
use crate::error::RuntimeError;
use ge_model::{CompiledModel, NodeInfo, SlotInfo};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::TensorDesc;
use std::collections::HashMap;

/// The values of a run, as they become known in node order.
pub(crate) struct Values<'a> {
    m: &'a CompiledModel,
    inputs: &'a [TensorView<'a>],
    /// Positions in `captured`.
    at: HashMap<Key, usize>,
    pub(crate) captured: Vec<Captured>,
}

impl<'a> Values<'a> {
    /// None yet, of a run with these inputs.
    pub(crate) fn new(m: &'a CompiledModel, inputs: &'a [TensorView<'a>]) -> Values<'a> {
        Values { m, inputs, at: HashMap::new(), captured: Vec::new() }
    }

    /// Adds an output that the run computed.
    pub(crate) fn push(&mut self, key: Key, tensor: HostTensor, mark: Mark) {
        let Mark { times, not_finite } = mark;
        self.at.insert(key, self.captured.len());
        self.captured.push(Captured { graph: key.0, node: key.1, output: key.2, tensor, times, not_finite });
    }

    /// Adds output `key` of a node without a task, unless bytes of it are not known.
    pub(crate) fn compose(&mut self, key: Key, n: &NodeInfo) -> Result<(), RuntimeError> {
        let at = key.2 as usize;
        let (Some(desc), Some(slot)) = (n.outputs.get(at), n.slots.get(at)) else { return Ok(()) };
        if n.inputs.is_empty() {
            return Ok(());
        }
        if let Some((tensor, times)) = self.composed(key.0, n, desc, slot)? {
            self.push(key, tensor, Mark { times, not_finite: None });
        }
        Ok(())
    }

    /// The bytes of the inputs that lie in `slot`, and how often they were computed. `None` if they
    /// do not cover it.
    fn composed(
        &self,
        graph: u32,
        n: &NodeInfo,
        desc: &TensorDesc,
        slot: &SlotInfo,
    ) -> Result<Option<(HostTensor, u64)>, RuntimeError> {
        let (Some(bytes), Some(dims)) = (desc.data_bytes(), desc.shape.sizes()) else { return Ok(None) };
        let mut tensor = HostTensor::with_len(desc.dtype, &dims, bytes)?;
        if bytes > 0 && slot.space != SlotInfo::FEATURE {
            return Ok(None);
        }
        let (mut covered, mut times) = (0, 1);
        for v in n.inputs.iter().flatten().filter(|_| bytes > 0) {
            let Some(from) = self.m.node(graph, v.node).and_then(|p| p.slots.get(v.output as usize)) else { continue };
            let value = match self.at.get(&(graph, v.node, v.output)).map(|i| &self.captured[*i]) {
                Some(c) => {
                    times = times.max(c.times);
                    c.tensor.bytes()
                }
                None => match given(self.m, from, self.inputs) {
                    Some(bytes) => bytes,
                    None => continue,
                },
            };
            covered += blit(tensor.bytes_mut(), slot, value, from);
        }
        Ok((covered >= tensor.bytes().len()).then_some((tensor, times)))
    }
}

/// The bytes of the graph input that lies in a slot.
fn given<'a>(m: &CompiledModel, slot: &SlotInfo, inputs: &[TensorView<'a>]) -> Option<&'a [u8]> {
    let z = m.memory.zero_copy.iter().find(|z| {
        !z.output
            && slot.zero_copy
            && slot.space == SlotInfo::FEATURE
            && z.memory == slot.memory
            && z.offset == slot.offset
    })?;
    Some(inputs.get(z.index as usize)?.bytes)
}

/// Copies the bytes that lie in both slots and returns how many they are.
fn blit(to: &mut [u8], slot: &SlotInfo, value: &[u8], from: &SlotInfo) -> usize {
    if from.space != slot.space || from.memory != slot.memory {
        return 0;
    }
    let start = slot.offset.max(from.offset);
    let end = (slot.offset.saturating_add(to.len() as u64)).min(from.offset.saturating_add(value.len() as u64));
    if start >= end {
        return 0;
    }
    let len = (end - start) as usize;
    let (a, b) = ((start - slot.offset) as usize, (start - from.offset) as usize);
    to[a..a + len].copy_from_slice(&value[b..b + len]);
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_an_input_land_where_it_lies_in_the_output() {
        let slot = |offset, size| SlotInfo { space: SlotInfo::FEATURE, offset, size, ..SlotInfo::default() };
        let mut out = [0u8; 8];
        assert_eq!(blit(&mut out, &slot(64, 8), &[1, 2, 3, 4], &slot(68, 4)), 4);
        assert_eq!(blit(&mut out, &slot(64, 8), &[9; 4], &slot(32, 4)), 0);
        assert_eq!(out, [0, 0, 0, 0, 1, 2, 3, 4]);
    }
}
