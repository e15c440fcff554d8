//! `Recurrent`: the plan of a recurrence, made once from shapes and attributes, and its execution.
//! A unit of work is one direction of some sequences of the batch, over all their steps. Several
//! threads may process one unit together (`team`).
use crate::gemm::pack::A_STRIDE;
use crate::rnn::cell::Activation;
use crate::rnn::pack::LANES;
use crate::rnn::team::{Broken, Member, Team};
use crate::rnn::unit::{Memory, Unit};
use crate::scratch::with_scratch;
use crate::simd::isa::PanelElem;
use crate::view::Out;
use std::ops::Range;

/// The kind of cell, which defines a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Plain RNN: `h = f(gate)`.
    Rnn,
    /// GRU with update, reset and hidden gate.
    Gru {
        /// Whether the reset gate is applied after the product of the state and the weights.
        linear_before_reset: bool,
    },
    /// LSTM with input, output, forget and cell gate.
    Lstm {
        /// Whether the forget gate is one minus the input gate.
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

/// One direction of a recurrence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direction {
    /// Whether it runs from the last element of each sequence to the first.
    pub reverse: bool,
    /// The activations f, g and h of ONNX; those that the cell does not have are ignored.
    pub acts: [Activation; 3],
}

/// The plan of a recurrence: sizes and attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrent {
    /// The kind of cell.
    pub cell: Cell,
    /// Maximum number of steps of a sequence.
    pub steps: usize,
    /// Number of sequences.
    pub batch: usize,
    /// Size of an input element.
    pub input: usize,
    /// Size of a state.
    pub hidden: usize,
    /// One or two directions.
    pub directions: Vec<Direction>,
    /// Inputs of activations are clipped to `-clip..=clip`.
    pub clip: f32,
    /// Whether the batch is the first axis of inputs, outputs and states.
    pub batch_first: bool,
}

/// The operands of a recurrence. Weights are packed, direction by direction. Everything else is in
/// the layout of ONNX; absent operands are empty.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, T> {
    /// The sequences.
    pub x: &'a [T],
    /// Packed weights of the input.
    pub w: &'a [T],
    /// Packed weights of the state.
    pub r: &'a [T],
    /// Biases of the input, then of the state, for each direction.
    pub bias: &'a [T],
    /// Length of each sequence.
    pub lens: &'a [i32],
    /// Initial states.
    pub h0: &'a [T],
    /// Initial cell states.
    pub c0: &'a [T],
    /// Peephole weights of the input, output and forget gate.
    pub peep: &'a [T],
}

/// The outputs of a recurrence.
pub struct Results<'r, 'y, 'h, 'c, T> {
    /// The state after each step.
    pub y: &'r mut Out<'y, T>,
    /// The final states.
    pub h: &'r mut Out<'h, T>,
    /// The final cell states of an LSTM.
    pub c: Option<&'r mut Out<'c, T>>,
}

/// Maximum number of sequences in a unit.
const ROWS: usize = 16;
/// Multiply-adds of a step that justify another thread: they take several microseconds, compared
/// with which a synchronisation of the team is short.
const STEP: usize = 32 * 1024;
/// Maximum number of threads that process a unit together.
const SEATS: usize = 8;
/// Approximate number of rows that are multiplied with the input weights together.
const TOGETHER: usize = 96;

impl Recurrent {
    /// Number of sequences in a unit.
    fn rows(&self) -> usize {
        self.batch.div_ceil(self.batch.div_ceil(ROWS).max(1)).max(1)
    }

    pub(super) fn blocks(&self) -> usize {
        self.hidden.div_ceil(LANES)
    }

    /// Size of a state padded to whole blocks, and of all its gates.
    pub(super) fn widths(&self) -> (usize, usize) {
        let padded = self.blocks() * LANES;
        (padded, padded * self.cell.gates())
    }

    /// Number of units of work.
    pub fn units(&self) -> usize {
        if self.batch == 0 { 0 } else { self.directions.len() * self.batch.div_ceil(self.rows()) }
    }

    /// Number of multiply-adds of all units.
    pub fn work(&self) -> u64 {
        let f = |v: usize| v as u64;
        let products = f(self.cell.gates()).saturating_mul(f(self.hidden)).saturating_mul(f(self.input + self.hidden));
        products.saturating_mul(f(self.directions.len())).saturating_mul(f(self.batch)).saturating_mul(f(self.steps))
    }

    /// Number of threads that may process a unit together: each must have enough to do in a step,
    /// and there is only one if there are enough units.
    pub fn seats(&self) -> usize {
        let (gates, rows) = (self.cell.gates(), self.rows());
        let step = gates.saturating_mul(self.hidden).saturating_mul(self.hidden).saturating_mul(rows);
        let most = SEATS.checked_div(self.units()).unwrap_or(1);
        (step / STEP).min(self.blocks()).min(most).max(1)
    }

    /// The state shared by the threads that process a unit.
    pub fn team(&self, unit: usize) -> Team {
        Team::new(self.part(unit).2, self.hidden)
    }

    /// Like [`Recurrent::team`], with at most `members` members.
    #[cfg(test)]
    pub(super) fn team_of(&self, unit: usize, members: usize) -> Team {
        Team::of(self.part(unit).2, self.hidden, members)
    }

    /// Direction of a unit, its first sequence, and its number of sequences.
    fn part(&self, unit: usize) -> (usize, usize, usize) {
        let rows = self.rows();
        let per = self.batch.div_ceil(rows).max(1);
        let (d, first) = (unit / per, unit % per * rows);
        (d, first, rows.min(self.batch - first))
    }

    /// Does the units `units`. Callers must check that operands have the lengths of the plan's
    /// sizes, and that no sequence is longer than its steps.
    pub fn run<T: PanelElem>(&self, units: Range<usize>, ops: &Operands<'_, T>, out: &mut Results<'_, '_, '_, '_, T>) {
        for unit in units.start..units.end.min(self.units()) {
            let done = self.run_unit(unit, Member::alone(), ops, out);
            debug_assert_eq!(done, Ok(()), "nobody else works on it");
        }
    }

    /// Does a member's share of a unit.
    ///
    /// # Errors
    /// Returns `Broken` if another member left before the end.
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

    /// Position of the state of sequence `n`.
    pub(super) fn state_at(&self, d: usize, n: usize) -> usize {
        (if self.batch_first { n * self.directions.len() + d } else { d * self.batch + n }) * self.hidden
    }
}
