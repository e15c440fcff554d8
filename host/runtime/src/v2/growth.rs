//! Finds the inputs of a model that can be states that grow in place. Such an input is read only by
//! a concatenation whose result is an output, and the result is either read piece by piece by
//! products or attentions (the key/value cache of a decoder), or it is a single piece.
use super::DynamicModel;
use super::graph::{Graph, Kind, Node, SIZES};
use super::state::State;
use super::value::{Store, Tensor, Value};
use crate::error::RuntimeError;
use ge_plugin_api::types::DType;

/// Size in bytes from which a tensor that a loop carries gets spare room; smaller ones are cheaper
/// to copy.
const WORTH: usize = 64 << 10;

/// An input that can grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Growing {
    /// Index of the input.
    pub(crate) input: usize,
    /// Index of the output that holds the input with the new rows.
    pub(crate) output: usize,
    /// The axis that grows.
    pub(crate) axis: usize,
    /// The input's value.
    pub(crate) value: u32,
    /// The concatenation node.
    pub(crate) concat: u32,
    /// The value that the concatenation gives.
    pub(crate) result: u32,
    /// The readers of the result.
    pub(crate) readers: Vec<Reader>,
    /// Whether all readers can work piece by piece.
    pub(crate) by_pieces: bool,
}

impl Growing {
    /// Whether a tensor of this type and these sizes can grow: its rows have whole bytes, and it is
    /// a single piece, or all readers work by pieces.
    pub(crate) fn fits(&self, dtype: DType, dims: &[u64]) -> bool {
        let is_one = || dims.get(..self.axis).is_some_and(|d| d.iter().all(|d| *d == 1));
        dtype.bits().is_some_and(|bits| bits >= 8) && (self.by_pieces || is_one())
    }
}

/// A node that reads the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    /// The node.
    pub(crate) node: u32,
    /// Index of its input.
    pub(crate) at: usize,
    /// A transposition of the last two axes before the reader; a matrix product can do it itself.
    pub(crate) through: Option<u32>,
}

/// The attributes with which batched matrix products transpose their operands.
fn turned(n: &Node) -> Option<[&'static str; 2]> {
    match n.op.as_str() {
        "BatchMatMul" | "BatchMatMulV2" => Some(["adj_x1", "adj_x2"]),
        _ => None,
    }
}

/// The attribute that transposes operand `at` of a product.
pub(crate) fn turn(n: &Node, at: usize) -> Option<&'static str> {
    turned(n)?.get(at).copied()
}

/// Whether a node is an attention by heads, whose keys and values are the pieces of a state.
pub(crate) fn by_heads(n: &Node) -> bool {
    n.op.as_str() == "PromptFlashAttention" && n.attrs.str("input_layout") == Some("BNSD")
}

/// Whether a node can read a value piece by piece as its input `at`.
fn in_pieces(n: &Node, at: usize, rank: usize) -> bool {
    (turned(n).is_some() && at < 2) || (by_heads(n) && matches!(at, 1 | 2) && rank == 4)
}

/// The inputs of each graph that can grow: those of the model, and those that a loop body passes to
/// its next iteration.
pub(crate) fn of_all(graphs: &[Graph]) -> Vec<Vec<Growing>> {
    let mut out = vec![Vec::new(); graphs.len()];
    for n in graphs.iter().flat_map(|g| &g.nodes) {
        // The first parameter of a `For` body is its counter.
        let (body, counter) = match (n.kind, n.graphs.as_slice()) {
            (Kind::While, &[_, body]) => (body, 0),
            (Kind::For, &[body]) => (body, 1),
            _ => continue,
        };
        let Some(graph) = graphs.get(body) else { continue };
        out[body] = find(graph);
        out[body].retain(|g| g.input == g.output + counter);
    }
    if let Some((first, graph)) = out.first_mut().zip(graphs.first()) {
        *first = find(graph);
    }
    out
}

/// The inputs of a graph that can grow.
fn find(g: &Graph) -> Vec<Growing> {
    let one = |(input, value): (usize, &Option<u32>)| {
        let value = (*value)?;
        let asks = |n: &u32| SIZES.contains(&g.nodes[*n as usize].op.as_str());
        let mut readers = g.readers[value as usize].iter().filter(|n| !asks(n));
        let (concat, None) = (*readers.next()?, readers.next()) else { return None };
        let n = &g.nodes[concat as usize];
        let others = n.inputs.get(1..)?;
        if n.op.as_str() != "ConcatD"
            || n.inputs[0] != Some(value)
            || others.is_empty()
            || others.contains(&Some(value))
        {
            return None;
        }
        let rank = n.descs.first()?.shape.rank()?;
        let axis = n.attrs.int("concat_dim")?;
        let axis = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok().filter(|a| *a < rank)?;
        let &[result] = n.outputs.as_slice() else { return None };
        let output = g.outputs.iter().position(|v| *v == result)?;
        let (readers, by_pieces) = readers_of(g, result, rank);
        Some(Growing { input, output, axis, value, concat, result, readers, by_pieces: by_pieces && axis + 2 == rank })
    };
    g.inputs.iter().enumerate().filter_map(one).collect()
}

/// The readers of a value, and whether all of them can read it piece by piece.
fn readers_of(g: &Graph, value: u32, rank: usize) -> (Vec<Reader>, bool) {
    let mut out = Vec::new();
    let mut by_pieces = true;
    for node in &g.readers[value as usize] {
        let n = &g.nodes[*node as usize];
        if n.kind == Kind::Output || SIZES.contains(&n.op.as_str()) {
            continue;
        }
        let swaps = n.op.as_str() == "TransposeD" && n.attrs.ints("perm").is_some_and(|p| swaps_last(p, rank));
        let behind = if swaps { n.outputs.first().copied() } else { None };
        let by_products = behind.filter(|v| {
            let all = &g.readers[*v as usize];
            !g.outputs.contains(v) && !all.is_empty() && all.iter().all(|r| turned(&g.nodes[*r as usize]).is_some())
        });
        let (from, through) = match by_products {
            Some(v) => (v, Some(*node)),
            None => (value, None),
        };
        let list = if through.is_some() { g.readers[from as usize].clone() } else { vec![*node] };
        for r in list {
            let reads: Vec<usize> =
                (0..).zip(&g.nodes[r as usize].inputs).filter(|(_, v)| **v == Some(from)).map(|(k, _)| k).collect();
            for at in reads {
                by_pieces &= in_pieces(&g.nodes[r as usize], at, rank);
                // The graph lists a node that reads the value twice as two readers.
                let reader = Reader { node: r, at, through };
                if !out.contains(&reader) {
                    out.push(reader);
                }
            }
        }
    }
    (out, by_pieces)
}

impl DynamicModel {
    /// Gives the growing tensors that a loop carries room for more iterations. Each time a tensor
    /// has doubled, it is copied once.
    ///
    /// # Errors
    /// Fails if memory cannot be allocated.
    pub(crate) fn make_room(&self, body: usize, state: &mut [Value<'_>]) -> Result<(), RuntimeError> {
        for g in self.growing(body) {
            let Some(Value::Tensor(t)) = state.get_mut(g.output) else { continue };
            let rows = t.dims.get(g.axis).copied().unwrap_or(0);
            let full = match &t.store {
                Store::State(s) => !s.is_newest() || rows >= s.capacity(),
                Store::Made(m) => m.bytes().len() >= WORTH,
                _ => false,
            };
            if full && g.fits(t.dtype, &t.dims) {
                *t = Tensor::state(State::new(&t.view(), g.axis, rows.saturating_mul(2))?);
            }
        }
        Ok(())
    }
}

/// Whether a permutation only swaps the last two axes.
fn swaps_last(perm: &[i64], rank: usize) -> bool {
    let Some((lead, last)) = perm.len().checked_sub(2).map(|k| perm.split_at(k)) else { return false };
    let r = rank as i64;
    perm.len() == rank && last == [r - 1, r - 2] && lead.iter().zip(0..).all(|(a, b)| *a == b)
}
