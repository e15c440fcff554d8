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

/// Synchronisation of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPlan {
    /// Pairs, sorted by receiver's position, then sender's.
    pub pairs: Vec<SyncPair>,
    /// Number of event ids.
    pub event_num: u32,
    /// Number of notify ids.
    pub notify_num: u32,
    /// Events before the optimisations, for the report.
    pub inserted: usize,
}
