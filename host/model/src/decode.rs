//! Decodes an OM into a compiled model. Nothing in the file is trusted: every index, offset and
//! size is checked here, so that later stages need no checks.
use crate::ModelError;
use crate::data::*;
use crate::encode::SHARED;
use crate::{attrs, desc};
use ge_om::attr::{AttrMap as _, Value};
use ge_om::proto::ir::{AttrDef, GraphDef, ModelDef, OpDef, TensorDescriptor};
use ge_om::proto::task::TaskDef;
use ge_om::{OmFile, OmModel, Origin};
use ge_plugin_api::device::{MemoryKind, SocSpec};
use ge_plugin_api::task::TaskType;
use ge_plugin_api::types::tensor::Container;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};

type Attrs = BTreeMap<String, AttrDef>;

/// No model has more streams, events or labels than this: it is the greatest limit of any SoC.
const MAX_IDS: u64 = 1 << 17;

/// Decodes the model of an OM file written by ge. It is a static model, a model of unknown shapes
/// followed by its parts of known shape, or a model with gears, optionally followed by the model
/// that runs sizes of no gear.
///
/// # Errors
/// Fails if another product wrote the file or its content is not a valid model.
pub fn decode(file: &OmFile) -> Result<CompiledModel, ModelError> {
    if file.origin() == Origin::Foreign {
        return Err(ModelError::Foreign);
    }
    let [root, parts @ ..] = file.models() else {
        return Err(ModelError::ModelCount { found: 0 });
    };
    let mut m = one(root, None)?;
    if m.shares_weights {
        return Err(ModelError::field("model attribute ge_rs.weights_of_first"));
    }
    if !m.is_dynamic() && m.gears.is_none() && !parts.is_empty() {
        return Err(ModelError::ModelCount { found: file.models().len() });
    }
    m.parts = parts.iter().map(|p| one(p, Some(&m))).collect::<Result<_, _>>()?;
    let mut names = std::collections::HashSet::new();
    let (outside, mut whole) = (m.outside_at(), &m);
    for (k, p) in m.parts.iter().enumerate() {
        // The model that runs sizes of no gear has the same inputs and outputs as the gears.
        if outside == Some(k) {
            let same = |a: &[IoInfo], b: &[IoInfo]| {
                let one = |(a, b): (&IoInfo, &IoInfo)| a.name == b.name && a.desc.dtype == b.desc.dtype;
                a.len() == b.len() && a.iter().zip(b).all(one)
            };
            if p.gears.is_some() || !same(&p.inputs, &m.inputs) || !same(&p.outputs, &m.outputs) {
                return Err(ModelError::field(format!("the model `{}` of sizes of no gear", p.name)));
            }
            whole = p;
            names.clear();
            continue;
        }
        // A part is planned as a whole and found by its name. A model of known shapes has no parts.
        let graph = whole.graphs.iter().any(|g| g.name == p.name);
        if !whole.is_dynamic() || p.is_dynamic() || p.gears.is_some() || graph || !names.insert(p.name.as_str()) {
            return Err(ModelError::field(format!("the part `{}`", p.name)));
        }
    }
    Ok(m)
}

/// Decodes one model of the file; `first` is the model whose weights it may share.
fn one(om: &OmModel, first: Option<&CompiledModel>) -> Result<CompiledModel, ModelError> {
    let def = om.model_def();
    let mut m = CompiledModel { name: def.name.clone(), ..CompiledModel::default() };
    m.version = text(&def.attr, "ge_rs.version")?.to_owned();
    m.options = json(&def.attr, "ge_rs.options")?;
    m.plugins = json(&def.attr, "ge_rs.plugins")?;
    m.streams = json(&def.attr, "ge_rs.streams")?;
    m.events = json(&def.attr, "ge_rs.events")?;
    m.memory = json(&def.attr, "ge_rs.memory")?;
    m.passes = json(&def.attr, "ge_rs.passes")?;
    m.soc = soc(&json(&def.attr, "ge_rs.soc")?)?;
    m.event_num = count(&def.attr, "event_num")?;
    m.notify_num = count(&def.attr, "notify_num")?;
    m.label_num = count(&def.attr, "label_num")?;
    m.rank_size = count(&def.attr, "ge_rs.rank_size")?;
    m.graphs = def.graph.iter().map(graph).collect::<Result<_, _>>()?;
    if m.graphs.is_empty() {
        return Err(ModelError::field("the root graph"));
    }
    if m.is_dynamic() {
        m.ranges = json(&def.attr, "ge_rs.ranges")?;
    }
    m.inputs = ios(def, "ge_rs.inputs", "ge_rs.input_slots")?;
    m.outputs = ios(def, "ge_rs.outputs", "ge_rs.output_slots")?;
    if def.attr.str("ge_rs.gears").ok().flatten().is_some() {
        m.gears = Some(json(&def.attr, "ge_rs.gears")?);
        gears(&m)?;
    }
    let engines: Vec<(String, String)> = json(&def.attr, "ge_rs.kernel_engines")?;
    let engines: HashMap<String, String> = engines.into_iter().collect();
    m.kernels = om
        .kernels()
        .iter()
        .map(|k| KernelInfo {
            name: k.name.clone(),
            engine: engines.get(&k.name).cloned().unwrap_or_default(),
            binary: k.bin.clone(),
        })
        .collect();
    let mut weights = om.weights().len() as u64;
    m.shares_weights = def.attr.int(SHARED).ok().flatten().is_some();
    if let (true, Some(first)) = (m.shares_weights, first) {
        m.weights.clone_from(&first.weights);
        m.external.clone_from(&first.external);
        weights = first.memory.weights;
    } else if let Some(text) = def.attr.str("ge_rs.external_weights").ok().flatten() {
        m.external =
            serde_json::from_str(text).map_err(|_| ModelError::field("model attribute ge_rs.external_weights"))?;
        weights = external(&m)?;
    } else {
        m.weights = vec![(0, om.weights().clone())];
    }
    tasks(&mut m, def, &om.task_info().task)?;
    check(&m, weights)?;
    Ok(m)
}

/// Checks the gears: their shapes must match the declared inputs and outputs.
fn gears(m: &CompiledModel) -> Result<(), ModelError> {
    let Some(gears) = &m.gears else { return Ok(()) };
    let bad = || ModelError::field("model attribute ge_rs.gears");
    let fits = |shapes: &[Vec<u64>], io: &[crate::IoInfo]| {
        let one = |(sizes, i): (&Vec<u64>, &crate::IoInfo)| {
            let d = &i.desc;
            let same = |(n, d): (&u64, &ge_plugin_api::types::Dim)| d.size().is_none_or(|s| s == *n);
            // The content of a sequence or an optional gets its sizes in the run.
            let ranked = d.shape.rank() == Some(sizes.len()) || (m.is_dynamic() && d.shape.is_unranked());
            d.container != Container::TENSOR || (ranked && sizes.iter().zip(d.shape.dims()).all(same))
        };
        shapes.len() == io.len() && shapes.iter().zip(io).all(one)
    };
    if gears.dims.is_empty() || gears.list.is_empty() {
        return Err(bad());
    }
    for g in &gears.list {
        let settled_by_runs = m.is_dynamic() && g.outputs.is_empty();
        let outputs = settled_by_runs || fits(&g.outputs, &m.outputs);
        if g.sizes.len() != gears.dims.len() || !fits(&g.inputs, &m.inputs) || !outputs {
            return Err(bad());
        }
    }
    Ok(())
}

/// Checks the weights stored in files and returns their total size. The parts must be in rising
/// order and disjoint, and the last must end at most 4096 bytes before the end.
fn external(m: &CompiledModel) -> Result<u64, ModelError> {
    let mut end = 0u64;
    for e in &m.external {
        let next = e.offset.checked_add(e.bytes).filter(|_| e.offset >= end);
        end = next.ok_or_else(|| ModelError::field(format!("place of the weights in `{}`", e.file)))?;
    }
    if m.memory.weights < end || m.memory.weights - end > 4096 {
        let what = "size of the weights in files".into();
        return Err(ModelError::OutOfRange { what, value: m.memory.weights, limit: end });
    }
    Ok(m.memory.weights)
}

fn text<'a>(a: &'a Attrs, name: &str) -> Result<&'a str, ModelError> {
    a.str(name).ok().flatten().ok_or_else(|| ModelError::field(format!("model attribute {name}")))
}
fn json<T: DeserializeOwned>(a: &Attrs, name: &str) -> Result<T, ModelError> {
    serde_json::from_str(text(a, name)?).map_err(|_| ModelError::field(format!("model attribute {name}")))
}
fn count(a: &Attrs, name: &str) -> Result<u32, ModelError> {
    let v = a.int(name).ok().flatten().ok_or_else(|| ModelError::field(format!("model attribute {name}")))?;
    match u64::try_from(v) {
        Ok(v) if v <= MAX_IDS => Ok(v as u32),
        _ => Err(ModelError::OutOfRange { what: format!("model attribute {name}"), value: v as u64, limit: MAX_IDS }),
    }
}
fn ints<'a>(a: &'a Attrs, name: &str) -> Result<&'a [i64], ModelError> {
    Ok(a.ints(name).map_err(|_| ModelError::field(name))?.unwrap_or(&[]))
}

fn soc(v: &serde_json::Value) -> Result<SocSpec, ModelError> {
    let n = |k: &str| {
        v.get(k).and_then(serde_json::Value::as_u64).ok_or_else(|| ModelError::field(format!("SoC field {k}")))
    };
    let s = |k: &str| n(k).and_then(|x| u32::try_from(x).map_err(|_| ModelError::field(format!("SoC field {k}"))));
    let b = |k: &str| {
        v.get(k).and_then(serde_json::Value::as_bool).ok_or_else(|| ModelError::field(format!("SoC field {k}")))
    };
    Ok(SocSpec {
        name: v.get("name").and_then(|x| x.as_str()).ok_or_else(|| ModelError::field("SoC name"))?.into(),
        aic_cores: s("aic_cores")?,
        aiv_cores: s("aiv_cores")?,
        prefetch_num: s("prefetch_num")?,
        memory_bytes: n("memory_bytes")?,
        streams_normal: s("streams_normal")?,
        tasks_normal: s("tasks_normal")?,
        streams_huge: s("streams_huge")?,
        tasks_huge: s("tasks_huge")?,
        unlimited_depth: b("unlimited_depth")?,
        max_events: s("max_events")?,
        max_notifies: s("max_notifies")?,
        model_task_update: b("model_task_update")?,
        task_launch_ns: n("task_launch_ns")?,
        event_record_ns: n("event_record_ns")?,
        event_wait_ns: n("event_wait_ns")?,
    })
}

fn slots(list: &[i64], what: &str) -> Result<Vec<SlotInfo>, ModelError> {
    let bad = || ModelError::field(format!("slots of {what}"));
    if !list.len().is_multiple_of(6) {
        return Err(bad());
    }
    list.chunks_exact(6)
        .map(|c| {
            Ok(SlotInfo {
                space: u8::try_from(c[0]).ok().filter(|s| *s <= SlotInfo::VARIABLES).ok_or_else(bad)?,
                memory: u8::try_from(c[1]).ok().filter(|k| MemoryKind::from_code(*k).is_some()).ok_or_else(bad)?,
                offset: u64::try_from(c[2]).map_err(|_| bad())?,
                size: u64::try_from(c[3]).map_err(|_| bad())?,
                zero_copy: c[4] == 1,
                ref_input: u32::try_from(c[5]).ok(),
            })
        })
        .collect()
}

fn ios(def: &ModelDef, descs: &str, slot_list: &str) -> Result<Vec<IoInfo>, ModelError> {
    let list: Vec<TensorDescriptor> = match def.attr.value(descs).map_err(|_| ModelError::field(descs))? {
        Some(Value::Descs(v)) => v,
        _ => Vec::new(),
    };
    let s = slots(ints(&def.attr, slot_list)?, slot_list)?;
    if s.len() != list.len() {
        return Err(ModelError::field(slot_list));
    }
    list.iter().zip(s).map(|(d, slot)| Ok(IoInfo { name: d.name.clone(), desc: desc::from_proto(d)?, slot })).collect()
}

fn graph(g: &GraphDef) -> Result<GraphInfo, ModelError> {
    let mut out = GraphInfo { name: g.name.clone(), ..GraphInfo::default() };
    for (k, v) in &g.attr {
        if let Some(v) = attrs::from_proto(v) {
            out.attrs.set(k.as_str(), v);
        }
    }
    let at: HashMap<&str, u32> = g.op.iter().enumerate().map(|(i, o)| (o.name.as_str(), i as u32)).collect();
    if at.len() != g.op.len() {
        return Err(ModelError::field(format!("unique node names in graph `{}`", g.name)));
    }
    out.nodes = g.op.iter().map(|o| node(o, &at)).collect::<Result<_, _>>()?;
    // Producers come before their readers and have the outputs that are read.
    for (i, n) in out.nodes.iter().enumerate() {
        for v in n.inputs.iter().flatten() {
            let p = out.nodes.get(v.node as usize).filter(|_| (v.node as usize) < i);
            if p.is_none_or(|p| v.output as usize >= p.outputs.len()) {
                return Err(ModelError::field(format!("an input of node `{}`", n.name)));
            }
        }
    }
    Ok(out)
}

fn node(o: &OpDef, at: &HashMap<&str, u32>) -> Result<NodeInfo, ModelError> {
    let bad = |what: &str| ModelError::field(format!("{what} of node `{}`", o.name));
    let mut n = NodeInfo { name: o.name.clone(), op: o.r#type.clone(), ..NodeInfo::default() };
    for i in &o.input {
        if i.is_empty() {
            n.inputs.push(None);
            continue;
        }
        let (name, k) = i.rsplit_once(':').ok_or_else(|| bad("an input"))?;
        let p = *at.get(name).ok_or_else(|| bad("an input"))?;
        if k == "-1" {
            n.controls.push(p);
        } else {
            n.inputs.push(Some(ValueAt { node: p, output: k.parse().map_err(|_| bad("an input"))? }));
        }
    }
    n.outputs = o.output_desc.iter().map(desc::from_proto).collect::<Result<_, _>>()?;
    n.slots = slots(ints(&o.attr, "ge_rs.slots")?, &o.name)?;
    if n.slots.len() != n.outputs.len() {
        return Err(bad("slots"));
    }
    n.workspaces = slots(ints(&o.attr, "ge_rs.workspaces")?, &o.name)?;
    n.engine = o.attr.str("_engine").ok().flatten().unwrap_or("").to_owned();
    n.stream = u32::try_from(o.stream_id).ok();
    n.logical_stream = o.attr.int("_logic_stream_id").ok().flatten().and_then(|v| u32::try_from(v).ok());
    n.attached_streams = ints(&o.attr, "_attached_stream_ids")?
        .iter()
        .map(|v| u32::try_from(*v).map_err(|_| bad("attached streams")))
        .collect::<Result<_, _>>()?;
    if let Some(r) = o.attr.str("ge_rs.refusals").ok().flatten() {
        n.refusals = serde_json::from_str(r).map_err(|_| bad("refusals"))?;
    }
    n.subgraphs = o.subgraph_name.clone();
    for (k, v) in &o.attr {
        let weight = k == "value" && matches!(n.op.as_str(), "Const" | "Constant");
        if desc::is_own(k) || weight {
            continue;
        }
        if let Some(v) = attrs::from_proto(v) {
            n.attrs.set(k.as_str(), v);
        }
    }
    n.attrs.set("_engine", n.engine.as_str());
    Ok(n)
}

fn tasks(m: &mut CompiledModel, def: &ModelDef, list: &[TaskDef]) -> Result<(), ModelError> {
    let nodes = ints(&def.attr, "ge_rs.task_nodes")?;
    let times = ints(&def.attr, "ge_rs.task_times")?;
    if nodes.len() != list.len() * 2 || times.len() != list.len() {
        return Err(ModelError::field("the nodes of the tasks"));
    }
    let extra: Vec<(usize, Vec<i64>, Vec<String>, String)> = json(&def.attr, "ge_rs.task_numbers")?;
    m.tasks = Vec::with_capacity(list.len());
    for (i, d) in list.iter().enumerate() {
        let bad = |what: &str| ModelError::field(format!("{what} of task {i}"));
        let mut t = TaskInfo {
            kind: d.r#type,
            graph: u32::try_from(nodes[2 * i]).map_err(|_| bad("node"))?,
            node: u32::try_from(nodes[2 * i + 1]).map_err(|_| bad("node"))?,
            stream: d.stream_id,
            sqe_num: d.sqe_num,
            private: d.private_def.clone(),
            time_ns: u64::try_from(times[i]).unwrap_or(0),
            ..TaskInfo::default()
        };
        if TaskType(t.kind).known_name().is_none() {
            return Err(ModelError::OutOfRange {
                what: format!("type of task {i}"),
                value: u64::from(t.kind),
                limit: 50,
            });
        }
        if m.node(t.graph, t.node).is_none() {
            return Err(bad("node"));
        }
        match TaskType(t.kind) {
            TaskType::EVENT_RECORD | TaskType::EVENT_WAIT => t.sync_id = Some(d.event_id),
            TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT => t.sync_id = Some(d.notify_id),
            _ => {}
        }
        if let Some(k) = &d.kernel {
            let c = k.context.as_ref().ok_or_else(|| bad("kernel context"))?;
            t.kernel_name = k.kernel_name.clone();
            t.so_name = k.so_name.clone();
            t.kernel_type = c.kernel_type;
            t.block_dim = k.block_dim;
            t.tiling = k.args.clone();
            t.args_format = c.args_format.clone();
            t.schedule_mode = k.schedule_mode;
            let key: [u8; 8] = k.kernel_ext_info.as_ref().try_into().map_err(|_| bad("tiling key"))?;
            t.tiling_key = u64::from_le_bytes(key);
        }
        if let Some(c) = &d.memcpy_async {
            t.args_format = c.args_format.clone();
        }
        if let Some(u) = &d.update_pc_task {
            t.args_format = u.args_format.clone();
        }
        m.tasks.push(t);
    }
    for (i, numbers, names, operands) in extra {
        let t = m.tasks.get_mut(i).ok_or_else(|| ModelError::field("the numbers of a task"))?;
        t.numbers = numbers;
        t.nodes = names;
        if t.args_format.is_empty() {
            t.args_format = operands;
        }
    }
    Ok(())
}

fn check(m: &CompiledModel, weights: u64) -> Result<(), ModelError> {
    let limit = |what: String, value: u64, limit: u64| {
        if value >= limit { Err(ModelError::OutOfRange { what, value, limit }) } else { Ok(()) }
    };
    if m.memory.weights > weights {
        return Err(ModelError::OutOfRange {
            what: "size of the weights".into(),
            value: m.memory.weights,
            limit: weights,
        });
    }
    let space = |s: &SlotInfo| -> u64 {
        match s.space {
            SlotInfo::FEATURE => {
                let name = MemoryKind(s.memory).name();
                m.memory.spaces.iter().find(|x| x.memory == name).map_or(0, |x| x.size)
            }
            SlotInfo::WEIGHTS => weights,
            SlotInfo::VARIABLES => m.memory.variables,
            _ => 0,
        }
    };
    let check_slot = |s: &SlotInfo, what: &str| -> Result<(), ModelError> {
        if s.space == SlotInfo::NOWHERE {
            return Ok(());
        }
        let end = s.offset.saturating_add(s.size);
        let limit = space(s);
        if end > limit {
            Err(ModelError::OutOfRange { what: format!("end of the memory of {what}"), value: end, limit })
        } else {
            Ok(())
        }
    };
    for s in &m.memory.spaces {
        // A feature map larger than any device's address space is a sign of damage, not a plan.
        limit(format!("size of {}", s.memory), s.size, 1 << 47)?;
    }
    limit("size of the variables".into(), m.memory.variables, 1 << 47)?;
    for g in &m.graphs {
        for n in &g.nodes {
            for s in n.slots.iter().chain(&n.workspaces) {
                check_slot(s, &n.name)?;
            }
            for (d, s) in n.outputs.iter().zip(&n.slots) {
                if s.space != SlotInfo::NOWHERE && d.data_bytes().is_some_and(|b| b > s.size) {
                    return Err(ModelError::field(format!(
                        "memory of an output of `{}`, which is smaller than its data",
                        n.name
                    )));
                }
            }
        }
    }
    let inputs = m.inputs.iter().enumerate().map(|(k, i)| (i, m.input_bytes(k)));
    let outputs = m.outputs.iter().enumerate().map(|(k, o)| (o, m.output_bytes(k)));
    for (i, bytes) in inputs.chain(outputs) {
        check_slot(&i.slot, &i.name)?;
        if !m.is_dynamic() && bytes.is_none_or(|b| b > i.slot.size) {
            return Err(ModelError::field(format!("shape or memory of `{}`", i.name)));
        }
    }
    for s in &m.memory.spaces {
        let arena = s.size.checked_sub(s.zero_copy);
        let rising = s.pieces.windows(2).all(|p| p[0] < p[1]) && s.pieces.first().is_none_or(|p| *p == 0);
        if !rising || arena.is_none_or(|a| s.pieces.last().is_some_and(|p| *p >= a)) {
            return Err(ModelError::field(format!("pieces of the {} memory", s.memory)));
        }
    }
    for z in &m.memory.zero_copy {
        let s = SlotInfo {
            space: SlotInfo::FEATURE,
            memory: z.memory,
            offset: z.offset,
            size: z.size,
            ..SlotInfo::default()
        };
        check_slot(&s, "a zero-copy range")?;
        limit(
            "index of a zero-copy range".into(),
            u64::from(z.index),
            if z.output { m.outputs.len() } else { m.inputs.len() + usize::from(m.gears.is_some()) } as u64,
        )?;
        let Some(i) = z.of_input else { continue };
        let input = m.input_bytes(i as usize);
        let output = m.output_bytes(z.index as usize);
        if !z.output || input.is_none() || input != output {
            return Err(ModelError::field("the input in whose memory an output lies"));
        }
    }
    limit("number of streams".into(), m.streams.physical.len() as u64, MAX_IDS)?;
    for p in &m.streams.physical {
        limit("logical stream".into(), u64::from(p.logical), m.streams.logical.len() as u64)?;
    }
    for (i, t) in m.tasks.iter().enumerate() {
        limit(format!("stream of task {i}"), u64::from(t.stream), m.streams.physical.len() as u64)?;
        if let Some(id) = t.sync_id {
            let notify = matches!(TaskType(t.kind), TaskType::NOTIFY_RECORD | TaskType::NOTIFY_WAIT);
            limit(
                format!("event of task {i}"),
                u64::from(id),
                u64::from(if notify { m.notify_num } else { m.event_num }),
            )?;
        }
    }
    Ok(())
}
