//! The greatest live sum: no plan can be smaller, and the blocks that are live then are the ones to
//! shrink.

use super::block::{AssignError, Block};

/// A block that is live when the live sum is greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeakHolder {
    /// Index in the list of blocks.
    pub index: usize,
    /// The caller's id of the block.
    pub id: u64,
    /// Size in bytes, rounded up to its alignment.
    pub size: u64,
}

/// Greatest sum of sizes that are live at one instant. Each size is rounded up to its alignment,
/// except for pinned blocks. A block without reuse is live for the whole time. Time `n log n`.
///
/// # Errors
/// Fails with [`AssignError::TooLarge`] or [`AssignError::ZeroAlign`].
pub fn lower_bound(blocks: &[Block]) -> Result<u64, AssignError> {
    Ok(peak(blocks)?.1)
}

/// The blocks that are live at the first instant of the greatest live sum, largest first.
///
/// # Errors
/// Fails as [`lower_bound`] does.
pub fn peak_holders(blocks: &[Block]) -> Result<Vec<PeakHolder>, AssignError> {
    let (instant, _) = peak(blocks)?;
    let mut holders = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let size = rounded_size(block)?;
        let alive = !block.reuse || (block.lower <= instant && instant < block.upper);
        if alive && size > 0 {
            holders.push(PeakHolder { index, id: block.id, size });
        }
    }
    holders.sort_by_key(|holder| (std::cmp::Reverse(holder.size), holder.index));
    Ok(holders)
}

/// The size of a block rounded up to its alignment.
pub(super) fn rounded_size(block: &Block) -> Result<u64, AssignError> {
    if block.align == 0 {
        return Err(AssignError::ZeroAlign { id: block.id });
    }
    block.size.checked_next_multiple_of(block.align).ok_or(AssignError::TooLarge { id: block.id })
}

/// First instant of the greatest live sum, and that sum.
fn peak(blocks: &[Block]) -> Result<(u64, u64), AssignError> {
    let mut always = 0_u64;
    let mut all = 0_u64;
    let mut events: Vec<(u64, bool, u64)> = Vec::with_capacity(blocks.len().saturating_mul(2));
    for block in blocks {
        // The size of a pinned block is not rounded up, because another block may be pinned right
        // after it.
        let size = if block.fixed.is_some() { block.size } else { rounded_size(block)? };
        all = all
            .checked_add(size)
            .filter(|&sum| i64::try_from(sum).is_ok())
            .ok_or(AssignError::TooLarge { id: block.id })?;
        if !block.reuse {
            always += size;
        } else if size > 0 && block.lower < block.upper {
            events.push((block.lower, true, size));
            events.push((block.upper, false, size));
        }
    }
    // At the same instant, ends (false) sort before beginnings, because intervals are half-open.
    events.sort_unstable();
    let (mut live, mut best) = (always, (0, always));
    for (instant, begins, size) in events {
        if begins {
            live += size;
            if live > best.1 {
                best = (instant, live);
            }
        } else {
            live -= size;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::{lower_bound, peak_holders};
    use crate::memory::{AssignError, Block, Buffer};

    fn block(id: u64, lower: u64, upper: u64, size: u64) -> Block {
        Block::from(&Buffer { id, lower, upper, size, align: 512 })
    }

    #[test]
    fn the_peak_counts_rounded_sizes_of_those_alive_at_once() {
        let blocks = [block(1, 0, 2, 100), block(2, 1, 3, 513), block(3, 2, 4, 1024), block(4, 3, 9, 1)];
        assert_eq!(lower_bound(&blocks), Ok(2048));
        let ids: Vec<u64> = peak_holders(&blocks).expect("holders").iter().map(|holder| holder.id).collect();
        assert_eq!(ids, [2, 3]);
    }

    #[test]
    fn a_block_without_reuse_counts_everywhere() {
        let mut blocks = [block(1, 0, 1, 512), block(2, 5, 6, 512)];
        blocks[0].reuse = false;
        assert_eq!(lower_bound(&blocks), Ok(1024));
    }

    #[test]
    fn blocks_at_fixed_places_count_their_own_bytes() {
        let at = |id, size, align, fixed| Block { align, fixed: Some(fixed), ..block(id, 0, 2, size) };
        // The second block lies right after the first, which ends at no multiple of 96.
        let blocks = [at(1, 100, 96, 0), at(2, 28, 4, 100)];
        assert_eq!(lower_bound(&blocks), Ok(128));
    }

    #[test]
    fn sums_beyond_63_bits_are_refused() {
        let blocks = [block(1, 0, 1, u64::MAX / 4), block(2, 0, 1, u64::MAX / 4), block(3, 5, 6, 512)];
        assert_eq!(lower_bound(&blocks), Err(AssignError::TooLarge { id: 2 }));
        assert_eq!(lower_bound(&[block(9, 0, 1, u64::MAX)]), Err(AssignError::TooLarge { id: 9 }));
    }
}
