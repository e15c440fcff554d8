//! Finds nodes whose results lose what a reader needs if they are rounded to a narrow type.
//!
//! A narrow type rounds a sum relative to its greatest terms. Most readers tolerate this, because
//! their results are off by just as little. Some do not ([`Need`]), and prototypes say which. In
//! mixed precision, the values that reach such a reader stay in the wide type, back to the model's
//! inputs or to a node that ends the need. Cost: visits each value once for each need, against the
//! graph's order.
use super::values::{COMMON, Ranges};
use crate::toolbox::Toolbox;
use ge_ir::{DType, Graph, Node, NodeId, NodeMap, TensorDesc, Use};
use ge_plugin_api::ops::flags;

/// A number of at least this size keeps enough digits in a narrow type: half precision is off by
/// 2^-11 of the terms, and the logarithm of 1/16 is then off by less than a hundredth.
const NEAR_ZERO: f64 = 1.0 / 16.0;
/// A number up to this size keeps enough of its fraction: half precision is off by less than a
/// hundredth.
const NO_TURNS: f64 = COMMON;

/// What a reader needs of its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The digits of numbers near zero, such as a logarithm (`log(1e-6)` and `log(2e-6)` lie as far
    /// apart as the logarithms of 1 and 2). It ends at a node that makes digits: an exponential, a
    /// sigmoid or a softmax returns small numbers that are as exact as its inputs.
    Digits,
    /// The fraction of large numbers, such as a sine.
    Fraction,
    /// A place: an input that no mode rounds (`flags::wide`), or a large number whose whole part
    /// becomes an index. It ends at the products of layers, which only approximate places.
    Place,
}

impl Need {
    const ALL: [Need; 3] = [Need::Digits, Need::Fraction, Need::Place];

    /// Whether an operator with these flags may be rounded whatever its readers need.
    fn never_concerns(self, proto_flags: u64) -> bool {
        self == Need::Place && proto_flags & flags::LOW_PRECISION != 0
    }

    /// Whether an operator with these flags may read rounded numbers though its own results are
    /// needed.
    fn ends_at(self, proto_flags: u64) -> bool {
        self == Need::Digits && proto_flags & flags::MAKES_DIGITS != 0
    }
}

/// For each need and node, the reader that needs the node's results, if any.
pub struct Digits {
    of: [NodeMap<Option<NodeId>>; 3],
}

/// What is known when needs are looked for.
struct Known<'a> {
    toolbox: &'a Toolbox,
    ranges: Option<&'a Ranges>,
}

impl Known<'_> {
    /// Whether a reader has a need of its own of its input `input`.
    fn starts(&self, need: Need, reader: &Node, input: usize) -> bool {
        let proto_flags = self.toolbox.op_flags(reader.op_key());
        match need {
            Need::Digits => proto_flags & flags::NEEDS_DIGITS != 0 && self.is_near_zero(reader),
            Need::Fraction => proto_flags & flags::NEEDS_FRACTION != 0 && self.is_large(reader),
            Need::Place => flags::is_wide(proto_flags, input) || (makes_whole_numbers(reader) && self.is_large(reader)),
        }
    }

    fn is_near_zero(&self, reader: &Node) -> bool {
        self.ranges.is_none_or(|r| reader.inputs().iter().any(|v| r.range(*v).low < NEAR_ZERO))
    }

    fn is_large(&self, reader: &Node) -> bool {
        let (Some(r), Some(v)) = (self.ranges, reader.input(0)) else { return true };
        r.range(v).magnitude() > NO_TURNS
    }

    /// The reader that needs a node's results; `None` if none does. `of` has the answers for all
    /// nodes after it.
    fn reader_in_need(
        &self,
        need: Need,
        g: &Graph,
        n: &Node,
        of: &NodeMap<Option<NodeId>>,
        narrowed: &impl Fn(&TensorDesc) -> bool,
    ) -> Option<NodeId> {
        // A sine or a cast to whole numbers is itself computed from what it needs.
        let by_itself = match need {
            Need::Digits => false,
            Need::Fraction => self.starts(need, n, 0),
            Need::Place => makes_whole_numbers(n) && self.is_large(n),
        };
        if by_itself {
            return Some(n.id());
        }
        if need.never_concerns(self.toolbox.op_flags(n.op_key())) {
            return None;
        }
        let narrow = n.outputs().iter().enumerate().filter(|(_, d)| narrowed(d));
        let mut uses = narrow.flat_map(|(k, _)| n.uses(k));
        uses.find_map(|u: &Use| {
            let reader = g.get(u.node)?;
            if self.starts(need, reader, u.input as usize) {
                return Some(reader.id());
            }
            of[reader.id()].filter(|_| !need.ends_at(self.toolbox.op_flags(reader.op_key())))
        })
    }
}

/// Whether a node casts to whole numbers, which serve as indices and counts.
fn makes_whole_numbers(n: &Node) -> bool {
    let is_whole = |d: &TensorDesc| d.dtype != DType::BOOL && super::values::of_type(d.dtype).is_some();
    n.op() == "Cast" && n.outputs().iter().all(is_whole)
}

impl Digits {
    /// Analyses a graph. `narrowed` says whether a value would get the other type.
    pub fn of(g: &Graph, toolbox: &Toolbox, ranges: Option<&Ranges>, narrowed: impl Fn(&TensorDesc) -> bool) -> Digits {
        let known = Known { toolbox, ranges };
        let of = Need::ALL.map(|need| {
            let mut of: NodeMap<Option<NodeId>> = NodeMap::new(g, None);
            for n in g.order().iter().rev().filter_map(|id| g.get(*id)) {
                of[n.id()] = known.reader_in_need(need, g, n, &of, &narrowed);
            }
            of
        });
        Digits { of }
    }

    /// A reader that needs the node's results, or the node itself if it needs the fraction of its
    /// input, and what the reader needs. `None` if there is none.
    pub fn reader<'g>(&self, g: &'g Graph, n: &Node) -> Option<(&'g Node, Need)> {
        let found = |(need, of): (Need, &NodeMap<Option<NodeId>>)| Some((g.get(of[n.id()]?)?, need));
        Need::ALL.into_iter().zip(&self.of).find_map(found)
    }
}
