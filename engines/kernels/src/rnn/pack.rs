//! The packed form of a cell's weights, the same on every machine.
//!
//! Hidden units are taken in blocks of sixteen, the last one filled up with zeros. The weights of
//! the input, for each block and gate of it, are a panel of I rows of sixteen numbers: element
//! (gate g, unit j, input k) of G gates stands at `((j / 16 * G + g) * I + k) * 16 + j % 16`. Those
//! of the state are read for all gates of a block at once, so their rows have the gates side by
//! side: `((j / 16 * H + k) * G + g) * 16 + j % 16`. A GRU's third gate needs the first two, and
//! its weights stand in a section of its own behind those of the first two.

/// Hidden units of a block.
pub const LANES: usize = 16;

/// The sections of the state's weights: first gate and number of gates of each.
pub fn sections(gates: usize) -> &'static [(usize, usize)] {
    match gates {
        3 => &[(0, 2), (2, 1)],
        4 => &[(0, 4)],
        _ => &[(0, 1)],
    }
}

/// Elements of the packed weights of the input, for one direction.
pub fn packed_input_len(gates: usize, hidden: usize, input: usize) -> usize {
    hidden.div_ceil(LANES) * LANES * gates * input
}

/// Elements of the packed weights of the state, for one direction.
pub fn packed_recurrent_len(gates: usize, hidden: usize) -> usize {
    packed_input_len(gates, hidden, hidden)
}

/// Packs the weights of the input, `[gates * hidden, input]` of one direction;
/// `out` has [`packed_input_len`] elements.
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

/// Packs the weights of the state, `[gates * hidden, hidden]` of one direction;
/// `out` has [`packed_recurrent_len`] elements.
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
