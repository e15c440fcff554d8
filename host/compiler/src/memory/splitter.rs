//! `GraphMemSplitter`: cuts a feature map into pieces of at least a given size, at offsets that no
//! block crosses (facts 2.9). Each piece is allocated separately at load, so that no device needs
//! one range as large as the whole.

/// Minimum size of a piece in bytes (200 MiB).
pub const LEAST_PIECE: u64 = 200 << 20;

/// A piece of a feature map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte.
    pub base: u64,
    /// Size in bytes.
    pub size: u64,
}

/// Cuts `arena` bytes into pieces, given the offset and size of every block. Only the last piece
/// may be smaller than `least` bytes. Cost: a sort of the blocks.
pub fn split(blocks: &[(u64, u64)], arena: u64, least: u64) -> Vec<Piece> {
    let mut sorted: Vec<(u64, u64)> = blocks.iter().copied().filter(|(_, size)| *size > 0).collect();
    sorted.sort_unstable();
    let mut out: Vec<Piece> = Vec::new();
    let (mut base, mut reach) = (0u64, 0u64);
    for (offset, size) in sorted {
        if offset >= reach && offset.saturating_sub(base) >= least.max(1) {
            out.push(Piece { base, size: offset - base });
            base = offset;
        }
        reach = reach.max(offset.saturating_add(size));
    }
    if arena > base {
        out.push(Piece { base, size: arena - base });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_crosses_a_cut_and_pieces_fill_the_arena() {
        let blocks = [(0, 512), (512, 1024), (1024, 1024), (2048, 512), (2560, 512), (600, 0)];
        let pieces = split(&blocks, 3072, 1024);
        assert_eq!(pieces, [Piece { base: 0, size: 2048 }, Piece { base: 2048, size: 1024 }]);
        for p in &pieces {
            let inside = |(o, s): &(u64, u64)| *o >= p.base && o + s <= p.base + p.size;
            let outside = |(o, s): &(u64, u64)| o + s <= p.base || *o >= p.base + p.size;
            assert!(blocks.iter().filter(|b| b.1 > 0).all(|b| inside(b) || outside(b)));
        }
        assert_eq!(split(&blocks, 3072, 1 << 20), [Piece { base: 0, size: 3072 }]);
        assert_eq!(split(&[], 0, 512), []);
    }
}
