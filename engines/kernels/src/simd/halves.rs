//! Conversion between half and single precision without a branch or a call, so that loops over
//! either become vector instructions. The bits are those of the machine's own conversions: round to
//! nearest, ties to even; NaN stays NaN and becomes quiet.

/// `2^112`: the difference between the exponent biases of the two types, as a factor.
const SCALE: f32 = f32::from_bits((112 + 127) << 23);
/// The bits of 65,536, the smallest power of two that a half cannot hold.
const OVER: u32 = (16 + 127) << 23;
/// The bits of the smallest normal half, `2^-14`.
const NORMAL: u32 = (127 - 14) << 23;
/// A number whose last bit has the value of the smallest half: adding it rounds a subnormal half.
const LAST_PLACE: u32 = (127 - 24 + 23) << 23;

/// The single-precision number for the bits of a half.
#[inline(always)]
pub fn widen(h: u16) -> f32 {
    let (sign, rest) = (u32::from(h & 0x8000) << 16, u32::from(h & 0x7fff));
    // Subnormal halves are normal singles: the multiplication normalises them.
    let number = (f32::from_bits(rest << 13) * SCALE).to_bits();
    // Infinities and NaN.
    let quiet = if rest > 0x7c00 { 0x0040_0000 } else { 0 };
    let special = 0x7f80_0000 | (rest << 13) | quiet;
    f32::from_bits(sign | if rest >= 0x7c00 { special } else { number })
}

/// The bits of the half nearest to a number; ties go to even.
#[inline(always)]
pub fn narrow(v: f32) -> u16 {
    let bits = v.to_bits();
    let (sign, rest) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    let odd = rest >> 13 & 1;
    let normal = (rest.wrapping_sub(112 << 23).wrapping_add(0xfff + odd)) >> 13;
    let small = (f32::from_bits(rest) + f32::from_bits(LAST_PLACE)).to_bits().wrapping_sub(LAST_PLACE);
    let special = if rest > 0x7f80_0000 { 0x7e00 | (rest >> 13 & 0x1ff) } else { 0x7c00 };
    let finite = if rest < NORMAL { small } else { normal };
    (sign | if rest >= OVER { special } else { finite }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn every_half_widens_as_the_library_says_and_comes_back() {
        for h in 0..=u16::MAX {
            let want = f16::from_bits(h).to_f32();
            let got = widen(h);
            assert_eq!(got.to_bits(), want.to_bits(), "{h:#06x}");
            let quiet = if want.is_nan() { 0x0200 } else { 0 };
            assert_eq!(narrow(got), h | quiet, "{h:#06x}");
        }
    }

    #[test]
    fn numbers_between_halves_are_rounded_to_even() {
        // Each half, the middle between it and the next one, and their neighbours; then all
        // exponents with a few mantissas.
        let around = |v: f32| (-2i32..=2).map(move |d| f32::from_bits(v.to_bits().wrapping_add_signed(d)));
        let halves = (0..=u16::MAX).map(|h| f16::from_bits(h).to_f32()).filter(|v| v.is_finite());
        let middles = halves.flat_map(|v| {
            let next = f16::from_bits(f16::from_f32(v).to_bits().wrapping_add(1)).to_f32();
            around(v).chain(around((v + if next.is_finite() { next } else { v }) / 2.0))
        });
        let wide = (0..=255u32).flat_map(|e| [0, 1, 0x1000, 0x3f_ffff, 0x7f_ffff].map(|m| f32::from_bits(e << 23 | m)));
        for v in middles.chain(wide.flat_map(|v| [v, -v])) {
            let want = f16::from_f32(v);
            let quiet = if v.is_nan() { 0x0200 } else { 0 };
            assert_eq!(narrow(v), want.to_bits() | quiet, "{v:e} {:#x}", v.to_bits());
        }
    }
}
