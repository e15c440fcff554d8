//! Wrapping integers, one lane or a vector of them, and the two transforms over them.
use super::{SIDE, STEP};

/// Integers of some width, one or many side by side; overflow wraps around.
pub(super) trait Ring: Copy {
    /// The sum.
    fn add(self, other: Self) -> Self;
    /// The difference.
    fn sub(self, other: Self) -> Self;
    /// `2^N` times the number.
    fn shl<const N: u32>(self) -> Self;
}

macro_rules! lane {
    ($t:ty) => {
        impl Ring for $t {
            #[inline(always)]
            fn add(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: $t) -> $t {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn shl<const N: u32>(self) -> $t {
                self.wrapping_shl(N)
            }
        }
    };
}

lane!(i16);
lane!(i32);

/// `B' d` of six numbers.
#[inline(always)]
pub(super) fn seen<R: Ring>(d: [R; SIDE]) -> [R; SIDE] {
    let [even, odd] = [d[4].sub(d[2].shl::<2>()), d[3].sub(d[1].shl::<2>())];
    let [near, far] = [d[4].sub(d[2]), d[3].sub(d[1])];
    let twice = far.shl::<1>();
    [
        d[0].shl::<2>().add(even).sub(d[2]),
        even.add(odd),
        even.sub(odd),
        near.add(twice),
        near.sub(twice),
        d[5].sub(d[3]).sub(twice.shl::<1>()),
    ]
}

/// `A' m` of six numbers, each multiplied by the factor that makes its scale 24: 6, 4, 4, 1, 1 and
/// 24.
#[inline(always)]
pub(super) fn joined<R: Ring>(m: [R; SIDE]) -> [R; STEP] {
    let [a, b] = [m[1].add(m[2]).shl::<2>(), m[1].sub(m[2]).shl::<2>()];
    let [c, d] = [m[3].add(m[4]), m[3].sub(m[4]).shl::<1>()];
    let three = |v: R| v.shl::<1>().add(v);
    [
        three(m[0]).shl::<1>().add(a).add(c),
        b.add(d),
        a.add(c.shl::<2>()),
        three(m[5]).shl::<3>().add(b).add(d.shl::<2>()),
    ]
}

/// Defines vectors in registers `$r` with the given sum, difference and shift.
#[cfg(target_arch = "x86_64")]
macro_rules! vector {
    ($(#[$doc:meta])* $t:ident($r:ident), $add:ident, $sub:ident, $shl:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(in super::super) struct $t(pub(in super::super) $r);

        impl Ring for $t {
            #[inline(always)]
            fn add(self, other: $t) -> $t {
                // SAFETY: whoever made the vector ensured that the machine has these instructions.
                $t(unsafe { $add(self.0, other.0) })
            }
            #[inline(always)]
            fn sub(self, other: $t) -> $t {
                // SAFETY: as above.
                $t(unsafe { $sub(self.0, other.0) })
            }
            #[inline(always)]
            fn shl<const N: u32>(self) -> $t {
                // SAFETY: as above.
                $t(unsafe { $shl(self.0, _mm_cvtsi32_si128(N as i32)) })
            }
        }
    };
}

/// Vectors of the widest registers.
#[cfg(target_arch = "x86_64")]
pub(super) mod wide {
    use super::Ring;
    use std::arch::x86_64::*;

    vector!(
        /// Thirty-two numbers of 16 bits. Only made on machines with AVX-512 F and BW.
        Halves(__m512i), _mm512_add_epi16, _mm512_sub_epi16, _mm512_sll_epi16
    );
    vector!(
        /// Sixteen numbers of 32 bits. Only made on machines with AVX-512 F.
        Words(__m512i), _mm512_add_epi32, _mm512_sub_epi32, _mm512_sll_epi32
    );
}

/// Vectors of half that width.
#[cfg(target_arch = "x86_64")]
pub(super) mod narrow {
    use super::Ring;
    use std::arch::x86_64::*;

    vector!(
        /// Sixteen numbers of 16 bits. Only made on machines with AVX2.
        Halves(__m256i), _mm256_add_epi16, _mm256_sub_epi16, _mm256_sll_epi16
    );
    vector!(
        /// Eight numbers of 32 bits. Only made on machines with AVX2.
        Words(__m256i), _mm256_add_epi32, _mm256_sub_epi32, _mm256_sll_epi32
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_outputs_is_24_times_that_of_the_definition() {
        // One axis: S G g by hand, for each unit of input and filter.
        for (tap, at) in (0..3).flat_map(|t| (0..SIDE).map(move |a| (t, a))) {
            let g: [i32; 3] = std::array::from_fn(|i| i32::from(i == tap));
            let d: [i32; SIDE] = std::array::from_fn(|i| i32::from(i == at));
            let changed = super::super::filters::taps(g);
            let seen = seen(d);
            let y = joined(std::array::from_fn(|i| changed[i] * seen[i]));
            let want: [i32; STEP] = std::array::from_fn(|o| (0..3).map(|k| g[k] * d[o + k]).sum::<i32>() * 24);
            assert_eq!(y, want, "tap {tap} input {at}");
        }
    }
}
