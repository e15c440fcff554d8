//! Streams for the runs of one executor (`gert::StreamAllocator`, 004 §4.7): a list of at most
//! 2,024. A run that needs more streams than are idle creates the missing ones, in order; later
//! runs reuse them. No stream is destroyed before the executor is.
//!
//! Concurrent runs have different streams. If no more can be created, a run waits until another run
//! gives its streams back.
use crate::error::RuntimeError;
use crate::stream_pool::{MAX_STREAMS, ModelId, StreamHandle, StreamPool, StreamWish};
use ge_plugin::services::is_cancelled;
use ge_plugin_api::Error;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a run waits for streams before it checks whether the user has cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// A stream in the list.
#[derive(Debug)]
struct Stream {
    handle: StreamHandle,
    /// Priority and flag.
    kind: (u32, u32),
    /// Whether a run holds it.
    taken: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Id of the executor in the pool, once it has a stream.
    executor: Option<ModelId>,
    streams: Vec<Stream>,
}

/// The streams of one executor. `Send + Sync`.
#[derive(Debug)]
pub struct StreamAllocator {
    pool: Arc<StreamPool>,
    device: u64,
    most: usize,
    state: Mutex<State>,
    /// A stream that was given back by the last run that needed just one. It still counts as taken
    /// in the list, so that the next such run takes it without a lock. 0 if there is none.
    at_hand: AtomicU64,
    /// Number of runs that wait for another run to give its streams back.
    waiting: AtomicUsize,
    given: Condvar,
}

/// Streams of one run, given back when they are dropped.
#[derive(Debug)]
pub struct AcquiredStreams<'a> {
    of: &'a StreamAllocator,
    at: Places,
}

/// Positions in the list of streams.
#[derive(Debug)]
enum Places {
    /// One position, stored without an allocation, and its kind.
    One(usize, (u32, u32)),
    Many(Vec<usize>),
}

impl Places {
    fn all(&self) -> &[usize] {
        match self {
            Places::One(k, _) => std::slice::from_ref(k),
            Places::Many(all) => all,
        }
    }
}

impl AcquiredStreams<'_> {
    /// The streams, in the order of the requests.
    pub fn handles(&self) -> Vec<StreamHandle> {
        let state = self.of.lock();
        self.at.all().iter().map(|k| state.streams[*k].handle).collect()
    }
}

impl Drop for AcquiredStreams<'_> {
    fn drop(&mut self) {
        if let Places::One(at, kind) = self.at {
            if self.of.keep_at_hand(at, kind) {
                return;
            }
        }
        let mut state = self.of.lock();
        self.at.all().iter().for_each(|k| state.streams[*k].taken = false);
        // Notifying is a system call even if nobody waits.
        if self.of.waiting.load(Ordering::SeqCst) > 0 {
            self.of.given.notify_all();
        }
    }
}

/// Encodes the stream at hand as one number; 0 means none.
fn packed(at: usize, (priority, flag): (u32, u32)) -> Option<u64> {
    let at = u16::try_from(at + 1).ok()?;
    Some(u64::from(priority) << 32 | u64::from(u16::try_from(flag).ok()?) << 16 | u64::from(at))
}
fn unpacked(at_hand: u64) -> Option<(usize, (u32, u32))> {
    let at = usize::try_from(at_hand & 0xffff).ok()?.checked_sub(1)?;
    Some((at, ((at_hand >> 32) as u32, (at_hand >> 16 & 0xffff) as u32)))
}

impl StreamAllocator {
    /// An allocator without streams, on a device with `most` streams for all models (0: no limit).
    pub fn new(pool: Arc<StreamPool>, device: u64, most: usize) -> StreamAllocator {
        StreamAllocator {
            pool,
            device,
            most,
            state: Mutex::default(),
            at_hand: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            given: Condvar::new(),
        }
    }

    /// Streams for a run: for each request the first idle stream of its kind, or a new one.
    ///
    /// # Errors
    /// Fails if the run needs more than [`MAX_STREAMS`] streams or more than the device has left
    /// and no other run holds streams to wait for. Returns `Cancelled` if the user cancels
    /// meanwhile.
    pub fn acquire_streams(&self, wishes: &[StreamWish]) -> Result<AcquiredStreams<'_>, RuntimeError> {
        self.acquire(wishes, is_cancelled)
    }

    /// Does the same; `stop` tells whether the user has cancelled.
    fn acquire(&self, wishes: &[StreamWish], stop: impl Fn() -> bool) -> Result<AcquiredStreams<'_>, RuntimeError> {
        if wishes.len() > MAX_STREAMS {
            return Err(RuntimeError::TooManyStreams { found: wishes.len(), most: MAX_STREAMS });
        }
        let mut found = self.at_hand.swap(0, Ordering::SeqCst);
        if let (&[w], Some((at, kind))) = (wishes, unpacked(found)) {
            if kind == (w.priority, w.flag) {
                return Ok(AcquiredStreams { of: self, at: Places::One(at, kind) });
            }
        }
        let mut state = self.lock();
        let mut waits = false;
        let done = |waits: bool| {
            self.waiting.fetch_sub(usize::from(waits), Ordering::SeqCst);
        };
        loop {
            if let Some((at, _)) = unpacked(std::mem::take(&mut found)) {
                state.streams[at].taken = false;
            }
            match self.take(&mut state, wishes) {
                Ok(at) => {
                    done(waits);
                    return Ok(AcquiredStreams { of: self, at });
                }
                Err(e) if !state.streams.iter().any(|s| s.taken) => {
                    done(waits);
                    return Err(e);
                }
                Err(_) => {}
            }
            if stop() {
                done(waits);
                return Err(Error::cancelled().into());
            }
            // While `waiting` is set, nobody keeps a stream at hand; take one that was kept before
            // that.
            if !std::mem::replace(&mut waits, true) {
                self.waiting.fetch_add(1, Ordering::SeqCst);
            }
            found = self.at_hand.swap(0, Ordering::SeqCst);
            if found == 0 {
                state = self.given.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
                found = self.at_hand.swap(0, Ordering::SeqCst);
            }
        }
    }

    /// Keeps a stream at hand for the next run, unless one is there already or a run waits.
    fn keep_at_hand(&self, at: usize, kind: (u32, u32)) -> bool {
        let Some(one) = packed(at, kind) else { return false };
        if self.at_hand.compare_exchange(0, one, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return false;
        }
        // A run that began to wait since then did not see this stream, so it must be notified
        // (`false`), unless another run has taken the stream meanwhile.
        self.waiting.load(Ordering::SeqCst) == 0
            || self.at_hand.compare_exchange(one, 0, Ordering::SeqCst, Ordering::SeqCst).is_err()
    }

    /// Number of streams created so far.
    pub fn len(&self) -> usize {
        self.lock().streams.len()
    }
    /// Whether no run has needed a stream yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Positions of idle streams for all requests; missing streams are created at the end of the
    /// list.
    fn take(&self, state: &mut State, wishes: &[StreamWish]) -> Result<Places, RuntimeError> {
        if let [wish] = wishes {
            let idle = |s: &Stream| !s.taken && s.kind == (wish.priority, wish.flag);
            if let Some(k) = state.streams.iter().position(idle) {
                state.streams[k].taken = true;
                return Ok(Places::One(k, (wish.priority, wish.flag)));
            }
        }
        let mut at: Vec<usize> = Vec::with_capacity(wishes.len());
        let mut missing: Vec<StreamWish> = Vec::new();
        for w in wishes {
            let kind = (w.priority, w.flag);
            let idle = |(k, s): &(usize, &Stream)| !s.taken && s.kind == kind && !at.contains(k);
            let found = state.streams.iter().enumerate().find(idle).map(|(k, _)| k);
            at.push(found.unwrap_or(state.streams.len() + missing.len()));
            if found.is_none() {
                missing.push(*w);
            }
        }
        if !missing.is_empty() {
            let handles = match state.executor {
                Some(executor) => self.pool.add_streams(self.device, self.most, executor, &missing)?,
                None => {
                    let (executor, handles) = self.pool.acquire_streams(self.device, self.most, &missing)?;
                    state.executor = Some(executor);
                    handles
                }
            };
            let new =
                |(w, handle): (&StreamWish, StreamHandle)| Stream { handle, kind: (w.priority, w.flag), taken: false };
            state.streams.extend(missing.iter().zip(handles).map(new));
        }
        at.iter().for_each(|k| state.streams[*k].taken = true);
        Ok(Places::Many(at))
    }
}

impl Drop for StreamAllocator {
    fn drop(&mut self) {
        if let Some(executor) = self.lock().executor.take() {
            self.pool.release(executor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: StreamWish = StreamWish { priority: 0, flag: 0, tasks: 4 };
    const HUGE: StreamWish = StreamWish { priority: 0, flag: 1, tasks: 4 };

    fn allocator(most: usize) -> (Arc<StreamPool>, StreamAllocator) {
        let pool = Arc::new(StreamPool::default());
        (pool.clone(), StreamAllocator::new(pool, 0, most))
    }

    #[test]
    fn missing_streams_are_created_in_order_and_then_taken_again() {
        let (pool, a) = allocator(0);
        assert!(a.is_empty() && pool.is_empty());
        let first = a.acquire_streams(&[NORMAL; 2]).unwrap().handles();
        let more = a.acquire_streams(&[NORMAL; 4]).unwrap().handles();
        assert_eq!((&more[..2], a.len(), pool.created()), (&first[..], 4, 4));
        assert!(more.windows(2).all(|w| w[0] < w[1]), "{more:?}");
        // A smaller run takes the first of these streams, and none is destroyed.
        assert_eq!(a.acquire_streams(&[NORMAL]).unwrap().handles(), &first[..1]);
        assert_eq!((a.len(), pool.len(), pool.created()), (4, 4, 4));
        // A request of another kind gets another stream.
        let mixed = a.acquire_streams(&[NORMAL, HUGE, NORMAL]).unwrap().handles();
        assert_eq!((mixed[0], mixed[2], a.len()), (more[0], more[1], 5));
        drop(a);
        assert!(pool.is_empty());
    }

    #[test]
    fn runs_side_by_side_have_streams_of_their_own() {
        let (pool, a) = allocator(0);
        let one = a.acquire_streams(&[NORMAL; 3]).unwrap();
        let two = a.acquire_streams(&[NORMAL; 2]).unwrap();
        assert!(two.handles().iter().all(|h| !one.handles().contains(h)) && pool.len() == 5);
        let of_one = one.handles();
        drop((one, two));
        assert_eq!(a.acquire_streams(&[NORMAL; 3]).unwrap().handles(), of_one);
        assert_eq!(pool.created(), 5);
    }

    #[test]
    fn one_stream_past_the_room_is_an_error_that_names_both_numbers() {
        let (pool, a) = allocator(0);
        let e = a.acquire_streams(&vec![NORMAL; MAX_STREAMS + 1]).unwrap_err().to_string();
        assert!(e.contains("2025") && e.contains("2024") && a.is_empty(), "{e}");
        assert_eq!(a.acquire_streams(&vec![NORMAL; MAX_STREAMS]).unwrap().handles().len(), MAX_STREAMS);
        // The list never shrinks, so a stream of another kind does not fit.
        let e = a.acquire_streams(&[NORMAL, HUGE]).unwrap_err().to_string();
        assert!(e.contains("2025") && e.contains("2024"), "{e}");
        assert_eq!((a.len(), pool.len()), (MAX_STREAMS, MAX_STREAMS));
        drop(a.acquire_streams(&[NORMAL; 7]).unwrap());
    }

    #[test]
    fn what_other_models_leave_is_all_there_is() {
        let (pool, a) = allocator(3);
        let (other, _) = pool.acquire_streams(0, 3, &[StreamWish { priority: 5, ..NORMAL }; 2]).unwrap();
        let e = a.acquire_streams(&[NORMAL; 2]).unwrap_err();
        assert!(matches!(e, RuntimeError::DeviceFull { wanted: 2, left: 1 }), "{e}");
        pool.release(other);
        assert_eq!(a.acquire_streams(&[NORMAL; 2]).unwrap().handles().len(), 2);
    }

    #[test]
    fn threads_wait_for_each_other_where_there_are_no_more() {
        let (pool, a) = allocator(4);
        let held = Mutex::new(std::collections::BTreeSet::new());
        std::thread::scope(|scope| {
            for t in 0..6usize {
                let (a, held) = (&a, &held);
                scope.spawn(move || {
                    for i in 0..200 {
                        let mine = a.acquire_streams(&[NORMAL; 4][..1 + (t + i) % 4]).unwrap();
                        let mut all = held.lock().unwrap();
                        assert!(mine.handles().iter().all(|h| all.insert(*h)), "two runs have one stream");
                        drop(all);
                        std::thread::yield_now();
                        mine.handles().iter().for_each(|h| assert!(held.lock().unwrap().remove(h)));
                        drop(mine);
                    }
                });
            }
        });
        assert!(a.len() <= 4 && pool.created() <= 4);
    }

    /// A run that waits for streams wakes when streams are given back or the user cancels.
    #[test]
    fn who_waits_is_woken_or_stops() {
        let (_, a) = allocator(2);
        let all = a.acquire_streams(&[NORMAL; 2]).unwrap();
        let stopped = std::sync::atomic::AtomicBool::new(false);
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let stop = || {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            stopped.load(std::sync::atomic::Ordering::Relaxed)
        };
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| a.acquire(&[NORMAL], stop).map(|s| s.handles()));
            while asked.load(std::sync::atomic::Ordering::Relaxed) < 3 {
                std::thread::yield_now();
            }
            assert!(!waits.is_finished() && a.waiting.load(Ordering::SeqCst) <= 1);
            stopped.store(true, std::sync::atomic::Ordering::Relaxed);
            let e = waits.join().unwrap().unwrap_err().into_error();
            assert_eq!(e.kind, ge_plugin_api::diagnostic::ErrorKind::CANCELLED, "{e}");
        });
        // The cancelled run leaves no trace: the streams go to the next run that waits.
        assert_eq!(a.waiting.load(Ordering::SeqCst), 0);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| a.acquire(&[NORMAL; 2], || false).map(|s| s.handles()));
            while a.waiting.load(Ordering::SeqCst) == 0 && !waits.is_finished() {
                std::thread::yield_now();
            }
            drop(all);
            assert_eq!(waits.join().unwrap().unwrap().len(), 2);
        });
    }
}
