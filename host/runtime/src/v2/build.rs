//! Builds a round from a draft: memory, arguments and tasks of one sealed model of the device.
use super::arena::{Life, pack};
use super::decide::attrs_of;
use super::executor::Steps;
use super::graph::{Graph, Kind, Node};
use super::held::Held;
use super::launch::Launch;
use super::no_task::NoTask;
use super::pieces::sized;
use super::plan::{Draft, Home};
use super::value::Tensor;
use super::way::Way;
use crate::again::Again;
use crate::error::RuntimeError;
use crate::load::{LoadedModel, Planned};
use crate::request::{Engines, LoadOptions};
use crate::several::Made;
use bytes::Bytes;
use ge_model::{
    CompiledModel, EventInfo, GraphInfo, IoInfo, KernelInfo, LogicalInfo, MemoryInfo, NodeInfo, PhysicalInfo, SlotInfo,
    SpaceInfo, StreamsInfo, TaskInfo, ValueAt, ZeroCopyInfo,
};
use ge_plugin::OpenDevice;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::task::TaskType;
use ge_plugin_api::types::{AttrMap, DType, TensorDesc};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Alignment in bytes of zero-copy ranges.
const ALIGN: u64 = 512;

/// A round of a graph, ready to run any number of times.
#[derive(Default)]
pub(crate) struct Round {
    /// Id of the round within its graph; the key of the next round begins with it.
    pub(crate) id: u64,
    /// The model with the launches, if there are any.
    pub(crate) device: Option<Arc<LoadedModel>>,
    /// Values that the device reads.
    pub(crate) ins: Vec<u32>,
    /// Values that the device produces.
    pub(crate) outs: Vec<u32>,
    /// Values that were computed while planning and that are still read.
    pub(crate) known: Vec<(u32, Tensor<'static>)>,
    /// Values that are views: value, viewed value, type and dimensions.
    pub(crate) views: Vec<(u32, u32, DType, Vec<u64>)>,
    /// Nodes that the host executes, in order.
    pub(crate) host: Vec<u32>,
    /// The launches and the host nodes as steps.
    pub(crate) steps: Steps,
    /// Nodes that are done after the launches.
    pub(crate) done: Vec<u32>,
    /// Values whose types and shapes select the next round.
    pub(crate) keys: Vec<u32>,
    /// Values that nobody reads after this round.
    pub(crate) release: Vec<u32>,
    /// Node of the graph, by its position in the device's model.
    pub(crate) nodes: Vec<u32>,
    /// States that the launches extend: value before, value after, and dimensions after.
    pub(crate) grown: Vec<(u32, u32, Vec<u64>)>,
    /// Values that the launches overwrite, and the values that replace them.
    pub(crate) over: Vec<(u32, u32)>,
    /// The rest of a run from this round to the model's outputs, if it is the first round of a way.
    pub(crate) way: OnceLock<Way>,
    /// Number of nodes that it launches.
    pub(crate) launches: usize,
    /// Whether it was made from another round. Its device model then describes only the differences
    /// and cannot be used for a profile.
    pub(crate) amended: bool,
    /// The round is empty: for these sizes, run the graph instead of its twin.
    pub(crate) refused: bool,
}

/// What a round was made from, kept to make a round for other sizes.
pub(crate) struct Last {
    pub(crate) draft: Draft,
    pub(crate) parts: Parts,
    pub(crate) round: Arc<Round>,
}

/// What remains after a round is written.
#[derive(Default)]
pub(crate) struct Parts {
    /// Values whose memory leaves the round.
    leaves: Vec<bool>,
    /// Launches that are left out.
    no_task: NoTask,
    slots: Vec<Option<SlotInfo>>,
    workspaces: Vec<Vec<SlotInfo>>,
    /// The launch of each device task; `None` for tasks that keep order or end the round.
    of: Vec<Option<u32>>,
    /// The device tasks that can be bound again.
    tasks: Vec<Again>,
    events: u32,
}

impl Parts {
    /// Whether a round for other sizes can be made from them.
    pub(crate) fn are_whole(&self) -> bool {
        self.tasks.len() == self.of.len()
    }
}

/// What rounds are loaded with.
pub(crate) struct Loader<'l> {
    pub(crate) name: &'l str,
    pub(crate) soc: &'l SocSpec,
    /// The logical streams of the model.
    pub(crate) logical: &'l [LogicalInfo],
    pub(crate) weights: &'l Bytes,
    pub(crate) engines: &'l Engines,
    pub(crate) context: &'l Arc<OpenDevice>,
    pub(crate) options: &'l LoadOptions,
}

/// Makes a round from a draft, and returns what it was made from.
///
/// # Errors
/// Fails if sizes overflow, or if an engine or the device fails while binding tasks.
pub(crate) fn round(
    id: u64,
    graph: &Graph,
    draft: Draft,
    done: &[bool],
    load: &Loader<'_>,
) -> Result<(Round, Draft, Parts), RuntimeError> {
    let after = done_after(&draft, done);
    let read_later = read_later(graph, &draft, &after);
    let mut out = Round {
        id,
        host: draft.host.clone(),
        steps: steps(graph, &draft),
        done: draft.done.clone(),
        launches: draft.launches.len(),
        over: draft.over.clone(),
        ..Round::default()
    };
    out.grown = grown(&draft);
    let root = |v: u32| if let Home::ViewOf(r) = draft.home[v as usize] { r } else { v };
    // What leaves the round is an output of the device's model, or it is known.
    let mut leaves = vec![false; graph.values()];
    for v in (0..graph.values() as u32).filter(|v| read_later[*v as usize]) {
        match draft.home[v as usize] {
            Home::Nowhere | Home::Before | Home::InPlace(_) => {}
            Home::Known => out.known.extend(known(&draft, graph, v)),
            Home::Made => leaves[v as usize] = true,
            Home::ViewOf(r) => {
                let d = draft.desc(graph, v);
                let dims = d.and_then(|d| d.shape.sizes()).unwrap_or_default();
                out.views.push((v, r, d.map_or(DType::UNKNOWN, |d| d.dtype), dims));
                match draft.home[r as usize] {
                    Home::Made => leaves[r as usize] = true,
                    Home::Known => out.known.extend(known(&draft, graph, r)),
                    _ => {}
                }
            }
        }
    }
    out.known.sort_by_key(|k| k.0);
    out.known.dedup_by_key(|k| k.0);
    let mut parts = Parts::default();
    if !draft.launches.is_empty() {
        parts.no_task = no_task(graph, &draft, &leaves, load);
        let mut w = Writer::new(graph, &draft, (&leaves, &parts.no_task), load);
        w.lay_out()?;
        w.write(None);
        let Writer { m, ins, outs, nodes, folded, made, slots, workspaces, of, .. } = w;
        let there = marks(graph.values(), out.known.iter().map(|k| k.0));
        out.known.extend(folded.into_iter().filter(|f| !there[f.0 as usize]));
        out.ins = ins;
        out.outs = outs;
        out.nodes = nodes;
        (parts.slots, parts.workspaces, parts.of, parts.events) = (slots, workspaces, of, m.event_num);
        let kept = Some(&mut parts.tasks);
        let planned = Planned { made: &made, kept, others: None };
        let device = LoadedModel::load_made(m, load.engines, load.context.clone(), load.options, planned)?;
        out.device = Some(Arc::new(device));
    }
    // The next round's key: values that the host produces, and values of the device that determine
    // shapes.
    let host = draft.host.iter().flat_map(|n| graph.nodes[*n as usize].outputs.iter().copied());
    let decide = out.outs.iter().chain(out.views.iter().map(|v| &v.0)).copied();
    out.keys = host.chain(decide.filter(|v| graph.wanted[*v as usize] || draft.asked.contains(v))).collect();
    let is_output = marks(graph.values(), graph.outputs.iter().copied());
    let is_known = marks(graph.values(), out.known.iter().map(|k| k.0));
    let unread = |v: &u32| graph.readers[*v as usize].iter().all(|n| after[*n as usize]) && !is_output[*v as usize];
    let held = |v: &u32| draft.home[*v as usize] == Home::Before || leaves[root(*v) as usize];
    let host_made = draft.host.iter().flat_map(|n| graph.nodes[*n as usize].outputs.iter().copied());
    let all = (0..graph.values() as u32).filter(|v| held(v) || is_known[*v as usize]).chain(host_made);
    out.release = all.filter(unread).collect();
    parts.leaves = leaves;
    Ok((out, draft, parts))
}

/// Makes the round of `draft` from the round of `last`. Tasks of launches that are unchanged and
/// whose memory has not moved are bound again as they were. `None` if the rounds differ in more
/// than sizes.
///
/// # Errors
/// Fails like [`round`].
pub(crate) fn amended(
    id: u64,
    graph: &Graph,
    (draft, mut others): (Draft, Vec<bool>),
    (last, mut parts): (&Round, Parts),
    load: &Loader<'_>,
) -> Result<Option<(Round, Draft, Parts)>, RuntimeError> {
    let mut device = None;
    if !draft.launches.is_empty() {
        let no_task = no_task(graph, &draft, &parts.leaves, load);
        if no_task.silent != parts.no_task.silent {
            return Ok(None);
        }
        let mut w = Writer::new(graph, &draft, (&parts.leaves, &no_task), load);
        w.lay_out()?;
        if w.ins != last.ins || w.outs != last.outs {
            return Ok(None);
        }
        for (k, other) in others.iter_mut().enumerate() {
            *other |= w.moved(k, &parts);
        }
        let tasks: Vec<bool> = parts.of.iter().map(|l| l.is_some_and(|l| others[l as usize])).collect();
        (parts.slots, parts.workspaces) = (w.slots.clone(), w.workspaces.clone());
        w.m.event_num = parts.events;
        w.write(Some(&others));
        let planned = Planned { made: &w.made, kept: Some(&mut parts.tasks), others: Some(&tasks) };
        let made = LoadedModel::load_made(w.m, load.engines, load.context.clone(), load.options, planned)?;
        device = Some(Arc::new(made));
        parts.no_task = no_task;
    }
    let known = last.known.iter().map(|(v, t)| {
        let now = draft.known[*v as usize].as_ref()?;
        let same = t.dims[..] == now.dims[..] && now.bytes().is_some_and(|b| b.as_slice() == t.bytes());
        Some((*v, if same { t.clone() } else { aligned(now)? }))
    });
    let Some(known) = known.collect() else { return Ok(None) };
    let view = |(v, of, dtype, _): &(u32, u32, DType, Vec<u64>)| {
        let dims = draft.desc(graph, *v).and_then(|d| d.shape.sizes()).unwrap_or_default();
        (*v, *of, *dtype, dims)
    };
    let round = Round {
        id,
        device,
        ins: last.ins.clone(),
        outs: last.outs.clone(),
        known,
        views: last.views.iter().map(view).collect(),
        host: last.host.clone(),
        steps: last.steps.clone(),
        done: last.done.clone(),
        keys: last.keys.clone(),
        release: last.release.clone(),
        grown: grown(&draft),
        over: last.over.clone(),
        launches: last.launches,
        amended: true,
        ..Round::default()
    };
    Ok(Some((round, draft, parts)))
}

/// The value that owns the memory of `v`.
pub(crate) fn root_of(draft: &Draft, v: u32) -> u32 {
    if let Home::ViewOf(root) = draft.home[v as usize] { root } else { v }
}

/// The launches of a round that can be left out. Capture needs all of them.
fn no_task(graph: &Graph, draft: &Draft, leaves: &[bool], load: &Loader<'_>) -> NoTask {
    if load.options.capture { NoTask::none(graph, draft) } else { NoTask::find(graph, draft, leaves) }
}

/// States that the launches extend: value before, value after, and dimensions after.
fn grown(draft: &Draft) -> Vec<(u32, u32, Vec<u64>)> {
    let one = |h: &Held| {
        let dims = draft.desc[h.of.result as usize].as_ref().and_then(|d| d.shape.sizes());
        (h.of.value, h.of.result, dims.unwrap_or_default())
    };
    draft.held.iter().map(one).collect()
}

/// The steps of a round. A host node waits for the launches if it reads what they produce, is
/// ordered after one of them, or might read a state that they write to.
fn steps(graph: &Graph, draft: &Draft) -> Steps {
    let made = |v: u32| matches!(draft.home[v as usize], Home::Made | Home::InPlace(_));
    let reads = |v: &u32| match draft.home[*v as usize] {
        Home::ViewOf(root) => made(root),
        _ => made(*v),
    };
    let launched = marks(graph.nodes.len(), draft.launches.iter().map(|l| l.node));
    let waits = |n: u32| {
        let n = &graph.nodes[n as usize];
        let behind = |c: &u32| launched[*c as usize];
        !draft.held.is_empty() || n.inputs.iter().flatten().any(reads) || n.controls.iter().any(behind)
    };
    Steps::new(graph, draft.launches.iter().map(|l| l.node).min(), &draft.host, waits)
}

/// Marks `these` among `count` items.
fn marks(count: usize, these: impl IntoIterator<Item = u32>) -> Vec<bool> {
    let mut out = vec![false; count];
    these.into_iter().for_each(|k| out[k as usize] = true);
    out
}

/// Nodes that are done when the round is over.
fn done_after(draft: &Draft, done: &[bool]) -> Vec<bool> {
    let mut after = done.to_vec();
    draft.done.iter().chain(&draft.host).for_each(|n| after[*n as usize] = true);
    after
}

/// Values that are read by something other than a launch of this round.
fn read_later(graph: &Graph, draft: &Draft, after: &[bool]) -> Vec<bool> {
    let mut out = vec![false; graph.values()];
    let host = marks(graph.nodes.len(), draft.host.iter().copied());
    for (i, n) in graph.nodes.iter().enumerate() {
        if n.kind != Kind::Output && (!after[i] || host[i]) {
            n.inputs.iter().flatten().for_each(|v| out[*v as usize] = true);
        }
    }
    graph.outputs.iter().for_each(|v| out[*v as usize] = true);
    draft.asked.iter().for_each(|v| out[*v as usize] = true);
    out
}

/// A value that the plan itself has computed; `None` for constants of the graph, which are
/// available anyway.
fn known(draft: &Draft, graph: &Graph, v: u32) -> Option<(u32, Tensor<'static>)> {
    if graph.constants[v as usize].is_some() {
        return None;
    }
    Some((v, aligned(draft.known[v as usize].as_ref()?)?))
}

/// A small constant in its own memory, because kernels need it aligned.
fn aligned(t: &ge_plugin_api::types::ConstTensor) -> Option<Tensor<'static>> {
    Some(Tensor::made(HostTensor::from_bytes(t.dtype, &t.dims, &t.bytes()?).ok()?))
}

/// The device's model while it is written.
struct Writer<'w> {
    graph: &'w Graph,
    draft: &'w Draft,
    leaves: &'w [bool],
    no_task: &'w NoTask,
    m: CompiledModel,
    /// By value: the node in the device's graph that produces it, and its output.
    at: Vec<Option<ValueAt>>,
    /// By value: the slot of each value that owns memory.
    slots: Vec<Option<SlotInfo>>,
    workspaces: Vec<Vec<SlotInfo>>,
    ins: Vec<u32>,
    outs: Vec<u32>,
    folded: Vec<(u32, Tensor<'static>)>,
    nodes: Vec<u32>,
    /// What is known of each task.
    made: Vec<Made<'w>>,
    /// The launch of each task.
    of: Vec<Option<u32>>,
}

const NODE_OF_NONE: u32 = u32::MAX;

/// Event ids, by the launches that record them and wait for them.
#[derive(Default)]
struct Events {
    records: Vec<Vec<u32>>,
    waits: Vec<Vec<u32>>,
    /// Events that the end of the round waits for.
    end: Vec<u32>,
}

impl<'w> Writer<'w> {
    fn new(
        graph: &'w Graph,
        draft: &'w Draft,
        (leaves, no_task): (&'w [bool], &'w NoTask),
        load: &Loader<'_>,
    ) -> Writer<'w> {
        let streams = &draft.streams;
        let physical = |(k, logical): (usize, &u32)| PhysicalInfo {
            logical: *logical,
            head: true,
            huge: streams.is_huge(k),
            ..PhysicalInfo::default()
        };
        let m = CompiledModel {
            name: load.name.to_owned(),
            soc: load.soc.clone(),
            weights: vec![(0, load.weights.clone())],
            rank_size: 1,
            streams: StreamsInfo {
                logical: if load.logical.is_empty() { vec![LogicalInfo::default()] } else { load.logical.to_vec() },
                physical: streams.logical.iter().enumerate().map(physical).collect(),
                single: streams.logical.len() == 1,
                ..StreamsInfo::default()
            },
            memory: MemoryInfo { weights: load.weights.len() as u64, ..MemoryInfo::default() },
            graphs: vec![GraphInfo { name: graph.name.clone(), ..GraphInfo::default() }],
            ..CompiledModel::default()
        };
        Writer {
            graph,
            draft,
            leaves,
            no_task,
            m,
            at: vec![None; graph.values()],
            slots: vec![None; graph.values()],
            workspaces: Vec::new(),
            ins: Vec::new(),
            outs: Vec::new(),
            folded: Vec::new(),
            nodes: Vec::new(),
            made: Vec::new(),
            of: Vec::new(),
        }
    }
    fn root(&self, v: u32) -> u32 {
        root_of(self.draft, v)
    }
    /// The value whose memory contains that of a root: the root itself, or the whole that it is a
    /// piece of.
    fn placed(&self, root: u32) -> u32 {
        self.no_task.piece[root as usize].map_or(root, |p| p.0)
    }
    fn slot(&self, v: u32) -> SlotInfo {
        self.slots[v as usize].unwrap_or_default()
    }
    fn bytes(&self, v: u32) -> u64 {
        self.draft.desc(self.graph, v).and_then(TensorDesc::data_bytes).unwrap_or(0)
    }

    /// Places every root that launches touch: constants in the weights, inputs and outputs in their
    /// own ranges, everything else and the workspaces in the arena.
    fn lay_out(&mut self) -> Result<(), RuntimeError> {
        let streams = &self.draft.streams;
        let mut lives: Vec<Life> = Vec::new();
        let mut of: BTreeMap<u32, usize> = BTreeMap::new();
        let mut spaces: Vec<Vec<usize>> = Vec::with_capacity(self.draft.launches.len());
        let mut comes_in = vec![false; self.graph.values()];
        for (k, l) in (0u32..).zip(&self.draft.launches) {
            let n = &self.graph.nodes[l.node as usize];
            for v in n.inputs.iter().flatten() {
                let r = self.root(*v);
                match self.draft.home[r as usize] {
                    Home::Made => {
                        if let Some(i) = of.get(&self.placed(r)) {
                            lives[*i].used(k, streams);
                        }
                    }
                    Home::InPlace(_) => {}
                    Home::Known if self.graph.constants[r as usize].is_some() => {}
                    _ => {
                        if !std::mem::replace(&mut comes_in[r as usize], true) {
                            self.ins.push(r);
                        }
                    }
                }
            }
            for v in &n.outputs {
                if matches!(self.draft.home[*v as usize], Home::InPlace(_)) {
                    continue;
                }
                let placed = self.placed(*v);
                if self.leaves[placed as usize] {
                    // For pieces, the whole is the output.
                    self.outs.extend((placed == *v).then_some(*v));
                } else if let Some(i) = of.get(&placed) {
                    lives[*i].used(k, streams);
                } else if self.draft.home[placed as usize] == Home::Made {
                    // A piece of a round's input needs no memory of its own.
                    of.insert(placed, lives.len());
                    lives.push(Life::new(k, self.bytes(placed)));
                }
            }
            let mut own = Vec::new();
            for w in &l.launch.workspaces {
                own.push(lives.len());
                lives.push(Life::new(k, *w));
            }
            spaces.push(own);
        }
        let overflow = || ge_plugin_api::Error::failed("the sizes of a run's tensors overflow");
        let (offsets, arena) = pack(&lives, streams).ok_or_else(overflow)?;
        let feature = |offset: u64, size: u64, zero_copy: bool| SlotInfo {
            space: SlotInfo::FEATURE,
            offset,
            size,
            zero_copy,
            ..SlotInfo::default()
        };
        for (v, i) in &of {
            self.slots[*v as usize] = Some(feature(offsets[*i], lives[*i].bytes, false));
        }
        self.workspaces =
            spaces.iter().map(|s| s.iter().map(|i| feature(offsets[*i], lives[*i].bytes, false)).collect()).collect();
        let mut at = arena;
        let lists = [(false, self.ins.clone()), (true, self.outs.clone())];
        for (output, list) in lists {
            for (index, v) in (0u32..).zip(list) {
                let size = self.room(v).map_or_else(|| Some(self.bytes(v)), |d| d.data_bytes()).ok_or_else(overflow)?;
                let over = self.draft.over.iter().find(|o| o.0 == v && !output);
                self.m.memory.zero_copy.push(ZeroCopyInfo {
                    output,
                    index,
                    offset: at,
                    size,
                    overwritten: self.room(v).is_some() || over.is_some(),
                    ..ZeroCopyInfo::default()
                });
                let slot = feature(at, size, true);
                self.slots[v as usize] = Some(slot);
                // The result of growing a state lies in the state's memory.
                let held = self.draft.held.iter().find(|h| h.of.value == v);
                if let Some(h) = held.filter(|_| !output) {
                    self.slots[h.of.result as usize] = Some(slot);
                }
                if over.is_some() {
                    let homes = self.draft.home.iter().enumerate();
                    homes.filter(|h| *h.1 == Home::InPlace(v)).for_each(|(y, _)| self.slots[y] = Some(slot));
                }
                let desc = self.room(v).unwrap_or_else(|| self.desc(v));
                let io = IoInfo { name: self.name(v), desc, slot };
                if output {
                    self.m.outputs.push(io)
                } else {
                    self.m.inputs.push(io)
                }
                at =
                    size.max(1).checked_next_multiple_of(ALIGN).and_then(|s| at.checked_add(s)).ok_or_else(overflow)?;
            }
        }
        for (v, piece) in self.no_task.piece.iter().enumerate() {
            let Some((whole, offset)) = piece else { continue };
            let Some(of) = self.slots[*whole as usize] else { continue };
            let offset = of.offset.checked_add(*offset).ok_or_else(overflow)?;
            self.slots[v] = Some(SlotInfo { offset, size: self.bytes(v as u32), ..of });
        }
        self.m.memory.spaces = vec![SpaceInfo {
            memory: "HBM".into(),
            size: at,
            lower_bound: arena,
            zero_copy: at - arena,
            assigner: "lowest-gap".into(),
            pieces: Vec::new(),
        }];
        let folded = self.ins.iter().filter(|v| self.draft.home[**v as usize] == Home::Known);
        self.folded = folded.filter_map(|v| Some((*v, aligned(self.draft.known[*v as usize].as_ref()?)?))).collect();
        Ok(())
    }

    /// The whole room of a state that grows in place.
    fn room(&self, v: u32) -> Option<TensorDesc> {
        let h = self.draft.held.iter().find(|h| h.of.value == v)?;
        Some(sized(self.draft.desc[v as usize].as_ref()?, &h.room))
    }
    fn desc(&self, v: u32) -> TensorDesc {
        self.draft.desc(self.graph, v).cloned().unwrap_or_default()
    }
    fn name(&self, v: u32) -> String {
        self.graph.producer(v).map_or_else(String::new, |n| n.name.clone())
    }

    /// Whether anything that a launch touches has moved since the earlier round.
    fn moved(&self, launch: usize, before: &Parts) -> bool {
        let l = &self.draft.launches[launch];
        let n = &self.graph.nodes[l.node as usize];
        let elsewhere =
            |a: &SlotInfo, b: &SlotInfo| a.zero_copy != b.zero_copy || (!a.zero_copy && a.offset != b.offset);
        let value = |v: u32| match (&self.slots[v as usize], &before.slots[v as usize]) {
            (Some(a), Some(b)) => elsewhere(a, b) || self.no_task.piece[v as usize] != before.no_task.piece[v as usize],
            // Values that the layout does not place are in the weights.
            (a, _) => a.is_some(),
        };
        let spaces = self.workspaces[launch].iter().zip(&before.workspaces[launch]);
        n.inputs.iter().flatten().any(|v| value(self.root(*v)))
            || n.outputs.iter().any(|v| value(*v))
            || spaces.into_iter().any(|(a, b)| elsewhere(a, b))
    }

    /// Writes nodes and tasks: all of them, with the events that keep their order, or only those of
    /// the launches marked in `others`.
    fn write(&mut self, others: Option<&[bool]>) {
        let draft = self.draft;
        // One node per launch, and usually one or two more for what it reads.
        let (nodes, tasks) = (3 * draft.launches.len() + self.ins.len() + 1, draft.launches.len() + 1);
        self.m.graphs[0].nodes.reserve(nodes);
        self.nodes.reserve(nodes);
        self.m.tasks.reserve(tasks);
        self.made.reserve(tasks);
        for v in self.ins.clone() {
            self.source(v, "Data");
        }
        let mut kernels: HashSet<&str> = HashSet::with_capacity(draft.launches.len());
        let events = if others.is_none() { self.events(&draft.streams.end()) } else { Events::default() };
        for (k, l) in draft.launches.iter().enumerate() {
            if others.is_some_and(|o| !o[k]) || self.no_task.silent[k] {
                continue;
            }
            let n = &self.graph.nodes[l.node as usize];
            let reads: Vec<Option<u32>> = match &l.pieces {
                Some(p) => p.reads.iter().copied().map(Some).collect(),
                None => n.inputs.clone(),
            };
            let mut inputs: Vec<Option<ValueAt>> = reads.into_iter().map(|v| v.map(|v| self.read(v))).collect();
            let stream = draft.streams.launches[k].stream as u32;
            let first = self.m.graphs[0].nodes.len() as u32;
            self.sync(TaskType::EVENT_WAIT, first, stream, events.waits.get(k).map_or(&[], Vec::as_slice));
            self.of.resize(self.m.tasks.len(), None);
            for (i, copy) in &l.copies {
                inputs[*i] = self.copy(n, *i, copy, inputs[*i], stream);
                kernels.extend(copy.kernel.iter().map(|b| b.name.as_str()));
            }
            let at = self.m.graphs[0].nodes.len() as u32;
            // A launch that extends a state sees the state's whole room.
            let written = |v: &u32| match draft.home[*v as usize] {
                Home::InPlace(of) => self.room(of).unwrap_or_else(|| self.desc(*v)),
                _ => self.desc(*v),
            };
            let is_over = |v: &u32| draft.over.iter().any(|o| draft.home[*v as usize] == Home::InPlace(o.0));
            let in_place = n.outputs.iter().any(is_over);
            let node = NodeInfo {
                name: n.name.clone(),
                op: n.op.as_str().to_owned(),
                engine: l.launch.engine.clone(),
                inputs,
                outputs: n.outputs.iter().map(written).collect(),
                slots: n.outputs.iter().map(|v| self.slot(*v)).collect(),
                workspaces: self.workspaces[k].clone(),
                attrs: attrs_of(n, in_place).into_owned(),
                stream: Some(stream),
                logical_stream: draft.streams.logical.get(stream as usize).copied(),
                ..NodeInfo::default()
            };
            self.push(node, l.node);
            let own = (0u32..).zip(&n.outputs).filter(|(_, v)| !matches!(draft.home[**v as usize], Home::InPlace(_)));
            for (i, v) in own {
                self.at[*v as usize] = Some(ValueAt { node: at, output: i });
            }
            if let Some(p) = &l.pieces {
                let bound = p.one.bound.first();
                self.made.resize(self.m.tasks.len(), Made::Plain);
                self.made.extend(bound.map(|b| Made::Slices(&p.slices, b)));
                self.m.tasks.push(TaskInfo { graph: 0, node: at, stream, ..p.task.clone() });
                if others.is_none() {
                    self.m.graphs.push(p.graph());
                }
            }
            for (at_task, t) in l.launch.tasks.iter().enumerate().take(l.bound.len()) {
                self.made.resize(self.m.tasks.len(), Made::Plain);
                self.made.push(if t.kernel_name.is_empty() { Made::Plain } else { Made::Launch(&l.bound, at_task) });
                self.m.tasks.push(TaskInfo { graph: 0, node: at, stream, ..t.clone() });
            }
            self.of.resize(self.m.tasks.len(), Some(k as u32));
            self.sync(TaskType::EVENT_RECORD, at, stream, events.records.get(k).map_or(&[], Vec::as_slice));
            if let Some(b) = &l.launch.kernel {
                if kernels.insert(b.name.as_str()) {
                    let binary = Bytes::copy_from_slice(&b.binary);
                    let (name, engine) = (b.name.to_string(), l.launch.engine.clone());
                    self.m.kernels.push(KernelInfo { name, engine, binary });
                }
            }
        }
        if others.is_some() {
            return;
        }
        let node = self.m.graphs[0].nodes.len() as u32;
        self.push(NodeInfo { name: "NetOutput".into(), op: "NetOutput".into(), ..NodeInfo::default() }, NODE_OF_NONE);
        let stream = draft.streams.of_end() as u32;
        self.sync(TaskType::EVENT_WAIT, node, stream, &events.end);
        self.m.tasks.push(TaskInfo { kind: TaskType::END_GRAPH.code(), graph: 0, node, stream, ..TaskInfo::default() });
        self.of.resize(self.m.tasks.len(), None);
    }
    /// Numbers the events; each is recorded once and waited for once.
    fn events(&mut self, end: &[u32]) -> Events {
        let placed = &self.draft.streams.launches;
        let mut out = Events { records: vec![Vec::new(); placed.len()], ..Events::default() };
        let name = |l: u32| self.graph.nodes[self.draft.launches[l as usize].node as usize].name.clone();
        let list = placed.iter().map(|p| p.waits.as_slice()).chain([end]);
        for (k, waits) in list.enumerate() {
            let mut own = Vec::with_capacity(waits.len());
            for a in waits {
                let id = self.m.events.len() as u32;
                let recv = if k < placed.len() { name(k as u32) } else { "NetOutput".to_owned() };
                self.m.events.push(EventInfo { id, notify: false, send: name(*a), recv });
                out.records[*a as usize].push(id);
                own.push(id);
            }
            out.waits.push(own);
        }
        out.end = out.waits.pop().unwrap_or_default();
        self.m.event_num = self.m.events.len() as u32;
        out
    }
    /// Adds tasks that record or wait for events on a stream.
    fn sync(&mut self, kind: TaskType, node: u32, stream: u32, ids: &[u32]) {
        let task = |id: &u32| TaskInfo {
            kind: kind.code(),
            graph: 0,
            node,
            stream,
            sync_id: Some(*id),
            ..TaskInfo::default()
        };
        self.m.tasks.extend(ids.iter().map(task));
    }
    fn push(&mut self, n: NodeInfo, of: u32) -> u32 {
        self.m.graphs[0].nodes.push(n);
        self.nodes.push(of);
        self.m.graphs[0].nodes.len() as u32 - 1
    }
    /// Adds a node that stands for memory.
    fn source(&mut self, v: u32, op: &str) -> ValueAt {
        let slot = self.slot(v);
        let room = if op == "Data" { self.room(v) } else { None };
        let n = NodeInfo {
            name: self.name(v),
            op: op.into(),
            outputs: vec![room.unwrap_or_else(|| self.desc(v))],
            slots: vec![slot],
            attrs: AttrMap::default(),
            ..NodeInfo::default()
        };
        let at = ValueAt { node: self.push(n, NODE_OF_NONE), output: 0 };
        self.at[v as usize] = Some(at);
        at
    }
    /// Adds a copy of input `k` of node `n`, which `n` overwrites, to where output `k` lies.
    /// Returns what the node reads instead.
    fn copy(&mut self, n: &Node, k: usize, copy: &Launch, from: Option<ValueAt>, stream: u32) -> Option<ValueAt> {
        let out = *n.outputs.get(k)?;
        let info = NodeInfo {
            name: n.name.clone(),
            op: "Identity".into(),
            engine: copy.engine.clone(),
            inputs: vec![from],
            outputs: vec![self.desc(out)],
            slots: vec![self.slot(out)],
            stream: Some(stream),
            logical_stream: self.draft.streams.logical.get(stream as usize).copied(),
            ..NodeInfo::default()
        };
        let at = self.push(info, NODE_OF_NONE);
        let tasks = copy.tasks.iter().map(|t| TaskInfo { graph: 0, node: at, stream, ..t.clone() });
        self.m.tasks.extend(tasks);
        if let Some(b) = copy.kernel.as_ref().filter(|b| self.m.kernels.iter().all(|k| k.name != b.name.as_str())) {
            let binary = Bytes::copy_from_slice(&b.binary);
            self.m.kernels.push(KernelInfo { name: b.name.to_string(), engine: copy.engine.clone(), binary });
        }
        Some(ValueAt { node: at, output: 0 })
    }
    /// The node and output from which a launch reads a value.
    fn read(&mut self, v: u32) -> ValueAt {
        if let Some(at) = self.at[v as usize] {
            return at;
        }
        let r = self.root(v);
        if let Some((t, offset)) = &self.graph.constants[r as usize] {
            let size = t.byte_len().unwrap_or(0);
            let slot = SlotInfo { space: SlotInfo::WEIGHTS, offset: *offset, size, ..SlotInfo::default() };
            self.slots[v as usize] = Some(slot);
            return self.source(v, if r == v { "Const" } else { "Reshape" });
        }
        if let Some(slot) = self.slots[r as usize] {
            self.slots[v as usize] = Some(slot);
        }
        self.source(v, "Reshape")
    }
}
