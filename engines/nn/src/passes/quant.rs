//! `QuantConvFusionPass`: a convolution between DequantizeLinear and QuantizeLinear becomes
//! `QLinearConv`. It runs before constants are folded, which would replace the 8-bit filter. A ReLU
//! before the quantisation is dropped, since saturation at the zero point has the same effect.
use crate::families::quant::divides_in_f32;
use ge_plugin_api::fusion::{Match, Pattern, PatternFusion, Replacement, Verdict};
use ge_plugin_api::pass::{PassInfo, PassLevel, PassStage};
use ge_plugin_api::types::{ConstTensor, DType, ValueRef};

/// The pass `QuantConvFusionPass`.
pub struct QuantConvFusion;

/// Largest product of two 8-bit integers minus their zero points.
const MOST_PRODUCT: f64 = 255.0 * 255.0;

fn bytes(c: &ConstTensor) -> bool {
    matches!(c.dtype, DType::I8 | DType::U8)
}
fn one(c: &ConstTensor) -> bool {
    c.count() == Some(1)
}
/// The numbers of a constant of the match.
fn numbers(m: &Match<'_>, name: &str) -> Verdict<Vec<f64>> {
    let known = m.constant(name).and_then(|c| c.to_f64(1 << 16));
    known.ok_or_else(|| "a scale, a zero point or the bias is no constant, or is too long".into())
}

/// The sizes of the filter: output channels first.
fn filter_sizes<'g>(m: &Match<'g>) -> Verdict<(u64, &'g [u64])> {
    let dims = m.constant("w").map(|c| c.dims.as_slice());
    let (channels, taps) = dims.and_then(<[u64]>::split_first).ok_or("the filter has no axes")?;
    Ok((*channels, taps))
}

/// Refuses scales and zero points that are neither one number nor one per output channel.
fn scales_by_channel(m: &Match<'_>) -> Verdict {
    let g = m.graph();
    if m.nodes().iter().any(|n| g.node(*n).int("block_size").is_some_and(|b| b != 0)) {
        return Err("scales are by blocks".into());
    }
    let (channels, _) = filter_sizes(m)?;
    let along = m.node("filter").int("axis").unwrap_or(1) == 0;
    let fits = |c: &ConstTensor| c.dims.len() <= 1 && (one(c) || (along && c.dims == [channels]));
    if !["sw", "zw"].iter().all(|name| m.constant(name).is_some_and(fits)) {
        return Err("the filter's scales are not by output channel".into());
    }
    Ok(())
}

/// Refuses a bias whose steps are not the product of the scales of input and filter.
fn bias_in_steps(m: &Match<'_>) -> Verdict {
    if m.maybe("b").is_none() {
        return Ok(());
    }
    let channels = filter_sizes(m)?.0 as usize;
    let (sx, sw, sb) = (numbers(m, "sx")?, numbers(m, "sw")?, numbers(m, "sb")?);
    let of = |v: &[f64], i: usize| v.get(i).or(v.first()).copied().unwrap_or(0.0);
    let near = |i: usize| {
        let want = of(&sx, 0) * of(&sw, i);
        (of(&sb, i) - want).abs() <= 1e-5 * want.abs()
    };
    let whole = m.constant("b").is_some_and(|c| c.dtype == DType::I32) && (sb.len() == 1 || sb.len() == channels);
    let shifted = m.maybe("zb").is_some() && numbers(m, "zb")?.iter().any(|z| *z != 0.0);
    if !whole || shifted || !(0..channels).all(near) {
        return Err("the bias is not in steps of the scales of input and filter".into());
    }
    Ok(())
}

/// Refuses sums of products and bias that can leave 32 bits.
fn sums_fit(m: &Match<'_>) -> Verdict {
    let (_, taps) = filter_sizes(m)?;
    let products = taps.iter().map(|d| *d as f64).product::<f64>();
    let bias = if m.maybe("b").is_some() { numbers(m, "b")? } else { Vec::new() };
    let most = bias.iter().fold(0.0, |most: f64, b| most.max(b.abs()));
    if most + products * MOST_PRODUCT > f64::from(i32::MAX) {
        return Err(format!("a sum can leave 32 bits: products of bytes: {products}, largest bias: {most}"));
    }
    Ok(())
}

impl PatternFusion for QuantConvFusion {
    fn info(&self) -> PassInfo {
        PassInfo::new(
            "QuantConvFusionPass",
            PassStage::BEFORE_INFER_SHAPE,
            PassLevel::O3,
            "makes a convolution of bytes of one between dequantisation and quantisation",
        )
    }
    fn patterns(&self) -> Vec<Pattern> {
        let of = |form: usize| {
            Pattern::new(move |p| {
                let scalar = |name: &str| p.constant_if(name, one);
                let x =
                    p.op("DequantizeLinear", [p.input("x"), scalar("sx"), p.constant_if("zx", |c| one(c) && bytes(c))]);
                let filter = [p.constant_if("w", bytes), p.constant("sw"), p.constant_if("zw", bytes)];
                let w = p.op("DequantizeLinear", filter).named("filter");
                let y = if form.is_multiple_of(2) {
                    let b = p.op("DequantizeLinear", [p.constant("b"), p.constant("sb"), p.maybe("zb")]);
                    p.op("Conv2D", [x, w, b])
                } else {
                    p.op("Conv2D", [x, w])
                };
                let y = y.named("conv");
                let y = if form < 2 { p.op("Relu", [y]).named("relu") } else { y };
                p.op("QuantizeLinear", [y, scalar("sy"), p.constant_if("zy", |c| one(c) && bytes(c))]).named("quantise")
            })
        };
        (0..4).map(of).collect()
    }
    fn replacement(&self, m: &Match<'_>, r: &Replacement<'_>) -> Verdict<Vec<ValueRef>> {
        let conv = m.node("conv");
        let scale = m.constant("sy").map_or(DType::UNKNOWN, |c| c.dtype);
        if !divides_in_f32(m.node("quantise").attr("precision"), scale) {
            return Err("the quantisation does not divide in f32".into());
        }
        if m.maybe("relu").is_some() {
            let least = if m.constant("zy").is_some_and(|c| c.dtype == DType::U8) { 0.0 } else { -128.0 };
            if numbers(m, "zy")? != [least] {
                return Err("the zero point of the output is not its least number: saturation is no ReLU".into());
            }
            if !numbers(m, "sy")?.iter().all(|s| *s > 0.0) {
                return Err("the scale of the output is not positive: saturation is no ReLU".into());
            }
        }
        if conv.str("data_format").is_some_and(|f| f.ends_with('C')) {
            return Err("channels are last".into());
        }
        scales_by_channel(m)?;
        bias_in_steps(m)?;
        sums_fit(m)?;
        // ONNX's form: one number per spatial axis, all begins before all ends.
        let spatial = |key: &str| conv.ints(key).filter(|v| v.len() == 4).map_or(vec![1, 1], |v| v[2..].to_vec());
        let pads = match conv.ints("pads") {
            None | Some([]) => vec![0; 4],
            Some(&[top, bottom, left, right]) => vec![top, left, bottom, right],
            Some(_) => return Err("the convolution is not of images".into()),
        };
        let names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"];
        let made = r
            .op("QLinearConv", names.map(|n| m.value(n)))
            .attr("strides", spatial("strides"))
            .attr("dilations", spatial("dilations"))
            .attr("pads", pads)
            .attr("group", conv.int("groups").unwrap_or(1))
            .attr("auto_pad", conv.str("auto_pad").unwrap_or("NOTSET"));
        Ok(vec![made.into()])
    }
}
