//! The FFTS+ task of each call: the kernels that the engines compile for a full slice and for a
//! shorter last one, and their context graph.
use super::arena::{self, Value};
use super::body::{Body, broken};
use super::contexts::{Spots, graph};
use super::slices::{From, Sliced, cut_of, slice};
use crate::error::{CompileError, Result};
use crate::ids::{ModelMap, NodeKey};
use crate::toolbox::Toolbox;
use ge_ir::graph::Loose;
use ge_ir::{Graph, Model};
use ge_model::context_graph::{self, ContextGraph, SliceInfo};
use ge_model::launch::Launch;
use ge_model::{GraphInfo, NodeInfo, SlotInfo, ValueAt};
use ge_plugin::tasks::args_format::{ArgItem, parse};
use ge_plugin_api::author::slices::{Cut, OP};
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::diagnostic::Error;
use ge_plugin_api::engine::{KernelBinary, RunningParams, Target, TaskContext, Workspace};
use ge_plugin_api::task::{ContextType, KernelTask, KernelType, TILING_SINK_BLOCK_DIM, Task, TaskType};
use std::collections::HashMap;

/// A call with its task and everything that the task needs.
#[derive(Debug, Default)]
pub struct SlicedCall {
    /// The only task of the call.
    pub task: Task,
    /// Kernels, each with the name of its engine.
    pub kernels: Vec<(String, KernelBinary)>,
    /// Bytes of the call's workspace.
    pub workspace: u64,
    /// Graphs of the slices: the full one, then the shorter last one if there is one.
    pub graphs: Vec<GraphInfo>,
    /// Run time of all slices in nanoseconds, for the simulated clock.
    pub time_ns: u64,
}

/// The calls of a model, by the name of their node.
pub type Calls = HashMap<String, SlicedCall>;

/// Gives each call a workspace for what its slices that run at once pass from node to node.
pub fn workspaces(model: &Model, calls: &Calls, params: &mut ModelMap<RunningParams>) {
    for (gi, g) in model.graphs().iter().enumerate().filter(|_| !calls.is_empty()) {
        for n in g.nodes().filter(|n| n.op() == OP) {
            if let Some(c) = calls.get(n.name()) {
                let own = Workspace { bytes: c.workspace, ..Workspace::default() };
                let p = &mut params[NodeKey::new(gi, n.id())];
                (p.workspaces, p.task_count) = (vec![own].into(), 1);
            }
        }
    }
}

/// Makes the tasks of all calls.
pub fn calls(model: &Model, bodies: &[Body], toolbox: &Toolbox, rank_size: u32) -> Result<Calls> {
    let mut out = Calls::new();
    if bodies.is_empty() {
        return Ok(out);
    }
    let mut constants: HashMap<&str, HashMap<u32, Loose>> = HashMap::new();
    for g in model.graphs() {
        for n in g.nodes().filter(|n| n.op() == OP) {
            let of = |(i, v): (u32, &ge_ir::ValueRef)| {
                g.get(v.node).filter(|p| p.is_const()).map(|p| (i, super::body::loose(p)))
            };
            constants.insert(n.name(), (0u32..).zip(n.inputs()).filter_map(of).collect());
        }
    }
    let target = Target { rank_size, ..toolbox.target.clone() };
    for b in bodies {
        let given = constants.remove(b.call.as_str()).unwrap_or_default();
        out.insert(b.call.clone(), call(b, &given, toolbox, &target)?);
    }
    Ok(out)
}

fn call(body: &Body, constants: &HashMap<u32, Loose>, toolbox: &Toolbox, target: &Target) -> Result<SlicedCall> {
    let cut = cut_of(body)?;
    let lost = || broken(&body.call);
    let (full_name, tail_name) = (format!("{}/slice", body.call), format!("{}/tail", body.call));
    let mut full = slice(body, constants, cut.rows, &full_name, "")?;
    let mut tail = match cut.tail() {
        t if t == cut.rows => None,
        t => Some(slice(body, constants, t, &tail_name, "_tail")?),
    };
    let mut made = Made::default();
    let first = launches(&mut full, toolbox, target, &mut made)?;
    let last = tail.as_mut().map(|t| launches(t, toolbox, target, &mut made)).transpose()?;
    let threads = cut.threads();
    let tail_ns = last.as_ref().map_or(first.ns, |l| l.ns);
    let time_ns = first.ns.saturating_mul(threads - 1).saturating_add(tail_ns);

    let inputs = body.graph.data_nodes().len() as u32;
    let outputs = full.outputs.len() as u32;
    let values = between(&full).ok_or_else(lost)?;
    let arena = arena::place(&values.iter().map(|(_, v)| *v).collect::<Vec<_>>());
    let lies = Lies { full: &full, tail: tail.as_ref(), values: &values, arena: &arena, inputs };
    let spots = Spots { of: &|f| lies.of(f).unwrap_or_default(), values: &values, arena: &arena, cores: &first.cores };
    let (mut contexts, kernels) = graph(&full, &spots);
    for (m, member) in full.members.iter().enumerate() {
        let c = &mut contexts[kernels[m] as usize];
        let tail_launch = last.as_ref().map_or(first.of[m], |l| l.of[m]);
        c.launch = Some((first.of[m], tail_launch));
        let format = &made.launches[first.of[m] as usize].args_format;
        for item in parse(format).map_err(|_| lost())? {
            c.args.push(match item {
                ArgItem::Placeholder { .. } => SliceInfo { arg: u32::MAX, ..SliceInfo::default() },
                ArgItem::Input { index, .. } => match member.inputs.get(index as usize) {
                    Some(Some(from)) => lies.of(*from).ok_or_else(lost)?,
                    _ => return Err(lost()),
                },
                ArgItem::Output { index, .. } => {
                    lies.of(From::Node { member: m as u32, output: index }).ok_or_else(lost)?
                }
                _ => return Err(no_kernel(&member.name, &format!("the arguments {format}"))),
            });
        }
    }
    let workspace = arena::all_lanes(&arena, cut).ok_or_else(lost)?;
    let list = ContextGraph {
        extent: cut.extent,
        rows: cut.rows,
        threads: u32::try_from(threads).map_err(|_| lost())?,
        window: u32::try_from(cut.window).map_err(|_| lost())?,
        lane_bytes: arena.bytes,
        whole_bytes: whole(&values, &full, cut).ok_or_else(lost)?,
        graph: full_name,
        tail: tail.as_ref().map_or(String::new(), |_| tail_name),
        contexts,
    };
    let args: String = (0..inputs)
        .map(|i| format!("{{i{i}*}}"))
        .chain((0..outputs).map(|k| format!("{{o{k}*}}")))
        .chain(["{ws0*}".to_owned()])
        .collect();
    let task = Task {
        private: context_graph::encode(&list, &made.launches).into(),
        nodes: full.members.iter().map(|m| m.name.as_str().into()).collect(),
        kind: TaskType::FFTS_PLUS.code(),
        ..Task::kernel(KernelTask {
            kernel_name: format!("ffts_plus_{}", body.call).into(),
            kernel_type: KernelType::MIX_AICORE.code(),
            block_dim: list.window,
            args_format: args.into(),
            ..KernelTask::default()
        })
    };
    let graphs = [Some(&full), tail.as_ref()].into_iter().flatten().map(|s| info(&s.graph)).collect();
    Ok(SlicedCall { task, kernels: made.kernels, workspace, graphs, time_ns })
}

/// The launches and kernels made so far.
#[derive(Default)]
struct Made {
    launches: Vec<Launch>,
    kernels: Vec<(String, KernelBinary)>,
}

/// The launch of each node of a slice and the cores on which the node runs, by position, and the
/// sum of the nodes' run times in nanoseconds.
struct Launched {
    of: Vec<u32>,
    cores: Vec<ContextType>,
    ns: u64,
}

fn launches(sliced: &mut Sliced, toolbox: &Toolbox, target: &Target, made: &mut Made) -> Result<Launched> {
    let name = sliced.graph.name().to_owned();
    let graph = std::mem::replace(&mut sliced.graph, Graph::new(&name));
    let model = Model::from_graphs(vec![graph]).ok_or_else(|| broken(&name))?;
    let mut out = Launched { of: Vec::new(), cores: Vec::new(), ns: 0 };
    {
        let context = toolbox.lend(&model, 0);
        let view = context.graph();
        for (m, member) in (0u32..).zip(&sliced.members) {
            let node = view.node(member.node);
            let at = |e: Error| CompileError::Plugin(e.at_node(&member.name, node.op()));
            let engine =
                node.str("_engine").and_then(|e| toolbox.engine_named(e)).ok_or_else(|| broken(&member.name))?;
            let engine = toolbox.engine(engine);
            let kernel = engine.object.compile(&node, target).map_err(at)?;
            let context =
                TaskContext { target: target.clone(), kernel: kernel.clone().into(), rank_size: target.rank_size };
            let tasks = engine.object.generate_task(&node, &context).map_err(at)?;
            let is_kernel = |t: &Task| matches!(t.kind(), TaskType::KERNEL | TaskType::VECTOR_KERNEL);
            let [task] = &tasks[..] else { return Err(no_kernel(&member.name, &format!("{} tasks", tasks.len()))) };
            let Some(k) = task.kernel.as_ref().into_option().filter(|_| is_kernel(task)) else {
                return Err(no_kernel(&member.name, task.kind().name()));
            };
            if k.block_dim == TILING_SINK_BLOCK_DIM {
                return Err(no_kernel(&member.name, "tiling on the device"));
            }
            out.cores.push(engine.object.core(&node).map_err(at)?);
            out.of.push(made.launches.len() as u32);
            made.launches.push(Launch::of(m, task.kind, k));
            made.kernels.extend(kernel.map(|k| (engine.info.name.to_string(), k)));
            let soc = &target.soc;
            out.ns += engine.object.time_ns(&node, soc).saturating_sub(soc.task_launch_ns);
        }
    }
    sliced.graph = model.into_graphs().remove(0);
    Ok(out)
}

fn no_kernel(node: &str, what: &str) -> CompileError {
    let text =
        format!("the engine of `{node}` gives {what} to an FFTS+ task, which takes one kernel of AI cores a node");
    CompileError::model(ge_codes::LIES, Diagnostic::error(text).node(node, ""))
}

type Values = Vec<((u32, u32), Value)>;

/// The values that nodes pass to each other and that are not outputs of the call.
fn between(s: &Sliced) -> Option<Values> {
    let mut last: HashMap<(u32, u32), u32> = HashMap::new();
    for (m, member) in (0u32..).zip(&s.members) {
        for from in member.inputs.iter().flatten() {
            if let From::Node { member, output } = from {
                last.insert((*member, *output), m);
            }
        }
    }
    let mut out = Vec::new();
    for (m, member) in (0u32..).zip(&s.members) {
        for (k, d) in (0u32..).zip(s.graph.get(member.node)?.outputs()) {
            if s.outputs.contains(&(m, k)) {
                continue;
            }
            let to = last.get(&(m, k)).copied().unwrap_or(m);
            out.push(((m, k), Value { from: m, to, bytes: d.data_bytes()? }));
        }
    }
    Some(out)
}

/// Bytes that the values would take without slicing.
fn whole(values: &Values, s: &Sliced, cut: Cut) -> Option<u64> {
    let one = |(key, _): &((u32, u32), Value)| {
        let d = s.graph.get(s.members.get(key.0 as usize)?.node)?.outputs().get(key.1 as usize)?;
        d.data_bytes()?.checked_div(cut.rows)?.checked_mul(cut.extent)
    };
    values.iter().try_fold(0u64, |sum, v| sum.checked_add(one(v)?))
}

/// Where the values that a slice reads and writes lie among the task's arguments.
struct Lies<'a> {
    full: &'a Sliced,
    tail: Option<&'a Sliced>,
    values: &'a Values,
    arena: &'a arena::Arena,
    inputs: u32,
}

impl Lies<'_> {
    fn of(&self, from: From) -> Option<SliceInfo> {
        let bytes = bytes_of(self.full, from)?;
        let tail_bytes = self.tail.map_or(Some(bytes), |t| bytes_of(t, from))?;
        let at = |arg, offset, step, lane| Some(SliceInfo { arg, offset, step, lane, bytes, tail_bytes });
        match from {
            From::Input { index, cut } => at(index, 0, if cut { bytes } else { 0 }, false),
            From::Node { member, output } => {
                let outputs = &self.full.outputs;
                if let Some(k) = outputs.iter().position(|o| *o == (member, output)) {
                    return at(self.inputs + k as u32, 0, bytes, false);
                }
                let k = self.values.iter().position(|(key, _)| *key == (member, output))?;
                at(self.inputs + outputs.len() as u32, self.arena.offsets[k], self.arena.bytes, true)
            }
        }
    }
}

fn bytes_of(s: &Sliced, from: From) -> Option<u64> {
    let desc = match from {
        From::Node { member, output } => {
            s.graph.get(s.members.get(member as usize)?.node)?.outputs().get(output as usize)?
        }
        From::Input { .. } => {
            let of = |m: &super::slices::Member| {
                let i = m.inputs.iter().position(|f| *f == Some(from))?;
                s.graph.input_desc(s.graph.get(m.node)?, i).cloned()
            };
            return s.members.iter().find_map(of)?.data_bytes();
        }
    };
    desc.data_bytes()
}

/// The graph as the model keeps it: types, shapes and attributes for the loader of each kernel.
/// None of its nodes has memory of its own.
fn info(g: &Graph) -> GraphInfo {
    let at: HashMap<ge_ir::NodeId, u32> = g.order().iter().copied().zip(0u32..).collect();
    let node = |n: &ge_ir::Node| NodeInfo {
        name: n.name().to_owned(),
        op: if n.is_const() { "Data".to_owned() } else { n.op().to_owned() },
        engine: n.attrs().str("_engine").unwrap_or_default().to_owned(),
        inputs: n.inputs().iter().map(|v| at.get(&v.node).map(|p| ValueAt { node: *p, output: v.output })).collect(),
        outputs: n.outputs().to_vec(),
        slots: vec![SlotInfo::default(); n.outputs().len()],
        attrs: if n.is_const() { Default::default() } else { n.attrs().to_map() },
        ..NodeInfo::default()
    };
    GraphInfo { name: g.name().to_owned(), attrs: Default::default(), nodes: g.nodes().map(node).collect() }
}
