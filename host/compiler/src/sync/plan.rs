//! `SyncPlan`: all events and notifies between streams.
use crate::ids::{EventId, NodeKey, StreamId};

/// A position of a node on a stream; an event connects two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncPoint {
    /// The node.
    pub node: NodeKey,
    /// Logical stream on which the record or wait stands (the node's own, or an attached one).
    pub stream: StreamId,
}

/// One record and its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPair {
    /// Id, dense from 0 for each kind.
    pub id: EventId,
    /// Whether this is a notify instead of an event.
    pub notify: bool,
    /// Recorded after this node has ended.
    pub send: SyncPoint,
    /// Waited for before this node starts.
    pub recv: SyncPoint,
}

/// An event or notify that a node's engine requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Id, numbered together with the pairs of the same kind.
    pub id: u32,
    /// Whether this is a notify instead of an event.
    pub notify: bool,
}

/// Synchronisation of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPlan {
    /// Pairs, sorted by position of the receiver, then of the sender.
    pub pairs: Vec<SyncPair>,
    /// Events and notifies that each node's engine requested, in the order of the requests.
    pub resources: std::collections::BTreeMap<NodeKey, Vec<Resource>>,
    /// Number of event ids.
    pub event_num: u32,
    /// Number of notify ids.
    pub notify_num: u32,
    /// Number of events before the optimisations, for the report.
    pub inserted: usize,
    /// Number of events that each optimisation dropped, by name, in order.
    pub dropped: Vec<(&'static str, usize)>,
}

impl SyncPlan {
    /// Writes `_attached_sync_ids`: the ids of the events and notifies that a node's engine
    /// requested, in the order of the requests.
    pub fn resources_to_attrs(&self, model: &mut ge_ir::Model) {
        for (key, all) in &self.resources {
            let ids: Vec<i64> = all.iter().map(|r| i64::from(r.id)).collect();
            model.graphs_mut()[key.graph as usize].set_attr(key.node, "_attached_sync_ids", ids);
        }
    }
    /// Writes the ids of the events and notifies that each node sends and waits for as attributes.
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
