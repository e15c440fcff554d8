//! Synchronisation. in: streams and their order, out: [`SyncPlan`] that guarantees exactly that order.

/// What the stage decides.
pub mod plan;
/// Insertion of events.
pub mod insert;

pub use plan::{SyncPair, SyncPlan, SyncPoint};
