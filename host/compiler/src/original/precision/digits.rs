//! Finds nodes that produce small numbers whose digits matter.
//!
//! A narrow type rounds a sum relative to its greatest terms, so a result that is small compared
//! with them may have no correct digit left. Most readers tolerate this, because their results are
//! off by just as little. A logarithm does not (`log(1e-6)` and `log(2e-6)` lie as far apart as the
//! logarithms of 1 and 2). In mixed precision, therefore, the values that reach a logarithm stay in
//! the wide type, back to the node that produces the digits: an exponential, a sigmoid or a softmax
//! returns small numbers that are as exact as its inputs. Prototypes say which operators are of
//! either kind (`flags::NEEDS_DIGITS`, `flags::MAKES_DIGITS`). Cost: visits each value once,
//! against the graph's order.
use super::values::Ranges;
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Node, NodeId, NodeMap, TensorDesc};
use ge_plugin_api::ops::flags;

/// A number of at least this size keeps enough digits in a narrow type: half precision is off by
/// 2^-11 of the terms, and the logarithm of 1/16 is then off by less than a hundredth.
const NEAR_ZERO: f64 = 1.0 / 16.0;

/// For each node, the reader that needs the digits of its results, if any.
pub struct Digits {
    of: NodeMap<Option<NodeId>>,
}

impl Digits {
    /// Analyses a graph. `narrowed` says whether a value would get the other type.
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

    /// The reader that needs the digits of a node's results; `None` if none does.
    pub fn reader<'g>(&self, g: &'g Graph, n: &Node) -> Option<&'g Node> {
        g.get(self.of[n.id()]?)
    }
}
