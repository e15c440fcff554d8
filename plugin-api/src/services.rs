//! What the host does for plugins: interning, threads, log, progress, cancellation, mappings of
//! other plugins.
use crate::abi::{RString, RVec, StableAbi};
use crate::diagnostic::{Error, Result};
use crate::frontend::MappingRef;
use crate::open_code;
use crate::types::key;
use core::ffi::c_void;
use std::sync::OnceLock;

open_code! {
    /// Log levels.
    pub struct Level: u8 {
        /// Errors.
        ERROR = 0 "error",
        /// Warnings.
        WARN = 1 "warn",
        /// The story, under 20 lines for any model.
        INFO = 2 "info",
        /// Details.
        DEBUG = 3 "debug",
    }
}

/// A part of a parallel loop: `(context, begin, end)`; 0 is success.
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
    /// Interns a name.
    pub intern: extern "C" fn(*const u8, usize) -> u32,
    /// Name of a key: pointer and length, alive for ever.
    pub key_name: extern "C" fn(u32, *mut usize) -> *const u8,
    /// Runs `f` over `0..n` in parts of at least `grain` on the host's one pool; nested calls run
    /// inline.
    pub parallel_for: extern "C" fn(n: usize, grain: usize, f: RangeFn, context: *mut c_void) -> i32,
    /// Logs a line.
    pub log: extern "C" fn(Level, *const u8, usize),
    /// Whether the user has asked to stop.
    pub cancelled: extern "C" fn() -> bool,
    /// Says how far the work is.
    pub progress: extern "C" fn(done: u64, total: u64),
    /// Every mapping of every enabled front-end plugin for a framework.
    #[sabi(last_prefix_field)]
    pub mappings: extern "C" fn(*const u8, usize) -> RVec<MappingRef>,
}

static HOST: OnceLock<HostTableRef> = OnceLock::new();

/// The host's services as this library sees them.
#[derive(Clone, Copy)]
pub struct Host(HostTableRef);

/// Called once by `ge_plugin!`'s init.
#[doc(hidden)]
pub fn set_host(table: HostTableRef) {
    let _ = HOST.set(table);
}

/// The services, or None in a library that has no host (its own unit tests, and the host itself).
pub fn host_or_none() -> Option<Host> {
    HOST.get().map(|t| Host(*t))
}

/// Runs `f` over parts of `0..n`: on the host's pool where there is a host, inline otherwise. The
/// first error wins.
///
/// `f` gets half-open ranges that together cover `0..n` once, each of at least `grain` items but
/// the last.
/// # Errors
/// The first error that `f` returned, whichever thread it came from.
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
        // SAFETY: `ctx` is the `Shared` below, alive until `parallel_for` of the host returns.
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

/// Whether the user has asked to stop; loops that can be long ask between items.
pub fn cancelled() -> bool {
    host_or_none().is_some_and(|h| (h.0.cancelled())())
}
/// Says how far a long work is.
pub fn progress(done: u64, total: u64) {
    if let Some(h) = host_or_none() {
        (h.0.progress())(done, total)
    }
}
/// Logs a line; in a library without a host it goes nowhere.
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
        // SAFETY: the host's interned names are UTF-8 and never freed.
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(p, len)) }
    }
    /// The table, to hand on in kernel calls.
    pub fn table(self) -> HostTableRef {
        self.0
    }
    /// Every mapping of every enabled front-end plugin for a framework (`onnx`).
    pub fn mappings(self, framework: &str) -> Vec<MappingRef> {
        (self.0.mappings())(framework.as_ptr(), framework.len()).into_iter().collect()
    }
}

/// The host's side of interning: used by the loader to fill its table.
#[doc(hidden)]
pub mod host_side {
    use super::*;
    /// `HostTable::intern` of the process that owns the table. Callers of the table pass a text's
    /// parts.
    #[allow(
        clippy::not_unsafe_ptr_arg_deref,
        reason = "the table's field is a safe function that only this crate calls"
    )]
    pub extern "C" fn intern(name: *const u8, len: usize) -> u32 {
        // SAFETY: callers pass a `&str`'s parts.
        let s = unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(name, len)) };
        key::intern_local(s)
    }
    /// `HostTable::key_name`. Callers of the table pass a place for the length.
    #[allow(
        clippy::not_unsafe_ptr_arg_deref,
        reason = "the table's field is a safe function that only this crate calls"
    )]
    pub extern "C" fn key_name(key: u32, len: *mut usize) -> *const u8 {
        let s = key::name_local(key);
        // SAFETY: callers pass a place for the length.
        unsafe { *len = s.len() };
        s.as_ptr()
    }
}

/// An option's value as plugins.toml gives it.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct OptionValue {
    /// Key of the plugin's schema.
    pub key: RString,
    /// Checked value.
    pub value: crate::types::AttrValue,
}

open_code! {
    /// The type of a plugin's option.
    pub struct OptionKind: u8 {
        /// true or false.
        BOOL = 0 "boolean",
        /// A whole number within `min..=max`.
        INT = 1 "integer",
        /// One of `choices`.
        CHOICE = 2 "choice",
        /// Text.
        STRING = 3 "string",
        /// A real number.
        FLOAT = 4 "float",
    }
}

/// One option in a plugin's schema.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, StableAbi)]
pub struct OptionSpec {
    /// Name in `[plugin.options]`.
    pub key: RString,
    /// Type.
    pub kind: OptionKind,
    /// Least whole number.
    pub min: i64,
    /// Greatest whole number.
    pub max: i64,
    /// Choices of a `CHOICE`.
    pub choices: RVec<RString>,
    /// Value where none is given.
    pub default: crate::types::AttrValue,
    /// One line of help.
    pub help: RString,
}

impl OptionSpec {
    fn of(key: &str, kind: OptionKind, default: crate::types::AttrValue) -> OptionSpec {
        let (key, help) = (key.into(), RString::new());
        OptionSpec { key, kind, min: i64::MIN, max: i64::MAX, choices: RVec::new(), default, help }
    }
    /// An option that is true or false.
    pub fn bool(key: &str, default: bool) -> OptionSpec {
        OptionSpec::of(key, OptionKind::BOOL, default.into())
    }
    /// A whole number within a range.
    pub fn int(key: &str, default: i64, range: core::ops::RangeInclusive<i64>) -> OptionSpec {
        OptionSpec { min: *range.start(), max: *range.end(), ..OptionSpec::of(key, OptionKind::INT, default.into()) }
    }
    /// A real number.
    pub fn float(key: &str, default: f64) -> OptionSpec {
        OptionSpec::of(key, OptionKind::FLOAT, default.into())
    }
    /// A text.
    pub fn text(key: &str, default: &str) -> OptionSpec {
        OptionSpec::of(key, OptionKind::STRING, default.into())
    }
    /// One of several words, of which the first is the default.
    pub fn choice(key: &str, choices: &[&str]) -> OptionSpec {
        let default = choices.first().copied().unwrap_or_default().into();
        let choices = choices.iter().map(|c| (*c).into()).collect();
        OptionSpec { choices, ..OptionSpec::of(key, OptionKind::CHOICE, default) }
    }
    /// With one line of help.
    pub fn help(mut self, text: &str) -> OptionSpec {
        self.help = text.into();
        self
    }
}

/// The options that a plugin's `init` gets, by name: every option of its schema is there, given or
/// by its default.
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
    /// `internal`: the schema has no option of the name.
    fn value(&self, key: &str) -> Result<&crate::types::AttrValue>;
    /// A truth value.
    /// # Errors
    /// `internal`: the schema has no option of the name and kind.
    fn bool(&self, key: &str) -> Result<bool> {
        self.value(key)?.as_bool().ok_or_else(|| other_kind(key))
    }
    /// A whole number.
    /// # Errors
    /// As [`OptionList::bool`].
    fn int(&self, key: &str) -> Result<i64> {
        self.value(key)?.as_int().ok_or_else(|| other_kind(key))
    }
    /// A real number.
    /// # Errors
    /// As [`OptionList::bool`].
    fn float(&self, key: &str) -> Result<f64> {
        self.value(key)?.as_float().ok_or_else(|| other_kind(key))
    }
    /// A text, or a choice.
    /// # Errors
    /// As [`OptionList::bool`].
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
