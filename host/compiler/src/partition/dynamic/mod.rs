//! Partition by shape and by level (facts 3.5, 3.6): parts of a graph become PartitionedCall nodes
//! before engines are looked at.

/// Arithmetic on sizes.
pub mod arithmetic;
/// Known and unknown shapes.
pub mod dynamic_shape_partition;
/// Known parts as models of their own.
pub mod seal;
/// Levels that the user has written on nodes.
pub mod stage_partition;
/// Which nodes have unknown shapes, and why.
pub mod unknown;

use super::cut::{self, Cut};
use super::pieces::{Pieces, Round};
use crate::error::Result;
use ge_ir::{AttrValue, Graph, Key, Model};

/// Puts pieces together: the later stage `merge`, handed in by who runs the stages.
pub type Merge<'a> = &'a dyn Fn(Pieces) -> Result<Model>;

/// What becomes of one part.
pub struct Part {
    /// Name of the node and of its body.
    pub name: String,
    /// Attributes of the body.
    pub attrs: Vec<(&'static str, AttrValue)>,
}

/// What is cut out of one graph.
pub(super) struct Calls<'p> {
    /// Position of the graph.
    pub(super) graph: usize,
    /// The part of each node, as in [`Cut`].
    pub(super) of: Vec<u32>,
    /// The parts.
    pub(super) parts: &'p [Part],
}

/// Makes each part one PartitionedCall in its graph. `calls`: at most one for each graph.
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
