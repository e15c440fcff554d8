//! Branches of which only one is taken, as plain numbers.

/// The branches that contain a node, from the outermost inwards: the number of the control node and
/// the number of its branch.
pub type Branch = Vec<(u32, u32)>;

/// Whether two positions are in different branches of the same control node.
pub fn exclusive(a: &[(u32, u32)], b: &[(u32, u32)]) -> bool {
    a.iter().zip(b).find(|(x, y)| x != y).is_some_and(|(x, y)| x.0 == y.0)
}

/// The branches that contain both positions.
pub fn common(a: &[(u32, u32)], b: &[(u32, u32)]) -> Branch {
    a.iter().zip(b).take_while(|(x, y)| x == y).map(|(x, _)| *x).collect()
}
