//! Devices: the run-time primitives that a device library gives (DESIGN 1, "What a device is").
use crate::abi::erase::{RawSlice, object};
use crate::abi::{ROption, RResult, RString, RVec, StableAbi, WithMetadata, guard};
use crate::diagnostic::{Error, ErrorKind, Result};
use crate::kernel::{Access, LoadedKernel, declared};
use crate::open_code;

open_code! {
    /// Memory kinds, by the names of DESIGN 7.
    pub struct MemoryKind: u8 {
        /// Device memory.
        HBM = 0 "HBM",
        /// Peer-to-peer memory.
        P2P = 1 "P2P",
        /// Host memory.
        HOST = 2 "HOST",
        /// Task-scheduler memory.
        TS = 3 "TS",
        /// L1 of a core.
        L1 = 4 "L1",
        /// L2 cache.
        L2 = 5 "L2",
        /// Unified buffer of a core.
        UB = 6 "UB",
    }
}
impl Default for MemoryKind {
    fn default() -> Self {
        MemoryKind::HBM
    }
}

/// A SoC as its file describes it (DESIGN 1).
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct SocSpec {
    /// Name.
    pub name: RString,
    /// AI cores.
    pub aic_cores: u32,
    /// Vector cores.
    pub aiv_cores: u32,
    /// Tasks that are read ahead on a stream.
    pub prefetch_num: u32,
    /// Device memory.
    pub memory_bytes: u64,
    /// Normal streams.
    pub streams_normal: u32,
    /// Tasks of a normal stream.
    pub tasks_normal: u32,
    /// Huge streams.
    pub streams_huge: u32,
    /// Tasks of a huge stream.
    pub tasks_huge: u32,
    /// Whether streams have no limit of tasks.
    pub unlimited_depth: bool,
    /// Events.
    pub max_events: u32,
    /// Notifies.
    pub max_notifies: u32,
    /// Whether UPDATE of a task is possible.
    pub model_task_update: bool,
    /// Cost of a launch.
    pub task_launch_ns: u64,
    /// Cost of a record.
    pub event_record_ns: u64,
    /// Cost of a wait.
    pub event_wait_ns: u64,
}

/// Where an argument lies: an allocation of the model and an offset in it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Place {
    /// Which allocation (index into `ModelSpec::allocations`).
    pub allocation: u32,
    /// Offset in it.
    pub offset: u64,
    /// Bytes that may be touched.
    pub bytes: u64,
    /// The rank in whose model it lies; `u32::MAX`: this one.
    pub rank: u32,
}

open_code! {
    /// What an allocation of a model is.
    pub struct AllocationKind: u8 {
        /// Feature map of a memory kind: one for each run that goes on at a time.
        FEATURE_MAP = 0 "feature map",
        /// Weights: shared, read-only.
        WEIGHTS = 1 "weights",
        /// Variables: shared, persistent.
        VARIABLES = 2 "variables",
        /// A graph input (zero copy: the caller's memory).
        INPUT = 3 "input",
        /// A graph output (zero copy).
        OUTPUT = 4 "output",
    }
}

/// An allocation of a model.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct Allocation {
    /// What it is.
    pub kind: AllocationKind,
    /// Memory kind.
    pub memory: MemoryKind,
    /// Bytes.
    pub bytes: u64,
    /// Index of the input or output.
    pub index: u32,
}

/// A stream of a model.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct StreamSpec {
    /// Whether it starts at launch (head) or sleeps until activated.
    pub head: bool,
    /// Whether it is a huge stream.
    pub huge: bool,
    /// Priority 0 (highest) to 7.
    pub priority: u32,
    /// Tasks it will have.
    pub tasks: u32,
}

/// A model to be sunk.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct ModelSpec {
    /// Name.
    pub name: RString,
    /// SoC whose rules hold.
    pub soc: SocSpec,
    /// Streams.
    pub streams: RVec<StreamSpec>,
    /// Events, ids 0..n.
    pub events: u32,
    /// Notifies, ids 0..n.
    pub notifies: u32,
    /// Labels, ids 0..n.
    pub labels: u32,
    /// Allocations.
    pub allocations: RVec<Allocation>,
    /// Rank of this model in its group, and group of ranks that run together (one process).
    pub rank: u32,
    /// Number of ranks.
    pub rank_size: u32,
    /// Key of the group: models with the same key reach each other's memory and notifies.
    pub group: u64,
}

/// A task bound to a stream.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct DeviceTask {
    /// Type (facts 7.2), a [`crate::task::TaskType`] code.
    pub kind: u32,
    /// Stream.
    pub stream: u32,
    /// Kernel, for launches.
    pub kernel: ROption<u32>,
    /// Blocks; the placeholder 0xFFFFFFFF until updated.
    pub block_dim: u32,
    /// Variant.
    pub tiling_key: u64,
    /// Tiling data.
    pub tiling: RVec<u8>,
    /// Arguments.
    pub args: RVec<Place>,
    /// Event, notify, label, stream ids and conditions, by type: EVENT_* \[event\]; NOTIFY_*
    /// \[notify, rank or -1\]; STREAM_ACTIVE \[stream\]; STREAM_SWITCH \[condition, data type,
    /// stream\]; LABEL_SET \[label\]; STREAM_LABEL_GOTO \[label\]; STREAM_LABEL_SWITCH_BY_INDEX
    /// \[labels…\]; REDUCE_ASYNC \[reduction, data type\]; UPDATE \[task id on the device, and of
    /// an FFTS_PLUS task its handle: the number of what was registered for it\]; SUPER_KERNEL
    /// \[events that its kernel waits for by their addresses…\]; PREPROCESS_KERNEL \[events that
    /// its kernel records so…\].
    pub numbers: RVec<i64>,
    /// Node's name, for errors, profile and races.
    pub node: RString,
    /// Operator type.
    pub op: RString,
    /// Engine's name.
    pub engine: RString,
    /// Access of each argument where there is no kernel that says it.
    pub access: RVec<Access>,
    /// Run time for the simulated clock.
    pub time_ns: u64,
}

/// Address and length of an allocation for one run.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct Base {
    /// First byte (an address of the device; on `sim` a process pointer).
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One line of a run's profile.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct TaskProfile {
    /// Task id on the device (order of binding).
    pub task: u32,
    /// Start since the launch.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

/// What a run says.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct RunReport {
    /// One line a task, if profiling is on.
    pub tasks: RVec<TaskProfile>,
    /// Whole run by the device's clock (simulated where `time = model`).
    pub elapsed_ns: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Counters by name.
    pub counters: RVec<Counter>,
}

/// A named counter.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct Counter {
    /// Name.
    pub name: RString,
    /// Value.
    pub value: u64,
}

/// What a device library is.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct DeviceInfo {
    /// Name (`sim`).
    pub name: RString,
    /// SoC where none is asked for.
    pub default_soc: RString,
    /// SoCs that it describes.
    pub socs: RVec<RString>,
    /// Options of `--device-option`: name and help alternating.
    pub options: RVec<RString>,
    /// Whether a device address is an address of this process.
    pub unified_address: bool,
}

/// A device library. A device has contexts
/// ([`DeviceContext`]), and those have models ([`DeviceModel`]). Addresses and sizes are in bytes.
///
/// # Examples
/// A device of one SoC that cannot be opened yet:
/// ```
/// use ge_plugin_api::device::{Device, DeviceContext, DeviceInfo, SocSpec};
/// use ge_plugin_api::{Error, Result};
///
/// struct Board;
///
/// impl Device for Board {
///     fn info(&self) -> DeviceInfo {
///         DeviceInfo {
///             name: "board".into(),
///             default_soc: "Board1".into(),
///             socs: vec!["Board1".into()].into(),
///             options: Default::default(),
///             unified_address: false,
///         }
///     }
///     fn soc(&self, name: &str) -> Result<SocSpec> {
///         if name == "Board1" { Ok(SocSpec::default()) } else { Err(Error::usage(format!("`{name}` is no SoC of board"))) }
///     }
///     fn soc_from_text(&self, file: &str, _: &str) -> Result<SocSpec> {
///         Err(Error::unsupported(format!("board reads no SoC files ({file})")))
///     }
///     fn open(&self, id: u32, _: &SocSpec, _: &[(String, String)]) -> Result<Box<dyn DeviceContext>> {
///         Err(Error::failed(format!("board {id} does not answer")))
///     }
/// }
/// assert!(Board.soc("Board1").is_ok() && Board.soc("Board9").is_err());
/// ```
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> DeviceInfo;
    /// Describes a SoC by name (series or member), or by a file's text.
    /// # Errors
    /// `usage`: no SoC has this name.
    fn soc(&self, name: &str) -> Result<SocSpec>;
    /// Describes a SoC by the text of a SoC file (TOML).
    /// # Errors
    /// `usage`, with line and column of `file`: the text is no SoC file.
    fn soc_from_text(&self, file: &str, text: &str) -> Result<SocSpec>;
    /// Opens device `id` with options.
    /// # Errors
    /// `usage`: an option or number is unknown; `failed`: the device cannot be had.
    fn open(&self, id: u32, soc: &SocSpec, options: &[(String, String)]) -> Result<Box<dyn DeviceContext>>;
}

/// An open device.
/// Addresses and sizes are in bytes. See [`Device`] for an example.
pub trait DeviceContext: Send + Sync {
    /// Allocates memory; the address.
    /// # Errors
    /// `failed`: there is not so much memory of this kind.
    fn alloc(&self, kind: MemoryKind, bytes: u64) -> Result<u64>;
    /// Frees memory.
    /// # Errors
    /// `failed`: nothing was allocated at this address.
    fn free(&self, address: u64) -> Result<()>;
    /// Makes `bytes` bytes of host memory at `address` visible to the device without a copy. Gives
    /// the device address, or `None` where the device can only copy.
    /// # Errors
    /// `failed`: the range overlaps one that is registered.
    fn register_host_memory(&self, address: u64, bytes: u64, read_only: bool) -> Result<Option<u64>>;
    /// Gives registered host memory back.
    /// # Errors
    /// `failed`: nothing is registered at this address.
    fn unregister_host_memory(&self, address: u64) -> Result<()>;
    /// Copies from the host to the device.
    /// # Errors
    /// `failed`: the range is not within one allocation.
    fn copy_in(&self, address: u64, bytes: &[u8]) -> Result<()>;
    /// Copies from the device to the host.
    /// # Errors
    /// `failed`: the range is not within one allocation.
    fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()>;
    /// Starts a model.
    /// # Errors
    /// `failed`: it has more streams, events or memory than the device.
    fn create_model(&self, spec: ModelSpec) -> Result<Box<dyn DeviceModel>>;
    /// Counters since it was opened.
    fn counters(&self) -> Vec<Counter>;
}

/// A model sunk on a device. Kernels are registered, tasks bound in the order of the model, then it
/// is sealed and run any number of times. See [`Device`] for an example.
pub trait DeviceModel: Send + Sync {
    /// Registers a kernel; its id.
    /// # Errors
    /// `failed`: the model is sealed.
    fn register(&self, kernel: LoadedKernel) -> Result<u32>;
    /// Binds a task to its stream; its id (order of binding).
    /// # Errors
    /// `damaged`: the task names a stream, event, label or kernel that is not there.
    fn bind(&self, task: DeviceTask) -> Result<u32>;
    /// No more tasks: checks ids, limits and streams.
    /// # Errors
    /// `damaged`: a limit is passed, or a task waits for what never comes.
    fn seal(&self) -> Result<()>;
    /// Runs once. `bases`: address of every allocation, in order. Several calls may be under way at
    /// the same time with different feature maps.
    /// # Errors
    /// `failed`: a kernel failed, or the run was ended; the error names task, node and stream.
    fn execute(&self, bases: &[Base], profile: bool) -> Result<RunReport>;
}

/// ABI function table of [`Device`].
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = DeviceTableRef)))]
#[sabi(missing_field(option))]
pub struct DeviceTable {
    /// Drops the object behind the pointer.
    pub drop: unsafe extern "C" fn(*const ()),
    /// `info`.
    pub info: unsafe extern "C" fn(*const ()) -> RResult<DeviceInfo, Error>,
    /// `soc`.
    pub soc: unsafe extern "C" fn(*const (), RawSlice<u8>) -> RResult<SocSpec, Error>,
    /// `soc_from_text`.
    pub soc_from_text: unsafe extern "C" fn(*const (), RawSlice<u8>, RawSlice<u8>) -> RResult<SocSpec, Error>,
    /// `open`: options as names and values alternating.
    #[sabi(last_prefix_field)]
    pub open: unsafe extern "C" fn(*const (), u32, *const SocSpec, RVec<RString>) -> RResult<ContextObject, Error>,
}

/// ABI function table of [`DeviceContext`].
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = ContextTableRef)))]
#[sabi(missing_field(option))]
pub struct ContextTable {
    /// Drops the object behind the pointer.
    pub drop: unsafe extern "C" fn(*const ()),
    /// `alloc`.
    pub alloc: unsafe extern "C" fn(*const (), MemoryKind, u64) -> RResult<u64, Error>,
    /// `free`.
    pub free: unsafe extern "C" fn(*const (), u64) -> RResult<(), Error>,
    /// `register_host_memory`.
    pub register_host: unsafe extern "C" fn(*const (), u64, u64, bool) -> RResult<ROption<u64>, Error>,
    /// `unregister_host_memory`.
    pub unregister_host: unsafe extern "C" fn(*const (), u64) -> RResult<(), Error>,
    /// `copy_in`.
    pub copy_in: unsafe extern "C" fn(*const (), u64, RawSlice<u8>) -> RResult<(), Error>,
    /// `copy_out`: address, destination, length.
    pub copy_out: unsafe extern "C" fn(*const (), u64, *mut u8, usize) -> RResult<(), Error>,
    /// `create_model`.
    pub create_model: unsafe extern "C" fn(*const (), ModelSpec) -> RResult<ModelObject, Error>,
    /// `counters`.
    #[sabi(last_prefix_field)]
    pub counters: unsafe extern "C" fn(*const ()) -> RResult<RVec<Counter>, Error>,
}

/// ABI function table of [`DeviceModel`].
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = ModelTableRef)))]
#[sabi(missing_field(option))]
pub struct ModelTable {
    /// Drops the object behind the pointer.
    pub drop: unsafe extern "C" fn(*const ()),
    /// `register`.
    pub register: unsafe extern "C" fn(*const (), LoadedKernel) -> RResult<u32, Error>,
    /// `bind`.
    pub bind: unsafe extern "C" fn(*const (), DeviceTask) -> RResult<u32, Error>,
    /// `seal`.
    pub seal: unsafe extern "C" fn(*const ()) -> RResult<(), Error>,
    /// `execute`.
    #[sabi(last_prefix_field)]
    pub execute: unsafe extern "C" fn(*const (), RawSlice<Base>, bool) -> RResult<RunReport, Error>,
}

static DEVICE_TABLE: &WithMetadata<DeviceTable> =
    &WithMetadata::new(DeviceTable { drop: d_drop, info: d_info, soc: d_soc, soc_from_text: d_soc_text, open: d_open });
static CONTEXT_TABLE: &WithMetadata<ContextTable> = &WithMetadata::new(ContextTable {
    drop: c_drop,
    alloc: c_alloc,
    free: c_free,
    register_host: c_register,
    unregister_host: c_unregister,
    copy_in: c_in,
    copy_out: c_out,
    create_model: c_model,
    counters: c_counters,
});
static MODEL_TABLE: &WithMetadata<ModelTable> = &WithMetadata::new(ModelTable {
    drop: m_drop,
    register: m_register,
    bind: m_bind,
    seal: m_seal,
    execute: m_execute,
});

// SAFETY of all functions below: callers pass the pointer of an object of this library; borrowed
// parts live for the call (contract of the tables); texts are UTF-8.
unsafe fn text<'a>(s: RawSlice<u8>) -> &'a str {
    // SAFETY: see above.
    unsafe { core::str::from_utf8_unchecked(s.get()) }
}
unsafe extern "C" fn d_drop(p: *const ()) {
    // SAFETY: see above.
    unsafe { crate::abi::erase::drop_object::<dyn Device>(p) }
}
unsafe extern "C" fn d_info(p: *const ()) -> RResult<DeviceInfo, Error> {
    // SAFETY: see above.
    guard("Device::info", || Ok(unsafe { object::<dyn Device>(p) }.info()))
}
unsafe extern "C" fn d_soc(p: *const (), name: RawSlice<u8>) -> RResult<SocSpec, Error> {
    // SAFETY: see above.
    guard("Device::soc", || unsafe { object::<dyn Device>(p).soc(text(name)) })
}
unsafe extern "C" fn d_soc_text(p: *const (), file: RawSlice<u8>, t: RawSlice<u8>) -> RResult<SocSpec, Error> {
    // SAFETY: see above.
    guard("Device::soc_from_text", || unsafe { object::<dyn Device>(p).soc_from_text(text(file), text(t)) })
}
unsafe extern "C" fn d_open(
    p: *const (),
    id: u32,
    soc: *const SocSpec,
    options: RVec<RString>,
) -> RResult<ContextObject, Error> {
    guard("Device::open", || {
        let o: Vec<(String, String)> = options.chunks_exact(2).map(|c| (c[0].to_string(), c[1].to_string())).collect();
        // SAFETY: see above.
        Ok(ContextObject::from_box(unsafe { object::<dyn Device>(p).open(id, &*soc, &o)? }))
    })
}
unsafe extern "C" fn c_drop(p: *const ()) {
    // SAFETY: see above.
    unsafe { crate::abi::erase::drop_object::<dyn DeviceContext>(p) }
}
unsafe fn context<'a>(p: *const ()) -> &'a dyn DeviceContext {
    // SAFETY: see above.
    unsafe { object::<dyn DeviceContext>(p) }
}
unsafe extern "C" fn c_alloc(p: *const (), kind: MemoryKind, bytes: u64) -> RResult<u64, Error> {
    // SAFETY: see above.
    guard("DeviceContext::alloc", || unsafe { context(p) }.alloc(kind, bytes))
}
unsafe extern "C" fn c_free(p: *const (), a: u64) -> RResult<(), Error> {
    // SAFETY: see above.
    guard("DeviceContext::free", || unsafe { context(p) }.free(a))
}
unsafe extern "C" fn c_register(p: *const (), a: u64, n: u64, ro: bool) -> RResult<ROption<u64>, Error> {
    // SAFETY: see above.
    guard("DeviceContext::register_host_memory", || Ok(unsafe { context(p) }.register_host_memory(a, n, ro)?.into()))
}
unsafe extern "C" fn c_unregister(p: *const (), a: u64) -> RResult<(), Error> {
    // SAFETY: see above.
    guard("DeviceContext::unregister_host_memory", || unsafe { context(p) }.unregister_host_memory(a))
}
unsafe extern "C" fn c_in(p: *const (), a: u64, b: RawSlice<u8>) -> RResult<(), Error> {
    // SAFETY: see above.
    guard("DeviceContext::copy_in", || unsafe { context(p).copy_in(a, b.get()) })
}
unsafe extern "C" fn c_out(p: *const (), a: u64, to: *mut u8, n: usize) -> RResult<(), Error> {
    // SAFETY: see above; the destination is the caller's alone.
    guard("DeviceContext::copy_out", || unsafe {
        context(p).copy_out(a, if n == 0 { &mut [] } else { core::slice::from_raw_parts_mut(to, n) })
    })
}
unsafe extern "C" fn c_model(p: *const (), spec: ModelSpec) -> RResult<ModelObject, Error> {
    // SAFETY: see above.
    guard("DeviceContext::create_model", || Ok(ModelObject::from_box(unsafe { context(p) }.create_model(spec)?)))
}
unsafe extern "C" fn c_counters(p: *const ()) -> RResult<RVec<Counter>, Error> {
    // SAFETY: see above.
    guard("DeviceContext::counters", || Ok(unsafe { context(p) }.counters().into()))
}
unsafe extern "C" fn m_drop(p: *const ()) {
    // SAFETY: see above.
    unsafe { crate::abi::erase::drop_object::<dyn DeviceModel>(p) }
}
unsafe fn model<'a>(p: *const ()) -> &'a dyn DeviceModel {
    // SAFETY: see above.
    unsafe { object::<dyn DeviceModel>(p) }
}
unsafe extern "C" fn m_register(p: *const (), k: LoadedKernel) -> RResult<u32, Error> {
    // SAFETY: see above.
    guard("DeviceModel::register", || unsafe { model(p) }.register(k))
}
unsafe extern "C" fn m_bind(p: *const (), t: DeviceTask) -> RResult<u32, Error> {
    // SAFETY: see above.
    guard("DeviceModel::bind", || unsafe { model(p) }.bind(t))
}
unsafe extern "C" fn m_seal(p: *const ()) -> RResult<(), Error> {
    // SAFETY: see above.
    guard("DeviceModel::seal", || unsafe { model(p) }.seal())
}
unsafe extern "C" fn m_execute(p: *const (), bases: RawSlice<Base>, profile: bool) -> RResult<RunReport, Error> {
    // SAFETY: see above.
    guard("DeviceModel::execute", || unsafe { model(p).execute(bases.get(), profile) })
}

crate::erased_object!(
    /// A [`Device`] of a plugin.
    DeviceObject, DeviceTableRef, dyn Device, DeviceTableRef(DEVICE_TABLE.static_as_prefix())
);
crate::erased_object!(
    /// A [`DeviceContext`] of a plugin.
    ContextObject, ContextTableRef, dyn DeviceContext, ContextTableRef(CONTEXT_TABLE.static_as_prefix())
);
crate::erased_object!(
    /// A [`DeviceModel`] of a plugin.
    ModelObject, ModelTableRef, dyn DeviceModel, ModelTableRef(MODEL_TABLE.static_as_prefix())
);

/// The device as the host calls it (pointer and table belong together).
impl DeviceObject {
    /// What it is.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn info(&self) -> Result<DeviceInfo> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().info())(self.ptr()) }.into_result()
    }
    /// Describes a SoC by name.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn soc(&self, name: &str) -> Result<SocSpec> {
        // SAFETY: see the impl's doc.
        unsafe { (self.table().soc())(self.ptr(), RawSlice::of(name.as_bytes())) }.into_result()
    }
    /// Describes a SoC by the text of its file.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn soc_from_text(&self, file: &str, text: &str) -> Result<SocSpec> {
        // SAFETY: see the impl's doc.
        unsafe {
            (self.table().soc_from_text())(self.ptr(), RawSlice::of(file.as_bytes()), RawSlice::of(text.as_bytes()))
        }
        .into_result()
    }
    /// Opens a device.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn open(&self, id: u32, soc: &SocSpec, options: &[(String, String)]) -> Result<ContextObject> {
        let o: RVec<RString> =
            options.iter().flat_map(|(k, v)| [RString::from(k.as_str()), RString::from(v.as_str())]).collect();
        // SAFETY: see the impl's doc.
        unsafe { (self.table().open())(self.ptr(), id, soc, o) }.into_result()
    }
}

/// The open device as the host calls it.
impl ContextObject {
    /// Allocates memory.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn alloc(&self, kind: MemoryKind, bytes: u64) -> Result<u64> {
        // SAFETY: pointer and table belong together.
        unsafe { (self.table().alloc())(self.ptr(), kind, bytes) }.into_result()
    }
    /// Frees memory.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn free(&self, address: u64) -> Result<()> {
        // SAFETY: as above.
        unsafe { (self.table().free())(self.ptr(), address) }.into_result()
    }
    /// Takes host memory as device memory.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn register_host_memory(&self, address: u64, bytes: u64, read_only: bool) -> Result<Option<u64>> {
        // SAFETY: as above.
        unsafe { (self.table().register_host())(self.ptr(), address, bytes, read_only) }
            .into_result()
            .map(ROption::into_option)
    }
    /// Gives registered host memory back.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn unregister_host_memory(&self, address: u64) -> Result<()> {
        // SAFETY: as above.
        unsafe { (self.table().unregister_host())(self.ptr(), address) }.into_result()
    }
    /// Copies to the device.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn copy_in(&self, address: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: as above.
        unsafe { (self.table().copy_in())(self.ptr(), address, RawSlice::of(bytes)) }.into_result()
    }
    /// Copies from the device.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: as above.
        unsafe { (self.table().copy_out())(self.ptr(), address, bytes.as_mut_ptr(), bytes.len()) }.into_result()
    }
    /// Starts a model.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn create_model(&self, spec: ModelSpec) -> Result<ModelObject> {
        // SAFETY: as above.
        unsafe { (self.table().create_model())(self.ptr(), spec) }.into_result()
    }
    /// Counters since it was opened.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn counters(&self) -> Result<Vec<Counter>> {
        // SAFETY: as above.
        unsafe { (self.table().counters())(self.ptr()) }.into_result().map(Vec::from)
    }
}

/// The model as the host calls it.
impl ModelObject {
    /// Seals it.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn seal(&self) -> Result<()> {
        // SAFETY: pointer and table belong together.
        unsafe { (self.table().seal())(self.ptr()) }.into_result()
    }
    /// Runs it once.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn execute(&self, bases: &[Base], profile: bool) -> Result<RunReport> {
        // SAFETY: as above.
        unsafe { (self.table().execute())(self.ptr(), RawSlice::of(bases), profile) }.into_result()
    }
    /// Registers a kernel.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn register(&self, kernel: LoadedKernel) -> Result<u32> {
        // SAFETY: as above.
        unsafe { (self.table().register())(self.ptr(), kernel) }.into_result()
    }
    /// Binds a task.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn bind(&self, task: DeviceTask) -> Result<u32> {
        // SAFETY: as above.
        unsafe { (self.table().bind())(self.ptr(), task) }.into_result()
    }
    /// Whether the device's interface has just what this library knows of it, so that an object of
    /// this library can stand for it.
    pub fn is_of_this_version(&self) -> bool {
        let known = ModelTableRef(MODEL_TABLE.static_as_prefix());
        self.table().0.field_accessibility().bits() == known.0.field_accessibility().bits()
    }
    /// A reference to hand to engines for one task: the task as the host resolved it (stream,
    /// arguments, ids).
    pub fn sink(&self, resolved: DeviceTask) -> DeviceModelRef {
        DeviceModelRef { ptr: self.ptr(), table: self.table(), resolved }
    }
}

/// What an engine's executor gets for one task: the device's model, and the task with stream,
/// arguments and ids resolved by the host.
#[repr(C)]
#[derive(StableAbi)]
pub struct DeviceModelRef {
    ptr: *const (),
    table: ModelTableRef,
    resolved: DeviceTask,
}

/// The device's model as an executor uses it. A kernel is bound with arguments that are as long as
/// it takes them to be.
pub struct ModelSink<'a> {
    model: &'a DeviceModelRef,
    /// Kernels registered for this task, and the bytes that their arguments must have, where they
    /// are known.
    registered: Vec<(u32, Option<Vec<u64>>)>,
}

impl<'a> ModelSink<'a> {
    pub(crate) fn new(model: &'a DeviceModelRef) -> ModelSink<'a> {
        ModelSink { model, registered: Vec::new() }
    }
    /// The task as the host resolved it.
    pub fn resolved(&self) -> &DeviceTask {
        &self.model.resolved
    }
    /// Registers a kernel; its id.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked; `plugin`: parts of a block kernel were
    /// exchanged.
    pub fn register(&mut self, kernel: LoadedKernel) -> Result<u32> {
        let lens = declared(&kernel)?;
        // SAFETY: the host keeps the model alive for the call.
        let id = unsafe { (self.model.table.register())(self.model.ptr, kernel) }.into_result()?;
        self.registered.push((id, lens));
        Ok(id)
    }
    /// What a block kernel takes its arguments to be, held against what the task has.
    fn fits(&self, task: &DeviceTask) -> Result<()> {
        let ROption::RSome(id) = task.kernel else { return Ok(()) };
        let bad = |what: String| Err(Error::new(ErrorKind::PLUGIN, what));
        let Some((_, lens)) = self.registered.iter().rev().find(|r| r.0 == id) else {
            return bad(format!("kernel {id} was not registered for this task"));
        };
        let Some(lens) = lens else { return Ok(()) };
        if lens.len() != task.args.len() {
            return bad(format!("the kernel has {} arguments, its task {}", lens.len(), task.args.len()));
        }
        for (k, (len, place)) in lens.iter().zip(task.args.iter()).enumerate() {
            // A placeholder has no address, whatever is said of its bytes.
            let nothing = place.allocation == u32::MAX && place.bytes == 0;
            if *len > place.bytes && !nothing {
                return bad(format!("the kernel takes argument {k} to have {len} bytes, the plan has {}", place.bytes));
            }
        }
        Ok(())
    }
    /// Binds the resolved task with a kernel, blocks and tiling.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn bind(&mut self, kernel: u32, block_dim: u32, tiling_key: u64, tiling: RVec<u8>) -> Result<()> {
        let task =
            DeviceTask { kernel: ROption::RSome(kernel), block_dim, tiling_key, tiling, ..self.model.resolved.clone() };
        self.bind_task(task).map(|_| ())
    }
    /// Binds any task; its id on the device. A kernel of it must have been registered here.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked; `plugin`: the kernel takes its
    /// arguments to be longer than they are.
    pub fn bind_task(&mut self, task: DeviceTask) -> Result<u32> {
        self.fits(&task)?;
        // SAFETY: as `register`.
        unsafe { (self.model.table.bind())(self.model.ptr, task) }.into_result()
    }
}
