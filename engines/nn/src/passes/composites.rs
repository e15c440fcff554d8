//! `AutoDecomposePass`: decomposes operators into parts that clusters support: `Celu`,
//! `ThresholdedRelu`, `Shrink`, `Swish` with a scale, `LpNormalization` over the last axis, and
//! `BNInfer` with constant statistics and small planes. Only in single precision, where the parts
//! round as the whole does. Together with neighbouring nodes, the parts become one kernel.
use super::cluster::MOST_ROW;
use super::open;
use ge_plugin_api::fusion::{Decompose, Replacement, Verdict};
use ge_plugin_api::pass::{PassInfo, PassLevel, PassStage};
use ge_plugin_api::types::{ConstTensor, DType, Shape, ValueRef};
use ge_plugin_api::view::Node;

/// The pass `AutoDecomposePass`.
pub struct Composites;

/// Makes new nodes from values and numbers.
struct Parts<'r, 'g>(&'r Replacement<'g>);

impl Parts<'_, '_> {
    fn number(&self, v: f64) -> Verdict<ValueRef> {
        Ok(self.0.constant(ConstTensor::of(&[], &[v as f32]).ok_or("a number is no tensor")?))
    }
    fn map(&self, op: &str, x: ValueRef) -> ValueRef {
        self.0.op(op, [x]).into()
    }
    fn pair(&self, op: &str, a: ValueRef, b: ValueRef) -> ValueRef {
        self.0.op(op, [a, b]).into()
    }
    fn select(&self, c: ValueRef, a: ValueRef, b: ValueRef) -> ValueRef {
        self.0.op("SelectV2", [c, a, b]).into()
    }
    /// A reduction over the last axis, which is kept.
    fn reduce(&self, op: &str, x: ValueRef) -> ValueRef {
        self.0.op(op, [x]).attr("axes", vec![-1i64]).attr("keep_dims", true).into()
    }
}

/// `max(0, x) + min(0, alpha * (e^(x / alpha) - 1))`.
fn celu(x: ValueRef, alpha: f64, p: &Parts<'_, '_>) -> Verdict<ValueRef> {
    let (alpha, zero) = (p.number(alpha)?, p.number(0.0)?);
    let below = p.pair("Mul", alpha, p.map("Expm1", p.pair("RealDiv", x, alpha)));
    Ok(p.pair("Add", p.map("Relu", x), p.pair("Minimum", zero, below)))
}

/// `x + bias` below `-lambd`, `x - bias` above `lambd`, else 0.
fn shrink(x: ValueRef, [lambd, bias]: [f64; 2], p: &Parts<'_, '_>) -> Verdict<ValueRef> {
    let (low, high, zero) = (p.number(-lambd)?, p.number(lambd)?, p.number(0.0)?);
    let bias = p.number(bias)?;
    let above = p.select(p.pair("Greater", x, high), p.pair("Sub", x, bias), zero);
    Ok(p.select(p.pair("Less", x, low), p.pair("Add", x, bias), above))
}

/// Division by the sum of absolute values.
fn by_sum(x: ValueRef, p: &Parts<'_, '_>) -> Verdict<ValueRef> {
    let n = p.reduce("ReduceSumD", p.map("Abs", x));
    let (zero, one) = (p.number(0.0)?, p.number(1.0)?);
    Ok(p.pair("RealDiv", x, p.select(p.pair("Equal", n, zero), one, n)))
}

/// Division by the Euclidean length. Elements are first divided by the largest one, so that their
/// squares cannot overflow; the length is then at least one, unless all elements are zero.
fn by_length(x: ValueRef, p: &Parts<'_, '_>) -> Verdict<ValueRef> {
    let (zero, one, most) = (p.number(0.0)?, p.number(1.0)?, p.number(f64::INFINITY)?);
    let top = p.reduce("ReduceMaxD", p.map("Abs", x));
    let is_unit = p.pair("LogicalAnd", p.pair("Greater", top, zero), p.pair("Less", top, most));
    let scaled = p.pair("RealDiv", x, p.select(is_unit, top, one));
    let length = p.map("Sqrt", p.reduce("ReduceSumD", p.map("Square", scaled)));
    Ok(p.pair("RealDiv", scaled, p.pair("Maximum", length, one)))
}

/// A batch normalisation with constant statistics: a factor and a summand for each channel.
fn by_channel(n: &Node<'_>, p: &Parts<'_, '_>) -> Verdict<ValueRef> {
    let x = n.input(0).ok_or("input 0 is missing")?;
    let given = |i: usize| n.input(i).and_then(|v| n.graph().constant(v)).and_then(|c| c.to_f64(usize::MAX));
    let [scale, shift, mean, variance] = statistics(given).ok_or("its statistics are not constant")?;
    let epsilon = n.float("epsilon").unwrap_or(1e-5);
    let by: Vec<f64> = scale.iter().zip(&variance).map(|(s, v)| s / (v + epsilon).sqrt()).collect();
    let plus = shift.iter().zip(&mean).zip(&by).map(|((s, m), by)| s - m * by);
    let axes = super::out_desc(n)?.shape.dims().len().saturating_sub(2);
    let dims: Vec<u64> = std::iter::once(by.len() as u64).chain(std::iter::repeat_n(1, axes)).collect();
    let vector =
        |v: Vec<f32>| Ok::<_, String>(p.0.constant(ConstTensor::of(&dims, &v).ok_or("no constant can be made")?));
    let plus = vector(plus.map(|v| v as f32).collect())?;
    let by = vector(by.into_iter().map(|v| v as f32).collect())?;
    Ok(p.pair("Add", p.pair("Mul", x, by), plus))
}

/// Positions of a plane from which a batch normalisation goes plane by plane.
const PLANE: u64 = 16;

/// Whether the planes behind the channel axis have few positions.
fn small_planes(s: &Shape) -> bool {
    let mut sizes = s.dims().iter().skip(2).map(|d| d.size());
    sizes.try_fold(1u64, |all, d| all.checked_mul(d?)).is_some_and(|n| n < PLANE)
}

/// Scale, shift, mean and variance of a batch normalisation, of one length.
fn statistics(given: impl Fn(usize) -> Option<Vec<f64>>) -> Option<[Vec<f64>; 4]> {
    let all = [given(1)?, given(2)?, given(3)?, given(4)?];
    all.iter().all(|v| v.len() == all[0].len()).then_some(all)
}

impl Decompose for Composites {
    fn info(&self) -> PassInfo {
        let help = "makes operators that clusters take of one that they do not take";
        PassInfo::new("AutoDecomposePass", PassStage::AFTER_PRECISION_REFINE, PassLevel::O3, help)
    }
    fn ops(&self) -> &[&str] {
        &["Celu", "ThresholdedRelu", "Shrink", "Swish", "LpNormalization", "BNInfer"]
    }
    fn meets(&self, n: &Node<'_>) -> Verdict {
        let out = super::out_desc(n)?;
        if out.dtype != DType::F32 {
            return Err(format!("it is of {}, whose parts would be rounded one by one", out.dtype));
        }
        if !open::is_named(&out.shape) {
            return Err("a size is not known, and has no name".into());
        }
        let rank = out.shape.dims().len() as i64;
        // Comparisons of tensors with one axis may be about sizes, so clusters do not take them.
        let compares = !matches!(n.op(), "Celu" | "Swish" | "BNInfer");
        if compares && rank < 2 {
            return Err(format!("it has {rank} axes, clusters take comparisons of two and more"));
        }
        match n.op() {
            "Swish" if n.float("scale").unwrap_or(1.0) == 1.0 => Err("its scale is one, it has a kernel".into()),
            "Celu" if n.float("alpha").unwrap_or(1.0) == 0.0 => Err("its alpha is zero".into()),
            "BNInfer" if (1..5).any(|i| n.input(i).and_then(|v| n.graph().constant(v)).is_none()) => {
                Err("its statistics are not constant".into())
            }
            "BNInfer" if !small_planes(&out.shape) => Err("it has a kernel for planes of this size".into()),
            "LpNormalization" if !matches!(n.int("axis").unwrap_or(-1), a if a == -1 || a == rank - 1) => {
                Err("its axis is not the last one".into())
            }
            "LpNormalization" if out.shape.dims().last().is_some_and(|d| d.size().is_some_and(|d| d > MOST_ROW)) => {
                Err("its rows are too long for clusters".into())
            }
            _ => Ok(()),
        }
    }
    fn replacement(&self, n: &Node<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let x = n.input(0).ok_or("input 0 is missing")?;
        let p = Parts(r);
        let float = |key: &str, default: f64| n.float(key).unwrap_or(default);
        Ok(vec![match n.op() {
            "Celu" => celu(x, float("alpha", 1.0), &p)?,
            "BNInfer" => by_channel(n, &p)?,
            "ThresholdedRelu" => p.select(p.pair("Greater", x, p.number(float("alpha", 1.0))?), x, p.number(0.0)?),
            "Shrink" => shrink(x, [float("lambd", 0.5), float("bias", 0.0)], &p)?,
            "Swish" => p.pair("Mul", x, p.map("Sigmoid", p.pair("Mul", x, p.number(float("scale", 1.0))?))),
            _ if n.int("p").unwrap_or(2) == 1 => by_sum(x, &p)?,
            _ => by_length(x, &p)?,
        }])
    }
}
