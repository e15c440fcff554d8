//! Tiling sink (document 001, facts 5). in: a graph before placement, out: marks; then the
//! resources that sunk nodes want.

/// The triple gate and its marks.
pub mod gate;
/// Attached streams of nodes' own tasks.
pub mod resources;

pub use gate::mark;
pub use resources::ask;
