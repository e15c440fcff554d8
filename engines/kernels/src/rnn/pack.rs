//! The packed form of a cell's weights, the same on every machine.
//!
//! Hidden units are divided into blocks of sixteen; the last one is padded with zeros. The weights
//! of the input form, for each block and each of its gates, a panel of I rows of sixteen numbers:
//! element (gate g, unit j, input k) of G gates is at `((j / 16 * G + g) * I + k) * 16 + j % 16`.
//! The weights of the state are read for all gates of a block at once, so their rows hold the gates
//! side by side: `((j / 16 * H + k) * G + g) * 16 + j % 16`. A GRU's third gate needs the first
//! two, so its weights are in a separate section after those of the first two.

/// Hidden units of a block.
pub const LANES: usize = 16;

/// The sections of the state's weights: first gate and number of gates of each section.
pub fn sections(gates: usize) -> &'static [(usize, usize)] {
    match gates {
        3 => &[(0, 2), (2, 1)],
        4 => &[(0, 4)],
        _ => &[(0, 1)],
    }
}

/// Number of elements of the packed input weights of one direction.
pub fn packed_input_len(gates: usize, hidden: usize, input: usize) -> usize {
    hidden.div_ceil(LANES) * LANES * gates * input
}

/// Number of elements of the packed state weights of one direction.
pub fn packed_recurrent_len(gates: usize, hidden: usize) -> usize {
    packed_input_len(gates, hidden, hidden)
}

/// Packs the input weights `[gates * hidden, input]` of one direction. `out` must have
/// [`packed_input_len`] elements.
pub fn pack_input<T: Copy + Default>(w: &[T], [gates, hidden, input]: [usize; 3], out: &mut [T]) {
    out.fill(T::default());
    for g in 0..gates {
        for j in 0..hidden {
            let row = &w[(g * hidden + j) * input..][..input];
            let at = (j / LANES * gates + g) * input * LANES + j % LANES;
            for (k, v) in row.iter().enumerate() {
                out[at + k * LANES] = *v;
            }
        }
    }
}

/// Packs the state weights `[gates * hidden, hidden]` of one direction. `out` must have
/// [`packed_recurrent_len`] elements.
pub fn pack_recurrent<T: Copy + Default>(r: &[T], [gates, hidden]: [usize; 2], out: &mut [T]) {
    out.fill(T::default());
    let mut start = 0;
    for &(first, count) in sections(gates) {
        for g in 0..count {
            for j in 0..hidden {
                let row = &r[((first + g) * hidden + j) * hidden..][..hidden];
                let at = start + (j / LANES * hidden * count + g) * LANES + j % LANES;
                for (k, v) in row.iter().enumerate() {
                    out[at + k * count * LANES] = *v;
                }
            }
        }
        start += packed_input_len(count, hidden, hidden);
    }
}
