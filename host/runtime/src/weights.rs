//! Weights of a loaded model: in place where the device reads host memory, else copied to it.
//!
//! Weights that are read in place move to large pages when the model runs for the second time
//! ([`ge_om::to_large_pages`]). A model that runs once is not worth the copy.
use crate::error::RuntimeError;
use bytes::Bytes;
use ge_plugin::OpenDevice;
use ge_plugin_api::device::{Base, MemoryKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Weights of a loaded model, until it is dropped.
pub(crate) struct Weights {
    bytes: Bytes,
    context: Arc<OpenDevice>,
    place: Place,
    /// How often the model ran, up to [`SECOND`].
    runs: AtomicU8,
}

/// Number of runs at which the weights have moved.
const SECOND: u8 = 2;

enum Place {
    /// The device has no weights.
    Nowhere,
    /// The device reads host memory, at this address of its own.
    Host(u64),
    /// A copy on the device.
    Device(Base),
}

impl Weights {
    /// Weights for other models, which load them: in place if the device can, else not on it.
    pub(crate) fn shared(bytes: Bytes, context: Arc<OpenDevice>) -> Result<Weights, RuntimeError> {
        let mut place = Place::Nowhere;
        if !bytes.is_empty() {
            let at = context.register_host_memory(bytes.as_ptr() as u64, bytes.len() as u64, true)?;
            place = at.map_or(Place::Nowhere, Place::Host);
        }
        Ok(Weights { bytes, context, place, runs: AtomicU8::new(0) })
    }

    /// Weights for a model's own tasks, which take `room` bytes on the device.
    pub(crate) fn load(bytes: Bytes, room: u64, context: Arc<OpenDevice>) -> Result<Weights, RuntimeError> {
        let bytes = if room == 0 { Bytes::new() } else { bytes };
        let mut weights = Weights::shared(bytes, context)?;
        if room > 0 && matches!(weights.place, Place::Nowhere) {
            let at = weights.context.alloc(MemoryKind::HBM, room)?;
            weights.place = Place::Device(Base { address: at, bytes: room });
            weights.context.copy_in(at, &weights.bytes)?;
        }
        Ok(weights)
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Where the device reads them.
    pub(crate) fn base(&self) -> Base {
        match self.place {
            Place::Nowhere => Base { address: 0, bytes: 0 },
            Place::Host(address) => Base { address, bytes: self.bytes.len() as u64 },
            Place::Device(base) => base,
        }
    }

    /// A run begins.
    pub(crate) fn run(&self) {
        if self.runs.load(Ordering::Relaxed) >= SECOND || !matches!(self.place, Place::Host(_)) {
            return;
        }
        if self.runs.fetch_add(1, Ordering::Relaxed) + 1 == SECOND {
            ge_om::to_large_pages(&self.bytes);
        }
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        // This can fail only if the device is lost, and then its memory is gone too.
        let _ = match self.place {
            Place::Nowhere => Ok(()),
            Place::Host(at) => self.context.unregister_host_memory(at),
            Place::Device(base) => self.context.free(base.address),
        };
    }
}
