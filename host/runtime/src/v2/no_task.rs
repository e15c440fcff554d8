//! Concatenations without a launch, as `ConcatNotaskPass` has them where sizes are known when a model
//! is compiled (000 4.2): where nothing before the axis has more than one place, what is put together
//! lies one behind the other, and those who make it write it there.
use super::build::root_of;
use super::graph::{Graph, Node};
use super::plan::{Draft, Home};
use ge_plugin_api::types::TensorDesc;

/// Pieces are multiples of this many bytes.
const PIECE: u64 = 32;

/// The concatenations of a round that need no launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NoTask {
    /// Of each value that is a piece: what it is a piece of, and its first byte there.
    pub(crate) piece: Vec<Option<(u32, u64)>>,
    /// Launches that are left out.
    pub(crate) silent: Vec<bool>,
}

impl NoTask {
    /// None of a round.
    pub(crate) fn none(graph: &Graph, d: &Draft) -> NoTask {
        NoTask { piece: vec![None; graph.values()], silent: vec![false; d.launches.len()] }
    }

    /// Those of a round. `leaves`: values whose memory leaves it. On several streams the makers of two
    /// pieces may run in any order, and the memory may be another's until the second begins.
    pub(crate) fn find(graph: &Graph, d: &Draft, leaves: &[bool]) -> NoTask {
        let mut out = NoTask::none(graph, d);
        if d.streams.logical.len() > 1 {
            return out;
        }
        let mut maker = vec![None; graph.values()];
        for (k, l) in d.launches.iter().enumerate() {
            let n = &graph.nodes[l.node as usize];
            if let Some(pieces) = out.pieces(graph, d, k, &maker, leaves) {
                let of = n.outputs[0];
                pieces.into_iter().for_each(|(v, at)| out.piece[v as usize] = Some((of, at)));
                out.silent[k] = true;
            }
            n.outputs.iter().for_each(|v| maker[*v as usize] = Some(k));
        }
        out
    }

    /// The pieces of a launch that can be left out.
    fn pieces(
        &self,
        graph: &Graph,
        d: &Draft,
        launch: usize,
        maker: &[Option<usize>],
        leaves: &[bool],
    ) -> Option<Vec<(u32, u64)>> {
        let l = &d.launches[launch];
        let n = &graph.nodes[l.node as usize];
        let &[of] = n.outputs.as_slice() else { return None };
        if n.op.as_str() != "ConcatD" || l.pieces.is_some() || !l.copies.is_empty() || n.inputs.len() < 2 {
            return None;
        }
        let whole = plain(d.desc(graph, of)?)?;
        one_before_the_axis(n, d.desc(graph, of)?)?;
        let mut out: Vec<(u32, u64)> = Vec::with_capacity(n.inputs.len());
        let mut at = 0u64;
        for v in &n.inputs {
            let v = (*v)?;
            let bytes = plain(d.desc(graph, v)?)?;
            let root = root_of(d, v);
            let by = maker[root as usize].filter(|_| d.home[root as usize] == Home::Made)?;
            let same = plain(d.desc(graph, root)?)? == bytes;
            let free = !leaves[root as usize] && self.piece[root as usize].is_none() && out.iter().all(|o| o.0 != root);
            let made = !self.silent[by] && d.launches[by].copies.is_empty();
            if !same || !free || !made || bytes == 0 || !bytes.is_multiple_of(PIECE) {
                return None;
            }
            out.push((root, at));
            at = at.checked_add(bytes)?;
        }
        (at == whole).then_some(out)
    }
}

/// The bytes of a tensor that lies as its sizes say.
fn plain(d: &TensorDesc) -> Option<u64> {
    if d.origin.is_some() { None } else { d.data_bytes() }
}

/// Whether each axis before that of a concatenation has one place.
fn one_before_the_axis(n: &Node, d: &TensorDesc) -> Option<()> {
    let dims = d.shape.sizes()?;
    let axis = n.attrs.int("concat_dim")?;
    let axis = usize::try_from(if axis < 0 { axis.checked_add(dims.len() as i64)? } else { axis }).ok()?;
    dims.get(..axis)?.iter().all(|d| *d == 1).then_some(())
}
