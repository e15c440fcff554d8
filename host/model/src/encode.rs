//! Encodes a compiled model as the parts of an OM.
use crate::data::{CompiledModel, GraphInfo, NodeInfo, SlotInfo, TaskInfo};
use crate::{attrs, context_graph, desc};
use bytes::Bytes;
use ge_om::attr::{AttrMap as _, Value};
use ge_om::proto::ir::{GraphDef, ModelDef, OpDef, ShapeDef, TensorDef, TensorDescriptor};
use ge_om::proto::task::{self, ModelTaskDef, TaskDef};
use ge_om::{Encoded, KernelRecord, ModelParts, WeightSegment};
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::task::TaskType;
use serde::Serialize;

/// Logical base address of variables (facts 2.1).
const VARIABLE_BASE: u64 = 32 << 30;
/// Model attribute: the model uses the weights of the first model in the file.
pub(crate) const SHARED: &str = "ge_rs.weights_of_first";
/// Number of operators or tasks that are encoded together; small enough that even a small model is
/// split among threads.
const PIECE: usize = 64;

/// Encodes the models of an OM file: the model itself, followed by its parts.
pub fn encode_all(m: &CompiledModel) -> Vec<ModelParts> {
    std::iter::once(m).chain(&m.parts).map(encode).collect()
}

/// Encodes the model itself, without its parts.
pub fn encode(m: &CompiledModel) -> ModelParts {
    let mut def = ModelDef { name: m.name.clone(), version: 1, ..ModelDef::default() };
    def.graph = m.graphs.iter().map(graph).collect();
    let a = &mut def.attr;
    a.set("ge_rs.version", m.version.clone());
    a.set("soc_version", m.soc.name.to_string());
    a.set("stream_num", m.streams.physical.len() as i64);
    a.set("event_num", i64::from(m.event_num));
    a.set("notify_num", i64::from(m.notify_num));
    a.set("label_num", i64::from(m.label_num));
    let huge: Vec<i64> = m.streams.physical.iter().enumerate().filter(|(_, p)| p.huge).map(|(i, _)| i as i64).collect();
    a.set("huge_stream_list", list(huge));
    let hbm = m.memory.spaces.iter().find(|s| s.memory == "HBM");
    a.set("memory_size", hbm.map_or(0, |s| s.size as i64));
    a.set("zero_copy_memory_size", hbm.map_or(0, |s| s.zero_copy as i64));
    a.set("weight_size", m.memory.weights as i64);
    a.set("attr_model_out_nodes_name", strs(m.outputs.iter().map(|o| o.name.clone()).collect()));
    a.set("ge_rs.rank_size", i64::from(m.rank_size));
    json(def_attr(&mut def), "ge_rs.options", &m.options);
    json(def_attr(&mut def), "ge_rs.plugins", &m.plugins);
    json(def_attr(&mut def), "ge_rs.streams", &m.streams);
    json(def_attr(&mut def), "ge_rs.events", &m.events);
    json(def_attr(&mut def), "ge_rs.memory", &m.memory);
    json(def_attr(&mut def), "ge_rs.passes", &m.passes);
    if m.shares_weights {
        def.attr.set(SHARED, 1i64);
    } else if !m.external.is_empty() {
        json(def_attr(&mut def), "ge_rs.external_weights", &m.external);
    }
    if m.is_dynamic() {
        json(def_attr(&mut def), "ge_rs.ranges", &m.ranges);
    }
    if let Some(gears) = &m.gears {
        json(def_attr(&mut def), "ge_rs.gears", gears);
    }
    json(def_attr(&mut def), "ge_rs.soc", &soc(m));
    let kernel_engines: Vec<(&str, &str)> = m.kernels.iter().map(|k| (k.name.as_str(), k.engine.as_str())).collect();
    json(def_attr(&mut def), "ge_rs.kernel_engines", &kernel_engines);
    let nodes: Vec<i64> = m.tasks.iter().flat_map(|t| [i64::from(t.graph), i64::from(t.node)]).collect();
    def.attr.set("ge_rs.task_nodes", list(nodes));
    let times: Vec<i64> = m.tasks.iter().map(|t| t.time_ns as i64).collect();
    def.attr.set("ge_rs.task_times", list(times));
    // Store what TASK_INFO has no field for: numbers, nodes of joint tasks, and operands of tasks
    // without a kernel.
    let operands = |t: &TaskInfo| {
        let placed =
            matches!(TaskType(t.kind), TaskType::MEMCPY_ASYNC | TaskType::MEMCPY_ADDR_ASYNC | TaskType::UPDATE);
        if placed || !t.kernel_name.is_empty() { String::new() } else { t.args_format.clone() }
    };
    let extra: Vec<(usize, &[i64], &[String], String)> = m
        .tasks
        .iter()
        .enumerate()
        .map(|(i, t)| (i, &t.numbers[..], &t.nodes[..], operands(t)))
        .filter(|(_, numbers, nodes, operands)| !numbers.is_empty() || !nodes.is_empty() || !operands.is_empty())
        .collect();
    json(def_attr(&mut def), "ge_rs.task_numbers", &extra);
    let io = |v: &[crate::IoInfo]| -> Vec<i64> { v.iter().flat_map(|i| slot(&i.slot)).collect() };
    def.attr.set("ge_rs.input_slots", list(io(&m.inputs)));
    def.attr.set("ge_rs.output_slots", list(io(&m.outputs)));
    def.attr.set("ge_rs.inputs", Value::Descs(m.inputs.iter().map(|i| desc::to_proto(&i.name, &i.desc)).collect()));
    def.attr.set("ge_rs.outputs", Value::Descs(m.outputs.iter().map(|i| desc::to_proto(&i.name, &i.desc)).collect()));
    ModelParts {
        model_def: def,
        ops: m.graphs.iter().map(ops).collect(),
        weights: weights(m),
        kernels: m.kernels.iter().map(|k| KernelRecord { name: k.name.clone(), bin: k.binary.clone() }).collect(),
        tasks: task_info(m),
        more_tasks: tasks(m),
        ..ModelParts::default()
    }
}

/// The weights, padded to their planned size; empty if they are stored elsewhere.
fn weights(m: &CompiledModel) -> Vec<WeightSegment> {
    if !m.external.is_empty() || m.shares_weights {
        return Vec::new();
    }
    let mut out: Vec<WeightSegment> =
        m.weights.iter().map(|(offset, data)| WeightSegment { offset: *offset, data: data.clone() }).collect();
    let end = out.last().map_or(0, |s| s.offset + s.data.len() as u64);
    if let Some(pad) = m.memory.weights.checked_sub(end).filter(|p| *p > 0 && *p <= 4096) {
        out.push(WeightSegment { offset: end, data: Bytes::from(vec![0u8; pad as usize]) });
    }
    out
}

fn def_attr(def: &mut ModelDef) -> &mut std::collections::BTreeMap<String, ge_om::proto::ir::AttrDef> {
    &mut def.attr
}
fn json<T: Serialize>(to: &mut std::collections::BTreeMap<String, ge_om::proto::ir::AttrDef>, name: &str, value: &T) {
    if let Ok(text) = serde_json::to_string(value) {
        to.set(name, text);
    }
}
fn list(v: Vec<i64>) -> Value {
    if v.is_empty() { Value::EmptyList } else { Value::Ints(v) }
}
fn strs(v: Vec<String>) -> Value {
    if v.is_empty() { Value::EmptyList } else { Value::Strs(v) }
}

/// The SoC as a table of numbers, so that an OM can be run and checked without its SoC file.
fn soc(m: &CompiledModel) -> serde_json::Value {
    let s = &m.soc;
    serde_json::json!({
        "name": s.name.as_str(), "aic_cores": s.aic_cores, "aiv_cores": s.aiv_cores, "prefetch_num": s.prefetch_num,
        "memory_bytes": s.memory_bytes, "streams_normal": s.streams_normal, "tasks_normal": s.tasks_normal,
        "streams_huge": s.streams_huge, "tasks_huge": s.tasks_huge, "unlimited_depth": s.unlimited_depth,
        "max_events": s.max_events, "max_notifies": s.max_notifies, "model_task_update": s.model_task_update,
        "task_launch_ns": s.task_launch_ns, "event_record_ns": s.event_record_ns, "event_wait_ns": s.event_wait_ns,
    })
}

fn slot(s: &SlotInfo) -> [i64; 6] {
    [
        i64::from(s.space),
        i64::from(s.memory),
        s.offset as i64,
        s.size as i64,
        i64::from(s.zero_copy),
        s.ref_input.map_or(-1, i64::from),
    ]
}

/// Encodes a graph without its operators.
fn graph(g: &GraphInfo) -> GraphDef {
    let mut out = GraphDef { name: g.name.clone(), ..GraphDef::default() };
    for a in g.attrs.iter() {
        if let Some(v) = attrs::to_proto(&a.value) {
            out.attr.set(a.key.as_str(), v);
        }
    }
    let name = |i: u32| g.nodes.get(i as usize).map_or("", |n| n.name.as_str());
    out.input = g
        .nodes
        .iter()
        .filter(|n| matches!(n.op.as_str(), "Data" | "RefData" | "AippData"))
        .map(|n| format!("{}:0", n.name))
        .collect();
    if let Some(o) = g.nodes.iter().rev().find(|n| n.op == "NetOutput") {
        out.output = o.inputs.iter().flatten().map(|v| format!("{}:{}", name(v.node), v.output)).collect();
    }
    out
}

/// Splits a list into the ranges that are encoded together.
fn pieces(len: usize) -> Vec<std::ops::Range<usize>> {
    (0..len).step_by(PIECE).map(|at| at..len.min(at + PIECE)).collect()
}

fn ops(g: &GraphInfo) -> Encoded {
    Encoded::ops(&pieces(g.nodes.len()), |r| r.clone().filter_map(|i| Some(node(g, i, g.nodes.get(i)?))))
}

fn address(s: &SlotInfo) -> i64 {
    (if s.space == SlotInfo::VARIABLES { VARIABLE_BASE.saturating_add(s.offset) } else { s.offset }) as i64
}

fn node(g: &GraphInfo, id: usize, n: &NodeInfo) -> OpDef {
    let mut op =
        OpDef { name: n.name.clone(), r#type: n.op.clone(), id: id as i64, has_out_attr: true, ..OpDef::default() };
    op.stream_id = n.stream.map_or(-1, i64::from);
    for (i, v) in n.inputs.iter().enumerate() {
        op.input_name.push(format!("x{i}"));
        let Some(v) = v else {
            op.input.push(String::new());
            op.src_name.push(String::new());
            op.src_index.push(-1);
            op.input_desc.push(TensorDescriptor { layout: "RESERVED".into(), ..TensorDescriptor::default() });
            op.is_input_const.push(false);
            op.input_i.push(0);
            continue;
        };
        let p = g.nodes.get(v.node as usize);
        let pname = p.map_or("", |p| p.name.as_str());
        let label = format!("{pname}:{}", v.output);
        op.src_name.push(pname.to_owned());
        op.src_index.push(i64::from(v.output));
        op.is_input_const.push(p.is_some_and(|p| matches!(p.op.as_str(), "Const" | "Constant")));
        op.input_i.push(p.and_then(|p| p.slots.get(v.output as usize)).map_or(0, address));
        if let Some(d) = p.and_then(|p| p.outputs.get(v.output as usize)) {
            op.input_desc.push(desc::to_proto(&label, d));
        }
        op.input.push(label);
    }
    for c in &n.controls {
        if let Some(p) = g.nodes.get(*c as usize) {
            op.input.push(format!("{}:-1", p.name));
        }
    }
    for (k, d) in n.outputs.iter().enumerate() {
        let mut t = desc::to_proto(&format!("{}:{k}", n.name), d);
        if let Some(s) = n.slots.get(k) {
            op.output_i.push(address(s));
            t.size = i64::try_from(s.size).unwrap_or(t.size).max(t.size);
        }
        op.output_desc.push(t);
    }
    for w in &n.workspaces {
        op.workspace.push(w.offset as i64);
        op.workspace_bytes.push(w.size as i64);
    }
    for a in n.attrs.iter() {
        if desc::is_own(a.key.as_str()) || desc::is_left_out(a.key.as_str(), &a.value, &n.op) {
            continue;
        }
        if let Some(v) = attrs::to_proto(&a.value) {
            op.attr.set(a.key.as_str(), v);
        }
    }
    op.attr.set("ge_rs.slots", list(n.slots.iter().flat_map(slot).collect()));
    if !n.workspaces.is_empty() {
        op.attr.set("ge_rs.workspaces", list(n.workspaces.iter().flat_map(slot).collect()));
    }
    if let Some(l) = n.logical_stream {
        op.attr.set("_logic_stream_id", i64::from(l));
    }
    if !n.attached_streams.is_empty() {
        op.attr.set("_attached_stream_ids", list(n.attached_streams.iter().map(|s| i64::from(*s)).collect()));
    }
    op.attr.set("_engine", n.engine.clone());
    if !n.refusals.is_empty() {
        json(&mut op.attr, "ge_rs.refusals", &n.refusals);
    }
    if !n.subgraphs.is_empty() {
        op.subgraph_name = n.subgraphs.clone();
    }
    if matches!(n.op.as_str(), "Const" | "Constant") {
        if let (Some(d), Some(s)) = (n.outputs.first(), n.slots.first()) {
            let mut t = desc::to_proto(&n.name, d);
            t.weight_size = s.size as i64;
            t.data_offset = s.offset as i64;
            t.shape = Some(ShapeDef { dim: ge_om::desc::shape(&t).to_vec() });
            t.attr.set("merged_offset", s.offset as i64);
            op.attr.set("value", Value::Tensor(TensorDef { desc: Some(t), data: Bytes::new() }));
        }
    }
    op
}

/// Encodes TASK_INFO without its tasks.
fn task_info(m: &CompiledModel) -> ModelTaskDef {
    let hbm = m.memory.spaces.iter().find(|s| s.memory == "HBM");
    ModelTaskDef {
        version: "1".into(),
        memory_size: hbm.map_or(0, |s| s.size),
        stream_num: m.streams.physical.len() as u32,
        event_num: m.event_num,
        weight_size: m.memory.weights,
        ..ModelTaskDef::default()
    }
}

fn tasks(m: &CompiledModel) -> Encoded {
    let starts: Vec<u32> = m
        .graphs
        .iter()
        .scan(0u32, |at, g| {
            let s = *at;
            *at += g.nodes.len() as u32;
            Some(s)
        })
        .collect();
    let op_index = |t: &TaskInfo| starts.get(t.graph as usize).copied().unwrap_or(0) + t.node;
    Encoded::tasks(&pieces(m.tasks.len()), |r| {
        r.clone().filter_map(|i| m.tasks.get(i).map(|t| task_def(i, t, op_index(t), &m.soc)))
    })
}

fn task_def(i: usize, t: &TaskInfo, op_index: u32, soc: &SocSpec) -> TaskDef {
    let mut d = TaskDef { id: i as u32, r#type: t.kind, stream_id: t.stream, sqe_num: t.sqe_num, ..TaskDef::default() };
    let id = t.sync_id.unwrap_or(0);
    let number = |k: usize| t.numbers.get(k).copied().unwrap_or(0);
    d.private_def = t.private.clone();
    match TaskType(t.kind) {
        TaskType::EVENT_RECORD | TaskType::EVENT_WAIT => {
            d.event_id = id;
            d.event_ex = Some(Box::new(task::EventExDef { op_index, event_type: 0 }));
        }
        TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT => d.notify_id = id,
        TaskType::MEMCPY_ASYNC | TaskType::MEMCPY_ADDR_ASYNC => {
            d.memcpy_async = Some(Box::new(task::MemcpyAsyncDef {
                op_index,
                args_format: t.args_format.clone(),
                kind: number(0) as u32,
                ..Default::default()
            }));
        }
        TaskType::STREAM_SWITCH => {
            d.stream_switch = Some(Box::new(task::StreamSwitchDef {
                op_index,
                true_stream_id: number(2) as u32,
                data_type: number(1) as u32,
                ..Default::default()
            }));
        }
        TaskType::STREAM_ACTIVE => {
            d.stream_active = Some(Box::new(task::StreamActiveDef { op_index, active_stream_id: number(0) as u32 }))
        }
        TaskType::LABEL_SET => {
            d.label_set =
                Some(Box::new(task::LabelSetDef { op_index, label_id: number(0) as u32, ..Default::default() }))
        }
        TaskType::STREAM_LABEL_GOTO => {
            d.label_goto_ex =
                Some(Box::new(task::LabelGotoExDef { op_index, label_id: number(0) as u32, ..Default::default() }))
        }
        TaskType::STREAM_LABEL_SWITCH_BY_INDEX => {
            d.label_switch_by_index =
                Some(Box::new(task::LabelSwitchByIndexDef { op_index, label_max: t.numbers.len() as u32 }));
        }
        TaskType::UPDATE => {
            d.update_pc_task = Some(Box::new(task::UpdatePcTaskDef {
                op_index,
                stream_id: t.stream,
                args_format: t.args_format.clone(),
            }));
        }
        TaskType::END_GRAPH | TaskType::NOP | TaskType::EVENT_RESET | TaskType::MODEL_EXIT => {}
        kind => {
            if kind == TaskType::FFTS_PLUS {
                d.ffts_plus_task = context_graph::to_proto(t, op_index, soc).map(Box::new);
            }
            d.kernel = Some(Box::new(task::KernelDef {
                context: Some(task::KernelContext {
                    kernel_type: t.kernel_type,
                    op_index,
                    args_count: t.args_format.matches('{').count() as u32,
                    args_format: t.args_format.clone(),
                    ..Default::default()
                }),
                so_name: t.so_name.clone(),
                kernel_name: t.kernel_name.clone(),
                block_dim: t.block_dim,
                args_size: t.tiling.len() as u32,
                args: t.tiling.clone(),
                kernel_ext_info: Bytes::copy_from_slice(&t.tiling_key.to_le_bytes()),
                kernel_ext_info_size: 8,
                schedule_mode: t.schedule_mode,
                ..Default::default()
            }));
        }
    }
    d
}
