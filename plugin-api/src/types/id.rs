//! Ids of nodes and values in one graph.
use crate::abi::StableAbi;

/// Id of a node in one graph. Ids are assigned in ascending order and never reused while the graph
/// lives.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, StableAbi)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The id that no node has.
    pub const NONE: NodeId = NodeId(u32::MAX);
    /// The id as an index into a table with one entry per node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
impl core::fmt::Debug for NodeId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// One output of one node, or the marker of an absent optional input.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, StableAbi)]
pub struct ValueRef {
    /// The node that produces the value.
    pub node: NodeId,
    /// Index of the output, from 0.
    pub output: u32,
}

impl ValueRef {
    /// Stands for an optional input that is not given.
    pub const ABSENT: ValueRef = ValueRef { node: NodeId::NONE, output: 0 };
    /// The value of output `output` of `node`.
    pub const fn new(node: NodeId, output: u32) -> ValueRef {
        ValueRef { node, output }
    }
    /// Whether this is [`ValueRef::ABSENT`].
    pub const fn is_absent(self) -> bool {
        self.node.0 == u32::MAX
    }
}
impl core::fmt::Debug for ValueRef {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_absent() { f.write_str("_") } else { write!(f, "n{}#{}", self.node.0, self.output) }
    }
}

/// One use of a value: the node that reads it and the position of that input.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, StableAbi)]
pub struct Use {
    /// The node that reads the value.
    pub node: NodeId,
    /// Index of the input, from 0.
    pub input: u32,
}
