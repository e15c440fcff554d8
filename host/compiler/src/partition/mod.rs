//! Partition. Input: a placed graph. Output: `Pieces`, one graph for each cluster of nodes of one
//! engine, joined by PlaceHolder and End nodes (003 §4, facts 3.4).
//!
//! Partition runs twice, for composite engines and then for atomic ones. The op store of a
//! composite engine says which nodes it takes (`op_types`, with `*` for every type, and `supports`,
//! which sees the node's `_engine`); the result is written to the node as `_composite_engine`. Only
//! nodes with the same `_composite_scope` are put into one subgraph. At `OptimizeFusedGraph` the
//! composite engine decides what becomes of the subgraph: it returns edits like any engine, or sets
//! the graph attribute `_composite_node = "TYPE"`, and `merge` then folds the whole subgraph into
//! one node of that type.

/// Which nodes composite engines take.
pub mod composite;
/// Cuts a model along its clusters.
pub mod cut;
/// Parts of known and unknown shapes, and levels.
pub mod dynamic;
/// The graphs of a cut model, and their text form.
pub mod pieces;

pub use pieces::{Frame, Piece, Pieces, Round};

use crate::error::Result;
use crate::ids::NodeKey;
use crate::place::Placement;
use crate::toolbox::{EngineId, Toolbox};
use ge_ir::{Key, Model};
use ge_planners::cluster::Fit;
use ge_plugin_api::engine::COMPOSITE_SCOPE;

/// Cuts a model for one round. Returns `None` if no composite engine takes any node, so that the
/// composite round has nothing to do.
pub fn run(model: &mut Model, placement: &Placement, toolbox: &Toolbox, round: Round) -> Result<Option<Pieces>> {
    let claims = match round {
        Round::Composite => match composite::claims(model, placement, toolbox)? {
            Some(claims) => Some(claims),
            None => return Ok(None),
        },
        Round::Atomic => None,
    };
    let (label_key, scope_key) = (Key::new("_stream_label"), Key::new(COMPOSITE_SCOPE));
    let scope_key = claims.is_some().then_some(scope_key);
    let mut engines: Vec<Vec<Option<EngineId>>> = Vec::with_capacity(model.graphs().len());
    let mut labels: Vec<Vec<[Option<&str>; 2]>> = Vec::with_capacity(model.graphs().len());
    for (gi, g) in model.graphs().iter().enumerate() {
        let engine = |id| match &claims {
            Some(c) => c[NodeKey::new(gi, id)],
            None => Some(placement.engine[NodeKey::new(gi, id)]),
        };
        engines.push(g.order().iter().map(|&id| engine(id)).collect());
        labels.push(g.nodes().map(|n| [n.attrs().str(label_key), scope_key.and_then(|k| n.attrs().str(k))]).collect());
    }
    let cuts: Vec<cut::Cut> = model
        .graphs()
        .iter()
        .zip(engines.iter().zip(&labels))
        .map(|(g, (engines, labels))| {
            let same = |a: u32, b: u32| {
                let (a, b) = (a as usize, b as usize);
                if engines[a] == engines[b] && labels[a] == labels[b] { Fit::IfDirect } else { Fit::Never }
            };
            cut::clusters(g, &same)
        })
        .collect();
    let graphs = std::mem::take(model).into_graphs();
    Ok(Some(cut::apart(graphs, cuts, &engines, round)))
}
