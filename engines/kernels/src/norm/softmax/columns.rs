//! Softmax along an axis that is not the last: sixteen neighbouring columns are the lanes of a
//! vector.
use super::lines::{WIDE, end, ends};
use super::{Softmax, rows};
use crate::scratch::with_scratch;
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// Columns longer than this are computed one by one: sixteen would need too much memory.
const LONG: usize = 1 << 16;

/// Does the columns `units`.
pub(super) fn run<T: PanelElem>(s: &Softmax, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    if s.len > LONG {
        return alone(s, units, x, out);
    }
    with_scratch(s.len * WIDE, |line| {
        let mut u = units.start;
        while u < units.end {
            let (outer, column) = (u / s.inner, u % s.inner);
            let count = WIDE.min(s.inner - column).min(units.end - u);
            let base = outer * s.len * s.inner + column;
            let (line, _) = line.as_chunks_mut::<WIDE>();
            dispatch(Columns { x: &x[base..], step: s.inner, count, log: s.log, line });
            for (i, v) in line.iter().enumerate() {
                for (y, v) in out.part(base + i * s.inner, count).iter_mut().zip(v) {
                    *y = T::narrow(*v);
                }
            }
            u += count;
        }
    });
}

/// Does the columns `units` one after the other, each as a row.
fn alone<T: PanelElem>(s: &Softmax, units: Range<usize>, x: &[T], out: &mut Out<'_, T>) {
    with_scratch(s.len, |line| {
        for u in units {
            let base = u / s.inner * s.len * s.inner + u % s.inner;
            line.iter_mut().zip(x[base..].iter().step_by(s.inner)).for_each(|(v, x)| *v = x.wide());
            rows::run(None, line, s.len, s.log);
            for (i, v) in line.iter().enumerate() {
                out.part(base + i * s.inner, 1)[0] = T::narrow(*v);
            }
        }
    });
}

/// `count` columns from the first number of `x` on, with rows `step` numbers apart. Results are
/// lines of sixteen.
struct Columns<'a, T> {
    x: &'a [T],
    step: usize,
    count: usize,
    log: bool,
    line: &'a mut [[f32; WIDE]],
}

impl<T: PanelElem> Work for Columns<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let Columns { x, step, count, log, line } = self;
        let mut most = isa.splat(f32::NEG_INFINITY);
        for (i, to) in line.iter_mut().enumerate() {
            let x = &x[i * step..];
            let v = match x.first_chunk::<WIDE>() {
                Some(x) if count == WIDE => T::lanes(isa, x),
                _ => {
                    let mut some = [0.0; WIDE];
                    some.iter_mut().zip(&x[..count]).for_each(|(s, x)| *s = x.wide());
                    isa.load(&some)
                }
            };
            most = isa.at_least(most, v);
            isa.store(v, to);
        }
        let ends = ends(isa, line, most, log);
        for v in line {
            isa.store(end(isa, v, &ends), v);
        }
    }
}
