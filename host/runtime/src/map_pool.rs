//! Feature maps shared by the plans of one model: a plan that is not running holds no memory.
use crate::error::RuntimeError;
use ge_plugin::OpenDevice;
use ge_plugin_api::device::{Base, MemoryKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sizes are rounded up to a multiple of this, so that similar shapes fit one map (facts 8.10).
const PAGE: u64 = 64 * 1024;
/// Number of maps that are kept while no run uses them.
const KEPT: usize = 8;

/// Idle feature maps of a device, shared between plans.
pub struct MapPool {
    context: Arc<OpenDevice>,
    idle: Mutex<Vec<(MemoryKind, Base)>>,
}

impl std::fmt::Debug for MapPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MapPool").field("idle", &self.idle().len()).finish_non_exhaustive()
    }
}

impl MapPool {
    /// An empty pool.
    pub(crate) fn new(context: Arc<OpenDevice>) -> MapPool {
        MapPool { context, idle: Mutex::default() }
    }
    fn idle(&self) -> MutexGuard<'_, Vec<(MemoryKind, Base)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A map of at least `bytes` bytes: the smallest idle one that fits, or a new one.
    pub(crate) fn take(&self, kind: MemoryKind, bytes: u64) -> Result<Base, RuntimeError> {
        if bytes == 0 {
            return Ok(Base { address: 0, bytes: 0 });
        }
        {
            let mut idle = self.idle();
            let fits = |(_, (k, b)): &(usize, &(MemoryKind, Base))| *k == kind && b.bytes >= bytes;
            let best = idle.iter().enumerate().filter(fits).min_by_key(|(_, (_, b))| b.bytes).map(|(i, _)| i);
            if let Some(i) = best {
                return Ok(idle.swap_remove(i).1);
            }
        }
        let size = bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes);
        let alloc = |size: u64| self.context.alloc(kind, size);
        let address = alloc(size).or_else(|_| {
            // Free the idle maps, which may hold the missing memory, and try again.
            self.free(0);
            alloc(size)
        })?;
        Ok(Base { address, bytes: size })
    }
    /// Gives a map back.
    pub(crate) fn give(&self, kind: MemoryKind, map: Base) {
        if map.address != 0 {
            let mut idle = self.idle();
            idle.push((kind, map));
            self.leave(&mut idle, KEPT);
        }
    }
    /// Frees idle maps until `left` remain.
    fn free(&self, left: usize) {
        self.leave(&mut self.idle(), left);
    }
    /// Frees maps of `idle` until `left` remain, the smallest first.
    fn leave(&self, idle: &mut Vec<(MemoryKind, Base)>, left: usize) {
        while idle.len() > left {
            let smallest = idle.iter().enumerate().min_by_key(|(_, (_, b))| b.bytes).map(|(i, _)| i);
            let Some(i) = smallest else { break };
            // Freeing can fail only if the device is lost, and then its memory is gone too.
            let _ = self.context.free(idle.swap_remove(i).1.address);
        }
    }
}

impl Drop for MapPool {
    fn drop(&mut self) {
        self.free(0);
    }
}
