//! `CommonSubexpressionEliminationPass`: merges equal nodes over equal inputs.
//!
//! Before: `%a = Relu(%x)  %b = Relu(%x)`   After: reads of `%b` read `%a`
//! When: type, attributes, inputs and output descriptors are equal.
//! Refuses: random, stateful and communication operators; control inputs; subgraphs.
//! Keeps: the first of them, with its name; control followers of the second follow the first.
//! Source: 003 §2.2, facts 4.4 (1_1, 4). Cost: each node once; attributes are compared only if type
//! and inputs agree.
use crate::error::Result;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::{Graph, Model, Node, NodeId, NodeMap, ValueRef};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::NumberMap;
use ge_plugin_api::types::numbers::NumberHasher;
use std::hash::{Hash, Hasher};

/// See the module documentation.
pub struct CommonSubexpressionEliminationPass;

fn refusal(flags_of: u64, n: &Node) -> Option<&'static str> {
    if flags_of & flags::RANDOM != 0 {
        return Some("its output is random");
    }
    if flags_of & (flags::STATEFUL | flags::COMMUNICATION) != 0 {
        return Some("it acts beyond its outputs");
    }
    if !n.controls().is_empty() {
        return Some("it waits for others by control edges");
    }
    if !n.subgraphs().is_empty() {
        return Some("it names subgraphs");
    }
    None
}

/// Nodes that have no twin before them, by a hash of type and inputs. The nodes with the same hash
/// form a linked list.
struct Known<'g> {
    graph: &'g Graph,
    /// The first and the last node of each hash.
    ends: NumberMap<u64, (NodeId, NodeId)>,
    next: NodeMap<NodeId>,
}

impl<'g> Known<'g> {
    fn new(graph: &'g Graph) -> Known<'g> {
        let mut ends = NumberMap::default();
        ends.reserve(graph.len());
        Known { graph, ends, next: NodeMap::new(graph, NodeId::NONE) }
    }
    /// Returns the first node with the same hash for which `same` holds; if there is none, appends
    /// `n` to the list.
    fn find_or_add(
        &mut self,
        n: &Node,
        inputs: impl Iterator<Item = ValueRef>,
        same: impl Fn(&Node) -> bool,
    ) -> Option<&'g Node> {
        let mut hasher = NumberHasher::default();
        n.op_key().hash(&mut hasher);
        inputs.for_each(|v| v.hash(&mut hasher));
        let Some((first, last)) = self.ends.get_mut(&hasher.finish()) else {
            self.ends.insert(hasher.finish(), (n.id(), n.id()));
            return None;
        };
        let mut at = *first;
        while let Some(m) = self.graph.get(at) {
            if same(m) {
                return Some(m);
            }
            at = self.next[at];
        }
        self.next[*last] = n.id();
        *last = n.id();
        None
    }
}

impl GraphPass for CommonSubexpressionEliminationPass {
    fn name(&self) -> &'static str {
        "CommonSubexpressionEliminationPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "equal nodes over equal inputs -> one"
    }
    fn needs(&self) -> &'static str {
        "type, attributes, inputs and output descriptors are equal"
    }
    fn keeps(&self) -> &'static str {
        "the first of them, with its name; control followers of the second follow the first"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        let g = &model.graphs()[gi];
        let mut r = Rewriter::new(g);
        let mut known = Known::new(g);
        for n in g.nodes() {
            // Sources differ in more than their attributes; nodes without a prototype may do
            // anything.
            if n.inputs().is_empty() || n.outputs().is_empty() || cx.toolbox.op(n.op_key()).is_none() {
                continue;
            }
            if n.attr("_inserted_by").is_some() || n.op() == "Identity" {
                continue;
            }
            cx.visits += 1;
            let reads = |n: &Node, m: &Node| {
                let resolved = |n: &Node| n.inputs().iter().map(|v| r.resolve(*v)).collect::<Vec<_>>();
                n.inputs() == m.inputs() || resolved(n) == resolved(m)
            };
            let same = |m: &Node| {
                m.op_key() == n.op_key()
                    && m.inputs().len() == n.inputs().len()
                    && reads(m, n)
                    && ge_ir::graph::same_work(m.attrs(), n.attrs())
                    && m.outputs() == n.outputs()
            };
            let Some(twin) = known.find_or_add(n, n.inputs().iter().map(|v| r.resolve(*v)), same) else { continue };
            match refusal(cx.op_flags(n), n) {
                Some(why) => cx.refuse(n.name(), why),
                None => r.replace_all(n, twin),
            }
        }
        Ok(r.finish(cx))
    }
}
