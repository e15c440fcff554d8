//! Clusters: element-wise steps and reductions over a tile of rows, which stays in the cache
//! between steps. Lanes have four bytes: a single, the bits of an `i32`, or a truth value as one or
//! zero. A value is full (one lane for each element of the rows) or a column (one lane for each
//! row). A reduction turns full rows into a column by the additions of [`crate::reduce`], so that
//! the bits of a row depend only on the row.
use super::chain::{of_number, pairs, with_number};
use super::lanes::{self, Convert, Lane};
use super::{Binary, Compare, Source, Unary, unary};
use crate::reduce::Reduce;
use crate::view::Out;

/// One step over earlier values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClusterStep {
    /// A function of one value.
    Unary(Unary, usize),
    /// A function of two operands.
    Binary(Binary, Source, Source),
    /// A reduction of each row of a value.
    Reduce(Reduce, usize),
    /// A comparison of two operands; the result is a truth value.
    Compare(Compare, Source, Source),
    /// A function of two integers. A literal number holds the bits of an integer.
    Whole(Binary, Source, Source),
    /// A comparison of two integers; the result is a truth value.
    WholeCompare(Compare, Source, Source),
    /// The first operand where the truth value is true, otherwise the second.
    Select(usize, Source, Source),
    /// A conversion of a value.
    Convert(Convert, usize),
}

impl ClusterStep {
    /// The values that the step reads.
    pub fn reads(&self) -> impl Iterator<Item = usize> {
        let of = |s: Source| if let Source::Value(k) = s { Some(k) } else { None };
        let all = match *self {
            ClusterStep::Unary(_, x) | ClusterStep::Reduce(_, x) | ClusterStep::Convert(_, x) => [Some(x), None, None],
            ClusterStep::Binary(_, a, b)
            | ClusterStep::Compare(_, a, b)
            | ClusterStep::Whole(_, a, b)
            | ClusterStep::WholeCompare(_, a, b) => [of(a), of(b), None],
            ClusterStep::Select(c, a, b) => [Some(c), of(a), of(b)],
        };
        all.into_iter().flatten()
    }
}

/// The steps of a cluster and the places of their results.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    steps: Vec<ClusterStep>,
    inputs: usize,
    /// Whether each value is full.
    full: Vec<bool>,
    /// The place of each step's result: first the slots, then the outputs.
    places: Vec<usize>,
    /// Whether each slot holds full rows.
    slots: Vec<bool>,
}

impl Cluster {
    /// Makes a cluster. Steps may only read inputs and earlier results. `full` tells for each input
    /// whether it is full. `gives` lists the steps whose results are outputs, each once. If rows
    /// have a single element, every value is a column.
    pub fn new(steps: Vec<ClusterStep>, full: &[bool], gives: &[usize]) -> Cluster {
        let inputs = full.len();
        let mut full = full.to_vec();
        let mut last = vec![0; steps.len()];
        for (k, step) in steps.iter().enumerate() {
            let wide = !matches!(step, ClusterStep::Reduce(..)) && step.reads().any(|x| full[x]);
            full.push(wide);
            for x in step.reads().filter(|x| *x >= inputs) {
                last[x - inputs] = k;
            }
        }
        // Slots of columns and of full rows are allocated and released separately.
        let (mut slots, mut free) = (Vec::new(), [Vec::new(), Vec::new()]);
        let mut places = Vec::with_capacity(steps.len());
        for (k, step) in steps.iter().enumerate() {
            let wide = full[inputs + k];
            places.push(match gives.iter().position(|g| *g == k) {
                Some(at) => Err(at),
                None => Ok(free[usize::from(wide)].pop().unwrap_or_else(|| {
                    slots.push(wide);
                    slots.len() - 1
                })),
            });
            let mut over: Vec<usize> = step.reads().filter(|x| *x >= inputs && last[x - inputs] == k).collect();
            over.sort_unstable();
            over.dedup();
            for x in over {
                if let Ok(at) = places[x - inputs] {
                    free[usize::from(full[x])].push(at);
                }
            }
        }
        let places = places.into_iter().map(|p| p.unwrap_or_else(|at| slots.len() + at)).collect();
        Cluster { steps, inputs, full, places, slots }
    }

    /// The steps of the cluster.
    pub fn steps(&self) -> &[ClusterStep] {
        &self.steps
    }

    /// Whether value `k` is full; values are first the inputs, then the results of the steps.
    pub fn is_full(&self, k: usize) -> bool {
        self.full[k]
    }

    /// Size of the working memory in floats, for `rows` rows of `len` elements.
    pub fn memory(&self, rows: usize, len: usize) -> usize {
        self.slots.iter().map(|full| if *full { rows * len } else { rows }).sum()
    }

    /// Computes the steps for `rows` rows of `len` elements. Full inputs and outputs must have at
    /// least `rows * len` numbers, columns at least `rows`, and `memory` the size of
    /// [`Cluster::memory`].
    pub fn run(&self, rows: usize, len: usize, inputs: &[&[f32]], memory: &mut [f32], outputs: Vec<&mut [f32]>) {
        let count = |full: bool| if full { rows * len } else { rows };
        let mut held: Vec<&mut [f32]> = Vec::with_capacity(self.slots.len() + outputs.len());
        let mut rest = memory;
        for full in &self.slots {
            let (slot, more) = rest.split_at_mut(count(*full));
            held.push(slot);
            rest = more;
        }
        held.extend(outputs);
        for (k, step) in self.steps.iter().enumerate() {
            let wide = self.full[self.inputs + k];
            // The place of the result does not hold an operand of the step.
            let place = std::mem::take(&mut held[self.places[k]]);
            let to = &mut place[..count(wide)];
            let value = |x: usize| -> &[f32] {
                let from: &[f32] = if x < self.inputs { inputs[x] } else { held[self.places[x - self.inputs]] };
                &from[..count(self.full[x])]
            };
            // If a step reads a column together with full rows, it goes row by row, otherwise all
            // rows at once.
            let columns = wide && step.reads().any(|x| !self.full[x]);
            let parts = if columns { rows } else { 1 };
            let part = |to: usize, r: usize| if columns { r * len..(r + 1) * len } else { 0..to };
            let lane = |s: Source, r: usize| match s {
                Source::Number(v) => Lane::One(v),
                Source::Value(x) if columns && !self.full[x] => Lane::One(value(x)[r]),
                Source::Value(x) => Lane::Row(&value(x)[part(value(x).len(), r)]),
            };
            let mut each = |f: &dyn Fn(usize, &mut [f32])| {
                let all = to.len();
                (0..parts).for_each(|r| f(r, &mut to[part(all, r)]));
            };
            match *step {
                ClusterStep::Compare(op, a, b) => {
                    each(&|r, to| lanes::compare_lanes(op, lane(a, r), lane(b, r), to));
                }
                ClusterStep::Whole(op, a, b) => each(&|r, to| lanes::map_whole(op, lane(a, r), lane(b, r), to)),
                ClusterStep::WholeCompare(op, a, b) => {
                    each(&|r, to| lanes::compare_whole(op, lane(a, r), lane(b, r), to));
                }
                ClusterStep::Select(c, a, b) => each(&|r, to| match lane(Source::Value(c), r) {
                    Lane::Row(c) => lanes::choose(c, lane(a, r), lane(b, r), to),
                    Lane::One(c) => match lane(if c != 0.0 { a } else { b }, r) {
                        Lane::Row(x) => to.copy_from_slice(x),
                        Lane::One(x) => to.fill(x),
                    },
                }),
                ClusterStep::Convert(how, x) => lanes::convert(how, value(x), to),
                ClusterStep::Unary(op, x) => unary(op, 0..to.len(), value(x), &mut Out::new(to)),
                ClusterStep::Reduce(op, x) => {
                    op.rows(if self.full[x] { len } else { 1 }, value(x), to);
                }
                ClusterStep::Binary(op, Source::Value(a), Source::Value(b)) => {
                    let (x, y) = (value(a), value(b));
                    match (self.full[a], self.full[b]) {
                        _ if len == 0 && wide => {}
                        (true, false) => {
                            for ((to, x), y) in to.chunks_exact_mut(len).zip(x.chunks_exact(len)).zip(y) {
                                with_number(op, x, *y, to);
                            }
                        }
                        (false, true) => {
                            for ((to, x), y) in to.chunks_exact_mut(len).zip(x).zip(y.chunks_exact(len)) {
                                of_number(op, *x, y, to);
                            }
                        }
                        _ => pairs(op, x, y, to),
                    }
                }
                ClusterStep::Binary(op, Source::Value(a), Source::Number(b)) => with_number(op, value(a), b, to),
                ClusterStep::Binary(op, Source::Number(a), Source::Value(b)) => of_number(op, a, value(b), to),
                ClusterStep::Binary(op, Source::Number(a), Source::Number(b)) => {
                    let mut one = [0.0];
                    pairs(op, &[a], &[b], &mut one);
                    to.fill(one[0]);
                }
            }
            held[self.places[k]] = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Level, with_level};

    fn numbers(n: usize, by: f32) -> Vec<f32> {
        (0..n).map(|i| (i as f32 * by).sin() * 3.0).collect()
    }

    /// Softmax in small steps, with the powers and the maxima as further outputs.
    fn softmax() -> Cluster {
        let steps = vec![
            ClusterStep::Reduce(Reduce::Max, 0),
            ClusterStep::Binary(Binary::Sub, Source::Value(0), Source::Value(1)),
            ClusterStep::Unary(Unary::Exp, 2),
            ClusterStep::Reduce(Reduce::Sum, 3),
            ClusterStep::Binary(Binary::Div, Source::Value(3), Source::Value(4)),
        ];
        Cluster::new(steps, &[true], &[4, 2, 0])
    }

    #[test]
    fn a_softmax_of_steps_is_one_on_every_level() {
        let c = softmax();
        for (rows, len) in [(1, 1), (3, 7), (2, 64), (5, 131)] {
            let x = numbers(rows * len, 0.7);
            let run = || {
                let (mut y, mut e, mut m) = (vec![0.0; rows * len], vec![0.0; rows * len], vec![0.0; rows]);
                let outputs = vec![&mut y[..], &mut e[..], &mut m[..]];
                c.run(rows, len, &[&x], &mut vec![f32::NAN; c.memory(rows, len)], outputs);
                (y, e, m)
            };
            let want = with_level(Level::Scalar, run);
            for level in Level::available() {
                assert_eq!(with_level(level, run), want, "{level:?}");
            }
            for r in 0..rows {
                let row = &x[r * len..(r + 1) * len];
                let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                assert_eq!(want.2[r], most);
                let sum: f64 = row.iter().map(|v| f64::from(v - most).exp()).sum();
                for (i, v) in row.iter().enumerate() {
                    let e = f64::from(v - most).exp();
                    assert!((f64::from(want.1[r * len + i]) - e).abs() < 1e-6);
                    assert!((f64::from(want.0[r * len + i]) - e / sum).abs() < 1e-6);
                }
            }
        }
    }

    /// A row gives the same bits in a tile as alone, and working memory has the size of the values
    /// that are live at once.
    #[test]
    fn rows_do_not_depend_on_their_tile() {
        let c = softmax();
        assert_eq!(c.memory(4, 100), 400 + 4);
        let (rows, len) = (6, 45);
        let x = numbers(rows * len, 0.31);
        let some = |from: usize, rows: usize| {
            let (mut y, mut e, mut m) = (vec![0.0; rows * len], vec![0.0; rows * len], vec![0.0; rows]);
            let part = &x[from * len..(from + rows) * len];
            let outputs = vec![&mut y[..], &mut e[..], &mut m[..]];
            c.run(rows, len, &[part], &mut vec![f32::NAN; c.memory(rows, len)], outputs);
            y
        };
        let apart: Vec<f32> = (0..rows).flat_map(|r| some(r, 1)).collect();
        assert_eq!(some(0, rows), apart);
    }

    /// Columns combined with full rows in both orders, literal numbers, and rows without elements.
    #[test]
    fn columns_are_read_by_each_row() {
        let steps = vec![
            ClusterStep::Binary(Binary::Sub, Source::Value(1), Source::Value(0)),
            ClusterStep::Binary(Binary::Mul, Source::Value(1), Source::Number(2.0)),
            ClusterStep::Binary(Binary::Sub, Source::Value(2), Source::Value(3)),
            ClusterStep::Reduce(Reduce::Min, 4),
            ClusterStep::Binary(Binary::Sub, Source::Number(1.0), Source::Number(3.0)),
        ];
        let c = Cluster::new(steps, &[true, false], &[2, 3, 4]);
        assert!(c.is_full(4) && !c.is_full(3) && !c.is_full(6));
        let (mut y, mut least, mut two) = ([0.0; 4], [0.0; 2], [0.0; 2]);
        let mut memory = vec![f32::NAN; c.memory(2, 2)];
        c.run(2, 2, &[&[1.0, 2.0, 3.0, 4.0], &[10.0, 20.0]], &mut memory, vec![&mut y, &mut least, &mut two]);
        assert_eq!((y, least, two), ([-11.0, -12.0, -23.0, -24.0], [-12.0, -24.0], [-2.0, -2.0]));
        let (mut least, mut two) = ([0.0; 2], [0.0; 2]);
        c.run(2, 0, &[&[], &[10.0, 20.0]], &mut memory, vec![&mut [], &mut least, &mut two]);
        assert_eq!(least, [f32::INFINITY; 2]);
    }
}
