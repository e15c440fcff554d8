//! Chains of element-wise steps over short blocks in single precision, which stay in the cache
//! between steps.
use super::{Binary, Unary, unary};
use crate::view::{Elem, Out};

/// Elements of a block.
pub const BLOCK: usize = 1024;

/// An operand: an earlier value or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// Value k: the inputs, then the results of the steps.
    Value(usize),
    /// A number.
    Number(f32),
}

/// One step over earlier values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChainStep {
    /// A map of one value.
    Unary(Unary, usize),
    /// A map of two.
    Binary(Binary, Source, Source),
    /// `(x - zero) * scale`.
    Dequantize(usize, f32, f32),
    /// `clamp(round_half_even(x / scale) + zero, low, high)`.
    Quantize(usize, f32, f32, [f32; 2]),
}

crate::multiversion! {
    fn pairs(op: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
        macro_rules! each {
            (|$x:ident, $y:ident| $e:expr) => {
                for ((o, $x), $y) in out.iter_mut().zip(a).zip(b) {
                    let ($x, $y) = (*$x, *$y);
                    *o = $e;
                }
            };
        }
        match op {
            Binary::Add => each!(|x, y| x + y),
            Binary::Sub => each!(|x, y| x - y),
            Binary::Mul => each!(|x, y| x * y),
            Binary::Div => each!(|x, y| x / y),
            Binary::Max => each!(|x, y| if x > y || x.is_nan() { x } else { y }),
            Binary::Min => each!(|x, y| if x < y || x.is_nan() { x } else { y }),
            Binary::Pow => each!(|x, y| x.powf(y)),
            Binary::SquaredDifference => each!(|x, y| (x - y) * (x - y)),
            Binary::PRelu => each!(|x, y| if x > 0.0 { x } else { x * y }),
        }
    }
}
crate::multiversion! {
    fn scaled(x: &[f32], out: &mut [f32], zero: f32, scale: f32) {
        for (o, x) in out.iter_mut().zip(x) {
            *o = (x - zero) * scale;
        }
    }
}
crate::multiversion! {
    fn rounded(x: &[f32], out: &mut [f32], scale: f32, zero: f32, range: [f32; 2]) {
        for (o, x) in out.iter_mut().zip(x) {
            let v = (x / scale).round_ties_even() + zero;
            *o = crate::simd::act::at_most(crate::simd::act::at_least(v, range[0]), range[1]);
        }
    }
}

crate::multiversion! {
    /// Elements of an input to a block.
    pub fn widen<T: Elem>(x: &[T], out: &mut [f32]) {
        for (o, v) in out.iter_mut().zip(x) {
            *o = v.to_f32();
        }
    }
}
crate::multiversion! {
    /// A block to elements of the output.
    pub fn narrow<T: Elem>(x: &[f32], out: &mut [T]) {
        for (o, v) in out.iter_mut().zip(x) {
            *o = T::from_f32(*v);
        }
    }
}

crate::multiversion! {
    /// A block of whole numbers in the range of a byte to bytes; what is no number becomes zero.
    pub fn narrow_whole(x: &[f32], out: &mut [u8]) {
        let mut whole = [0i32; 64];
        // Two loops over a block at a time: each of them is one over vectors.
        for (out, x) in out.chunks_mut(whole.len()).zip(x.chunks(whole.len())) {
            for (w, x) in whole.iter_mut().zip(x) {
                let v = if x.is_nan() { 0.0 } else { *x };
                *w = (v + 12_582_912.0).to_bits() as i32 - 0x4b40_0000;
            }
            for (o, w) in out.iter_mut().zip(&whole) {
                *o = *w as u8;
            }
        }
    }
}

/// Computes the steps for `n` elements: `values` holds the inputs in front and has room for the
/// results behind them.
pub fn run_chain(steps: &[ChainStep], inputs: usize, n: usize, values: &mut [Vec<f32>]) {
    let mut spare = [[0.0f32; BLOCK]; 2];
    for (k, step) in steps.iter().enumerate() {
        let (before, after) = values.split_at_mut(inputs + k);
        let Some(out) = after.first_mut() else { return };
        let out = &mut out[..n];
        match *step {
            ChainStep::Unary(op, x) => unary(op, 0..n, &before[x], &mut Out::new(out)),
            ChainStep::Binary(op, a, b) => {
                let [sa, sb] = &mut spare;
                pairs(op, operand(before, a, sa, n), operand(before, b, sb, n), out);
            }
            ChainStep::Dequantize(x, scale, zero) => scaled(&before[x][..n], out, zero, scale),
            ChainStep::Quantize(x, scale, zero, range) => rounded(&before[x][..n], out, scale, zero, range),
        }
    }
}

fn operand<'v>(before: &'v [Vec<f32>], s: Source, spare: &'v mut [f32; BLOCK], n: usize) -> &'v [f32] {
    match s {
        Source::Value(k) => &before[k][..n],
        Source::Number(c) => {
            spare[..n].fill(c);
            &spare[..n]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_become_bytes_of_either_kind() {
        for level in crate::simd::Level::available() {
            let (mut u, mut i) = ([7u8; 100], [7u8; 100]);
            let x: Vec<f32> =
                (0..100).map(|i| if i == 70 { f32::NAN } else { i as f32 * 2.5 }).map(f32::round).collect();
            let signed: Vec<f32> = (0..100).map(|i| i as f32 - 128.0).collect();
            crate::simd::with_level(level, || {
                narrow_whole(&x, &mut u);
                narrow_whole(&signed, &mut i);
            });
            assert!(u.iter().zip(&x).all(|(u, x)| *u == *x as u8));
            assert!(i.iter().zip(&signed).all(|(i, x)| *i as i8 == *x as i8));
        }
    }

    #[test]
    fn a_chain_is_its_steps() {
        let steps = [
            ChainStep::Dequantize(0, 0.5, 2.0),
            ChainStep::Binary(Binary::Mul, Source::Value(2), Source::Value(1)),
            ChainStep::Unary(Unary::Neg, 3),
            ChainStep::Quantize(4, 0.25, 1.0, [-128.0, 127.0]),
        ];
        let mut values = vec![vec![4.0, 6.0], vec![3.0, -100.0]];
        values.resize(6, vec![0.0; 2]);
        run_chain(&steps, 2, 2, &mut values);
        assert_eq!(values[3], [3.0, -200.0]);
        assert_eq!(values[5], [-11.0, 127.0]);
    }
}
