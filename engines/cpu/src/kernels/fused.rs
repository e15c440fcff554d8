//! `FusedConv`, `FusedConvPair`, `FusedMatMul`, `FusedQuantMatMul`, `FusedWeightMatMul`,
//! `FusedElementwise`, `ScaledMaskedSoftmax` (`plugins/ops/src/fused.rs`): the fused parts are
//! computed one after the other in double precision and rounded once. Only the `steps` are each
//! rounded to single precision, like the operators that they replace: such chains compute sizes,
//! where the last bit can decide the result of a floor.
use crate::args::{Arg, bad, count, filled, flag, float_attr, put_f64, text, view_error};
use crate::kernels::conv::direct::{Sizes, bias_of, check, conv, convolve};
use crate::kernels::conv::window::{Apart, axes, cann_pads, spatial_list, three};
use crate::kernels::math::special::{gelu, gelu_tanh, hard_swish, max, min, sigmoid};
use crate::kernels::math::unary::plain_map;
use crate::kernels::matrix::bytes::{Part, less_zero, saturate};
use crate::kernels::matrix::matmul::batched;
use crate::kernels::matrix::product::widen;
use crate::kernels::norm::softmax::softmax;
use crate::kernels::quant::by_extremes;
use crate::op::Op;
use crate::store::types::{BYTE, FLOAT};
use ge_kernels::view::broadcast_shapes;
use ge_kernels::view::steps::{Operand, Step, parse};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::{AttrValue, DType};
use ge_plugin_api::{Error, Result};

/// Applies the activation given by a node's attributes `activation` and `activation_params`.
fn activate(ctx: &KernelCtx<'_>, y: &mut [f64]) -> Result<()> {
    activate_by(ctx, ["activation", "activation_params"], y)
}

/// Applies the activation given by these attributes of a node.
fn activate_by(ctx: &KernelCtx<'_>, [key, numbers]: [&str; 2], y: &mut [f64]) -> Result<()> {
    let params = ctx.attrs.floats(numbers).unwrap_or(&[]);
    let name = text(ctx, key, "none");
    let f: Box<dyn Fn(f64) -> f64> = match (name, params) {
        ("none" | "", _) => return Ok(()),
        ("relu", _) => Box::new(|x| max(x, 0.0)),
        ("clip", &[low, high]) => Box::new(move |x| min(max(x, low), high)),
        ("leaky_relu", &[slope]) => Box::new(move |x| if x < 0.0 { slope * x } else { x }),
        ("sigmoid", _) => Box::new(sigmoid),
        ("tanh", _) => Box::new(f64::tanh),
        ("gelu", _) => Box::new(gelu),
        ("gelu_tanh", _) => Box::new(gelu_tanh),
        ("silu", _) => Box::new(|x| x * sigmoid(x)),
        ("hard_sigmoid", &[a, b]) => Box::new(move |x| min(1.0, max(0.0, a * x + b))),
        ("hard_swish", _) => Box::new(hard_swish),
        ("elu", &[a]) => Box::new(move |x| if x < 0.0 { a * x.exp_m1() } else { x }),
        _ => {
            return Err(bad(
                format!("attribute `{key}`"),
                format!("{name} with {params:?}"),
                "an activation and its numbers",
            ));
        }
    };
    y.iter_mut().for_each(|v| *v = f(*v));
    Ok(())
}

/// Applies the steps to the result `y`, which they refer to as `%0`.
fn follow(ctx: &KernelCtx<'_>, y: Vec<f64>) -> Result<Vec<f64>> {
    let texts = ctx.attrs.get("steps").and_then(AttrValue::as_strs).unwrap_or_default();
    if texts.is_empty() {
        return Ok(y);
    }
    let (n, mut values) = (y.len(), vec![y]);
    for s in parse(texts, 1).map_err(Error::failed)? {
        let y = compute(&s, &values, n, DType::F32)?;
        values.push(y);
    }
    Ok(values.pop().unwrap_or_default())
}

/// Adds input `i`, if given; it must have the output's shape.
fn add_residual(ctx: &KernelCtx<'_>, i: usize, shape: &[usize], y: &mut [f64]) -> Result<()> {
    let Some(r) = Arg::opt(ctx, i)? else { return Ok(()) };
    r.need_shape(shape)?;
    y.iter_mut().zip(r.f64s()?).for_each(|(y, r)| *y += r);
    Ok(())
}
fn run_conv(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, w, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::opt(ctx, 2)?);
    let (shape, mut y) = conv::<f64>(ctx, &x, &w, b.as_ref())?;
    add_residual(ctx, 3, &shape, &mut y)?;
    activate(ctx, &mut y)?;
    put_f64(ctx, 0, &shape, &follow(ctx, y)?)
}
fn run_pair(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(4, 4)?;
    let depthwise_first = text(ctx, "depthwise", "first") == "first";
    let (strides, pads) = (spatial_list(ctx, "strides", 4, 1)?, cann_pads(ctx, 2)?);
    let mut size = [x.shape[0], x.shape[1], x.shape[2], x.shape[3]];
    let mut y = x.f64s()?;
    for (at, plane) in [(1, depthwise_first), (3, !depthwise_first)] {
        let (w, b) = (Arg::of(ctx, at)?, Arg::opt(ctx, at + 1)?);
        w.need_rank(4, 4)?;
        let groups = if plane { size[1] } else { 1 };
        if groups == 0 {
            return Err(bad("x", "no channels", "at least one"));
        }
        check(size[1], w.shape[1], w.shape[0], groups)?;
        let kernel = [w.shape[2] as i64, w.shape[3] as i64];
        let (s, p) = if plane { (&strides[..], &pads[..]) } else { (&[1, 1][..], &[(0, 0); 2][..]) };
        let ax = axes(ctx, Apart::FromTheFirst, &size[2..], &kernel, s, &[1, 1], p)?;
        let sizes = Sizes { n: size[0], c: size[1], o: w.shape[0], groups, ax: three(&ax)? };
        y = convolve(&sizes, &y, &widen::<f64>(&w)?, bias_of(b.as_ref(), sizes.o)?.as_deref())?;
        size = [size[0], sizes.o, ax[0].output, ax[1].output];
        if at == 1 {
            activate_by(ctx, ["first_activation", "first_activation_params"], &mut y)?;
        }
    }
    add_residual(ctx, 5, &size, &mut y)?;
    activate(ctx, &mut y)?;
    put_f64(ctx, 0, &size, &y)
}
fn run_matmul(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    let swaps = (flag(ctx, "transpose_x1", false), flag(ctx, "transpose_x2", false));
    let (shape, mut y) = batched(&widen::<f64>(&a)?, &a.shape, &widen::<f64>(&b)?, &b.shape, swaps, None)?;
    let alpha = float_attr(ctx, "alpha", 1.0);
    y.iter_mut().for_each(|v| *v *= alpha);
    if let Some(bias) = Arg::opt(ctx, 2)? {
        let n = shape.last().copied().unwrap_or(1);
        if bias.len != n || n == 0 {
            return Err(bad("input 2 `bias`", format!("shape {:?}", bias.shape), format!("[{n}]")));
        }
        let bias = bias.f64s()?;
        y.iter_mut().enumerate().for_each(|(i, v)| *v += bias[i % n]);
    }
    add_residual(ctx, 3, &shape, &mut y)?;
    activate(ctx, &mut y)?;
    put_f64(ctx, 0, &shape, &follow(ctx, y)?)
}
/// The weights, bytes in panels of sixteen columns, are first rearranged to rows and scaled.
fn run_weight_matmul(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, scale) = (Arg::of(ctx, 0)?, Arg::of(ctx, 2)?);
    let (k, n) = (a.shape.last().copied().unwrap_or(0), scale.shape.last().copied().unwrap_or(0));
    let w = quantised_weights(ctx, [k, n], &scale)?;
    let (shape, mut y) = batched(&widen::<f64>(&a)?, &a.shape, &w, &[k, n], (false, false), None)?;
    if let Some(bias) = Arg::opt(ctx, 3)? {
        bias.need_shape(&[n])?;
        let bias = bias.f64s()?;
        y.iter_mut().enumerate().for_each(|(i, v)| *v += bias[i % n]);
    }
    add_residual(ctx, 4, &shape, &mut y)?;
    activate(ctx, &mut y)?;
    put_f64(ctx, 0, &shape, &y)
}
/// The matrix `[k, n]` of `FusedWeightMatMul`: (q - offset)·scale.
fn quantised_weights(ctx: &KernelCtx<'_>, [k, n]: [usize; 2], scale: &Arg<'_>) -> Result<Vec<f64>> {
    let panels = Arg::of(ctx, 1)?;
    let halves = panels.dtype == DType::U8;
    let lines = if halves { k.div_ceil(2) } else { k };
    panels.need_shape(&[n.div_ceil(16), lines, 16])?;
    let group = match usize::try_from(ctx.attrs.int("group_size").unwrap_or(0)) {
        Ok(0) => k.max(1),
        Ok(rows) => rows,
        Err(_) => return Err(bad("attribute `group_size`", "a negative number", "0, or a number of rows")),
    };
    let needs = if scale.rank() == 1 && k <= group { vec![n] } else { vec![k.div_ceil(group), n] };
    scale.need_shape(&needs)?;
    let offset = Arg::opt(ctx, 5)?;
    offset.as_ref().map_or(Ok(()), |o| o.need_shape(&needs))?;
    let offset = offset.map(|o| o.f64s()).transpose()?;
    let (bytes, scale) = (panels.i64s()?, scale.f64s()?);
    let mut w = filled(count(&[k, n])?, 0f64)?;
    for (at, w) in w.iter_mut().enumerate() {
        let (i, j) = (at / n, at % n);
        let byte = |line: usize| bytes[(j / 16 * lines + line) * 16 + j % 16];
        let q = if halves { (byte(i / 2) >> (i % 2 * 4) & 15) - 8 } else { byte(i) };
        let s = i / group * n + j;
        *w = (q as f64 - offset.as_ref().map_or(0.0, |o| o[s])) * scale[s];
    }
    Ok(w)
}
/// The product is computed in 64-bit integers and everything after it in double precision, except
/// the division by the output scale, which is in single precision as in QuantizeLinear.
fn run_quant_matmul(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (a, sa, b, sb) = (Arg::of(ctx, 0)?, Arg::opt(ctx, 1)?, Arg::of(ctx, 3)?, Arg::of(ctx, 4)?);
    let (za, zb) = (Arg::opt(ctx, 2)?, Arg::opt(ctx, 5)?);
    let turned = flag(ctx, "transpose_x2", false);
    // What belongs to columns belongs to rows if the matrix is transposed.
    let (va, own_scale) = if a.dtype == DType::F32 {
        let (bytes, scale, zero) = by_extremes(a.values()?);
        (bytes.into_iter().map(|v| v as i64 - zero as i64).collect(), Some(f64::from(scale)))
    } else {
        (less_zero(&a, za.as_ref(), Part::A, false)?, None)
    };
    let vb = less_zero(&b, zb.as_ref(), Part::B, turned)?;
    let (shape, sums) = batched(&va, &a.shape, &vb, &b.shape, (false, turned), None)?;
    let n = if b.rank() > 1 { shape.last().copied().unwrap_or(1).max(1) } else { 1 };
    let bias = Arg::opt(ctx, 8)?;
    for (arg, most) in [(sa.as_ref(), 1), (Some(&sb), n), (bias.as_ref(), n)] {
        if let Some(v) = arg.filter(|v| v.len != most && (v.len != 1 || v.index == 8)) {
            return Err(bad(format!("input {}", v.index), format!("{} numbers", v.len), format!("{most}")));
        }
    }
    let given = sa.map(|s| s.f64s()).transpose()?.map(|s| s[0]);
    let sa = own_scale.or(given).ok_or_else(|| bad("input 1 `a_scale`", "nothing", "a scale"))?;
    let sb = sb.f64s()?;
    let bias = bias.map(|b| b.f64s()).transpose()?;
    let mut y = crate::args::room(sums.len())?;
    for (i, s) in sums.into_iter().enumerate() {
        let scale = sa * sb[if sb.len() == 1 { 0 } else { i % n }];
        y.push(s as f64 * scale + bias.as_ref().map_or(0.0, |b| b[i % n]));
    }
    activate(ctx, &mut y)?;
    if let Some(sy) = Arg::opt(ctx, 6)? {
        let zy = Arg::of(ctx, 7)?;
        let (sy, zy, d) = (sy.f64s()?, zy.i64s()?, ctx.output_dtype(0).unwrap_or_default());
        let (&[sy], &[zy]) = (sy.as_slice(), zy.as_slice()) else {
            return Err(bad("inputs 6 and 7", "several numbers", "one scale and one zero point"));
        };
        y.iter_mut().for_each(|v| *v = saturate(f64::from(*v as f32 / sy as f32), zy, d) as f64);
    }
    put_f64(ctx, 0, &shape, &y)
}

/// Computes one step over all elements, rounded to single precision.
pub fn compute(s: &Step, values: &[Vec<f64>], n: usize, out: DType) -> Result<Vec<f64>> {
    let mut y = exactly(s, values, n, out)?;
    y.iter_mut().for_each(|v| *v = single(*v));
    Ok(y)
}

/// Rounds to single precision.
pub fn single(v: f64) -> f64 {
    f64::from(v as f32)
}

/// Computes one step over all elements in double precision. Literal numbers are rounded to single
/// precision.
fn exactly(s: &Step, values: &[Vec<f64>], n: usize, out: DType) -> Result<Vec<f64>> {
    let of = |i: usize| match s.args.get(i) {
        Some(Operand::Value(k)) => Ok(values[*k].clone()),
        Some(Operand::Number(v)) => filled(n, single(*v)),
        None => Err(bad(format!("step {}", s.op), format!("{} operands", s.args.len()), "one more")),
    };
    let number = |i: usize| match s.args.get(i) {
        Some(Operand::Number(v)) => Ok(single(*v)),
        _ => Err(bad(format!("step {}", s.op), format!("operand {i}"), "a number")),
    };
    let pair: Option<fn(f64, f64) -> f64> = match s.op.as_str() {
        "Add" => Some(|a, b| a + b),
        "Sub" => Some(|a, b| a - b),
        "Mul" => Some(|a, b| a * b),
        "Div" | "RealDiv" => Some(|a, b| a / b),
        "Maximum" => Some(max),
        "Minimum" => Some(min),
        "Pow" => Some(f64::powf),
        "SquaredDifference" => Some(|a, b| (a - b) * (a - b)),
        "PRelu" => Some(|a, b| if a < 0.0 { a * b } else { a }),
        _ => None,
    };
    let mut x = of(0)?;
    if let Some(f) = pair {
        x.iter_mut().zip(of(1)?).for_each(|(a, b)| *a = f(*a, b));
        return Ok(x);
    }
    let given = s.args.len() - 1;
    let (a, b) = (if given > 0 { number(1)? } else { 1.0 }, if given > 1 { number(2)? } else { 0.0 });
    if let Some(f) = plain_map(&s.op).filter(|_| given == 0) {
        x.iter_mut().for_each(|v| *v = f(*v));
        return Ok(x);
    }
    let f: Box<dyn Fn(f64) -> f64> = match s.op.as_str() {
        "Clip" => Box::new(move |x| min(max(x, a), b)),
        "Gelu" if given == 0 => Box::new(gelu),
        "Gelu" => Box::new(gelu_tanh),
        "Swish" => Box::new(move |x| x * sigmoid(a * x)),
        "HardSigmoid" => Box::new(move |x| min(1.0, max(0.0, a * x + b))),
        "LeakyRelu" => Box::new(move |x| if x < 0.0 { a * x } else { x }),
        "Elu" => Box::new(move |x| if x < 0.0 { a * x.exp_m1() } else { x }),
        "Selu" => Box::new(move |x| b * if x > 0.0 { x } else { a * x.exp_m1() }),
        "Muls" => Box::new(move |x| x * a),
        "Adds" => Box::new(move |x| x + a),
        "Dequantize" => Box::new(move |x| (x - b) * a),
        // The quotient is in single precision, as in QuantizeLinear.
        "Quantize" => Box::new(move |x| saturate(f64::from(x as f32 / a as f32), b as i64, out) as f64),
        other => return Err(bad("attribute `steps`", other, "an element-wise operator")),
    };
    x.iter_mut().for_each(|v| *v = f(*v));
    Ok(x)
}
fn run_chain(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let args = crate::args::all(ctx, 0)?;
    let texts = ctx.attrs.get("steps").and_then(AttrValue::as_strs).unwrap_or_default();
    let steps = parse(texts, args.len()).map_err(Error::failed)?;
    let mut shape = Vec::new();
    for a in &args {
        shape = broadcast_shapes(&shape, &a.shape).map_err(view_error)?;
    }
    let n = count(&shape)?;
    let mut values = Vec::new();
    for a in &args {
        values.push(a.f64s()?);
        let (l, v) = (a.broadcast(&shape)?, values.pop().unwrap_or_default());
        let mut wide = crate::args::room(n)?;
        ge_kernels::view::Nest::new(&shape, [&l]).each_run(|[p], len, [s]| {
            wide.extend((0..len as isize).map(|i| v[(p + i * s) as usize]));
        });
        values.push(wide);
    }
    let out = ctx.output_dtype(0).unwrap_or(DType::F32);
    for s in &steps {
        let y = compute(s, &values, n, out)?;
        values.push(y);
    }
    let y = values.pop().unwrap_or_default();
    put_f64(ctx, 0, &shape, &y)
}
fn run_masked(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, mask) = (Arg::of(ctx, 0)?, Arg::opt(ctx, 1)?);
    let scale = float_attr(ctx, "scale", 1.0);
    let mut y = x.f64s()?;
    y.iter_mut().for_each(|v| *v *= scale);
    if let Some(m) = mask {
        let (l, v) = (m.broadcast(&x.shape)?, m.f64s()?);
        let mut at = 0;
        ge_kernels::view::Nest::new(&x.shape, [&l]).each_run(|[p], len, [s]| {
            for (i, y) in y[at..at + len].iter_mut().enumerate() {
                *y += v[(p + i as isize * s) as usize];
            }
            at += len;
        });
    }
    let len = x.shape.last().copied().unwrap_or(1).max(1);
    y.chunks_exact_mut(len).for_each(softmax);
    put_f64(ctx, 0, &x.shape, &y)
}

const SINGLE: &[DType] = &[DType::F32];
const BYTE_OR_SINGLE: &[DType] = &[DType::I8, DType::U8, DType::F32];
const CHAINED: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8];
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("FusedConv", run_conv, &[FLOAT]).gives(&[FLOAT]),
    Op::new("FusedConvPair", run_pair, &[FLOAT]).gives(&[FLOAT]),
    Op::new("FusedMatMul", run_matmul, &[FLOAT]).gives(&[FLOAT]),
    Op::new(
        "FusedQuantMatMul",
        run_quant_matmul,
        &[BYTE_OR_SINGLE, SINGLE, BYTE, BYTE, SINGLE, BYTE, SINGLE, BYTE, SINGLE],
    )
    .gives(&[CHAINED]),
    Op::new("FusedWeightMatMul", run_weight_matmul, &[FLOAT, BYTE, SINGLE, FLOAT, FLOAT, SINGLE]).gives(&[FLOAT]),
    Op::new("FusedElementwise", run_chain, &[CHAINED]).gives(&[CHAINED]),
    Op::new("ScaledMaskedSoftmax", run_masked, &[FLOAT]).gives(&[FLOAT]),
];
