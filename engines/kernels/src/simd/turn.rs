//! Transposition of sixteen vectors, and access to fewer than sixteen numbers.
use crate::simd::isa::{Isa, PanelElem};

/// Transposes sixteen vectors: lanes become vectors and vectors lanes.
#[inline(always)]
pub(crate) fn turn<I: Isa>(isa: I, v: &mut [I::V; 16]) {
    isa.turn(v);
}

/// Joins sixteen vectors pairwise: halves, quarters, and so on. After [`turn`] this joins the lanes
/// of each vector in the order of [`tree`](crate::simd::fold::tree).
#[inline(always)]
pub(crate) fn fold<V: Copy>(mut v: [V; 16], join: impl Fn(V, V) -> V) -> V {
    let mut n = 8;
    while n > 0 {
        for i in 0..n {
            v[i] = join(v[i], v[i + n]);
        }
        n /= 2;
    }
    v[0]
}

/// Joins the lanes of each of sixteen vectors in that order.
#[inline(always)]
pub(crate) fn fold_rows<I: Isa>(isa: I, mut v: [I::V; 16], join: impl Fn(I::V, I::V) -> I::V) -> [f32; 16] {
    let mut all = [0.0; 16];
    turn(isa, &mut v);
    isa.store(fold(v, join), &mut all);
    all
}

/// Loads sixteen numbers from `at` on; zero beyond the end.
#[inline(always)]
pub(crate) fn load<I: Isa>(isa: I, x: &[f32], at: usize) -> I::V {
    let x = &x[at..];
    match x.first_chunk() {
        Some(whole) => isa.load(whole),
        // SAFETY: only as many lanes are read as there are numbers.
        None => unsafe { isa.load_some(x.as_ptr(), isa.lanes(0, x.len())) },
    }
}

/// Loads the first sixteen elements, widened; zero beyond the end.
#[inline(always)]
pub(crate) fn vector<I: Isa, T: PanelElem>(isa: I, from: &[T]) -> I::V {
    match from.first_chunk() {
        Some(all) => T::lanes(isa, all),
        None if let Some(x) = T::singles(from) => load(isa, x, 0),
        None => {
            let mut some = [T::default(); 16];
            some[..from.len()].copy_from_slice(from);
            T::lanes(isa, &some)
        }
    }
}

/// Rounds and stores as many lanes as `to` has room for, at most sixteen.
#[inline(always)]
pub(crate) fn put<I: Isa, T: PanelElem>(isa: I, v: I::V, to: &mut [T]) {
    match to.first_chunk_mut() {
        Some(to) => T::put(isa, v, to),
        None => {
            let mut all = [T::default(); 16];
            T::put(isa, v, &mut all);
            to.copy_from_slice(&all[..to.len()]);
        }
    }
}
