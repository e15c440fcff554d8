//! The sum of two tensors of bytes, each with its scale and zero point.
use crate::simd::act::{at_least, at_most};
use crate::view::Elem;
#[cfg(target_arch = "x86_64")]
use crate::view::Kind;

/// Two tensors of bytes that are dequantised, added and quantised again: scale and zero point of
/// each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AddBytes {
    /// Of the first.
    pub a: [f32; 2],
    /// Of the second.
    pub b: [f32; 2],
    /// Of the sum.
    pub y: [f32; 2],
    /// The least and the greatest byte of the sum.
    pub range: [f32; 2],
}

/// `y = saturate(round_half_even(((a - a_zero) * a_scale + (b - b_zero) * b_scale) / y_scale) + y_zero)`,
/// each step rounded to single precision; what is no number becomes zero. Bytes of either kind go
/// out as bytes.
pub fn add_bytes<A: Elem, B: Elem>(a: &[A], b: &[B], by: AddBytes, y: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::level() >= crate::simd::Level::Avx512
        && [A::KIND, B::KIND].iter().all(|k| matches!(k, Kind::U8 | Kind::I8))
        && by.is_common()
    {
        // SAFETY: the level is only reported when the machine has its features.
        return unsafe { on_avx512(a, b, by, y) };
    }
    plain(a, b, by, y);
}

crate::multiversion! {
    fn plain<A: Elem, B: Elem>(a: &[A], b: &[B], by: AddBytes, y: &mut [u8]) {
        let mut whole = [0i32; 64];
        // Two loops over a block at a time: each of them is one over vectors.
        for ((y, a), b) in y.chunks_mut(whole.len()).zip(a.chunks(whole.len())).zip(b.chunks(whole.len())) {
            for ((w, a), b) in whole.iter_mut().zip(a).zip(b) {
                let sum = (a.to_f32() - by.a[1]) * by.a[0] + (b.to_f32() - by.b[1]) * by.b[0];
                let v = at_most(at_least((sum / by.y[0]).round_ties_even() + by.y[1], by.range[0]), by.range[1]);
                let v = if v.is_nan() { 0.0 } else { v };
                *w = (v + 12_582_912.0).to_bits() as i32 - 0x4b40_0000;
            }
            for (y, w) in y.iter_mut().zip(&whole) {
                *y = *w as u8;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl AddBytes {
    /// Whether all steps stay far from the ends of single precision, and zero points are bytes.
    fn is_common(&self) -> bool {
        let far = |v: f32| (1e-18..1e18).contains(&v.abs());
        let byte = |v: f32| v.fract() == 0.0 && v.abs() <= 255.0;
        [self.a, self.b, self.y].iter().all(|[scale, zero]| far(*scale) && byte(*zero))
            && self.range.iter().all(|v| byte(*v))
    }
}

/// [`plain`] of what [`AddBytes::is_common`].
///
/// The sum is multiplied by one over the scale instead of divided by it. Between the bounds, which
/// are less than 2^10, that is off by less than 2^-12: it becomes the same whole number, but for
/// sums that near to the middle between two, which are divided.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn on_avx512<A: Elem, B: Elem>(a: &[A], b: &[B], by: AddBytes, y: &mut [u8]) {
    use std::arch::x86_64::*;
    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    let each = |v: f32| _mm512_set1_ps(v);
    let ([a_scale, a_zero], [b_scale, b_zero]) = (by.a.map(each), by.b.map(each));
    let (scale, factor) = (each(by.y[0]), each(1.0 / by.y[0]));
    let zero = _mm512_set1_epi32(by.y[1] as i32);
    let [least, most] = by.range.map(|v| each(v - by.y[1]));
    let (near, sign) = (each(0.5 - 1.0 / 2048.0), each(-0.0));
    let n = y.len().min(a.len()).min(b.len());
    let (sixteens, rest) = y[..n].as_chunks_mut::<16>();
    let whole = sixteens.len() * 16;
    for ((y, a), b) in sixteens.iter_mut().zip(a.as_chunks::<16>().0).zip(b.as_chunks::<16>().0) {
        // SAFETY: both are sixteen bytes.
        let (a, b) = unsafe { (_mm_loadu_si128(a.as_ptr().cast()), _mm_loadu_si128(b.as_ptr().cast())) };
        let a = if A::KIND == Kind::U8 { _mm512_cvtepu8_epi32(a) } else { _mm512_cvtepi8_epi32(a) };
        let b = if B::KIND == Kind::U8 { _mm512_cvtepu8_epi32(b) } else { _mm512_cvtepi8_epi32(b) };
        let a = _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(a), a_zero), a_scale);
        let b = _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(b), b_zero), b_scale);
        let sum = _mm512_add_ps(a, b);
        // Rounding keeps order, and the bounds are whole numbers: they can be held before.
        let held = |v: __m512| _mm512_min_ps(_mm512_max_ps(v, least), most);
        let v = held(_mm512_mul_ps(sum, factor));
        let mut round = _mm512_roundscale_ps::<NEAREST>(v);
        let off = _mm512_andnot_ps(sign, _mm512_sub_ps(v, round));
        if _mm512_cmp_ps_mask::<_CMP_GE_OQ>(off, near) != 0 {
            round = _mm512_roundscale_ps::<NEAREST>(held(_mm512_div_ps(sum, scale)));
        }
        let v = _mm512_add_epi32(_mm512_cvtps_epi32(round), zero);
        // SAFETY: sixteen bytes can be written to `y`.
        unsafe { _mm_storeu_si128(y.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(v)) };
    }
    plain(&a[whole..n], &b[whole..n], by, rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    #[test]
    fn bytes_are_added_by_the_definition_on_every_level() {
        let a: Vec<u8> = (0..1003u32).map(|i| (i * 37 % 256) as u8).collect();
        let b: Vec<i8> = (0..1003u32).map(|i| (i * 91 % 256) as u8 as i8).collect();
        for scale in [0.25f32, 0.1, 1e-9, 0.0] {
            let by = AddBytes { a: [0.05, 128.0], b: [0.07, -3.0], y: [scale, 9.0], range: [-128.0, 127.0] };
            let want: Vec<u8> = a
                .iter()
                .zip(&b)
                .map(|(a, b)| (f32::from(*a) - 128.0) * 0.05 + (f32::from(*b) + 3.0) * 0.07)
                .map(|v| ((v / scale).round_ties_even() + 9.0).clamp(-128.0, 127.0) as i32 as u8)
                .collect();
            for level in Level::available() {
                let mut y = vec![1u8; a.len()];
                with_level(level, || add_bytes(&a, &b, by, &mut y));
                assert_eq!(y, want, "{level:?} {scale}");
            }
        }
    }

    /// Scales whose sums lie on, or next to, the middle between two bytes.
    #[test]
    fn sums_near_the_middle_of_two_bytes_are_divided() {
        let (a, b): (Vec<u8>, Vec<u8>) = (0..=u16::MAX).map(|i| ((i >> 8) as u8, i as u8)).unzip();
        let scales = [
            [0.5f32, 0.5, 1.0],
            [0.1, 0.3, 0.2],
            [0.3, 0.7, 1.4],
            [1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0],
            [0.05, 0.07, 0.02],
            [1e-17, 3e-17, 2e-17],
            [-0.5, 0.25, 0.5],
            [0.25, 0.25, -0.5],
            [0.02, 1e17, 0.02],
        ];
        for ([a_scale, b_scale, y_scale], zero) in scales.iter().flat_map(|s| [0.0, 128.0, 255.0].map(|z| (*s, z))) {
            let by = AddBytes { a: [a_scale, zero], b: [b_scale, 3.0], y: [y_scale, zero], range: [0.0, 255.0] };
            let of = |a: u8, b: u8| {
                let sum = (f32::from(a) - zero) * a_scale + (f32::from(b) - 3.0) * b_scale;
                ((sum / y_scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8
            };
            let want: Vec<u8> = a.iter().zip(&b).map(|(a, b)| of(*a, *b)).collect();
            for level in Level::available() {
                let mut y = vec![1u8; a.len()];
                with_level(level, || add_bytes(&a, &b, by, &mut y));
                assert!(y == want, "{level:?} {by:?}");
            }
        }
    }
}
