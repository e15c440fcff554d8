//! The two engines over one op store: AIcoreEngine offers all operators, VectorEngine only the rows
//! marked for it.
use crate::families::{cube, matmul, qconv};
use crate::kernel::{Kernel, Tiling, blocks_on, on_device};
use crate::on_device as tiling;
use crate::sig::Sig;
use crate::store;
use ge_kernels::cores;
use ge_kernels::simd::Level;
use ge_plugin_api::author::simple::plain_args_format;
use ge_plugin_api::author::tiling_sink::{self, Owner};
use ge_plugin_api::device::{ModelSink, SocSpec};
use ge_plugin_api::engine::{
    Engine, EngineInfo, KernelBinary, LoadRequest, RunningParams, Support, Target, TaskContext, Variant, Workspace,
    flags,
};
use ge_plugin_api::kernel::LoadedKernel;
use ge_plugin_api::task::{ContextType, KernelTask, KernelType, TILING_SINK_BLOCK_DIM, Task, TaskType};
use ge_plugin_api::types::{DType, Format};
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};

/// Approximate operations per core per nanosecond.
const OPERATIONS_A_NS: u64 = 64;

/// One of the two engines.
pub struct Nn {
    name: &'static str,
    user_name: &'static str,
    cost: u32,
    flags: u64,
    vector: bool,
}

impl Nn {
    /// The AI core, with every operator of the store.
    pub fn ai_core() -> Nn {
        Nn {
            name: "AIcoreEngine",
            user_name: "AiCore",
            cost: 1,
            flags: flags::AI_CORE | flags::OWNS_STREAM_DYNAMIC,
            vector: false,
        }
    }

    /// The vector core, with element-wise operators, casts and changes of layout.
    pub fn vector() -> Nn {
        Nn {
            name: "VectorEngine",
            user_name: "AiVector",
            cost: 2,
            flags: flags::VECTOR_CORE | flags::OWNS_STREAM_DYNAMIC,
            vector: true,
        }
    }

    fn cores(&self, soc: &SocSpec) -> u32 {
        if self.vector { soc.aiv_cores } else { soc.aic_cores }.max(1)
    }

    /// Time of a launch in nanoseconds: its operations, plus the elements that it converts to cube
    /// formats, which take as long as the same number of operations.
    fn time_of(&self, kernel: &dyn Kernel, soc: &SocSpec) -> u64 {
        let blocks = u64::from(Tiling::of(kernel, self.cores(soc)).block_dim).max(1);
        let laid = kernel.lays_out();
        let laying = if laid == 0 { 0 } else { (laid / blocks / OPERATIONS_A_NS).max(1) };
        soc.task_launch_ns + kernel.work() / blocks / OPERATIONS_A_NS + laying
    }
}

/// A variant of a node with these input types, and the other types and formats of a signature.
fn variant(input_types: Vec<DType>, sig: &Sig, cost: u64) -> Variant {
    Variant {
        input_types: input_types.into(),
        input_formats: sig.inputs.iter().map(|t| t.as_ref().map_or(Format::ND, |t| t.format)).collect(),
        output_types: sig.outputs.iter().map(|t| t.dtype).collect(),
        output_formats: sig.outputs.iter().map(|t| t.format).collect(),
        cost,
    }
}

/// The inputs whose values the node's tiling reads on the device; `None` if tiling runs on the
/// host.
fn sunk(node: &Node<'_>) -> Option<&'static [u32]> {
    store::reads(node.op()).filter(|_| node.flag(tiling_sink::SINK))
}

fn refused(node: &Node<'_>, why: String) -> Error {
    Error::unsupported(why).at_node(node.name(), node.op())
}

/// The instruction set that the device was opened with, if it was set.
fn level(request: &LoadRequest) -> Result<Option<Level>> {
    let Some(name) = request.attrs.str("_device_isa") else { return Ok(None) };
    match Level::named(name).filter(|l| Level::available().contains(l)) {
        Some(level) => Ok(Some(level)),
        None => Err(Error::unsupported(format!("this machine has no instruction set `{name}`"))),
    }
}

/// The number of threads that the device was opened with; by default, the number of the machine's
/// cores.
fn threads(request: &LoadRequest) -> u32 {
    let told = request.attrs.str("_device_threads").and_then(|n| n.parse().ok());
    told.unwrap_or_else(|| cores() as u32)
}

/// The kernel of a node, with the schedule that its launch asks for.
fn kernel_of(request: &LoadRequest, sig: &Sig) -> Result<Box<dyn Kernel>> {
    let kernel = store::build(sig).map_err(|why| Error::damaged(why).at_node(&request.node, &request.op))?;
    // A schedule of another version may be unknown here; the kernel then uses its default.
    let other = request.attrs.str("_schedule").and_then(|s| kernel.scheduled(s));
    Ok(other.unwrap_or(kernel))
}

impl Nn {
    /// The kernel of a launch, and the number of blocks that it runs with.
    fn launched(&self, request: &LoadRequest) -> Result<(LoadedKernel, u32)> {
        let (sig, places) = Sig::of_request(request)?;
        let kernel = kernel_of(request, &sig)?;
        let needed = places.outputs.len();
        if needed != sig.outputs.len() {
            return Err(Error::damaged(format!("task of `{}` has {needed} outputs", request.node)));
        }
        let planned = request.launch()?.block_dim;
        let blocks =
            if planned == TILING_SINK_BLOCK_DIM { planned } else { blocks_on(&*kernel, planned, threads(request)) };
        Ok((on_device(kernel, places, level(request)?, &request.node, &request.op), blocks))
    }
}

impl Engine for Nn {
    fn info(&self) -> EngineInfo {
        EngineInfo {
            name: self.name.into(),
            kernel_lib: self.name.into(),
            user_name: self.user_name.into(),
            cost: self.cost,
            flags: self.flags,
            scheduler_id: "TS_1".into(),
            optimizer_priority: if self.vector { 1 } else { 0 },
        }
    }

    fn op_types(&self) -> Vec<String> {
        store::rows().filter(|r| r.vector || !self.vector).map(|r| r.op.to_owned()).collect()
    }

    fn supports(&self, node: &Node<'_>) -> Support {
        match store::find(node.op()) {
            None => Support::no("type"),
            Some(r) if self.vector && !r.vector => Support::no("it is for the AI core"),
            Some(r) => match Sig::of_node(node).and_then(|sig| (r.build)(&sig)) {
                Ok(_) => Support::Yes,
                Err(why) => Support::no(why),
            },
        }
    }

    fn variants(&self, node: &Node<'_>, target: &Target) -> Result<Vec<Variant>> {
        let factors = store::FACTORS.contains(&node.op());
        let half = |i: usize| node.input_desc(i).is_some_and(|d| matches!(d.dtype, DType::F16 | DType::BF16));
        // Formats of the cube unit exist for 16-bit types and for the filters of convolutions on
        // 8-bit integers.
        let bytes = store::PACKED.contains(&node.op());
        let offers = !self.vector && (factors || bytes || half(0) || half(1)) && store::find(node.op()).is_some();
        let Some(sig) = offers.then(|| Sig::of_node(node).ok()).flatten() else { return Ok(Vec::new()) };
        let Ok(kernel) = store::build(&sig) else { return Ok(Vec::new()) };
        let own = self.time_of(kernel.as_ref(), &target.soc);
        let types =
            || -> Vec<DType> { sig.inputs.iter().map(|t| t.as_ref().map_or(DType::UNKNOWN, |t| t.dtype)).collect() };
        let mut out = Vec::new();
        for other in [matmul::laid_out(&sig), cube::laid_out(&sig), qconv::laid_out(&sig)].into_iter().flatten() {
            if let Ok(kernel) = store::build(&other) {
                out.push(variant(types(), &other, self.time_of(kernel.as_ref(), &target.soc)));
            }
        }
        if !out.is_empty() {
            out.insert(0, variant(types(), &sig, own));
        }
        // Factors in f16 or bf16 and everything else unchanged: the cube reads half the bytes.
        if factors && types().iter().all(|t| matches!(*t, DType::F32 | DType::UNKNOWN)) {
            for half in [DType::F16, DType::BF16] {
                let mut narrow = types();
                narrow.iter_mut().take(2).for_each(|t| *t = half);
                out.push(variant(narrow, &sig, own / 2));
            }
        }
        Ok(out)
    }

    fn calc_op_running_param(&self, node: &Node<'_>, _: &Target) -> Result<RunningParams> {
        let sig = Sig::of_node(node).map_err(|e| refused(node, e))?;
        if let Some(reads) = sunk(node) {
            let kernel = store::build(&sig).map_err(|e| refused(node, e))?;
            let given: Vec<u32> = reads.iter().copied().filter(|i| node.input_desc(*i as usize).is_some()).collect();
            let workspaces = kernel.workspaces().into_iter().map(|bytes| Workspace { bytes, ..Workspace::default() });
            return Ok(tiling_sink::running_params(&given, workspaces.collect(), Owner::BuiltIn));
        }
        Ok(RunningParams { task_count: 1, ..RunningParams::default() })
    }

    fn compile(&self, node: &Node<'_>, _: &Target) -> Result<Option<KernelBinary>> {
        let sig = Sig::of_node(node).map_err(|e| refused(node, e))?;
        store::build(&sig).map_err(|e| refused(node, e))?;
        let binary = sig.encode();
        // Equal values give equal binaries, so the digest of the bytes distinguishes kernels of one
        // operator.
        let digest =
            binary.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Ok(Some(KernelBinary { name: format!("nn_{}_{digest:016x}", node.op()).into(), binary: binary.into() }))
    }

    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        let sig = Sig::of_node(node).map_err(|e| refused(node, e))?;
        let kernel = store::build(&sig).map_err(|e| refused(node, e))?;
        let tiling = Tiling::of(kernel.as_ref(), self.cores(&context.target.soc));
        let mut task = Task::kernel(KernelTask {
            kernel_name: context.kernel.as_ref().map(|k| k.name.clone()).unwrap_or_default(),
            kernel_type: if self.vector { KernelType::MIX_VECTOR_CORE } else { self.core(node).kernel_type() }.code(),
            block_dim: tiling.block_dim,
            tiling: tiling.encode().into(),
            args_format: plain_args_format(node, sunk(node).map_or(0, |_| kernel.workspaces().len())).into(),
            ..KernelTask::default()
        });
        if self.vector {
            task.kind = TaskType::VECTOR_KERNEL.code();
        }
        if sunk(node).is_some() {
            let soc = &context.target.soc;
            let cores = self.cores(soc).to_le_bytes();
            return tiling_sink::tasks(node, task, soc, Owner::BuiltIn, None, cores.as_slice().into());
        }
        Ok(vec![task])
    }

    fn time_ns(&self, node: &Node<'_>, soc: &SocSpec) -> u64 {
        let kernel = Sig::of_node(node).ok().and_then(|s| store::build(&s).ok());
        kernel.map_or(0, |k| self.time_of(k.as_ref(), soc))
    }

    fn operations(&self, node: &Node<'_>) -> u64 {
        let kernel = Sig::of_node(node).ok().and_then(|s| store::build(&s).ok());
        kernel.map_or(0, |k| k.operations())
    }

    fn schedules(&self, node: &Node<'_>) -> Vec<String> {
        let kernel = Sig::of_node(node).ok().and_then(|s| store::build(&s).ok());
        kernel.map_or_else(Vec::new, |k| k.schedules())
    }

    fn core(&self, node: &Node<'_>) -> ContextType {
        store::find(node.op()).filter(|_| !self.vector).map_or(ContextType::AIV, |r| r.core)
    }

    fn tilings(&self) -> Vec<(String, String)> {
        let sunk = store::ON_DEVICE_TILING.iter().filter(|_| !self.vector);
        let host = self.op_types().into_iter().map(|op| (op, "host".to_owned()));
        host.chain(sunk.map(|(op, _)| ((*op).to_owned(), "aicpu".to_owned()))).collect()
    }

    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        if request.task.kind() != TaskType::PREPROCESS_KERNEL {
            return Ok(self.launched(request)?.0);
        }
        let (sig, _) = Sig::of_request(request)?;
        let reads = store::reads(&request.op);
        let reads = reads.ok_or_else(|| Error::damaged(format!("{} has no tiling on the device", request.op)))?;
        tiling::load(request, &sig, kernel_of(request, &sig)?, reads)
    }

    fn load_task(&self, request: &LoadRequest, device: &mut ModelSink<'_>) -> Result<()> {
        if request.task.kind() == TaskType::PREPROCESS_KERNEL {
            return device.bind_kernel(request, self.load_kernel(request)?);
        }
        let (kernel, blocks) = self.launched(request)?;
        let launch = request.launch()?;
        let id = device.register(kernel)?;
        device.bind(id, blocks, launch.tiling_key, launch.tiling.clone())
    }
}
