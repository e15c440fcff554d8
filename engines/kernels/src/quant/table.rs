//! A function of one byte as the table of its 256 values.

/// The values of a function of bytes, in the order of the bytes as unsigned numbers.
pub type Table = [u8; 256];

/// `y[i] = table[x[i]]`, up to the shorter length of the two.
pub fn look_up(table: &Table, x: &[u8], y: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level::vnni() && is_x86_feature_detected!("avx512vbmi") {
        // SAFETY: the features were checked.
        return unsafe { by_registers(table, x, y) };
    }
    one_by_one(table, x, y);
}

fn one_by_one(table: &Table, x: &[u8], y: &mut [u8]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = table[usize::from(*x)];
    }
}

/// Keeps the table in four registers: each half of it is looked up by the low seven bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn by_registers(table: &Table, x: &[u8], y: &mut [u8]) {
    use std::arch::x86_64::*;
    let parts = table.as_chunks::<64>().0;
    // SAFETY: 64 bytes can be read from each part.
    let t: [__m512i; 4] = std::array::from_fn(|k| unsafe { _mm512_loadu_si512(parts[k].as_ptr().cast()) });
    let n = x.len().min(y.len());
    let ((xs, x_end), (ys, y_end)) = (x[..n].as_chunks::<64>(), y[..n].as_chunks_mut::<64>());
    for (x, y) in xs.iter().zip(ys) {
        // SAFETY: 64 bytes can be read from `x` and written to `y`.
        unsafe {
            let x = _mm512_loadu_si512(x.as_ptr().cast());
            let low = _mm512_permutex2var_epi8(t[0], x, t[1]);
            let high = _mm512_permutex2var_epi8(t[2], x, t[3]);
            let y_new = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
            _mm512_storeu_si512(y.as_mut_ptr().cast(), y_new);
        }
    }
    one_by_one(table, x_end, y_end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn every_byte_becomes_its_value_on_every_level() {
        let table: Table = std::array::from_fn(|i| (i * 167 + 13) as u8);
        let x: Vec<u8> = (0..1003u32).map(|i| (i * 37 % 256) as u8).collect();
        for level in Level::available() {
            let mut y = vec![0; x.len()];
            with_level(level, || look_up(&table, &x, &mut y));
            assert!(x.iter().zip(&y).all(|(x, y)| *y == (usize::from(*x) * 167 + 13) as u8), "{level:?}");
        }
    }
}
