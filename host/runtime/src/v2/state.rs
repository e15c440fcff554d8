//! A state that grows along one axis. Its memory has spare room, so a run appends its new rows and
//! copies nothing of the past.
//!
//! The axes before the growing axis form pieces: each has room for `capacity` rows, of which the
//! first `rows` are in use.
//!
//! A launch first claims all rooms that it writes to ([`State::claim`]), by exchanging `newest`,
//! and only then locks their memory. While it claims, it holds no lock. When it locks, nobody else
//! has a claim to these rooms: it waits only for readers, which hold the lock of one room while
//! they copy out of it, and wait for nothing. So no two threads can wait for each other.
use crate::error::RuntimeError;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::DType;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The value of `newest` while a run writes to a room. No state has so many rows.
const CLAIMED: u64 = u64::MAX;

/// Memory with spare room, shared by the states of all steps.
pub(crate) struct Room {
    memory: Mutex<HostTensor>,
    /// Rows of the newest state, or [`CLAIMED`]. An older state with fewer rows shares its memory
    /// with the rows that came after it; no run may overwrite those.
    newest: AtomicU64,
    /// Bytes of state that had to be copied.
    copied: Arc<AtomicU64>,
    pieces: u64,
    capacity: u64,
    row_bytes: u64,
}

/// A state: the first rows of a room.
#[derive(Clone)]
pub struct State {
    room: Arc<Room>,
    dtype: DType,
    dims: Arc<[u64]>,
    axis: usize,
    /// Its rows without gaps, created on first use.
    whole: Arc<OnceLock<Vec<u8>>>,
}

/// The sole right to write to a room. The new state exists once the run is over; if this is dropped
/// before, nothing has changed.
pub(crate) struct Claim {
    next: State,
    /// Rows of the newest state when the claim ends.
    rows: u64,
}

impl Claim {
    /// Locks the memory of the room. To be called only when all claims of a launch are made.
    pub(crate) fn memory(&self) -> MutexGuard<'_, HostTensor> {
        self.next.room.lock()
    }
    /// Completes the run and returns the new state.
    pub(crate) fn done(mut self) -> State {
        self.rows = self.next.rows();
        self.next.clone()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Releases what the run wrote to the thread that claims the room next.
        self.next.room.newest.store(self.rows, Ordering::Release);
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, HostTensor> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn product(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |p, d| p.checked_mul(*d))
}

impl State {
    /// Copies a tensor into a room for at least `capacity` rows along `axis`.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated, sizes overflow or the tensor has no such axis.
    pub fn new(t: &TensorView<'_>, axis: usize, capacity: u64) -> Result<State, RuntimeError> {
        let overflow = || RuntimeError::from(Error::failed("the room of a state overflows"));
        let unfit = || RuntimeError::from(Error::internal("a state has no such axis"));
        let (before, after) = t.dims.split_at_checked(axis).ok_or_else(unfit)?;
        let (rows, after) = after.split_first().ok_or_else(unfit)?;
        let row_bytes = product(after).and_then(|n| t.dtype.bytes_of(n)).ok_or_else(overflow)?;
        let pieces = product(before).ok_or_else(overflow)?;
        let capacity = capacity.max(*rows);
        let bytes = product(&[pieces, capacity, row_bytes]).ok_or_else(overflow)?;
        let mut memory = HostTensor::with_len(t.dtype, &[], bytes)?;
        let sizes = [rows * row_bytes, capacity * row_bytes].map(usize::try_from);
        let [Ok(piece), Ok(step)] = sizes else { return Err(overflow()) };
        if piece > 0 {
            let to = memory.bytes_mut().chunks_exact_mut(step);
            t.bytes.chunks_exact(piece).zip(to).for_each(|(from, to)| to[..piece].copy_from_slice(from));
        }
        let copied = Arc::new(AtomicU64::new(t.bytes.len() as u64));
        let newest = AtomicU64::new(*rows);
        let room = Room { memory: Mutex::new(memory), newest, copied, pieces, capacity, row_bytes };
        let (dims, whole) = (t.dims.into(), Arc::default());
        Ok(State { room: Arc::new(room), dtype: t.dtype, dims, axis, whole })
    }
    /// Dimensions of the state.
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Dimensions that the state would have if it filled its room.
    pub fn room(&self) -> Vec<u64> {
        let mut dims = self.dims.to_vec();
        if let Some(d) = dims.get_mut(self.axis) {
            *d = self.room.capacity;
        }
        dims
    }
    /// Bytes of state that were copied since the room was made: into the room, and out of it for
    /// readers that need the rows without gaps.
    pub fn copied_bytes(&self) -> u64 {
        self.room.copied.load(Ordering::Relaxed)
    }
    /// A copy without gaps.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated.
    pub fn to_host(&self) -> Result<HostTensor, RuntimeError> {
        let mut out =
            HostTensor::with_len(self.dtype, &self.dims, self.room.pieces * self.rows() * self.room.row_bytes)?;
        let mut to = out.bytes_mut();
        self.each_piece(|p| {
            let (first, rest) = std::mem::take(&mut to).split_at_mut(p.len());
            first.copy_from_slice(p);
            to = rest;
        });
        Ok(out)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.dims.get(self.axis).copied().unwrap_or(0)
    }
    pub(crate) fn capacity(&self) -> u64 {
        self.room.capacity
    }
    pub(crate) fn axis(&self) -> usize {
        self.axis
    }
    pub(crate) fn pieces(&self) -> u64 {
        self.room.pieces
    }
    pub(crate) fn row_bytes(&self) -> u64 {
        self.room.row_bytes
    }
    /// The sizes of the room as a device sees it: pieces, rows, elements per row.
    pub(crate) fn room_dims(&self) -> [u64; 3] {
        let row = product(self.dims.get(self.axis + 1..).unwrap_or_default()).unwrap_or(0);
        [self.room.pieces, self.room.capacity, row]
    }
    /// Whether no rows were written after it and no run is writing any, so that a run may append
    /// rows to it.
    pub(crate) fn is_newest(&self) -> bool {
        self.room.newest.load(Ordering::Acquire) == self.rows()
    }
    /// Claims the room for a run that grows this state to dimensions `to`. If another run has
    /// appended rows or is doing so, the new state gets a room of its own with the same capacity:
    /// what was planned for one room is valid for the other.
    ///
    /// The caller must hold no lock of a room: copying may have to wait for a run that writes.
    ///
    /// # Errors
    /// Fails if the room is too small or if memory cannot be allocated.
    pub(crate) fn claim(&self, to: &[u64]) -> Result<Claim, RuntimeError> {
        let rows = self.rows();
        let next = State { dims: to.into(), whole: Arc::default(), ..self.clone() };
        if next.rows() > self.room.capacity {
            return Err(Error::internal("a state grows beyond its room").into());
        }
        // Of several claims to one state, one succeeds.
        match self.room.newest.compare_exchange(rows, CLAIMED, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Claim { next, rows }),
            Err(_) => State::new(&self.to_host()?.view(), self.axis, self.room.capacity)?.claim(to),
        }
    }
    /// Its bytes without gaps, kept for later calls.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.whole.get_or_init(|| {
            let size = self.room.pieces * self.rows() * self.room.row_bytes;
            let mut all = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            self.each_piece(|p| all.extend_from_slice(p));
            self.room.copied.fetch_add(all.len() as u64, Ordering::Relaxed);
            all
        })
    }
    /// Calls `each` with the rows of each piece.
    fn each_piece(&self, each: impl FnMut(&[u8])) {
        let size = |rows: u64| usize::try_from(rows * self.room.row_bytes).unwrap_or(0);
        let (piece, step) = (size(self.rows()), size(self.room.capacity));
        let memory = self.room.lock();
        if piece > 0 {
            memory.bytes().chunks_exact(step).map(|p| &p[..piece]).for_each(each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(s: &State) -> Vec<u8> {
        s.to_host().unwrap().bytes().to_vec()
    }

    /// Writes the second row of each of two pieces with room for three rows of two bytes.
    fn append(claim: &Claim, [a, b]: [[u8; 2]; 2]) {
        let mut memory = claim.memory();
        memory.bytes_mut()[2..4].copy_from_slice(&a);
        memory.bytes_mut()[8..10].copy_from_slice(&b);
    }

    #[test]
    fn rows_are_written_behind_those_of_each_piece() {
        let t = HostTensor::from_bytes(DType::U8, &[2, 1, 2], &[1, 2, 5, 6]).unwrap();
        let s = State::new(&t.view(), 1, 3).unwrap();
        assert_eq!((s.room_dims(), s.row_bytes(), s.pieces(), s.copied_bytes()), ([2, 3, 2], 2, 2, 4));
        let claim = s.claim(&[2, 2, 2]).unwrap();
        assert!(!s.is_newest());
        append(&claim, [[3, 4], [7, 8]]);
        let next = claim.done();
        assert_eq!((rows(&next), rows(&s)), (vec![1, 2, 3, 4, 5, 6, 7, 8], vec![1, 2, 5, 6]));
        // A failed run changes nothing.
        assert!(next.is_newest() && !s.is_newest());
        drop(next.claim(&[2, 3, 2]).unwrap());
        assert!(next.is_newest() && next.claim(&[2, 4, 2]).is_err());
        assert_eq!((next.bytes().len(), next.bytes().len(), next.copied_bytes()), (8, 8, 12));
    }

    #[test]
    fn a_state_whose_room_is_taken_grows_in_a_room_of_its_own() {
        let t = HostTensor::from_bytes(DType::U8, &[2, 1, 2], &[1, 2, 5, 6]).unwrap();
        let s = State::new(&t.view(), 1, 3).unwrap();
        // Two claims to one state at the same time, then one to a state that is not the newest.
        let both = [s.claim(&[2, 2, 2]).unwrap(), s.claim(&[2, 2, 2]).unwrap()];
        append(&both[0], [[3, 4], [7, 8]]);
        append(&both[1], [[9, 9], [9, 9]]);
        let [first, second] = both.map(Claim::done);
        let late = s.claim(&[2, 2, 2]).unwrap();
        append(&late, [[0, 1], [0, 1]]);
        let late = late.done();
        assert_eq!(rows(&first), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(rows(&second), [1, 2, 9, 9, 5, 6, 9, 9]);
        assert_eq!((rows(&late), rows(&s)), (vec![1, 2, 0, 1, 5, 6, 0, 1], vec![1, 2, 5, 6]));
        assert!([&first, &second, &late].iter().all(|s| s.is_newest() && s.room_dims() == [2, 3, 2]));
    }
}
