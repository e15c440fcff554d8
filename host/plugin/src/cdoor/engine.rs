//! Engines and kernels of C plugins, as the host's objects.
use super::abi::{self, Block, Kernel, Sized1, Text};
use super::host::{Answer, Failure, Tasks, lend, show};
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::engine::{
    Engine, EngineInfo, KernelBinary, LoadRequest, RunningParams, Support, Target, TaskContext,
};
use ge_plugin_api::kernel::{Access, DropFn, KernelCall, LastErrorFn, LoadedKernel, last_error};
use ge_plugin_api::task::Task;
use ge_plugin_api::view::Node;
use ge_plugin_api::{Error, Result};
use std::ffi::c_void;

/// An engine with all its mandatory functions.
pub(super) struct CEngine {
    name: String,
    op_types: Vec<String>,
    table: abi::Engine,
}
// SAFETY: the header requires functions that several threads can call at once; the tables live
// forever.
unsafe impl Send for CEngine {}
// SAFETY: as above.
unsafe impl Sync for CEngine {}

impl CEngine {
    /// # Safety
    /// `at` must be an engine as the header declares it.
    pub unsafe fn new(at: *const abi::Engine) -> std::result::Result<CEngine, String> {
        // SAFETY: by contract.
        let (table, name) = unsafe {
            let table = abi::read(at)?;
            (table, abi::text(table.name))
        };
        let has =
            [("supports", table.supports.is_some()), ("tasks", table.tasks.is_some()), ("load", table.load.is_some())];
        if let Some((f, _)) = has.iter().find(|(_, there)| !there) {
            return Err(format!("engine `{name}` has no function `{f}`"));
        }
        // SAFETY: by contract.
        let types = unsafe { abi::list(table.op_types, table.n_op_types, "op_types")? };
        // SAFETY: by contract.
        let op_types = types.iter().map(|t| unsafe { abi::text(*t) }).collect();
        Ok(CEngine { name, op_types, table })
    }
}

fn missing(what: &str) -> Error {
    Error::new(ErrorKind::PLUGIN, format!("it has no function `{what}`"))
}

impl Engine for CEngine {
    fn info(&self) -> EngineInfo {
        EngineInfo::new(&self.name, self.table.cost)
    }
    fn op_types(&self) -> Vec<String> {
        self.op_types.clone()
    }
    fn supports(&self, node: &Node<'_>) -> Support {
        let Some(f) = self.table.supports else { return Support::no("it has no function `supports`") };
        let mut answer = Answer::default();
        // SAFETY: the function and its arguments are as the header declares them.
        let code = unsafe { f(self.table.self_, show(node), lend(&mut answer)) };
        match (code, answer.cost) {
            (0, _) if answer.why.is_empty() => Support::no("gave no reason"),
            (0, _) => Support::no(answer.why),
            (_, Some(cost)) => Support::YesAt(cost),
            (_, None) => Support::Yes,
        }
    }
    fn calc_op_running_param(&self, node: &Node<'_>, _: &Target) -> Result<RunningParams> {
        let (mut params, mut failure) = (RunningParams::default(), Failure::default());
        if let Some(f) = self.table.params {
            // SAFETY: as in `supports`.
            let code = unsafe { f(self.table.self_, show(node), lend(&mut params), lend(&mut failure)) };
            failure.result(code)?;
        }
        Ok(params)
    }
    fn compile(&self, node: &Node<'_>, _: &Target) -> Result<Option<KernelBinary>> {
        let (mut binary, mut failure) = (None::<KernelBinary>, Failure::default());
        if let Some(f) = self.table.compile {
            // SAFETY: as in `supports`.
            let code = unsafe { f(self.table.self_, show(node), lend(&mut binary), lend(&mut failure)) };
            failure.result(code)?;
        }
        Ok(binary)
    }
    fn generate_task(&self, node: &Node<'_>, context: &TaskContext) -> Result<Vec<Task>> {
        let f = self.table.tasks.ok_or_else(|| missing("tasks"))?;
        let (mut tasks, mut failure) = (Tasks::default(), Failure::default());
        let kernel = context.kernel.as_ref().into_option().map_or("", |k| k.name.as_str());
        // SAFETY: as in `supports`.
        let code = unsafe { f(self.table.self_, show(node), Text::of(kernel), lend(&mut tasks), lend(&mut failure)) };
        failure.result(code)?;
        match tasks.wrong {
            Some(why) => Err(Error::new(ErrorKind::PLUGIN, why)),
            None => Ok(tasks.list),
        }
    }
    fn time_ns(&self, node: &Node<'_>, _: &SocSpec) -> u64 {
        // SAFETY: as in `supports`.
        self.table.time_ns.map_or(0, |f| unsafe { f(self.table.self_, show(node)) })
    }
    fn load_kernel(&self, request: &LoadRequest) -> Result<LoadedKernel> {
        let f = self.table.load.ok_or_else(|| missing("load"))?;
        let lens = request.arg_bytes()?;
        // SAFETY: zero bytes are a kernel without functions.
        let mut kernel: Kernel = unsafe { std::mem::zeroed() };
        kernel.size = size_of::<Kernel>();
        let mut failure = Failure::default();
        // SAFETY: as in `supports`.
        let code = unsafe { f(self.table.self_, show(request), &mut kernel, lend(&mut failure)) };
        failure.result(code)?;
        let wrong = |what: String| Error::new(ErrorKind::PLUGIN, what);
        // A library built with another header may have written another size here.
        if kernel.size < Kernel::LEAST || kernel.run.is_none() {
            return Err(wrong("the kernel that `load` gives has no function `run`".into()));
        }
        // SAFETY: as in `supports`.
        let access = unsafe { abi::list(kernel.access, kernel.n_access, "access") }.map_err(wrong)?;
        if access.len() != lens.len() || access.iter().any(|a| *a > 2) {
            let (found, want) = (access.len(), lens.len());
            return Err(wrong(format!(
                "the kernel that `load` gives says access of {found} arguments, the launch has {want}"
            )));
        }
        let access: Vec<Access> = access.iter().map(|a| Access(*a as u8)).collect();
        let scratch_bytes = kernel.scratch_bytes;
        Ok(LoadedKernel {
            run,
            ctx: Box::into_raw(Box::new(CKernel { kernel, lens })) as *mut c_void,
            drop: ROption::RSome(DropFn(free)),
            access: access.into(),
            scratch_bytes,
            last_error: ROption::RSome(LastErrorFn(said)),
        })
    }
}

/// A kernel with the lengths of its arguments in the host's plan.
struct CKernel {
    kernel: Kernel,
    lens: Vec<u64>,
}

unsafe extern "C" fn run(ctx: *const c_void, call: *const KernelCall) -> i32 {
    // SAFETY: the context is the CKernel of `load_kernel`, and the call is live (contract of
    // KernelFn).
    let (k, call) = unsafe { (&*(ctx as *const CKernel), &*call) };
    let Some(f) = k.kernel.run else { return 1 };
    let block = Block {
        size: size_of::<Block>(),
        index: call.block_idx,
        count: call.block_dim,
        tiling_key: call.tiling_key,
        tiling: call.tiling,
        tiling_size: call.tiling_len,
        args: call.args,
        bytes: k.lens.as_ptr(),
        n_args: call.n_args.min(k.lens.len()),
        scratch: call.scratch,
    };
    let mut failure = Failure::default();
    // SAFETY: the function and its arguments are as the header declares them.
    let code = unsafe { f(k.kernel.state, &block, lend(&mut failure)) };
    if let Err(e) = failure.result(code) {
        last_error::set(e);
    }
    code
}
unsafe extern "C" fn free(ctx: *mut c_void) {
    // SAFETY: made by `load_kernel`, dropped once.
    let k = unsafe { Box::from_raw(ctx as *mut CKernel) };
    if let Some(f) = k.kernel.drop {
        // SAFETY: the state came with this function and is freed once.
        unsafe { f(k.kernel.state) }
    }
}
extern "C" fn said() -> ROption<Error> {
    last_error::take().into()
}
