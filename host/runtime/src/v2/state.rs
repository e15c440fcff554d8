//! A state that grows along one axis. Its memory has spare room, so a run appends its new rows and
//! copies nothing of the past.
//!
//! The axes before the growing axis form pieces: each has room for `capacity` rows, of which the
//! first `rows` are in use.
use crate::error::RuntimeError;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::DType;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Memory with spare room, shared by the states of all steps.
pub(crate) struct Room {
    memory: Mutex<HostTensor>,
    /// Rows of the newest state. An older state with fewer rows shares its memory with the rows
    /// that came after it; no run may overwrite those.
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

/// A room that a run writes to. The new state exists once the run is over; if this is dropped
/// before, nothing has changed.
pub(crate) struct Lent<'s> {
    memory: MutexGuard<'s, HostTensor>,
    next: State,
}

impl Lent<'_> {
    /// The memory of the room.
    pub(crate) fn memory(&mut self) -> &mut HostTensor {
        &mut self.memory
    }
    /// Completes the run and returns the new state.
    pub(crate) fn done(self) -> State {
        self.next.room.newest.store(self.next.rows(), Ordering::Release);
        self.next
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
    /// Whether no rows were written after it, so that a run may append rows to it.
    pub(crate) fn is_newest(&self) -> bool {
        self.room.newest.load(Ordering::Acquire) == self.rows()
    }
    /// Lends the room to a run that grows this state to dimensions `to`.
    ///
    /// # Errors
    /// Fails if another run has appended rows already, or if the room is too small.
    pub(crate) fn lend(&self, to: &[u64]) -> Result<Lent<'_>, RuntimeError> {
        let next = State { dims: to.into(), whole: Arc::default(), ..self.clone() };
        let memory = self.room.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_newest() || next.rows() > self.room.capacity {
            return Err(Error::internal("two runs write behind one state").into());
        }
        Ok(Lent { memory, next })
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
        let memory = self.room.memory.lock().unwrap_or_else(PoisonError::into_inner);
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

    #[test]
    fn rows_are_written_behind_those_of_each_piece() {
        let t = HostTensor::from_bytes(DType::U8, &[2, 1, 2], &[1, 2, 5, 6]).unwrap();
        let s = State::new(&t.view(), 1, 3).unwrap();
        assert_eq!((s.room_dims(), s.row_bytes(), s.pieces(), s.copied_bytes()), ([2, 3, 2], 2, 2, 4));
        let mut lent = s.lend(&[2, 2, 2]).unwrap();
        lent.memory().bytes_mut()[2..4].copy_from_slice(&[3, 4]);
        lent.memory().bytes_mut()[8..10].copy_from_slice(&[7, 8]);
        let next = lent.done();
        assert_eq!((rows(&next), rows(&s)), (vec![1, 2, 3, 4, 5, 6, 7, 8], vec![1, 2, 5, 6]));
        // The older state can no longer be extended. A failed run changes nothing.
        assert!(next.is_newest() && !s.is_newest() && s.lend(&[2, 2, 2]).is_err());
        drop(next.lend(&[2, 3, 2]).unwrap());
        assert!(next.is_newest() && next.lend(&[2, 4, 2]).is_err());
        assert_eq!((next.bytes().len(), next.bytes().len(), next.copied_bytes()), (8, 8, 12));
    }
}
