//! Partition. in: a placed graph, out: clusters of nodes of one engine.

/// Clusters of nodes that one engine can take as a whole.
pub mod cluster;
