//! `Recurrent`: the plan of a recurrence, made once from shapes and attributes, and its run. A unit
//! of work is one direction of some sequences of the batch, over all its steps; several threads may
//! do one together (`team`).
use crate::gemm::pack::A_STRIDE;
use crate::rnn::cell::Activation;
use crate::rnn::pack::LANES;
use crate::rnn::team::{Broken, Member, Team};
use crate::rnn::unit::{Memory, Unit};
use crate::scratch::with_scratch;
use crate::simd::isa::PanelElem;
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
/// Multiply-adds of a step that are worth a thread of their own: some microseconds, beside which a
/// meeting of the team takes little.
const STEP: usize = 32 * 1024;
/// Threads that do a unit together, at most.
const SEATS: usize = 8;
/// Rows that meet the weights of the input together, about.
const TOGETHER: usize = 96;

impl Recurrent {
    /// Sequences of a unit.
    fn rows(&self) -> usize {
        self.batch.div_ceil(self.batch.div_ceil(ROWS).max(1)).max(1)
    }

    pub(super) fn blocks(&self) -> usize {
        self.hidden.div_ceil(LANES)
    }

    /// Numbers of a state with the last block filled up, and of all gates of it.
    pub(super) fn widths(&self) -> (usize, usize) {
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

    /// Threads that may do a unit together: so many that each has enough to do in a step, and none
    /// but the first where there are units enough.
    pub fn seats(&self) -> usize {
        let (gates, rows) = (self.cell.gates(), self.rows());
        let step = gates.saturating_mul(self.hidden).saturating_mul(self.hidden).saturating_mul(rows);
        let most = SEATS.checked_div(self.units()).unwrap_or(1);
        (step / STEP).min(self.blocks()).min(most).max(1)
    }

    /// What the threads that do a unit share.
    pub fn team(&self, unit: usize) -> Team {
        Team::new(self.part(unit).2, self.hidden)
    }

    /// The same, of so many members at most.
    #[cfg(test)]
    pub(super) fn team_of(&self, unit: usize, members: usize) -> Team {
        Team::of(self.part(unit).2, self.hidden, members)
    }

    /// Direction of a unit, its first sequence, and how many.
    fn part(&self, unit: usize) -> (usize, usize, usize) {
        let rows = self.rows();
        let per = self.batch.div_ceil(rows).max(1);
        let (d, first) = (unit / per, unit % per * rows);
        (d, first, rows.min(self.batch - first))
    }

    /// Does some units. Operands have the lengths of the plan's sizes, and no sequence is longer
    /// than its steps: callers check that.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, ops: &Operands<'_, T>, out: &mut Results<'_, '_, '_, '_, T>) {
        for unit in units.start..units.end.min(self.units()) {
            let done = self.run_unit(unit, Member::alone(), ops, out);
            debug_assert_eq!(done, Ok(()), "nobody else works on it");
        }
    }

    /// Does what falls to a member of a unit.
    ///
    /// # Errors
    /// Where another member left in the middle.
    pub fn run_unit<T: PanelElem>(
        &self,
        unit: usize,
        member: Member<'_>,
        ops: &Operands<'_, T>,
        out: &mut Results<'_, '_, '_, '_, T>,
    ) -> Result<(), Broken> {
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
        with_scratch(sizes.iter().sum(), |mut all| {
            let parts = sizes.map(|n| {
                let (own, rest) = std::mem::take(&mut all).split_at_mut(n);
                all = rest;
                own
            });
            let [gates, a, h, c, late, bias, late_bias, peep] = parts;
            let m = Memory { gates, a, h, c, late, bias, late_bias, peep };
            let (d, first, count) = self.part(unit);
            Unit { plan: self, d, first, count, steps, ops, m, member, own: 0..0 }.run(out)
        })
    }

    /// Where the state of sequence `n` stands.
    pub(super) fn state_at(&self, d: usize, n: usize) -> usize {
        (if self.batch_first { n * self.directions.len() + d } else { d * self.batch + n }) * self.hidden
    }
}
