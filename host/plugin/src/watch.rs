//! Tracks which plugins are running right now, by thread, so that whoever waits for them can name
//! plugin, engine, call and node.
//!
//! Every call of a handle is recorded here while it runs. This costs two uncontended locks and no
//! memory: texts are copied only when someone asks. Time is counted by `tick`, so that a call does
//! not have to read a clock.
pub(crate) use crate::crash::Call;
use crate::crash::within;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A call that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtWork {
    /// Name of the plugin.
    pub plugin: String,
    /// Engine, pass, framework or device; empty if the call belongs to none.
    pub part: String,
    /// Name of the call.
    pub call: String,
    /// Node and operator type, if the call is about a node.
    pub node: Option<(String, String)>,
    /// How long it has been running, as far as [`tick`] knows.
    pub time: Duration,
    /// Id that distinguishes this call from all others of the process.
    pub id: u64,
}

impl fmt::Display for AtWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.part.is_empty() { "" } else { "." };
        write!(f, "plugin `{}` in {}{dot}{}", self.plugin, self.part, self.call)?;
        match &self.node {
            Some((node, op)) if op.is_empty() => write!(f, " of `{node}`"),
            Some((node, op)) => write!(f, " of `{node}` ({op})"),
            None => Ok(()),
        }
    }
}

/// The texts of a call by address. They live as long as the call, which removes them before it
/// ends.
#[derive(Clone, Copy)]
struct Texts {
    texts: [(*const u8, usize); 5],
    since: u64,
    id: u64,
}
// SAFETY: the texts are only read, under the lock of the slot that holds them; see `Noted`.
unsafe impl Send for Texts {}

type Slot = Mutex<Option<Texts>>;

static SLOTS: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());
static NOW: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

fn locked<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The slot of one thread; it is registered while the thread lives.
struct Own {
    slot: Arc<Slot>,
    calls: u64,
}

impl Own {
    fn new() -> Own {
        let slot = Arc::new(Mutex::new(None));
        locked(&SLOTS).push(slot.clone());
        Own { slot, calls: CALLS.fetch_add(1 << 40, Ordering::Relaxed) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        locked(&SLOTS).retain(|s| !Arc::ptr_eq(s, &self.slot));
    }
}

thread_local! {
    static OWN: RefCell<Own> = RefCell::new(Own::new());
}

/// Restores the previous record, also when the call unwinds.
struct Noted {
    slot: Arc<Slot>,
    before: Option<Texts>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        // From here on nobody reads the texts of the finished call.
        *locked(&self.slot) = self.before;
    }
}

/// Runs a call into a plugin. The call is recorded while it runs, and a signal during it is blamed
/// on the plugin.
pub(crate) fn call<T>(at: &Call<'_>, f: impl FnOnce() -> T) -> T {
    let texts = [at.plugin, at.part, at.call, at.node, at.op].map(|t| (t.as_ptr(), t.len()));
    // A thread that is ending has no slot any more: its last calls are not shown.
    let noted = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        own.calls += 1;
        let now = Texts { texts, since: NOW.load(Ordering::Relaxed), id: own.calls };
        let before = locked(&own.slot).replace(now);
        Noted { slot: own.slot.clone(), before }
    });
    let r = within(at, false, f);
    drop(noted);
    r
}

/// Sets the current time; whoever shows progress calls this a few times per second.
pub fn tick(now: Duration) {
    NOW.store(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The running calls, the longest first. Of nested calls on one thread, only the innermost is
/// listed.
pub fn at_work() -> Vec<AtWork> {
    let slots = locked(&SLOTS).clone();
    let now = NOW.load(Ordering::Relaxed);
    let mut found: Vec<AtWork> = slots
        .iter()
        .filter_map(|slot| {
            let held = locked(slot);
            let t = (*held)?;
            let [plugin, part, call, node, op] = t.texts.map(|(at, len)| {
                // SAFETY: the call that owns these texts cannot end while its slot is locked.
                let bytes = unsafe { std::slice::from_raw_parts(at, len) };
                String::from_utf8_lossy(bytes).into_owned()
            });
            let node = if node.is_empty() { None } else { Some((node, op)) };
            let time = Duration::from_millis(now.saturating_sub(t.since));
            Some(AtWork { plugin, part, call, node, time, id: t.id })
        })
        .collect();
    found.sort_by(|a, b| b.time.cmp(&a.time).then(a.id.cmp(&b.id)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine() -> Vec<AtWork> {
        at_work().into_iter().filter(|a| a.plugin == "watched").collect()
    }

    #[test]
    fn a_call_is_seen_from_another_thread_while_it_lasts() {
        let (plugin, node) = ("watched".to_owned(), "conv1".to_owned());
        let at = Call { plugin: &plugin, part: "Engine", call: "variants", node: &node, op: "Conv2D" };
        let seen = call(&at, || std::thread::spawn(mine).join().unwrap());
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].to_string(), "plugin `watched` in Engine.variants of `conv1` (Conv2D)");
        let inner = Call { plugin: &plugin, call: "infer", ..Call::default() };
        let (within, behind) = call(&at, || (call(&inner, || mine()[0].to_string()), mine()[0].to_string()));
        assert_eq!(within, "plugin `watched` in infer");
        assert_eq!(behind, "plugin `watched` in Engine.variants of `conv1` (Conv2D)");
        let unwound = std::panic::catch_unwind(|| call(&at, || -> () { std::panic::resume_unwind(Box::new(1)) }));
        assert!(unwound.is_err() && mine().is_empty(), "a call that unwinds is over");
    }
}
