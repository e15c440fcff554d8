//! Handles plugins that crash the process by a signal: prints a message that names plugin and call,
//! and exits with code 5. While plugins are being loaded, `ge` instead starts again without the
//! culprit, so that a crash of an optional plugin is only a warning.
//!
//! A plugin that calls `exit` is treated in the same way, and so is a layout table that is so
//! damaged that abi_stable's check ends the process.
//!
//! Only the binary arms this (`arm`); programs that use the crate keep their own signal handling.
use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Environment variable with the plugins that crashed an earlier start of this command, and their
/// signals: `name=SIGSEGV,…`.
const VARIABLE: &str = "GE_CRASHED_PLUGINS";
/// Exit code for a failed plugin.
const EXIT: c_int = 5;

/// A call into a plugin, as the host names it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Call<'a> {
    pub(crate) plugin: &'a str,
    /// Engine, pass, framework or device; may be empty.
    pub(crate) part: &'a str,
    pub(crate) call: &'a str,
    /// Node and operator type; both may be empty.
    pub(crate) node: &'a str,
    pub(crate) op: &'a str,
}

/// What a thread is doing for which plugin; on the stack of `within`.
struct Region {
    /// Address and length of plugin, part, call, node and operator type, as in `Call`.
    texts: [(*const u8, usize); 5],
    /// Whether plugins are being loaded; starting again then loses nothing.
    loading: bool,
}

impl Region {
    /// Text `k` of the region.
    ///
    /// # Safety
    /// The call that the region belongs to must not have ended.
    unsafe fn text<'a>(&self, k: usize) -> &'a [u8] {
        let (at, len) = self.texts[k];
        // SAFETY: by contract.
        unsafe { std::slice::from_raw_parts(at, len) }
    }
}

thread_local! {
    static CURRENT: Cell<*const Region> = const { Cell::new(std::ptr::null()) };
}

/// Runs a call into a plugin; a signal during the call is blamed on the plugin.
pub(crate) fn within<T>(at: &Call<'_>, loading: bool, f: impl FnOnce() -> T) -> T {
    crate::alternate::provide();
    let texts = [at.plugin, at.part, at.call, at.node, at.op].map(|t| (t.as_ptr(), t.len()));
    let region = Region { texts, loading };
    let at: *const Region = &region;
    let slots: &[_] = if loading { &LOADING } else { &[] };
    let slot = slots
        .iter()
        .find(|s| s.compare_exchange(std::ptr::null_mut(), at.cast_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok());
    let before = CURRENT.replace(at);
    let r = f();
    CURRENT.set(before);
    if let Some(s) = slot {
        s.store(std::ptr::null_mut(), Ordering::Release);
    }
    r
}

/// The plugin that this thread is working for.
pub(crate) fn at_work_here() -> Option<String> {
    let region = CURRENT.try_with(Cell::get).unwrap_or(std::ptr::null());
    if region.is_null() {
        return None;
    }
    // SAFETY: `region` is on the stack of this thread or of a thread that waits for it, in a frame
    // of `within`, and its texts outlive it.
    let name = unsafe { (*region).text(0) };
    Some(String::from_utf8_lossy(name).into_owned())
}

/// What the current thread does for a plugin, to be passed to helper threads.
#[derive(Clone, Copy)]
pub(crate) struct Blame(*const Region);
// SAFETY: the region is on the stack of the thread that waits for the helpers, and is only read.
unsafe impl Sync for Blame {}
// SAFETY: as above.
unsafe impl Send for Blame {}

/// What the current thread does for a plugin.
pub(crate) fn blame() -> Blame {
    Blame(CURRENT.get())
}
impl Blame {
    /// Takes part in the work; `f` must end before the thread that gave the blame continues.
    pub(crate) fn share<T>(self, f: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(self.0);
        let r = f();
        CURRENT.set(before);
        r
    }
}

/// What a second start needs. It is prepared before the first plugin is opened, because a signal
/// handler must not allocate and its stack is small. Everything here lives forever.
struct Restart {
    exe: *const c_char,
    /// Ends with a null pointer.
    arguments: *const *const c_char,
    /// Ends with `variable` and a null pointer.
    environment: *const *const c_char,
    /// Buffer for the text of the variable, written by the first thread that gets here.
    variable: *mut u8,
    taken: AtomicBool,
    crashed: String,
}
// SAFETY: the pointers refer to memory that lives forever and is never written, except `variable`,
// which `taken` guards.
unsafe impl Sync for Restart {}
// SAFETY: as above.
unsafe impl Send for Restart {}

struct Armed(Option<Restart>);
static ARMED: OnceLock<Armed> = OnceLock::new();

const SIGNALS: [(c_int, &str); 9] = [
    (libc::SIGPROF, "an endless loop"),
    (libc::SIGALRM, "an endless wait"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGSYS, "SIGSYS"),
];

/// Limits of CPU time and wall-clock time for loading all plugins, in seconds; it normally takes
/// milliseconds.
const LOADING_CPU_S: libc::time_t = 5;
const LOADING_WALL_S: libc::time_t = 30;

/// Regions of the plugins that are being loaded, for a timer that fires on another thread.
static LOADING: [AtomicPtr<Region>; 16] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 16];

fn timers(cpu: libc::time_t, wall: libc::time_t) {
    for (which, seconds) in [(libc::ITIMER_PROF, cpu), (libc::ITIMER_REAL, wall)] {
        let value = libc::itimerval {
            it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
            it_value: libc::timeval { tv_sec: seconds, tv_usec: 0 },
        };
        // SAFETY: a plain system call with a value that lives as long as the call.
        unsafe { libc::setitimer(which, &value, std::ptr::null_mut()) };
    }
}

/// While this exists, a plugin that loads forever is treated like one that crashes (if the handlers
/// are armed).
pub(crate) struct Watch(bool);
impl Watch {
    pub(crate) fn start() -> Watch {
        let armed = ARMED.get().is_some();
        if armed {
            timers(LOADING_CPU_S, LOADING_WALL_S);
        }
        Watch(armed)
    }
}
impl Drop for Watch {
    fn drop(&mut self) {
        if self.0 {
            timers(0, 0);
        }
    }
}

/// Name of a signal.
pub fn signal_name(signal: c_int) -> String {
    SIGNALS.iter().find(|s| s.0 == signal).map_or_else(
        || match signal {
            libc::SIGKILL => "SIGKILL".into(),
            n => format!("signal {n}"),
        },
        |s| s.1.to_owned(),
    )
}

/// Plugins that crashed an earlier start of this command: name and signal.
pub(crate) fn crashed() -> Vec<(String, String)> {
    if ARMED.get().is_none() {
        return Vec::new();
    }
    std::env::var(VARIABLE)
        .unwrap_or_default()
        .split(',')
        .filter_map(|p| p.split_once('='))
        .map(|(n, s)| (n.to_owned(), s.to_owned()))
        .collect()
}

/// A table of C strings that live forever.
fn table(texts: Vec<CString>) -> Vec<*const c_char> {
    texts.into_iter().map(|t| t.into_raw() as *const c_char).collect()
}

fn prepare() -> Option<Restart> {
    let text = |s: &std::ffi::OsStr| CString::new(s.as_bytes()).ok();
    let mut environment = Vec::new();
    for (mut k, v) in std::env::vars_os().filter(|(k, _)| k != VARIABLE) {
        k.push("=");
        k.push(v);
        environment.push(text(&k)?);
    }
    let exe = text(std::env::current_exe().ok()?.as_os_str())?;
    let arguments = std::env::args_os().map(|a| text(&a)).collect::<Option<Vec<_>>>()?;
    let variable = Box::leak(vec![0u8; ROOM].into_boxed_slice()).as_mut_ptr();
    let mut arguments = table(arguments);
    arguments.push(std::ptr::null());
    let mut environment = table(environment);
    environment.extend([variable as *const c_char, std::ptr::null()]);
    Some(Restart {
        exe: exe.into_raw(),
        arguments: arguments.leak().as_ptr(),
        environment: environment.leak().as_ptr(),
        variable,
        taken: AtomicBool::new(false),
        crashed: std::env::var(VARIABLE).unwrap_or_default(),
    })
}

/// Arms the handlers. The binary calls this first in `main`, before it starts any thread.
pub fn arm() {
    if ARMED.set(Armed(prepare())).is_err() {
        return;
    }
    // SAFETY: the function only uses state of this thread and memory that lives forever.
    unsafe { libc::atexit(at_exit) };
    // A write that exceeds the file size limit should fail with the file's name instead of ending
    // the process. SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    for (signal, _) in SIGNALS {
        // SAFETY: the action is fully initialised; the handler only calls functions that are safe
        // in signal handlers. It runs on the stack that `alternate` provides.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &action, &mut before);
        }
    }
}

/// Maximum length of the variable's text.
const ROOM: usize = 4096;

extern "C" fn handler(signal: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let mut region = CURRENT.try_with(Cell::get).unwrap_or(std::ptr::null());
    let timer = signal == libc::SIGPROF || signal == libc::SIGALRM;
    if timer {
        // The plugin that is still loading is the one that blocks.
        region = LOADING
            .iter()
            .map(|s| s.load(Ordering::Acquire).cast_const())
            .find(|p| !p.is_null())
            .unwrap_or(std::ptr::null());
        if region.is_null() {
            return;
        }
    }
    let name = SIGNALS.iter().find(|s| s.0 == signal).map_or("signal", |s| s.1);
    // SAFETY: only functions that are safe in signal handlers are called, and nothing is allocated.
    // `region` is on the stack of this thread, in a frame of `within`, and its texts outlive it.
    unsafe {
        if region.is_null() {
            // No plugin is involved: do what would have happened without this handler.
            libc::signal(signal, libc::SIG_DFL);
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
            libc::raise(signal);
            return;
        }
        blame_and_exit(region, name.as_bytes());
    }
}

/// The process ends by `exit` while this thread is in a plugin: only the plugin can have called it.
extern "C" fn at_exit() {
    let region = CURRENT.try_with(Cell::get).unwrap_or(std::ptr::null());
    if !region.is_null() {
        // SAFETY: `region` is on the stack of this thread, in a frame of `within`.
        unsafe { blame_and_exit(region, b"exit") };
    }
}

/// Reports the culprit and ends the process; while plugins are being loaded, starts it again
/// instead.
///
/// # Safety
/// `region` must be on this thread's stack and its texts must outlive it. Safe in a signal handler:
/// nothing is allocated.
unsafe fn blame_and_exit(region: *const Region, name: &[u8]) -> ! {
    // SAFETY: by contract.
    unsafe {
        let [plugin, part, call, node, op] = [0, 1, 2, 3, 4].map(|k| (*region).text(k));
        let between = |a: &'static [u8], text: &[u8]| if text.is_empty() { b"".as_slice() } else { a };
        if let (true, Some(Armed(Some(r)))) = ((*region).loading, ARMED.get()) {
            restart(r, plugin, name);
        }
        for part in [
            b"error[GE-E0518]: plugin `".as_slice(),
            plugin,
            b"` took the process down (",
            name,
            b") in ",
            part,
            between(b".", part),
            call,
            between(b" of `", node),
            node,
            between(b"`", node),
            between(b" (", op),
            op,
            between(b")", op),
            b"\n  help: report it to the plugin's maker; `enabled = false` in plugins.toml leaves the plugin out\n",
        ] {
            libc::write(2, part.as_ptr().cast(), part.len());
        }
        libc::_exit(EXIT);
    }
}
/// Starts the same command again with the culprit in the environment. Returns only if that fails.
///
/// # Safety
/// Safe in a signal handler: it neither allocates nor locks.
unsafe fn restart(r: &Restart, plugin: &[u8], signal: &[u8]) {
    if r.taken.swap(true, Ordering::Relaxed) {
        // Another thread is already restarting; this one must not end the process meanwhile.
        loop {
            // SAFETY: as the function.
            unsafe { libc::pause() };
        }
    }
    let comma: &[u8] = if r.crashed.is_empty() { b"" } else { b"," };
    let mut at = 0;
    for part in [VARIABLE.as_bytes(), b"=", r.crashed.as_bytes(), comma, plugin, b"=", signal, b"\0"] {
        if at + part.len() > ROOM {
            return;
        }
        // SAFETY: the buffer has ROOM bytes, and only this thread writes to it.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), r.variable.add(at), part.len()) };
        at += part.len();
    }
    // SAFETY: both tables end with a null pointer, and all texts with a zero byte. No signal stays
    // blocked in the new start.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        timers(0, 0);
        crate::stdio::give_back();
        libc::execve(r.exe, r.arguments, r.environment);
    }
}
