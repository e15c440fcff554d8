//! One unit of a recurrence: a direction of some sequences, over all steps. Gates and states are
//! computed for the member's share of the blocks of hidden units; without a team that is all of
//! them.
use crate::gemm::micro::{Left, Strided, tile};
use crate::gemm::pack::{A_STRIDE, KC};
use crate::rnn::cell::{self, Activation};
use crate::rnn::pack::{LANES, packed_input_len, packed_recurrent_len, sections};
use crate::rnn::plan::{Cell, Operands, Recurrent, Results};
use crate::rnn::product::Product;
use crate::rnn::team::{Broken, Member};
use crate::simd::act::{Map, Sigmoid, Tanh};
use crate::simd::isa::{Isa, PanelElem, Work, dispatch};
use crate::simd::lines::{round_to, widen};
use std::ops::Range;

/// Product of rows of the input and packed weights, added to rows of gates.
struct Input<'a, T> {
    rows: usize,
    a: &'a [f32],
    w: &'a [T],
    /// Size of an element, and the range of it that this part of the sum covers.
    input: usize,
    part: Range<usize>,
    to: &'a mut [f32],
    wide: usize,
    panels: usize,
}

impl<T: PanelElem> Work for Input<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<I: Isa, const MR: usize, const NP: usize, const N4: usize, const N1: usize>(self, isa: I) {
        let panels = Strided { data: &self.w[self.part.start * LANES..], row: LANES, panel: LANES * self.input };
        let shape = (self.rows, self.panels * LANES, self.part.len());
        tile::<I, _, MR, NP, N4, N1>(isa, shape, Left::copied(self.a), panels, self.to, self.wide, false);
    }
}

/// Working memory of a unit.
pub(super) struct Memory<'m> {
    /// Gates of the rows for a part of the steps.
    pub(super) gates: &'m mut [f32],
    /// Rows of the input.
    pub(super) a: &'m mut [f32],
    /// States and cell states.
    pub(super) h: &'m mut [f32],
    pub(super) c: &'m mut [f32],
    /// For a GRU: the state's part of the third gate, or the state after the reset gate.
    pub(super) late: &'m mut [f32],
    /// Biases of all gates, and of the state's part of a GRU's third gate.
    pub(super) bias: &'m mut [f32],
    pub(super) late_bias: &'m mut [f32],
    pub(super) peep: &'m mut [f32],
}

/// One unit of work.
pub(super) struct Unit<'u, T> {
    pub(super) plan: &'u Recurrent,
    pub(super) d: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    /// Number of steps whose inputs are multiplied with the weights together.
    pub(super) steps: usize,
    pub(super) ops: &'u Operands<'u, T>,
    pub(super) m: Memory<'u>,
    /// The member that does the unit, and its share of the blocks of hidden units.
    pub(super) member: Member<'u>,
    pub(super) own: Range<usize>,
}

impl<T: PanelElem> Unit<'_, T> {
    fn len(&self, i: usize) -> usize {
        self.ops.lens.get(self.first + i).map_or(self.plan.steps, |n| usize::try_from(*n).unwrap_or(0))
    }

    pub(super) fn run(mut self, out: &mut Results<'_, '_, '_, '_, T>) -> Result<(), Broken> {
        let (p, (padded, wide)) = (self.plan, self.plan.widths());
        self.first_states();
        let longest = (0..self.count).map(|i| self.len(i)).max().unwrap_or(0);
        let rows = self.count * padded;
        let mut next = 0;
        while let Some(part) =
            self.member.begin([next, longest, self.steps], &mut self.m.h[..rows], &mut self.m.c[..rows])?
        {
            let own = self.member.share(p.blocks());
            if own != self.own || part.start == 0 {
                self.own = own;
                self.biases();
            }
            let (own, units) = (self.own.clone(), self.units());
            let known = units.start..units.end.min(p.hidden);
            self.input(part.clone());
            next = part.end;
            for step in part.clone() {
                let at = (step - part.start) * self.count * wide;
                self.step(step, at, wide)?;
                for i in (0..self.count).filter(|i| step < self.len(*i)) {
                    let y = out.y.part(self.y_at(i, step) + known.start, known.len());
                    round_to(&self.m.h[i * padded..][known.clone()], y);
                }
                self.member.exchange(&own, &mut self.m.h[..rows])?;
            }
            self.member.end(&own, &mut self.m.c[..rows])?;
        }
        if self.member.leads() {
            self.last_states(padded, out);
        }
        Ok(())
    }

    /// Its share of the hidden units, padded to whole blocks.
    fn units(&self) -> Range<usize> {
        self.own.start * LANES..self.own.end * LANES
    }

    /// Writes the final states, and zeros after the ends of sequences.
    fn last_states(&self, padded: usize, out: &mut Results<'_, '_, '_, '_, T>) {
        let p = self.plan;
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

    fn first_states(&mut self) {
        let (p, m) = (self.plan, &mut self.m);
        let (padded, _) = p.widths();
        let h = p.hidden;
        for (first, to) in [(self.ops.h0, &mut m.h), (self.ops.c0, &mut m.c)] {
            to.fill(0.0);
            if !first.is_empty() {
                for i in 0..self.count {
                    widen(&first[p.state_at(self.d, self.first + i)..][..h], &mut to[i * padded..][..h]);
                }
            }
        }
        m.late.fill(0.0);
    }

    /// Copies the biases and peepholes of its share into blocks.
    fn biases(&mut self) {
        let own = self.units();
        let (p, m) = (self.plan, &mut self.m);
        let (h, g) = (p.hidden, p.cell.gates());
        let known = own.start..own.end.min(h);
        m.bias.fill(0.0);
        m.late_bias.fill(0.0);
        let late = p.cell == Cell::Gru { linear_before_reset: true };
        if !self.ops.bias.is_empty() {
            let all = &self.ops.bias[self.d * 2 * g * h..][..2 * g * h];
            for (gate, j) in (0..g).flat_map(|gate| known.clone().map(move |j| (gate, j))) {
                let (k, at) = (gate * h + j, (j / LANES * g + gate) * LANES + j % LANES);
                let (of_input, of_state) = (all[k].wide(), all[g * h + k].wide());
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
                let from = &self.ops.peep[(self.d * 3 + k) * h..][known.clone()];
                widen(from, &mut m.peep[k * own.len()..][..known.len()]);
            }
        }
    }

    /// The element of a sequence that is read at a step.
    fn time(&self, i: usize, step: usize) -> usize {
        if self.plan.directions[self.d].reverse { self.len(i) - 1 - step } else { step }
    }

    fn y_at(&self, i: usize, step: usize) -> usize {
        self.place(i, self.time(i, step))
    }

    /// Position of the output of an element.
    fn place(&self, i: usize, t: usize) -> usize {
        let (p, n) = (self.plan, self.first + i);
        let dirs = p.directions.len();
        let row = if p.batch_first { (n * p.steps + t) * dirs + self.d } else { (t * dirs + self.d) * p.batch + n };
        row * p.hidden
    }

    /// Position of the gates of its share in a row of gates.
    fn gates(&self) -> Range<usize> {
        let g = self.plan.cell.gates();
        self.own.start * g * LANES..self.own.end * g * LANES
    }

    /// Computes the part of the gates of some steps that depends on the input and the biases.
    fn input(&mut self, steps: Range<usize>) {
        let (p, wide) = (self.plan, self.plan.widths().1);
        let rows = steps.len() * self.count;
        let (gates, panels) = (self.gates(), self.own.len() * p.cell.gates());
        if panels == 0 {
            return;
        }
        for row in self.m.gates[..rows * wide].chunks_exact_mut(wide.max(1)) {
            row[gates.clone()].copy_from_slice(&self.m.bias[gates.clone()]);
        }
        let size = packed_input_len(p.cell.gates(), p.hidden, p.input);
        let w = &self.ops.w[self.d * size..][gates.start * p.input..gates.end * p.input];
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
            let to = &mut self.m.gates[gates.start..];
            dispatch(Input { rows, a: self.m.a, w, input: p.input, part, to, wide, panels });
        }
    }

    /// Adds the product of states and a section of the weights to gates. If `late`, it uses the
    /// state after the reset gate, or writes the state's part of the third gate separately.
    fn product(&mut self, step: usize, section: usize, at: usize, late: bool) {
        let p = self.plan;
        if self.own.is_empty() {
            return;
        }
        let (padded, wide) = p.widths();
        let all = sections(p.cell.gates());
        let (first, gates) = all[section];
        let size = packed_recurrent_len(p.cell.gates(), p.hidden);
        let before: usize = all[..section].iter().map(|(_, g)| packed_recurrent_len(*g, p.hidden)).sum();
        let block = gates * LANES * p.hidden;
        let weights = &self.ops.r[self.d * size + before..][self.own.start * block..self.own.end * block];
        let to_block = p.cell.gates() * LANES;
        let (own, units) = (self.gates(), self.units());
        let apart = p.cell == Cell::Gru { linear_before_reset: true };
        let m = &mut self.m;
        let (a, to, to_row, to_block) = match (late, apart) {
            (true, true) => (&*m.h, &mut m.late[units.start..], padded, LANES),
            (true, false) => (&*m.late, &mut m.gates[at + own.start + first * LANES..], wide, to_block),
            _ => (&*m.h, &mut m.gates[at + own.start..], wide, to_block),
        };
        let (rows, k, blocks, backwards) = (self.count, p.hidden, self.own.len(), step % 2 == 1);
        dispatch(Product { a, a_row: padded, rows, k, weights, blocks, gates, to, to_row, to_block, backwards });
    }

    /// Does one step of all sequences; sequences that have ended keep their states.
    fn step(&mut self, step: usize, at: usize, wide: usize) -> Result<(), Broken> {
        let p = self.plan;
        let [f, g, last] = p.directions[self.d].acts;
        self.product(step, 0, at, false);
        match p.cell {
            Cell::Rnn => self.each(step, at, |row, m, own| match f {
                Activation::Tanh => cell::rnn(row, Tanh, p.clip, &mut m.h[own]),
                _ => cell::rnn(row, f, p.clip, &mut m.h[own]),
            }),
            Cell::Gru { linear_before_reset } => {
                let (gates, units) = (self.gates(), self.units());
                let padded = p.widths().0;
                for i in 0..self.count {
                    let row = &mut self.m.gates[at + i * wide..][gates.clone()];
                    match f {
                        Activation::Sigmoid => cell::gru_gates(row, Sigmoid, p.clip),
                        _ => cell::gru_gates(row, f, p.clip),
                    }
                    let late = &mut self.m.late[i * padded..][units.clone()];
                    if linear_before_reset {
                        late.copy_from_slice(&self.m.late_bias[units.clone()]);
                    } else {
                        cell::gru_reset(row, &self.m.h[i * padded..][units.clone()], late);
                    }
                }
                if !linear_before_reset {
                    let (own, rows) = (self.own.clone(), self.count * padded);
                    self.member.exchange(&own, &mut self.m.late[..rows])?;
                }
                self.product(step, 1, at, true);
                self.each(step, at, |row, m, own| {
                    let late = if linear_before_reset { &m.late[own.clone()] } else { &[] };
                    let h = &mut m.h[own];
                    match g {
                        Activation::Tanh => cell::gru_state(row, late, Tanh, p.clip, h),
                        _ => cell::gru_state(row, late, g, p.clip, h),
                    }
                });
            }
            Cell::Lstm { input_forget } => {
                let usual = [f, g, last] == [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];
                let peeps = !self.ops.peep.is_empty();
                self.each(step, at, |row, m, own| {
                    let peep = if peeps { &m.peep[..3 * own.len()] } else { &[] };
                    let (h, c) = (&mut m.h[own.clone()], &mut m.c[own]);
                    if usual {
                        lstm(row, peep, (Sigmoid, Tanh, Tanh), input_forget, p.clip, h, c);
                    } else {
                        lstm(row, peep, (f, g, last), input_forget, p.clip, h, c);
                    }
                });
            }
        }
        Ok(())
    }

    /// Calls `f` for each sequence that has not ended, with the gates and the position of the
    /// states of its share.
    fn each(&mut self, step: usize, at: usize, mut f: impl FnMut(&[f32], &mut Memory<'_>, Range<usize>)) {
        let (padded, wide) = self.plan.widths();
        let (gates, units) = (self.gates(), self.units());
        for i in 0..self.count {
            if step < self.len(i) {
                let all = std::mem::take(&mut self.m.gates);
                f(&all[at + i * wide..][gates.clone()], &mut self.m, i * padded + units.start..i * padded + units.end);
                self.m.gates = all;
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
