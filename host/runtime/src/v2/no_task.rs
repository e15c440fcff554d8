//! Concatenations, splits and slices without a launch, as `ConcatNotaskPass` and `SplitNOptimizer`
//! do when sizes are known at compile time (000 4.2, 5.1). If all axes before the cut axis have
//! size 1, the parts of a concatenation are contiguous, so their producers write them directly into
//! the whole; the parts of a split or slice are contiguous too, so their readers read them directly
//! from the input.
use super::build::root_of;
use super::contiguous::{one_before, plain, taken};
use super::graph::Graph;
use super::plan::{Draft, Home};

/// Sizes and offsets of pieces are multiples of this many bytes.
const PIECE: u64 = 32;

/// The launches of a round that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NoTask {
    /// For each value that is a piece: the whole that contains it and its offset there in bytes.
    /// The whole is not a piece itself.
    pub(crate) piece: Vec<Option<(u32, u64)>>,
    /// Marks the launches that are left out.
    pub(crate) silent: Vec<bool>,
}

impl NoTask {
    /// Leaves no launch of a round out.
    pub(crate) fn none(graph: &Graph, d: &Draft) -> NoTask {
        NoTask { piece: vec![None; graph.values()], silent: vec![false; d.launches.len()] }
    }

    /// Finds the launches that can be left out. `leaves` marks values whose memory leaves the
    /// round. With several streams, none is: the producers of two pieces may run in any order, and
    /// the memory may belong to another tensor until the second one begins.
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

    /// Replaces each piece of a piece by a piece of the whole.
    fn settle(&mut self) {
        for v in 0..self.piece.len() {
            while let Some((of, at)) = self.piece[v] {
                let Some((whole, before)) = self.piece[of as usize] else { break };
                self.piece[v] = Some((whole, at + before));
            }
        }
    }

    /// The pieces of a concatenation that can be left out: each piece, its whole and its offset.
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

    /// The outputs of a split or slice as pieces of its input, if they can be read there: the input
    /// lies in memory of this round or is an input of it, each part is contiguous, and no part
    /// leaves the round.
    fn taken_apart(&self, graph: &Graph, d: &Draft, launch: usize, leaves: &[bool]) -> Option<Vec<(u32, u32, u64)>> {
        let l = &d.launches[launch];
        let n = &graph.nodes[l.node as usize];
        let parts = taken(graph, d, n).filter(|_| l.pieces.is_none() && l.copies.is_empty())?;
        let x = n.inputs.first().copied()??;
        let root = root_of(d, x);
        let lies = matches!(d.home[root as usize], Home::Made | Home::Before);
        // A state has gaps between its pieces, and an overwritten value must be read before it
        // changes.
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
