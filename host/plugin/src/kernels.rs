//! Guarded kernels: what an engine registers for a task runs in a region that records plugin,
//! engine, kernel, node and task. A signal, an `exit` or a panic in the kernel is reported with all
//! of them, whatever device launches it and on whatever thread.
use crate::crash::within;
use crate::owner::Owner;
use crate::watch::Call;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::device::{Base, DeviceModel, DeviceTask, ModelObject, RunReport};
use ge_plugin_api::engine::LoadRequest;
use ge_plugin_api::kernel::{DropFn, KernelCall, LastErrorFn, LoadedKernel, last_error};
use ge_plugin_api::task::TaskType;
use ge_plugin_api::{Error, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// Identity of a kernel in error messages.
#[derive(Debug)]
struct Name {
    owner: Arc<Owner>,
    /// For example ``kernel `k` of engine E for `y` (Relu), task 3 (KERNEL)``.
    kernel: String,
    node: String,
    op: String,
}

impl Name {
    fn call(&self) -> Call<'_> {
        Call { plugin: &self.owner.name, call: &self.kernel, ..Call::default() }
    }
}

/// A kernel with its identity.
struct Guarded {
    inner: LoadedKernel,
    name: Arc<Name>,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let ROption::RSome(d) = self.inner.drop {
            // SAFETY: the context came with this function and is freed once.
            within(&self.name.call(), false, || unsafe { (d.0)(self.inner.ctx) });
        }
    }
}

unsafe extern "C" fn run(ctx: *const c_void, call: *const KernelCall) -> i32 {
    // SAFETY: ctx is the Guarded of `guarded`.
    let g = unsafe { &*(ctx as *const Guarded) };
    // SAFETY: contract of KernelFn: the context belongs to the kernel, and the call is live.
    let rc = within(&g.name.call(), false, || unsafe { (g.inner.run)(g.inner.ctx, call) });
    if rc != 0 {
        failed(g, rc);
    }
    rc
}

/// Stores a kernel's error, with the kernel's name, for the device to fetch.
#[cold]
fn failed(g: &Guarded, rc: i32) {
    let told = if let ROption::RSome(f) = g.inner.last_error { (f.0)().into_option() } else { None };
    let e = told.unwrap_or_else(|| Error::internal(format!("it returned {rc} and no reason")));
    last_error::set(g.name.owner.named(&g.name.kernel, e).at_node(&g.name.node, &g.name.op));
}

unsafe extern "C" fn free(ctx: *mut c_void) {
    // SAFETY: made by `guarded`, dropped once.
    drop(unsafe { Box::from_raw(ctx as *mut Guarded) })
}

extern "C" fn take_error() -> ROption<Error> {
    last_error::take().into()
}

fn guarded(inner: LoadedKernel, name: Arc<Name>) -> LoadedKernel {
    let (access, scratch_bytes) = (inner.access.clone(), inner.scratch_bytes);
    let ctx = Box::into_raw(Box::new(Guarded { inner, name })) as *mut c_void;
    let (drop, last_error) = (ROption::RSome(DropFn(free)), ROption::RSome(LastErrorFn(take_error)));
    LoadedKernel { run, ctx, drop, access, scratch_bytes, last_error }
}

/// A kernel that may be registered any number of times, on models of one device. Its context is
/// freed after its last use.
#[derive(Clone)]
pub struct KeptKernel(Arc<Kept>);

struct Kept(LoadedKernel);

impl Drop for Kept {
    fn drop(&mut self) {
        if let ROption::RSome(d) = self.0.drop {
            // SAFETY: the context came with this function and is freed once.
            unsafe { (d.0)(self.0.ctx) };
        }
    }
}

unsafe extern "C" fn run_kept(ctx: *const c_void, call: *const KernelCall) -> i32 {
    // SAFETY: ctx is the Kept of `lend`, which holds a reference count of it.
    let kept = unsafe { &*(ctx as *const Kept) };
    // SAFETY: contract of KernelFn: the context belongs to the kernel, and the call is live.
    unsafe { (kept.0.run)(kept.0.ctx, call) }
}

unsafe extern "C" fn free_kept(ctx: *mut c_void) {
    // SAFETY: made by `lend`, released once.
    drop(unsafe { Arc::from_raw(ctx as *const Kept) })
}

impl KeptKernel {
    /// Keeps a kernel for repeated use.
    pub fn new(kernel: LoadedKernel) -> KeptKernel {
        KeptKernel(Arc::new(Kept(kernel)))
    }
    /// A copy of the kernel that can be registered.
    pub fn lend(&self) -> LoadedKernel {
        let of = &self.0.0;
        LoadedKernel {
            run: run_kept,
            ctx: Arc::into_raw(self.0.clone()) as *mut c_void,
            drop: ROption::RSome(DropFn(free_kept)),
            access: of.access.clone(),
            scratch_bytes: of.scratch_bytes,
            last_error: of.last_error,
        }
    }
}

impl std::fmt::Debug for KeptKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptKernel").field("arguments", &self.0.0.access.len()).finish_non_exhaustive()
    }
}

/// The device model that the executor of one task receives; kernels registered on it get the task's
/// identity.
struct Model {
    device: &'static ModelObject,
    name: Arc<Name>,
}

impl DeviceModel for Model {
    fn register(&self, kernel: LoadedKernel) -> Result<u32> {
        self.device.register(guarded(kernel, self.name.clone()))
    }
    fn bind(&self, task: DeviceTask) -> Result<u32> {
        self.device.bind(task)
    }
    fn seal(&self) -> Result<()> {
        Err(Error::internal("an executor seals no model"))
    }
    fn execute(&self, _: &[Base], _: bool) -> Result<RunReport> {
        Err(Error::internal("an executor runs no model"))
    }
}

/// Lends a device's model to the executor of one task. `index` is the task's position in its model.
/// A device with another version of the interface is lent unchanged, so that the engine sees
/// exactly what the device has; kernels on it have no names.
pub(crate) fn lend<T>(
    owner: &Arc<Owner>,
    engine: &str,
    request: &LoadRequest,
    index: usize,
    device: &ModelObject,
    f: impl FnOnce(&ModelObject) -> T,
) -> T {
    if !device.is_of_this_version() {
        return f(device);
    }
    let name = request.task.kernel.as_ref().into_option().map_or(request.op.as_str(), |k| k.kernel_name.as_str());
    let (node, op, kind) = (request.node.to_string(), request.op.to_string(), TaskType(request.task.kind));
    let (number, kind) = (index.to_string(), kind.to_string());
    let parts =
        ["kernel `", name, "` of engine ", engine, " for `", &node, "` (", &op, "), task ", &number, " (", &kind, ")"];
    // Every launch of a new size comes here: joining is faster than formatting.
    let kernel = parts.concat();
    // SAFETY: the object that holds this reference is dropped before this function returns; kernels
    // that outlive it keep no reference to it.
    let device: &'static ModelObject = unsafe { &*(device as *const ModelObject) };
    f(&ModelObject::from_box(Box::new(Model {
        device,
        name: Arc::new(Name { owner: owner.clone(), kernel, node, op }),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::kernel::{BlockArgs, BlockKernel, block_kernel};

    struct Holds(Arc<()>);

    impl BlockKernel for Holds {
        fn run(&self, _: &BlockArgs<'_>) -> Result<()> {
            let _ = &self.0;
            Ok(())
        }
    }

    #[test]
    fn a_kernel_that_is_kept_is_freed_once_behind_the_last_who_has_it() {
        let held = Arc::new(());
        let kept = KeptKernel::new(block_kernel(Box::new(Holds(held.clone())), Vec::new(), Vec::new(), 0));
        let lent = [kept.lend(), kept.lend()];
        drop(kept);
        for (k, left) in lent.iter().zip([2, 1]) {
            assert_eq!(Arc::strong_count(&held), 2);
            let ROption::RSome(free) = k.drop else { panic!("a context without its end") };
            // SAFETY: the context came with this function and is freed once.
            unsafe { (free.0)(k.ctx) };
            assert_eq!(Arc::strong_count(&held), left);
        }
    }
}
