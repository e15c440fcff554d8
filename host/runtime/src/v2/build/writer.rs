//! Writes a round as a model of the device: nodes, tasks and events.
use super::super::decide::attrs_of;
use super::super::graph::{Graph, Node};
use super::super::launch::Launch;
use super::super::plan::{Draft, Home};
use super::Loader;
use super::layout::Layout;
use crate::several::Made;
use bytes::Bytes;
use ge_model::{
    CompiledModel, EventInfo, GraphInfo, KernelInfo, LogicalInfo, MemoryInfo, NodeInfo, PhysicalInfo, SlotInfo,
    StreamsInfo, TaskInfo, ValueAt,
};
use ge_plugin_api::task::TaskType;
use ge_plugin_api::types::AttrMap;
use std::collections::HashSet;
use std::mem::take;

const NODE_OF_NONE: u32 = u32::MAX;

/// The device's model of a round.
pub(super) struct Written<'w> {
    pub(super) m: CompiledModel,
    /// By node of the model: the graph's node, or none.
    pub(super) nodes: Vec<u32>,
    /// What is known of each task.
    pub(super) made: Vec<Made<'w>>,
    /// The launch of each task.
    pub(super) of: Vec<Option<u32>>,
}

/// Writes all launches of a round, with the events that keep their order, or only the launches
/// marked in `others`.
pub(super) fn write<'w>(layout: &mut Layout<'w>, load: &Loader<'_>, others: Option<&[bool]>) -> Written<'w> {
    let m = CompiledModel {
        memory: MemoryInfo { weights: load.weights.len() as u64, ..take(&mut layout.memory) },
        inputs: take(&mut layout.inputs),
        outputs: take(&mut layout.outputs),
        ..empty(layout.graph, layout.draft, load)
    };
    let out = Written { m, nodes: Vec::new(), made: Vec::new(), of: Vec::new() };
    let (graph, draft) = (layout.graph, layout.draft);
    let mut w = Writer { layout, graph, draft, out, at: vec![None; graph.values()] };
    w.write(others);
    w.out
}

/// A model without nodes and tasks, with the streams of a round.
fn empty(graph: &Graph, draft: &Draft, load: &Loader<'_>) -> CompiledModel {
    let streams = &draft.streams;
    let physical = |(k, logical): (usize, &u32)| PhysicalInfo {
        logical: *logical,
        head: true,
        huge: streams.is_huge(k),
        ..PhysicalInfo::default()
    };
    CompiledModel {
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
        graphs: vec![GraphInfo { name: graph.name.clone(), ..GraphInfo::default() }],
        ..CompiledModel::default()
    }
}

struct Writer<'l, 'w> {
    layout: &'l Layout<'w>,
    graph: &'w Graph,
    draft: &'w Draft,
    out: Written<'w>,
    /// By value: the node in the device's graph that produces it, and its output.
    at: Vec<Option<ValueAt>>,
}

/// Event ids, by the launches that record them and wait for them.
#[derive(Default)]
struct Events {
    records: Vec<Vec<u32>>,
    waits: Vec<Vec<u32>>,
    /// Events that the end of the round waits for.
    end: Vec<u32>,
}

impl Writer<'_, '_> {
    /// Writes nodes and tasks: all of them, with the events that keep their order, or only those of
    /// the launches marked in `others`.
    fn write(&mut self, others: Option<&[bool]>) {
        let draft = self.draft;
        // One node per launch, and usually one or two more for what it reads.
        let (nodes, tasks) = (3 * draft.launches.len() + self.layout.ins.len() + 1, draft.launches.len() + 1);
        self.out.m.graphs[0].nodes.reserve(nodes);
        self.out.nodes.reserve(nodes);
        self.out.m.tasks.reserve(tasks);
        self.out.made.reserve(tasks);
        for v in &self.layout.ins {
            self.source(*v, "Data", self.layout.slot(*v));
        }
        let mut kernels: HashSet<&str> = HashSet::with_capacity(draft.launches.len());
        let events = if others.is_none() { self.events(&draft.streams.end()) } else { Events::default() };
        for (k, l) in draft.launches.iter().enumerate() {
            if others.is_some_and(|o| !o[k]) || self.layout.no_task.silent[k] {
                continue;
            }
            let n = &self.graph.nodes[l.node as usize];
            let reads: Vec<Option<u32>> = match &l.pieces {
                Some(p) => p.reads.iter().copied().map(Some).collect(),
                None => n.inputs.clone(),
            };
            let mut inputs: Vec<Option<ValueAt>> = reads.into_iter().map(|v| v.map(|v| self.read(v))).collect();
            let stream = draft.streams.launches[k].stream as u32;
            let first = self.out.m.graphs[0].nodes.len() as u32;
            self.sync(TaskType::EVENT_WAIT, first, stream, events.waits.get(k).map_or(&[], Vec::as_slice));
            self.out.of.resize(self.out.m.tasks.len(), None);
            for (i, copy) in &l.copies {
                inputs[*i] = self.copy(n, *i, copy, inputs[*i], stream);
                kernels.extend(copy.kernel.iter().map(|b| b.name.as_str()));
            }
            let at = self.out.m.graphs[0].nodes.len() as u32;
            // A launch that extends a state sees the state's whole room.
            let written = |v: &u32| match draft.home[*v as usize] {
                Home::InPlace(of) => self.layout.room(of).unwrap_or_else(|| self.layout.desc(*v)),
                _ => self.layout.desc(*v),
            };
            let is_over = |v: &u32| draft.over.iter().any(|o| draft.home[*v as usize] == Home::InPlace(o.0));
            let in_place = n.outputs.iter().any(is_over);
            let node = NodeInfo {
                name: n.name.clone(),
                op: n.op.as_str().to_owned(),
                engine: l.launch.engine.clone(),
                inputs,
                outputs: n.outputs.iter().map(written).collect(),
                slots: n.outputs.iter().map(|v| self.layout.slot(*v)).collect(),
                workspaces: self.layout.workspaces[k].clone(),
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
                self.out.made.resize(self.out.m.tasks.len(), Made::Plain);
                self.out.made.extend(bound.map(|b| Made::Slices(&p.slices, b)));
                self.out.m.tasks.push(TaskInfo { graph: 0, node: at, stream, ..p.task.clone() });
                if others.is_none() {
                    self.out.m.graphs.push(p.graph());
                }
            }
            for (at_task, t) in l.launch.tasks.iter().enumerate().take(l.bound.len()) {
                self.out.made.resize(self.out.m.tasks.len(), Made::Plain);
                self.out.made.push(if t.kernel_name.is_empty() {
                    Made::Plain
                } else {
                    Made::Launch(&l.bound, at_task)
                });
                self.out.m.tasks.push(TaskInfo { graph: 0, node: at, stream, ..t.clone() });
            }
            self.out.of.resize(self.out.m.tasks.len(), Some(k as u32));
            self.sync(TaskType::EVENT_RECORD, at, stream, events.records.get(k).map_or(&[], Vec::as_slice));
            if let Some(b) = &l.launch.kernel {
                if kernels.insert(b.name.as_str()) {
                    let binary = Bytes::copy_from_slice(&b.binary);
                    let (name, engine) = (b.name.to_string(), l.launch.engine.clone());
                    self.out.m.kernels.push(KernelInfo { name, engine, binary });
                }
            }
        }
        if others.is_some() {
            return;
        }
        let node = self.out.m.graphs[0].nodes.len() as u32;
        self.push(NodeInfo { name: "NetOutput".into(), op: "NetOutput".into(), ..NodeInfo::default() }, NODE_OF_NONE);
        let stream = draft.streams.of_end() as u32;
        self.sync(TaskType::EVENT_WAIT, node, stream, &events.end);
        self.out.m.tasks.push(TaskInfo {
            kind: TaskType::END_GRAPH.code(),
            graph: 0,
            node,
            stream,
            ..TaskInfo::default()
        });
        self.out.of.resize(self.out.m.tasks.len(), None);
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
                let id = self.out.m.events.len() as u32;
                let recv = if k < placed.len() { name(k as u32) } else { "NetOutput".to_owned() };
                self.out.m.events.push(EventInfo { id, notify: false, send: name(*a), recv });
                out.records[*a as usize].push(id);
                own.push(id);
            }
            out.waits.push(own);
        }
        out.end = out.waits.pop().unwrap_or_default();
        self.out.m.event_num = self.out.m.events.len() as u32;
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
        self.out.m.tasks.extend(ids.iter().map(task));
    }
    fn push(&mut self, n: NodeInfo, of: u32) -> u32 {
        self.out.m.graphs[0].nodes.push(n);
        self.out.nodes.push(of);
        self.out.m.graphs[0].nodes.len() as u32 - 1
    }
    /// Adds a node that stands for memory.
    fn source(&mut self, v: u32, op: &str, slot: SlotInfo) -> ValueAt {
        let room = if op == "Data" { self.layout.room(v) } else { None };
        let n = NodeInfo {
            name: self.layout.name(v),
            op: op.into(),
            outputs: vec![room.unwrap_or_else(|| self.layout.desc(v))],
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
            outputs: vec![self.layout.desc(out)],
            slots: vec![self.layout.slot(out)],
            stream: Some(stream),
            logical_stream: self.draft.streams.logical.get(stream as usize).copied(),
            ..NodeInfo::default()
        };
        let at = self.push(info, NODE_OF_NONE);
        let tasks = copy.tasks.iter().map(|t| TaskInfo { graph: 0, node: at, stream, ..t.clone() });
        self.out.m.tasks.extend(tasks);
        if let Some(b) = copy.kernel.as_ref().filter(|b| self.out.m.kernels.iter().all(|k| k.name != b.name.as_str())) {
            let binary = Bytes::copy_from_slice(&b.binary);
            self.out.m.kernels.push(KernelInfo { name: b.name.to_string(), engine: copy.engine.clone(), binary });
        }
        Some(ValueAt { node: at, output: 0 })
    }
    /// The node and output from which a launch reads a value.
    fn read(&mut self, v: u32) -> ValueAt {
        if let Some(at) = self.at[v as usize] {
            return at;
        }
        let r = self.layout.root(v);
        if let Some((t, offset)) = &self.graph.constants[r as usize] {
            let size = t.byte_len().unwrap_or(0);
            let slot = SlotInfo { space: SlotInfo::WEIGHTS, offset: *offset, size, ..SlotInfo::default() };
            return self.source(v, if r == v { "Const" } else { "Reshape" }, slot);
        }
        self.source(v, "Reshape", self.layout.slots[r as usize].unwrap_or_else(|| self.layout.slot(v)))
    }
}
