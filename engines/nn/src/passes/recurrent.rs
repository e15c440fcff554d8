//! `RecurrentWeightsPass`: packs constant weights of recurrent operators, once for all runs and
//! instruction sets.
//!
//! Before: `%y = CommonLSTM(%x, %w, %r)` with `%w [D,4H,I]` and `%r [D,4H,H]`
//! After: the same with `{packed = true}` and constants `[D,P]` in the form of the kernel
//! When: both are constants of f32, f16 or bf16; the number of steps and the batch size may be
//! open.
//! `DynamicQuantizeLSTM`, whose weights are 8-bit integers `[D,I,4H]` and `[D,H,4H]`, is handled
//! the same way.
use super::info;
use crate::families::{byte_lstm, recurrent::cell_of};
use ge_kernels::rnn::{pack_input, pack_recurrent, packed_input_len, packed_recurrent_len};
use ge_plugin_api::Result;
use ge_plugin_api::pass::{Pass, PassInfo};
use ge_plugin_api::patch::Patch;
use ge_plugin_api::types::{Blob, ConstTensor, DType};
use ge_plugin_api::view::{Graph, Node};

const NAME: &str = "RecurrentWeightsPass";

const CELLS: [&str; 4] = ["CommonRNN", "CommonGRU", "CommonLSTM", "DynamicQuantizeLSTM"];

/// The pass `RecurrentWeightsPass`.
pub struct RecurrentWeights;

impl Pass for RecurrentWeights {
    fn info(&self) -> PassInfo {
        info(NAME, "packs the constant weights of recurrences for their kernels")
    }
    fn run(&self, graph: &Graph<'_>, patch: &mut Patch) -> Result<()> {
        for n in graph.nodes_of(&CELLS).filter(|n| !n.flag("packed")) {
            let packed = match n.op() {
                "CommonRNN" | "CommonGRU" | "CommonLSTM" => packed(&n),
                "DynamicQuantizeLSTM" => packed_bytes(&n),
                _ => continue,
            };
            let Some((w, r, hidden)) = packed else { continue };
            for (i, tensor, what) in [(1, w, "w"), (2, r, "r")] {
                let value = patch.constant(&format!("{}_packed_{what}", n.name()), tensor);
                patch.set_input(n.id(), i, value);
            }
            patch.set_attr(n.id(), "packed", true);
            patch.set_attr(n.id(), "hidden_size", hidden as i64);
        }
        Ok(())
    }
}

/// Both weights of a node packed, and the size of a state; `None` if they are not constants that
/// match each other.
fn packed(n: &Node<'_>) -> Option<(ConstTensor, ConstTensor, usize)> {
    let (w, r) = (n.const_input(1)?, n.const_input(2)?);
    let size = |t: &ConstTensor, k: usize| usize::try_from(*t.dims.get(k)?).ok();
    let g = cell_of(n.op(), &n.attrs().iter().cloned().collect()).0.gates();
    let (d, h, i) = (size(w, 0)?, size(r, 2)?, size(w, 2)?);
    let rows = h.checked_mul(g)?;
    let fits = |t: &ConstTensor, k: usize| t.dims.as_slice() == [d as u64, rows as u64, k as u64];
    if w.dtype != r.dtype || !fits(w, i) || !fits(r, h) || n.int("hidden_size").is_some_and(|v| v != h as i64) {
        return None;
    }
    let (w, r) = match w.dtype {
        DType::F32 => (both::<4>(w, [d, g, h, i], true)?, both::<4>(r, [d, g, h, h], false)?),
        DType::F16 | DType::BF16 => (both::<2>(w, [d, g, h, i], true)?, both::<2>(r, [d, g, h, h], false)?),
        _ => return None,
    };
    Some((w, r, h))
}

/// The same for an LSTM with 8-bit weights.
fn packed_bytes(n: &Node<'_>) -> Option<(ConstTensor, ConstTensor, usize)> {
    let (w, r) = (n.const_input(1)?, n.const_input(2)?);
    let size = |t: &ConstTensor, k: usize| usize::try_from(*t.dims.get(k)?).ok();
    let (d, h, i) = (size(w, 0)?, size(r, 1)?, size(w, 1)?);
    let columns = h.checked_mul(4)?;
    let fits = |t: &ConstTensor, k: usize| t.dims.as_slice() == [d as u64, k as u64, columns as u64];
    if !fits(w, i) || !fits(r, h) || n.int("hidden_size").is_some_and(|v| v != h as i64) {
        return None;
    }
    let packed = |t: &ConstTensor, k: usize| {
        let unsigned = match t.dtype {
            DType::I8 => false,
            DType::U8 => true,
            _ => return None,
        };
        let given: Vec<i8> = t.bytes()?.iter().map(|v| *v as i8).collect();
        let all: Vec<u8> = byte_lstm::packed(&given, [d, k, h], unsigned).into_iter().map(|v| v as u8).collect();
        ConstTensor::new(t.dtype, &[d as u64, (all.len() / d.max(1)) as u64], Blob::from_owner(all))
    };
    Some((packed(w, i)?, packed(r, h)?, h))
}

/// The packed weights of all directions; elements have `N` bytes.
fn both<const N: usize>(t: &ConstTensor, [d, g, h, k]: [usize; 4], of_input: bool) -> Option<ConstTensor>
where
    [u8; N]: Default,
{
    let len = if of_input { packed_input_len(g, h, k) } else { packed_recurrent_len(g, h) };
    let bytes = t.bytes()?;
    let given = bytes.as_slice().as_chunks::<N>().0;
    let mut all = vec![<[u8; N]>::default(); d.checked_mul(len)?];
    for (own, given) in all.chunks_exact_mut(len.max(1)).zip(given.chunks_exact((g * h * k).max(1))) {
        if of_input {
            pack_input(given, [g, h, k], own);
        } else {
            pack_recurrent(given, [g, h], own);
        }
    }
    ConstTensor::new(t.dtype, &[d as u64, len as u64], Blob::from_owner(all.into_flattened()))
}
