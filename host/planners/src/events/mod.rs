//! Events between streams.

/// What never runs together.
pub mod branch;
/// The check of a plan of streams and events.
pub mod check;
/// The least set of events.
pub mod transitive;
