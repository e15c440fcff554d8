//! `SimpleEngine`: an engine made of registered host kernels. It brings a vendor's own operators in
//! a few lines.
//!
//! Each kernel is launched as a single block on the device; the engine can also fold constants with
//! it.
use crate::diagnostic::{Error, Result};
use crate::engine::{Engine, EngineInfo, KernelBinary, LoadRequest, Support, Target, TaskContext};
use crate::kernel::{Access, BlockArgs, BlockKernel, HostKernel, KernelCtx, LoadedKernel, TensorView, block_kernel};
use crate::task::{KernelTask, KernelType, Task};
use crate::types::{AttrMap, DType};
use crate::view::Node;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A kernel of a simple engine.
#[derive(Clone)]
pub struct SimpleKernel {
    /// Name of the engine that the kernel belongs to.
    pub engine: &'static str,
    /// Operator type.
    pub op: &'static str,
    /// Types that the kernel accepts on its inputs; empty means any type.
    pub types: &'static [DType],
    /// Computes the outputs.
    pub run: fn(&mut KernelCtx<'_>) -> Result<()>,
    /// Further condition on a node; the error says why the node is refused.
    pub when: fn(&Node<'_>) -> core::result::Result<(), String>,
}

/// An engine made of registered kernels ([`crate::register_kernel!`]).
pub struct SimpleEngine {
    info: EngineInfo,
    kernels: BTreeMap<&'static str, SimpleKernel>,
    boxed: BTreeMap<&'static str, Box<dyn HostKernel>>,
}

impl SimpleEngine {
    /// An engine with this name and with all kernels registered for it; its cost is 1 and no flags
    /// are set.
    pub fn new(name: &'static str) -> SimpleEngine {
        let mut kernels = BTreeMap::new();
        let mut boxed: BTreeMap<&'static str, Box<dyn HostKernel>> = BTreeMap::new();
        for r in super::collect() {
            if let super::Registration::Kernel(f) = r {
                let k = f();
                if k.engine == name {
                    boxed.insert(k.op, Box::new(k.run));
                    kernels.insert(k.op, k);
                }
            }
        }
        let info = EngineInfo::new(name, 1);
        SimpleEngine { info, kernels, boxed }
    }
    /// Sets the compute cost; the engine with the lowest cost is chosen first.
    pub fn cost(mut self, cost: u32) -> Self {
        self.info.cost = cost;
        self
    }
    /// Sets the flags ([`crate::engine::flags`]).
    pub fn flags(mut self, flags: u64) -> Self {
        self.info.flags = flags;
        self
    }
    /// Sets the name of the engine's kernel library.
    pub fn kernel_lib(mut self, lib: &str) -> Self {
        self.info.kernel_lib = lib.into();
        self
    }
    /// Sets the name that users write in exclude lists.
    pub fn user_name(mut self, name: &str) -> Self {
        self.info.user_name = name.into();
        self
    }
    /// Sets the priority among graph optimizers; a lower value runs first.
    pub fn optimizer_priority(mut self, p: u32) -> Self {
        self.info.optimizer_priority = p;
        self
    }
    /// Operator types that the engine has kernels for.
    pub fn ops(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.kernels.keys().copied()
    }
}

/// Args format of all inputs, outputs and workspaces of a node, in this order, such as
/// `{i0*}{i1*}{o0*}{ws0*}`. An absent input is the empty placeholder `{}`.
pub fn plain_args_format(node: &Node<'_>, workspaces: usize) -> String {
    let mut s = String::new();
    for (i, v) in node.inputs().iter().enumerate() {
        if v.is_absent() {
            s.push_str("{}");
        } else {
            s.push_str(&format!("{{i{i}*}}"));
        }
    }
    for k in 0..node.outputs().len() {
        s.push_str(&format!("{{o{k}*}}"));
    }
    for k in 0..workspaces {
        s.push_str(&format!("{{ws{k}*}}"));
    }
    s
}

impl Engine for SimpleEngine {
    fn info(&self) -> EngineInfo {
        self.info.clone()
    }
    fn op_types(&self) -> Vec<String> {
        self.kernels.keys().map(|s| (*s).to_owned()).collect()
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        let Some(k) = self.kernels.get(node.op()) else {
            return Support::no("type");
        };
        for i in 0..node.inputs().len() {
            if let Some(d) = node.input_desc(i)
                && !k.types.is_empty()
                && !k.types.contains(&d.dtype)
            {
                let want: Vec<&str> = k.types.iter().map(|t| t.name()).collect();
                return Support::no(format!("input {i} is {}, it takes {}", d.dtype, want.join(", ")));
            }
        }
        (k.when)(node).map_or_else(Support::no, |()| Support::Yes)
    }
    fn compile(&self, node: &Node<'_>, _: &Target) -> Result<Option<KernelBinary>> {
        // The simulator's binary of a simple kernel is just its operator type; the attributes
        // travel with the node.
        let name = format!("{}_{}", self.info.name, node.op());
        Ok(Some(KernelBinary { name: name.into(), binary: node.op().as_bytes().into() }))
    }
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        let name = context.kernel.as_ref().map(|k| k.name.clone()).unwrap_or_default();
        let kernel_type =
            if self.info.flags & crate::engine::flags::AICPU != 0 { KernelType::AI_CPU } else { KernelType::TE };
        Ok(vec![Task::kernel(KernelTask {
            kernel_name: name,
            kernel_type: kernel_type.code(),
            block_dim: 1,
            args_format: plain_args_format(node, 0).into(),
            ..KernelTask::default()
        })])
    }
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        let kernel = self
            .kernels
            .get(request.op.as_str())
            .ok_or_else(|| Error::internal(format!("no kernel for {}", request.op)))?;
        host_kernel_on_device(Arc::new(kernel.run), request)
    }
    fn host_kernel(&self, op: &str) -> Option<&dyn HostKernel> {
        self.boxed.get(op).map(|b| b.as_ref())
    }
}

/// Turns a host kernel into a device kernel: one block computes everything, and the shapes are
/// checked at load time.
/// # Errors
/// Returns a `damaged` error if the request's arguments do not match the inputs and outputs of its
/// node, and a `failed` error if an argument has no static shape.
pub fn host_kernel_on_device(kernel: Arc<dyn HostKernel>, request: &LoadRequest) -> Result<LoadedKernel> {
    struct OnDevice {
        kernel: Arc<dyn HostKernel>,
        op: String,
        node: String,
        attrs: AttrMap,
        /// For each input position: argument index, type and sizes; `None` for an absent input.
        inputs: Vec<Option<(usize, DType, Vec<u64>)>>,
        outputs: Vec<(usize, DType, Vec<u64>)>,
    }
    impl BlockKernel for OnDevice {
        fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
            if call.block_idx() != 0 {
                return Ok(());
            }
            let mut inputs = Vec::with_capacity(self.inputs.len());
            for i in &self.inputs {
                inputs.push(match i {
                    Some((arg, dtype, dims)) => {
                        Some(TensorView { dtype: *dtype, dims, bytes: call.input::<u8>(*arg)? })
                    }
                    None => None,
                });
            }
            let types: Vec<DType> = self.outputs.iter().map(|o| o.1).collect();
            let mut ctx = KernelCtx::new(&self.op, &self.node, &self.attrs, inputs, &types);
            for (k, (arg, dtype, dims)) in self.outputs.iter().enumerate() {
                let bytes = call.output::<u8>(*arg, 0..call.len(*arg))?;
                ctx.give_output(k, *dtype, dims.clone(), bytes);
            }
            self.kernel.run(&mut ctx).map_err(|e| e.at_node(&self.node, &self.op))
        }
    }
    let mut inputs: Vec<Option<(usize, DType, Vec<u64>)>> = Vec::new();
    let mut outputs = Vec::new();
    let mut lens = Vec::new();
    let mut access = Vec::new();
    for (arg, a) in request.args.iter().enumerate() {
        let desc = a.desc.as_ref().into_option();
        let mut len = a.bytes;
        let checked = |d: &crate::types::TensorDesc| -> Result<(Vec<u64>, u64)> {
            let dims = d
                .shape
                .sizes()
                .ok_or_else(|| Error::failed(format!("argument {arg} of `{}` has no static shape", request.node)))?;
            let need = if d.dtype == DType::STRING { a.bytes } else { d.data_bytes().unwrap_or(u64::MAX) };
            if need > a.bytes {
                return Err(Error::damaged(format!(
                    "argument {arg} of `{}` has {} bytes, its type and shape need {need}",
                    request.node, a.bytes
                )));
            }
            Ok((dims, need))
        };
        match (a.kind.as_str(), desc) {
            ("i", Some(d)) => {
                let (dims, need) = checked(d)?;
                len = need;
                let at = a.index as usize;
                if at > request.args.len() + 64 {
                    return Err(Error::damaged(format!("argument {arg} of `{}` names input {at}", request.node)));
                }
                while inputs.len() <= at {
                    inputs.push(None);
                }
                inputs[at] = Some((arg, d.dtype, dims));
                access.push(Access::READ);
            }
            ("o", Some(d)) => {
                let (dims, need) = checked(d)?;
                len = need;
                outputs.push((arg, d.dtype, dims));
                access.push(Access::WRITE);
            }
            _ => access.push(Access::READ),
        }
        lens.push(len);
    }
    let k = OnDevice {
        kernel,
        op: request.op.to_string(),
        node: request.node.to_string(),
        attrs: request.attrs.clone(),
        inputs,
        outputs,
    };
    Ok(block_kernel(Box::new(k), lens, access, 0))
}
