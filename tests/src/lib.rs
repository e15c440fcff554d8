//! What the integration tests share: fixture libraries and the way to them.

/// Fixture plugins and hosts, built once in a workspace of their own.
pub mod fixtures;
