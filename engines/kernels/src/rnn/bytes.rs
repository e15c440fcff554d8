//! `ByteLstm`: an LSTM with byte weights, as in ONNX's `DynamicQuantizeLSTM`.
//!
//! Inputs and states are quantised to unsigned bytes by their own extremes. Inputs are quantised
//! once, over all steps of all sequences, and states at each step, over all sequences that have not
//! ended. Products are exact. A gate is the input's product, plus the state's, plus the bias, each
//! rounded to single precision, in this order.
use crate::quant::{by_extremes, extremes, quantise};
use crate::rnn::bytes::product::{Factor, GATES, add_real, panel_len, real};
use crate::rnn::cell::{self, Activation};
use crate::rnn::pack::LANES;
use crate::rnn::plan::{Direction, Results};
use crate::scratch::with_scratch;
use crate::simd::act::{Sigmoid, Tanh};
use std::ops::Range;

/// Packed weights, and their product with rows of bytes.
mod product;

pub use product::{pack_bytes, packed_bytes_len};

#[cfg(test)]
mod tests;

/// Approximate number of input rows that are multiplied with the weights together.
const TOGETHER: usize = 96;
/// Longest sum of products of bytes minus their zero points that fits 32 bits.
pub const MOST_K: usize = 33_025;

/// The plan of such an LSTM: sizes and attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteLstm {
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
    /// Whether the forget gate is one minus the input gate.
    pub input_forget: bool,
}

/// Packed weights of all directions, with scales and zero points: one per direction, or one per
/// column (`[D, 4 H]`). For weights that were unsigned, the zero points are also reduced by 128.
#[derive(Clone, Copy, Debug)]
pub struct ByteWeights<'a> {
    /// Packed weights, direction by direction.
    pub packed: &'a [i8],
    /// Scale of each direction or column.
    pub scales: &'a [f32],
    /// Zero point of each direction or column.
    pub zeros: &'a [i32],
}

/// The operands in the layout of ONNX; absent ones are empty.
#[derive(Clone, Copy, Debug)]
pub struct ByteOperands<'a> {
    /// The sequences, `[S, B, I]`.
    pub x: &'a [f32],
    /// Weights of the input.
    pub w: ByteWeights<'a>,
    /// Weights of the state.
    pub r: ByteWeights<'a>,
    /// Biases of the input, then of the state, for each direction.
    pub bias: &'a [f32],
    /// Length of each sequence.
    pub lens: &'a [i32],
    /// Initial states.
    pub h0: &'a [f32],
    /// Initial cell states.
    pub c0: &'a [f32],
    /// Peephole weights of the input, output and forget gate.
    pub peep: &'a [f32],
}

/// Reinterprets floats as integers of the same size.
fn whole(m: &mut [f32]) -> &mut [i32] {
    // SAFETY: both types have the same size and alignment, and every bit pattern is valid for both.
    unsafe { std::slice::from_raw_parts_mut(m.as_mut_ptr().cast(), m.len()) }
}

/// Reinterprets floats as bytes.
fn bytes(m: &mut [f32]) -> &mut [u8] {
    // SAFETY: every bit pattern is valid as bytes, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts_mut(m.as_mut_ptr().cast(), m.len() * 4) }
}

impl ByteLstm {
    fn padded(&self) -> usize {
        self.hidden.next_multiple_of(LANES)
    }

    /// Number of units of work: one per direction, because the extremes of a state cover all
    /// sequences.
    pub fn units(&self) -> usize {
        if self.batch == 0 { 0 } else { self.directions.len() }
    }

    /// Number of multiply-adds of all units.
    pub fn work(&self) -> u64 {
        let f = |v: usize| v as u64;
        let products = 4u64.saturating_mul(f(self.hidden)).saturating_mul(f(self.input + self.hidden));
        products.saturating_mul(f(self.directions.len())).saturating_mul(f(self.batch)).saturating_mul(f(self.steps))
    }

    /// Does the units `units`. Callers must check that operands have the lengths of the plan's
    /// sizes, and that no sequence is longer than its steps.
    pub fn run(&self, units: Range<usize>, ops: &ByteOperands<'_>, out: &mut Results<'_, '_, '_, '_, f32>) {
        let (padded, wide) = (self.padded(), self.padded() * GATES);
        let together = (TOGETHER / self.batch.max(1)).clamp(1, self.steps.max(1));
        let rows = together * self.batch;
        let sizes = [
            rows * wide,
            rows * wide,
            rows * self.input.div_ceil(4),
            self.batch * self.hidden.div_ceil(4),
            self.batch * padded,
            self.batch * padded,
            wide,
            3 * padded,
            6 * wide,
        ];
        for d in units.start..units.end.min(self.units()) {
            with_scratch(sizes.iter().sum(), |mut all| {
                let parts = sizes.map(|n| {
                    let (own, rest) = std::mem::take(&mut all).split_at_mut(n);
                    all = rest;
                    own
                });
                let [gates, sums, qx, qh, h, c, bias, peep, columns] = parts;
                self.prepare(d, ops, [h, c, bias, peep]);
                let [w, r] = self.factors(d, ops, columns);
                let of_steps = Unit { plan: self, d, ops, together, w, r };
                of_steps.run([gates, h, c], [bias, peep], whole(sums), [bytes(qx), bytes(qh)], out);
            });
        }
    }

    /// Copies initial states, biases and peepholes into blocks.
    fn prepare(&self, d: usize, ops: &ByteOperands<'_>, [h, c, bias, peep]: [&mut [f32]; 4]) {
        let (n, padded) = (self.hidden, self.padded());
        for (first, to) in [(ops.h0, h), (ops.c0, c)] {
            to.fill(0.0);
            for i in 0..if first.is_empty() { 0 } else { self.batch } {
                to[i * padded..][..n].copy_from_slice(&first[(d * self.batch + i) * n..][..n]);
            }
        }
        bias.fill(0.0);
        if !ops.bias.is_empty() {
            let own = &ops.bias[d * 2 * GATES * n..][..2 * GATES * n];
            for at in 0..GATES * n {
                bias[self.column(at)] = own[at] + own[GATES * n + at];
            }
        }
        peep.fill(0.0);
        for k in 0..if ops.peep.is_empty() { 0 } else { 3 } {
            peep[k * padded..][..n].copy_from_slice(&ops.peep[(d * 3 + k) * n..][..n]);
        }
    }

    /// Position of a column of the weights in a row of gates.
    fn column(&self, at: usize) -> usize {
        let (gate, j) = (at / self.hidden, at % self.hidden);
        (j / LANES * GATES + gate) * LANES + j % LANES
    }

    /// Both factors of a direction, with the sums, zero points and scales of each column.
    fn factors<'f>(&self, d: usize, ops: &'f ByteOperands<'_>, columns: &'f mut [f32]) -> [Factor<'f>; 2] {
        let wide = self.padded() * GATES;
        let (of_w, of_r) = columns.split_at_mut(3 * wide);
        [(&ops.w, self.input, of_w), (&ops.r, self.hidden, of_r)].map(|(given, k, own)| {
            let (scales, own) = own.split_at_mut(wide);
            let (sums, zeros) = whole(own).split_at_mut(wide);
            let size = packed_bytes_len(k, self.hidden);
            let packed = &given.packed[d * size..][..size];
            for (panel, sums) in packed.chunks_exact(panel_len(k)).zip(sums.as_chunks_mut::<LANES>().0) {
                for (to, from) in sums.iter_mut().zip(panel[panel.len() - 64..].as_chunks::<4>().0) {
                    *to = i32::from_le_bytes(from.map(|v| v as u8));
                }
            }
            scales.fill(0.0);
            zeros.fill(0);
            let by_column = |len: usize| len != self.directions.len();
            for at in 0..GATES * self.hidden {
                let place = |len: usize| if by_column(len) { d * GATES * self.hidden + at } else { d };
                scales[self.column(at)] = given.scales[place(given.scales.len())];
                zeros[self.column(at)] = given.zeros[place(given.zeros.len())];
            }
            let zeros: &[i32] = if zeros.iter().all(|z| *z == 0) { &[] } else { zeros };
            let factor = Factor {
                packed,
                k,
                column_sums: sums,
                zeros,
                scales,
                #[cfg(target_arch = "x86_64")]
                split: None,
            };
            factor.prepared(self.steps * self.batch)
        })
    }
}

/// One direction.
struct Unit<'u> {
    plan: &'u ByteLstm,
    d: usize,
    ops: &'u ByteOperands<'u>,
    /// Number of steps whose inputs are multiplied with the weights together.
    together: usize,
    w: Factor<'u>,
    r: Factor<'u>,
}

impl Unit<'_> {
    fn len(&self, i: usize) -> usize {
        self.ops.lens.get(i).map_or(self.plan.steps, |n| usize::try_from(*n).unwrap_or(0))
    }

    /// The element of a sequence that is read at a step.
    fn time(&self, i: usize, step: usize) -> usize {
        if self.plan.directions[self.d].reverse { self.len(i) - 1 - step } else { step }
    }

    /// Position of the output of an element.
    fn place(&self, i: usize, t: usize) -> usize {
        let p = self.plan;
        ((t * p.directions.len() + self.d) * p.batch + i) * p.hidden
    }

    fn run(
        &self,
        [gates, h, c]: [&mut [f32]; 3],
        [bias, peep]: [&[f32]; 2],
        sums: &mut [i32],
        [qx, qh]: [&mut [u8]; 2],
        out: &mut Results<'_, '_, '_, '_, f32>,
    ) {
        let (p, padded, wide) = (self.plan, self.plan.padded(), self.plan.padded() * GATES);
        let longest = (0..p.batch).map(|i| self.len(i)).max().unwrap_or(0);
        let of_x = by_extremes(extremes(&self.ops.x[..longest * p.batch * p.input]));
        for from in (0..longest).step_by(self.together) {
            let steps = from..(from + self.together).min(longest);
            self.input(steps.clone(), of_x, qx, sums, gates);
            for step in steps {
                let own = &mut gates[(step - from) * p.batch * wide..][..p.batch * wide];
                self.state(step, h, qh, sums, bias, own);
                for i in (0..p.batch).filter(|i| step < self.len(*i)) {
                    let row = i * padded..(i + 1) * padded;
                    self.cell(&own[i * wide..][..wide], peep, &mut h[row.clone()], &mut c[row.clone()]);
                    let at = self.place(i, self.time(i, step));
                    out.y.part(at, p.hidden).copy_from_slice(&h[row][..p.hidden]);
                }
            }
        }
        for i in 0..p.batch {
            for t in self.len(i)..p.steps {
                out.y.part(self.place(i, t), p.hidden).fill(0.0);
            }
            let at = (self.d * p.batch + i) * p.hidden;
            out.h.part(at, p.hidden).copy_from_slice(&h[i * padded..][..p.hidden]);
            if let Some(to) = &mut out.c {
                to.part(at, p.hidden).copy_from_slice(&c[i * padded..][..p.hidden]);
            }
        }
    }

    /// Computes the input's part of the gates of some steps.
    fn input(&self, steps: Range<usize>, (scale, zero): (f32, f32), q: &mut [u8], sums: &mut [i32], gates: &mut [f32]) {
        let (p, wide) = (self.plan, self.plan.padded() * GATES);
        let (len, rows) = (p.input.next_multiple_of(4), steps.len() * p.batch);
        for at in 0..rows {
            let (step, i) = (steps.start + at / p.batch, at % p.batch);
            let (own, rest) = q[at * len..(at + 1) * len].split_at_mut(p.input);
            rest.fill(0);
            if step < self.len(i) {
                let from = (self.time(i, step) * p.batch + i) * p.input;
                quantise(&self.ops.x[from..from + p.input], scale, zero, own);
            } else {
                own.fill(0);
            }
        }
        self.w.sums(&q[..rows * len], rows, wide, &mut sums[..rows * wide]);
        let all = sums.chunks_exact_mut(wide.max(1)).zip(gates.chunks_exact_mut(wide.max(1)));
        for (at, (sums, gates)) in all.take(rows).enumerate() {
            self.w.centre(&q[at * len..(at + 1) * len], zero as i32, sums);
            real(sums, zero as i32, self.w.column_sums, scale, self.w.scales, gates);
        }
    }

    /// Adds the state's part of the gates of a step, and the bias.
    fn state(&self, step: usize, h: &[f32], q: &mut [u8], sums: &mut [i32], bias: &[f32], gates: &mut [f32]) {
        let (p, padded, wide) = (self.plan, self.plan.padded(), self.plan.padded() * GATES);
        let len = p.hidden.next_multiple_of(4);
        let mut range = [0f32; 2];
        for i in (0..p.batch).filter(|i| step < self.len(*i)) {
            let [low, high] = extremes(&h[i * padded..][..p.hidden]);
            range = [range[0].min(low), range[1].max(high)];
        }
        let (scale, zero) = by_extremes(range);
        for i in 0..p.batch {
            let (own, rest) = q[i * len..(i + 1) * len].split_at_mut(p.hidden);
            rest.fill(0);
            quantise(&h[i * padded..][..p.hidden], scale, zero, own);
        }
        self.r.sums(&q[..p.batch * len], p.batch, wide, &mut sums[..p.batch * wide]);
        let all = sums.chunks_exact_mut(wide.max(1)).zip(gates.chunks_exact_mut(wide.max(1)));
        for (i, (sums, gates)) in all.take(p.batch).enumerate() {
            self.r.centre(&q[i * len..(i + 1) * len], zero as i32, sums);
            add_real(sums, zero as i32, self.r.column_sums, scale, self.r.scales, bias, gates);
        }
    }

    /// Computes the new states of one sequence.
    fn cell(&self, row: &[f32], peep: &[f32], h: &mut [f32], c: &mut [f32]) {
        let p = self.plan;
        let peep = if self.ops.peep.is_empty() { &[] } else { peep };
        let [f, g, last] = p.directions[self.d].acts;
        if [f, g, last] == [Activation::Sigmoid, Activation::Tanh, Activation::Tanh] {
            cell::lstm(row, peep, Sigmoid, Tanh, Tanh, p.input_forget, p.clip, h, c);
        } else {
            cell::lstm(row, peep, f, g, last, p.input_forget, p.clip, h, c);
        }
    }
}
