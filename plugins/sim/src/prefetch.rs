//! Look-ahead of streams: when blocks and key of a kernel are latched, and what UPDATE changes.
//!
//! A kernel's blocks and key are latched when the task `prefetch_num` places ahead of it on its
//! stream starts; the first ones of a stream when the stream starts or a jump lands before them. A
//! wait starts on reaching the head, before its event. An UPDATE that comes after that, or that
//! nothing orders before that, is too late: the kernel starts with the placeholder, which is an
//! error in every schedule, not only in those in which it would be late by chance. Each launch
//! resets blocks and key to the placeholder, and so does the kernel's run: in a loop each round
//! needs its own UPDATE.
use crate::order::{Order, Stamp};
use crate::stream::Gid;
use ge_plugin_api::task::TILING_SINK_BLOCK_DIM;

/// Blocks and key as a task holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Blocks.
    pub block_dim: u32,
    /// Key.
    pub tiling_key: u64,
}
impl Patch {
    /// Not updated yet.
    pub const PLACEHOLDER: Patch = Patch { block_dim: TILING_SINK_BLOCK_DIM, tiling_key: 0 };
    /// Whether it is still the placeholder.
    pub fn is_placeholder(&self) -> bool {
        self.block_dim == TILING_SINK_BLOCK_DIM
    }
}

/// The two states of an updatable kernel: as the task in memory has it, and as the stream has read
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Latch {
    /// In the task.
    pub task: Patch,
    /// When UPDATE wrote it.
    pub updated: Option<Stamp>,
    /// Read ahead.
    pub read: Patch,
}
impl Latch {
    /// As at launch.
    pub const NEW: Latch = Latch { task: Patch::PLACEHOLDER, updated: None, read: Patch::PLACEHOLDER };
    /// The stream reads the task: what an UPDATE that nothing orders before this wrote, is not
    /// seen.
    pub fn latch(&mut self, order: &Order, g: Gid) {
        let seen = self.updated.is_some_and(|u| order.before(u, g));
        self.read = if seen { self.task } else { Patch::PLACEHOLDER };
    }
}

/// Of a stream's updatable tasks (ascending positions), those within `from..to`.
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
