//! Ranges of values: what a prototype says of the numbers that its operator gives, from ranges of
//! those that it reads.
//!
//! The host uses them to choose types: a node whose numbers may leave a narrow type keeps its own.
//! A range is told by the prototype ([`OpDef::value_ranges`](crate::ops::OpDef::value_ranges)); an
//! operator without a range function that only moves values gives the ranges that it reads, any
//! other an unknown one.
//!
//! ```
//! use ge_plugin_api::range::{Range, RangeCtx};
//! // `AcmeSquash(x)` = x / (1 + |x|) lies between -1 and 1, whatever it reads.
//! fn squash(_: &RangeCtx<'_>) -> Vec<Range> {
//!     vec![Range::new(-1.0, 1.0)]
//! }
//! // `AcmeScale(x, by)` is a product.
//! fn scale(c: &RangeCtx<'_>) -> Vec<Range> {
//!     vec![c.input(0).times(c.input(1))]
//! }
//! assert_eq!(Range::new(-2.0, 3.0).times(Range::new(0.0, 10.0)), Range::new(-20.0, 30.0));
//! # let _ = (squash as fn(&RangeCtx<'_>) -> Vec<Range>, scale as fn(&RangeCtx<'_>) -> Vec<Range>);
//! ```
use crate::abi::StableAbi;
use crate::types::{ConstTensor, TensorDesc};
use crate::view::Node;

/// Bounds of the finite numbers of a tensor. A bound that is infinite is not known.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, StableAbi)]
pub struct Range {
    /// Least number.
    pub low: f64,
    /// Greatest number.
    pub high: f64,
}

impl Range {
    /// Nothing is known.
    pub const UNKNOWN: Range = Range { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// From one bound to the other; a bound that is no number is not known.
    pub fn new(low: f64, high: f64) -> Range {
        let or = |v: f64, other: f64| if v.is_nan() { other } else { v };
        let (low, high) = (or(low, f64::NEG_INFINITY), or(high, f64::INFINITY));
        if low <= high { Range { low, high } } else { Range { low: high, high: low } }
    }
    /// One number.
    pub fn of(v: f64) -> Range {
        Range::new(v, v)
    }
    /// From `-most` to `most`.
    pub fn within(most: f64) -> Range {
        Range::new(-most.abs(), most.abs())
    }
    /// Whether both bounds are known.
    pub fn is_known(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
    /// The greatest absolute value; infinite where it is not known.
    pub fn magnitude(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }
    /// The least range that has both.
    pub fn or(self, other: Range) -> Range {
        Range::new(self.low.min(other.low), self.high.max(other.high))
    }
    /// What both say together; this one where they contradict each other.
    pub fn and(self, other: Range) -> Range {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        if low <= high { Range { low, high } } else { self }
    }
    /// Sums.
    pub fn plus(self, other: Range) -> Range {
        Range::new(self.low + other.low, self.high + other.high)
    }
    /// Differences.
    pub fn minus(self, other: Range) -> Range {
        Range::new(self.low - other.high, self.high - other.low)
    }
    /// Products.
    pub fn times(self, other: Range) -> Range {
        // Zero times an unknown bound is zero: the number itself is finite.
        let product = |a: f64, b: f64| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
        let all = [
            product(self.low, other.low),
            product(self.low, other.high),
            product(self.high, other.low),
            product(self.high, other.high),
        ];
        Range::new(
            all.iter().copied().fold(f64::INFINITY, f64::min),
            all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    }
    /// Quotients; not known where the divisor may be zero.
    pub fn over(self, other: Range) -> Range {
        if other.low <= 0.0 && other.high >= 0.0 {
            return Range::UNKNOWN;
        }
        self.times(Range::new(1.0 / other.low, 1.0 / other.high))
    }
    /// A function that rises, or falls, from end to end.
    pub fn through(self, f: impl Fn(f64) -> f64) -> Range {
        Range::new(f(self.low), f(self.high))
    }
    /// Absolute values.
    pub fn absolute(self) -> Range {
        let least = if self.low <= 0.0 && self.high >= 0.0 { 0.0 } else { self.low.abs().min(self.high.abs()) };
        Range::new(least, self.magnitude())
    }
}

/// A node whose ranges are asked for.
pub struct RangeCtx<'a> {
    /// The node.
    pub node: Node<'a>,
    /// Ranges of its inputs.
    pub inputs: &'a [Range],
}

impl<'a> RangeCtx<'a> {
    /// Range of input `i`; unknown where there is none.
    pub fn input(&self, i: usize) -> Range {
        self.inputs.get(i).copied().unwrap_or(Range::UNKNOWN)
    }
    /// Range of input `i`, if it is given.
    pub fn given(&self, i: usize) -> Option<Range> {
        self.node.input_desc(i).map(|_| self.input(i))
    }
    /// Descriptor of input `i`, if it is given.
    pub fn desc(&self, i: usize) -> Option<&'a TensorDesc> {
        self.node.input_desc(i)
    }
    /// The constant behind input `i`, if it is one.
    pub fn constant(&self, i: usize) -> Option<&'a ConstTensor> {
        self.node.const_input(i)
    }
}

/// Ranges of an operator's outputs, from those of its inputs: wherever the inputs keep within
/// theirs, so do the outputs. Of a long sum whose terms have nothing to do with each other a likely
/// range will do.
pub type RangeFn = fn(&RangeCtx<'_>) -> Vec<Range>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_keeps_every_pair_of_numbers_within() {
        let ranges = [Range::new(-2.0, 3.0), Range::new(1.0, 4.0), Range::new(-5.0, -0.5), Range::of(0.0)];
        let points = |r: Range| (0..=4).map(move |k| r.low + (r.high - r.low) * f64::from(k) / 4.0);
        for (a, b) in ranges.iter().flat_map(|a| ranges.iter().map(move |b| (*a, *b))) {
            for (x, y) in points(a).flat_map(|x| points(b).map(move |y| (x, y))) {
                let holds = |r: Range, v: f64| !v.is_finite() || (r.low <= v + 1e-12 && v <= r.high + 1e-12);
                assert!(holds(a.plus(b), x + y) && holds(a.minus(b), x - y), "{a:?} {b:?}");
                assert!(holds(a.times(b), x * y) && holds(a.over(b), x / y), "{a:?} {b:?}");
                assert!(holds(a.absolute(), x.abs()) && holds(a.through(f64::exp), x.exp()));
            }
        }
    }

    #[test]
    fn what_is_not_known_stays_so_and_hides_nothing() {
        let (u, one) = (Range::UNKNOWN, Range::of(1.0));
        assert!(!u.is_known() && !u.plus(one).is_known() && !one.over(u).is_known());
        assert_eq!(u.times(Range::of(0.0)), Range::of(0.0));
        assert_eq!(u.and(Range::within(2.0)), Range::within(2.0));
        assert_eq!(Range::new(f64::NAN, 3.0), Range { low: f64::NEG_INFINITY, high: 3.0 });
        assert_eq!(Range::new(f64::INFINITY, f64::NEG_INFINITY), u);
        assert_eq!(u.through(f64::exp), Range { low: 0.0, high: f64::INFINITY });
        assert_eq!(Range::of(4.0).and(Range::of(7.0)), Range::of(4.0), "contradictions leave the first");
    }
}
