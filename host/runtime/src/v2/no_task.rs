//! Concatenations, splits and slices without a launch, as `ConcatNotaskPass` and `SplitNOptimizer` have
//! them where sizes are known when a model is compiled (000 4.2, 5.1). Where nothing before the axis has
//! more than one place, what is put together lies one behind the other, and those who make it write it
//! there; what is split or sliced lies in one piece each, and those who read it read it there.
use super::build::root_of;
use super::contiguous::{one_before, plain, taken};
use super::graph::Graph;
use super::plan::{Draft, Home};

/// Pieces are multiples of this many bytes, and begin at one.
const PIECE: u64 = 32;

/// The launches of a round that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NoTask {
    /// Of each value that is a piece: what it is a piece of, and its first byte there. That is no piece
    /// itself.
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
            let whole = l.pieces.is_none() && l.copies.is_empty();
            let put = || out.put_together(graph, d, k, &maker, leaves);
            if let Some(pieces) = whole.then(put).flatten().or_else(|| out.taken_apart(graph, d, k, leaves)) {
                pieces.into_iter().for_each(|(v, of, at)| out.piece[v as usize] = Some((of, at)));
                out.silent[k] = true;
            }
            n.outputs.iter().for_each(|v| maker[*v as usize] = Some(k));
        }
        out.settle();
        out
    }

    /// A piece of a piece is one of the whole.
    fn settle(&mut self) {
        for v in 0..self.piece.len() {
            while let Some((of, at)) = self.piece[v] {
                let Some((whole, before)) = self.piece[of as usize] else { break };
                self.piece[v] = Some((whole, at + before));
            }
        }
    }

    /// The pieces of a concatenation that can be left out, what they are pieces of, and where.
    fn put_together(
        &self,
        graph: &Graph,
        d: &Draft,
        launch: usize,
        maker: &[Option<usize>],
        leaves: &[bool],
    ) -> Option<Vec<(u32, u32, u64)>> {
        let n = &graph.nodes[d.launches[launch].node as usize];
        let &[of] = n.outputs.as_slice() else { return None };
        if n.op.as_str() != "ConcatD" || n.inputs.len() < 2 {
            return None;
        }
        let whole = plain(d.desc(graph, of)?)?;
        one_before(d.desc(graph, of)?, n.attrs.int("concat_dim")?)?;
        let mut out: Vec<(u32, u32, u64)> = Vec::with_capacity(n.inputs.len());
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
            out.push((root, of, at));
            at = at.checked_add(bytes)?;
        }
        (at == whole).then_some(out)
    }

    /// What a split or a slice gives, where that can be read in its input: it lies in the memory of this
    /// round or in an input of it, each part in one piece, and none leaves the round.
    fn taken_apart(&self, graph: &Graph, d: &Draft, launch: usize, leaves: &[bool]) -> Option<Vec<(u32, u32, u64)>> {
        let l = &d.launches[launch];
        let n = &graph.nodes[l.node as usize];
        let parts = taken(graph, d, n).filter(|_| l.pieces.is_none() && l.copies.is_empty())?;
        let x = n.inputs.first().copied()??;
        let root = root_of(d, x);
        let lies = matches!(d.home[root as usize], Home::Made | Home::Before);
        // A state has room between its pieces, and what is written over is read before that.
        let held = d.held.iter().any(|h| h.of.value == root);
        let over = d.over.iter().any(|o| o.0 == root || o.1 == root);
        if !lies || held || over || plain(d.desc(graph, root)?)? != plain(d.desc(graph, x)?)? {
            return None;
        }
        let one = |(v, (at, bytes)): (&u32, (u64, u64))| {
            let fits = bytes > 0 && bytes.is_multiple_of(PIECE) && at.is_multiple_of(PIECE);
            (fits && !leaves[*v as usize]).then_some((*v, root, at))
        };
        n.outputs.iter().zip(parts).map(one).collect()
    }
}
