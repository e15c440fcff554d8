//! `DynamicQuantizeLSTM` (`plugins/ort_contrib/src/dynamic_quantize_lstm.rs`): an LSTM with 8-bit
//! weights. Constant weights come packed (`passes/recurrent.rs`); other weights are packed by each
//! launch.
use crate::families::recurrent::directions;
use crate::kernel::{Io, Kernel};
use crate::sig::{Answer, Sig, Tensor};
use ge_kernels::rnn::bytes::{ByteLstm, ByteOperands, ByteWeights, MOST_K, pack_bytes, packed_bytes_len};
use ge_kernels::rnn::{Activation, Results};
use ge_kernels::view::Kind;
use ge_plugin_api::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;

const BYTES: &[Kind] = &[Kind::I8, Kind::U8];

struct Node {
    plan: ByteLstm,
    packed: bool,
    /// Whether the weights of the input and of the state are unsigned.
    unsigned: [bool; 2],
}

fn fits(sig: &Sig, i: usize, kind: Kind, shapes: &[&[usize]]) -> Answer<()> {
    let Some(t) = sig.opt_input(i) else { return Ok(()) };
    if is(t, kind, shapes) {
        return Ok(());
    }
    let shapes: Vec<String> = shapes.iter().map(|s| format!("{s:?}")).collect();
    Err(format!("input {i} is {} {:?}, it takes {} {}", t.dtype, t.shape, kind.name(), shapes.join(" or ")))
}

fn is(t: &Tensor, kind: Kind, shapes: &[&[usize]]) -> bool {
    t.kind == Some(kind) && shapes.contains(&t.shape.as_slice())
}

/// The kernel of an LSTM with 8-bit weights.
///
/// # Errors
/// Fails with a reason if types, shapes or activations are not supported.
pub fn build(sig: &Sig) -> Answer<Box<dyn Kernel>> {
    let directions = directions(sig, &["sigmoid", "tanh", "tanh"])?;
    if directions
        .iter()
        .flat_map(|d| d.acts)
        .any(|a| !matches!(a, Activation::Sigmoid | Activation::Tanh | Activation::Relu))
    {
        return Err("it takes the activations sigmoid, tanh and relu".into());
    }
    let kinds = [sig.kind_in(1, BYTES)?, sig.kind_in(2, BYTES)?];
    let d = directions.len();
    let &[steps, batch, input] = sig.input(0)?.shape.as_slice() else {
        return Err(format!("input 0 is {:?}, it takes three axes", sig.input(0)?.shape));
    };
    let packed = sig.attrs.flag("packed");
    let hidden = match sig.input(2)?.shape.as_slice() {
        &[_, h, _] if !packed => h,
        &[_, _] if packed => {
            usize::try_from(sig.int("hidden_size", -1)).map_err(|_| "packed weights without `hidden_size`")?
        }
        shape => return Err(format!("input 2 is {shape:?}")),
    };
    if input.max(hidden) > MOST_K {
        return Err(format!("inner sizes {input} and {hidden}: sums of more than {MOST_K} bytes can leave 32 bits"));
    }
    let gates = hidden.checked_mul(8).ok_or("sizes")? / 2;
    let (w, r) = if packed {
        (vec![d, packed_bytes_len(input, hidden)], vec![d, packed_bytes_len(hidden, hidden)])
    } else {
        (vec![d, input, gates], vec![d, hidden, gates])
    };
    let (state, y) = ([d, batch, hidden], [steps, d, batch, hidden]);
    fits(sig, 0, Kind::F32, &[&[steps, batch, input]])?;
    fits(sig, 1, kinds[0], &[&w])?;
    fits(sig, 2, kinds[1], &[&r])?;
    fits(sig, 3, Kind::F32, &[&[d, 2 * gates]])?;
    fits(sig, 4, Kind::I32, &[&[batch]])?;
    fits(sig, 5, Kind::F32, &[&state])?;
    fits(sig, 6, Kind::F32, &[&state])?;
    fits(sig, 7, Kind::F32, &[&[d, 3 * hidden]])?;
    for (i, kind) in [(8, Kind::F32), (9, kinds[0]), (10, Kind::F32), (11, kinds[1])] {
        sig.input(i)?;
        fits(sig, i, kind, &[&[d], &[d, gates]])?;
    }
    if sig.outputs.len() != 3 {
        return Err(format!("{} outputs", sig.outputs.len()));
    }
    for (k, t) in sig.outputs.iter().enumerate() {
        let want: &[usize] = if k == 0 { &y } else { &state };
        if !is(t, Kind::F32, &[want]) {
            return Err(format!("output {k} is {} {:?}, it takes f32 {want:?}", t.dtype, t.shape));
        }
    }
    let clip = sig.attrs.float("clip").filter(|c| *c > 0.0).map_or(f32::INFINITY, |c| c as f32);
    let input_forget = sig.int("input_forget", 0) != 0;
    let plan = ByteLstm { steps, batch, input, hidden, directions, clip, input_forget };
    Ok(Box::new(Node { plan, packed, unsigned: kinds.map(|k| k == Kind::U8) }))
}

impl Node {
    /// The packed weights of all directions: for the input (0) or the state (1).
    fn weights<'w>(&self, which: usize, given: &'w [i8]) -> Cow<'w, [i8]> {
        if self.packed {
            return Cow::Borrowed(given);
        }
        let (k, h) = ([self.plan.input, self.plan.hidden][which], self.plan.hidden);
        Cow::Owned(packed(given, [self.plan.directions.len(), k, h], self.unsigned[which]))
    }

    /// Zero points of the weights as signed values.
    fn zeros(&self, which: usize, io: &Io<'_, '_>) -> Result<Vec<i32>> {
        let i = [9, 11][which];
        Ok(if self.unsigned[which] {
            io.input::<u8>(i)?.iter().map(|z| i32::from(*z) - 128).collect()
        } else {
            io.input::<i8>(i)?.iter().map(|z| i32::from(*z)).collect()
        })
    }
}

/// The weights `[d, k, 4 h]` of all directions, packed.
pub fn packed(given: &[i8], [d, k, h]: [usize; 3], unsigned: bool) -> Vec<i8> {
    let (len, each) = (packed_bytes_len(k, h), (k * 4 * h).max(1));
    let turned: Vec<i8>;
    let given = if unsigned {
        turned = given.iter().map(|v| v ^ -128).collect();
        &turned
    } else {
        given
    };
    let mut all = vec![0i8; d * len];
    for (n, own) in all.chunks_exact_mut(len.max(1)).enumerate() {
        pack_bytes(given.chunks_exact(each).nth(n).unwrap_or(&[]), k, h, own);
    }
    all
}

impl Kernel for Node {
    fn units(&self) -> usize {
        self.plan.units()
    }

    fn work(&self) -> u64 {
        self.products() / 32
    }

    fn products(&self) -> u64 {
        self.plan.work()
    }

    fn run(&self, units: Range<usize>, io: &Io<'_, '_>) -> Result<()> {
        let lens = io.opt_input::<i32>(4)?;
        let steps = self.plan.steps;
        if let Some(n) = lens.iter().find(|n| !usize::try_from(**n).is_ok_and(|n| n <= steps)) {
            return Err(Error::failed(format!("input 4 `sequence_lens`: found {n}, expected 0 to {steps}")));
        }
        let (w, r) = (self.weights(0, io.input(1)?), self.weights(1, io.input(2)?));
        let (w_zeros, r_zeros) = (self.zeros(0, io)?, self.zeros(1, io)?);
        let ops = ByteOperands {
            x: io.input(0)?,
            w: ByteWeights { packed: &w, scales: io.input(8)?, zeros: &w_zeros },
            r: ByteWeights { packed: &r, scales: io.input(10)?, zeros: &r_zeros },
            bias: io.opt_input(3)?,
            lens,
            h0: io.opt_input(5)?,
            c0: io.opt_input(6)?,
            peep: io.opt_input(7)?,
        };
        io.output(0, |y| {
            io.output(1, |h| {
                io.output(2, |c| {
                    self.plan.run(units, &ops, &mut Results { y, h, c: Some(c) });
                    Ok(())
                })
            })
        })
    }
}
