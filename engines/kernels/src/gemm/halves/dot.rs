//! Product of rows and panels with the AVX-512 BF16 dot product: each register tile covers the
//! whole length of the sums.
use half::bf16;
use half::slice::HalfFloatSliceExt;
use std::arch::x86_64::*;

/// Panels of sixteen columns, `panel` numbers apart, with `k` rows each.
pub(super) struct Panels<'a> {
    pub(super) data: &'a [bf16],
    pub(super) panel: usize,
    pub(super) k: usize,
    /// Whether rows are interleaved in pairs (then their number is even); otherwise they are stored
    /// one after the other.
    pub(super) woven: bool,
}

/// Sums of the rows of `a` (`len` numbers each, an even number) with `count` panels. Rows of `to`
/// are `width` apart. Numbers of a row beyond the rows of the panels are zero.
pub(super) fn product(a: &[bf16], len: usize, b: &Panels<'_>, count: usize, to: &mut [f32], width: usize) {
    assert!(crate::simd::level::bf16() && b.k.next_multiple_of(2) == len && (!b.woven || b.k == len));
    assert!(a.len().is_multiple_of(len) && to.len() >= (a.len() / len) * width && width >= count * 16);
    // SAFETY: the level is only reported if the machine has these features.
    unsafe {
        if b.woven {
            all::<true>(a, len, b, count, to, width);
        } else {
            all::<false>(a, len, b, count, to, width);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn all<const WOVEN: bool>(a: &[bf16], len: usize, b: &Panels<'_>, count: usize, to: &mut [f32], width: usize) {
    let rows = a.len() / len;
    let (main, four) = (rows / 12 * 12, rows / 4 * 4);
    strip::<12, 2, WOVEN>(a, len, b, count, 0..main, to, width);
    strip::<4, 4, WOVEN>(a, len, b, count, main..four.max(main), to, width);
    strip::<1, 8, WOVEN>(a, len, b, count, four.max(main)..rows, to, width);
}

/// Computes tiles of `R` rows by `P` panels.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn strip<const R: usize, const P: usize, const WOVEN: bool>(
    a: &[bf16],
    len: usize,
    b: &Panels<'_>,
    count: usize,
    rows: std::ops::Range<usize>,
    to: &mut [f32],
    width: usize,
) {
    let mut p = 0;
    while p < count {
        let take = if p + P <= count { P } else { 1 };
        for i in rows.clone().step_by(R) {
            let (a, to) = (&a[i * len..(i + R) * len], &mut to[i * width + p * 16..]);
            if take == P {
                tile::<R, P, WOVEN>(a, len, b, p, to, width);
            } else {
                tile::<R, 1, WOVEN>(a, len, b, p, to, width);
            }
        }
        p += take;
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn tile<const R: usize, const P: usize, const WOVEN: bool>(
    a: &[bf16],
    len: usize,
    b: &Panels<'_>,
    p: usize,
    to: &mut [f32],
    width: usize,
) {
    let pairs = b.k / 2;
    let rows: [&[[bf16; 2]]; R] = std::array::from_fn(|r| a[r * len..(r + 1) * len].as_chunks::<2>().0);
    let panels: [&[bf16]; P] = std::array::from_fn(|q| &b.data[(p + q) * b.panel..][..b.k * 16]);
    let cells: [&[[bf16; 32]]; P] = std::array::from_fn(|q| panels[q].as_chunks::<32>().0);
    let turns = _mm512_setr_epi32(
        0x10_0000, 0x11_0001, 0x12_0002, 0x13_0003, 0x14_0004, 0x15_0005, 0x16_0006, 0x17_0007, 0x18_0008, 0x19_0009,
        0x1a_000a, 0x1b_000b, 0x1c_000c, 0x1d_000d, 0x1e_000e, 0x1f_000f,
    );
    let mut sums = [[_mm512_setzero_ps(); P]; R];
    let mut add = |g: usize, of: [__m512i; P]| {
        for (row, sums) in rows.iter().zip(&mut sums) {
            let [even, odd] = row[g].map(|v| u32::from(v.to_bits()));
            let pair = _mm512_set1_epi32((even | odd << 16) as i32);
            for (sum, of) in sums.iter_mut().zip(of) {
                *sum = _mm512_dpbf16_ps(*sum, as_halves(pair), as_halves(of));
            }
        }
    };
    let of = |g: usize| -> [__m512i; P] {
        // SAFETY: sixty-four bytes can be read from each of the cells.
        std::array::from_fn(|q| unsafe { _mm512_loadu_si512(cells[q][g].as_ptr().cast()) })
    };
    for g in 0..pairs {
        let of = of(g);
        add(g, if WOVEN { of } else { of.map(|v| _mm512_permutexvar_epi16(turns, v)) });
    }
    if pairs * 2 < b.k {
        let of: [__m512i; P] = std::array::from_fn(|q| {
            let last: &[u16] = panels[q][pairs * 32..][..16].reinterpret_cast();
            // SAFETY: thirty-two bytes can be read from the last row.
            _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(last.as_ptr().cast()) })
        });
        add(pairs, of);
    }
    for (r, sums) in sums.iter().enumerate() {
        let row = &mut to[r * width..][..P * 16];
        for (to, sum) in row.as_chunks_mut::<16>().0.iter_mut().zip(sums) {
            // SAFETY: sixteen numbers can be written to `to`.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), *sum) };
        }
    }
}

/// Reinterprets the bits as halves.
#[inline(always)]
fn as_halves(v: __m512i) -> __m512bh {
    // SAFETY: both types have sixty-four bytes, and every bit pattern is valid.
    unsafe { std::mem::transmute(v) }
}
