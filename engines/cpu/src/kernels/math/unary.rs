//! Element-wise operators of one input (`plugins/ops/src/elementwise.rs` defines their meaning).
//! Floating-point results are computed in double precision and rounded once; integers wrap.
use super::arith::is_unsigned;
use super::special::{
    erf, erfc, exp_in_line, gelu, gelu_tanh, hard_swish, ln_in_line, max, min, sigmoid, softplus, tanh_in_line,
};
use super::zip::map;
use crate::args::{Arg, bad, flag, float_attr, text};
use crate::op::Op;
use crate::store::types::{BOOL, FLOAT, FLOAT8, INT, NUM};
use ge_kernels::view::{Bool, Elem};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

/// Maps a floating-point input by a function of doubles.
pub fn float_map(ctx: &mut KernelCtx<'_>, f: impl Fn(f64) -> f64 + Sync) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => map::<T, T>(ctx, &x, |v| T::from_f64(f(v.to_f64()))), else x.refused())
}

/// Maps numbers: floating-point, signed and unsigned integer types each use a function of the
/// widest type.
fn number_map(
    ctx: &mut KernelCtx<'_>,
    f: impl Fn(f64) -> f64 + Sync,
    i: impl Fn(i64) -> i64 + Sync,
    u: impl Fn(u64) -> u64 + Sync,
) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    if x.kind()?.is_float() { float_map(ctx, f) } else { whole_map(ctx, &x, i, u) }
}
/// Maps integers: signed and unsigned types each use a function of the widest type.
fn whole_map(
    ctx: &mut KernelCtx<'_>,
    x: &Arg<'_>,
    i: impl Fn(i64) -> i64 + Sync,
    u: impl Fn(u64) -> u64 + Sync,
) -> Result<()> {
    if is_unsigned(x.kind()?) {
        return with_kind!(x.kind()?, [U8, U16, U32, U64], T => {
            map::<T, T>(ctx, x, |v| T::from_i64(u(v.to_i64() as u64) as i64))
        }, else x.refused());
    }
    with_kind!(x.kind()?, [I8, I16, I32, I64], T => map::<T, T>(ctx, x, |v| T::from_i64(i(v.to_i64()))), else x.refused())
}

/// Declares functions of floating-point numbers without parameters: the kernel, the table row, and
/// the function for the chains of `fused.rs`.
macro_rules! plain {
    ($($name:literal $fun:ident: |$x:ident| $e:expr;)+) => {
        $(fn $fun(ctx: &mut KernelCtx<'_>) -> Result<()> {
            float_map(ctx, |$x| $e)
        })+
        /// Operator rows of the floating-point functions without parameters.
        pub const PLAIN_OPS: &[Op] = &[$(f($name, $fun)),+];
        const PLAIN: &[(&str, fn(f64) -> f64)] = &[$(($name, |$x| $e)),+];
    };
}
plain! {
    "Sigmoid" run_sigmoid: |x| sigmoid(x);
    "Tanh" run_tanh: |x| tanh_in_line(x);
    "Erf" run_erf: |x| erf(x);
    "Erfc" run_erfc: |x| erfc(x);
    "Exp" run_exp: |x| exp_in_line(x);
    "Expm1" run_expm1: |x| x.exp_m1();
    "Log" run_log: |x| ln_in_line(x);
    "Log1p" run_log1p: |x| x.ln_1p();
    "Sqrt" run_sqrt: |x| x.sqrt();
    "Rsqrt" run_rsqrt: |x| 1.0 / x.sqrt();
    "Reciprocal" run_reciprocal: |x| 1.0 / x;
    "Softplus" run_softplus: |x| softplus(x);
    "Softsign" run_softsign: |x| x / (1.0 + x.abs());
    "Mish" run_mish: |x| x * tanh_in_line(softplus(x));
    "Sin" run_sin: |x| x.sin();
    "Cos" run_cos: |x| x.cos();
    "Tan" run_tan: |x| x.tan();
    "Asin" run_asin: |x| x.asin();
    "Acos" run_acos: |x| x.acos();
    "Atan" run_atan: |x| x.atan();
    "Sinh" run_sinh: |x| x.sinh();
    "Cosh" run_cosh: |x| x.cosh();
    "Asinh" run_asinh: |x| x.asinh();
    "Acosh" run_acosh: |x| x.acosh();
    "Atanh" run_atanh: |x| x.atanh();
    "Ceil" run_ceil: |x| x.ceil();
    "Floor" run_floor: |x| x.floor();
    "Round" run_round: |x| x.round_ties_even();
    "HardSwish" run_hard_swish: |x| hard_swish(x);
    "Relu6" run_relu6: |x| min(max(x, 0.0), 6.0);
}
/// Declares functions of all numbers: by doubles, by signed and by unsigned integers.
macro_rules! numbers {
    ($($name:literal $fun:ident: $f:expr, $i:expr, $u:expr;)+) => {
        $(fn $fun(ctx: &mut KernelCtx<'_>) -> Result<()> {
            number_map(ctx, $f, $i, $u)
        })+
        /// Operator rows of the functions of all numbers.
        pub const NUMBER_OPS: &[Op] = &[$(n($name, $fun)),+];
        const NUMBERS: &[(&str, fn(f64) -> f64)] = &[$(($name, $f)),+];
    };
}
numbers! {
    "Abs" run_abs: f64::abs, i64::wrapping_abs, |v| v;
    "Neg" run_neg: |x| -x, i64::wrapping_neg, u64::wrapping_neg;
    "Sign" run_sign: sign, |v| i64::from(v > 0) - i64::from(v < 0), |v| u64::from(v != 0);
    "Square" run_square: |x| x * x, |v| v.wrapping_mul(v), |v| v.wrapping_mul(v);
    "Relu" run_relu: |x| max(x, 0.0), |v| v.max(0), |v| v;
}
/// The function of one double for an operator without parameters; `None` for other operators.
pub fn plain_map(op: &str) -> Option<fn(f64) -> f64> {
    PLAIN.iter().chain(NUMBERS).find(|(name, _)| *name == op).map(|(_, f)| *f)
}
fn sign(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 { x } else { 1f64.copysign(x) }
}
fn run_gelu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    match text(ctx, "approximate", "none") {
        "none" => float_map(ctx, gelu),
        "tanh" => float_map(ctx, gelu_tanh),
        other => Err(bad("attribute `approximate`", other, "none or tanh")),
    }
}
fn run_swish(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let s = float_attr(ctx, "scale", 1.0);
    float_map(ctx, |x| x * sigmoid(s * x))
}
fn run_hard_sigmoid(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, b) = (float_attr(ctx, "alpha", 1.0 / 6.0), float_attr(ctx, "beta", 0.5));
    float_map(ctx, |x| min(1.0, max(0.0, a * x + b)))
}
fn run_leaky_relu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let s = float_attr(ctx, "negative_slope", 0.01);
    float_map(ctx, |x| if x < 0.0 { s * x } else { x })
}
fn run_elu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let a = float_attr(ctx, "alpha", 1.0);
    float_map(ctx, |x| if x < 0.0 { a * x.exp_m1() } else { x })
}
fn run_selu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (s, a) = (float_attr(ctx, "scale", 1.050_700_987_355_480_5), float_attr(ctx, "alpha", 1.673_263_242_354_377_2));
    float_map(ctx, |x| s * if x <= 0.0 { a * x.exp_m1() } else { x })
}
fn run_celu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let a = float_attr(ctx, "alpha", 1.0);
    float_map(ctx, |x| max(x, 0.0) + min(0.0, a * (x / a).exp_m1()))
}
fn run_thresholded_relu(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let a = float_attr(ctx, "alpha", 1.0);
    // Everything that is not above the threshold becomes zero, including NaN: the standard's
    // evaluator and onnxruntime agree.
    float_map(ctx, |x| if x > a { x } else { 0.0 })
}
/// Integers are converted to doubles, as in ONNX's reference for floating-point attributes.
fn by_double(ctx: &mut KernelCtx<'_>, f: impl Fn(f64) -> f64 + Sync) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    if x.kind()?.is_float() {
        return float_map(ctx, f);
    }
    with_kind!(x.kind()?, [I8, I16, I32, I64, U8, U16, U32, U64], T => map::<T, T>(ctx, &x, |v| T::from_f64(f(v.to_f64()))), else x.refused())
}
fn run_shrink(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (l, b) = (float_attr(ctx, "lambd", 0.5), float_attr(ctx, "bias", 0.0));
    by_double(ctx, |x| {
        if x < -l {
            x + b
        } else if x > l {
            x - b
        } else {
            0.0
        }
    })
}
fn value(ctx: &KernelCtx<'_>) -> Result<f64> {
    ctx.attrs.float("value").ok_or_else(|| bad("attribute `value`", "nothing", "a number"))
}
fn run_muls(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let v = value(ctx)?;
    by_double(ctx, |x| x * v)
}
fn run_adds(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let v = value(ctx)?;
    by_double(ctx, |x| x + v)
}
fn run_invert(ctx: &mut KernelCtx<'_>) -> Result<()> {
    whole_map(ctx, &Arg::of(ctx, 0)?, |v| !v, |v| !v)
}
fn run_logical_not(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    map::<Bool, Bool>(ctx, &x, |v| Bool::from(!v.get()))
}
fn test(ctx: &mut KernelCtx<'_>, f: impl Fn(f64) -> bool + Sync) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    if x.kind().is_err() {
        let v = super::cast::doubles(&x)?;
        let o = crate::args::out::<Bool>(ctx, 0, &x.shape)?;
        o.iter_mut().zip(&v).for_each(|(o, v)| *o = Bool::from(f(*v)));
        return Ok(());
    }
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => map::<T, Bool>(ctx, &x, |v| Bool::from(f(v.to_f64()))), else x.refused())
}
fn run_is_nan(ctx: &mut KernelCtx<'_>) -> Result<()> {
    test(ctx, f64::is_nan)
}
fn run_is_finite(ctx: &mut KernelCtx<'_>) -> Result<()> {
    test(ctx, f64::is_finite)
}
fn run_is_inf(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (n, p) = (flag(ctx, "detect_negative", true), flag(ctx, "detect_positive", true));
    test(ctx, |x| (p & (x == f64::INFINITY)) | (n & (x == f64::NEG_INFINITY)))
}

const fn f(name: &'static str, run: crate::op::Run) -> Op {
    Op::new(name, run, &[FLOAT]).gives(&[FLOAT])
}
const fn n(name: &'static str, run: crate::op::Run) -> Op {
    Op::new(name, run, &[NUM]).gives(&[NUM])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    f("Gelu", run_gelu),
    f("Swish", run_swish),
    f("HardSigmoid", run_hard_sigmoid),
    f("LeakyRelu", run_leaky_relu),
    f("Elu", run_elu),
    f("Selu", run_selu),
    f("Celu", run_celu),
    f("ThresholdedRelu", run_thresholded_relu),
    n("Shrink", run_shrink),
    n("Muls", run_muls),
    n("Adds", run_adds),
    Op::new("Invert", run_invert, &[INT]).gives(&[INT]),
    Op::new("LogicalNot", run_logical_not, &[BOOL]).gives(&[BOOL]),
    Op::new("IsNan", run_is_nan, &[FLOAT8]).gives(&[BOOL]),
    Op::new("IsFinite", run_is_finite, &[FLOAT8]).gives(&[BOOL]),
    Op::new("IsInf", run_is_inf, &[FLOAT8]).gives(&[BOOL]),
];
