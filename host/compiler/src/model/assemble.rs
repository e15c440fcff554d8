//! Converts a `GeRootModel` into the plain `CompiledModel` that the OM stores.
use super::sync_nodes::{Around, SyncNodes};
use super::{GeRootModel, gears};
use crate::fusion::FusionRecord;
use crate::ids::NodeKey;
use crate::memory::{Io, Slot, Space, SpaceReport, ZeroCopyRange};
use crate::output_names;
use crate::sync::Resource;
use crate::tasks::PlacedTask;
use bytes::Bytes;
use ge_ir::ValueRef;
use ge_model::{
    CompiledModel, EventInfo, FusionInfo, GraphInfo, IoInfo, KernelInfo, LogicalInfo, MemoryInfo, NodeInfo, PassInfo,
    PhysicalInfo, SlotInfo, SpaceInfo, StreamsInfo, TaskInfo, ValueAt, ZeroCopyInfo,
};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::task::TaskType;
use std::collections::{BTreeSet, HashMap};

/// Converts everything that was decided into plain data. `time_ns` returns the run time of a node
/// in nanoseconds including its launch, as the engines plan with it; the simulated clock itself
/// adds a launch to each task. What the compiled model keeps is moved and the rest is freed as soon
/// as it has been read, so that a large graph never exists twice.
pub fn assemble(mut root: GeRootModel, time_ns: &dyn Fn(NodeKey) -> u64) -> CompiledModel {
    let fusions = std::mem::take(&mut root.records.fusions);
    let mut m = CompiledModel {
        name: root.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        soc: root.soc.clone(),
        options: root.options.given().clone(),
        plugins: root.plugins.clone(),
        event_num: root.sync.event_num,
        notify_num: root.sync.notify_num,
        rank_size: root.rank_size,
        weights: root.weights.segments.iter().map(|(at, b)| (*at, Bytes::from_owner(b.clone()))).collect(),
        streams: streams(&root),
        events: events(&root),
        memory: memory(&mut root),
        label_num: root.physical.tasks.iter().filter(|t| t.task.kind() == TaskType::LABEL_SET).count() as u32,
        passes: passes(&root, fusions),
        ..CompiledModel::default()
    };
    io(&root, &mut m);
    gears::describe(&root.model, &mut m);
    // The slice graphs of each call follow all other graphs, in the order of the calls' tasks.
    let sliced = root.physical.tasks.iter().filter(|t| t.task.kind() == TaskType::FFTS_PLUS);
    let called = sliced.filter_map(|t| root.calls.get(t.node.get(&root.model)?.name()));
    let slices: Vec<GraphInfo> = called.flat_map(|c| c.graphs.iter().cloned()).collect();
    let nodes = SyncNodes::generate(&root.model, &root.sync, &root.physical.tasks, &root.runtime_engine);
    m.tasks = tasks(&mut root, &nodes, time_ns);
    m.kernels = std::mem::take(&mut root.kernels)
        .into_iter()
        .map(|k| KernelInfo { name: k.name, engine: k.engine, binary: k.binary.into() })
        .collect();
    m.graphs = graphs(root, nodes);
    m.graphs.extend(slices);
    m
}

fn streams(root: &GeRootModel) -> StreamsInfo {
    StreamsInfo {
        logical: root
            .streams
            .streams
            .iter()
            .zip(followed(root))
            .map(|(s, hccl_followed)| LogicalInfo {
                label: s.label.clone(),
                user_label: s.user_label.clone(),
                attached: s.attached,
                hccl_followed,
            })
            .collect(),
        physical: root
            .physical
            .streams
            .iter()
            .map(|p| PhysicalInfo { logical: p.logical.0, huge: p.huge, head: p.head, priority: 0 })
            .collect(),
        single: root.streams.single,
        assigned_by_stream_pass: root.streams.assigned_by_stream_pass,
    }
}

fn events(root: &GeRootModel) -> Vec<EventInfo> {
    let pairs = root.sync.pairs.iter().map(|p| EventInfo {
        id: p.id.0,
        notify: p.notify,
        send: p.send.node.name(&root.model),
        recv: p.recv.node.name(&root.model),
    });
    let mut out: Vec<EventInfo> = pairs.collect();
    // Events that a node's own tasks record, from its attached stream to its main one. Ranks signal
    // each other without such a task.
    let record = |t: &PlacedTask| {
        let notify = match t.task.kind() {
            TaskType::EVENT_RECORD => false,
            TaskType::NOTIFY_RECORD => true,
            _ => return None,
        };
        Some((t.node, Resource { id: t.sync_id?, notify }))
    };
    let records: BTreeSet<(NodeKey, Resource)> = root.physical.tasks.iter().filter_map(record).collect();
    for (key, all) in &root.sync.resources {
        let name = key.name(&root.model);
        let own = all.iter().filter(|r| records.contains(&(*key, **r)));
        out.extend(own.map(|r| EventInfo { id: r.id, notify: r.notify, send: name.clone(), recv: name.clone() }));
    }
    out
}

fn memory(root: &mut GeRootModel) -> MemoryInfo {
    let space = |s: SpaceReport| SpaceInfo {
        memory: s.memory.name().to_owned(),
        size: s.size,
        lower_bound: s.lower_bound,
        zero_copy: s.zero_copy,
        assigner: s.assigner,
        pieces: s.pieces,
    };
    let zero_copy = |z: &ZeroCopyRange| {
        let (output, index) = match z.io {
            Io::Input(k) => (false, k),
            Io::Output(k) => (true, k),
        };
        ZeroCopyInfo {
            output,
            index,
            memory: z.memory.code(),
            offset: z.offset,
            size: z.size,
            overwritten: z.overwritten,
            of_input: z.of_input,
        }
    };
    MemoryInfo {
        spaces: std::mem::take(&mut root.memory.spaces).into_iter().map(space).collect(),
        zero_copy: root.memory.zero_copy.iter().map(zero_copy).collect(),
        weights: root.weights.bytes,
        variables: root.memory.variable_bytes,
        peak: std::mem::take(&mut root.memory.peak),
    }
}

/// Moves the tasks out of `root`.
fn tasks(root: &mut GeRootModel, sync: &SyncNodes, time_ns: &dyn Fn(NodeKey) -> u64) -> Vec<TaskInfo> {
    let tasks = std::mem::take(&mut root.physical.tasks);
    let root = &*root;
    let launch = root.soc.task_launch_ns;
    let several = tasks.iter().any(|t| !t.task.nodes.is_empty());
    let names = || root.model.graphs().iter().enumerate().flat_map(|(gi, g)| g.nodes().map(move |n| (gi, n)));
    let by_name: HashMap<(usize, &str), NodeKey> = if several {
        names().map(|(gi, n)| ((gi, n.name()), NodeKey::new(gi, n.id()))).collect()
    } else {
        HashMap::new()
    };
    let time = |t: &PlacedTask| match t.task.kind() {
        // A tiling function is a few lines on one AI CPU, so its launch counts as its whole time.
        TaskType::PREPROCESS_KERNEL => 0,
        TaskType::FFTS_PLUS if !t.task.private.is_empty() => {
            let call = t.node.get(&root.model).and_then(|n| root.calls.get(n.name()));
            call.map_or(0, |c| c.time_ns)
        }
        _ if t.task.nodes.is_empty() => time_ns(t.node).saturating_sub(launch),
        _ => {
            let own = t.task.nodes.iter().filter_map(|n| by_name.get(&(t.node.graph as usize, n.as_str())));
            own.map(|key| time_ns(*key).saturating_sub(launch)).sum()
        }
    };
    let info = |(i, t): (usize, PlacedTask)| {
        let time_ns = if t.task.kernel.is_some() { time(&t) } else { 0 };
        let at = sync.of_task.get(&i).copied().unwrap_or(sync.at[t.node.graph as usize][t.node.node]);
        let mut info = TaskInfo {
            kind: t.task.kind,
            graph: t.node.graph,
            node: at,
            stream: t.physical.0,
            sync_id: t.sync_id,
            sqe_num: t.task.sqe_num,
            numbers: t.task.numbers.into_vec(),
            private: Bytes::from(t.task.private.into_vec()),
            nodes: t.task.nodes.iter().map(|n| n.to_string()).collect(),
            args_format: t.task.operands.into_string(),
            ..TaskInfo::default()
        };
        if let ROption::RSome(k) = t.task.kernel {
            info.kernel_name = k.kernel_name.into_string();
            info.so_name = k.so_name.into_string();
            info.kernel_type = k.kernel_type;
            info.block_dim = k.block_dim;
            info.tiling_key = k.tiling_key;
            info.tiling = Bytes::from(k.tiling.into_vec());
            info.args_format = k.args_format.into_string();
            info.schedule_mode = k.schedule_mode;
            info.time_ns = time_ns;
        }
        info
    };
    tasks.into_iter().enumerate().map(info).collect()
}

fn passes(root: &GeRootModel, fusions: Vec<FusionRecord>) -> Vec<PassInfo> {
    let mut out: Vec<PassInfo> = Vec::new();
    for r in root.records.runs.iter().filter(|r| r.changes > 0) {
        match out.iter_mut().find(|p| p.stage == r.stage && p.name == r.pass) {
            Some(p) => p.changes += r.changes,
            None => out.push(PassInfo {
                stage: r.stage.to_owned(),
                name: r.pass.clone(),
                changes: r.changes,
                fusions: Vec::new(),
            }),
        }
    }
    for f in fusions {
        if let Some(p) = out.iter_mut().find(|p| p.name == f.pass) {
            p.fusions.push(FusionInfo { before: f.before, after: f.after });
        }
    }
    out
}

fn slot(s: &Slot) -> SlotInfo {
    let (space, memory) = match s.space {
        Space::None => (SlotInfo::NOWHERE, 0),
        Space::Feature(k) => (SlotInfo::FEATURE, k.code()),
        Space::Weights => (SlotInfo::WEIGHTS, 0),
        Space::Variables => (SlotInfo::VARIABLES, 0),
    };
    SlotInfo { space, memory, offset: s.offset, size: s.size, zero_copy: s.zero_copy, ref_input: s.ref_input }
}

/// Takes the graphs apart: names, descriptors and attributes are moved, edges are freed.
fn graphs(root: GeRootModel, sync: SyncNodes) -> Vec<GraphInfo> {
    let GeRootModel { model, calls, placement, engines, streams, mut memory, mut physical, mut records, .. } = root;
    let SyncNodes { at, nodes: mut around, .. } = sync;
    let mut out = Vec::new();
    for (gi, (g, t)) in model.into_graphs().into_iter().zip(&at).enumerate() {
        let mut nodes = Vec::with_capacity(g.len() + around.len());
        let name = g.name().to_owned();
        let (attrs, loose) = g.into_nodes();
        for (id, n) in loose {
            let key = NodeKey::new(gi, id);
            let Around { before, after } = around.remove(&key).unwrap_or_default();
            let first = nodes.len() as u32;
            let waits = first..first + before.len() as u32;
            nodes.extend(before);
            let input = |v: &ValueRef| (!v.is_absent()).then(|| ValueAt { node: t[v.node], output: v.output });
            let called = calls.get(&n.name).into_iter().flat_map(|c| c.graphs.iter().map(|g| g.name.clone()));
            let subgraphs = n.subgraphs().into_iter().map(str::to_owned).chain(called).collect();
            nodes.push(NodeInfo {
                refusals: records.refusals.remove(&n.name).unwrap_or_default(),
                name: n.name,
                op: n.op.as_str().to_owned(),
                engine: engines[usize::from(placement.engine[key].0)].clone(),
                inputs: n.inputs.iter().map(input).collect(),
                controls: n.controls.iter().map(|c| t[*c]).chain(waits).collect(),
                outputs: n.outputs,
                slots: std::mem::take(&mut memory.outputs[key]).iter().map(slot).collect(),
                workspaces: std::mem::take(&mut memory.workspaces[key]).iter().map(slot).collect(),
                attrs: n.attrs,
                stream: physical.of[key].map(|p| p.0),
                logical_stream: streams.of[key].map(|s| s.0),
                attached_streams: std::mem::take(&mut physical.attached[key]).iter().map(|p| p.0).collect(),
                subgraphs,
            });
            nodes.extend(after);
        }
        out.push(GraphInfo { name, attrs, nodes });
    }
    out
}

fn io(root: &GeRootModel, m: &mut CompiledModel) {
    let g = root.model.root();
    for n in g.data_nodes() {
        let key = NodeKey::new(0, n.id());
        m.inputs.push(IoInfo {
            name: n.name().to_owned(),
            desc: n.outputs().first().cloned().unwrap_or_default(),
            slot: root.memory.outputs[key].first().map(slot).unwrap_or_default(),
        });
    }
    if let Some(out) = g.net_output() {
        for (v, name) in out.inputs().iter().zip(output_names::of(g, out)) {
            let p = NodeKey::new(0, v.node);
            m.outputs.push(IoInfo {
                name,
                desc: g.desc(*v).cloned().unwrap_or_default(),
                slot: root.memory.outputs[p].get(v.output as usize).map(slot).unwrap_or_default(),
            });
        }
    }
}

/// For each logical stream, the number of follower streams that its collectives use: the maximum of
/// `used_stream_num` over its nodes, since the nodes of one stream use them one after the other.
fn followed(root: &GeRootModel) -> Vec<u32> {
    let mut out = vec![0u32; root.streams.streams.len()];
    for (gi, g) in root.model.graphs().iter().enumerate() {
        for n in g.nodes() {
            let used = n.attrs().int("used_stream_num").and_then(|k| u32::try_from(k).ok()).unwrap_or(0);
            let stream = root.streams.of[NodeKey::new(gi, n.id())];
            if let Some(most) = stream.and_then(|s| out.get_mut(s.0 as usize)) {
                *most = (*most).max(used);
            }
        }
    }
    out
}
