//! What the host does for plugins: interning, threads, log, progress, cancellation and access to
//! the mappings and prototypes of other plugins.
use crate::abi::{ROption, RString, RVec, StableAbi};
use crate::diagnostic::{Error, Result};
use crate::frontend::MappingRef;
use crate::open_code;
use crate::types::{TensorDesc, key};
use crate::view::{Node, RawNodeRef};
use core::ffi::c_void;
use std::sync::OnceLock;

open_code! {
    /// Log levels.
    pub struct Level: u8 {
        /// Errors.
        ERROR = 0 "error",
        /// Warnings.
        WARN = 1 "warn",
        /// The main steps: fewer than 20 lines for any model.
        INFO = 2 "info",
        /// Details.
        DEBUG = 3 "debug",
    }
}

/// One part of a parallel loop, called as `(context, begin, end)`; returns 0 for success.
#[repr(transparent)]
#[derive(Clone, Copy, StableAbi)]
pub struct RangeFn(pub unsafe extern "C" fn(*mut c_void, usize, usize) -> i32);

/// ABI function table of the host's services. Minor versions append fields after the last prefix
/// field.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = HostTableRef)))]
#[sabi(missing_field(option))]
pub struct HostTable {
    /// Interns a name (pointer and length) and returns its key.
    pub intern: extern "C" fn(*const u8, usize) -> u32,
    /// Name of a key: returns the pointer and sets the length; valid until the process ends.
    pub key_name: extern "C" fn(u32, *mut usize) -> *const u8,
    /// Runs `f` over `0..n` in parts of at least `grain` items on the host's only thread pool.
    /// Nested calls run on the calling thread.
    pub parallel_for: extern "C" fn(n: usize, grain: usize, f: RangeFn, context: *mut c_void) -> i32,
    /// Logs a line.
    pub log: extern "C" fn(Level, *const u8, usize),
    /// Whether the user has asked to stop the work.
    pub cancelled: extern "C" fn() -> bool,
    /// Reports progress: `done` of `total` steps.
    pub progress: extern "C" fn(done: u64, total: u64),
    /// All mappings for a framework from the enabled front-end plugins.
    #[sabi(last_prefix_field)]
    pub mappings: extern "C" fn(*const u8, usize) -> RVec<MappingRef>,
    /// Output descriptors of a node by the prototype of its operator, from whichever enabled plugin
    /// has it; `None` if no plugin has it or its inference fails.
    pub infer: unsafe extern "C" fn(RawNodeRef) -> ROption<RVec<TensorDesc>>,
}

static HOST: OnceLock<HostTableRef> = OnceLock::new();

/// The host's services, as this library uses them.
#[derive(Clone, Copy)]
pub struct Host(HostTableRef);

/// Sets the table. The init function of `ge_plugin!` calls it once.
#[doc(hidden)]
pub fn set_host(table: HostTableRef) {
    let _ = HOST.set(table);
}

/// The host's services. `None` in a library without a host: in its own unit tests, and in the host
/// itself.
pub fn host_or_none() -> Option<Host> {
    HOST.get().map(|t| Host(*t))
}

/// Runs `f` over parts of `0..n`: on the host's thread pool if there is a host, otherwise on the
/// calling thread.
///
/// `f` gets half-open ranges that together cover `0..n` exactly once. Each has at least `grain`
/// items, except the last.
/// # Errors
/// Returns the first error that `f` returned, on whichever thread.
///
/// # Examples
/// ```
/// use ge_plugin_api::services::parallel_for;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let sum = AtomicUsize::new(0);
/// parallel_for(1000, 64, |part| {
///     sum.fetch_add(part.sum::<usize>(), Ordering::Relaxed);
///     Ok(())
/// })?;
/// assert_eq!(sum.into_inner(), 499_500);
/// # Ok::<(), ge_plugin_api::Error>(())
/// ```
pub fn parallel_for(n: usize, grain: usize, f: impl Fn(core::ops::Range<usize>) -> Result<()> + Sync) -> Result<()> {
    struct Shared<'a, F> {
        f: &'a F,
        error: std::sync::Mutex<Option<Error>>,
    }
    unsafe extern "C" fn part<F: Fn(core::ops::Range<usize>) -> Result<()> + Sync>(
        ctx: *mut c_void,
        begin: usize,
        end: usize,
    ) -> i32 {
        // SAFETY: `ctx` is the `Shared` below, which lives until `parallel_for` of the host
        // returns.
        let s = unsafe { &*(ctx as *const Shared<'_, F>) };
        match crate::abi::guard("parallel_for", || (s.f)(begin..end)) {
            crate::abi::RResult::ROk(()) => 0,
            crate::abi::RResult::RErr(e) => {
                let mut slot = s.error.lock().unwrap_or_else(|p| p.into_inner());
                slot.get_or_insert(e);
                1
            }
        }
    }
    fn on_host<F: Fn(core::ops::Range<usize>) -> Result<()> + Sync>(
        h: Host,
        n: usize,
        grain: usize,
        f: &F,
    ) -> Result<()> {
        let shared = Shared { f, error: std::sync::Mutex::new(None) };
        let rc =
            (h.0.parallel_for())(n, grain.max(1), RangeFn(part::<F>), &shared as *const Shared<'_, F> as *mut c_void);
        match shared.error.into_inner().unwrap_or_else(|p| p.into_inner()) {
            Some(e) => Err(e),
            None if rc != 0 => Err(Error::cancelled()),
            None => Ok(()),
        }
    }
    match host_or_none() {
        Some(h) if n > grain.max(1) => on_host(h, n, grain, &f),
        _ if n == 0 => Ok(()),
        _ => f(0..n),
    }
}

/// Whether the user has asked to stop the work. Loops that may take long should check it between
/// items.
pub fn cancelled() -> bool {
    host_or_none().is_some_and(|h| (h.0.cancelled())())
}
/// Reports progress of a long operation: `done` of `total` steps. Does nothing without a host.
pub fn progress(done: u64, total: u64) {
    if let Some(h) = host_or_none() {
        (h.0.progress())(done, total)
    }
}
/// Logs a line. Does nothing without a host.
pub fn log(level: Level, text: &str) {
    if let Some(h) = host_or_none() {
        (h.0.log())(level, text.as_ptr(), text.len())
    }
}

impl Host {
    pub(crate) fn intern(self, name: &str) -> u32 {
        (self.0.intern())(name.as_ptr(), name.len())
    }
    pub(crate) fn key_name(self, key: u32) -> &'static str {
        let mut len = 0usize;
        let p = (self.0.key_name())(key, &mut len);
        // SAFETY: the host's interned names are UTF-8 and are never freed.
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(p, len)) }
    }
    /// The function table, to pass on in kernel calls.
    pub fn table(self) -> HostTableRef {
        self.0
    }
    /// All mappings for a framework (`onnx`) from the enabled front-end plugins.
    pub fn mappings(self, framework: &str) -> Vec<MappingRef> {
        (self.0.mappings())(framework.as_ptr(), framework.len()).into_iter().collect()
    }
    /// Output descriptors of a node by the prototype of its operator, from whichever enabled plugin
    /// has it. `None` if no plugin has it, if its inference fails (the host reports that when it
    /// infers the whole model), or if the host is older than this service.
    pub fn infer(self, node: &Node<'_>) -> Option<Vec<TensorDesc>> {
        // SAFETY: the node outlives the call.
        unsafe { (self.0.infer()?)(RawNodeRef::of(node)) }.into_option().map(Vec::from)
    }
}

/// The host's side of interning, with which the loader fills its table.
#[doc(hidden)]
pub mod host_side {
    use super::*;
    /// `HostTable::intern` in the process that owns the table. Callers pass pointer and length of a
    /// string.
    #[allow(
        clippy::not_unsafe_ptr_arg_deref,
        reason = "the table's field is a safe function that only this crate calls"
    )]
    pub extern "C" fn intern(name: *const u8, len: usize) -> u32 {
        // SAFETY: callers pass pointer and length of a `&str`.
        let s = unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(name, len)) };
        key::intern_local(s)
    }
    /// `HostTable::key_name`. Callers pass a pointer to where the length is written.
    #[allow(
        clippy::not_unsafe_ptr_arg_deref,
        reason = "the table's field is a safe function that only this crate calls"
    )]
    pub extern "C" fn key_name(key: u32, len: *mut usize) -> *const u8 {
        let s = key::name_local(key);
        // SAFETY: callers pass a valid pointer for the length.
        unsafe { *len = s.len() };
        s.as_ptr()
    }
}

/// Value of a plugin option, from plugins.toml or by default.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct OptionValue {
    /// Name of the option in the plugin's schema.
    pub key: RString,
    /// Value, already checked against the schema.
    pub value: crate::types::AttrValue,
}

open_code! {
    /// The type of a plugin's option.
    pub struct OptionKind: u8 {
        /// `true` or `false`.
        BOOL = 0 "boolean",
        /// A whole number within `min..=max`.
        INT = 1 "integer",
        /// One of `choices`.
        CHOICE = 2 "choice",
        /// A string.
        STRING = 3 "string",
        /// A real number.
        FLOAT = 4 "float",
    }
}

/// One option in a plugin's schema.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct OptionSpec {
    /// Name of the option in `[plugin.options]`.
    pub key: RString,
    /// Type of its value.
    pub kind: OptionKind,
    /// Smallest allowed value of an `INT`.
    pub min: i64,
    /// Largest allowed value of an `INT`.
    pub max: i64,
    /// Allowed values of a `CHOICE`.
    pub choices: RVec<RString>,
    /// Value if none is given.
    pub default: crate::types::AttrValue,
    /// One line of help.
    pub help: RString,
}

impl OptionSpec {
    fn of(key: &str, kind: OptionKind, default: crate::types::AttrValue) -> OptionSpec {
        let (key, help) = (key.into(), RString::new());
        OptionSpec { key, kind, min: i64::MIN, max: i64::MAX, choices: RVec::new(), default, help }
    }
    /// A boolean option.
    pub fn bool(key: &str, default: bool) -> OptionSpec {
        OptionSpec::of(key, OptionKind::BOOL, default.into())
    }
    /// An integer option limited to `range`.
    pub fn int(key: &str, default: i64, range: core::ops::RangeInclusive<i64>) -> OptionSpec {
        OptionSpec { min: *range.start(), max: *range.end(), ..OptionSpec::of(key, OptionKind::INT, default.into()) }
    }
    /// A float option.
    pub fn float(key: &str, default: f64) -> OptionSpec {
        OptionSpec::of(key, OptionKind::FLOAT, default.into())
    }
    /// A string option.
    pub fn text(key: &str, default: &str) -> OptionSpec {
        OptionSpec::of(key, OptionKind::STRING, default.into())
    }
    /// An option with one of several values; the first is the default.
    pub fn choice(key: &str, choices: &[&str]) -> OptionSpec {
        let default = choices.first().copied().unwrap_or_default().into();
        let choices = choices.iter().map(|c| (*c).into()).collect();
        OptionSpec { choices, ..OptionSpec::of(key, OptionKind::CHOICE, default) }
    }
    /// Sets the line of help.
    pub fn help(mut self, text: &str) -> OptionSpec {
        self.help = text.into();
        self
    }
}

/// The options passed to a plugin's `init`, by name. Every option of the plugin's schema is
/// present, with the given value or its default.
/// # Examples
/// ```
/// use ge_plugin_api::services::{OptionList, OptionSpec, OptionValue};
///
/// let spec = OptionSpec::float("k", 1.5).help("strength");
/// let given = [OptionValue { key: spec.key.clone(), value: spec.default.clone() }];
/// assert_eq!(given.float("k")?, 1.5);
/// assert!(given.float("q").is_err());
/// # Ok::<(), ge_plugin_api::Error>(())
/// ```
pub trait OptionList {
    /// The value of an option.
    /// # Errors
    /// Returns `internal` if the schema has no option with this name.
    fn value(&self, key: &str) -> Result<&crate::types::AttrValue>;
    /// The value of a boolean option.
    /// # Errors
    /// Returns `internal` if the schema has no option with this name and type.
    fn bool(&self, key: &str) -> Result<bool> {
        self.value(key)?.as_bool().ok_or_else(|| other_kind(key))
    }
    /// The value of an integer option.
    /// # Errors
    /// Returns the same errors as [`OptionList::bool`].
    fn int(&self, key: &str) -> Result<i64> {
        self.value(key)?.as_int().ok_or_else(|| other_kind(key))
    }
    /// The value of a float option.
    /// # Errors
    /// Returns the same errors as [`OptionList::bool`].
    fn float(&self, key: &str) -> Result<f64> {
        self.value(key)?.as_float().ok_or_else(|| other_kind(key))
    }
    /// The value of a string or choice option.
    /// # Errors
    /// Returns the same errors as [`OptionList::bool`].
    fn text(&self, key: &str) -> Result<&str> {
        self.value(key)?.as_str().ok_or_else(|| other_kind(key))
    }
}
fn other_kind(key: &str) -> Error {
    Error::internal(format!("option `{key}` is of another kind"))
}
impl OptionList for [OptionValue] {
    fn value(&self, key: &str) -> Result<&crate::types::AttrValue> {
        let found = self.iter().find(|o| o.key.as_str() == key).map(|o| &o.value);
        found.ok_or_else(|| Error::internal(format!("the plugin's schema has no option `{key}`")))
    }
}
