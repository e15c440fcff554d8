//! Synchronisation. in: streams and their order, out: `SyncPlan` that guarantees exactly that order.

/// What the stage decides.
pub mod plan;
/// Insertion of events.
pub mod insert;
/// Independent check of a stream-and-event plan.
pub mod check;
/// Events and notifies that engines ask for.
pub mod resources;
/// The least set of events of a stream assignment, by vector clocks.
pub mod transitive;

pub use plan::{SyncPair, SyncPlan, SyncPoint};
