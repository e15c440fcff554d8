//! A host without engines: it offers its services to the library and keeps what it was told for the
//! test.
use crate::abi::{ROption, RVec, WithMetadata};
use crate::frontend::MappingRef;
use crate::services::{HostTable, HostTableRef, Level, RangeFn, host_side, set_host};
use crate::types::TensorDesc;
use crate::view::RawNodeRef;
use core::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The host of all tests in this process. There is only one, so tests that look at the same state
/// must run one after the other, or look only at what is theirs.
pub struct MockHost {
    logs: Mutex<Vec<(Level, String)>>,
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

static HOST: MockHost = MockHost {
    logs: Mutex::new(Vec::new()),
    done: AtomicU64::new(0),
    total: AtomicU64::new(0),
    cancelled: AtomicBool::new(false),
};

static TABLE: &WithMetadata<HostTable> = &WithMetadata::new(HostTable {
    intern: host_side::intern,
    key_name: host_side::key_name,
    parallel_for,
    log,
    cancelled,
    progress,
    mappings,
    infer,
});

/// Connects this library's services to the test host, which stays for the life of the process.
///
/// # Examples
/// ```
/// use ge_plugin_api::services::{Level, cancelled, log};
/// use ge_plugin_api::testing::mock_host;
///
/// let host = mock_host();
/// log(Level::INFO, "hello");
/// assert_eq!(host.take_logs(), [(Level::INFO, "hello".to_owned())]);
/// host.cancel(true);
/// assert!(cancelled());
/// host.cancel(false);
/// ```
pub fn mock_host() -> &'static MockHost {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_host(HostTableRef(TABLE.static_as_prefix())));
    &HOST
}

impl MockHost {
    /// Returns the lines that were logged since the last call.
    pub fn take_logs(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.logs.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// The last reported progress: work done, and total work.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::SeqCst), self.total.load(Ordering::SeqCst))
    }
    /// Sets whether the user has asked to stop.
    pub fn cancel(&self, yes: bool) {
        self.cancelled.store(yes, Ordering::SeqCst);
    }
}

/// Runs all parts, the last one first, so that a dependence on their order shows.
extern "C" fn parallel_for(n: usize, grain: usize, f: RangeFn, context: *mut c_void) -> i32 {
    let grain = grain.max(1);
    for part in (0..n.div_ceil(grain)).rev() {
        if HOST.cancelled.load(Ordering::SeqCst) {
            return -1;
        }
        // SAFETY: function and context belong together (contract of the service), and the ranges
        // are within 0..n.
        let code = unsafe { (f.0)(context, part * grain, ((part + 1) * grain).min(n)) };
        if code != 0 {
            return code;
        }
    }
    0
}
extern "C" fn log(level: Level, text: *const u8, len: usize) {
    // SAFETY: callers pass the pointer and length of a `&str`.
    let text = unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(text, len)) };
    HOST.logs.lock().unwrap_or_else(PoisonError::into_inner).push((level, text.to_owned()));
}
extern "C" fn cancelled() -> bool {
    HOST.cancelled.load(Ordering::SeqCst)
}
extern "C" fn progress(done: u64, total: u64) {
    HOST.done.store(done, Ordering::SeqCst);
    HOST.total.store(total, Ordering::SeqCst);
}
extern "C" fn mappings(_: *const u8, _: usize) -> RVec<MappingRef> {
    RVec::new()
}
unsafe extern "C" fn infer(_: RawNodeRef) -> ROption<RVec<TensorDesc>> {
    ROption::RNone
}
