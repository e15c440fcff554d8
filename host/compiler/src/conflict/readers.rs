//! Who else reads the bytes that a reference writes over: through the value itself, through other
//! views of it, through the whole that it is a part of, or through parts of it.
//!
//! The walk goes up from the written value to the values whose bytes it has, and from each of them
//! down to everything that has bytes in common with what is written. It stops at the output of
//! another reference: that node was only allowed to write because all readers of its input come
//! before it, and it comes before whoever reads its output.
use crate::feature::shared_memory::{Join, JoinKind, Rules, Spot};
use ge_ir::graph::NodeSet;
use ge_ir::{Graph, Node, NodeId, ValueRef};
use std::collections::BTreeSet;

/// Bytes of a value: begin and end, relative to the value's first byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Range(u64, u64);

impl Range {
    /// The part of the range that lies in the `bytes` bytes from `at`, relative to `at`.
    fn within(self, at: u64, bytes: u64) -> Option<Range> {
        let (from, to) = (self.0.saturating_sub(at), self.1.saturating_sub(at).min(bytes));
        (from < to).then_some(Range(from, to))
    }
    /// The range, relative to a value that begins `at` bytes earlier.
    fn moved(self, at: u64) -> Range {
        Range(self.0.saturating_add(at), self.1.saturating_add(at))
    }
}

/// The nodes that read bytes which a reference writes over.
pub(super) struct Readers<'g> {
    g: &'g Graph,
    rules: Rules<'g>,
    /// Whether nodes may run more than once, so that a node that comes before another may also
    /// follow it.
    repeats: bool,
}

impl<'g> Readers<'g> {
    pub(super) fn new(g: &'g Graph, rules: Rules<'g>) -> Readers<'g> {
        let jumps = |n: &Node| matches!(n.op(), "LabelGotoEx" | "LabelSwitchByIndex" | "StreamSwitch" | "StreamActive");
        Readers { g, rules, repeats: g.nodes().any(jumps) }
    }

    /// Whether a node other than `writer` may still read the bytes of `v` when `writer` writes over
    /// them. `apart` holds the inputs that have a copy of their own. Cost: the nodes around `v`
    /// that share its memory, and one walk up from the writer if anyone else reads it.
    pub(super) fn any_later(&self, writer: &Node, v: ValueRef, input: u32, apart: &BTreeSet<(NodeId, u32)>) -> bool {
        let readers = self.all(v, (writer.id(), input), apart);
        if readers.is_empty() || self.repeats {
            return !readers.is_empty();
        }
        let before = ancestors(self.g, writer.id());
        !readers.iter().all(|r| before.contains(*r))
    }

    /// All readers of the bytes of `v`, except for the use that writes.
    fn all(&self, v: ValueRef, writes: (NodeId, u32), apart: &BTreeSet<(NodeId, u32)>) -> BTreeSet<NodeId> {
        let mut readers = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut todo = vec![(v, Range(0, self.bytes(v)))];
        while let Some((v, range)) = todo.pop() {
            if !seen.insert((v.node, v.output, range)) {
                continue;
            }
            todo.extend(self.up(v, range, apart));
            for u in self.g.users(v).iter().filter(|u| (u.node, u.input) != writes) {
                let Some(r) = self.g.get(u.node) else { continue };
                let names = self.shares(r, u.input).filter(|_| !apart.contains(&(r.id(), u.input)));
                match names {
                    Some(joins) => todo.extend(joins.iter().filter_map(|j| self.down(r, j, range))),
                    None => drop(readers.insert(r.id())),
                }
            }
        }
        readers
    }

    /// Number of bytes of a value; all that there may be where its size is unknown.
    fn bytes(&self, v: ValueRef) -> u64 {
        self.g.desc(v).and_then(|d| d.data_bytes()).unwrap_or(u64::MAX)
    }
    fn joins(&self, n: &Node) -> Vec<Join> {
        self.rules.joins(self.g, n, &|v| self.bytes(v))
    }

    /// The joins by which the outputs of a node are bytes of its input; `None` if the node reads
    /// the input.
    fn shares(&self, n: &Node, input: u32) -> Option<Vec<Join>> {
        let names = |j: &Join| {
            let kind = matches!(j.kind, JoinKind::View | JoinKind::NoPaddingInput | JoinKind::NoPaddingOutput);
            kind && j.input == input
        };
        let joins: Vec<Join> = self.joins(n).into_iter().filter(names).collect();
        (!joins.is_empty()).then_some(joins)
    }

    /// The values above `v` that have bytes of it.
    fn up(&self, v: ValueRef, range: Range, apart: &BTreeSet<(NodeId, u32)>) -> Vec<(ValueRef, Range)> {
        let Some(n) = self.g.get(v.node) else { return Vec::new() };
        let mut out = Vec::new();
        for j in self.joins(n).into_iter().filter(|j| !apart.contains(&(n.id(), j.input))) {
            let (Spot::Value(from), Spot::Value(to)) = (j.from, j.to) else { continue };
            match j.kind {
                JoinKind::View | JoinKind::NoPaddingOutput if to == v => {
                    let range = if strided(n) { Range(0, u64::MAX) } else { range.moved(j.at) };
                    out.push((from, range));
                }
                JoinKind::NoPaddingInput if from == v => {
                    let part = if strided(n) { Some(Range(0, u64::MAX)) } else { range.within(j.at, self.bytes(to)) };
                    out.extend(part.map(|r| (to, r)));
                }
                _ => {}
            }
        }
        out
    }

    /// The output of `n` that has bytes of the range of its input, and which of its bytes they are.
    fn down(&self, n: &Node, j: &Join, range: Range) -> Option<(ValueRef, Range)> {
        let (Spot::Value(from), Spot::Value(to)) = (j.from, j.to) else { return None };
        let name = if j.kind == JoinKind::NoPaddingInput { from } else { to };
        let range = match j.kind {
            _ if strided(n) => Some(Range(0, u64::MAX)),
            JoinKind::NoPaddingInput => Some(range.moved(j.at)),
            _ => range.within(j.at, self.bytes(to)),
        };
        Some((name, range?))
    }
}

/// Whether the parts of a node lie in pieces, one in each row of the whole.
fn strided(n: &Node) -> bool {
    n.attrs().int("_reuse_input_on_dim_index").is_some_and(|d| d != 0)
}

/// All nodes that the edges of the graph order before a node.
pub(super) fn ancestors(g: &Graph, of: NodeId) -> NodeSet {
    let mut seen = NodeSet::new(g);
    let mut todo = vec![of];
    while let Some(n) = todo.pop().and_then(|id| g.get(id)) {
        let up = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(n.controls().iter().copied());
        todo.extend(up.filter(|id| seen.insert(*id)));
    }
    seen
}
