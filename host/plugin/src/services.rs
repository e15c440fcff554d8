//! Services of the host for plugins: interning, the shared thread pool, log, progress,
//! cancellation, mappings, inference.
use ge_plugin_api::abi::{ROption, RVec, WithMetadata, guard_value};
use ge_plugin_api::frontend::{MappingInfo, MappingRef};
use ge_plugin_api::services::{HostTable, HostTableRef, Level, RangeFn, host_side};
use ge_plugin_api::types::TensorDesc;
use ge_plugin_api::view::{Node, RawNodeRef};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

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

/// The function table that plugins receive.
pub fn table() -> HostTableRef {
    HostTableRef(TABLE.static_as_prefix())
}

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Requests cancellation of everything (the Ctrl-C handler), or withdraws the request.
pub fn set_cancelled(on: bool) {
    CANCELLED.store(on, Ordering::Relaxed);
}
/// Whether cancellation was requested.
pub fn is_cancelled() -> bool {
    CANCELLED.load(Ordering::Relaxed)
}
extern "C" fn cancelled() -> bool {
    is_cancelled()
}

type LogSink = Arc<dyn Fn(Level, &str) + Send + Sync>;
type ProgressSink = Arc<dyn Fn(u64, u64) + Send + Sync>;
static LOG: RwLock<Option<LogSink>> = RwLock::new(None);
static PROGRESS: RwLock<Option<ProgressSink>> = RwLock::new(None);

/// Sets where log lines of plugins go. Until then they are dropped.
pub fn set_log_sink(sink: Option<LogSink>) {
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = sink;
}
/// Reports progress of the host itself within a stage, to the same sink as plugins' progress.
pub fn report(done: u64, total: u64) {
    let sink = PROGRESS.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(sink) = sink {
        sink(done, total);
    }
}
/// Sets where progress reports (done, total) go.
pub fn set_progress_sink(sink: Option<ProgressSink>) {
    *PROGRESS.write().unwrap_or_else(PoisonError::into_inner) = sink;
}
/// Logs a line of the host itself, to the same sink as plugins' lines.
pub(crate) fn say(level: Level, text: &str) {
    let sink = LOG.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(sink) = sink {
        sink(level, text);
    }
}
extern "C" fn log(level: Level, text: *const u8, len: usize) {
    guard_value((), || {
        if len == 0 || text.is_null() {
            return;
        }
        // SAFETY: plugins pass the pointer and length of a text that lives for the call.
        let bytes = unsafe { core::slice::from_raw_parts(text, len) };
        let sink = LOG.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sink) = sink {
            let text = String::from_utf8_lossy(bytes);
            // On the plugin's own threads the plugin is not known; such lines must name it
            // themselves.
            match crate::crash::at_work_here() {
                Some(plugin) => sink(level, &format!("plugin `{plugin}`: {text}")),
                None => sink(level, &text),
            }
        }
    })
}
extern "C" fn progress(done: u64, total: u64) {
    guard_value((), || report(done, total))
}

/// Value given to [`set_jobs`]; 0 if it was not called.
static JOBS: AtomicUsize = AtomicUsize::new(0);

/// Number of threads that the user requested; `None` if not requested.
pub fn jobs() -> Option<usize> {
    Some(JOBS.load(Ordering::Relaxed)).filter(|n| *n > 0)
}

/// Creates the thread pool of the process with `jobs` threads. Call it before anything runs in
/// parallel. Returns `false` if the pool exists already.
pub fn set_jobs(jobs: usize) -> bool {
    JOBS.store(jobs.max(1), Ordering::Relaxed);
    rayon::ThreadPoolBuilder::new().num_threads(jobs.max(1)).thread_name(|i| format!("ge-{i}")).build_global().is_ok()
}

thread_local! {
    /// Whether this thread is running part of a parallel loop; nested loops then run inline.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Parts per thread: enough to balance the load, few enough to cost nothing.
const PARTS_PER_THREAD: usize = 4;

struct Loop {
    n: usize,
    step: usize,
    next: AtomicUsize,
    rc: AtomicI32,
    f: RangeFn,
    context: *mut c_void,
}
// SAFETY: `f` may be called from several threads at once with `context` (contract of
// HostTable::parallel_for), and the loop does not outlive the call.
unsafe impl Sync for Loop {}

/// Return code of a loop that was stopped by cancellation.
const STOPPED: i32 = 130;

impl Loop {
    /// Takes parts until none is left or one has failed.
    fn work(&self) {
        let outer = INSIDE.replace(true);
        while self.rc.load(Ordering::Relaxed) == 0 {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(begin) = part.checked_mul(self.step).filter(|b| *b < self.n) else { break };
            if is_cancelled() {
                self.rc.store(STOPPED, Ordering::Relaxed);
                break;
            }
            // SAFETY: the caller's function with the caller's context, which lives until
            // `parallel_for` returns.
            let rc = unsafe { (self.f.0)(self.context, begin, self.n.min(begin.saturating_add(self.step))) };
            if rc != 0 {
                self.rc.store(rc, Ordering::Relaxed);
            }
        }
        INSIDE.set(outer);
    }
}

/// `HostTable::parallel_for`. The caller's thread takes part; a nested loop, and a loop with a
/// single part, runs on the caller alone. The ranges depend only on `n`, `grain` and the number of
/// threads.
extern "C" fn parallel_for(n: usize, grain: usize, f: RangeFn, context: *mut c_void) -> i32 {
    guard_value(-1, || {
        if n == 0 {
            return 0;
        }
        let threads = if INSIDE.get() { 1 } else { rayon::current_num_threads() };
        let inline = threads <= 1 || n <= grain.max(1);
        let parts = if inline { 1 } else { threads.saturating_mul(PARTS_PER_THREAD) };
        let step = n.div_ceil(parts).max(grain.max(1)).min(n);
        let l = Loop { n, step, next: AtomicUsize::new(0), rc: AtomicI32::new(0), f, context };
        let parts = n.div_ceil(step);
        if inline || parts == 1 {
            l.work();
        } else {
            let (l, blame) = (&l, crate::crash::blame());
            rayon::in_place_scope(|s| {
                for _ in 1..threads.min(parts) {
                    s.spawn(move |_| blame.share(|| l.work()));
                }
                l.work();
            });
        }
        l.rc.load(Ordering::Relaxed)
    })
}

/// Infers the outputs of a node; `None` if that is not possible.
type Infer = dyn Fn(&Node<'_>) -> Option<Vec<TensorDesc>> + Send + Sync;

/// What the plugins of one registry offer to its imports.
#[derive(Default)]
pub(crate) struct Offer {
    /// The mappings of all frameworks.
    pub(crate) mappings: Vec<(MappingInfo, MappingRef)>,
    /// Inference by the prototypes of all operators.
    pub(crate) infer: Option<Box<Infer>>,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} mappings", self.mappings.len())
    }
}

thread_local! {
    static SCOPE: RefCell<Option<Arc<Offer>>> = const { RefCell::new(None) };
}
static LATEST: RwLock<Option<Arc<Offer>>> = RwLock::new(None);

/// Sets the offer that threads outside an import see: that of the newest registry.
pub(crate) fn set_latest_offer(offer: Arc<Offer>) {
    *LATEST.write().unwrap_or_else(PoisonError::into_inner) = Some(offer);
}
/// Runs a call into a front end; during it, `host.mappings` and `host.infer` use this offer.
pub(crate) fn with_offer<T>(offer: &Arc<Offer>, f: impl FnOnce() -> T) -> T {
    let before = SCOPE.replace(Some(offer.clone()));
    let r = f();
    SCOPE.set(before);
    r
}
/// The offer that a call of a service uses.
fn offer() -> Option<Arc<Offer>> {
    SCOPE.with_borrow(Clone::clone).or_else(|| LATEST.read().unwrap_or_else(PoisonError::into_inner).clone())
}
extern "C" fn mappings(framework: *const u8, len: usize) -> RVec<MappingRef> {
    guard_value(RVec::new(), || {
        // SAFETY: plugins pass the pointer and length of a text that lives for the call.
        let name = if len == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(framework, len) } };
        offer().map_or_else(RVec::new, |o| {
            o.mappings.iter().filter(|(i, _)| i.framework.as_bytes() == name).map(|(_, m)| *m).collect()
        })
    })
}
unsafe extern "C" fn infer(node: RawNodeRef) -> ROption<RVec<TensorDesc>> {
    guard_value(ROption::RNone, || {
        // SAFETY: plugins pass a node of a graph that lives for the call.
        let node = unsafe { node.get() };
        offer().and_then(|o| o.infer.as_ref()?(&node)).map(RVec::from).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct Seen(Mutex<Vec<(usize, usize)>>, AtomicUsize);
    unsafe extern "C" fn note(ctx: *mut c_void, b: usize, e: usize) -> i32 {
        // SAFETY: the tests below pass a `Seen` that lives for the call.
        let s = unsafe { &*(ctx as *const Seen) };
        s.0.lock().unwrap().push((b, e));
        0
    }
    unsafe extern "C" fn nested(ctx: *mut c_void, b: usize, e: usize) -> i32 {
        let me = std::thread::current().id();
        unsafe extern "C" fn inner(ctx: *mut c_void, _: usize, _: usize) -> i32 {
            // SAFETY: the thread id below lives for the call.
            i32::from(unsafe { *(ctx as *const std::thread::ThreadId) } != std::thread::current().id())
        }
        // SAFETY: as in `note`.
        let s = unsafe { &*(ctx as *const Seen) };
        s.1.fetch_add(e - b, Ordering::Relaxed);
        parallel_for(1000, 1, RangeFn(inner), &me as *const _ as *mut c_void)
    }
    unsafe extern "C" fn fails(_: *mut c_void, b: usize, _: usize) -> i32 {
        if b > 0 { 3 } else { 0 }
    }

    #[test]
    fn ranges_cover_everything_once_and_are_no_smaller_than_the_grain() {
        for (n, grain) in
            [(0, 1), (1, 1), (7, 3), (1000, 1), (1000, 64), (65, 64), (10, 100), (usize::MAX / 3, usize::MAX / 5)]
        {
            let s = Seen(Mutex::default(), AtomicUsize::new(0));
            assert_eq!(parallel_for(n, grain, RangeFn(note), &s as *const _ as *mut c_void), 0);
            let mut r = s.0.into_inner().unwrap();
            r.sort_unstable();
            let mut at = 0;
            for (i, (b, e)) in r.iter().enumerate() {
                assert_eq!(*b, at, "{n} {grain}");
                assert!(e - b >= grain || i + 1 == r.len());
                at = *e;
            }
            assert_eq!(at, n);
        }
    }
    #[test]
    fn loops_within_loops_stay_on_their_thread_and_errors_come_back() {
        let s = Seen(Mutex::default(), AtomicUsize::new(0));
        assert_eq!(parallel_for(500, 1, RangeFn(nested), &s as *const _ as *mut c_void), 0);
        assert_eq!(s.1.into_inner(), 500);
        assert_eq!(parallel_for(500, 1, RangeFn(fails), std::ptr::null_mut()), 3);
        assert!(!INSIDE.get());
    }
}
