//! Ids of nodes and values in one graph.
use crate::abi::StableAbi;

/// A node of one graph. Ids are handed out in order and never again while the graph lives.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, StableAbi)]
pub struct NodeId(pub u32);

impl NodeId {
    /// No node.
    pub const NONE: NodeId = NodeId(u32::MAX);
    /// As an index into a table by node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
impl core::fmt::Debug for NodeId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// One output of one node; or the absent optional input.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, StableAbi)]
pub struct ValueRef {
    /// Producer.
    pub node: NodeId,
    /// Index of the output, from 0.
    pub output: u32,
}

impl ValueRef {
    /// An optional input that is not given.
    pub const ABSENT: ValueRef = ValueRef { node: NodeId::NONE, output: 0 };
    /// Output `output` of `node`.
    pub const fn new(node: NodeId, output: u32) -> ValueRef {
        ValueRef { node, output }
    }
    /// Whether it is the absent input.
    pub const fn is_absent(self) -> bool {
        self.node.0 == u32::MAX
    }
}
impl core::fmt::Debug for ValueRef {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_absent() { f.write_str("_") } else { write!(f, "n{}#{}", self.node.0, self.output) }
    }
}

/// One reading of a value: which node, at which of its inputs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, StableAbi)]
pub struct Use {
    /// Reader.
    pub node: NodeId,
    /// Input position.
    pub input: u32,
}
