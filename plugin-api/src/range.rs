//! Value ranges: a prototype computes the ranges of an operator's outputs from those of its inputs.
//!
//! The host uses them to choose types: a node whose numbers may not fit a narrow type keeps its
//! own. A prototype gives its range function with
//! [`OpDef::value_ranges`](crate::ops::OpDef::value_ranges). Without one, an operator that only
//! moves values passes on the ranges of its inputs, and the outputs of any other operator are
//! unknown.
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

/// Bounds of the finite numbers of a tensor. An infinite bound is an unknown one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, StableAbi)]
pub struct Range {
    /// Smallest number.
    pub low: f64,
    /// Largest number.
    pub high: f64,
}

impl Range {
    /// The range of which nothing is known.
    pub const UNKNOWN: Range = Range { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// The range between two bounds, in any order. A NaN bound is unknown.
    pub fn new(low: f64, high: f64) -> Range {
        let or = |v: f64, other: f64| if v.is_nan() { other } else { v };
        let (low, high) = (or(low, f64::NEG_INFINITY), or(high, f64::INFINITY));
        if low <= high { Range { low, high } } else { Range { low: high, high: low } }
    }
    /// The range of a single number.
    pub fn of(v: f64) -> Range {
        Range::new(v, v)
    }
    /// The range from `-most` to `most`.
    pub fn within(most: f64) -> Range {
        Range::new(-most.abs(), most.abs())
    }
    /// Whether both bounds are known.
    pub fn is_known(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
    /// The largest absolute value; infinite if it is not known.
    pub fn magnitude(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }
    /// The smallest range that contains both.
    pub fn or(self, other: Range) -> Range {
        Range::new(self.low.min(other.low), self.high.max(other.high))
    }
    /// The intersection of both ranges; `self` if they do not overlap.
    pub fn and(self, other: Range) -> Range {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        if low <= high { Range { low, high } } else { self }
    }
    /// Range of sums.
    pub fn plus(self, other: Range) -> Range {
        Range::new(self.low + other.low, self.high + other.high)
    }
    /// Range of differences.
    pub fn minus(self, other: Range) -> Range {
        Range::new(self.low - other.high, self.high - other.low)
    }
    /// Range of products.
    pub fn times(self, other: Range) -> Range {
        // Zero times an unknown bound is zero, because the number itself is finite.
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
    /// Range of quotients; unknown if the divisor may be zero.
    pub fn over(self, other: Range) -> Range {
        if other.low <= 0.0 && other.high >= 0.0 {
            return Range::UNKNOWN;
        }
        self.times(Range::new(1.0 / other.low, 1.0 / other.high))
    }
    /// Range of `f` over this range, for a function that only rises or only falls.
    pub fn through(self, f: impl Fn(f64) -> f64) -> Range {
        Range::new(f(self.low), f(self.high))
    }
    /// Range of absolute values.
    pub fn absolute(self) -> Range {
        let least = if self.low <= 0.0 && self.high >= 0.0 { 0.0 } else { self.low.abs().min(self.high.abs()) };
        Range::new(least, self.magnitude())
    }
}

/// A node whose output ranges are being computed.
pub struct RangeCtx<'a> {
    /// The node.
    pub node: Node<'a>,
    /// Ranges of its inputs.
    pub inputs: &'a [Range],
}

impl<'a> RangeCtx<'a> {
    /// Range of input `i`; unknown if there is no input `i`.
    pub fn input(&self, i: usize) -> Range {
        self.inputs.get(i).copied().unwrap_or(Range::UNKNOWN)
    }
    /// Range of input `i`, or `None` if it is absent.
    pub fn given(&self, i: usize) -> Option<Range> {
        self.node.input_desc(i).map(|_| self.input(i))
    }
    /// Descriptor of input `i`, or `None` if it is absent.
    pub fn desc(&self, i: usize) -> Option<&'a TensorDesc> {
        self.node.input_desc(i)
    }
    /// The constant behind input `i`; `None` if the input is not a constant.
    pub fn constant(&self, i: usize) -> Option<&'a ConstTensor> {
        self.node.const_input(i)
    }
}

/// Computes the ranges of an operator's outputs from those of its inputs: whenever the inputs are
/// within their ranges, the outputs must be within theirs. For a long sum of unrelated terms, a
/// likely range is enough.
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
