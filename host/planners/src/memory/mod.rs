//! Offset assigners: they get blocks with lifetimes and sizes and return offsets in a small arena.
//!
//! The parts of one call, each in its own file:
//! - `block`: the input (`Buffer`, `Block`), the output (`Plan`), errors, effort;
//! - `conflicts`: which blocks are live together, by interval (`IntervalConflicts`) or by the order
//!   of several streams (`StreamConflicts`);
//! - `lower_bound`: the greatest live sum and the blocks that make it up; `clique`: the same where
//!   streams determine which blocks are live together;
//! - the assigners, each a pure function of the same problem: `MaxBlockMemAssigner` and
//!   `BinaryBlockMemAssigner` as the design documents describe them, sweeps and greedy orders, and,
//!   for intervals, packings of buffers that hand their memory over exactly or nearly so, plans
//!   around the fullest stretches of time, exact search, and separation by guided local search;
//! - `HybridMemAssigner`: runs them in parallel and keeps the smallest arena.
//!
//! Every search counts its work in steps, never in time: the same input gives the same plan on
//! every machine and with any number of threads. Each memory type is planned by a separate call.
//!
//! Source: document 003 §5.4; facts 2.3 to 2.6.

mod band_choice;
mod band_order;
mod binary_block_mem_assigner;
pub mod block;
/// The independent check that no two live blocks overlap.
pub mod check_offsets;
pub mod conflicts;
mod clique;
mod exact;
mod greedy;
mod hand_over;
mod hot;
mod hybrid_mem_assigner;
pub mod lower_bound;
/// CSV files of buffers, and CSV files with their offsets (`ge plan memory`).
pub mod plan_file;
mod max_block_mem_assigner;
mod pool_walk;
mod pq_tree;
mod problem;
mod search;
mod separate;
mod skyline;
mod sweep;
mod tiling;

pub use binary_block_mem_assigner::BinaryBlockMemAssigner;
pub use block::{AssignError, AssignOptions, Block, Buffer, MemoryEffort, Plan, Watch};
pub use conflicts::{Conflicts, IntervalConflicts, NodeOrder, StreamConflicts, StreamUse};
pub use hybrid_mem_assigner::HybridMemAssigner;
pub use lower_bound::{PeakHolder, lower_bound, peak_holders};
pub use max_block_mem_assigner::MaxBlockMemAssigner;

/// Places buffers that live over intervals. [`crate::memory::check_offsets`] verifies the plan
/// before it is returned.
///
/// # Errors
/// Returns an [`AssignError`] for an empty lifetime, an alignment of 0, sums beyond `u64`, or a
/// cancelled run.
pub fn assign(buffers: &[Buffer], options: &AssignOptions, watch: &Watch<'_>) -> Result<Plan, AssignError> {
    let blocks: Vec<Block> = buffers.iter().map(Block::from).collect();
    HybridMemAssigner::new(*options).assign(&blocks, None, watch)
}

/// Places the blocks of a graph. Without `conflicts`, blocks are live together if their intervals
/// intersect. With it (several streams), `conflicts` decides, and the intervals belong to one
/// linear order that the streams' order allows.
///
/// Everything that shares one address (a symbol, a continuous run with its inner offsets) is one
/// block. [`Block::reuse`] `false` keeps the memory of a block for this block alone;
/// [`Block::fixed`] pins it.
///
/// # Errors
/// Fails as [`assign`] does, and also if two pinned blocks are live together and overlap.
pub fn assign_blocks(
    blocks: &[Block],
    conflicts: Option<&dyn Conflicts>,
    options: &AssignOptions,
    watch: &Watch<'_>,
) -> Result<Plan, AssignError> {
    HybridMemAssigner::new(*options).assign(blocks, conflicts, watch)
}
