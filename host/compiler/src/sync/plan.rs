//! `SyncPlan`: events and notifies between streams; the one owner of all of them.
use crate::ids::{EventId, NodeKey, StreamId};

/// Between which parts of two nodes an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncPoint {
    /// Node.
    pub node: NodeKey,
    /// Logical stream on which the record or wait stands (the node's own, or an attached one).
    pub stream: StreamId,
}

/// One record and its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPair {
    /// Id, dense from 0 by kind.
    pub id: EventId,
    /// Whether it is a notify.
    pub notify: bool,
    /// Recorded when this node has ended.
    pub send: SyncPoint,
    /// Waited for before this node starts.
    pub recv: SyncPoint,
}

/// An event or notify that a node's engine asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Id, in one line with those of the pairs of its kind.
    pub id: u32,
    /// Whether it is a notify.
    pub notify: bool,
}

/// Synchronisation of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPlan {
    /// Pairs, sorted by receiver's position, then sender's.
    pub pairs: Vec<SyncPair>,
    /// Events and notifies that a node's engine asked for, in the order in which it did.
    pub resources: std::collections::BTreeMap<NodeKey, Vec<Resource>>,
    /// Number of event ids.
    pub event_num: u32,
    /// Number of notify ids.
    pub notify_num: u32,
    /// Events before the optimisations, for the report.
    pub inserted: usize,
    /// Events that each optimisation has dropped, by its name, in order.
    pub dropped: Vec<(&'static str, usize)>,
}

impl SyncPlan {
    /// Writes `_attached_sync_ids`: the ids of the events and notifies that a node's engine asked
    /// for, in the order in which it did.
    pub fn resources_to_attrs(&self, model: &mut ge_ir::Model) {
        for (key, all) in &self.resources {
            let ids: Vec<i64> = all.iter().map(|r| i64::from(r.id)).collect();
            model.graphs_mut()[key.graph as usize].set_attr(key.node, "_attached_sync_ids", ids);
        }
    }
    /// Writes the decision as text has it: ids of events and notifies that each node sends and
    /// waits for.
    pub fn to_attrs(&self, model: &mut ge_ir::Model) {
        use std::collections::BTreeMap;
        let mut lists: BTreeMap<(NodeKey, &'static str), Vec<i64>> = BTreeMap::new();
        for p in &self.pairs {
            let (send, recv) = if p.notify {
                ("_send_notify_ids", "_recv_notify_ids")
            } else {
                ("_send_event_ids", "_recv_event_ids")
            };
            lists.entry((p.send.node, send)).or_default().push(i64::from(p.id.0));
            lists.entry((p.recv.node, recv)).or_default().push(i64::from(p.id.0));
        }
        for ((key, name), ids) in lists {
            model.graphs_mut()[key.graph as usize].set_attr(key.node, name, ids);
        }
    }
}
