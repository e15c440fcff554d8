//! Sums of products of bytes to bytes, one scale for a run of them: what follows a convolution.

/// How sums become bytes: `y = saturate(round_half_even(sum * scale) + zero)`, the product in
/// double precision.
#[derive(Clone, Copy, Debug)]
pub struct Requantise<'a> {
    /// One, or one a channel.
    pub scale: &'a [f32],
    /// Zero point of the bytes.
    pub zero: i32,
    /// The least and the greatest byte.
    pub range: [i32; 2],
}

/// Turns the sums of one channel, to each of which `add` is added first, into bytes; unsigned ones
/// and signed ones alike.
pub fn requantise_row(sums: &[i32], add: i32, to: &Requantise<'_>, channel: usize, y: &mut [u8]) {
    let scale = to.scale.get(if to.scale.len() == 1 { 0 } else { channel }).copied().unwrap_or(1.0);
    let [low, high] = to.range;
    if !scale.is_finite() {
        for (y, s) in y.iter_mut().zip(sums) {
            let v = (f64::from(s.wrapping_add(add)) * f64::from(scale)).round_ties_even() + f64::from(to.zero);
            *y = v.clamp(f64::from(low), f64::from(high)) as i32 as u8;
        }
        return;
    }
    // Rounding keeps order, and the bounds are whole numbers: they can be held before.
    let one = One {
        add,
        scale: f64::from(scale),
        least: f64::from(low) - f64::from(to.zero),
        most: f64::from(high) - f64::from(to.zero),
        zero: to.zero,
    };
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level() >= crate::simd::Level::Avx512 {
        // SAFETY: the level is only reported when the machine has its features.
        unsafe { on_avx512(sums, one, y) };
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level() >= crate::simd::Level::Avx2 {
        // SAFETY: as above.
        unsafe { on_avx2(sums, one, y) };
        return;
    }
    plain(sums, one, y);
}

#[derive(Clone, Copy)]
struct One {
    add: i32,
    scale: f64,
    least: f64,
    most: f64,
    zero: i32,
}

crate::multiversion! {
    fn plain(sums: &[i32], one: One, y: &mut [u8]) {
        let mut whole = [0i32; 64];
        // Two loops over a block at a time: each of them is one over vectors.
        for (y, sums) in y.chunks_mut(whole.len()).zip(sums.chunks(whole.len())) {
            for (w, s) in whole.iter_mut().zip(sums) {
                let v = f64::from(s.wrapping_add(one.add)) * one.scale;
                let v = if v > one.least { v } else { one.least };
                let v = if v < one.most { v } else { one.most };
                // The bits of a sum with 1.5 * 2^52 hold a small number, rounded half to even.
                *w = ((v + 6_755_399_441_055_744.0).to_bits() as i32).wrapping_add(one.zero);
            }
            for (y, w) in y.iter_mut().zip(&whole) {
                *y = *w as u8;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn on_avx512(sums: &[i32], one: One, y: &mut [u8]) {
    use std::arch::x86_64::*;
    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    let (add, zero) = (_mm512_set1_epi32(one.add), _mm512_set1_epi32(one.zero));
    let (scale, least, most) = (_mm512_set1_pd(one.scale), _mm512_set1_pd(one.least), _mm512_set1_pd(one.most));
    let half = |s: __m256i| {
        let v = _mm512_mul_pd(_mm512_cvtepi32_pd(s), scale);
        _mm512_cvt_roundpd_epi32::<NEAREST>(_mm512_min_pd(_mm512_max_pd(v, least), most))
    };
    // In single precision the product is off by less than two parts in 2^24, and between the bounds,
    // which are less than 2^10, by less than 2^-13: it becomes the same whole number, but for
    // products that near to the middle between two. Scale and bounds are exact in single precision.
    let single = |v: f64| _mm512_set1_ps(v as f32);
    let (factor, low, high) = (single(one.scale), single(one.least), single(one.most));
    let (near, sign) = (single(0.5 - 1.0 / 4096.0), single(-0.0));
    let (sixteens, rest) = sums.as_chunks::<16>();
    let (to, last) = y[..sums.len()].split_at_mut(sixteens.len() * 16);
    for (s, y) in sixteens.iter().zip(to.as_chunks_mut::<16>().0) {
        // SAFETY: sixteen numbers can be read from `s`.
        let s = _mm512_add_epi32(unsafe { _mm512_loadu_si512(s.as_ptr().cast()) }, add);
        let v = _mm512_mul_ps(_mm512_cvtepi32_ps(s), factor);
        let v = _mm512_min_ps(_mm512_max_ps(v, low), high);
        let rounded = _mm512_roundscale_ps::<NEAREST>(v);
        let off = _mm512_andnot_ps(sign, _mm512_sub_ps(v, rounded));
        let whole = if _mm512_cmp_ps_mask::<_CMP_GE_OQ>(off, near) == 0 {
            _mm512_cvt_roundps_epi32::<NEAREST>(rounded)
        } else {
            let (low, high) = (half(_mm512_castsi512_si256(s)), half(_mm512_extracti64x4_epi64::<1>(s)));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        let bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, zero));
        // SAFETY: sixteen bytes can be written to `y`.
        unsafe { _mm_storeu_si128(y.as_mut_ptr().cast(), bytes) };
    }
    plain(rest, one, last);
}

/// As [`on_avx512`], eight sums at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn on_avx2(sums: &[i32], one: One, y: &mut [u8]) {
    use std::arch::x86_64::*;
    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    let (add, zero) = (_mm256_set1_epi32(one.add), _mm256_set1_epi32(one.zero));
    let single = |v: f64| _mm256_set1_ps(v as f32);
    let (factor, low, high) = (single(one.scale), single(one.least), single(one.most));
    let (near, sign, byte) = (single(0.5 - 1.0 / 4096.0), single(-0.0), _mm256_set1_epi32(0xff));
    let (sixteens, rest) = sums.as_chunks::<16>();
    let (to, last) = y[..sums.len()].split_at_mut(sixteens.len() * 16);
    for (s, y) in sixteens.iter().zip(to.as_chunks_mut::<16>().0) {
        let eight = |at: usize| {
            // SAFETY: eight numbers can be read from the first and from the second half of `s`.
            let v = _mm256_add_epi32(unsafe { _mm256_loadu_si256(s.as_ptr().add(at).cast()) }, add);
            let v = _mm256_mul_ps(_mm256_cvtepi32_ps(v), factor);
            let v = _mm256_min_ps(_mm256_max_ps(v, low), high);
            let rounded = _mm256_round_ps::<NEAREST>(v);
            let off = _mm256_cmp_ps::<_CMP_GE_OQ>(_mm256_andnot_ps(sign, _mm256_sub_ps(v, rounded)), near);
            (_mm256_and_si256(_mm256_add_epi32(_mm256_cvtps_epi32(rounded), zero), byte), off)
        };
        let ((a, off_a), (b, off_b)) = (eight(0), eight(8));
        if _mm256_movemask_ps(_mm256_or_ps(off_a, off_b)) != 0 {
            plain(s, one, y);
            continue;
        }
        let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(a, b));
        let bytes = _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
        // SAFETY: sixteen bytes can be written to `y`.
        unsafe { _mm_storeu_si128(y.as_mut_ptr().cast(), bytes) };
    }
    plain(rest, one, last);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn sums_near_the_middle_of_two_bytes_are_rounded_as_in_double_precision() {
        // About every half there are sums whose product is just below, on, and just above it.
        for scale in [1.0f32 / 3.0, 0.000_976_562_5, 0.000_976_562_6, 0.003_921_568_6, 0.000_061_035_2, 7.3e-6] {
            let middle = (-300..300).map(|k| (f64::from(k) + 0.5) / f64::from(scale));
            let sums: Vec<i32> = middle.flat_map(|m| (-3..4).map(move |d| m as i32 + d)).collect();
            let want: Vec<u8> = sums
                .iter()
                .map(|s| ((f64::from(*s) * f64::from(scale)).round_ties_even() + 11.0).clamp(0.0, 255.0) as u8)
                .collect();
            for level in Level::available() {
                let mut y = vec![9u8; sums.len()];
                let to = Requantise { scale: &[scale], zero: 11, range: [0, 255] };
                with_level(level, || requantise_row(&sums, 0, &to, 0, &mut y));
                assert_eq!(y, want, "{level:?} {scale}");
            }
        }
    }

    #[test]
    fn sums_become_bytes_by_the_definition_on_every_level() {
        let ends = [i32::MIN, i32::MIN + 1, i32::MAX, i32::MAX - 1, 0, 1, -1];
        let sums: Vec<i32> = (-300..300).chain(ends).chain((0..60).map(|i| i * 71_582_788 - i32::MAX)).collect();
        let scales = [
            0.5f32,
            0.25,
            0.5 + f32::EPSILON,
            0.125 - f32::EPSILON,
            1.5e-8,
            1e-45,
            1.0 / 8_388_609.0,
            1.0 / 3.0,
            1e-9,
            3e30,
            -0.5,
            0.0,
            f32::INFINITY,
            f32::NAN,
            f32::NEG_INFINITY,
        ];
        for (scale, range, add) in scales.iter().flat_map(|s| [[0, 255], [-128, 127]].map(|r| (*s, r, 3))) {
            for zero in [range[0], 7, range[1]] {
                let want: Vec<u8> = sums
                    .iter()
                    .map(|s| (f64::from(s.wrapping_add(add)) * f64::from(scale)).round_ties_even() + f64::from(zero))
                    .map(|v| v.clamp(f64::from(range[0]), f64::from(range[1])) as i32 as u8)
                    .collect();
                for level in Level::available() {
                    let mut y = vec![9u8; sums.len()];
                    let to = Requantise { scale: &[5.0, scale], zero, range };
                    with_level(level, || requantise_row(&sums, add, &to, 1, &mut y));
                    assert_eq!(y, want, "{level:?} {scale} {zero}");
                }
            }
        }
    }
}
