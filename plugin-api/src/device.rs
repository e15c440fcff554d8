//! Devices: the run-time functions that a device library provides (DESIGN 1, "What a device is").
use crate::abi::erase::RawSlice;
use crate::abi::table::abi_object;
use crate::abi::{ROption, RResult, RString, RVec, StableAbi};
use crate::diagnostic::{Error, ErrorKind, Result};
use crate::kernel::{Access, LoadedKernel, declared};
use crate::open_code;

open_code! {
    /// Memory kinds, named as in DESIGN 7.
    pub struct MemoryKind: u8 {
        /// Device memory.
        HBM = 0 "HBM",
        /// Peer-to-peer memory.
        P2P = 1 "P2P",
        /// Host memory.
        HOST = 2 "HOST",
        /// Task-scheduler memory.
        TS = 3 "TS",
        /// L1 memory of a core.
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

/// A SoC as described by its SoC file (DESIGN 1).
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct SocSpec {
    /// Name of the SoC.
    pub name: RString,
    /// Number of AI cores.
    pub aic_cores: u32,
    /// Number of vector cores.
    pub aiv_cores: u32,
    /// Number of tasks that a stream reads ahead.
    pub prefetch_num: u32,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Maximum number of normal streams.
    pub streams_normal: u32,
    /// Maximum number of tasks on a normal stream.
    pub tasks_normal: u32,
    /// Maximum number of huge streams.
    pub streams_huge: u32,
    /// Maximum number of tasks on a huge stream.
    pub tasks_huge: u32,
    /// Whether streams hold any number of tasks; `tasks_normal` and `tasks_huge` are then ignored.
    pub unlimited_depth: bool,
    /// Maximum number of events.
    pub max_events: u32,
    /// Maximum number of notifies.
    pub max_notifies: u32,
    /// Whether UPDATE tasks are supported.
    pub model_task_update: bool,
    /// Cost of a kernel launch in nanoseconds.
    pub task_launch_ns: u64,
    /// Cost of recording an event in nanoseconds.
    pub event_record_ns: u64,
    /// Cost of waiting for an event in nanoseconds.
    pub event_wait_ns: u64,
}

/// Where an argument is: an allocation of the model and an offset in it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct Place {
    /// Index into `ModelSpec::allocations`; `u32::MAX` with 0 bytes means no memory.
    pub allocation: u32,
    /// Offset in the allocation, in bytes.
    pub offset: u64,
    /// Number of bytes that may be accessed.
    pub bytes: u64,
    /// Rank whose model owns the allocation; `u32::MAX` means the model's own rank.
    pub rank: u32,
}

open_code! {
    /// What an allocation of a model is for.
    pub struct AllocationKind: u8 {
        /// Feature map of one memory kind; each run in progress has its own.
        FEATURE_MAP = 0 "feature map",
        /// Weights: shared by all runs, read-only.
        WEIGHTS = 1 "weights",
        /// Variables: shared by all runs, kept between runs.
        VARIABLES = 2 "variables",
        /// A graph input (zero copy: it is the caller's memory).
        INPUT = 3 "input",
        /// A graph output (zero copy: it is the caller's memory).
        OUTPUT = 4 "output",
    }
}

/// An allocation of a model.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct Allocation {
    /// What it is for.
    pub kind: AllocationKind,
    /// Kind of memory.
    pub memory: MemoryKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Index of the graph input or output. An input `u32::MAX` is no input of the graph: it is
    /// memory that the host brings along to each run, and that tasks read and write.
    pub index: u32,
}

/// A stream of a model.
#[repr(C)]
#[derive(Clone, Debug, Default, PartialEq, StableAbi)]
pub struct StreamSpec {
    /// Whether the stream starts at launch (head); otherwise it sleeps until a task activates it.
    pub head: bool,
    /// Whether it is a huge stream.
    pub huge: bool,
    /// Priority 0 (highest) to 7.
    pub priority: u32,
    /// Number of tasks that it will have.
    pub tasks: u32,
}

/// Description of a model to be loaded (sunk) onto a device.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct ModelSpec {
    /// Name of the model, for messages.
    pub name: RString,
    /// SoC whose limits apply.
    pub soc: SocSpec,
    /// Streams; tasks name them by index.
    pub streams: RVec<StreamSpec>,
    /// Number of events; their ids are `0..events`.
    pub events: u32,
    /// Number of notifies; their ids are `0..notifies`.
    pub notifies: u32,
    /// Number of labels; their ids are `0..labels`.
    pub labels: u32,
    /// Allocations; arguments name them by index.
    pub allocations: RVec<Allocation>,
    /// Rank of this model in its group. The ranks of a group run together in one process.
    pub rank: u32,
    /// Number of ranks in the group.
    pub rank_size: u32,
    /// Key of the group: models with the same key reach each other's memory and notifies.
    pub group: u64,
}

/// A task bound to a stream.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct DeviceTask {
    /// Task type (facts 7.2), a [`crate::task::TaskType`] code.
    pub kind: u32,
    /// Index of the stream.
    pub stream: u32,
    /// Id of the registered kernel, for launches.
    pub kernel: ROption<u32>,
    /// Number of blocks; the placeholder 0xFFFFFFFF until an UPDATE task sets it.
    pub block_dim: u32,
    /// Key of the kernel variant.
    pub tiling_key: u64,
    /// Tiling data.
    pub tiling: RVec<u8>,
    /// Where each argument is.
    pub args: RVec<Place>,
    /// Event, notify, label and stream ids and conditions, by type: EVENT_* \[event\]; NOTIFY_*
    /// \[notify, rank or -1\]; STREAM_ACTIVE \[stream\]; STREAM_SWITCH \[condition, data type,
    /// stream\]; LABEL_SET \[label\]; STREAM_LABEL_GOTO \[label\]; STREAM_LABEL_SWITCH_BY_INDEX
    /// \[labels…\]; REDUCE_ASYNC \[reduction, data type\]; UPDATE \[device id of the updated task,
    /// and for an FFTS_PLUS task its handle: the id of the kernel that was registered for it\];
    /// SUPER_KERNEL \[events whose addresses its kernel waits on…\]; PREPROCESS_KERNEL \[events
    /// that its kernel records by address…\].
    pub numbers: RVec<i64>,
    /// Name of the node, for errors, profiles and race reports.
    pub node: RString,
    /// Operator type.
    pub op: RString,
    /// Name of the engine.
    pub engine: RString,
    /// Access of each argument, for tasks without a kernel that declares it.
    pub access: RVec<Access>,
    /// Run time in nanoseconds for the simulated clock.
    pub time_ns: u64,
}

/// Address and length of an allocation for one run.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct Base {
    /// First byte: an address of the device; on `sim` a pointer of this process.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// One task in the profile of a run.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct TaskProfile {
    /// Device id of the task (order of binding).
    pub task: u32,
    /// Start in nanoseconds since the launch.
    pub start_ns: u64,
    /// End in nanoseconds since the launch.
    pub end_ns: u64,
}

/// Result of a run.
#[repr(C)]
#[derive(Clone, Debug, Default, StableAbi)]
pub struct RunReport {
    /// One entry per task if profiling is on, else empty.
    pub tasks: RVec<TaskProfile>,
    /// Duration of the run in nanoseconds by the device's clock (simulated if `time = model`).
    pub elapsed_ns: u64,
    /// Number of kernel launches.
    pub launches: u64,
    /// Counters of the run by name.
    pub counters: RVec<Counter>,
}

/// A named counter.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct Counter {
    /// Name of the counter (`kernel_launches`).
    pub name: RString,
    /// Current value.
    pub value: u64,
}

/// Description of a device library.
#[repr(C)]
#[derive(Clone, Debug, StableAbi)]
pub struct DeviceInfo {
    /// Name of the device (`sim`).
    pub name: RString,
    /// SoC to use if the user names none; must be one of `socs`.
    pub default_soc: RString,
    /// Names of the SoCs that the library describes.
    pub socs: RVec<RString>,
    /// Options of `--device-option`: names and help texts, alternating.
    pub options: RVec<RString>,
    /// Whether addresses of the device are also addresses of this process.
    pub unified_address: bool,
}

/// A device library. A device opens contexts ([`DeviceContext`]), and contexts create models
/// ([`DeviceModel`]). Addresses and sizes are in bytes.
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
    /// Name, SoCs and options of the device.
    fn info(&self) -> DeviceInfo;
    /// Describes a SoC by its name (series or member).
    /// # Errors
    /// Returns `usage` if no SoC has this name.
    fn soc(&self, name: &str) -> Result<SocSpec>;
    /// Describes a SoC by the text of a SoC file (TOML). `file` is the file's name for messages.
    /// # Errors
    /// Returns `usage`, with line and column of `file`, if the text is not a valid SoC file.
    fn soc_from_text(&self, file: &str, text: &str) -> Result<SocSpec>;
    /// Opens device number `id` with options, given as names and values.
    /// # Errors
    /// Returns `usage` if an option or the device number is unknown, and `failed` if the device
    /// cannot be opened.
    fn open(&self, id: u32, soc: &SocSpec, options: &[(String, String)]) -> Result<Box<dyn DeviceContext>>;
}

/// An open device. Addresses and sizes are in bytes. See [`Device`] for an example.
pub trait DeviceContext: Send + Sync {
    /// Allocates memory and returns its address.
    /// # Errors
    /// Returns `device` if there is not enough memory of this kind.
    fn alloc(&self, kind: MemoryKind, bytes: u64) -> Result<u64>;
    /// Frees memory that `alloc` returned.
    /// # Errors
    /// Returns `device` if nothing was allocated at this address.
    fn free(&self, address: u64) -> Result<()>;
    /// Makes `bytes` bytes of host memory at `address` visible to the device without a copy.
    /// Returns the device address, or `None` if the device can only copy.
    /// # Errors
    /// Returns `device` if the range cannot be registered, for example because it is device memory.
    fn register_host_memory(&self, address: u64, bytes: u64, read_only: bool) -> Result<Option<u64>>;
    /// Unregisters host memory.
    /// # Errors
    /// Returns `device` if nothing is registered at this address.
    fn unregister_host_memory(&self, address: u64) -> Result<()>;
    /// Copies from the host to the device.
    /// # Errors
    /// Returns `device` if the range is not within one allocation.
    fn copy_in(&self, address: u64, bytes: &[u8]) -> Result<()>;
    /// Copies from the device to the host.
    /// # Errors
    /// Returns `device` if the range is not within one allocation.
    fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()>;
    /// Creates a model, to which kernels and tasks are then added.
    /// # Errors
    /// Returns `device` if the model needs more streams, events or notifies than the device has.
    fn create_model(&self, spec: ModelSpec) -> Result<Box<dyn DeviceModel>>;
    /// Counters since the device was opened.
    fn counters(&self) -> Vec<Counter>;
}

/// A model on a device. Kernels are registered and tasks are bound in the order of the model; then
/// the model is sealed and can run any number of times. See [`Device`] for an example.
pub trait DeviceModel: Send + Sync {
    /// Registers a kernel and returns its id.
    /// # Errors
    /// Returns `internal` if the model is sealed.
    fn register(&self, kernel: LoadedKernel) -> Result<u32>;
    /// Binds a task to its stream and returns the task's id (ids count in the order of binding).
    /// # Errors
    /// Returns `damaged` if the task names a stream, allocation or kernel that does not exist, and
    /// `internal` if the model is sealed.
    fn bind(&self, task: DeviceTask) -> Result<u32>;
    /// Ends the binding of tasks and checks ids, limits and streams of the model.
    /// # Errors
    /// Returns `damaged` if a task names an event, notify or label that does not exist or a stream
    /// can never end, and `device` if a stream has more tasks than the SoC allows.
    fn seal(&self) -> Result<()>;
    /// Runs the model once. `bases` are the addresses of all allocations, in order. Several calls
    /// may run at the same time with different feature maps.
    /// # Errors
    /// Returns the error of a kernel that failed, `device` if the run cannot go on, or `cancelled`
    /// if the user stopped it. The error names the task, node and stream at fault, if known.
    fn execute(&self, bases: &[Base], profile: bool) -> Result<RunReport>;
}

abi_object! {
    /// Handle by which the host calls a plugin's [`Device`].
    object DeviceObject of dyn Device;
    /// ABI function table of [`Device`].
    table DeviceTable, DeviceTableRef;
    /// Name, SoCs and options of the device.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    call info() -> Result<DeviceInfo> => RResult<DeviceInfo, Error> = |d| Ok(d.info());
    /// Describes a SoC by name.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call soc(name: &str => RawSlice<u8>) -> Result<SocSpec> => RResult<SocSpec, Error> = |d| d.soc(name);
    /// Describes a SoC by the text of its file.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call soc_from_text(file: &str => RawSlice<u8>, text: &str => RawSlice<u8>)
        -> Result<SocSpec> => RResult<SocSpec, Error> = |d| d.soc_from_text(file, text);
    /// Opens a device. Option names and values alternate in `options`.
    [last_prefix_field]
    raw open(id: u32 => u32, soc: &SocSpec => *const SocSpec, options: Vec<RString> => RVec<RString>)
        -> Result<ContextObject> => RResult<ContextObject, Error> = |d| {
            let pairs = options.chunks_exact(2).map(|c| (c[0].to_string(), c[1].to_string()));
            Ok(ContextObject::from_box(d.open(id, soc, &pairs.collect::<Vec<_>>())?))
        };
}

abi_object! {
    /// Handle by which the host calls a plugin's [`DeviceContext`].
    object ContextObject of dyn DeviceContext;
    /// ABI function table of [`DeviceContext`].
    table ContextTable, ContextTableRef;
    /// Allocates memory and returns its address.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call alloc(kind: MemoryKind => MemoryKind, bytes: u64 => u64) -> Result<u64> => RResult<u64, Error> =
        |c| c.alloc(kind, bytes);
    /// Frees memory.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call free(address: u64 => u64) -> Result<()> => RResult<(), Error> = |c| c.free(address);
    /// [`DeviceContext::register_host_memory`].
    raw register_host(address: u64 => u64, bytes: u64 => u64, read_only: bool => bool)
        -> Result<Option<u64>> => RResult<ROption<u64>, Error> =
        |c| c.register_host_memory(address, bytes, read_only);
    /// [`DeviceContext::unregister_host_memory`].
    raw unregister_host(address: u64 => u64) -> Result<()> => RResult<(), Error> =
        |c| c.unregister_host_memory(address);
    /// Copies from the host to the device.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call copy_in(address: u64 => u64, bytes: &[u8] => RawSlice<u8>) -> Result<()> => RResult<(), Error> =
        |c| c.copy_in(address, bytes);
    /// [`DeviceContext::copy_out`]: device address, destination and length in bytes.
    raw copy_out(address: u64 => u64, to: *mut u8 => *mut u8, len: usize => usize)
        -> Result<()> => RResult<(), Error> = |c| {
            // SAFETY: the caller alone uses the destination during the call.
            c.copy_out(address, if len == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(to, len) } })
        };
    /// Creates a model, to which kernels and tasks are then added.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call create_model(spec: ModelSpec => ModelSpec) -> Result<ModelObject> => RResult<ModelObject, Error> =
        |c| Ok(ModelObject::from_box(c.create_model(spec)?));
    /// Counters since the device was opened.
    ///
    /// # Errors
    /// Returns `panic` if the plugin panicked.
    [last_prefix_field]
    call counters() -> Result<Vec<Counter>> => RResult<RVec<Counter>, Error> = |c| Ok(c.counters());
}

abi_object! {
    /// Handle by which the host calls a plugin's [`DeviceModel`].
    object ModelObject of dyn DeviceModel;
    /// ABI function table of [`DeviceModel`].
    table ModelTable, ModelTableRef;
    /// Registers a kernel and returns its id.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call register(kernel: LoadedKernel => LoadedKernel) -> Result<u32> => RResult<u32, Error> = |m| m.register(kernel);
    /// Binds a task to its stream and returns the task's id.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call bind(task: DeviceTask => DeviceTask) -> Result<u32> => RResult<u32, Error> = |m| m.bind(task);
    /// Ends the binding of tasks and checks the model.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    call seal() -> Result<()> => RResult<(), Error> = |m| m.seal();
    /// Runs the model once.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    [last_prefix_field]
    call execute(bases: &[Base] => RawSlice<Base>, profile: bool => bool)
        -> Result<RunReport> => RResult<RunReport, Error> = |m| m.execute(bases, profile);
}

impl DeviceObject {
    /// Opens device number `id` with options, given as names and values.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    pub fn open(&self, id: u32, soc: &SocSpec, options: &[(String, String)]) -> Result<ContextObject> {
        let o: RVec<RString> =
            options.iter().flat_map(|(k, v)| [RString::from(k.as_str()), RString::from(v.as_str())]).collect();
        // SAFETY: pointer and table belong together.
        unsafe { (self.table().open())(self.ptr(), id, soc, o) }.into_result()
    }
}

impl ContextObject {
    /// Makes `bytes` bytes of host memory at `address` visible to the device without a copy.
    /// Returns the device address, or `None` if the device can only copy.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    pub fn register_host_memory(&self, address: u64, bytes: u64, read_only: bool) -> Result<Option<u64>> {
        // SAFETY: pointer and table belong together.
        unsafe { (self.table().register_host())(self.ptr(), address, bytes, read_only) }
            .into_result()
            .map(ROption::into_option)
    }
    /// Unregisters host memory.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    pub fn unregister_host_memory(&self, address: u64) -> Result<()> {
        // SAFETY: as above.
        unsafe { (self.table().unregister_host())(self.ptr(), address) }.into_result()
    }
    /// Copies from the device to the host.
    ///
    /// # Errors
    /// Returns the plugin's error, or `panic` if the plugin panicked.
    pub fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: as above.
        unsafe { (self.table().copy_out())(self.ptr(), address, bytes.as_mut_ptr(), bytes.len()) }.into_result()
    }
}

impl ModelObject {
    /// Whether the device's table has exactly the functions that this library knows, so that an
    /// object of this library can stand in for it.
    pub fn is_of_this_version(&self) -> bool {
        let known = ModelObject::own_table();
        self.table().0.field_accessibility().bits() == known.0.field_accessibility().bits()
    }
    /// A reference to pass to an engine for one task. `resolved` is the task with the stream,
    /// arguments and ids that the host resolved.
    pub fn sink(&self, resolved: DeviceTask) -> DeviceModelRef {
        DeviceModelRef { ptr: self.ptr(), table: self.table(), resolved }
    }
}

/// What an engine's executor gets for one task: the device's model, and the task with the stream,
/// arguments and ids that the host resolved.
#[repr(C)]
#[derive(StableAbi)]
pub struct DeviceModelRef {
    ptr: *const (),
    table: ModelTableRef,
    resolved: DeviceTask,
}

/// The device's model as an executor uses it. It binds a kernel only to arguments that are at least
/// as long as the kernel expects.
pub struct ModelSink<'a> {
    model: &'a DeviceModelRef,
    /// Kernels registered for this task, each with the bytes that its arguments must have, if
    /// known.
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
    /// Registers a kernel and returns its id.
    ///
    /// # Errors
    /// Returns the plugin's error, `panic` if the plugin panicked, or `plugin` if fields of a block
    /// kernel were exchanged or it is registered a second time.
    pub fn register(&mut self, kernel: LoadedKernel) -> Result<u32> {
        let lens = declared(&kernel)?;
        // SAFETY: the host keeps the model alive during the call.
        let id = unsafe { (self.model.table.register())(self.model.ptr, kernel) }.into_result()?;
        self.registered.push((id, lens));
        Ok(id)
    }
    /// Checks the argument lengths that a block kernel expects against those of the task.
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
            // A placeholder argument has no memory, whatever length the kernel expects.
            let nothing = place.allocation == u32::MAX && place.bytes == 0;
            if *len > place.bytes && !nothing {
                return bad(format!("the kernel takes argument {k} to have {len} bytes, the plan has {}", place.bytes));
            }
        }
        Ok(())
    }
    /// Binds the resolved task with a kernel, number of blocks, tiling key and tiling data.
    ///
    /// # Errors
    /// Returns the same errors as [`ModelSink::bind_task`].
    pub fn bind(&mut self, kernel: u32, block_dim: u32, tiling_key: u64, tiling: RVec<u8>) -> Result<()> {
        let task =
            DeviceTask { kernel: ROption::RSome(kernel), block_dim, tiling_key, tiling, ..self.model.resolved.clone() };
        self.bind_task(task).map(|_| ())
    }
    /// Binds any task and returns its id on the device. Its kernel, if any, must have been
    /// registered through this sink.
    ///
    /// # Errors
    /// Returns the plugin's error, `panic` if the plugin panicked, or `plugin` if the kernel was
    /// not registered here or its argument number or lengths do not fit the task.
    pub fn bind_task(&mut self, task: DeviceTask) -> Result<u32> {
        self.fits(&task)?;
        // SAFETY: as `register`.
        unsafe { (self.model.table.bind())(self.model.ptr, task) }.into_result()
    }
}
