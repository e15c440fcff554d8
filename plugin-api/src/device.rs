//! Devices: the run-time primitives that a device library gives (DESIGN 1, "What a device is").
use crate::abi::erase::RawSlice;
use crate::abi::table::abi_object;
use crate::abi::{ROption, RResult, RString, RVec, StableAbi};
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

abi_object! {
    /// A [`Device`] of a plugin, as the host calls it.
    object DeviceObject of dyn Device;
    /// ABI function table of [`Device`].
    table DeviceTable, DeviceTableRef;
    /// What it is.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call info() -> Result<DeviceInfo> => RResult<DeviceInfo, Error> = |d| Ok(d.info());
    /// Describes a SoC by name.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call soc(name: &str => RawSlice<u8>) -> Result<SocSpec> => RResult<SocSpec, Error> = |d| d.soc(name);
    /// Describes a SoC by the text of its file.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call soc_from_text(file: &str => RawSlice<u8>, text: &str => RawSlice<u8>)
        -> Result<SocSpec> => RResult<SocSpec, Error> = |d| d.soc_from_text(file, text);
    /// Opens a device; options as names and values alternating.
    [last_prefix_field]
    raw open(id: u32 => u32, soc: &SocSpec => *const SocSpec, options: Vec<RString> => RVec<RString>)
        -> Result<ContextObject> => RResult<ContextObject, Error> = |d| {
            let pairs = options.chunks_exact(2).map(|c| (c[0].to_string(), c[1].to_string()));
            Ok(ContextObject::from_box(d.open(id, soc, &pairs.collect::<Vec<_>>())?))
        };
}

abi_object! {
    /// A [`DeviceContext`] of a plugin: the open device as the host calls it.
    object ContextObject of dyn DeviceContext;
    /// ABI function table of [`DeviceContext`].
    table ContextTable, ContextTableRef;
    /// Allocates memory.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call alloc(kind: MemoryKind => MemoryKind, bytes: u64 => u64) -> Result<u64> => RResult<u64, Error> =
        |c| c.alloc(kind, bytes);
    /// Frees memory.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call free(address: u64 => u64) -> Result<()> => RResult<(), Error> = |c| c.free(address);
    /// `register_host_memory`.
    raw register_host(address: u64 => u64, bytes: u64 => u64, read_only: bool => bool)
        -> Result<Option<u64>> => RResult<ROption<u64>, Error> =
        |c| c.register_host_memory(address, bytes, read_only);
    /// `unregister_host_memory`.
    raw unregister_host(address: u64 => u64) -> Result<()> => RResult<(), Error> =
        |c| c.unregister_host_memory(address);
    /// Copies to the device.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call copy_in(address: u64 => u64, bytes: &[u8] => RawSlice<u8>) -> Result<()> => RResult<(), Error> =
        |c| c.copy_in(address, bytes);
    /// `copy_out`: address, destination, length.
    raw copy_out(address: u64 => u64, to: *mut u8 => *mut u8, len: usize => usize)
        -> Result<()> => RResult<(), Error> = |c| {
            // SAFETY: the destination is the caller's alone.
            c.copy_out(address, if len == 0 { &mut [] } else { unsafe { core::slice::from_raw_parts_mut(to, len) } })
        };
    /// Starts a model.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call create_model(spec: ModelSpec => ModelSpec) -> Result<ModelObject> => RResult<ModelObject, Error> =
        |c| Ok(ModelObject::from_box(c.create_model(spec)?));
    /// Counters since it was opened.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    [last_prefix_field]
    call counters() -> Result<Vec<Counter>> => RResult<RVec<Counter>, Error> = |c| Ok(c.counters());
}

abi_object! {
    /// A [`DeviceModel`] of a plugin, as the host calls it.
    object ModelObject of dyn DeviceModel;
    /// ABI function table of [`DeviceModel`].
    table ModelTable, ModelTableRef;
    /// Registers a kernel.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call register(kernel: LoadedKernel => LoadedKernel) -> Result<u32> => RResult<u32, Error> = |m| m.register(kernel);
    /// Binds a task.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call bind(task: DeviceTask => DeviceTask) -> Result<u32> => RResult<u32, Error> = |m| m.bind(task);
    /// Seals it.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    call seal() -> Result<()> => RResult<(), Error> = |m| m.seal();
    /// Runs it once.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    [last_prefix_field]
    call execute(bases: &[Base] => RawSlice<Base>, profile: bool => bool)
        -> Result<RunReport> => RResult<RunReport, Error> = |m| m.execute(bases, profile);
}

impl DeviceObject {
    /// Opens a device.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn open(&self, id: u32, soc: &SocSpec, options: &[(String, String)]) -> Result<ContextObject> {
        let o: RVec<RString> =
            options.iter().flat_map(|(k, v)| [RString::from(k.as_str()), RString::from(v.as_str())]).collect();
        // SAFETY: pointer and table belong together.
        unsafe { (self.table().open())(self.ptr(), id, soc, o) }.into_result()
    }
}

impl ContextObject {
    /// Takes host memory as device memory.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn register_host_memory(&self, address: u64, bytes: u64, read_only: bool) -> Result<Option<u64>> {
        // SAFETY: pointer and table belong together.
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
    /// Copies from the device.
    ///
    /// # Errors
    /// What the plugin returned; `panic` where it panicked.
    pub fn copy_out(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: as above.
        unsafe { (self.table().copy_out())(self.ptr(), address, bytes.as_mut_ptr(), bytes.len()) }.into_result()
    }
}

impl ModelObject {
    /// Whether the device's interface has just what this library knows of it, so that an object of
    /// this library can stand for it.
    pub fn is_of_this_version(&self) -> bool {
        let known = ModelObject::own_table();
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
