//! Parallel groups (`_parallel_group`): nodes of one group run one after the other, on a stream of
//! their own.
use ge_ir::{Key, Node};
use std::sync::LazyLock;

/// The parallel group of a node; an empty name is none.
pub fn group_of(n: &Node) -> Option<&str> {
    static KEY: LazyLock<Key> = LazyLock::new(|| Key::new("_parallel_group"));
    n.attrs().str(*KEY).filter(|g| !g.is_empty())
}
