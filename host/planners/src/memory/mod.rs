//! Offset assigners: blocks with lives and sizes in, offsets of a small arena out.
//!
//! The stages of one call, each in a file of its own:
//! - `block`: what comes in (`Buffer`, `Block`) and what goes out (`Plan`), errors, effort;
//! - `conflicts`: which blocks live together, by interval (`IntervalConflicts`) or by the order
//!   of several streams (`StreamConflicts`);
//! - `lower_bound`: the greatest live sum and who holds it; `clique`: the same where streams say
//!   who lives together;
//! - the assigners, each a pure function of the same problem: `MaxBlockMemAssigner` and
//!   `BinaryBlockMemAssigner` as the design documents have them, sweeps and greedy orders, and,
//!   for intervals, packings of buffers that hand their memory over exactly or nearly so, plans
//!   around the fullest stretches of time, exact search and separation by guided local search;
//! - `HybridMemAssigner`: runs them side by side and keeps the smallest arena.
//!
//! Every search counts its work in steps, never in time: the same input gives the same plan on
//! every machine and at every number of threads. Several memory types are several calls.
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
/// CSV files of buffers in, CSV files with offsets out (`ge plan memory`).
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

/// Places buffers that live over intervals; proven by [`crate::memory::check_offsets`] before it
/// is given out.
///
/// # Errors
/// [`AssignError`]: an empty life, an alignment of 0, sums beyond `u64`, a cancelled run.
pub fn assign(buffers: &[Buffer], options: &AssignOptions, watch: &Watch<'_>) -> Result<Plan, AssignError> {
    let blocks: Vec<Block> = buffers.iter().map(Block::from).collect();
    HybridMemAssigner::new(*options).assign(&blocks, None, watch)
}

/// Places blocks of a graph. Without `conflicts` blocks live together where their intervals meet;
/// with it, where it says so (several streams), and the intervals are those of one linear order
/// that the streams' order allows.
///
/// What shares one address (a symbol, a continuous run with its inner offsets) is one block;
/// [`Block::reuse`] `false` keeps a block to itself; [`Block::fixed`] pins it.
///
/// # Errors
/// As [`assign`]; also two pinned blocks that live together and overlap.
pub fn assign_blocks(
    blocks: &[Block],
    conflicts: Option<&dyn Conflicts>,
    options: &AssignOptions,
    watch: &Watch<'_>,
) -> Result<Plan, AssignError> {
    HybridMemAssigner::new(*options).assign(blocks, conflicts, watch)
}
