//! Branches of which one is taken, as plain numbers.

/// The branches in which something stands, from the outermost on: the control node's number and
/// that of its branch.
pub type Branch = Vec<(u32, u32)>;

/// Whether two places lie in different branches of one control node.
pub fn exclusive(a: &[(u32, u32)], b: &[(u32, u32)]) -> bool {
    a.iter().zip(b).find(|(x, y)| x != y).is_some_and(|(x, y)| x.0 == y.0)
}

/// What both places have in common.
pub fn common(a: &[(u32, u32)], b: &[(u32, u32)]) -> Branch {
    a.iter().zip(b).take_while(|(x, y)| x == y).map(|(x, _)| *x).collect()
}
