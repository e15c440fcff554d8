//! Which nodes make numbers whose digits count however small they are.
//!
//! A narrow type rounds a sum by a share of its greatest terms, so a result that is small beside
//! them may have no digit left. Most readers do not mind: what they give is off by as little. A
//! logarithm does (`log(1e-6)` and `log(2e-6)` lie as far apart as those of 1 and 2), so in mixed
//! precision what comes to it stays in the wide type, back to where digits are made: an
//! exponential, a sigmoid or a softmax gives small numbers that are as exact as what it read.
//! Which operators are of either kind their prototypes say (`flags::NEEDS_DIGITS`,
//! `flags::MAKES_DIGITS`). Cost: one look at each value, against the graph's order.
use super::values::Ranges;
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Node, NodeId, NodeMap, TensorDesc};
use ge_plugin_api::ops::flags;

/// From here on a number has the digits that a narrow type leaves to its terms: half precision is
/// off by 2^-11 of them, the logarithm of 1/16 then by less than a hundredth.
const NEAR_ZERO: f64 = 1.0 / 16.0;

/// By node, who needs the digits of what it gives.
pub struct Digits {
    of: NodeMap<Option<NodeId>>,
}

impl Digits {
    /// Of a graph; `narrowed` says which values would be in another type.
    pub fn of(g: &Graph, toolbox: &Toolbox, ranges: Option<&Ranges>, narrowed: impl Fn(&TensorDesc) -> bool) -> Digits {
        let mut of: NodeMap<Option<NodeId>> = NodeMap::new(g, None);
        let near_zero = |n: &Node| {
            let reaches = |r: &Ranges| n.inputs().iter().any(|v| r.range(*v).low < NEAR_ZERO);
            ranges.is_none_or(reaches)
        };
        for id in g.order().iter().rev() {
            let Some(n) = g.get(*id) else { continue };
            let narrow = n.outputs().iter().enumerate().filter(|(_, d)| narrowed(d));
            let mut readers = narrow.flat_map(|(k, _)| n.uses(k)).filter_map(|u| g.get(u.node));
            of[*id] = readers.find_map(|reader| match toolbox.op_flags(reader.op_key()) {
                f if f & flags::NEEDS_DIGITS != 0 => near_zero(reader).then(|| reader.id()),
                f if f & flags::MAKES_DIGITS != 0 => None,
                _ => of[reader.id()],
            });
        }
        Digits { of }
    }

    /// Who needs the digits of what a node gives.
    pub fn reader<'g>(&self, g: &'g Graph, n: &Node) -> Option<&'g Node> {
        g.get(self.of[n.id()]?)
    }
}
