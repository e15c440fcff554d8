//! Maps of one tensor, one row each: the types that they accept, their further flags, and the range
//! of the values that they return.
//!
//! * Unary, for `x` of a float type: `Sigmoid Tanh Erf Erfc Exp Expm1 Log Log1p Sqrt Rsqrt
//!   Reciprocal Softplus Softsign Mish Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh`;
//!   also for integers: `Abs Neg Sign Square Relu`; rounding: `Ceil Floor Round` (`Round`: half to
//!   even).
//! * `Gelu {approximate = "none" | "tanh"}`, `Swish {scale}` = x·sigmoid(scale·x),
//!   `HardSwish`, `HardSigmoid {alpha, beta}` = min(1, max(0, alpha·x+beta)), `LeakyRelu
//!   {negative_slope}`, `Elu {alpha}`, `Selu {scale, alpha}`, `Celu
//!   {alpha}` = max(0,x)+min(0,alpha·(exp(x/alpha)-1)), `ThresholdedRelu {alpha}`, `Relu6`,
//!   `Shrink {lambd, bias}` (x < -lambd: x+bias; x > lambd: x-bias; else 0), `Muls {value}`,
//!   `Adds {value}`.
use crate::value_ranges::{number, sloped};
use ge_plugin_api::ops::flags::{ELEMENTWISE, FULL_PRECISION, INPLACE, MAKES_DIGITS, NEEDS_DIGITS, NEEDS_FRACTION};
use ge_plugin_api::ops::{AttrKind, OpDef, infer};
use ge_plugin_api::range::{Range, RangeCtx, RangeFn};
use ge_plugin_api::types::DType;
use ge_plugin_api::types::dtype::{FLOATS, NUMERIC};

/// The prototype of a map of one tensor.
pub fn unary(name: &str, types: &[DType]) -> OpDef {
    OpDef::new(name, infer::same).input("x", types, "T").output("y", types, "T").flags(ELEMENTWISE | INPLACE)
}

/// A map: name, types, flags beyond those of all maps, and the range of its output; `None` if
/// nothing is known about it.
type Row = (&'static str, &'static [DType], u64, Option<RangeFn>);

/// Natural logarithms of the least and the greatest positive number of single precision: every
/// finite logarithm is between them.
const LOGARITHMS: (f64, f64) = (-104.0, 89.0);

/// Maps without attributes.
const PLAIN: &[Row] = &[
    ("Sigmoid", FLOATS, MAKES_DIGITS, Some(|_| vec![Range::new(0.0, 1.0)])),
    ("Tanh", FLOATS, 0, Some(|_| vec![Range::within(1.0)])),
    ("Erf", FLOATS, 0, Some(|_| vec![Range::within(1.0)])),
    ("Erfc", FLOATS, MAKES_DIGITS, Some(|_| vec![Range::new(0.0, 2.0)])),
    ("Exp", FLOATS, FULL_PRECISION | MAKES_DIGITS, Some(|c| vec![c.input(0).through(f64::exp)])),
    ("Expm1", FLOATS, FULL_PRECISION, Some(|c| vec![c.input(0).through(f64::exp_m1)])),
    ("Log", FLOATS, FULL_PRECISION | NEEDS_DIGITS, Some(|c| vec![c.input(0).through(ln)])),
    ("Log1p", FLOATS, FULL_PRECISION, Some(|c| vec![c.input(0).through(ln_1p)])),
    ("Sqrt", FLOATS, 0, Some(|c| vec![c.input(0).through(root)])),
    ("Rsqrt", FLOATS, FULL_PRECISION, Some(|c| vec![Range::of(1.0).over(c.input(0).through(root))])),
    ("Reciprocal", FLOATS, FULL_PRECISION, Some(|c| vec![Range::of(1.0).over(c.input(0))])),
    ("Softplus", FLOATS, FULL_PRECISION | MAKES_DIGITS, Some(|c| vec![c.input(0).through(softplus)])),
    ("Softsign", FLOATS, 0, Some(|_| vec![Range::within(1.0)])),
    ("Mish", FLOATS, 0, Some(|c| vec![gated(c, 1.0)])),
    ("Sin", FLOATS, NEEDS_FRACTION, Some(|_| vec![Range::within(1.0)])),
    ("Cos", FLOATS, NEEDS_FRACTION, Some(|_| vec![Range::within(1.0)])),
    ("Tan", FLOATS, FULL_PRECISION | NEEDS_FRACTION, None),
    ("Asin", FLOATS, FULL_PRECISION, Some(|_| vec![Range::within(std::f64::consts::FRAC_PI_2)])),
    ("Acos", FLOATS, FULL_PRECISION, Some(|_| vec![Range::new(0.0, std::f64::consts::PI)])),
    ("Atan", FLOATS, 0, Some(|_| vec![Range::within(std::f64::consts::FRAC_PI_2)])),
    ("Sinh", FLOATS, FULL_PRECISION, Some(|c| vec![c.input(0).through(f64::sinh)])),
    ("Cosh", FLOATS, FULL_PRECISION, Some(|c| vec![c.input(0).absolute().through(f64::cosh)])),
    ("Asinh", FLOATS, 0, Some(|_| vec![Range::within(LOGARITHMS.1 + 1.0)])),
    ("Acosh", FLOATS, 0, Some(|_| vec![Range::new(0.0, LOGARITHMS.1 + 1.0)])),
    ("Atanh", FLOATS, 0, Some(|_| vec![Range::within(10.0)])),
    ("Ceil", FLOATS, 0, Some(rounded)),
    ("Floor", FLOATS, 0, Some(rounded)),
    ("Round", FLOATS, 0, Some(rounded)),
    ("HardSwish", FLOATS, 0, Some(|c| vec![gated(c, 1.0)])),
    ("Relu6", FLOATS, 0, Some(|c| vec![c.input(0).through(|v| v.clamp(0.0, 6.0))])),
    ("Abs", NUMERIC, 0, Some(|c| vec![c.input(0).absolute()])),
    ("Neg", NUMERIC, 0, Some(|c| vec![Range::of(0.0).minus(c.input(0))])),
    ("Sign", NUMERIC, 0, Some(|_| vec![Range::within(1.0)])),
    ("Square", NUMERIC, FULL_PRECISION, Some(|c| vec![c.input(0).absolute().through(|v| v * v)])),
    ("Relu", NUMERIC, 0, Some(|c| vec![c.input(0).through(|v| v.max(0.0))])),
];

fn ln(v: f64) -> f64 {
    if v > 0.0 { v.ln().clamp(LOGARITHMS.0, LOGARITHMS.1) } else { LOGARITHMS.0 }
}
fn softplus(v: f64) -> f64 {
    v.max(0.0) + (-v.abs()).exp().ln_1p()
}
fn ln_1p(v: f64) -> f64 {
    if v > -1.0 { v.ln_1p().clamp(-18.0, LOGARITHMS.1) } else { -18.0 }
}
fn root(v: f64) -> f64 {
    v.max(0.0).sqrt()
}
fn rounded(c: &RangeCtx<'_>) -> Vec<Range> {
    vec![Range::new(c.input(0).low.floor(), c.input(0).high.ceil())]
}
/// Range of x times a factor between 0 and 1 that grows with `scale` times x. Below zero the result
/// is between x and zero and at least -0.38 / `scale`.
fn gated(c: &RangeCtx<'_>, scale: f64) -> Range {
    let x = c.input(0);
    let least = if scale > 0.0 { -0.38 / scale } else { f64::NEG_INFINITY };
    Range::new(x.low.min(0.0).max(least), if scale > 0.0 { x.high.max(0.0) } else { f64::INFINITY })
}
/// Range of the values of x, but none of them below -|alpha|.
fn bent(c: &RangeCtx<'_>) -> Vec<Range> {
    let alpha = number(c, "alpha").unwrap_or(1.0).abs();
    vec![c.input(0).through(|v| v.max(-alpha))]
}

/// The prototypes of all maps.
pub fn defs() -> Vec<OpDef> {
    let f = AttrKind::FLOAT;
    let plain = PLAIN.iter().map(|(name, types, flags, range)| {
        let def = unary(name, types).flags(*flags);
        match range {
            Some(r) => def.value_ranges(*r),
            None => def,
        }
    });
    let mut v: Vec<OpDef> = plain.collect();
    v.push(
        unary("Gelu", FLOATS)
            .attr("approximate", AttrKind::STRING, "none")
            .choices(&["none", "tanh"])
            .value_ranges(|c| vec![gated(c, 1.0)]),
    );
    v.push(
        unary("Swish", FLOATS)
            .attr("scale", f, 1.0)
            .value_ranges(|c| vec![gated(c, number(c, "scale").unwrap_or(1.0))]),
    );
    v.push(
        unary("HardSigmoid", FLOATS)
            .attr("alpha", f, 1.0 / 6.0)
            .attr("beta", f, 0.5)
            .value_ranges(|_| vec![Range::new(0.0, 1.0)]),
    );
    v.push(
        unary("LeakyRelu", FLOATS)
            .attr("negative_slope", f, 0.01)
            .value_ranges(|c| vec![sloped(c.input(0), Range::of(number(c, "negative_slope").unwrap_or(0.01)))]),
    );
    v.push(unary("Elu", FLOATS).attr("alpha", f, 1.0).value_ranges(bent));
    v.push(
        unary("Selu", FLOATS)
            .attr("scale", f, 1.050_700_987_355_480_5)
            .attr("alpha", f, 1.673_263_242_354_377_2)
            .value_ranges(|c| {
                let (scale, alpha) = (number(c, "scale").unwrap_or(1.06), number(c, "alpha").unwrap_or(1.68));
                vec![c.input(0).through(|v| v.max(-alpha.abs())).times(Range::of(scale))]
            }),
    );
    v.push(unary("Celu", FLOATS).attr("alpha", f, 1.0).value_ranges(bent));
    v.push(unary("ThresholdedRelu", FLOATS).attr("alpha", f, 1.0).value_ranges(|c| {
        let (x, alpha) = (c.input(0), number(c, "alpha").unwrap_or(1.0));
        vec![Range::new(x.low.max(alpha).min(0.0), x.high.max(0.0))]
    }));
    v.push(unary("Shrink", NUMERIC).attr("lambd", f, 0.5).attr("bias", f, 0.0).value_ranges(|c| {
        let bias = number(c, "bias").unwrap_or(0.0).abs();
        vec![c.input(0).or(Range::of(0.0)).plus(Range::within(bias))]
    }));
    v.push(
        unary("Muls", NUMERIC)
            .required_attr("value", f)
            .value_ranges(|c| vec![number(c, "value").map_or(Range::UNKNOWN, |v| c.input(0).times(Range::of(v)))]),
    );
    v.push(
        unary("Adds", NUMERIC)
            .required_attr("value", f)
            .value_ranges(|c| vec![number(c, "value").map_or(Range::UNKNOWN, |v| c.input(0).plus(Range::of(v)))]),
    );
    v
}
