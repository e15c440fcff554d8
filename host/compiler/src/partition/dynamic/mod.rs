//! Partition by shape and by level (facts 3.5, 3.6): parts of a graph become PartitionedCall nodes
//! before engines process them.

/// Nodes that only compute sizes.
pub mod arithmetic;
/// Partition into known and unknown shapes.
pub mod dynamic_shape_partition;
/// Extraction of known parts as models of their own.
pub mod seal;
/// Partition by the levels that the user has written on nodes.
pub mod stage_partition;
/// Which nodes have unknown shapes, and why.
pub mod unknown;

use super::cut::{self, Cut};
use super::pieces::{Pieces, Round};
use crate::error::Result;
use ge_ir::{AttrValue, Graph, Key, Model};

/// Merges pieces into a model. This is the later stage `merge`; the code that runs the stages
/// passes it in.
pub type Merge<'a> = &'a dyn Fn(Pieces) -> Result<Model>;

/// What one part becomes.
pub struct Part {
    /// Name of the call node and of its body.
    pub name: String,
    /// Attributes of the body.
    pub attrs: Vec<(&'static str, AttrValue)>,
}

/// The parts to cut out of one graph.
pub(super) struct Calls<'p> {
    /// Index of the graph in the model.
    pub(super) graph: usize,
    /// The part of each node, as in [`Cut`].
    pub(super) of: Vec<u32>,
    /// The parts.
    pub(super) parts: &'p [Part],
}

/// Replaces each part by one PartitionedCall in its graph. `calls` has at most one entry per graph.
pub(super) fn call_parts(model: &mut Model, calls: Vec<Calls<'_>>, merge: Merge<'_>) -> Result<()> {
    let graphs = std::mem::take(model).into_graphs();
    let whole = |g: &Graph| Cut { of: vec![u32::MAX; g.len()], count: 0, names: Vec::new() };
    let mut cuts: Vec<Cut> = graphs.iter().map(whole).collect();
    let mut parts: Vec<&[Part]> = vec![&[]; graphs.len()];
    for c in calls {
        let names = c.parts.iter().map(|p| p.name.clone()).collect();
        cuts[c.graph] = Cut { of: c.of, count: c.parts.len(), names };
        parts[c.graph] = c.parts;
    }
    let engines: Vec<Vec<_>> = graphs.iter().map(|g| vec![None; g.len()]).collect();
    let mut pieces = cut::apart(graphs, cuts, &engines, Round::Composite);
    for (frame, parts) in pieces.frames.iter_mut().zip(parts) {
        for (piece, part) in frame.pieces.iter_mut().zip(parts) {
            let attrs = piece.graph.attrs_mut();
            attrs.set("_composite_node", "PartitionedCall");
            part.attrs.iter().for_each(|(k, v)| attrs.set(Key::new(k), v.clone()));
        }
    }
    *model = merge(pieces)?;
    Ok(())
}
