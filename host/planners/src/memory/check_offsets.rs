//! The independent check of a plan: no two blocks overlap both in time and in space. It shares
//! nothing with the planners except the types that it reads.

use std::collections::BTreeMap;

use crate::memory::{Block, Conflicts};

/// What is wrong with a plan. Blocks are identified by their `id`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffsetError {
    /// The number of offsets differs from the number of blocks.
    #[error("{offsets} offsets for {blocks} blocks")]
    Count {
        /// Number of offsets in the plan.
        offsets: usize,
        /// Number of blocks.
        blocks: usize,
    },
    /// An offset is not a multiple of its alignment.
    #[error("block {id} lies at {offset}, no multiple of {align}")]
    Unaligned {
        /// Id of the block.
        id: u64,
        /// Its offset.
        offset: u64,
        /// Its alignment.
        align: u64,
    },
    /// A block ends beyond the arena or beyond `u64`.
    #[error("block {id} at {offset} with {size} bytes ends beyond the arena of {arena}")]
    BeyondArena {
        /// Id of the block.
        id: u64,
        /// Its offset.
        offset: u64,
        /// Its size in bytes.
        size: u64,
        /// Size of the arena according to the plan, in bytes.
        arena: u64,
    },
    /// A pinned block is not at its pinned offset.
    #[error("block {id} is pinned to {pinned} and lies at {offset}")]
    Moved {
        /// Id of the block.
        id: u64,
        /// Its pinned offset.
        pinned: u64,
        /// Its offset in the plan.
        offset: u64,
    },
    /// Two blocks share bytes while both are live.
    #[error(
        "blocks {first} (offset {first_offset}, {first_size} bytes) and {second} (offset {second_offset}, {second_size} bytes) overlap while both live"
    )]
    Overlap {
        /// Id of one block.
        first: u64,
        /// Its offset.
        first_offset: u64,
        /// Its size in bytes.
        first_size: u64,
        /// Id of the other block.
        second: u64,
        /// Its offset.
        second_offset: u64,
        /// Its size in bytes.
        second_size: u64,
    },
}

/// Verifies that `offsets` are valid for `blocks` within `arena`. Without `conflicts`, the
/// intervals decide which blocks are live together (time `n log n`); with it, every pair that
/// shares bytes is queried.
///
/// # Errors
/// Returns the first error found.
pub fn check_offsets(
    blocks: &[Block],
    offsets: &[u64],
    arena: u64,
    conflicts: Option<&dyn Conflicts>,
) -> Result<(), OffsetError> {
    if blocks.len() != offsets.len() {
        return Err(OffsetError::Count { offsets: offsets.len(), blocks: blocks.len() });
    }
    for (block, &offset) in blocks.iter().zip(offsets) {
        if block.align == 0 || offset % block.align != 0 {
            return Err(OffsetError::Unaligned { id: block.id, offset, align: block.align });
        }
        if offset.checked_add(block.size).is_none_or(|end| end > arena) {
            return Err(OffsetError::BeyondArena { id: block.id, offset, size: block.size, arena });
        }
        if let Some(pinned) = block.fixed.filter(|&pinned| pinned != offset) {
            return Err(OffsetError::Moved { id: block.id, pinned, offset });
        }
    }
    match conflicts {
        None => sweep_time(blocks, offsets),
        Some(relation) => sweep_space(blocks, offsets, relation),
    }
}

fn overlap(blocks: &[Block], offsets: &[u64], a: usize, b: usize) -> OffsetError {
    OffsetError::Overlap {
        first: blocks[a].id,
        first_offset: offsets[a],
        first_size: blocks[a].size,
        second: blocks[b].id,
        second_offset: offsets[b],
        second_size: blocks[b].size,
    }
}

/// Walks through time with the live blocks in a map by offset; a new block must not overlap its
/// neighbours. A block without reuse is live for the whole time.
fn sweep_time(blocks: &[Block], offsets: &[u64]) -> Result<(), OffsetError> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(blocks.len().saturating_mul(2));
    for (at, block) in blocks.iter().enumerate().filter(|(_, block)| block.size > 0) {
        let (lower, upper) = if block.reuse { (block.lower, block.upper) } else { (0, u64::MAX) };
        if lower < upper {
            events.push((lower, true, at));
            events.push((upper, false, at));
        }
    }
    events.sort_unstable();
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, begins, at) in events {
        let offset = offsets[at];
        if !begins {
            live.remove(&offset);
            continue;
        }
        if let Some((&next, &other)) = live.range(offset..).next()
            && next < offset + blocks[at].size
        {
            return Err(overlap(blocks, offsets, other, at));
        }
        if let Some((&before, &other)) = live.range(..offset).next_back()
            && before + blocks[other].size > offset
        {
            return Err(overlap(blocks, offsets, other, at));
        }
        live.insert(offset, at);
    }
    Ok(())
}

/// Walks through the arena by offset; blocks that share bytes must not be live together.
fn sweep_space(blocks: &[Block], offsets: &[u64], relation: &dyn Conflicts) -> Result<(), OffsetError> {
    let mut order: Vec<usize> = (0..blocks.len()).filter(|&at| blocks[at].size > 0).collect();
    order.sort_by_key(|&at| (offsets[at], at));
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        open.retain(|&other| offsets[other] + blocks[other].size > offsets[at]);
        for &other in &open {
            let apart = blocks[other].reuse && blocks[at].reuse && !relation.live_together(other, at);
            if !apart {
                return Err(overlap(blocks, offsets, other, at));
            }
        }
        open.push(at);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{OffsetError, check_offsets};
    use crate::memory::{Block, Buffer};

    fn block(id: u64, lower: u64, upper: u64, size: u64) -> Block {
        Block::from(&Buffer { id, lower, upper, size, align: 4 })
    }

    #[test]
    fn touching_is_no_overlap_and_one_shared_byte_is() {
        let blocks = [block(7, 0, 3, 8), block(8, 2, 5, 8), block(9, 3, 6, 8)];
        assert_eq!(check_offsets(&blocks, &[0, 8, 0], 16, None), Ok(()));
        let error = check_offsets(&blocks, &[0, 4, 12], 20, None).expect_err("overlap");
        assert!(matches!(error, OffsetError::Overlap { first: 7, second: 8, .. }), "{error}");
        assert_eq!(error.to_string(), "blocks 7 (offset 0, 8 bytes) and 8 (offset 4, 8 bytes) overlap while both live");
    }

    #[test]
    fn a_small_block_inside_a_large_one_is_seen() {
        let blocks = [block(0, 0, 9, 32), block(1, 1, 2, 4), block(2, 3, 4, 4)];
        let error = check_offsets(&blocks, &[0, 32, 8], 36, None).expect_err("overlap");
        assert!(matches!(error, OffsetError::Overlap { first: 0, second: 2, .. }), "{error}");
    }

    #[test]
    fn alignment_arena_pins_and_reuse_are_checked() {
        let mut blocks = [block(0, 0, 2, 8), block(1, 2, 4, 8)];
        assert!(matches!(check_offsets(&blocks, &[0, 2], 16, None), Err(OffsetError::Unaligned { id: 1, .. })));
        assert!(matches!(check_offsets(&blocks, &[0, 4], 8, None), Err(OffsetError::BeyondArena { id: 1, .. })));
        blocks[1].fixed = Some(8);
        assert!(matches!(check_offsets(&blocks, &[0, 0], 8, None), Err(OffsetError::Moved { id: 1, .. })));
        blocks[1].fixed = None;
        blocks[0].reuse = false;
        assert!(matches!(
            check_offsets(&blocks, &[0, 0], 8, None),
            Err(OffsetError::Overlap { first: 0, second: 1, .. })
        ));
    }
}
