//! `MarkFirstAndLastOps` (003 §5.5): on each stream the first and the last node of each engine, anew behind every label, jump and
//! switch, so that an executor knows where its work on a stream begins and ends.
//! Marks: `_is_first_node`, `_is_last_node`.
use crate::ids::{NodeKey, StreamId};
use crate::place::Placement;
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_ir::Model;
use std::collections::BTreeMap;

/// Types behind which a stream begins anew.
const CUTS: &[&str] = &["LabelSet", "LabelGotoEx", "LabelSwitchByIndex", "StreamSwitch"];

/// Marks the nodes of all graphs that have a task.
pub fn mark(model: &mut Model, placement: &Placement, streams: &StreamPlan, order: &ExecutionOrder) {
    // By stream and engine: first and last node of the piece that is open.
    let mut open: BTreeMap<(StreamId, u16), (NodeKey, NodeKey)> = BTreeMap::new();
    let mut pieces: Vec<(NodeKey, NodeKey)> = Vec::new();
    for (i, &key) in order.line().iter().enumerate() {
        let (Some(_), Some(stream)) = (order.stand(i), streams.of[key]) else { continue };
        if key.get(model).is_some_and(|n| CUTS.contains(&n.op())) {
            let ended: Vec<_> = open.range((stream, 0)..=(stream, u16::MAX)).map(|(k, _)| *k).collect();
            pieces.extend(ended.into_iter().filter_map(|k| open.remove(&k)));
            continue;
        }
        open.entry((stream, placement.engine[key].0)).or_insert((key, key)).1 = key;
    }
    pieces.extend(open.into_values());
    for (first, last) in pieces {
        model.graphs_mut()[first.graph as usize].set_attr(first.node, "_is_first_node", true);
        model.graphs_mut()[last.graph as usize].set_attr(last.node, "_is_last_node", true);
    }
}
