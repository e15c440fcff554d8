//! Transforms the input bytes. Both channels of a pair are transformed side by side in the halves
//! of words. A vector has sixteen consecutive tiles, which may be the end of one row of tiles,
//! whole rows and the beginning of another. Borders are inserted when the bytes are read; there is
//! no copy.
/// Transforms eight tiles at a time.
#[cfg(target_arch = "x86_64")]
mod narrow;

#[cfg(target_arch = "x86_64")]
use super::super::fill::masked::within;
use super::ring::seen;
use super::{LANES, PLACES, SIDE, STEP, Tiles};
use std::ops::Range;

/// The transformed input of a strip of tiles, of all channels. `bytes` holds what makes the bytes
/// unsigned (`flip`) and the value of the border (`zero`).
pub(super) fn change(t: &Tiles, x: &[u8], bytes: (u8, u8), first: usize, vectors: usize, to: &mut [u32]) {
    let size: usize = t.spec.input.iter().product();
    let wide = t.vectors * LANES;
    assert!(vectors <= t.vectors && to.len() >= (PLACES - 1) * t.pitch() + t.pairs() * wide);
    for v in 0..vectors {
        let tile = (first + v) * LANES;
        let at = |pair: usize| pair * wide + v * LANES;
        #[cfg(target_arch = "x86_64")]
        {
            let level = crate::simd::level();
            if level >= crate::simd::Level::Avx512 {
                let mut room = [Segment::default(); LANES];
                let segments = segments(t, tile..tile + LANES, &mut room);
                for (pair, x) in x.chunks(2 * size).enumerate() {
                    // SAFETY: the level is only reported if the machine has its features. The
                    // output has a vector for each place at these distances, and `segments` are for
                    // planes of this size.
                    unsafe { on_avx512(x, size, bytes, segments, t.pitch(), &mut to[at(pair)..]) };
                }
                continue;
            }
            if level >= crate::simd::Level::Avx2 {
                for lane in (0..LANES).step_by(LANES / 2) {
                    let mut room = [Segment::default(); LANES];
                    let segments = segments(t, tile + lane..tile + lane + LANES / 2, &mut room);
                    for pair in 0..t.pairs() {
                        // SAFETY: as above.
                        unsafe {
                            narrow::change(x, pair, size, bytes, segments, t.pitch(), &mut to[at(pair) + lane..])
                        };
                    }
                }
                continue;
            }
        }
        for (pair, x) in x.chunks(2 * size).enumerate() {
            plain(t, x, bytes, tile, &mut to[at(pair)..]);
        }
    }
}

crate::multiversion! {
    fn plain(t: &Tiles, x: &[u8], bytes: (u8, u8), tile: usize, to: &mut [u32]) {
        let ([_, height, width], [_, above, before]) = (t.spec.input, t.spec.pad_before);
        let mut half = [[[[0i16; LANES]; 2]; SIDE]; SIDE];
        for (i, half) in half.iter_mut().enumerate() {
            for channel in 0..2 {
                for lane in 0..LANES {
                    let (row, column) = ((tile + lane) / t.across * STEP + i, (tile + lane) % t.across * STEP);
                    let y = row.checked_sub(above).filter(|y| *y < height);
                    let d: [i16; SIDE] = std::array::from_fn(|j| {
                        let place = y.zip((column + j).checked_sub(before).filter(|x| *x < width));
                        let byte = place.and_then(|(y, c)| x.get((channel * height + y) * width + c));
                        i16::from(byte.map_or(bytes.1, |v| v ^ bytes.0))
                    });
                    for (half, v) in half.iter_mut().zip(seen(d)) {
                        half[channel][lane] = v;
                    }
                }
            }
        }
        for j in 0..SIDE {
            for lane in 0..LANES {
                let [a, b] = [0, 1].map(|channel| seen::<i16>(std::array::from_fn(|i| half[i][j][channel][lane])));
                for i in 0..SIDE {
                    to[(i * SIDE + j) * t.pitch() + lane] = u32::from(a[i] as u16) | u32::from(b[i] as u16) << 16;
                }
            }
        }
    }
}

/// Tiles of a vector that are consecutive in one row of tiles.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Default)]
struct Segment {
    /// Which bytes of the vector are columns of the input: once for the four columns of each tile,
    /// and once for the next four.
    masks: [u64; 2],
    /// Offset in the plane of byte 0 of the vector, for the tiles' own columns in the first row.
    from: isize,
    /// Distance between rows, in bytes.
    width: usize,
    /// Which of the six rows are rows of the input.
    rows: [bool; SIDE],
}

/// The segments of up to sixteen tiles.
#[cfg(target_arch = "x86_64")]
fn segments<'r>(t: &Tiles, tiles: Range<usize>, room: &'r mut [Segment; LANES]) -> &'r [Segment] {
    let ([_, height, width], [_, above, before]) = (t.spec.input, t.spec.pad_before);
    let (tile, end) = (tiles.start, tiles.end.min(t.across * t.down));
    let (mut at, mut n) = (tile, 0);
    while at < end {
        let (row, column) = (at / t.across * STEP, at % t.across * STEP);
        let (lane, here) = (at - tile, (t.across - at % t.across).min(end - at));
        let lanes = (u64::MAX >> (64 - here * STEP)) << (lane * STEP);
        let first = column as isize - before as isize - (lane * STEP) as isize;
        room[n] = Segment {
            masks: [first, first + STEP as isize].map(|c| within(c, width) & lanes),
            from: (row as isize - above as isize) * width as isize + first,
            width,
            rows: std::array::from_fn(|i| (above..above + height).contains(&(row + i))),
        };
        (at, n) = (at + here, n + 1);
    }
    &room[..n]
}

/// Transforms one vector of one pair of channels. If the second channel does not exist, any values
/// can take its place, because its filter is zero.
///
/// # Safety
/// The machine must have the features, the segments must be for planes of `size` bytes, and `to`
/// must have a vector of words at each of the 36 multiples of `pitch`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn on_avx512(x: &[u8], size: usize, (flip, zero): (u8, u8), segments: &[Segment], pitch: usize, to: &mut [u32]) {
    use super::ring::wide::Halves;
    use std::arch::x86_64::*;
    assert!(x.len() >= size && to.len() >= (PLACES - 1) * pitch + LANES);
    let (flips, beside) = (_mm512_set1_epi8(flip as i8), _mm512_set1_epi8((zero ^ flip) as i8));
    let (low, even) = (_mm512_set1_epi16(0xff), _mm512_set1_epi32(0xffff));
    let planes = [x.as_ptr(), if x.len() >= 2 * size { x.as_ptr().wrapping_add(size) } else { x.as_ptr() }];
    let row = |i: usize| {
        let [mut a, mut e, mut b, mut f] = [beside; 4];
        for s in segments {
            if !s.rows[i] {
                continue;
            }
            let at = s.from + (i * s.width) as isize;
            let first = planes[0].cast::<i8>().wrapping_offset(at);
            let second = planes[1].cast::<i8>().wrapping_offset(at);
            // SAFETY: this is a row of the input, and the masks select columns of it.
            unsafe {
                a = _mm512_mask_loadu_epi8(a, s.masks[0], first);
                e = _mm512_mask_loadu_epi8(e, s.masks[1], first.wrapping_add(STEP));
                b = _mm512_mask_loadu_epi8(b, s.masks[0], second);
                f = _mm512_mask_loadu_epi8(f, s.masks[1], second.wrapping_add(STEP));
            }
        }
        // Combines the lower halves of two words, and the upper halves. A set bit of `even` selects
        // the first operand, a clear bit the second.
        let ab = _mm512_ternarylogic_epi32::<0xca>(even, a, _mm512_slli_epi32::<16>(b));
        let cd = _mm512_ternarylogic_epi32::<0xca>(even, _mm512_srli_epi32::<16>(a), b);
        let ef = _mm512_ternarylogic_epi32::<0xca>(even, e, _mm512_slli_epi32::<16>(f));
        let (ab, cd) = (_mm512_xor_si512(ab, flips), _mm512_xor_si512(cd, flips));
        let ef = _mm512_xor_si512(ef, flips);
        seen([
            Halves(_mm512_and_si512(ab, low)),
            Halves(_mm512_srli_epi16::<8>(ab)),
            Halves(_mm512_and_si512(cd, low)),
            Halves(_mm512_srli_epi16::<8>(cd)),
            Halves(_mm512_and_si512(ef, low)),
            Halves(_mm512_srli_epi16::<8>(ef)),
        ])
    };
    // Called one by one: a function that maps a closure over an array lacks the target features.
    let half: [[Halves; SIDE]; SIDE] = [row(0), row(1), row(2), row(3), row(4), row(5)];
    let column = |j: usize| [half[0][j], half[1][j], half[2][j], half[3][j], half[4][j], half[5][j]];
    for j in 0..SIDE {
        for (i, x) in seen(column(j)).into_iter().enumerate() {
            // SAFETY: sixteen words of the output.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().add((i * SIDE + j) * pitch).cast(), x.0) };
        }
    }
}
