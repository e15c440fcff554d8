//! `MarkFirstAndLastOps` (003 §5.5): marks the first and the last node of each engine on each
//! stream, starting again after every label, jump and switch. An engine that generates tasks can
//! thus see where its work on a stream begins and ends. Nodes without a task get no mark (000
//! §4.5). The marks are `_is_first_node` and `_is_last_node`; marks of an earlier plan are removed.
use crate::ids::{NodeKey, StreamId};
use crate::place::Placement;
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_ir::Model;
use std::collections::BTreeMap;

/// Operator types after which marking on a stream starts again.
const CUTS: &[&str] = &["LabelSet", "LabelGotoEx", "LabelSwitchByIndex", "StreamSwitch"];

const FIRST: &str = "_is_first_node";
const LAST: &str = "_is_last_node";

/// Marks the nodes of all graphs that have a task.
pub fn mark(model: &mut Model, placement: &Placement, streams: &StreamPlan, order: &ExecutionOrder) {
    for g in model.graphs_mut() {
        let marked = |n: &ge_ir::Node| n.attr(FIRST).is_some() || n.attr(LAST).is_some();
        for id in g.nodes().filter(|n| marked(n)).map(ge_ir::Node::id).collect::<Vec<_>>() {
            g.remove_attr(id, FIRST);
            g.remove_attr(id, LAST);
        }
    }
    // For each stream and engine: first and last node of the current section.
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
        model.graphs_mut()[first.graph as usize].set_attr(first.node, FIRST, true);
        model.graphs_mut()[last.graph as usize].set_attr(last.node, LAST, true);
    }
}
