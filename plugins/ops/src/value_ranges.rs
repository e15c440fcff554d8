//! Ranges of values: what operators know about the numbers that they return, given bounds of the
//! numbers that they read. The host chooses types by them: values that may exceed the range of half
//! precision stay in single precision.
//!
//! A bound holds if the bounds of the inputs hold. For a product of two computed tensors the range
//! is only a likely bound, √K times the greatest term, because the terms of such a sum are taken to
//! be independent of each other. The ranges of maps of one tensor are in `maps.rs`. Nothing is
//! known about operators that are in neither file.
use ge_plugin_api::ops::OpDef;
use ge_plugin_api::range::{Range, RangeCtx, RangeFn};
use ge_plugin_api::types::{AttrValue, ConstTensor, DType};

/// Adds range functions to the prototypes that have one.
pub fn given(defs: Vec<OpDef>) -> Vec<OpDef> {
    let one = |d: OpDef| match of(&d.proto.name) {
        Some(f) => d.value_ranges(f),
        None => d,
    };
    defs.into_iter().map(one).collect()
}

fn of(op: &str) -> Option<RangeFn> {
    Some(match op {
        "SoftmaxV2" | "Hardmax" | "ScaledMaskedSoftmax" => |_| vec![Range::new(0.0, 1.0)],
        "LpNormalization" => |_| vec![Range::within(1.0)],
        "Atan2" => |_| vec![Range::within(std::f64::consts::PI)],
        "PRelu" => |c| vec![sloped(c.input(0), c.input(1))],
        "Add" => |c| vec![c.input(0).plus(c.input(1))],
        "Sub" => |c| vec![c.input(0).minus(c.input(1))],
        "Mul" => |c| {
            let square = c.node.input(0).is_some() && c.node.input(0) == c.node.input(1);
            vec![if square { c.input(0).absolute().through(|v| v * v) } else { c.input(0).times(c.input(1)) }]
        },
        "RealDiv" | "Div" => |c| vec![c.input(0).over(c.input(1))],
        "SquaredDifference" => |c| vec![c.input(0).minus(c.input(1)).absolute().through(|v| v * v)],
        "Maximum" => |c| {
            let (a, b) = (c.input(0), c.input(1));
            vec![Range::new(a.low.max(b.low), a.high.max(b.high))]
        },
        "Minimum" => |c| {
            let (a, b) = (c.input(0), c.input(1));
            vec![Range::new(a.low.min(b.low), a.high.min(b.high))]
        },
        "Pow" => |c| vec![power(c.input(0), c.input(1))],
        "AddN" => |c| vec![c.inputs.iter().fold(Range::of(0.0), |sum, r| sum.plus(*r))],
        "Select" | "SelectV2" => |c| vec![c.input(1).or(c.input(2))],
        "ClipByValue" => |c| {
            let (low, high) = (c.input(1).low, c.input(2).high);
            vec![c.input(0).through(|v| v.max(low).min(high))]
        },
        "Cast" | "CastLike" => |c| vec![c.input(0)],
        "ReduceSum" | "ReduceSumD" => |c| vec![terms(c).map_or(Range::UNKNOWN, |n| sum_of(c.input(0), n))],
        "Cumsum" | "CumsumD" => |c| {
            let n = c.desc(0).and_then(|d| d.shape.dims().iter().map(|d| d.size()).max().flatten());
            vec![n.map_or(Range::UNKNOWN, |n| sum_of(c.input(0), n as f64).or(Range::of(0.0)))]
        },
        "ReduceMean" | "ReduceMeanD" | "ReduceMax" | "ReduceMaxD" | "ReduceMin" | "ReduceMinD" => |c| vec![c.input(0)],
        "ReduceLogSumExp" | "ReduceLogSumExpD" => |c| {
            let x = c.input(0);
            vec![terms(c).map_or(Range::UNKNOWN, |n| Range::new(x.low, x.high + n.max(1.0).ln()))]
        },
        "LogSoftmaxV2" => |c| {
            let (x, n) = (c.input(0), c.desc(0).and_then(|d| d.shape.count()));
            vec![Range::new(n.map_or(f64::NEG_INFINITY, |n| x.low - x.high - (n.max(1) as f64).ln()), 0.0)]
        },
        "LayerNormV3" | "LayerNorm" | "RmsNorm" | "InstanceNorm" | "GroupNorm" => |c| normalised(c),
        "MatMulV2" | "MatMul" | "BatchMatMulV2" | "BatchMatMul" | "FusedMatMul" => |c| vec![mat_mul(c)],
        "Conv2D" | "DepthwiseConv2D" | "Conv3D" | "FusedConv" | "Conv2DTransposeD" | "Conv3DTransposeD" => {
            |c| vec![conv(c)]
        }
        "MaxPoolV3" | "GlobalMaxPool" | "GlobalAveragePool" => |c| vec![c.input(0)],
        // Padding may count as zeros.
        "AvgPoolV2" => |c| vec![c.input(0).or(Range::of(0.0))],
        "DFT" | "RFFT" => |c| {
            let n = c.desc(0).and_then(|d| d.shape.dims().iter().map(|d| d.size()).max().flatten());
            vec![n.map_or(Range::UNKNOWN, |n| Range::within(c.input(0).magnitude() * n as f64))]
        },
        "STFT" => |c| {
            let given = c.constant(3).and_then(|t| t.to_i64(1)?.first().copied()).map(|n| n as f64);
            let n = given.or_else(|| c.desc(2)?.shape.count().map(|n| n as f64));
            let window = c.given(2).map_or(1.0, Range::magnitude);
            vec![n.map_or(Range::UNKNOWN, |n| Range::within(c.input(0).magnitude() * window * n))]
        },
        // A mean of values with weights that sum to one.
        "PromptFlashAttention" => |c| vec![c.input(2)],
        _ => return None,
    })
}

pub fn number(c: &RangeCtx<'_>, key: &str) -> Option<f64> {
    match c.node.attr(key)? {
        AttrValue::Int(v) => Some(*v as f64),
        _ => c.node.float(key),
    }
}

/// Range of a function that is x above zero and x times a slope below it.
pub fn sloped(x: Range, slope: Range) -> Range {
    let above = Range::new(x.low.max(0.0), x.high.max(0.0));
    let below = Range::new(x.low.min(0.0), x.high.min(0.0)).times(slope);
    above.or(below)
}

fn power(x: Range, exponent: Range) -> Range {
    let e = exponent.low;
    if e != exponent.high || !e.is_finite() {
        return Range::UNKNOWN;
    }
    let whole = e.fract() == 0.0 && e.abs() < 64.0;
    if e < 0.0 {
        return Range::of(1.0).over(power(x, Range::of(-e)));
    }
    match whole {
        true if e % 2.0 == 0.0 => x.absolute().through(|v| v.powf(e)),
        true => x.through(|v| v.signum() * v.abs().powf(e)),
        // A finite root or fractional power has a base that is not negative.
        false => x.through(|v| v.max(0.0).powf(e)),
    }
}

fn sum_of(x: Range, n: f64) -> Range {
    x.times(Range::of(n))
}

/// The number of elements that one output of a reduction is computed from.
fn terms(c: &RangeCtx<'_>) -> Option<f64> {
    let (all, each) = (c.desc(0)?.shape.count()?, c.node.outputs().first()?.shape.count()?);
    Some(all.checked_div(each).unwrap_or(0) as f64)
}

/// `(x - mean) / deviation * gamma + beta`: no one of N numbers is further than √N deviations from
/// the mean.
fn normalised(c: &RangeCtx<'_>) -> Vec<Range> {
    let rank = c.desc(0).and_then(|d| d.shape.rank()).unwrap_or(0);
    let own = if matches!(c.node.op(), "InstanceNorm" | "GroupNorm") { 1 } else { -1 };
    let begin = c.node.int("begin_norm_axis").unwrap_or(own);
    let begin = if begin < 0 { begin + rank as i64 } else { begin };
    let dims = c.desc(0).map(|d| d.shape.dims()).unwrap_or_default();
    let over = dims.get(usize::try_from(begin).unwrap_or(0)..).unwrap_or_default();
    let n = over.iter().map(|d| d.size().map(|n| n as f64)).product::<Option<f64>>();
    let gamma = c.given(1).map_or(1.0, Range::magnitude);
    let beta = if c.node.op() == "RmsNorm" { 0.0 } else { c.given(2).map_or(0.0, Range::magnitude) };
    let y = n.map_or(Range::UNKNOWN, |n| Range::within(n.sqrt() * gamma + beta));
    let mut out = vec![Range::UNKNOWN; c.node.outputs().len().max(1)];
    out[0] = y;
    out
}

/// For each output, the sum of its positive weights and the negated sum of its negative ones; both
/// are at least 0.
struct Weights {
    plus: Vec<f64>,
    minus: Vec<f64>,
}

impl Weights {
    fn new(outputs: usize) -> Weights {
        Weights { plus: vec![0.0; outputs], minus: vec![0.0; outputs] }
    }
    fn add(&mut self, output: usize, w: f64) {
        if let (Some(p), Some(m)) = (self.plus.get_mut(output), self.minus.get_mut(output)) {
            if w > 0.0 {
                *p += w;
            } else if w < 0.0 {
                *m -= w;
            }
        }
    }
    /// Range of the sum of all or some of these weights times numbers in the range `x`, over all
    /// outputs.
    fn times(&self, x: Range) -> Range {
        let (low, high) = (x.low.min(0.0), x.high.max(0.0));
        let of = |w: f64, x: f64| if w == 0.0 { 0.0 } else { w * x };
        let each = self.plus.iter().zip(&self.minus);
        let all = each.map(|(p, m)| Range::new(of(*p, low) - of(*m, high), of(*p, high) - of(*m, low)));
        all.reduce(Range::or).unwrap_or(Range::of(0.0))
    }
}

/// Calls `f` with the index and value of each number of a constant; false if the numbers cannot be
/// read.
fn each(t: &ConstTensor, mut f: impl FnMut(usize, f64)) -> bool {
    let Some(bytes) = t.bytes() else { return false };
    let wide = |b: &[u8]| <[u8; 4]>::try_from(b).map_or(f64::NAN, |b| f64::from(f32::from_le_bytes(b)));
    match t.dtype {
        DType::F32 => bytes.chunks_exact(4).enumerate().for_each(|(i, b)| f(i, wide(b))),
        _ => match t.to_f64(1 << 24) {
            Some(all) => all.into_iter().enumerate().for_each(|(i, v)| f(i, v)),
            None => return false,
        },
    }
    true
}

fn flag(c: &RangeCtx<'_>, key: &str) -> bool {
    c.node.attr(key).and_then(AttrValue::as_bool).unwrap_or(false)
}

fn sizes(t: &ConstTensor) -> Vec<usize> {
    t.dims.iter().map(|d| usize::try_from(*d).unwrap_or(0)).collect()
}

fn mat_mul(c: &RangeCtx<'_>) -> Range {
    let transposed = |i: usize| match i {
        0 => flag(c, "transpose_x1") || flag(c, "adj_x1"),
        _ => flag(c, "transpose_x2") || flag(c, "adj_x2"),
    };
    let alpha = Range::of(number(c, "alpha").unwrap_or(1.0));
    let by_weights = |w: usize, x: usize| -> Option<Range> {
        let t = c.constant(w)?;
        let dims = sizes(t);
        let (rows, columns) = match dims[..] {
            [n] => (n, 1),
            [.., r, k] => (r, k),
            [] => return None,
        };
        // Whether the sum for one output runs along a row: it runs along the axis that meets the
        // other factor.
        let by_row = (w == 1) == transposed(w) && dims.len() > 1;
        let mut sums =
            Weights::new(if by_row { rows } else { columns } * (t.count()? as usize / (rows * columns).max(1)));
        let (area, per) = ((rows * columns).max(1), if by_row { rows } else { columns });
        each(t, |i, v| {
            let (batch, at) = (i / area, i % area);
            sums.add(batch * per + if by_row { at / columns } else { at % columns }, v);
        })
        .then(|| sums.times(c.input(x)))
    };
    let product = by_weights(1, 0).or_else(|| by_weights(0, 1)).unwrap_or_else(|| {
        let k = c.desc(0).and_then(|d| {
            let dims = d.shape.dims();
            dims.get(dims.len().checked_sub(if transposed(0) { 2 } else { 1 })?)?.size()
        });
        k.map_or(Range::UNKNOWN, |k| Range::within((k as f64).sqrt() * c.input(0).magnitude() * c.input(1).magnitude()))
    });
    finished(c, product.times(alpha))
}

/// Applies the bias, residual and activation that follow a product.
fn finished(c: &RangeCtx<'_>, product: Range) -> Range {
    let fused = c.node.attr("activation").is_some() || c.node.op().starts_with("Fused");
    let sum = product.plus(c.given(2).unwrap_or(Range::of(0.0)));
    if !fused {
        return sum;
    }
    let sum = sum.plus(c.given(3).unwrap_or(Range::of(0.0)));
    let params = match c.node.attr("activation_params") {
        Some(AttrValue::Floats(v)) => v.to_vec(),
        _ => Vec::new(),
    };
    match c.node.str("activation").unwrap_or("none") {
        "none" => sum,
        "relu" => sum.through(|v| v.max(0.0)),
        "clip" => match params[..] {
            [low, high] => sum.through(|v| v.max(low).min(high)),
            _ => sum,
        },
        "sigmoid" | "hard_sigmoid" => Range::new(0.0, 1.0),
        "tanh" => Range::within(1.0),
        // The other activations do not increase the magnitude.
        _ => sum.or(Range::of(0.0)),
    }
}

/// A filter is [O, I/groups, ...]; that of a transposed convolution is [I, O/groups, ...].
fn conv(c: &RangeCtx<'_>) -> Range {
    let plain = c.node.str("data_format").is_none_or(|f| f.starts_with("NC"));
    let Some(t) = c.constant(1).filter(|_| plain) else { return Range::UNKNOWN };
    let dims = sizes(t);
    let [first, second, ref taps @ ..] = dims[..] else { return Range::UNKNOWN };
    let taps = taps.iter().product::<usize>().max(1);
    let transposed = c.node.op().contains("Transpose");
    let groups = c.node.int("groups").and_then(|g| usize::try_from(g).ok()).unwrap_or(1).max(1);
    let each_group = (first / groups).max(1);
    let mut sums = Weights::new(if transposed { second * groups } else { first });
    let read = each(t, |i, v| {
        let (a, b) = (i / (second * taps).max(1), i / taps % second.max(1));
        sums.add(if transposed { a / each_group * second + b } else { a }, v);
    });
    if read { finished(c, sums.times(c.input(0))) } else { Range::UNKNOWN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_and_slopes() {
        let r = Range::new;
        assert_eq!(power(r(-3.0, 2.0), Range::of(2.0)), r(0.0, 9.0));
        assert_eq!(power(r(-3.0, 2.0), Range::of(3.0)), r(-27.0, 8.0));
        assert_eq!(power(r(4.0, 9.0), Range::of(0.5)), r(2.0, 3.0));
        assert_eq!(power(r(2.0, 4.0), Range::of(-1.0)), r(0.25, 0.5));
        assert_eq!(power(r(-1.0, 4.0), Range::of(-2.0)), Range::UNKNOWN);
        assert_eq!(power(r(0.0, 4.0), r(1.0, 2.0)), Range::UNKNOWN);
        assert_eq!(sloped(r(-10.0, 4.0), Range::of(0.1)), r(-1.0, 4.0));
        assert_eq!(sloped(r(-10.0, 4.0), Range::of(-0.5)), r(0.0, 5.0));
    }

    #[test]
    fn sums_of_weights_are_bounds() {
        let mut w = Weights::new(2);
        [1.0, -2.0, 4.0].iter().for_each(|v| w.add(0, *v));
        w.add(1, 0.5);
        // The positive weights sum to 5, the negative ones to -2.
        assert_eq!(w.times(Range::within(10.0)), Range::within(70.0));
        assert_eq!(w.times(Range::new(0.0, 10.0)), Range::new(-20.0, 50.0));
        // Padding may remove terms, so zero must stay within the range.
        assert_eq!(w.times(Range::new(1.0, 10.0)), Range::new(-20.0, 50.0));
    }
}
