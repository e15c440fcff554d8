//! Prefetching of tasks by streams: when the block count and key of a kernel are latched, and what
//! UPDATE changes.
//!
//! They are latched when the task `prefetch_num` positions before the kernel starts on its stream;
//! for the first kernels of a stream, when the stream starts; after a jump, when it lands before
//! them. A wait counts as started when it reaches the head of its stream, before its event arrives.
//! An UPDATE that comes after the latch, or that is not ordered before it, is too late: the kernel
//! then starts with the placeholder. This is an error in every schedule, not only in those in which
//! the UPDATE happens to be late. Each launch resets block count and key to the placeholder, and so
//! does each run of the kernel: in a loop every iteration needs its own UPDATE.
use crate::order::{Order, Stamp};
use crate::stream::Gid;
use ge_plugin_api::task::TILING_SINK_BLOCK_DIM;

/// Block count and tiling key of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Number of blocks.
    pub block_dim: u32,
    /// Tiling key.
    pub tiling_key: u64,
}
impl Patch {
    /// The value before any UPDATE.
    pub const PLACEHOLDER: Patch = Patch { block_dim: TILING_SINK_BLOCK_DIM, tiling_key: 0 };
    /// Whether it has not been updated.
    pub fn is_placeholder(&self) -> bool {
        self.block_dim == TILING_SINK_BLOCK_DIM
    }
}

/// The two states of an updatable kernel: in the task's memory, and as read by the stream.
#[derive(Clone, Copy, Debug)]
pub struct Latch {
    /// The value in the task's memory.
    pub task: Patch,
    /// Moment at which UPDATE wrote it.
    pub updated: Option<Stamp>,
    /// The value that the stream has read.
    pub read: Patch,
}
impl Latch {
    /// The state at launch.
    pub const NEW: Latch = Latch { task: Patch::PLACEHOLDER, updated: None, read: Patch::PLACEHOLDER };
    /// The stream reads the task. A value from an UPDATE that is not ordered before this moment is
    /// not seen.
    pub fn latch(&mut self, order: &Order, g: Gid) {
        let seen = self.updated.is_some_and(|u| order.before(u, g));
        self.read = if seen { self.task } else { Patch::PLACEHOLDER };
    }
}

/// Those of a stream's updatable tasks (by ascending position) whose position is in `from..to`.
pub fn within(updatable: &[(u32, u32)], from: u64, to: u64) -> &[(u32, u32)] {
    let begin = updatable.partition_point(|(p, _)| u64::from(*p) < from);
    let end = updatable.partition_point(|(p, _)| u64::from(*p) < to);
    &updatable[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn ranges_of_positions() {
        let u = [(2, 20), (5, 50), (9, 90)];
        assert_eq!(within(&u, 0, 2), &[]);
        assert_eq!(within(&u, 2, 6), &[(2, 20), (5, 50)]);
        assert_eq!(within(&u, 9, 10), &[(9, 90)]);
    }
}
