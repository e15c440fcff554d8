//! `CommonRNN`, `CommonGRU`, `CommonLSTM` (`plugins/ops/src/rnn.rs`) for f32, f16, bf16, computed
//! in single precision, with all directions, layouts, lengths, initial states, peepholes, clips and
//! activations. Constant weights come packed (`passes/recurrent.rs`); other weights are packed by
//! each launch. A unit of this kernel is a seat at a unit of the plan: threads that run blocks of
//! the launch at the same time compute that unit together, and the first does it alone if no other
//! arrives.
use crate::families::meetings::Meetings;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, FLOATS, Sig, Tensor};
use ge_kernels::rnn::{
    Activation, Broken, Cell, Direction, Member, Operands, Recurrent, Results, pack_input, pack_recurrent,
    packed_input_len, packed_recurrent_len,
};
use ge_kernels::simd::isa::PanelElem;
use ge_kernels::view::Kind;
use ge_kernels::with_kind;
use ge_plugin_api::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;

struct Node {
    kind: Kind,
    plan: Recurrent,
    packed: bool,
    /// Teams of blocks that compute a unit of the plan together.
    meetings: Meetings,
}

/// The cell of an operator, and its default activations.
pub fn cell_of(op: &str, attrs: &ge_plugin_api::types::AttrMap) -> (Cell, &'static [&'static str]) {
    let number = |key: &str| attrs.int(key).unwrap_or(0) != 0;
    match op {
        "CommonLSTM" => (Cell::Lstm { input_forget: number("input_forget") }, &["sigmoid", "tanh", "tanh"]),
        "CommonGRU" => (Cell::Gru { linear_before_reset: number("linear_before_reset") }, &["sigmoid", "tanh"]),
        _ => (Cell::Rnn, &["tanh"]),
    }
}

/// Activations of each direction, with alphas and betas in the order of the activations that have
/// them.
///
/// # Errors
/// Fails with a reason if an activation is unknown or if the number of activations does not match
/// the directions.
pub fn directions(sig: &Sig, usual: &[&str]) -> Answer<Vec<Direction>> {
    let direction = sig.text("direction", "forward");
    let reverse: &[bool] = match direction {
        "bidirectional" => &[false, true],
        "reverse" => &[true],
        _ => &[false],
    };
    let names = match sig.attrs.strs("activations").filter(|v| !v.is_empty()) {
        Some(names) => names,
        None => usual.repeat(reverse.len()),
    };
    if names.len() != usual.len() * reverse.len() {
        return Err(format!("{} activations, it takes {}", names.len(), usual.len() * reverse.len()));
    }
    let numbers = |key: &str| sig.attrs.floats(key).unwrap_or_default().iter().map(|v| *v as f32);
    let (mut alphas, mut betas) = (numbers("activation_alpha"), numbers("activation_beta"));
    let mut acts = Vec::with_capacity(names.len());
    for name in names {
        let mut a = |default: f32| alphas.next().unwrap_or(default);
        let mut b = |default: f32| betas.next().unwrap_or(default);
        acts.push(match name.to_ascii_lowercase().as_str() {
            "sigmoid" => Activation::Sigmoid,
            "tanh" => Activation::Tanh,
            "relu" => Activation::Relu,
            "softsign" => Activation::Softsign,
            "softplus" => Activation::Softplus,
            "affine" => Activation::Affine(a(1.0), b(0.0)),
            "leakyrelu" => Activation::LeakyRelu(a(0.01)),
            "thresholdedrelu" => Activation::ThresholdedRelu(a(1.0)),
            "scaledtanh" => Activation::ScaledTanh(a(1.0), b(1.0)),
            "hardsigmoid" => Activation::HardSigmoid(a(0.2), b(0.5)),
            "elu" => Activation::Elu(a(1.0)),
            _ => return Err(format!("activation `{name}`")),
        });
    }
    let each = |own: &[Activation]| std::array::from_fn(|i| own.get(i).copied().unwrap_or(Activation::Tanh));
    Ok(reverse
        .iter()
        .zip(acts.chunks_exact(usual.len()))
        .map(|(r, own)| Direction { reverse: *r, acts: each(own) })
        .collect())
}

/// Number of elements of a direction's packed weights, for the input and for the state; `None` on
/// overflow.
fn packed_lens(gates: usize, hidden: usize, input: usize) -> Option<[usize; 2]> {
    let rows = hidden.checked_next_multiple_of(16)?.checked_mul(gates)?;
    Some([rows.checked_mul(input)?, rows.checked_mul(hidden)?])
}

/// The kernel of a recurrent operator.
///
/// # Errors
/// Fails with a reason if types, shapes or activations are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let kind = sig.kind_in(0, FLOATS)?;
    let (cell, usual) = cell_of(&sig.op, &sig.attrs);
    let directions = directions(sig, usual)?;
    let (g, d) = (cell.gates(), directions.len());
    let batch_first = sig.int("layout", 0) == 1;
    let (steps, batch, input) = match (sig.input(0)?.shape.as_slice(), batch_first) {
        (&[b, s, i], true) | (&[s, b, i], false) => (s, b, i),
        (shape, _) => return Err(format!("input 0 is {shape:?}, it takes three axes")),
    };
    let packed = sig.attrs.flag("packed");
    let hidden = match sig.input(2)?.shape.as_slice() {
        &[_, _, h] if !packed => h,
        &[_, _] if packed => {
            usize::try_from(sig.int("hidden_size", -1)).map_err(|_| "packed weights without `hidden_size`")?
        }
        shape => return Err(format!("input 2 is {shape:?}")),
    };
    let lens = packed_lens(g, hidden, input).ok_or_else(|| format!("states of {hidden} numbers"))?;
    let (w, r) = if packed {
        (vec![d, lens[0]], vec![d, lens[1]])
    } else {
        (vec![d, g * hidden, input], vec![d, g * hidden, hidden])
    };
    let state = if batch_first { vec![batch, d, hidden] } else { vec![d, batch, hidden] };
    let y = if batch_first { vec![batch, steps, d, hidden] } else { vec![steps, d, batch, hidden] };
    let shapes = [(1, w), (2, r), (3, vec![d, 2 * g * hidden]), (5, state.clone()), (6, state.clone())];
    for (i, want) in shapes.into_iter().chain([(7, vec![d, 3 * hidden])]) {
        let Some(t) = sig.opt_input(i) else { continue };
        fits(t, kind, &want).map_err(|e| format!("input {i} {e}"))?;
    }
    if let Some(t) = sig.opt_input(4) {
        fits(t, Kind::I32, &[batch]).map_err(|e| format!("input 4 {e}"))?;
    }
    if sig.outputs.len() != if g == 4 { 3 } else { 2 } {
        return Err(format!("{} outputs", sig.outputs.len()));
    }
    for (k, t) in sig.outputs.iter().enumerate() {
        fits(t, kind, if k == 0 { &y } else { &state }).map_err(|e| format!("output {k} {e}"))?;
    }
    let clip = sig.attrs.float("clip").filter(|c| *c > 0.0).map_or(f32::INFINITY, |c| c as f32);
    let plan = Recurrent { cell, steps, batch, input, hidden, directions, clip, batch_first };
    Ok(Box::new(Node { kind, plan, packed, meetings: Meetings::default() }))
}

fn fits(t: &Tensor, kind: Kind, shape: &[usize]) -> Answer<()> {
    if t.kind == Some(kind) && t.shape == shape {
        return Ok(());
    }
    Err(format!("is {} {:?}, it takes {} {shape:?}", t.dtype, t.shape, kind.name()))
}

impl Kernel for Node {
    fn units(&self) -> usize {
        self.plan.units().saturating_mul(self.seats())
    }

    fn work(&self) -> u64 {
        self.products() / 16
    }

    fn products(&self) -> u64 {
        self.plan.work()
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        with_kind!(self.kind, [F32, F16, Bf16], T => self.run_in::<T>(units, io), else {
            Err(Error::internal("type of a recurrence"))
        })
    }
}

impl Node {
    /// Number of threads that may compute a unit of the plan together.
    fn seats(&self) -> usize {
        if self.packed { self.plan.seats() } else { 1 }
    }

    /// Processes some seats. A block that has all seats of a unit computes it without a team.
    fn seated<T: PanelElem>(
        &self,
        seats: Range<usize>,
        ops: &Operands<'_, T>,
        out: &mut Results<'_, '_, '_, '_, T>,
    ) -> Result<()> {
        let each = self.seats();
        let broken = |e: Broken| Error::failed(e.to_string());
        let mut at = seats.start;
        while at < seats.end {
            let (unit, behind) = (at / each, (at / each + 1) * each);
            if at.is_multiple_of(each) && behind <= seats.end {
                self.plan.run_unit(unit, Member::alone(), ops, out).map_err(broken)?;
            } else {
                // Launches that run at the same time write different outputs, so the address
                // identifies the launch.
                let output = std::ptr::from_mut(out.h.part(0, 1)).addr();
                for seat in at..behind.min(seats.end) {
                    let (team, first) = self.meetings.come([output, unit], seat % each, each, || self.plan.team(unit));
                    let member = if first { team.lead() } else { team.join() };
                    self.plan.run_unit(unit, member, ops, out).map_err(broken)?;
                }
            }
            at = behind;
        }
        Ok(())
    }

    /// The weights of all directions, packed.
    fn weights<'w, T: PanelElem>(&self, given: &'w [T], of_input: bool) -> Cow<'w, [T]> {
        if self.packed {
            return Cow::Borrowed(given);
        }
        let p = &self.plan;
        let (g, h, i, d) = (p.cell.gates(), p.hidden, p.input, p.directions.len());
        let (len, k) = if of_input { (packed_input_len(g, h, i), i) } else { (packed_recurrent_len(g, h), h) };
        let mut all = vec![T::default(); d * len];
        for (own, given) in all.chunks_exact_mut(len.max(1)).zip(given.chunks_exact((g * h * k).max(1))) {
            if of_input {
                pack_input(given, [g, h, i], own);
            } else {
                pack_recurrent(given, [g, h], own);
            }
        }
        Cow::Owned(all)
    }

    fn run_in<T: PanelElem>(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let lens = io.opt_input::<i32>(4)?;
        let steps = self.plan.steps;
        if let Some(n) = lens.iter().find(|n| !usize::try_from(**n).is_ok_and(|n| n <= steps)) {
            return Err(Error::failed(format!("input 4 `sequence_lens`: found {n}, expected 0 to {steps}")));
        }
        let (w, r) = (self.weights(io.input::<T>(1)?, true), self.weights(io.input::<T>(2)?, false));
        let ops = Operands {
            x: io.input::<T>(0)?,
            w: &w,
            r: &r,
            bias: io.opt_input(3)?,
            lens,
            h0: io.opt_input(5)?,
            c0: if self.plan.cell.gates() == 4 { io.opt_input(6)? } else { &[] },
            peep: if self.plan.cell.gates() == 4 { io.opt_input(7)? } else { &[] },
        };
        let run = |mut results: Results<'_, '_, '_, '_, T>| self.seated(units, &ops, &mut results);
        io.output::<T, ()>(0, |y| {
            io.output::<T, ()>(1, |h| match self.plan.cell.gates() {
                4 => io.output::<T, ()>(2, |c| run(Results { y, h, c: Some(c) })),
                _ => run(Results { y, h, c: None }),
            })
        })
    }
}
