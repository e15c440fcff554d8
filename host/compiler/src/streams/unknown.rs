//! Which graphs are of unknown shape.
use ge_ir::Graph;

/// Whether a graph counts as dynamic: it contains an unknown shape, or has the attribute that says
/// so (DESIGN 9).
pub fn is_dynamic(g: &Graph) -> bool {
    g.attrs().flag("_dynamic_shape_partitioned") || g.nodes().any(|n| n.outputs().iter().any(|d| !d.shape.is_static()))
}
