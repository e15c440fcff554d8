//! Events between streams.

/// Branches that never run together.
pub mod branch;
/// The check of a plan of streams and events.
pub mod check;
/// The smallest set of events.
pub mod transitive;
