//! Greatest elements of windows, channels first, in the type of the input: first the rows of a
//! window are combined into one, then the columns of that.
use crate::kernels::conv::window::Axis;
use crate::par;
use ge_kernels::view::{Elem, lines};
use ge_plugin_api::Result;

/// The greater of two elements. NaN is greater than all numbers; of equal elements the first stays.
fn greater<T: Elem>(a: T, b: T) -> T {
    let nan = |v: &T| v.partial_cmp(v).is_none();
    if b > a || (nan(&b) && !nan(&a)) { b } else { a }
}

/// Input positions of a window along an axis.
pub(super) fn places(a: &Axis, output: usize) -> impl Iterator<Item = usize> {
    let base = (output * a.stride) as i64 - a.begin;
    let (n, step) = (a.input as i64, a.dilation as i64);
    (0..a.kernel as i64).map(move |k| base + k * step).filter(move |p| (0..n).contains(p)).map(|p| p as usize)
}

/// Writes the greatest element of every window of every plane, `lowest` for windows without
/// elements.
pub fn greatest<T: Elem>(x: &[T], [d, h, w]: [Axis; 3], lowest: T, y: &mut [T]) -> Result<()> {
    let (ip, op) = (d.input * h.input * w.input, d.output * h.output * w.output);
    if y.is_empty() {
        return Ok(());
    }
    par::rows(y, op, op * d.kernel * h.kernel * w.kernel, |p, out| {
        let plane = &x[p * ip..][..ip];
        let mut line = vec![lowest; w.input];
        for (i, o) in out.chunks_exact_mut(w.output).enumerate() {
            line.fill(lowest);
            for z in places(&d, i / h.output) {
                for y in places(&h, i % h.output) {
                    lines::update(&mut line, &plane[(z * h.input + y) * w.input..][..w.input], greater);
                }
            }
            o.fill(lowest);
            for k in 0..w.kernel {
                let (range, first) = w.valid(k);
                if range.is_empty() {
                    continue;
                }
                let from = &line[(first + (range.start * w.stride) as i64) as usize..];
                let o = &mut o[range];
                if w.stride == 1 {
                    lines::update(o, from, greater);
                } else {
                    o.iter_mut().zip(from.iter().step_by(w.stride)).for_each(|(o, v)| *o = greater(*o, *v));
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_those_of_the_definition() {
        let axis = |input: usize, kernel: usize, stride: usize, dilation: usize, begin: i64, output: usize| Axis {
            input,
            kernel,
            stride,
            dilation,
            begin,
            end: begin,
            output,
        };
        for ax in [
            [axis(1, 1, 1, 1, 0, 1), axis(5, 3, 2, 1, 1, 3), axis(40, 3, 1, 1, 1, 40)],
            [axis(4, 2, 2, 1, 0, 2), axis(6, 2, 1, 2, 1, 6), axis(7, 3, 3, 2, 2, 3)],
            [axis(1, 1, 1, 1, 0, 1), axis(2, 1, 4, 1, 1, 2), axis(3, 2, 2, 1, 0, 1)],
        ] {
            let [d, h, w] = ax;
            let (ip, op) = (d.input * h.input * w.input, d.output * h.output * w.output);
            let mut x: Vec<f32> = (0..2 * ip).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
            x[ip / 2] = f32::NAN;
            let mut y = vec![0.0; 2 * op];
            greatest(&x, ax, f32::NEG_INFINITY, &mut y).unwrap();
            for (i, v) in y.iter().enumerate() {
                let (p, i) = (i / op, i % op);
                let mut want = f32::NEG_INFINITY;
                for z in places(&d, i / (h.output * w.output)) {
                    for r in places(&h, i / w.output % h.output) {
                        for c in places(&w, i % w.output) {
                            want = greater(want, x[p * ip + (z * h.input + r) * w.input + c]);
                        }
                    }
                }
                assert_eq!(v.to_bits(), want.to_bits(), "{ax:?} at {i}");
            }
        }
    }
}
