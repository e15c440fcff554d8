//! `LayerNormFusionPass`, `RmsNormFusionPass`: normalisations that are written as several small
//! operators. `SoftmaxMaskFusionPass`: the factor and the mask before a softmax. `SiluFusionPass`:
//! `x * sigmoid(x)`.
use super::{info, number, open, out_desc, put, scaled};
use ge_plugin_api::fusion::{Expr, Match, Pattern, PatternBuilder, PatternFusion, Replacement, Verdict};
use ge_plugin_api::pass::PassInfo;
use ge_plugin_api::types::{AttrMap, ConstTensor, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// Whether a reduction covers only the last axis and keeps it.
fn of_last_axis(n: &Node<'_>) -> bool {
    let given = n.ints("axes").map(<[i64]>::to_vec);
    let axes = given.or_else(|| n.const_input(1)?.to_i64(8));
    let rank = n.input_desc(0).and_then(|d| d.shape.rank()).map_or(0, |r| r as i64);
    n.flag("keep_dims") && axes.is_some_and(|a| matches!(a.as_slice(), [x] if *x == -1 || *x == rank - 1))
}
fn mean<'p>(p: &'p PatternBuilder, of: Expr<'p>, axes: &str) -> Expr<'p> {
    p.any(&["ReduceMean", "ReduceMeanD"], [of, p.maybe(axes)]).when(of_last_axis)
}
/// A constant with one small number that is not negative.
fn epsilon<'p>(p: &'p PatternBuilder) -> Expr<'p> {
    let small = |c: &ConstTensor| c.to_f64(1).is_some_and(|v| matches!(v.as_slice(), [e] if *e >= 0.0 && *e < 0.1));
    p.constant_if("epsilon", small)
}
/// The square of a value, in one of three spellings.
fn square<'p>(p: &'p PatternBuilder, x: Expr<'p>, way: usize) -> Expr<'p> {
    match way {
        0 => p.op("Pow", [x, p.scalar(2.0)]),
        1 => x * x,
        _ => p.op("Square", [x]),
    }
}
/// A value divided by the square root of another, in one of three spellings.
fn over_root<'p>(p: &'p PatternBuilder, x: Expr<'p>, v: Expr<'p>, way: usize) -> Expr<'p> {
    match way {
        0 => x / p.op("Sqrt", [v]),
        1 => x * p.op("Rsqrt", [v]),
        _ => x * p.any(&["Reciprocal"], [p.op("Sqrt", [v])]),
    }
}

/// Whether a value is a vector along the last axis of `x`.
fn vector(g: &Graph<'_>, v: ValueRef, x: &TensorDesc) -> bool {
    let Some([n]) = g.desc(v).map(|d| d.shape.dims()) else { return false };
    x.shape.dims().last().is_some_and(|d| n.same(*d))
}

/// Refuses a result of another shape than what is normalised: a constant with more axes gives them
/// to the result.
fn keeps_shape(m: &Match<'_>, out: &TensorDesc) -> Verdict {
    if m.graph().desc(m.value("x")).is_some_and(|d| open::same(&d.shape, &out.shape)) {
        return Ok(());
    }
    Err("the result does not have the shape of what is normalised".into())
}

/// The pass for layer normalisation.
pub struct LayerNormFusion;

impl PatternFusion for LayerNormFusion {
    fn info(&self) -> PassInfo {
        info("LayerNormFusionPass", "makes one LayerNormV3 of the means, squares and quotients that spell it out")
    }
    fn patterns(&self) -> Vec<Pattern> {
        let mut all = Vec::new();
        for (form, (shared, affine)) in
            (0..9).flat_map(|f| [(true, true), (false, true), (true, false)].map(|s| (f, s)))
        {
            all.push(Pattern::new(move |p| {
                let x = p.input("x");
                let m = mean(p, x, "axes");
                let d = x - m;
                let again = if shared { d } else { x - m };
                let variance = mean(p, square(p, d, form % 3), "axes2");
                let y = over_root(p, again, variance + epsilon(p), form / 3);
                if affine { y * p.input("gamma") + p.input("beta") } else { y * p.input("gamma") }
            }));
        }
        all
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let (g, out) = (m.graph(), out_desc(&m.root())?);
        keeps_shape(m, out)?;
        for v in ["gamma", "beta"].into_iter().filter_map(|n| m.maybe(n)) {
            if !vector(&g, v, out) {
                return Err("scale or shift is no vector along the last axis".into());
            }
        }
        let mut attrs = AttrMap::default();
        attrs.set("begin_norm_axis", -1i64);
        attrs.set("begin_params_axis", -1i64);
        attrs.set("epsilon", number(&g, m.value("epsilon")).ok_or("no epsilon")?);
        let made = put(r, "LayerNormV3", &[m.value("x"), m.value("gamma"), m.value("beta")], &attrs, out)?;
        // Outputs for mean and reciprocal deviation exist, too; nothing reads them.
        made.value(2);
        Ok(vec![made.into()])
    }
}

/// The pass for root-mean-square normalisation.
pub struct RmsNormFusion;

impl PatternFusion for RmsNormFusion {
    fn info(&self) -> PassInfo {
        info("RmsNormFusionPass", "makes one RmsNorm of the mean of squares, root and quotient that spell it out")
    }
    fn patterns(&self) -> Vec<Pattern> {
        let of = |form: usize| {
            Pattern::new(move |p| {
                let x = p.input("x");
                over_root(p, x, mean(p, square(p, x, form % 3), "axes") + epsilon(p), form / 3) * p.input("gamma")
            })
        };
        (0..9).map(of).collect()
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let (g, out) = (m.graph(), out_desc(&m.root())?);
        keeps_shape(m, out)?;
        if !vector(&g, m.value("gamma"), out) {
            return Err("the scale is no vector along the last axis".into());
        }
        let mut attrs = AttrMap::default();
        attrs.set("begin_norm_axis", -1i64);
        attrs.set("epsilon", number(&g, m.value("epsilon")).ok_or("no epsilon")?);
        let made = put(r, "RmsNorm", &[m.value("x"), m.value("gamma")], &attrs, out)?;
        made.value(1);
        Ok(vec![made.into()])
    }
}

/// The pass for the factor and the mask before a softmax.
pub struct SoftmaxMaskFusion;

impl PatternFusion for SoftmaxMaskFusion {
    fn info(&self) -> PassInfo {
        info("SoftmaxMaskFusionPass", "takes the factor and the added mask before a softmax into its kernel")
    }
    fn patterns(&self) -> Vec<Pattern> {
        let of = |form: usize| {
            Pattern::new(move |p| {
                let (x, c) = (p.input("x"), p.constant_if("factor", |c| c.count() == Some(1)));
                let scaled = match form % 3 {
                    0 => x * c,
                    1 => x / c.named("divisor"),
                    _ => x,
                };
                let all = if form < 3 { scaled + p.input("mask") } else { scaled };
                p.op("SoftmaxV2", [all]).when(last_axis)
            })
        };
        (0..5).map(of).collect()
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let (g, out) = (m.graph(), out_desc(&m.root())?);
        let same = |v: ValueRef| g.desc(v).is_some_and(|d| open::same(&d.shape, &out.shape) && d.dtype == out.dtype);
        // The order of a sum does not matter: the mask is the operand that is broadcast.
        let (x, mask) = match (m.value("x"), m.value("mask")) {
            (x, mask) if same(x) => (x, mask),
            (x, mask) if m.maybe("factor").is_none() && same(mask) => (mask, x),
            _ => return Err("the softmax's input does not have its shape before factor and mask".into()),
        };
        let mut attrs = AttrMap::default();
        attrs.set("scale", factor(m)?);
        Ok(vec![put(r, "ScaledMaskedSoftmax", &[x, mask], &attrs, out)?.into()])
    }
}

/// The factor of a match: one if there is none, a number, or one divided by a number.
pub fn factor(m: &Match<'_>) -> Verdict<f64> {
    let Some(v) = m.maybe("factor") else { return Ok(1.0) };
    let c = number(&m.graph(), v).ok_or("the factor is no number")?;
    let divides = m.maybe("divisor").is_some();
    let of = if divides { "one divided by " } else { "" };
    scaled(1.0, c, divides).ok_or_else(|| format!("{of}{:?} is no normal number in single precision", c as f32))
}
/// Whether a softmax is over the last axis.
pub fn last_axis(n: &Node<'_>) -> bool {
    let rank = n.outputs().first().and_then(|d| d.shape.rank()).map_or(0, |r| r as i64);
    matches!(n.ints("axes"), None | Some([-1])) || n.ints("axes") == Some(&[rank - 1])
}

/// The pass for SiLU.
pub struct SiluFusion;

impl PatternFusion for SiluFusion {
    fn info(&self) -> PassInfo {
        info("SiluFusionPass", "x sigmoid(x) becomes Swish")
    }
    fn patterns(&self) -> Vec<Pattern> {
        vec![Pattern::new(|p| {
            let x = p.input("x");
            x * p.op("Sigmoid", [x])
        })]
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let mut attrs = AttrMap::default();
        attrs.set("scale", 1.0f64);
        Ok(vec![put(r, "Swish", &[m.value("x")], &attrs, out_desc(&m.root())?)?.into()])
    }
}
