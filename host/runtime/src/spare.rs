//! `Spare`: outputs that callers gave back, whose memory later runs reuse. Fresh memory must be
//! zeroed and is not in the cache; memory of the previous run avoids both costs.
use ge_plugin_api::Result;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Maximum number of tensors that are kept, and of their bytes. The oldest are dropped first.
const MOST: usize = 64;
const MOST_BYTES: u64 = 256 << 20;

/// Memory of outputs that nobody reads any more. The models of a session may share it.
#[derive(Debug, Default)]
pub struct Spare(Mutex<Kept>);

/// The tensors, the oldest first, and their size in bytes.
#[derive(Debug, Default)]
struct Kept {
    tensors: VecDeque<HostTensor>,
    bytes: u64,
}

impl Spare {
    /// Takes tensors that their owner no longer needs.
    pub fn put(&self, tensors: impl IntoIterator<Item = HostTensor>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for t in tensors.into_iter().filter(|t| !t.bytes().is_empty()) {
            kept.bytes += t.bytes().len() as u64;
            kept.tensors.push_back(t);
            while kept.tensors.len() > MOST || kept.bytes > MOST_BYTES {
                let Some(oldest) = kept.tensors.pop_front() else { return };
                kept.bytes -= oldest.bytes().len() as u64;
            }
        }
    }

    /// The newest tensor of exactly `bytes` bytes. It still holds what its last owner left there.
    pub(crate) fn take(&self, bytes: u64) -> Option<HostTensor> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.tensors.iter().rposition(|t| t.bytes().len() as u64 == bytes)?;
        kept.bytes -= bytes;
        kept.tensors.remove(at)
    }

    /// A copy of a tensor, in memory that was given back if some has its size: such memory need not
    /// be cleared first.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn copy_of(&self, t: &TensorView<'_>) -> Result<HostTensor> {
        let Some(mut out) = self.take(t.bytes.len() as u64) else {
            return HostTensor::from_bytes(t.dtype, t.dims, t.bytes);
        };
        (out.dtype, out.dims) = (t.dtype, t.dims.into());
        out.bytes_mut().copy_from_slice(t.bytes);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::types::DType;

    fn of(bytes: u64) -> HostTensor {
        HostTensor::zeroed(DType::U8, &[bytes]).unwrap()
    }

    #[test]
    fn memory_of_the_same_size_comes_back_and_the_oldest_goes() {
        let spare = Spare::default();
        let t = of(100);
        let at = t.bytes().as_ptr();
        spare.put([of(99), t, of(0)]);
        assert!(spare.take(98).is_none() && spare.take(0).is_none());
        assert_eq!(spare.take(100).map(|t| t.bytes().as_ptr()), Some(at));
        assert!(spare.take(100).is_none());
        spare.put((0..MOST as u64).map(|k| of(1000 + k)));
        assert!(spare.take(99).is_none() && spare.take(1000).is_some());
    }

    /// Empty tensors and sizes that nobody gave back get memory of their own.
    #[test]
    fn copies_lie_in_memory_of_their_size_and_have_their_own_type() {
        let spare = Spare::default();
        spare.put([of(12), of(16)]);
        let bytes: Vec<u8> = (1..=12).collect();
        for (dims, kept) in [(&[3u64][..], 1), (&[3, 1], 1), (&[0], 1)] {
            let len = 4 * dims.iter().product::<u64>() as usize;
            let t = TensorView { dtype: DType::F32, dims, bytes: &bytes[..len] };
            let copy = spare.copy_of(&t).unwrap();
            assert_eq!((copy.dtype, &copy.dims[..], copy.bytes()), (t.dtype, t.dims, t.bytes));
            assert_eq!(spare.0.lock().unwrap().tensors.len(), kept);
        }
    }

    #[test]
    fn more_bytes_than_the_limit_are_not_kept() {
        let spare = Spare::default();
        spare.put([of(MOST_BYTES / 2), of(MOST_BYTES / 2 + 1)]);
        assert!(spare.take(MOST_BYTES / 2).is_none() && spare.take(MOST_BYTES / 2 + 1).is_some());
    }
}
