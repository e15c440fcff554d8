//! What the host does for plugins: interning, the one pool of threads, log, progress, cancellation,
//! mappings.
use ge_plugin_api::abi::{RVec, WithMetadata, guard_value};
use ge_plugin_api::frontend::{MappingInfo, MappingRef};
use ge_plugin_api::services::{HostTable, HostTableRef, Level, RangeFn, host_side};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
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
});

/// The table that plugins get.
pub fn table() -> HostTableRef {
    HostTableRef(TABLE.static_as_prefix())
}

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Asks everything to stop (the Ctrl-C handler), or takes it back.
pub fn set_cancelled(on: bool) {
    CANCELLED.store(on, Ordering::Relaxed);
}
/// Whether everything is asked to stop.
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

/// Where lines of plugins go; nowhere until it is set.
pub fn set_log_sink(sink: Option<LogSink>) {
    *LOG.write().unwrap_or_else(PoisonError::into_inner) = sink;
}
/// Work of the host itself within a stage: goes where progress of plugins goes.
pub fn report(done: u64, total: u64) {
    let sink = PROGRESS.read().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(sink) = sink {
        sink(done, total);
    }
}
/// Where progress of plugins goes (done, total).
pub fn set_progress_sink(sink: Option<ProgressSink>) {
    *PROGRESS.write().unwrap_or_else(PoisonError::into_inner) = sink;
}
/// A line of the host's own, which goes where lines of plugins go.
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
        // SAFETY: plugins pass the parts of a text that lives for the call.
        let bytes = unsafe { core::slice::from_raw_parts(text, len) };
        let sink = LOG.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sink) = sink {
            let text = String::from_utf8_lossy(bytes);
            // A line of a thread of the plugin's own says itself whose it is.
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

/// What [`set_jobs`] was told; 0 where it was not.
static JOBS: AtomicUsize = AtomicUsize::new(0);

/// The threads that the user asked for, if they did.
pub fn jobs() -> Option<usize> {
    Some(JOBS.load(Ordering::Relaxed)).filter(|n| *n > 0)
}

/// Makes the process's pool of `jobs` threads; before anything runs in parallel. False if the pool
/// exists already.
pub fn set_jobs(jobs: usize) -> bool {
    JOBS.store(jobs.max(1), Ordering::Relaxed);
    rayon::ThreadPoolBuilder::new().num_threads(jobs.max(1)).thread_name(|i| format!("ge-{i}")).build_global().is_ok()
}

thread_local! {
    /// Whether this thread runs a part of a parallel loop: loops within it run inline.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Parts for each thread: enough to even out, few enough to cost nothing.
const PARTS_PER_THREAD: usize = 4;

struct Loop {
    n: usize,
    step: usize,
    next: AtomicUsize,
    rc: AtomicI32,
    f: RangeFn,
    context: *mut c_void,
}
// SAFETY: `f` may be called from several threads at a time with `context` (contract of
// HostTable::parallel_for), and the loop does not outlive the call.
unsafe impl Sync for Loop {}

/// Return code of a loop that stopped because everything is asked to stop.
const STOPPED: i32 = 130;

impl Loop {
    /// Takes parts until none is left or one failed.
    fn work(&self) {
        let outer = INSIDE.replace(true);
        while self.rc.load(Ordering::Relaxed) == 0 {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(begin) = part.checked_mul(self.step).filter(|b| *b < self.n) else { break };
            if is_cancelled() {
                self.rc.store(STOPPED, Ordering::Relaxed);
                break;
            }
            // SAFETY: the caller's function with the caller's context, alive until `parallel_for`
            // returns.
            let rc = unsafe { (self.f.0)(self.context, begin, self.n.min(begin.saturating_add(self.step))) };
            if rc != 0 {
                self.rc.store(rc, Ordering::Relaxed);
            }
        }
        INSIDE.set(outer);
    }
}

/// `HostTable::parallel_for`: the caller takes part; a loop within a loop, and one of a single part, runs on the caller alone. The ranges depend on `n`,
/// `grain` and the number of threads alone.
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

/// The mappings that imports of one registry see.
pub(crate) type Mappings = Arc<Vec<(MappingInfo, MappingRef)>>;

thread_local! {
    static SCOPE: RefCell<Option<Mappings>> = const { RefCell::new(None) };
}
static LATEST: RwLock<Option<Mappings>> = RwLock::new(None);

/// What a thread that is in no import sees: the mappings of the registry made last.
pub(crate) fn set_latest_mappings(m: Mappings) {
    *LATEST.write().unwrap_or_else(PoisonError::into_inner) = Some(m);
}
/// Runs a call into a front end: `host.mappings` gives this registry's.
pub(crate) fn with_mappings<T>(m: &Mappings, f: impl FnOnce() -> T) -> T {
    let before = SCOPE.replace(Some(m.clone()));
    let r = f();
    SCOPE.set(before);
    r
}
extern "C" fn mappings(framework: *const u8, len: usize) -> RVec<MappingRef> {
    guard_value(RVec::new(), || {
        // SAFETY: plugins pass the parts of a text that lives for the call.
        let name = if len == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(framework, len) } };
        let all =
            SCOPE.with_borrow(Clone::clone).or_else(|| LATEST.read().unwrap_or_else(PoisonError::into_inner).clone());
        all.map_or_else(RVec::new, |all| {
            all.iter().filter(|(i, _)| i.framework.as_bytes() == name).map(|(_, m)| *m).collect()
        })
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
