//! Handles nodes that wait for more streams than their own stream has room for: each wait takes up
//! space on the stream, and a stream cannot be cut within a node. New nodes `<node>_Wait_<k>` on
//! streams of their own each wait for some of the streams, and the node waits for the new nodes. If
//! these are too many as well, the next round inserts further nodes before them.
use super::RESERVED_TASKS;
use super::points::WAIT_SQES;
use crate::error::{CompileError, Result};
use crate::ids::NodeKey;
use crate::sync::SyncPlan;
use ge_ir::{Key, Model};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;

/// A node, and the nodes on other streams that it waits for.
pub type Crowded = (NodeKey, Vec<NodeKey>);

/// Number of waits that one stream has room for beside one or two tasks, at least 2. `limit` is the
/// number of tasks that a stream holds.
pub fn room(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(RESERVED_TASKS + WAIT_SQES + 2) / WAIT_SQES).unwrap_or(usize::MAX).max(2)
}

/// The nodes of `full` that wait for more nodes of their own graph than their stream has room for.
pub fn crowded(model: &Model, sync: &SyncPlan, full: &[NodeKey], limit: u64) -> Vec<Crowded> {
    let of = |key: &NodeKey| {
        let mut senders: Vec<NodeKey> = Vec::new();
        let own = |s: &NodeKey| s.graph == key.graph && s != key;
        for p in sync.pairs.iter().filter(|p| p.recv.node == *key && own(&p.send.node)) {
            if !senders.contains(&p.send.node) {
                senders.push(p.send.node);
            }
        }
        (senders.len() > room(limit) && key.get(model).is_some()).then_some((*key, senders))
    };
    full.iter().filter_map(of).collect()
}

/// Inserts the new nodes. Each is a `StreamActive` that wakes nothing, on a stream with a label of
/// its own, directly before the node that waits.
///
/// # Errors
/// Fails if the insertion would break the graph (a bug).
pub fn insert(model: &mut Model, crowded: &[Crowded], limit: u64) -> Result<()> {
    let broken = || CompileError::internal("split", "a node that waits cannot be put before another");
    // Ids change with each insertion, names do not.
    let named: Vec<(u32, String, Vec<String>)> = crowded
        .iter()
        .map(|(key, senders)| (key.graph, key.name(model), senders.iter().map(|s| s.name(model)).collect()))
        .collect();
    for (graph, name, senders) in named {
        let gi = graph as usize;
        let g = &mut model.graphs_mut()[gi];
        let at = |g: &ge_ir::Graph, name: &str| g.find(name).map(ge_ir::Node::id);
        let node = at(g, &name).ok_or_else(broken)?;
        let mut order = g.order().to_vec();
        let mut waits = Vec::new();
        let mut next = 0;
        for some in senders.chunks(room(limit)) {
            let own = loop {
                let own = format!("{name}_Wait_{next}");
                next += 1;
                if g.find(&own).is_none() {
                    break own;
                }
            };
            let controls = some.iter().map(|s| at(g, s).ok_or_else(broken)).collect::<Result<Vec<_>>>()?;
            let mut attrs = AttrMap::default();
            attrs.set("_stream_label", own.as_str());
            let id = g.push_node(Key::new("StreamActive"), own, vec![], controls, vec![], attrs).ok_or_else(broken)?;
            waits.push(id);
        }
        let edges = waits.iter().map(|w| Edit::AddControl(*w, node)).collect();
        model.apply(gi, edges).map_err(|source| CompileError::Patch { who: "split".into(), source })?;
        let before = order.iter().position(|id| *id == node).ok_or_else(broken)?;
        order.splice(before..before, waits);
        if !model.graphs_mut()[gi].set_order(&order) {
            return Err(broken());
        }
    }
    Ok(())
}
