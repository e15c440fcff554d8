//! Capture: the device itself copies aside what every node wrote.
//!
//! Memory of the feature map is reused, so a tensor cannot be read after the run. A model loaded
//! with `capture` has an extra copy task after the last task that writes an output, on the same
//! stream: whatever overwrites the output later is ordered after the output's readers, hence after
//! the copy. Nothing is compiled again, and every schedule gives the same bytes.
use crate::error::RuntimeError;
use crate::place::{NULL, Places};
use ge_model::{CompiledModel, SlotInfo, TaskInfo};
use ge_plugin::OpenDevice;
use ge_plugin_api::abi::{ROption, RVec};
use ge_plugin_api::device::{AllocationKind, Base, DeviceTask, MemoryKind, Place};
use ge_plugin_api::kernel::{Access, HostTensor, TensorView};
use ge_plugin_api::task::TaskType;
use std::collections::{BTreeMap, HashMap};

/// One output of a node, as the run left it.
pub struct Captured {
    /// Index of the graph.
    pub graph: u32,
    /// Position of the node in its graph.
    pub node: u32,
    /// Index of the output.
    pub output: u32,
    /// Value of the output.
    pub tensor: HostTensor,
}

/// One output that is copied aside.
struct Spot {
    key: (u32, u32, u32),
    from: Place,
    to: Place,
}

/// All copies of a model.
#[derive(Default)]
pub(crate) struct Captures {
    spots: Vec<Spot>,
    /// Positions in `spots`, by the task after which the copies run.
    after: BTreeMap<usize, Vec<usize>>,
    /// Index, among the feature maps, of the one that receives the copies.
    map: usize,
}

/// Alignment in bytes of each captured output.
const ALIGN: u64 = 64;
/// The run-time's code of a device-to-device copy.
const DEVICE_TO_DEVICE: i64 = 3;

impl Captures {
    /// Plans a copy for every output that a task writes, and one allocation for all copies.
    pub(crate) fn new(m: &CompiledModel, places: &mut Places) -> Result<Captures, RuntimeError> {
        let mut last: BTreeMap<(u32, u32, u32), usize> = BTreeMap::new();
        for (i, t) in m.tasks.iter().enumerate() {
            for k in written(t) {
                last.insert((t.graph, t.node, k), i);
            }
        }
        let allocation = places.allocations.len() as u32;
        let mut out = Captures::default();
        let mut at = 0u64;
        for (key, task) in last {
            let Some(node) = m.node(key.0, key.1) else { continue };
            let Some((desc, from)) = places.output(m, node, key.2 as usize)? else { continue };
            let Some(bytes) = desc.data_bytes().filter(|b| *b > 0 && *b <= from.bytes) else { continue };
            if from == NULL || node.slots.get(key.2 as usize).is_none_or(|s| s.space == SlotInfo::WEIGHTS) {
                continue;
            }
            let to = Place { allocation, offset: at, bytes, rank: u32::MAX };
            at = at
                .checked_add(bytes)
                .and_then(|a| a.checked_next_multiple_of(ALIGN))
                .ok_or_else(|| RuntimeError::Damaged { what: "the outputs' sizes overflow".into() })?;
            out.after.entry(task).or_default().push(out.spots.len());
            out.spots.push(Spot { key, from: Place { bytes, ..from }, to });
        }
        out.map = places.allocations.iter().filter(|a| a.kind == AllocationKind::FEATURE_MAP).count();
        places.add(AllocationKind::FEATURE_MAP, MemoryKind::HBM, at, 0);
        Ok(out)
    }

    /// Whether there are no copies.
    pub(crate) fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }
    /// Number of copies after task `i`.
    pub(crate) fn count_after(&self, i: usize) -> usize {
        self.after.get(&i).map_or(0, Vec::len)
    }
    /// The copies after task `i`, ready to be bound.
    pub(crate) fn tasks<'a>(
        &'a self,
        m: &'a CompiledModel,
        i: usize,
        t: &'a TaskInfo,
    ) -> impl Iterator<Item = DeviceTask> + 'a {
        self.after.get(&i).into_iter().flatten().map(move |s| {
            let s = &self.spots[*s];
            let name = m.node(s.key.0, s.key.1).map_or("", |n| n.name.as_str());
            DeviceTask {
                kind: TaskType::MEMCPY_ASYNC.code(),
                stream: t.stream,
                kernel: ROption::RNone,
                block_dim: 1,
                args: RVec::from(vec![s.from, s.to]),
                numbers: RVec::from(vec![DEVICE_TO_DEVICE]),
                node: name.into(),
                op: "MemcpyAsync".into(),
                access: RVec::from(vec![Access::READ, Access::WRITE]),
                ..DeviceTask::default()
            }
        })
    }

    /// What the nodes wrote in the run that has just ended, in node order. For a node without a
    /// task, the value is composed of its inputs' bytes that lie in its memory.
    pub(crate) fn collect(
        &self,
        m: &CompiledModel,
        context: &OpenDevice,
        maps: &[Base],
        inputs: &[TensorView<'_>],
    ) -> Result<Vec<Captured>, RuntimeError> {
        let spots: HashMap<(u32, u32, u32), &Spot> = self.spots.iter().map(|s| (s.key, s)).collect();
        let base = maps.get(self.map).map_or(0, |b| b.address);
        let mut out: Vec<Captured> = Vec::new();
        let mut at: HashMap<(u32, u32, u32), usize> = HashMap::new();
        for (gi, g) in m.graphs.iter().enumerate() {
            for (ni, n) in g.nodes.iter().enumerate() {
                for (k, (d, slot)) in n.outputs.iter().zip(&n.slots).enumerate() {
                    let key = (gi as u32, ni as u32, k as u32);
                    let (Some(bytes), Some(dims)) = (d.data_bytes(), d.shape.sizes()) else { continue };
                    let tensor = if let Some(s) = spots.get(&key) {
                        let mut t = HostTensor::with_len(d.dtype, &dims, bytes)?;
                        context.copy_out(base + s.to.offset, t.bytes_mut())?;
                        t
                    } else if slot.space != SlotInfo::FEATURE || n.inputs.is_empty() {
                        continue;
                    } else {
                        let mut t = HostTensor::with_len(d.dtype, &dims, bytes)?;
                        let mut covered = 0;
                        for v in n.inputs.iter().flatten() {
                            let Some(p) = g.nodes.get(v.node as usize) else { continue };
                            let Some(from) = p.slots.get(v.output as usize) else { continue };
                            let value = match at.get(&(key.0, v.node, v.output)) {
                                Some(i) => out[*i].tensor.bytes(),
                                None => match given(m, from, inputs) {
                                    Some(b) => b,
                                    None => continue,
                                },
                            };
                            covered += blit(t.bytes_mut(), slot, value, from);
                        }
                        if covered < t.bytes().len() {
                            continue;
                        }
                        t
                    };
                    at.insert(key, out.len());
                    out.push(Captured { graph: key.0, node: key.1, output: key.2, tensor });
                }
            }
        }
        Ok(out)
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

/// Indices of the outputs among the arguments of a task.
fn written(t: &TaskInfo) -> impl Iterator<Item = u32> + '_ {
    t.args_format.split('}').filter_map(|a| {
        let digits = a.strip_prefix("{o")?.trim_end_matches('*');
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_among_arguments_are_told_from_the_format() {
        let t = TaskInfo { args_format: "{i0*}{o0*}{ws0*}{o12*}{overflow_addr}".into(), ..TaskInfo::default() };
        assert_eq!(written(&t).collect::<Vec<_>>(), [0, 12]);
    }
    #[test]
    fn bytes_of_an_input_land_where_it_lies_in_the_output() {
        let slot = |offset, size| SlotInfo { space: SlotInfo::FEATURE, offset, size, ..SlotInfo::default() };
        let mut out = [0u8; 8];
        assert_eq!(blit(&mut out, &slot(64, 8), &[1, 2, 3, 4], &slot(68, 4)), 4);
        assert_eq!(blit(&mut out, &slot(64, 8), &[9; 4], &slot(32, 4)), 0);
        assert_eq!(out, [0, 0, 0, 0, 1, 2, 3, 4]);
    }
}
