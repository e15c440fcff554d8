//! Nodes that run piece by piece: one kernel, compiled for one piece, which an FFTS+ task launches
//! on each piece in place. In this way a product can read a state that has spare room between its
//! pieces.
use super::launch::{self, Launch};
use super::tiling::Tiled;
use super::tools::Tools;
use super::view::OneNode;
use crate::error::RuntimeError;
use crate::slices::Sliced;
use ge_model::context_graph::{ContextGraph, ContextInfo, SliceInfo};
use ge_model::launch::Launch as Slice;
use ge_model::{GraphInfo, NodeInfo, TaskInfo, ValueAt};
use ge_plugin_api::engine::ArgInfo;
use ge_plugin_api::task::{ContextType, KernelType, TaskType};
use ge_plugin_api::types::{AttrMap, ConstTensor, Key, Shape, TensorDesc};

/// Maximum number of slices of a task.
const MOST: u64 = 65_535;

/// An operand of a node that is cut into pieces.
pub(crate) struct Operand {
    /// The value.
    pub(crate) value: u32,
    /// Descriptor of one piece.
    pub(crate) desc: TensorDesc,
    /// Its contents, if they are known and all pieces read the same.
    pub(crate) known: Option<ConstTensor>,
    /// Offset of the first piece in bytes.
    pub(crate) offset: u64,
    /// Distance between pieces in bytes.
    pub(crate) step: u64,
}

/// A node to be cut into pieces.
pub(crate) struct Cut<'c> {
    pub(crate) name: &'c str,
    pub(crate) op: Key,
    /// Flags of its prototype.
    pub(crate) flags: u64,
    pub(crate) attrs: AttrMap,
    /// Bit mask of the operands that are transposed in addition to what the node says.
    pub(crate) turned: u32,
    pub(crate) pieces: u64,
    pub(crate) inputs: Vec<Operand>,
    /// One piece of the output, the offset of the first piece and the distance between pieces, in
    /// bytes.
    pub(crate) output: (TensorDesc, u64, u64),
}

/// A node that is cut into pieces.
pub(crate) struct Pieced {
    /// Values that the task reads.
    pub(crate) reads: Vec<u32>,
    /// The single task; the caller sets its graph, node and stream.
    pub(crate) task: TaskInfo,
    /// The kernel that it launches on each piece.
    pub(crate) slices: Sliced,
    /// The launch that the kernel was made from.
    pub(crate) one: Tiled,
    /// The inputs of one piece.
    inputs: Vec<TensorDesc>,
}

impl Pieced {
    /// A graph that contains the node as one piece has it.
    pub(crate) fn graph(&self) -> GraphInfo {
        let node = &self.slices.node;
        let mut nodes: Vec<NodeInfo> = Vec::with_capacity(self.inputs.len() + 1);
        for (k, d) in self.inputs.iter().enumerate() {
            nodes.push(NodeInfo {
                name: format!("{}/input_{k}", node.name),
                op: "Data".into(),
                outputs: vec![d.clone()],
                slots: vec![Default::default()],
                ..NodeInfo::default()
            });
        }
        nodes.push(node.clone());
        GraphInfo { name: self.slices.graph.graph.clone(), nodes, ..GraphInfo::default() }
    }

    /// Moves the output of the pieces to `offset` in its memory.
    pub(crate) fn moves_output(&mut self, offset: u64) {
        let output = self.reads.len() as u32;
        let args = self.slices.graph.contexts.iter_mut().flat_map(|c| &mut c.args);
        args.filter(|a| a.arg == output).for_each(|a| a.offset = offset);
    }
}

/// A tensor with these dimensions and the type of `d`.
pub(crate) fn sized(d: &TensorDesc, dims: &[u64]) -> TensorDesc {
    TensorDesc::new(d.dtype, Shape::of(dims))
}

/// The launch of one piece; `None` if no engine takes it.
///
/// # Errors
/// Fails if a call into a plugin fails.
pub(crate) fn ask(tools: &Tools, cut: &Cut<'_>, preferred: &str) -> Result<Option<Launch>, RuntimeError> {
    let inputs: Vec<_> = cut.inputs.iter().map(|o| Some((o.value, o.desc.clone(), o.known.clone()))).collect();
    let one = OneNode::new(cut.name, (cut.op, cut.flags), cut.attrs.as_slice(), &inputs, vec![cut.output.0.clone()]);
    let view = one.graph();
    Ok(launch::find(tools, &one.node(&view), preferred, &[true])?.ok())
}

/// Makes the launch of a whole node from the launch of one piece; `None` if that is not a single
/// kernel.
pub(crate) fn find(tools: &Tools, cut: &Cut<'_>, one: Tiled) -> Option<(Launch, Pieced)> {
    if cut.pieces == 0 || cut.pieces > MOST {
        return None;
    }
    let kernels = [TaskType::KERNEL.code(), TaskType::VECTOR_KERNEL.code()];
    let [task] = one.launch.tasks.as_slice() else { return None };
    if !kernels.contains(&task.kind) || !one.launch.workspaces.is_empty() {
        return None;
    }
    let (args, infos): (Vec<SliceInfo>, Vec<ArgInfo>) = arguments(&task.args_format, cut)?.into_iter().unzip();
    let core = if task.kind == TaskType::VECTOR_KERNEL.code() { ContextType::AIV } else { ContextType::AICORE };
    let graph = format!("{}/piece", cut.name);
    let lanes = u64::from(tools.target.soc.aic_cores.max(1)).min(cut.pieces) as u32;
    let context = ContextInfo {
        kind: core.code(),
        name: cut.name.to_owned(),
        launch: Some((0, 0)),
        args,
        ..ContextInfo::default()
    };
    let list = ContextGraph {
        extent: cut.pieces,
        rows: 1,
        threads: cut.pieces as u32,
        window: lanes,
        graph: graph.clone(),
        contexts: vec![context],
        ..ContextGraph::default()
    };
    let slice = Slice {
        node: 0,
        kind: task.kind,
        kernel_name: task.kernel_name.clone(),
        kernel_type: task.kernel_type,
        block_dim: task.block_dim,
        tiling_key: task.tiling_key,
        tiling: task.tiling.clone(),
        args_format: task.args_format.clone(),
        schedule_mode: task.schedule_mode,
    };
    let whole: String = (0..cut.inputs.len()).map(|i| format!("{{i{i}*}}")).chain(["{o0*}".to_owned()]).collect();
    let whole = TaskInfo {
        kind: TaskType::FFTS_PLUS.code(),
        kernel_name: format!("ffts_plus_{}", cut.name),
        kernel_type: KernelType::MIX_AICORE.code(),
        block_dim: lanes,
        args_format: whole,
        nodes: vec![cut.name.to_owned()],
        time_ns: task.time_ns.saturating_mul(cut.pieces.div_ceil(u64::from(lanes))),
        sqe_num: task.sqe_num,
        ..TaskInfo::default()
    };
    let reads = (0..cut.inputs.len() as u32).map(|node| Some(ValueAt { node, output: 0 })).collect();
    let node = NodeInfo {
        name: cut.name.to_owned(),
        op: cut.op.as_str().to_owned(),
        engine: one.launch.engine.clone(),
        inputs: reads,
        outputs: vec![cut.output.0.clone()],
        slots: vec![Default::default()],
        attrs: cut.attrs.clone(),
        ..NodeInfo::default()
    };
    let launch = Launch {
        engine: one.launch.engine.clone(),
        kernel: one.launch.kernel.clone(),
        tasks: Vec::new(),
        workspaces: Vec::new(),
    };
    let slices = Sliced { graph: list, launch: slice, args: infos, node };
    let reads = cut.inputs.iter().map(|o| o.value).collect();
    let inputs = cut.inputs.iter().map(|o| o.desc.clone()).collect();
    Some((launch, Pieced { reads, task: whole, slices, one, inputs }))
}

/// Where the arguments of a piece lie among those of the whole task, and their description for the
/// executor. `None` if a piece cannot have one of the arguments.
fn arguments(format: &str, cut: &Cut<'_>) -> Option<Vec<(SliceInfo, ArgInfo)>> {
    let info = |kind: &str, index: u32, desc: Option<&TensorDesc>, bytes: u64| ArgInfo {
        kind: kind.into(),
        index,
        desc: desc.cloned().into(),
        bytes,
    };
    let spot = |kind: &str, index: usize, arg: usize, d: &TensorDesc, (offset, step): (u64, u64)| {
        let bytes = d.data_bytes()?;
        let slice = SliceInfo { arg: arg as u32, offset, step, lane: false, bytes, tail_bytes: bytes };
        Some((slice, info(kind, index as u32, Some(d), bytes)))
    };
    let item = |item: &str| {
        let plain = item.strip_prefix('{')?.strip_suffix('}')?;
        let plain = plain.strip_suffix('*').unwrap_or(plain);
        if plain.is_empty() {
            return Some((SliceInfo { arg: u32::MAX, ..SliceInfo::default() }, info("", 0, None, 0)));
        }
        match (plain.strip_prefix('i'), plain.strip_prefix('o')) {
            (Some(k), _) => {
                let k: usize = k.parse().ok()?;
                let o = cut.inputs.get(k)?;
                spot("i", k, k, &o.desc, (o.offset, o.step))
            }
            (_, Some("0")) => spot("o", 0, cut.inputs.len(), &cut.output.0, (cut.output.1, cut.output.2)),
            _ => None,
        }
    };
    format.split_inclusive('}').map(item).collect()
}
