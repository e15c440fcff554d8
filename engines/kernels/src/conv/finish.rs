//! Writes the sums of one output channel to the result in one pass: applies bias, residual,
//! activation and rounding, and drops the columns between rows.
use crate::gemm::{Bias, Epilogue};
use crate::simd::Act;
use crate::simd::act::{Clip, Map, Relu, Same};
use crate::simd::isa::PanelElem;
use crate::view::Out;

/// Layout of the sums of a channel: `count` runs of `len` elements, `pitch` apart.
#[derive(Clone, Copy)]
pub(crate) struct Runs {
    pub(crate) count: usize,
    pub(crate) len: usize,
    pub(crate) pitch: usize,
}

/// Runs shorter than this are finished in place, together with the columns between them, and then
/// copied.
const LONG: usize = 64;

/// Finishes channel `i` and writes its runs one after the other to `out[at..]`. The residual is
/// read at the same position.
pub(crate) fn finish<U: PanelElem>(
    e: &Epilogue<'_, U>,
    i: usize,
    runs: Runs,
    sums: &mut [f32],
    out: &mut Out<'_, U>,
    at: usize,
) {
    let by_channel = !matches!(e.bias, Bias::PerColumn(_)) && e.alpha == 1.0;
    match e.act {
        Act::None if by_channel => with(Same, e, i, runs, sums, out, at),
        Act::Relu if by_channel => with(Relu, e, i, runs, sums, out, at),
        Act::Clip(low, high) if by_channel => with(Clip(low, high), e, i, runs, sums, out, at),
        _ => {
            if runs.pitch != runs.len {
                for r in 1..runs.count {
                    sums.copy_within(r * runs.pitch..r * runs.pitch + runs.len, r * runs.len);
                }
            }
            e.finish(&mut sums[..runs.count * runs.len], i, 0, out, at);
        }
    }
}

#[inline(always)]
fn with<M: Map, U: PanelElem>(
    map: M,
    e: &Epilogue<'_, U>,
    i: usize,
    runs: Runs,
    sums: &mut [f32],
    out: &mut Out<'_, U>,
    at: usize,
) {
    let shift = match e.bias {
        Bias::PerRow(b) => b[i].wide(),
        // Adding -0.0 changes nothing, not even the sign of zero.
        _ => -0.0,
    };
    let whole = runs.count * runs.len;
    let to = out.part(at, whole);
    let size = (runs.len, runs.pitch);
    if let Some((r, factor)) = e.residual {
        added(map, sums, size, shift, (&r[at..at + whole], factor), to);
    } else if runs.pitch == runs.len || runs.len >= LONG {
        mapped(map, sums, size, shift, to);
    } else {
        let flat = (runs.count - 1) * runs.pitch + runs.len;
        in_place(map, &mut sums[..flat], shift);
        narrowed(sums, size, to);
    }
}

crate::multiversion! {
    fn mapped<M: Map, U: PanelElem>(map: M, sums: &[f32], size: (usize, usize), shift: f32, out: &mut [U]) {
        let (len, pitch) = if size.0 == size.1 { (out.len(), out.len()) } else { size };
        for (to, from) in out.chunks_exact_mut(len.max(1)).zip(sums.chunks(pitch.max(1))) {
            for (t, s) in to.iter_mut().zip(from) {
                *t = U::narrow(map.at(*s + shift));
            }
        }
    }
}
crate::multiversion! {
    fn added<M: Map, U: PanelElem>(map: M, sums: &[f32], size: (usize, usize), shift: f32, other: (&[U], f32), out: &mut [U]) {
        let (len, pitch) = if size.0 == size.1 { (out.len(), out.len()) } else { size };
        let rows = other.0.chunks_exact(len.max(1));
        for ((to, from), other_row) in out.chunks_exact_mut(len.max(1)).zip(sums.chunks(pitch.max(1))).zip(rows) {
            for ((t, s), r) in to.iter_mut().zip(from).zip(other_row) {
                *t = U::narrow(map.at(r.wide().mul_add(other.1, *s + shift)));
            }
        }
    }
}
crate::multiversion! {
    fn in_place<M: Map>(map: M, sums: &mut [f32], shift: f32) {
        for s in sums.iter_mut() {
            *s = map.at(*s + shift);
        }
    }
}
crate::multiversion! {
    fn narrowed<U: PanelElem>(sums: &[f32], size: (usize, usize), out: &mut [U]) {
        for (to, from) in out.chunks_exact_mut(size.0.max(1)).zip(sums.chunks(size.1.max(1))) {
            for (t, s) in to.iter_mut().zip(from) {
                *t = U::narrow(*s);
            }
        }
    }
}
