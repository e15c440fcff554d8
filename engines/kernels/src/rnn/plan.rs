//! `Recurrent`: the plan of a recurrence, made once from shapes and attributes, and its run. A unit
//! of work is one direction of some sequences of the batch, over all its steps.
use crate::gemm::micro::{Left, Strided, tile};
use crate::gemm::pack::{A_STRIDE, KC};
use crate::rnn::cell::{self, Activation};
use crate::rnn::pack::{LANES, packed_input_len, packed_recurrent_len, sections};
use crate::rnn::product::Product;
use crate::scratch::with_scratch;
use crate::simd::act::{Map, Sigmoid, Tanh};
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::view::Out;
use std::ops::Range;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `h = f(gate)`.
    Rnn,
    /// Update, reset and hidden gate.
    Gru {
        /// The reset gate meets the state behind its product with the weights.
        linear_before_reset: bool,
    },
    /// Input, output, forget and cell gate.
    Lstm {
        /// The forget gate is one less the input gate.
        input_forget: bool,
    },
}

impl Cell {
    /// Number of gates.
    pub fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Gru { .. } => 3,
            Cell::Lstm { .. } => 4,
        }
    }
}

/// One of the directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    /// From the last element of each sequence to the first.
    pub reverse: bool,
    /// f, g and h of ONNX; those that the cell lacks are not read.
    pub acts: [Activation; 3],
}

/// The plan: sizes and attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrent {
    /// What a step does.
    pub cell: Cell,
    /// Steps of the longest sequence that may be.
    pub steps: usize,
    /// Sequences.
    pub batch: usize,
    /// Numbers of an element.
    pub input: usize,
    /// Numbers of a state.
    pub hidden: usize,
    /// One or two of them.
    pub directions: Vec<Direction>,
    /// What comes into an activation is cut to between minus this and this.
    pub clip: f32,
    /// The batch is the first axis of inputs, outputs and states.
    pub batch_first: bool,
}

/// What a recurrence reads. Weights are packed, direction by direction; all else is as ONNX has it,
/// and empty where absent.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, T> {
    /// The sequences.
    pub x: &'a [T],
    /// Packed weights of the input.
    pub w: &'a [T],
    /// Packed weights of the state.
    pub r: &'a [T],
    /// Biases of the input, then of the state.
    pub bias: &'a [T],
    /// Length of each sequence.
    pub lens: &'a [i32],
    /// First states.
    pub h0: &'a [T],
    /// First cell states.
    pub c0: &'a [T],
    /// Peepholes of input, output and forget gate.
    pub peep: &'a [T],
}

/// What a recurrence writes.
pub struct Results<'r, 'y, 'h, 'c, T> {
    /// The state behind each step.
    pub y: &'r mut Out<'y, T>,
    /// The last states.
    pub h: &'r mut Out<'h, T>,
    /// The last cell states, of an LSTM.
    pub c: Option<&'r mut Out<'c, T>>,
}

/// Sequences of a unit at most.
const ROWS: usize = 16;
/// Rows that meet the weights of the input together, about.
const TOGETHER: usize = 96;

crate::multiversion! {
    fn widen<T: PanelElem>(from: &[T], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.wide();
        }
    }
}
crate::multiversion! {
    fn round_to<T: PanelElem>(from: &[f32], to: &mut [T]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = T::narrow(*from);
        }
    }
}

/// Rows of the input by its packed weights, added to rows of gates.
struct Input<'a, T> {
    rows: usize,
    a: &'a [f32],
    w: &'a [T],
    /// Numbers of an element, and those that this part of the sum is over.
    input: usize,
    part: Range<usize>,
    to: &'a mut [f32],
    wide: usize,
}

impl<T: PanelElem> Work for Input<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let panels = Strided { data: &self.w[self.part.start * LANES..], row: LANES, panel: LANES * self.input };
        let shape = (self.rows, self.wide / LANES, self.part.len());
        tile::<I, _, MR, NP, N4, N1>(isa, shape, Left::copied(self.a), panels, self.to, self.wide, false);
    }
}

/// Working memory of a unit.
struct Memory<'m> {
    /// Gates of the rows of a part of the steps.
    gates: &'m mut [f32],
    /// Rows of the input.
    a: &'m mut [f32],
    /// States and cell states.
    h: &'m mut [f32],
    c: &'m mut [f32],
    /// A GRU's third gate from the state, or the state that the reset gate has met.
    late: &'m mut [f32],
    /// Biases of all gates, and of a GRU's third one from the state.
    bias: &'m mut [f32],
    late_bias: &'m mut [f32],
    peep: &'m mut [f32],
}

impl Recurrent {
    /// Sequences of a unit.
    fn rows(&self) -> usize {
        self.batch.div_ceil(self.batch.div_ceil(ROWS).max(1)).max(1)
    }

    fn blocks(&self) -> usize {
        self.hidden.div_ceil(LANES)
    }

    /// Numbers of a state with the last block filled up, and of all gates of it.
    fn widths(&self) -> (usize, usize) {
        let padded = self.blocks() * LANES;
        (padded, padded * self.cell.gates())
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        if self.batch == 0 { 0 } else { self.directions.len() * self.batch.div_ceil(self.rows()) }
    }

    /// Multiply-adds of all units.
    pub fn work(&self) -> u64 {
        let f = |v: usize| v as u64;
        let products = f(self.cell.gates()).saturating_mul(f(self.hidden)).saturating_mul(f(self.input + self.hidden));
        products.saturating_mul(f(self.directions.len())).saturating_mul(f(self.batch)).saturating_mul(f(self.steps))
    }

    /// Does some units. Operands have the lengths of the plan's sizes, and no sequence is longer
    /// than its steps: callers check that.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, ops: &Operands<'_, T>, out: &mut Results<'_, '_, '_, '_, T>) {
        let (padded, wide) = self.widths();
        let rows = self.rows();
        let steps = (TOGETHER / rows).clamp(1, self.steps.max(1));
        let sizes = [
            steps * rows * wide,
            steps * rows * A_STRIDE,
            rows * padded,
            rows * padded,
            rows * padded,
            wide,
            padded,
            3 * padded,
        ];
        for unit in units.start..units.end.min(self.units()) {
            with_scratch(sizes.iter().sum(), |mut all| {
                let parts = sizes.map(|n| {
                    let (own, rest) = std::mem::take(&mut all).split_at_mut(n);
                    all = rest;
                    own
                });
                let [gates, a, h, c, late, bias, late_bias, peep] = parts;
                let m = Memory { gates, a, h, c, late, bias, late_bias, peep };
                let per = self.batch.div_ceil(rows);
                let (d, first) = (unit / per, unit % per * rows);
                Unit { plan: self, d, first, count: rows.min(self.batch - first), steps, ops, m }.run(out);
            });
        }
    }

    /// Where the state of sequence `n` stands.
    fn state_at(&self, d: usize, n: usize) -> usize {
        (if self.batch_first { n * self.directions.len() + d } else { d * self.batch + n }) * self.hidden
    }
}

/// One unit of work.
struct Unit<'u, T> {
    plan: &'u Recurrent,
    d: usize,
    first: usize,
    count: usize,
    /// Steps whose input meets the weights together.
    steps: usize,
    ops: &'u Operands<'u, T>,
    m: Memory<'u>,
}

impl<T: PanelElem> Unit<'_, T> {
    fn len(&self, i: usize) -> usize {
        self.ops.lens.get(self.first + i).map_or(self.plan.steps, |n| usize::try_from(*n).unwrap_or(0))
    }

    fn run(mut self, out: &mut Results<'_, '_, '_, '_, T>) {
        let (p, (padded, wide)) = (self.plan, self.plan.widths());
        self.prepare();
        let longest = (0..self.count).map(|i| self.len(i)).max().unwrap_or(0);
        let mut from = 0;
        while from < longest {
            let to = (from + self.steps).min(longest);
            self.input(from..to);
            for step in from..to {
                let at = (step - from) * self.count * wide;
                self.step(step, at, padded, wide);
                for i in (0..self.count).filter(|i| step < self.len(*i)) {
                    round_to(&self.m.h[i * padded..][..p.hidden], out.y.part(self.y_at(i, step), p.hidden));
                }
            }
            from = to;
        }
        for i in 0..self.count {
            for t in self.len(i)..p.steps {
                out.y.part(self.place(i, t), p.hidden).fill(T::narrow(0.0));
            }
            let at = p.state_at(self.d, self.first + i);
            round_to(&self.m.h[i * padded..][..p.hidden], out.h.part(at, p.hidden));
            if let Some(c) = &mut out.c {
                round_to(&self.m.c[i * padded..][..p.hidden], c.part(at, p.hidden));
            }
        }
    }

    /// First states, biases and peepholes in blocks.
    fn prepare(&mut self) {
        let (p, m) = (self.plan, &mut self.m);
        let (padded, _) = p.widths();
        let (h, g) = (p.hidden, p.cell.gates());
        for (first, to) in [(self.ops.h0, &mut m.h), (self.ops.c0, &mut m.c)] {
            to.fill(0.0);
            if !first.is_empty() {
                for i in 0..self.count {
                    widen(&first[p.state_at(self.d, self.first + i)..][..h], &mut to[i * padded..][..h]);
                }
            }
        }
        m.bias.fill(0.0);
        m.late_bias.fill(0.0);
        m.late.fill(0.0);
        let late = p.cell == Cell::Gru { linear_before_reset: true };
        if !self.ops.bias.is_empty() {
            let own = &self.ops.bias[self.d * 2 * g * h..][..2 * g * h];
            for k in 0..g * h {
                let (gate, j) = (k / h, k % h);
                let at = (j / LANES * g + gate) * LANES + j % LANES;
                let (of_input, of_state) = (own[k].wide(), own[g * h + k].wide());
                if late && gate == 2 {
                    m.bias[at] = of_input;
                    m.late_bias[j] = of_state;
                } else {
                    m.bias[at] = of_input + of_state;
                }
            }
        }
        m.peep.fill(0.0);
        if !self.ops.peep.is_empty() {
            for k in 0..3 {
                widen(&self.ops.peep[(self.d * 3 + k) * h..][..h], &mut m.peep[k * padded..][..h]);
            }
        }
    }

    /// The element that a sequence has at a step.
    fn time(&self, i: usize, step: usize) -> usize {
        if self.plan.directions[self.d].reverse { self.len(i) - 1 - step } else { step }
    }

    fn y_at(&self, i: usize, step: usize) -> usize {
        self.place(i, self.time(i, step))
    }

    /// Where the output of an element stands.
    fn place(&self, i: usize, t: usize) -> usize {
        let (p, n) = (self.plan, self.first + i);
        let dirs = p.directions.len();
        let row = if p.batch_first { (n * p.steps + t) * dirs + self.d } else { (t * dirs + self.d) * p.batch + n };
        row * p.hidden
    }

    /// The gates of some steps as far as the input and the biases decide them.
    fn input(&mut self, steps: Range<usize>) {
        let (p, wide) = (self.plan, self.plan.widths().1);
        let rows = steps.len() * self.count;
        for row in self.m.gates[..rows * wide].chunks_exact_mut(wide.max(1)) {
            row.copy_from_slice(self.m.bias);
        }
        let size = packed_input_len(p.cell.gates(), p.hidden, p.input);
        let w = &self.ops.w[self.d * size..][..size];
        for k0 in (0..p.input).step_by(KC) {
            let part = k0..(k0 + KC).min(p.input);
            for q in 0..rows {
                let (step, i) = (steps.start + q / self.count, q % self.count);
                let to = q * A_STRIDE..q * A_STRIDE + part.len();
                if step >= self.len(i) {
                    self.m.a[to].fill(0.0);
                    continue;
                }
                let (t, n) = (self.time(i, step), self.first + i);
                let row = if p.batch_first { n * p.steps + t } else { t * p.batch + n };
                widen(&self.ops.x[row * p.input + k0..][..part.len()], &mut self.m.a[to]);
            }
            dispatch(Input { rows, a: self.m.a, w, input: p.input, part, to: self.m.gates, wide });
        }
    }

    /// Adds the product of states with a section of the weights to gates; `late`: of the state that
    /// the reset gate has met, or to the third gate by itself.
    fn product(&mut self, step: usize, section: usize, at: usize, late: bool) {
        let p = self.plan;
        if p.hidden == 0 {
            return;
        }
        let (padded, wide) = p.widths();
        let all = sections(p.cell.gates());
        let (first, gates) = all[section];
        let size = packed_recurrent_len(p.cell.gates(), p.hidden);
        let before: usize = all[..section].iter().map(|(_, g)| packed_recurrent_len(*g, p.hidden)).sum();
        let weights = &self.ops.r[self.d * size + before..][..packed_recurrent_len(gates, p.hidden)];
        let apart = p.cell == Cell::Gru { linear_before_reset: true };
        let m = &mut self.m;
        let (a, to, to_row, to_block) = match (late, apart) {
            (true, true) => (&*m.h, &mut *m.late, padded, LANES),
            (true, false) => (&*m.late, &mut m.gates[at + first * LANES..], wide, wide / p.blocks()),
            _ => (&*m.h, &mut m.gates[at..], wide, wide / p.blocks()),
        };
        let (rows, k, blocks, backwards) = (self.count, p.hidden, p.blocks(), step % 2 == 1);
        dispatch(Product { a, a_row: padded, rows, k, weights, blocks, gates, to, to_row, to_block, backwards });
    }

    /// One step of all sequences; those that are over keep their states.
    fn step(&mut self, step: usize, at: usize, padded: usize, wide: usize) {
        let p = self.plan;
        let [f, g, last] = p.directions[self.d].acts;
        self.product(step, 0, at, false);
        match p.cell {
            Cell::Rnn => self.each(step, at, |row, m, i| match f {
                Activation::Tanh => cell::rnn(row, Tanh, p.clip, &mut m.h[i..i + padded]),
                _ => cell::rnn(row, f, p.clip, &mut m.h[i..i + padded]),
            }),
            Cell::Gru { linear_before_reset } => {
                for row in self.m.gates[at..at + self.count * wide].chunks_exact_mut(wide.max(1)) {
                    match f {
                        Activation::Sigmoid => cell::gru_gates(row, Sigmoid, p.clip),
                        _ => cell::gru_gates(row, f, p.clip),
                    }
                }
                for i in 0..self.count {
                    let late = &mut self.m.late[i * padded..(i + 1) * padded];
                    if linear_before_reset {
                        late.copy_from_slice(self.m.late_bias);
                    } else {
                        let row = &self.m.gates[at + i * wide..][..wide];
                        cell::gru_reset(row, &self.m.h[i * padded..(i + 1) * padded], late);
                    }
                }
                self.product(step, 1, at, true);
                self.each(step, at, |row, m, i| {
                    let late = if linear_before_reset { &m.late[i..i + padded] } else { &[] };
                    let h = &mut m.h[i..i + padded];
                    match g {
                        Activation::Tanh => cell::gru_state(row, late, Tanh, p.clip, h),
                        _ => cell::gru_state(row, late, g, p.clip, h),
                    }
                });
            }
            Cell::Lstm { input_forget } => {
                let usual = [f, g, last] == [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];
                let peeps = !self.ops.peep.is_empty();
                self.each(step, at, |row, m, i| {
                    let peep = if peeps { &*m.peep } else { &[] };
                    let (h, c) = (&mut m.h[i..i + padded], &mut m.c[i..i + padded]);
                    if usual {
                        lstm(row, peep, (Sigmoid, Tanh, Tanh), input_forget, p.clip, h, c);
                    } else {
                        lstm(row, peep, (f, g, last), input_forget, p.clip, h, c);
                    }
                });
            }
        }
    }

    /// Calls `f` with the gates of each sequence that is not over, and where its states begin.
    fn each(&mut self, step: usize, at: usize, mut f: impl FnMut(&[f32], &mut Memory<'_>, usize)) {
        let (padded, wide) = self.plan.widths();
        for i in 0..self.count {
            if step < self.len(i) {
                let gates = std::mem::take(&mut self.m.gates);
                f(&gates[at + i * wide..][..wide], &mut self.m, i * padded);
                self.m.gates = gates;
            }
        }
    }
}

fn lstm<F: Map, G: Map, H: Map>(
    row: &[f32],
    peep: &[f32],
    (f, g, last): (F, G, H),
    forget: bool,
    clip: f32,
    h: &mut [f32],
    c: &mut [f32],
) {
    cell::lstm(row, peep, f, g, last, forget, clip, h, c);
}
