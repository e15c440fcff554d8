//! Open devices and their models. As with all handles, every call is recorded while it runs, and a
//! signal, an `exit` or an error in it names plugin, device and call.
use crate::owner::Owner;
use crate::watch::{self, Call};
use ge_plugin_api::device::{Base, ContextObject, Counter, DeviceTask, MemoryKind, ModelObject, ModelSpec, RunReport};
use ge_plugin_api::kernel::LoadedKernel;
use ge_plugin_api::{Error, Result};
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The device that a call belongs to.
#[derive(Clone)]
struct Who {
    owner: Arc<Owner>,
    device: Arc<str>,
}

impl Who {
    /// `about` is the model that the call is about; it may be empty.
    fn watched<T>(&self, call: &str, about: &str, f: impl FnOnce() -> T) -> T {
        watch::call(&Call { plugin: &self.owner.name, part: &self.device, call, node: about, op: "" }, f)
    }
    fn call<T>(&self, call: &str, about: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.watched(call, about, f).map_err(|e| self.named(call, e))
    }
    /// What a device reports about a run (a deadlock, a requested fault) is its answer and stays
    /// unchanged: the error's code names the device. A failure of the device itself is blamed on
    /// its plugin.
    fn named(&self, call: &str, e: Error) -> Error {
        use ge_plugin_api::ErrorKind as K;
        match e.kind {
            K::PANIC | K::PLUGIN | K::INTERNAL => self.owner.named(&format!("{}.{call}", self.device), e),
            _ => e,
        }
    }
}

/// An open device.
pub struct OpenDevice {
    who: Who,
    object: ManuallyDrop<ContextObject>,
}

impl fmt::Debug for OpenDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "open device {} of {}", self.who.device, self.who.owner)
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        let object = &mut self.object;
        // SAFETY: it is dropped only here.
        self.who.watched("close", "", || unsafe { ManuallyDrop::drop(object) });
    }
}

impl OpenDevice {
    pub(crate) fn new(owner: Arc<Owner>, device: &str, object: ContextObject) -> OpenDevice {
        OpenDevice { who: Who { owner, device: device.into() }, object: ManuallyDrop::new(object) }
    }
    /// Allocates memory and returns its address.
    pub fn alloc(&self, kind: MemoryKind, bytes: u64) -> Result<u64> {
        self.who.call("alloc", "", || self.object.alloc(kind, bytes))
    }
    /// Frees memory that was allocated with `alloc`.
    pub fn free(&self, address: u64) -> Result<()> {
        self.who.call("free", "", || self.object.free(address))
    }
    /// Lends host memory to the device and returns its device address; `None` if the device can
    /// only copy.
    pub fn register_host_memory(&self, address: u64, bytes: u64, read_only: bool) -> Result<Option<u64>> {
        let call = || self.object.register_host_memory(address, bytes, read_only);
        self.who.call("register_host_memory", "", call)
    }
    /// Takes lent host memory back.
    pub fn unregister_host_memory(&self, address: u64) -> Result<()> {
        self.who.call("unregister_host_memory", "", || self.object.unregister_host_memory(address))
    }
    /// Copies bytes to the device.
    pub fn copy_in(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.who.call("copy_in", "", || self.object.copy_in(address, bytes))
    }
    /// Copies bytes from the device.
    pub fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.who.call("copy_out", "", || self.object.copy_out(address, bytes))
    }
    /// Creates a model on the device.
    pub fn create_model(&self, spec: ModelSpec) -> Result<OpenModel> {
        let name: Arc<str> = spec.name.as_str().into();
        let object = self.who.call("create_model", &name, || self.object.create_model(spec))?;
        Ok(OpenModel { who: self.who.clone(), name, object: ManuallyDrop::new(object) })
    }
    /// Counters since the device was opened.
    pub fn counters(&self) -> Result<Vec<Counter>> {
        self.who.call("counters", "", || self.object.counters())
    }
}

/// A model on a device.
pub struct OpenModel {
    who: Who,
    name: Arc<str>,
    object: ManuallyDrop<ModelObject>,
}

impl fmt::Debug for OpenModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model `{}` on device {} of {}", self.name, self.who.device, self.who.owner)
    }
}

impl Drop for OpenModel {
    fn drop(&mut self) {
        let object = &mut self.object;
        // SAFETY: it is dropped only here.
        self.who.watched("unload", &self.name, || unsafe { ManuallyDrop::drop(object) });
    }
}

impl OpenModel {
    /// The plugin's own object, to be passed to engines.
    pub fn object(&self) -> &ModelObject {
        &self.object
    }
    /// Registers a kernel and returns its id.
    pub fn register(&self, kernel: LoadedKernel) -> Result<u32> {
        self.who.call("register", &self.name, || self.object.register(kernel))
    }
    /// Binds a task and returns its id.
    pub fn bind(&self, task: DeviceTask) -> Result<u32> {
        self.who.call("bind", &self.name, || self.object.bind(task))
    }
    /// Seals the model: no tasks can be bound afterwards.
    pub fn seal(&self) -> Result<()> {
        self.who.call("seal", &self.name, || self.object.seal())
    }
    /// Runs the model once; `profile` requests the times of each task.
    pub fn execute(&self, bases: &[Base], profile: bool) -> Result<RunReport> {
        self.who.call("execute", &self.name, || self.object.execute(bases, profile))
    }
}
