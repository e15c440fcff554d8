//! Capture: the device itself copies aside what every node wrote.
//!
//! Memory of the feature map is reused, so a tensor cannot be read after the run. A model loaded
//! with `capture` has an extra copy task after the last task that writes an output, on each way
//! through branches and loops, and on the same stream: whatever overwrites the output later is
//! ordered after the output's readers, hence after the copy. Nothing is compiled again, and every
//! schedule gives the same bytes.
//!
//! Each copy leaves a mark of how often it was made in the run. Outputs without a mark were not
//! computed: their branch was not taken, or their loop made no turn. Where the compiler made a
//! selection of a choice, the values of the other branch are left out, too.
pub(crate) mod choice;
mod composed;
mod copy;

use crate::error::RuntimeError;
use crate::place::{NULL, Places};
use copy::{ACCESS, MARK, Mark, WORDS};
use ge_model::{CompiledModel, SlotInfo, TaskInfo};
use ge_plugin::OpenDevice;
use ge_plugin_api::abi::{ROption, RVec};
use ge_plugin_api::device::{AllocationKind, Base, DeviceModel, DeviceTask, MemoryKind, Place};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::task::TaskType;
use ge_plugin_api::types::{DType, TensorDesc};
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use copy::NotFinite;

/// One output of a node, as the run left it.
pub struct Captured {
    /// Index of the graph.
    pub graph: u32,
    /// Position of the node in its graph.
    pub node: u32,
    /// Index of the output.
    pub output: u32,
    /// Value of the output. If one launch computed it several times: the last value.
    pub tensor: HostTensor,
    /// How often the launch computed it: once in each turn of a loop on the device.
    pub times: u64,
    /// The first of these turns that gave a value that is no finite number, if one did. Outputs
    /// that no kernel wrote have none; their values tell.
    pub not_finite: Option<NotFinite>,
}

/// Index of a graph, position of a node in it, index of one of its outputs.
pub(crate) type Key = (u32, u32, u32);

/// One output that is copied aside.
struct Spot {
    key: Key,
    dtype: DType,
    from: Place,
    to: Place,
    /// Where its mark lies.
    mark: Place,
}

impl Spot {
    /// The copy, once the run has ended. Its feature map starts at `base`.
    fn read(&self, desc: &TensorDesc, context: &OpenDevice, base: u64) -> Result<HostTensor, RuntimeError> {
        let dims = desc.shape.sizes().unwrap_or_default();
        let mut tensor = HostTensor::with_len(self.dtype, &dims, self.to.bytes)?;
        context.copy_out(base + self.to.offset, tensor.bytes_mut())?;
        Ok(tensor)
    }
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

/// Index of the input that is the memory of the marks: each run brings it along.
pub(crate) const MARKS: u32 = u32::MAX;
/// Tasks from which on others may run, or the same ones again.
const JUMPS: [TaskType; 5] = [
    TaskType::LABEL_SET,
    TaskType::STREAM_LABEL_GOTO,
    TaskType::STREAM_LABEL_SWITCH_BY_INDEX,
    TaskType::STREAM_SWITCH,
    TaskType::STREAM_ACTIVE,
];
/// Alignment in bytes of each captured output.
const ALIGN: u64 = 64;

impl Captures {
    /// Plans a copy for every output that a task writes, and one allocation for all copies.
    pub(crate) fn new(m: &CompiledModel, places: &mut Places) -> Result<Captures, RuntimeError> {
        let writers = writers(m);
        let (allocation, marks) = (places.allocations.len() as u32, places.allocations.len() as u32 + 1);
        let mut out = Captures::default();
        let mut at = 0u64;
        for (key, tasks) in writers {
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
            let mark = Place { allocation: marks, offset: out.spots.len() as u64 * MARK, bytes: MARK, rank: u32::MAX };
            for task in tasks {
                out.after.entry(task).or_default().push(out.spots.len());
            }
            out.spots.push(Spot { key, dtype: desc.dtype, from: Place { bytes, ..from }, to, mark });
        }
        out.map = places.allocations.iter().filter(|a| a.kind == AllocationKind::FEATURE_MAP).count();
        places.add(AllocationKind::FEATURE_MAP, MemoryKind::HBM, at, 0);
        places.add(AllocationKind::INPUT, MemoryKind::HBM, out.spots.len() as u64 * MARK, MARKS);
        Ok(out)
    }

    /// Number of copies after task `i`.
    pub(crate) fn count_after(&self, i: usize) -> usize {
        self.after.get(&i).map_or(0, Vec::len)
    }
    /// Binds the copies after task `i`, which runs on `stream`.
    pub(crate) fn bind(
        &self,
        m: &CompiledModel,
        device: &dyn DeviceModel,
        i: usize,
        stream: u32,
    ) -> ge_plugin_api::Result<()> {
        for s in self.after.get(&i).into_iter().flatten().filter_map(|s| self.spots.get(*s)) {
            let name = m.node(s.key.0, s.key.1).map_or("", |n| n.name.as_str());
            let kernel = device.register(copy::kernel(s.dtype, s.to.bytes))?;
            device.bind(DeviceTask {
                kind: TaskType::KERNEL.code(),
                stream,
                kernel: ROption::RSome(kernel),
                block_dim: 1,
                args: RVec::from(vec![s.from, s.to, s.mark]),
                node: name.into(),
                op: "Capture".into(),
                access: RVec::from(ACCESS.to_vec()),
                ..DeviceTask::default()
            })?;
        }
        Ok(())
    }
    /// Memory for the marks of one run.
    pub(crate) fn marks(&self) -> Result<HostTensor, RuntimeError> {
        Ok(HostTensor::zeroed(DType::U64, &[(self.spots.len() * WORDS) as u64])?)
    }

    /// What the nodes wrote in the run that has just ended, in node order. Nodes that did not run
    /// are left out.
    pub(crate) fn collect(
        &self,
        m: &CompiledModel,
        context: &OpenDevice,
        maps: &[Base],
        marks: &HostTensor,
        inputs: &[TensorView<'_>],
    ) -> Result<Vec<Captured>, RuntimeError> {
        let words = marks.view().plain::<u64>()?;
        let marks = words.chunks_exact(WORDS).map(Mark::of);
        let spots: HashMap<Key, (&Spot, Mark)> =
            self.spots.iter().zip(marks).map(|(s, mark)| (s.key, (s, mark))).collect();
        let idle = idle_graphs(spots.values().map(|(s, mark)| (s.key.0, mark.times)));
        let base = maps.get(self.map).map_or(0, |b| b.address);
        let mut values = composed::Values::new(m, inputs);
        for (graph, g) in (0..).zip(&m.graphs).filter(|(graph, _)| !idle.contains(graph)) {
            let outputs =
                (0..).zip(&g.nodes).flat_map(|(ni, n)| (0..).zip(&n.outputs).map(move |(k, d)| (ni, n, k, d)));
            for (node, n, output, desc) in outputs {
                let key = (graph, node, output);
                match spots.get(&key) {
                    Some((_, mark)) if mark.times == 0 => {}
                    Some((spot, mark)) => values.push(key, spot.read(desc, context, base)?, *mark),
                    None => values.compose(key, n)?,
                }
            }
        }
        let mut out = values.captured;
        choice::leave_out(m, &mut out, |k| choice::condition(inputs.get(k)?.bytes));
        Ok(out)
    }
}

/// The tasks after which each output (graph, node, output) is copied: the last that writes it, of
/// those that always run together. Between others there is a jump: both branches of a choice write
/// its output, and a loop writes what it begins with and what each turn gives.
fn writers(m: &CompiledModel) -> BTreeMap<Key, Vec<usize>> {
    let mut of: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    let mut jump = 0;
    for (i, t) in m.tasks.iter().enumerate() {
        if JUMPS.iter().any(|j| j.code() == t.kind) {
            jump = i;
        }
        for k in written(t) {
            let tasks = of.entry((t.graph, t.node, k)).or_default();
            if tasks.last().is_some_and(|before| *before >= jump) {
                tasks.pop();
            }
            tasks.push(i);
        }
    }
    of
}

/// The graphs that did not run: they have copies, of which none was made. The copies are given as
/// their graph and how often they were made.
fn idle_graphs(copies: impl Iterator<Item = (u32, u64)>) -> BTreeSet<u32> {
    let mut most: BTreeMap<u32, u64> = BTreeMap::new();
    for (graph, times) in copies {
        let most = most.entry(graph).or_default();
        *most = times.max(*most);
    }
    most.into_iter().filter(|(_, times)| *times == 0).map(|(graph, _)| graph).collect()
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
    fn an_output_is_copied_on_each_way_that_writes_it() {
        let task = |kind: TaskType, node| TaskInfo {
            kind: kind.code(),
            node,
            args_format: if kind == TaskType::KERNEL { "{i0}{o0}".into() } else { String::new() },
            ..TaskInfo::default()
        };
        let tasks = vec![
            task(TaskType::KERNEL, 1),
            task(TaskType::KERNEL, 1),
            task(TaskType::STREAM_LABEL_SWITCH_BY_INDEX, 2),
            task(TaskType::KERNEL, 3),
            task(TaskType::KERNEL, 3),
            task(TaskType::LABEL_SET, 2),
            task(TaskType::KERNEL, 3),
        ];
        let m = CompiledModel { tasks, ..CompiledModel::default() };
        assert_eq!(writers(&m), BTreeMap::from([((0, 1, 0), vec![1]), ((0, 3, 0), vec![4, 6])]));
    }
}
