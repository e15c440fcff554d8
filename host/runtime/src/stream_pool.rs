//! Streams of a device, shared by the models loaded on it (004 §4.7). They are created on demand,
//! up to 2,024 for one model and never more than the device has.
//!
//! A stream is chosen by priority and flag, and among those by the nearest task count. It is never
//! one that the model already uses, because the streams of one model run in parallel. Each stream
//! knows the models that use it; the last one to leave destroys it.
use crate::error::RuntimeError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

/// Maximum number of streams of one model.
pub const MAX_STREAMS: usize = 2024;

/// A request for one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamWish {
    /// Priority, 0 being the highest.
    pub priority: u32,
    /// Kind of stream: 0 is normal, 1 is huge.
    pub flag: u32,
    /// Number of tasks on the stream.
    pub tasks: u32,
}

/// Id of a model in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(u64);

/// Id of a stream in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamHandle(pub u64);

#[derive(Debug)]
struct Stream {
    key: (u64, u32, u32),
    tasks: u32,
    models: BTreeSet<ModelId>,
}

#[derive(Debug, Default)]
struct State {
    next_model: u64,
    next_stream: u64,
    streams: HashMap<StreamHandle, Stream>,
    /// For each device, priority and flag: its streams, sorted by task count.
    by_key: BTreeMap<(u64, u32, u32), BTreeSet<(u32, StreamHandle)>>,
    of: HashMap<ModelId, Vec<StreamHandle>>,
    created: u64,
}

/// The streams that models share, for all devices of a process. `Send + Sync`.
#[derive(Debug, Default)]
pub struct StreamPool {
    state: Mutex<State>,
}

impl StreamPool {
    /// Gets streams for a new model, in the order of `wishes`: existing streams of other models
    /// where possible, otherwise new ones. `device` is any number that identifies the device.
    /// `most` is the number of streams that the device has for all models, of any priority and
    /// flag; 0: no limit.
    ///
    /// # Errors
    /// Fails if there are more than [`MAX_STREAMS`] wishes or if the device has too few streams
    /// left. Nothing is taken then.
    pub fn acquire_streams(
        &self,
        device: u64,
        most: usize,
        wishes: &[StreamWish],
    ) -> Result<(ModelId, Vec<StreamHandle>), RuntimeError> {
        if wishes.len() > MAX_STREAMS {
            return Err(RuntimeError::TooManyStreams { found: wishes.len(), most: MAX_STREAMS });
        }
        let mut state = self.lock();
        let model = ModelId(state.next_model);
        state.next_model += 1;
        Ok((model, state.take(device, most, model, wishes)?))
    }

    /// Gets more streams for a model, none of which it already has.
    ///
    /// # Errors
    /// Fails like [`acquire_streams`](Self::acquire_streams), counting all streams of the model.
    pub fn add_streams(
        &self,
        device: u64,
        most: usize,
        model: ModelId,
        wishes: &[StreamWish],
    ) -> Result<Vec<StreamHandle>, RuntimeError> {
        let mut state = self.lock();
        let found = state.of.get(&model).map_or(0, Vec::len) + wishes.len();
        if found > MAX_STREAMS {
            return Err(RuntimeError::TooManyStreams { found, most: MAX_STREAMS });
        }
        state.take(device, most, model, wishes)
    }

    /// Releases all streams of a model; streams that no other model uses are destroyed.
    pub fn release(&self, model: ModelId) {
        self.lock().release(model);
    }

    /// Number of streams that exist now.
    pub fn len(&self) -> usize {
        self.lock().streams.len()
    }
    /// Whether no streams exist.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Number of streams created since the start.
    pub fn created(&self) -> u64 {
        self.lock().created
    }
    /// Number of models that use a stream.
    pub fn users(&self, h: StreamHandle) -> usize {
        self.lock().streams.get(&h).map_or(0, |s| s.models.len())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    /// Number of streams of a device.
    fn on(&self, device: u64) -> usize {
        self.by_key.range((device, 0, 0)..=(device, u32::MAX, u32::MAX)).map(|(_, list)| list.len()).sum()
    }
    /// Gets streams for a model in addition to those that it has.
    fn take(
        &mut self,
        device: u64,
        most: usize,
        model: ModelId,
        wishes: &[StreamWish],
    ) -> Result<Vec<StreamHandle>, RuntimeError> {
        // Everything is chosen before anything changes, so that a request that fails leaves no
        // trace.
        let mut mine: BTreeSet<StreamHandle> = self.of.get(&model).into_iter().flatten().copied().collect();
        let chosen: Vec<Option<StreamHandle>> = wishes.iter().map(|w| self.nearest(device, w, &mut mine)).collect();
        let (has, wanted) = (self.on(device), chosen.iter().filter(|c| c.is_none()).count());
        if most > 0 && has + wanted > most {
            return Err(RuntimeError::DeviceFull { wanted, left: most.saturating_sub(has) });
        }
        let handles: Vec<StreamHandle> =
            chosen.iter().zip(wishes).map(|(c, w)| self.join(device, model, w, *c)).collect();
        self.of.entry(model).or_default().extend(&handles);
        Ok(handles)
    }
    fn release(&mut self, model: ModelId) {
        let handles = self.of.remove(&model).unwrap_or_default();
        self.give(model, &handles);
    }
    /// Ends a model's use of these streams.
    fn give(&mut self, model: ModelId, handles: &[StreamHandle]) {
        for h in handles.iter().copied() {
            let Some(s) = self.streams.get_mut(&h) else { continue };
            s.models.remove(&model);
            if s.models.is_empty() {
                let (key, tasks) = (s.key, s.tasks);
                self.streams.remove(&h);
                if let Some(list) = self.by_key.get_mut(&key) {
                    list.remove(&(tasks, h));
                    if list.is_empty() {
                        self.by_key.remove(&key);
                    }
                }
            }
        }
    }
    /// The existing stream with the nearest task count that is not in `mine`, to which it is then
    /// added. At equal distance, the one with more tasks.
    fn nearest(&self, device: u64, w: &StreamWish, mine: &mut BTreeSet<StreamHandle>) -> Option<StreamHandle> {
        let list = self.by_key.get(&(device, w.priority, w.flag))?;
        let above = list.range((w.tasks, StreamHandle(0))..).find(|(_, h)| !mine.contains(h));
        let below = list.range(..(w.tasks, StreamHandle(0))).rev().find(|(_, h)| !mine.contains(h));
        let (_, h) = match (above, below) {
            (Some(a), Some(b)) if w.tasks - b.0 < a.0 - w.tasks => *b,
            (Some(a), _) => *a,
            (None, b) => *b?,
        };
        mine.insert(h);
        Some(h)
    }
    /// Makes a model a user of a stream: of the chosen one, or of a new one.
    fn join(&mut self, device: u64, model: ModelId, w: &StreamWish, chosen: Option<StreamHandle>) -> StreamHandle {
        let key = (device, w.priority, w.flag);
        let h = chosen.unwrap_or(StreamHandle(self.next_stream));
        if chosen.is_none() {
            self.next_stream += 1;
            self.created += 1;
        }
        let new = || Stream { key, tasks: w.tasks, models: BTreeSet::new() };
        let s = self.streams.entry(h).or_insert_with(new);
        s.models.insert(model);
        let list = self.by_key.entry(key).or_default();
        list.remove(&(s.tasks, h));
        s.tasks = s.tasks.max(w.tasks);
        list.insert((s.tasks, h));
        h
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn wish(priority: u32, flag: u32, tasks: u32) -> StreamWish {
        StreamWish { priority, flag, tasks }
    }

    #[test]
    fn two_models_share_streams_and_one_model_does_not() {
        let pool = StreamPool::default();
        let (a, of_a) = pool.acquire_streams(0, 0, &[wish(0, 0, 10), wish(0, 0, 100)]).expect("streams");
        assert_ne!(of_a[0], of_a[1]);
        // The first wish gets the stream with the nearest task count. The second wish cannot get
        // the same one, and the third needs a new stream.
        let (b, of_b) = pool.acquire_streams(0, 0, &[wish(0, 0, 90), wish(0, 0, 95), wish(0, 0, 1)]).expect("streams");
        assert_eq!((of_b[0], of_b[1]), (of_a[1], of_a[0]));
        assert_eq!((pool.len(), pool.created(), pool.users(of_a[0])), (3, 3, 2));
        pool.release(a);
        assert_eq!((pool.len(), pool.users(of_a[0])), (3, 1));
        pool.release(b);
        assert!(pool.is_empty());
        // A destroyed stream is created again.
        let (_, of_c) = pool.acquire_streams(0, 0, &[wish(0, 0, 1)]).expect("streams");
        assert_eq!((pool.created(), of_c.len()), (4, 1));
    }

    #[test]
    fn priority_flag_and_device_keep_streams_apart() {
        let pool = StreamPool::default();
        pool.acquire_streams(0, 0, &[wish(0, 0, 1)]).expect("streams");
        for (device, w) in [(0, wish(1, 0, 1)), (0, wish(0, 1, 1)), (1, wish(0, 0, 1))] {
            let before = pool.len();
            pool.acquire_streams(device, 0, &[w]).expect("streams");
            assert_eq!(pool.len(), before + 1);
        }
    }

    #[test]
    fn one_stream_past_the_most_is_an_error_and_takes_nothing() {
        let pool = StreamPool::default();
        let all = vec![wish(0, 0, 1); MAX_STREAMS + 1];
        let e = pool.acquire_streams(0, 0, &all).expect_err("too many");
        assert!(e.to_string().contains("2025") && e.to_string().contains("2024"), "{e}");
        assert!(pool.is_empty());
        assert_eq!(pool.acquire_streams(0, 0, &all[1..]).expect("as many as there may be").1.len(), MAX_STREAMS);
    }

    #[test]
    fn models_share_what_the_device_has_and_the_one_too_many_takes_nothing() {
        let pool = StreamPool::default();
        let four = [wish(0, 0, 1); 4];
        let (a, _) = pool.acquire_streams(0, 6, &four).expect("streams");
        // The same four streams again, and two of another priority.
        let (b, _) = pool.acquire_streams(0, 6, &[&four[..], &[wish(1, 0, 1); 2]].concat()).expect("streams");
        let e = pool.acquire_streams(0, 6, &[wish(2, 0, 1)]).expect_err("full");
        assert!(matches!(e, RuntimeError::DeviceFull { wanted: 1, left: 0 }), "{e}");
        assert_eq!((pool.len(), pool.created()), (6, 6));
        // A request that fails leaves task counts, too, as they were: the stream of one task is
        // still nearer to two than the one of five.
        let (_, of_d) = pool.acquire_streams(2, 2, &[wish(0, 0, 1), wish(0, 0, 5)]).expect("streams");
        let large = [wish(0, 0, 7), wish(0, 0, 9), wish(0, 0, 1)];
        let e = pool.acquire_streams(2, 2, &large).expect_err("full");
        assert!(matches!(e, RuntimeError::DeviceFull { wanted: 1, left: 0 }), "{e}");
        let (_, of_e) = pool.acquire_streams(2, 2, &[wish(0, 0, 2)]).expect("a stream");
        assert_eq!(of_e, of_d[..1]);
        // Another device has its own streams, and released streams are available to others.
        pool.acquire_streams(1, 6, &four).expect("streams");
        pool.release(b);
        pool.acquire_streams(0, 6, &[wish(2, 0, 1); 2]).expect("streams");
        pool.release(a);
    }

    #[test]
    fn threads_that_load_and_unload_leave_nothing_behind() {
        let rounds = if std::env::var("GE_LONG").is_ok_and(|v| v == "1") { 20_000 } else { 200 };
        let pool = Arc::new(StreamPool::default());
        std::thread::scope(|s| {
            for t in 0..8u32 {
                let pool = pool.clone();
                s.spawn(move || {
                    for i in 0..rounds {
                        let n = (t * 7 + i) % 9 + 1;
                        let wishes: Vec<StreamWish> =
                            (0..n).map(|k| wish(k % 2, 0, (t * 31 + i * 17 + k) % 50)).collect();
                        let (m, mine) = pool.acquire_streams(0, 0, &wishes).expect("streams");
                        let distinct: BTreeSet<_> = mine.iter().collect();
                        assert_eq!(distinct.len(), mine.len(), "a model has a stream twice");
                        assert!(mine.iter().all(|h| pool.users(*h) >= 1));
                        pool.release(m);
                    }
                });
            }
        });
        assert!(pool.is_empty());
    }
}
