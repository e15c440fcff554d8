//! `Isa`: vectors of sixteen single-precision lanes (a column panel of the matrix product) for each
//! instruction set.
use crate::simd::act::{at_least, at_most};
use crate::simd::bytes::Bytes;
use crate::simd::halves;
use crate::simd::level::Level;
use crate::simd::math;
use half::{bf16, f16};

/// The element types that matrix panels can hold. Arithmetic is in single precision.
pub trait PanelElem: crate::view::Elem {
    /// Sixteen elements widened to lanes.
    fn lanes<I: Isa>(isa: I, p: &[Self; 16]) -> I::V;
    /// Rounds lanes to sixteen elements.
    #[inline(always)]
    fn put<I: Isa>(isa: I, v: I::V, p: &mut [Self; 16]) {
        let mut wide = [0.0; 16];
        isa.store(v, &mut wide);
        for (p, v) in p.iter_mut().zip(wide) {
            *p = Self::narrow(v);
        }
    }
    /// One element widened.
    fn wide(self) -> f32;
    /// One value rounded to the type.
    fn narrow(v: f32) -> Self;
    /// The slice itself if the type is `f32`, otherwise `None`.
    fn singles(_: &[Self]) -> Option<&[f32]> {
        None
    }
    /// The slice itself if the type is `bf16`, otherwise `None`.
    fn bf16s(_: &[Self]) -> Option<&[bf16]> {
        None
    }
    /// Like [`PanelElem::singles`], for a mutable slice.
    fn singles_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
}

impl PanelElem for f32 {
    #[inline(always)]
    fn lanes<I: Isa>(isa: I, p: &[f32; 16]) -> I::V {
        isa.load(p)
    }
    #[inline(always)]
    fn put<I: Isa>(isa: I, v: I::V, p: &mut [f32; 16]) {
        isa.store(v, p);
    }
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(v: f32) -> f32 {
        v
    }
    #[inline(always)]
    fn singles(v: &[f32]) -> Option<&[f32]> {
        Some(v)
    }
    #[inline(always)]
    fn singles_mut(v: &mut [f32]) -> Option<&mut [f32]> {
        Some(v)
    }
}

impl PanelElem for f16 {
    #[inline(always)]
    fn lanes<I: Isa>(isa: I, p: &[f16; 16]) -> I::V {
        isa.load_f16(p)
    }
    #[inline(always)]
    fn put<I: Isa>(isa: I, v: I::V, p: &mut [f16; 16]) {
        isa.store_f16(v, p);
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
    #[inline(always)]
    fn bf16s(v: &[bf16]) -> Option<&[bf16]> {
        Some(v)
    }
}

/// The operations of an instruction set that the matrix product uses. A value of an implementing
/// type proves that the machine has the instructions: only this module's dispatcher can make one.
pub trait Isa: Copy {
    /// A vector of sixteen lanes.
    type V: Copy;
    /// Whether a vector is two registers, so that work on its first eight lanes takes half the
    /// time.
    const IN_TWO: bool = false;
    /// Sets all lanes to `v`.
    fn splat(self, v: f32) -> Self::V;
    /// Loads sixteen singles.
    fn load(self, p: &[f32; 16]) -> Self::V;
    /// Loads sixteen halves, widened.
    fn load_f16(self, p: &[f16; 16]) -> Self::V;
    /// Stores sixteen singles.
    fn store(self, v: Self::V, p: &mut [f32; 16]);
    /// Stores sixteen halves, each rounded to the nearest.
    fn store_f16(self, v: Self::V, p: &mut [f16; 16]);
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `2^n`, where the last bits of each lane hold `n`, from -126 to 127; zero for -127.
    fn power(self, n: Self::V) -> Self::V;
    /// `low` in lanes where `v < low`, otherwise `v`; NaN stays NaN.
    fn at_least(self, v: Self::V, low: Self::V) -> Self::V;
    /// `high` in lanes where `v > high`, otherwise `v`; NaN stays NaN.
    fn at_most(self, v: Self::V, high: Self::V) -> Self::V;
    /// The magnitude of each lane of `v` with the sign of that lane of `of`.
    fn with_sign(self, v: Self::V, of: Self::V) -> Self::V;
    /// The larger of each pair of lanes: NaN if either is NaN, the second if both are equal.
    fn larger(self, a: Self::V, b: Self::V) -> Self::V;
    /// The even-numbered and the odd-numbered lanes of the thirty-two lanes of `a` and `b`.
    fn even_odd(self, a: Self::V, b: Self::V) -> (Self::V, Self::V);
    /// Interleaves the lanes of `a` and `b`: the first sixteen of the thirty-two, and the last
    /// sixteen.
    fn woven(self, a: Self::V, b: Self::V) -> (Self::V, Self::V);
    /// Transposes sixteen vectors: lanes become vectors and vectors lanes.
    #[inline(always)]
    fn turn(self, v: &mut [Self::V; 16]) {
        // Interleaving each vector of the first half with its counterpart in the second moves one
        // bit of the lane's number into the vector's number. There are four such bits.
        for _ in 0..4 {
            let from = *v;
            for i in 0..8 {
                (v[2 * i], v[2 * i + 1]) = self.woven(from[i], from[i + 8]);
            }
        }
    }
    /// Transposes a square of sixteen rows: those of `x` are `cols` numbers apart, those of `to`
    /// are `rows` apart.
    ///
    /// # Safety
    /// Sixteen numbers of each row of `x` must be readable, and of `to` writable.
    #[inline(always)]
    unsafe fn turn_square(self, x: *const f32, cols: usize, to: *mut f32, rows: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { turn_whole(self, x, cols, to, rows) };
    }
    /// A selection (mask) of the sixteen lanes.
    type M: Copy;
    /// Selects the lanes `from..to`; `to` is at most sixteen.
    fn lanes(self, from: usize, to: usize) -> Self::M;
    /// The lanes of `a` where `m` selects them, otherwise those of `b`.
    fn pick(self, m: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// Loads the lanes that `m` selects; the others become zero.
    ///
    /// # Safety
    /// The numbers of the selected lanes must be readable; the others need not exist.
    unsafe fn load_some(self, p: *const f32, m: Self::M) -> Self::V;
    /// Stores only the lanes that `m` selects.
    ///
    /// # Safety
    /// The numbers of the selected lanes must be writable; the others need not exist.
    unsafe fn store_some(self, v: Self::V, p: *mut f32, m: Self::M);
    /// Prefetches a cache line that will be read soon. The address need not be valid.
    fn fetch(self, _: *const f32) {}
}

/// [`Isa::turn_square`], where each row is read and written once.
///
/// # Safety
/// As for that.
#[inline(always)]
unsafe fn turn_whole<I: Isa>(isa: I, x: *const f32, cols: usize, to: *mut f32, rows: usize) {
    let mut v = [isa.splat(0.0); 16];
    for (r, v) in v.iter_mut().enumerate() {
        // SAFETY: guaranteed by the caller.
        *v = unsafe { isa.load(&*x.wrapping_add(r * cols).cast()) };
    }
    isa.turn(&mut v);
    for (c, v) in v.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        unsafe { isa.store(*v, &mut *to.wrapping_add(c * rows).cast()) };
    }
}

/// The instructions that every target has. On x86-64 only old machines use them: there each operation
/// is a call, which keeps the code of every kernel's plain form short. Elsewhere there is no other form.
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
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn load_f16(self, p: &[f16; 16]) -> [f32; 16] {
        p.map(f16::to_f32)
    }
    #[inline(always)]
    fn store(self, v: [f32; 16], p: &mut [f32; 16]) {
        *p = v;
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn store_f16(self, v: [f32; 16], p: &mut [f16; 16]) {
        *p = v.map(f16::narrow);
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn fma(self, a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn add(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn mul(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn div(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn power(self, n: [f32; 16]) -> [f32; 16] {
        n.map(math::power)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn at_least(self, v: [f32; 16], low: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| at_least(v[i], low[i]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn at_most(self, v: [f32; 16], high: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| at_most(v[i], high[i]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn with_sign(self, v: [f32; 16], of: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| v[i].copysign(of[i]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn larger(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| if a[i] > b[i] || a[i].is_nan() { a[i] } else { b[i] })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn even_odd(self, a: [f32; 16], b: [f32; 16]) -> ([f32; 16], [f32; 16]) {
        let at = |i: usize| if i < 16 { a[i] } else { b[i - 16] };
        (std::array::from_fn(|i| at(2 * i)), std::array::from_fn(|i| at(2 * i + 1)))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn woven(self, a: [f32; 16], b: [f32; 16]) -> ([f32; 16], [f32; 16]) {
        let at = |i: usize| if i.is_multiple_of(2) { a[i / 2] } else { b[i / 2] };
        (std::array::from_fn(at), std::array::from_fn(|i| at(16 + i)))
    }
    type M = (usize, usize);
    #[inline(always)]
    fn lanes(self, from: usize, to: usize) -> (usize, usize) {
        (from, to)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    fn pick(self, m: (usize, usize), a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        std::array::from_fn(|i| if m.0 <= i && i < m.1 { a[i] } else { b[i] })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    unsafe fn load_some(self, p: *const f32, m: (usize, usize)) -> [f32; 16] {
        // SAFETY: the caller guarantees that selected lanes can be read.
        std::array::from_fn(|i| if m.0 <= i && i < m.1 { unsafe { *p.wrapping_add(i) } } else { 0.0 })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    #[cfg_attr(not(target_arch = "x86_64"), inline(always))]
    unsafe fn store_some(self, v: [f32; 16], p: *mut f32, m: (usize, usize)) {
        for (i, v) in v.into_iter().enumerate().take(m.1).skip(m.0) {
            // SAFETY: the caller guarantees that selected lanes can be written.
            unsafe { *p.wrapping_add(i) = v };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Isa;
    use half::f16;
    use std::arch::x86_64::*;

    /// Numbers in a page of memory.
    const PAGE: usize = 1024;

    /// AVX2 with FMA and F16C: two registers per vector.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx2(pub(super) ());

    impl Isa for Avx2 {
        type V = [__m256; 2];
        const IN_TWO: bool = true;
        #[inline(always)]
        fn splat(self, v: f32) -> [__m256; 2] {
            // SAFETY: an `Avx2` only exists if the machine has AVX2, FMA and F16C.
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
        fn store_f16(self, v: [__m256; 2], p: &mut [f16; 16]) {
            // SAFETY: as in `splat`; sixteen halves can be written to `p`.
            unsafe {
                let q = p.as_mut_ptr().cast::<__m128i>();
                _mm_storeu_si128(q, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[0]));
                _mm_storeu_si128(q.add(1), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[1]));
            }
        }
        #[inline(always)]
        fn fma(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }
        #[inline(always)]
        fn fetch(self, p: *const f32) {
            // SAFETY: as in `splat`; a prefetch hint accesses nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
        }
        #[inline(always)]
        fn add(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn mul(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn div(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            unsafe { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
        }
        #[inline(always)]
        fn power(self, n: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            let one = |n| unsafe {
                let bits = _mm256_slli_epi32::<23>(_mm256_castps_si256(n));
                _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(1f32.to_bits() as i32)))
            };
            // Not `map` over the array: its call of the closure would not have the target features.
            [one(n[0]), one(n[1])]
        }
        #[inline(always)]
        fn at_least(self, v: [__m256; 2], low: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`. If either operand is NaN, the instruction returns the second
            // one.
            unsafe { [_mm256_max_ps(low[0], v[0]), _mm256_max_ps(low[1], v[1])] }
        }
        #[inline(always)]
        fn at_most(self, v: [__m256; 2], high: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`; operands as in `at_least`.
            unsafe { [_mm256_min_ps(high[0], v[0]), _mm256_min_ps(high[1], v[1])] }
        }
        #[inline(always)]
        fn with_sign(self, v: [__m256; 2], of: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            let one = |v, of| unsafe {
                let sign = _mm256_set1_ps(-0.0);
                _mm256_or_ps(_mm256_andnot_ps(sign, v), _mm256_and_ps(sign, of))
            };
            [one(v[0], of[0]), one(v[1], of[1])]
        }
        #[inline(always)]
        fn larger(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`. If either operand is NaN, the instruction returns the second
            // one.
            unsafe {
                let none = |a| _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a);
                [
                    _mm256_blendv_ps(_mm256_max_ps(a[0], b[0]), a[0], none(a[0])),
                    _mm256_blendv_ps(_mm256_max_ps(a[1], b[1]), a[1], none(a[1])),
                ]
            }
        }
        #[inline(always)]
        fn even_odd(self, a: [__m256; 2], b: [__m256; 2]) -> ([__m256; 2], [__m256; 2]) {
            // SAFETY: as in `splat`. Each half of a register is shuffled separately, then quarters
            // are swapped.
            let pick = |v: [__m256; 2]| unsafe {
                let (even, odd) = (_mm256_shuffle_ps::<0x88>(v[0], v[1]), _mm256_shuffle_ps::<0xdd>(v[0], v[1]));
                let place = |v| _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(v)));
                (place(even), place(odd))
            };
            let (a, b) = (pick(a), pick(b));
            ([a.0, b.0], [a.1, b.1])
        }
        #[inline(always)]
        fn woven(self, a: [__m256; 2], b: [__m256; 2]) -> ([__m256; 2], [__m256; 2]) {
            // SAFETY: as in `splat`. Each half of a register is interleaved separately, then the
            // halves are swapped.
            let pair = |a, b| unsafe {
                let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
            };
            (pair(a[0], b[0]), pair(a[1], b[1]))
        }
        #[inline(always)]
        fn turn(self, v: &mut [[__m256; 2]; 16]) {
            // Four squares of eight vectors, two of which are swapped: there are not enough
            // registers for all at once. Elements are named one by one, so that none has to be in
            // memory.
            let (a, c) = (turn_eight(eight::<0, 0>(v)), turn_eight(eight::<8, 0>(v)));
            let (b, d) = (turn_eight(eight::<0, 1>(v)), turn_eight(eight::<8, 1>(v)));
            for r in 0..8 {
                v[r] = [a[r], c[r]];
                v[8 + r] = [b[r], d[r]];
            }
        }
        #[inline(always)]
        unsafe fn turn_square(self, x: *const f32, cols: usize, to: *mut f32, rows: usize) {
            // Rows at such distances share one place of the first-level cache, which does not hold
            // all of them until the last piece is read.
            if cols.is_multiple_of(PAGE) || rows.is_multiple_of(PAGE) {
                // SAFETY: guaranteed by the caller.
                return unsafe { super::turn_whole(self, x, cols, to, rows) };
            }
            // Pieces of eight rows and four columns, from memory to memory: there are not enough
            // registers for a whole square.
            for j in 0..4 {
                for i in 0..2 {
                    let x = x.wrapping_add(8 * i * cols + 4 * j);
                    // SAFETY: as in `splat`; the caller guarantees what is read and written.
                    unsafe {
                        let v = turn_four(
                            two(x, cols),
                            two(x.wrapping_add(cols), cols),
                            two(x.wrapping_add(2 * cols), cols),
                            two(x.wrapping_add(3 * cols), cols),
                        );
                        let to = to.wrapping_add(4 * j * rows + 8 * i);
                        _mm256_storeu_ps(to, v[0]);
                        _mm256_storeu_ps(to.wrapping_add(rows), v[1]);
                        _mm256_storeu_ps(to.wrapping_add(2 * rows), v[2]);
                        _mm256_storeu_ps(to.wrapping_add(3 * rows), v[3]);
                    }
                }
            }
        }
        type M = Lanes;
        #[inline(always)]
        fn lanes(self, from: usize, to: usize) -> Lanes {
            // SAFETY: as in `splat`.
            let masks = unsafe {
                let (from, to) = (_mm256_set1_epi32(from as i32 - 1), _mm256_set1_epi32(to as i32));
                let half = |i: __m256i| _mm256_and_si256(_mm256_cmpgt_epi32(i, from), _mm256_cmpgt_epi32(to, i));
                let i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                [half(i), half(_mm256_add_epi32(i, _mm256_set1_epi32(8)))]
            };
            Lanes { from, to, masks }
        }
        #[inline(always)]
        fn pick(self, m: Lanes, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: as in `splat`.
            let half = |m, a, b| unsafe { _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m)) };
            [half(m.masks[0], a[0], b[0]), half(m.masks[1], a[1], b[1])]
        }
        #[inline(always)]
        unsafe fn load_some(self, p: *const f32, m: Lanes) -> [__m256; 2] {
            // SAFETY: as in `splat`; lanes that are masked out are not read.
            unsafe { [_mm256_maskload_ps(p, m.masks[0]), _mm256_maskload_ps(p.wrapping_add(8), m.masks[1])] }
        }
        #[inline(always)]
        unsafe fn store_some(self, v: [__m256; 2], p: *mut f32, m: Lanes) {
            // SAFETY: as in `splat`; lanes that are masked out are not written. A masked store
            // takes tens of cycles on some machines, a few plain stores take fewer.
            unsafe {
                if m.from > 0 {
                    _mm256_maskstore_ps(p, m.masks[0], v[0]);
                    _mm256_maskstore_ps(p.wrapping_add(8), m.masks[1], v[1]);
                } else if m.to >= 8 {
                    _mm256_storeu_ps(p, v[0]);
                    store_first(v[1], p.wrapping_add(8), m.to - 8);
                } else {
                    store_first(v[0], p, m.to);
                }
            }
        }
    }

    /// The lanes `from..to` of sixteen, and their masks.
    #[derive(Clone, Copy, Debug)]
    pub struct Lanes {
        from: usize,
        to: usize,
        masks: [__m256i; 2],
    }

    /// Stores the first `n` lanes.
    ///
    /// # Safety
    /// The machine must have AVX2, and `n` numbers must be writable.
    #[inline(always)]
    unsafe fn store_first(v: __m256, mut p: *mut f32, n: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if n >= 8 {
                return _mm256_storeu_ps(p, v);
            }
            let mut rest = _mm256_castps256_ps128(v);
            if n & 4 != 0 {
                _mm_storeu_ps(p, rest);
                p = p.wrapping_add(4);
                rest = _mm256_extractf128_ps::<1>(v);
            }
            if n & 2 != 0 {
                _mm_storel_pd(p.cast(), _mm_castps_pd(rest));
                p = p.wrapping_add(2);
                rest = _mm_movehl_ps(rest, rest);
            }
            if n & 1 != 0 {
                _mm_store_ss(p, rest);
            }
        }
    }

    /// Half `H` of each of the eight vectors from vector `I` on.
    #[inline(always)]
    fn eight<const I: usize, const H: usize>(v: &[[__m256; 2]; 16]) -> [__m256; 8] {
        [v[I][H], v[I + 1][H], v[I + 2][H], v[I + 3][H], v[I + 4][H], v[I + 5][H], v[I + 6][H], v[I + 7][H]]
    }

    /// Transposes eight registers.
    #[inline(always)]
    fn turn_eight(v: [__m256; 8]) -> [__m256; 8] {
        // SAFETY: these are registers of an `Avx2`, which only exists if the machine has its
        // instructions.
        unsafe {
            let a = turn_four(v[0], v[1], v[2], v[3]);
            let b = turn_four(v[4], v[5], v[6], v[7]);
            [
                _mm256_permute2f128_ps::<0x20>(a[0], b[0]),
                _mm256_permute2f128_ps::<0x20>(a[1], b[1]),
                _mm256_permute2f128_ps::<0x20>(a[2], b[2]),
                _mm256_permute2f128_ps::<0x20>(a[3], b[3]),
                _mm256_permute2f128_ps::<0x31>(a[0], b[0]),
                _mm256_permute2f128_ps::<0x31>(a[1], b[1]),
                _mm256_permute2f128_ps::<0x31>(a[2], b[2]),
                _mm256_permute2f128_ps::<0x31>(a[3], b[3]),
            ]
        }
    }

    /// Four numbers of a row, and the four below them in the fourth row after it.
    ///
    /// # Safety
    /// The machine must have AVX2, and both groups must be readable.
    #[inline(always)]
    unsafe fn two(x: *const f32, cols: usize) -> __m256 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(_mm_loadu_ps(x)), _mm_loadu_ps(x.wrapping_add(4 * cols)))
        }
    }

    /// Transposes four registers, each half separately.
    ///
    /// # Safety
    /// The machine must have AVX2.
    #[inline(always)]
    unsafe fn turn_four(a: __m256, b: __m256, c: __m256, d: __m256) -> [__m256; 4] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (p, q) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (r, s) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            [
                _mm256_shuffle_ps::<0x44>(p, r),
                _mm256_shuffle_ps::<0xee>(p, r),
                _mm256_shuffle_ps::<0x44>(q, s),
                _mm256_shuffle_ps::<0xee>(q, s),
            ]
        }
    }

    /// AVX-512: one register per vector.
    #[derive(Clone, Copy, Debug)]
    pub struct Avx512(pub(super) ());

    impl Isa for Avx512 {
        type V = __m512;
        #[inline(always)]
        fn splat(self, v: f32) -> __m512 {
            // SAFETY: an `Avx512` only exists if the machine has AVX-512 F, BW, DQ and VL.
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
        fn store_f16(self, v: __m512, p: &mut [f16; 16]) {
            // SAFETY: as in `splat`; sixteen halves can be written to `p`.
            unsafe {
                let halves = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v);
                _mm256_storeu_si256(p.as_mut_ptr().cast(), halves);
            }
        }
        #[inline(always)]
        fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        fn fetch(self, p: *const f32) {
            // SAFETY: as in `splat`; a prefetch hint accesses nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
        }
        #[inline(always)]
        fn add(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        fn mul(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        fn div(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe { _mm512_div_ps(a, b) }
        }
        #[inline(always)]
        fn power(self, n: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe {
                let bits = _mm512_slli_epi32::<23>(_mm512_castps_si512(n));
                _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(1f32.to_bits() as i32)))
            }
        }
        #[inline(always)]
        fn at_least(self, v: __m512, low: __m512) -> __m512 {
            // SAFETY: as in `splat`. If either operand is NaN, the instruction returns the second
            // one.
            unsafe { _mm512_max_ps(low, v) }
        }
        #[inline(always)]
        fn at_most(self, v: __m512, high: __m512) -> __m512 {
            // SAFETY: as in `splat`; operands as in `at_least`.
            unsafe { _mm512_min_ps(high, v) }
        }
        #[inline(always)]
        fn with_sign(self, v: __m512, of: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe {
                let sign = _mm512_set1_ps(-0.0);
                _mm512_or_ps(_mm512_andnot_ps(sign, v), _mm512_and_ps(sign, of))
            }
        }
        #[inline(always)]
        fn larger(self, a: __m512, b: __m512) -> __m512 {
            // SAFETY: as in `splat`. If either operand is NaN, the instruction returns the second
            // one.
            unsafe { _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a) }
        }
        #[inline(always)]
        fn even_odd(self, a: __m512, b: __m512) -> (__m512, __m512) {
            // SAFETY: as in `splat`.
            unsafe {
                let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
                (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b))
            }
        }
        #[inline(always)]
        fn woven(self, a: __m512, b: __m512) -> (__m512, __m512) {
            // SAFETY: as in `splat`.
            unsafe {
                let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let last = _mm512_add_epi32(first, _mm512_set1_epi32(8));
                (_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, last, b))
            }
        }
        type M = __mmask16;
        #[inline(always)]
        fn lanes(self, from: usize, to: usize) -> __mmask16 {
            (((1u32 << to) - 1) & !((1u32 << from) - 1)) as __mmask16
        }
        #[inline(always)]
        fn pick(self, m: __mmask16, a: __m512, b: __m512) -> __m512 {
            // SAFETY: as in `splat`.
            unsafe { _mm512_mask_mov_ps(b, m, a) }
        }
        #[inline(always)]
        unsafe fn load_some(self, p: *const f32, m: __mmask16) -> __m512 {
            // SAFETY: as in `splat`; lanes that are masked out are not read.
            unsafe { _mm512_maskz_loadu_ps(m, p) }
        }
        #[inline(always)]
        unsafe fn store_some(self, v: __m512, p: *mut f32, m: __mmask16) {
            // SAFETY: as in `splat`; lanes that are masked out are not written.
            unsafe { _mm512_mask_storeu_ps(p, m, v) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// A piece of work that is compiled for every instruction set; `run` must be `#[inline(always)]`.
pub trait Work {
    /// Result of the work.
    type Out;
    /// Does the work. `MR` rows by `NP` panels is the register tile that suits the instruction set.
    /// For four rows it has `N4` panels, for a single row `N1`.
    fn run<I: Bytes, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) -> Self::Out;
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
        // SAFETY: the level is only reported if the machine has its features.
        #[cfg(target_arch = "x86_64")]
        level if level >= Level::Avx512 => unsafe { on_avx512(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { on_avx2(work) },
        _ => work.run::<_, 4, 1, 1, 1>(Scalar(())),
    }
}
