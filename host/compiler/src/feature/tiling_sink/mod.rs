//! Tiling sink (document 001, facts 5). In: a graph before placement. Out: marks, and later the
//! resources that nodes with tiling sink need.

/// The gate with its three conditions, and its marks.
pub mod gate;
/// Attached streams and sync resources for the tasks of nodes.
pub mod resources;

pub use gate::mark;
pub use resources::ask;
