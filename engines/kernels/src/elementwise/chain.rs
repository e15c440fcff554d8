//! Chains of element-wise steps over short blocks in single precision. The blocks stay in the cache
//! between steps.
use super::binary::{cube, power, root};
use super::{Binary, Unary, unary};
use crate::view::{Elem, Out};

/// Maximum number of elements of a block.
pub const BLOCK: usize = 1024;

/// An operand: an earlier value or a literal number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// Value `k`: first the inputs, then the results of the steps.
    Value(usize),
    /// A literal number.
    Number(f32),
}

/// One step over earlier values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChainStep {
    /// A function of one value.
    Unary(Unary, usize),
    /// A function of two operands.
    Binary(Binary, Source, Source),
    /// `(x - zero) * scale`, with the value, the scale and the zero point.
    Dequantize(usize, f32, f32),
    /// `clamp(round_half_even(x / scale) + zero, low, high)`, with the value, the scale, the zero
    /// point and the bounds.
    Quantize(usize, f32, f32, [f32; 2]),
}

/// Instantiates a loop for each operator of two numbers.
macro_rules! by_operator {
    ($op:ident, $each:ident) => {
        match $op {
            Binary::Add => $each!(|x, y| x + y),
            Binary::Sub => $each!(|x, y| x - y),
            Binary::Mul => $each!(|x, y| x * y),
            Binary::Div => $each!(|x, y| x / y),
            Binary::Max => $each!(|x, y| if x > y || x.is_nan() { x } else { y }),
            Binary::Min => $each!(|x, y| if x < y || x.is_nan() { x } else { y }),
            Binary::Pow => $each!(|x, y| power(x, y)),
            Binary::SquaredDifference => $each!(|x, y| (x - y) * (x - y)),
            Binary::PRelu => $each!(|x, y| if x < 0.0 { x * y } else { x }),
        }
    };
}

crate::multiversion! {
    pub(super) fn pairs(op: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
        macro_rules! each {
            (|$x:ident, $y:ident| $e:expr) => {
                for ((o, $x), $y) in out.iter_mut().zip(a).zip(b) {
                    let ($x, $y) = (*$x, *$y);
                    *o = $e;
                }
            };
        }
        by_operator!(op, each)
    }
}
crate::multiversion! {
    pub(super) fn with_number(op: Binary, a: &[f32], number: f32, out: &mut [f32]) {
        if op == Binary::Pow {
            // The special cases of `power` are selected once, by the number.
            match number {
                2.0 => return out.iter_mut().zip(a).for_each(|(o, x)| *o = x * x),
                3.0 => return out.iter_mut().zip(a).for_each(|(o, x)| *o = cube(*x)),
                0.5 => return out.iter_mut().zip(a).for_each(|(o, x)| *o = root(*x)),
                _ => {}
            }
        }
        macro_rules! each {
            (|$x:ident, $y:ident| $e:expr) => {
                for (o, $x) in out.iter_mut().zip(a) {
                    let ($x, $y) = (*$x, number);
                    *o = $e;
                }
            };
        }
        by_operator!(op, each)
    }
}
crate::multiversion! {
    pub(super) fn of_number(op: Binary, number: f32, b: &[f32], out: &mut [f32]) {
        macro_rules! each {
            (|$x:ident, $y:ident| $e:expr) => {
                for (o, $y) in out.iter_mut().zip(b) {
                    let ($x, $y) = (number, *$y);
                    *o = $e;
                }
            };
        }
        by_operator!(op, each)
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
    /// Converts elements of an input to a block.
    pub fn widen<T: Elem>(x: &[T], out: &mut [f32]) {
        for (o, v) in out.iter_mut().zip(x) {
            *o = v.to_f32();
        }
    }
}
crate::multiversion! {
    /// Converts a block to elements of the output.
    pub fn narrow<T: Elem>(x: &[f32], out: &mut [T]) {
        for (o, v) in out.iter_mut().zip(x) {
            *o = T::from_f32(*v);
        }
    }
}

crate::multiversion! {
    /// Converts a block of integers within the range of a byte to bytes; NaN becomes zero.
    pub fn narrow_whole(x: &[f32], out: &mut [u8]) {
        let mut whole = [0i32; 64];
        // Two loops over a small block at a time, so that each becomes a vector loop.
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

/// The steps of a chain and the blocks of their results. A block is reused after its last reader,
/// so that the blocks in use stay in the first-level cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    steps: Vec<ChainStep>,
    inputs: usize,
    /// The block of each step's result.
    places: Vec<usize>,
    blocks: usize,
}

impl ChainStep {
    /// The values that the step reads.
    fn reads(&self) -> impl Iterator<Item = usize> {
        let of = |s: Source| if let Source::Value(k) = s { Some(k) } else { None };
        let both = match *self {
            ChainStep::Unary(_, x) | ChainStep::Dequantize(x, ..) | ChainStep::Quantize(x, ..) => [Some(x), None],
            ChainStep::Binary(_, a, b) => [of(a), of(b)],
        };
        both.into_iter().flatten()
    }
}

impl Chain {
    /// Makes a chain of at least one step. Each step may only read inputs and earlier results.
    pub fn new(steps: Vec<ChainStep>, inputs: usize) -> Chain {
        let mut last = vec![0; steps.len()];
        for (k, step) in steps.iter().enumerate() {
            for x in step.reads().filter(|x| *x >= inputs) {
                last[x - inputs] = k;
            }
        }
        let (mut places, mut free, mut blocks) = (Vec::new(), Vec::new(), 0);
        for (k, step) in steps.iter().enumerate() {
            places.push(free.pop().unwrap_or_else(|| {
                blocks += 1;
                blocks - 1
            }));
            let mut over: Vec<usize> = step.reads().filter(|x| *x >= inputs && last[x - inputs] == k).collect();
            over.dedup();
            free.extend(over.into_iter().map(|x| places[x - inputs]));
        }
        Chain { steps, inputs, places, blocks }
    }

    /// The steps of the chain.
    pub fn steps(&self) -> &[ChainStep] {
        &self.steps
    }

    /// Size of the working memory in floats.
    pub fn memory(&self) -> usize {
        self.blocks * BLOCK
    }

    /// Computes the chain for `out.len()` elements, at most [`BLOCK`]. Each input must have that
    /// many elements, and `memory` the size of [`Chain::memory`].
    pub fn run(&self, inputs: &[&[f32]], memory: &mut [f32], out: &mut [f32]) {
        let n = out.len();
        let end = self.steps.len() - 1;
        for (k, step) in self.steps.iter().enumerate() {
            // The block of the result does not hold an operand of the step.
            let (before, rest) = memory.split_at_mut(self.places[k] * BLOCK);
            let (own, after) = rest.split_at_mut(BLOCK.min(rest.len()));
            let to = if k == end { &mut *out } else { &mut own[..n] };
            let value = |x: usize| -> &[f32] {
                if x < self.inputs {
                    return &inputs[x][..n];
                }
                let at = self.places[x - self.inputs];
                let from = if at < self.places[k] {
                    &before[at * BLOCK..]
                } else {
                    &after[(at - self.places[k] - 1) * BLOCK..]
                };
                &from[..n]
            };
            match *step {
                ChainStep::Unary(op, x) => unary(op, 0..n, value(x), &mut Out::new(to)),
                ChainStep::Binary(op, Source::Value(a), Source::Value(b)) => pairs(op, value(a), value(b), to),
                ChainStep::Binary(op, Source::Value(a), Source::Number(b)) => with_number(op, value(a), b, to),
                ChainStep::Binary(op, Source::Number(a), Source::Value(b)) => of_number(op, a, value(b), to),
                ChainStep::Binary(op, Source::Number(a), Source::Number(b)) => {
                    let mut one = [0.0];
                    pairs(op, &[a], &[b], &mut one);
                    to.fill(one[0]);
                }
                ChainStep::Dequantize(x, scale, zero) => scaled(value(x), to, zero, scale),
                ChainStep::Quantize(x, scale, zero, range) => rounded(value(x), to, scale, zero, range),
            }
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
        let (values, mut y) = ([[4.0, 6.0], [3.0, -100.0]], [0.0; 2]);
        for (many, want) in [(2, [3.0, -200.0]), (3, [-3.0, 200.0]), (4, [-11.0, 127.0])] {
            let chain = Chain::new(steps[..many].to_vec(), 2);
            chain.run(&[&values[0], &values[1]], &mut vec![9.0; chain.memory()], &mut y);
            assert_eq!(y, want);
        }
    }

    /// Random chains compared with the same steps where each has its own block: results are kept
    /// exactly as long as a later step reads them.
    #[test]
    fn results_are_kept_until_their_last_reader() {
        let mut seed = 1u64;
        let mut next = |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % n
        };
        for _ in 0..300 {
            let (inputs, many, n) = (1 + next(3), 1 + next(12), 1 + next(40));
            let given: Vec<Vec<f32>> = (0..inputs).map(|_| (0..n).map(|_| next(9) as f32 - 4.0).collect()).collect();
            let mut all = given.clone();
            let mut steps = vec![];
            for k in 0..many {
                let mut of = |steps: usize| {
                    if next(4) == 0 { Source::Number(steps as f32 - 1.5) } else { Source::Value(next(inputs + k)) }
                };
                let op = [Binary::Sub, Binary::Max, Binary::Mul][k % 3];
                let (a, b) = (of(k), of(3));
                let x = next(inputs + k);
                steps.push(if next(3) == 0 { ChainStep::Unary(Unary::Neg, x) } else { ChainStep::Binary(op, a, b) });
                let at = |s: Source, i: usize| match s {
                    Source::Value(v) => all[v][i],
                    Source::Number(v) => v,
                };
                let one = |i: usize| match (steps[k], op) {
                    (ChainStep::Unary(..), _) => -all[x][i],
                    (_, Binary::Sub) => at(a, i) - at(b, i),
                    (_, Binary::Max) => at(a, i).max(at(b, i)),
                    _ => at(a, i) * at(b, i),
                };
                let y: Vec<f32> = (0..n).map(one).collect();
                all.push(y);
            }
            let chain = Chain::new(steps, inputs);
            let mut y = vec![f32::NAN; n];
            let slices: Vec<&[f32]> = given.iter().map(Vec::as_slice).collect();
            chain.run(&slices, &mut vec![f32::NAN; chain.memory()], &mut y);
            assert!(
                y.iter().zip(&all[inputs + many - 1]).all(|(y, w)| y == w || y.is_nan() && w.is_nan()),
                "{chain:?}"
            );
        }
    }

    #[test]
    fn a_long_chain_takes_few_blocks() {
        let step = |k: usize| ChainStep::Binary(Binary::Add, Source::Value(k), Source::Value(0));
        assert_eq!(Chain::new((0..60).map(step).collect(), 1).memory(), 2 * BLOCK);
    }
}
