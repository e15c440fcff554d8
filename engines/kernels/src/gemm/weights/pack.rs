//! The forms in which weights are stored.
use super::PANEL;

/// Packs a row-major matrix `[k, n]` of bytes into panels `[ceil(n / 16), k, 16]`; columns beyond
/// `n` are zero.
pub fn pack_bytes(x2: &[i8], k: usize, n: usize) -> Vec<i8> {
    let mut panels = vec![0; n.div_ceil(PANEL) * k * PANEL];
    for (p, panel) in panels.chunks_exact_mut((k * PANEL).max(1)).enumerate() {
        let columns = p * PANEL..((p + 1) * PANEL).min(n);
        for (row, to) in panel.as_chunks_mut::<PANEL>().0.iter_mut().enumerate() {
            to[..columns.len()].copy_from_slice(&x2[row * n + columns.start..row * n + columns.end]);
        }
    }
    panels
}

/// Packs a row-major matrix `[k, n]` of numbers from -8 to 7 into panels `[ceil(n / 16), ceil(k /
/// 2), 16]`: the lower four bits of a byte hold an even row, the upper ones the odd row after it,
/// each plus eight. Rows and columns beyond the matrix are zero.
pub fn pack_halves(x2: &[i8], k: usize, n: usize) -> Vec<u8> {
    let bytes = pack_bytes(x2, k, n);
    let half = |v: i8| (v + 8) as u8 & 15;
    let mut panels = Vec::with_capacity(n.div_ceil(PANEL) * k.div_ceil(2) * PANEL);
    for panel in bytes.chunks_exact((k * PANEL).max(1)) {
        for two in panel.chunks(2 * PANEL) {
            let (even, odd) = two.split_at(PANEL);
            panels.extend((0..PANEL).map(|j| half(even[j]) | half(odd.get(j).copied().unwrap_or(0)) << 4));
        }
    }
    panels
}
