//! What is known of the numbers between nodes, and whether a narrow type can hold them.
//!
//! Ranges are propagated through the graph in its order, by the prototype of each operator
//! (`ge_plugin_api::range`). Where nothing is known, the numbers are assumed to be as in typical
//! models: the result of a product by constant weights keeps to the small numbers that training
//! leaves ([`COMMON`]), unless its bound exceeds the type, and so do the inputs of a product of two
//! computed tensors. Numbers from the caller are assumed to reach [`GIVEN`], which is more than the
//! bytes of a picture. In this way the raw input of a spectrogram (sums of hundreds of terms, then
//! squares) is recognised, and the layers of a network are not judged by the product of all bounds
//! before them.
use crate::error::Result;
use crate::toolbox::Toolbox;
use ge_ir::{DType, Model, Node, TensorDesc, ValueRef};
use ge_plugin_api::ops::{ParamKind, flags};
use ge_plugin_api::range::Range;
use ge_plugin_api::types::tensor::Container;
use rayon::prelude::*;
use std::collections::HashMap;

/// Assumed magnitude of numbers inside a network if nothing else is known.
pub const COMMON: f64 = 16.0;
/// Assumed magnitude of numbers that the caller gives if nothing else is known.
pub const GIVEN: f64 = 1024.0;

/// Ranges of the values of one graph.
pub struct Ranges {
    of: HashMap<ValueRef, Known>,
}

#[derive(Clone, Copy)]
struct Known {
    range: Range,
    constant: bool,
}

/// Limits of a number type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Greatest finite number.
    pub most: f64,
    /// Smallest positive number with full precision.
    pub least: f64,
}

/// Limits of a type that replaces f32; `None` if it has the range of f32.
pub fn limits(to: DType) -> Option<Limits> {
    match to {
        DType::F16 => Some(Limits { most: 65504.0, least: 6.103_515_625e-5 }),
        _ => None,
    }
}

fn number(v: f64) -> String {
    if v.abs() >= 1e5 || (v != 0.0 && v.abs() < 1e-2) { format!("{v:.1e}") } else { format!("{v:.0}") }
}

impl Limits {
    /// Why a value with such numbers does not fit the type, as words that follow "its input 0";
    /// `None` if it fits.
    fn refusal(self, known: Known, to: DType) -> Option<String> {
        let most = known.range.magnitude();
        if most > self.most {
            let may = if known.constant { "has" } else { "may have" };
            return Some(format!("{may} numbers up to {}, beyond {}, the greatest of {to}", number(most), self.most));
        }
        (known.range.is_known() && most > 0.0 && most < self.least).then(|| {
            let keeps = if known.constant { "has" } else { "keeps to" };
            format!("{keeps} numbers below {}, of which {to} loses digits", number(most.max(f64::MIN_POSITIVE)))
        })
    }
}

impl Ranges {
    /// The ranges of graph `gi` of a model. `limits` are those of the type that replaces f32.
    ///
    /// # Errors
    /// Fails if a call into a plugin fails.
    pub fn of(model: &Model, gi: usize, toolbox: &Toolbox, limits: Limits) -> Result<Ranges> {
        let g = &model.graphs()[gi];
        let context = toolbox.lend(model, gi);
        let view = context.graph();
        let constants: Vec<(ValueRef, Range)> = g
            .order()
            .par_iter()
            .filter_map(|id| {
                let v = g.get(*id).filter(|n| n.is_const())?.value(0);
                Some((v, of_constant(g.constant(v)?)?))
            })
            .collect();
        let mut of: HashMap<ValueRef, Known> =
            constants.into_iter().map(|(v, range)| (v, Known { range, constant: true })).collect();
        let mut inputs = Vec::new();
        for id in g.order() {
            let Some(n) = g.get(*id).filter(|n| !n.is_const()) else { continue };
            inputs.clear();
            inputs.extend(n.inputs().iter().map(|v| of.get(v).map_or(Range::UNKNOWN, |k| k.range)));
            let product = toolbox.op_flags(n.op_key()) & flags::LOW_PRECISION != 0;
            if product && !n.inputs().iter().any(|v| of.get(v).is_some_and(|k| k.constant)) {
                let usual = |r: &Range| if r.magnitude() <= limits.most { r.and(Range::within(COMMON)) } else { *r };
                inputs.iter_mut().for_each(|r| *r = usual(r));
            }
            let said = match toolbox.ranges(&view.node(*id), &inputs)? {
                Some(said) => said,
                None => moved(toolbox, g, n, &inputs),
            };
            let given = gi == 0 && n.inputs().is_empty() && toolbox.op_flags(n.op_key()) & flags::STATEFUL == 0;
            // The range that a pass has noted for a whole number from what its readers accept.
            let noted =
                n.attrs().ints("_value_range").and_then(|r| Some(Range::new(*r.first()? as f64, *r.get(1)? as f64)));
            for (k, d) in n.outputs().iter().enumerate() {
                let usual = Range::within(if given { GIVEN } else { COMMON });
                let said = noted.or(said.get(k).copied()).unwrap_or(Range::UNKNOWN);
                let mut range = settled(said, d, usual);
                if product && range.magnitude() <= limits.most && !has_one_term(toolbox, g, n) {
                    range = range.and(usual);
                }
                of.insert(n.value(k as u32), Known { range, constant: false });
            }
        }
        Ok(Ranges { of })
    }

    /// Why a value does not fit the type; `None` if it fits or is unknown.
    pub fn refusal(&self, v: ValueRef, limits: Limits, to: DType) -> Option<String> {
        limits.refusal(*self.of.get(&v)?, to)
    }

    /// The range of a value; unknown if the graph has no such value.
    pub fn range(&self, v: ValueRef) -> Range {
        self.of.get(&v).map_or(Range::UNKNOWN, |k| k.range)
    }
}

/// Whether each number of a matrix product is a single product, such as a position times a
/// frequency: it reaches its bound, unlike the sums of a layer.
fn has_one_term(toolbox: &Toolbox, g: &ge_ir::Graph, n: &Node) -> bool {
    let is_turned = ["transpose_x1", "adj_x1"].into_iter().any(|a| n.attrs().flag(a));
    let inner = |d: &TensorDesc| d.shape.dims().iter().rev().nth(usize::from(is_turned)).and_then(|d| d.size());
    toolbox.op_flags(n.op_key()) & flags::PRODUCT != 0 && g.input_desc(n, 0).and_then(inner) == Some(1)
}

/// Ranges of the outputs of an operator without a range function: those of its inputs, if it only
/// moves values of any type and computes nothing. Empty if it computes.
fn moved(toolbox: &Toolbox, g: &ge_ir::Graph, n: &Node, inputs: &[Range]) -> Vec<Range> {
    let Some(op) = toolbox.op(n.op_key()) else { return Vec::new() };
    let of_any = |i: usize| super::params::spec(&op.proto.inputs, i).is_some_and(|p| p.types.is_empty());
    let fixed = flags::ELEMENTWISE | flags::STATEFUL | flags::RANDOM | flags::REFERENCE;
    if op.proto.flags & fixed != 0 || !op.proto.subgraphs.is_empty() {
        return Vec::new();
    }
    let like = |out: &TensorDesc| {
        let read =
            (0..n.inputs().len()).filter(|i| of_any(*i) && g.input_desc(n, *i).is_some_and(|d| d.dtype == out.dtype));
        read.filter_map(|i| inputs.get(i).copied()).reduce(Range::or).unwrap_or(Range::UNKNOWN)
    };
    let any_out = op.proto.outputs.iter().all(|o| o.types.is_empty() || o.kind == ParamKind::DYNAMIC);
    if any_out { n.outputs().iter().map(like).collect() } else { Vec::new() }
}

/// A range limited by the bounds of its type; missing bounds are replaced by those of `usual`.
fn settled(said: Range, d: &TensorDesc, usual: Range) -> Range {
    if d.container != Container::TENSOR {
        return Range::UNKNOWN;
    }
    if let Some(own) = of_type(d.dtype) {
        return own.and(said);
    }
    let or = |bound: f64, usual: f64| if bound.is_finite() { bound } else { usual };
    match (said.low.is_finite(), said.high.is_finite()) {
        // If only one bound is known, the usual one is added where the known bound leaves room for
        // it.
        (false, true) => Range::new(usual.low.min(said.high), said.high),
        (true, false) => Range::new(said.low, usual.high.max(said.low)),
        _ => Range::new(or(said.low, usual.low), or(said.high, usual.high)),
    }
}

/// Range of an integer or boolean type; `None` for other types.
pub(super) fn of_type(t: DType) -> Option<Range> {
    let bits = |n: i32| 2f64.powi(n);
    Some(match t {
        DType::BOOL => Range::new(0.0, 1.0),
        DType::I8 => Range::new(-128.0, 127.0),
        DType::U8 => Range::new(0.0, 255.0),
        DType::I16 => Range::new(-bits(15), bits(15)),
        DType::U16 => Range::new(0.0, bits(16)),
        DType::I32 => Range::new(-bits(31), bits(31)),
        DType::U32 => Range::new(0.0, bits(32)),
        DType::I64 => Range::new(-bits(63), bits(63)),
        DType::U64 => Range::new(0.0, bits(64)),
        _ => return None,
    })
}

/// Bounds of a constant's finite numbers, found in one pass over its bytes. `None` if it has no
/// finite numbers or its type is not numeric.
fn of_constant(t: &ge_ir::ConstTensor) -> Option<Range> {
    let wide = |b: &[u8]| <[u8; 4]>::try_from(b).map_or(f32::NAN, f32::from_le_bytes);
    let (low, high) = match t.dtype {
        DType::F32 => {
            let bytes = t.bytes()?;
            let finite = bytes.chunks_exact(4).map(wide).filter(|v| v.is_finite());
            finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)))
        }
        // Constants of other types are small, or their type bounds them well enough.
        _ => match t.to_f64(1 << 16) {
            Some(all) => {
                let finite = all.into_iter().filter(|v| v.is_finite());
                let (l, h) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
                return (l <= h).then(|| Range::new(l, h));
            }
            None => return of_type(t.dtype),
        },
    };
    (low <= high).then(|| Range::new(f64::from(low), f64::from(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_half_precision_cannot_hold_is_told_in_words() {
        let half = limits(DType::F16).unwrap();
        let say = |range, constant| half.refusal(Known { range, constant }, DType::F16);
        assert_eq!(say(Range::within(65504.0), false), None);
        assert_eq!(
            say(Range::new(-3.4e38, 0.0), true).unwrap(),
            "has numbers up to 3.4e38, beyond 65504, the greatest of f16"
        );
        assert_eq!(say(Range::of(1e-12), true).unwrap(), "has numbers below 1.0e-12, of which f16 loses digits");
        assert_eq!(say(Range::of(0.0), true), None);
        assert_eq!(limits(DType::BF16), None);
    }

    #[test]
    fn types_and_usual_numbers_settle_what_is_not_known() {
        let f = TensorDesc { dtype: DType::F32, ..TensorDesc::default() };
        let usual = Range::within(COMMON);
        assert_eq!(settled(Range::UNKNOWN, &f, usual), usual);
        assert_eq!(settled(Range { low: f64::NEG_INFINITY, high: 0.0 }, &f, usual), Range::new(-COMMON, 0.0));
        assert_eq!(settled(Range { low: 1e9, high: f64::INFINITY }, &f, usual), Range::of(1e9));
        let byte = TensorDesc { dtype: DType::U8, ..TensorDesc::default() };
        assert_eq!(settled(Range::within(10.0), &byte, usual), Range::new(0.0, 10.0));
    }

    #[test]
    fn constants_are_bounded_by_their_finite_numbers() {
        let t = ge_ir::ConstTensor::of(&[4], &[1.5f32, f32::NEG_INFINITY, -2.0, f32::NAN]).unwrap();
        assert_eq!(of_constant(&t), Some(Range::new(-2.0, 1.5)));
        let t = ge_ir::ConstTensor::of(&[1], &[f32::INFINITY]).unwrap();
        assert_eq!(of_constant(&t), None);
    }
}
