//! Which inputs of a model can be state that grows in place: those that a concatenation alone
//! reads, whose result is an output and is read by products piece by piece (the cache of keys and
//! values of a decoder), or is one piece.
use super::graph::{Graph, Kind, Node, SIZES};
use super::pieces::{Cut, Operand, sized};
use ge_plugin_api::types::{ConstTensor, TensorDesc};

/// An input that can grow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Growing {
    /// Number of the input.
    pub(crate) input: usize,
    /// Number of the output that it is with what is new.
    pub(crate) output: usize,
    /// The axis that grows.
    pub(crate) axis: usize,
    /// Its value.
    pub(crate) value: u32,
    /// The concatenation.
    pub(crate) concat: u32,
    /// What the concatenation gives.
    pub(crate) result: u32,
    /// Who reads the result.
    pub(crate) readers: Vec<Reader>,
    /// Whether all of them are products that can be cut into pieces.
    pub(crate) by_pieces: bool,
}

/// A node that reads the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    /// The node.
    pub(crate) node: u32,
    /// Which of its inputs.
    pub(crate) at: usize,
    /// The transposition of the last two axes between, which the product does itself.
    pub(crate) through: Option<u32>,
}

/// Products by batches: what they call a turned operand.
fn turned(n: &Node) -> Option<[&'static str; 2]> {
    match n.op.as_str() {
        "BatchMatMul" | "BatchMatMulV2" => Some(["adj_x1", "adj_x2"]),
        _ => None,
    }
}

/// The attribute that turns an operand of a product.
pub(crate) fn turn(n: &Node, at: usize) -> Option<&'static str> {
    turned(n)?.get(at).copied()
}

/// The inputs of a graph that can grow.
pub(crate) fn find(g: &Graph) -> Vec<Growing> {
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

/// Who reads a value, and whether all are products.
fn readers_of(g: &Graph, value: u32, rank: usize) -> (Vec<Reader>, bool) {
    let mut out = Vec::new();
    let mut products = true;
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
            // Who reads it twice is listed twice: the graph says so.
            let Some(at) = reads.first().copied() else { continue };
            products &= reads.len() == 1 && at < 2 && turned(&g.nodes[r as usize]).is_some();
            if !out.iter().any(|o: &Reader| o.node == r) {
                out.push(Reader { node: r, at, through });
            }
        }
    }
    (out, products)
}

/// Whether a permutation swaps the last two axes and leaves the others.
fn swaps_last(perm: &[i64], rank: usize) -> bool {
    let Some((lead, last)) = perm.len().checked_sub(2).map(|k| perm.split_at(k)) else { return false };
    let r = rank as i64;
    perm.len() == rank && last == [r - 1, r - 2] && lead.iter().zip(0..).all(|(a, b)| *a == b)
}

/// A state that a run brings, as plans see it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// What it is in the graph.
    pub(crate) of: Growing,
    /// Pieces, rows that there is room for, elements of a row.
    pub(crate) room: [u64; 3],
    /// Rows that it has.
    pub(crate) rows: u64,
    /// Bytes of a row.
    pub(crate) row_bytes: u64,
}

impl Held {
    fn step(&self) -> Option<u64> {
        self.room[1].checked_mul(self.row_bytes)
    }

    /// The concatenation as one piece of what is new, written behind what is there. `given`: value,
    /// descriptor and bytes of its inputs; `out`: what it gives.
    pub(crate) fn extend<'c>(&self, n: &'c Node, given: &Given, out: &TensorDesc) -> Option<Cut<'c>> {
        let ones = vec![1u64; self.of.axis];
        let mut inputs = Vec::with_capacity(given.len());
        for (value, d, _) in given.iter().skip(1).map(|g| g.as_ref()).collect::<Option<Vec<_>>>()? {
            let dims = d.shape.sizes()?;
            let desc = sized(d, &[&ones[..], &dims[self.of.axis..]].concat());
            let step = desc.data_bytes()?;
            inputs.push(Operand { value: *value, desc, known: None, offset: 0, step });
        }
        let dims = out.shape.sizes()?;
        let rows = dims.get(self.of.axis)?.checked_sub(self.rows)?;
        let desc = sized(out, &[&ones[..], &[rows], &dims[self.of.axis + 1..]].concat());
        let mut attrs = n.attrs.clone();
        attrs.set("N", inputs.len() as i64);
        let output = (desc, self.rows.checked_mul(self.row_bytes)?, self.step()?);
        Some(Cut { name: &n.name, op: n.op, flags: n.flags, attrs, pieces: self.room[0], inputs, output })
    }

    /// A product as one piece of each operand.
    pub(crate) fn product<'c>(&self, n: &'c Node, r: &Reader, given: &Given, out: &TensorDesc) -> Option<Cut<'c>> {
        let lead = self.of.axis;
        let state = given.get(r.at)?.as_ref()?.1.shape.sizes()?;
        let mut inputs = Vec::with_capacity(given.len());
        // A product without a bias has two inputs.
        for (k, g) in given.iter().enumerate() {
            let (value, d, known) = g.as_ref()?;
            let dims = d.shape.sizes()?;
            if dims.len() != state.len() {
                return None;
            }
            let ones = vec![1u64; lead];
            let (value, tail, step, known) = if k == r.at {
                let (a, b) = (dims[lead], dims[lead + 1]);
                let tail = if r.through.is_some() { [b, a] } else { [a, b] };
                (self.of.value, tail, self.step()?, None)
            } else if dims[..lead] == state[..lead] {
                let tail = [dims[lead], dims[lead + 1]];
                (*value, tail, d.dtype.bytes_of(tail[0].checked_mul(tail[1])?)?, None)
            } else if dims[..lead].iter().all(|d| *d == 1) {
                (*value, [dims[lead], dims[lead + 1]], 0, known.clone())
            } else {
                return None;
            };
            let desc = sized(d, &[&ones[..], &tail[..]].concat());
            inputs.push(Operand { value, desc, known, offset: 0, step });
        }
        let dims = out.shape.sizes()?;
        if dims.len() != state.len() || dims[..lead] != state[..lead] {
            return None;
        }
        let desc = sized(out, &[&vec![1u64; lead][..], &dims[lead..]].concat());
        let step = desc.data_bytes()?;
        let mut attrs = n.attrs.clone();
        if r.through.is_some() {
            let key = turn(n, r.at)?;
            attrs.set(key, !n.attrs.flag(key));
        }
        Some(Cut {
            name: &n.name,
            op: n.op,
            flags: n.flags,
            attrs,
            pieces: self.room[0],
            inputs,
            output: (desc, 0, step),
        })
    }
}

/// Value, descriptor and known bytes of each input of a node.
pub(crate) type Given = [Option<(u32, TensorDesc, Option<ConstTensor>)>];
