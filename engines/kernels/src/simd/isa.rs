//! `Isa`: sixteen single-precision lanes, the column panel of the matrix product, for each instruction set.
use crate::simd::halves;
use crate::simd::level::Level;
use half::{bf16, f16};

/// The element types that matrix panels hold; arithmetic is in single precision.
pub trait PanelElem: crate::view::Elem {
    /// Sixteen elements widened to lanes.
    fn lanes<I: Isa>(isa: I, p: &[Self; 16]) -> I::V;
    /// One element widened.
    fn wide(self) -> f32;
    /// One value rounded to the type.
    fn narrow(v: f32) -> Self;
}

impl PanelElem for f32 {
    #[inline(always)]
    fn lanes<I: Isa>(isa: I, p: &[f32; 16]) -> I::V {
        isa.load(p)
    }
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(v: f32) -> f32 {
        v
    }
}

impl PanelElem for f16 {
    #[inline(always)]
    fn lanes<I: Isa>(isa: I, p: &[f16; 16]) -> I::V {
        isa.load_f16(p)
    }
    #[inline(always)]
    fn wide(self) -> f32 {
        halves::widen(self.to_bits())
    }
    #[inline(always)]
    fn narrow(v: f32) -> f16 {
        f16::from_bits(halves::narrow(v))
    }
}

impl PanelElem for bf16 {
    #[inline(always)]
    fn lanes<I: Isa>(isa: I, p: &[bf16; 16]) -> I::V {
        isa.load(&p.map(|v| f32::from_bits(u32::from(v.to_bits()) << 16)))
    }
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    #[inline(always)]
    fn narrow(v: f32) -> bf16 {
        bf16::from_f32(v)
    }
}

/// An instruction set as the matrix product sees it. A value of a type that implements it is proof that the machine has
/// the instructions: the types can only be made inside this module's dispatcher.
pub trait Isa: Copy {
    /// Sixteen lanes.
    type V: Copy;
    /// All lanes the same.
    fn splat(self, v: f32) -> Self::V;
    /// From memory.
    fn load(self, p: &[f32; 16]) -> Self::V;
    /// From halves.
    fn load_f16(self, p: &[f16; 16]) -> Self::V;
    /// To memory.
    fn store(self, v: Self::V, p: &mut [f32; 16]);
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
}

/// The plain instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Scalar(());

impl Isa for Scalar {
    type V = [f32; 16];
    #[inline(always)]
    fn splat(self, v: f32) -> [f32; 16] {
        [v; 16]
    }
    #[inline(always)]
    fn load(self, p: &[f32; 16]) -> [f32; 16] {
        *p
    }
    #[inline(always)]
    fn load_f16(self, p: &[f16; 16]) -> [f32; 16] {
        p.map(f16::to_f32)
    }
    #[inline(always)]
    fn store(self, v: [f32; 16], p: &mut [f32; 16]) {
        *p = v;
    }
    #[inline(always)]
    fn fma(self, a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn add(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] + b[i])
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Isa;
    use half::f16;
    use std::arch::x86_64::*;

    /// AVX2 with FMA and F16C: two registers a panel.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx2(pub(super) ());

    impl Isa for Avx2 {
        type V = [__m256; 2];
        #[inline(always)]
        fn splat(self, v: f32) -> [__m256; 2] {
            // SAFETY: an `Avx2` only exists where the machine has AVX2, FMA and F16C.
            let r = unsafe { _mm256_set1_ps(v) };
            [r, r]
        }
        #[inline(always)]
        fn load(self, p: &[f32; 16]) -> [__m256; 2] {
            // SAFETY: as in `splat`; sixteen floats can be read from `p`.
            unsafe { [_mm256_loadu_ps(p.as_ptr()), _mm256_loadu_ps(p.as_ptr().add(8))] }
        }
        #[inline(always)]
        fn load_f16(self, p: &[f16; 16]) -> [__m256; 2] {
            // SAFETY: as in `splat`; sixteen halves can be read from `p`.
            unsafe {
                let q = p.as_ptr().cast::<__m128i>();
                [_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q.add(1)))]
            }
        }
        #[inline(always)]
        fn store(self, v: [__m256; 2], p: &mut [f32; 16]) {
            // SAFETY: as in `splat`; sixteen floats can be written to `p`.
            unsafe {
                _mm256_storeu_ps(p.as_mut_ptr(), v[0]);
                _mm256_storeu_ps(p.as_mut_ptr().add(8), v[1]);
            }
        }
        #[inline(always)]
        fn fma(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }
        #[inline(always)]
        fn add(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        }
    }

    /// AVX-512: one register a panel.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx512(pub(super) ());

    impl Isa for Avx512 {
        type V = __m512;
        #[inline(always)]
        fn splat(self, v: f32) -> __m512 {
            // SAFETY: an `Avx512` only exists where the machine has AVX-512 F, BW, DQ and VL.
            unsafe { _mm512_set1_ps(v) }
        }
        #[inline(always)]
        fn load(self, p: &[f32; 16]) -> __m512 {
            // SAFETY: as in `splat`; sixteen floats can be read from `p`.
            unsafe { _mm512_loadu_ps(p.as_ptr()) }
        }
        #[inline(always)]
        fn load_f16(self, p: &[f16; 16]) -> __m512 {
            // SAFETY: as in `splat`; sixteen halves can be read from `p`.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.as_ptr().cast())) }
        }
        #[inline(always)]
        fn store(self, v: __m512, p: &mut [f32; 16]) {
            // SAFETY: as in `splat`; sixteen floats can be written to `p`.
            unsafe { _mm512_storeu_ps(p.as_mut_ptr(), v) }
        }
        #[inline(always)]
        fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn add(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe { _mm512_add_ps(a, b) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// A piece of work that is compiled for every instruction set; `run` must be `#[inline(always)]`.
pub trait Work {
    /// What it gives back.
    type Out;
    /// Does it. `MR` rows by `NP` panels are the register tile that suits the instruction set; for four rows that is `N4`
    /// panels, for a single row `N1`.
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) -> Self::Out;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn on_avx512<W: Work>(work: W) -> W::Out {
    work.run::<_, 12, 2, 4, 8>(Avx512(()))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn on_avx2<W: Work>(work: W) -> W::Out {
    work.run::<_, 6, 1, 1, 4>(Avx2(()))
}

/// Does the work with the best instruction set that [`crate::simd::level()`] allows.
pub fn dispatch<W: Work>(work: W) -> W::Out {
    match crate::simd::level() {
        // SAFETY: the level is only reported when the machine has its features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { on_avx512(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { on_avx2(work) },
        _ => work.run::<_, 4, 1, 1, 1>(Scalar(())),
    }
}
