//! `QuantConvFusionPass`: a convolution between DequantizeLinear and QuantizeLinear becomes
//! `QLinearConv`. It runs before constants are folded, which would replace the 8-bit filter. A ReLU
//! before the quantisation is dropped, since saturation at the zero point has the same effect.
use crate::families::quant::divides_in_f32;
use ge_plugin_api::fusion::{Match, Pattern, PatternFusion, Replacement, Verdict};
use ge_plugin_api::pass::{PassInfo, PassLevel, PassStage};
use ge_plugin_api::types::{ConstTensor, DType, ValueRef};

/// The pass `QuantConvFusionPass`.
pub struct QuantConvFusion;

fn bytes(c: &ConstTensor) -> bool {
    matches!(c.dtype, DType::I8 | DType::U8)
}
fn one(c: &ConstTensor) -> bool {
    c.count() == Some(1)
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
        if !divides_in_f32(m.node("quantise").attr("precision")) {
            return Err("the quantisation does not divide in f32".into());
        }
        let numbers = |name: &str| m.constant(name).and_then(|c| c.to_f64(1 << 16)).unwrap_or_default();
        if m.maybe("relu").is_some() {
            let least = if m.constant("zy").is_some_and(|c| c.dtype == DType::U8) { 0.0 } else { -128.0 };
            if numbers("zy") != [least] {
                return Err("the zero point of the output is not its least number: saturation is no ReLU".into());
            }
        }
        if m.node("filter").int("axis").is_some_and(|a| a != 0) && numbers("sw").len() > 1 {
            return Err("the filter's scales are not by output channel".into());
        }
        if conv.str("data_format").is_some_and(|f| f.ends_with('C')) {
            return Err("channels are last".into());
        }
        if m.maybe("b").is_some() {
            let (sx, sw, sb) = (numbers("sx"), numbers("sw"), numbers("sb"));
            let near = |(i, b): (usize, &f64)| {
                let want = sx[0] * sw.get(i).or(sw.first()).copied().unwrap_or(0.0);
                (b - want).abs() <= 1e-5 * want.abs()
            };
            let whole = m.constant("b").is_some_and(|c| c.dtype == DType::I32);
            if !whole || numbers("zb").iter().any(|z| *z != 0.0) || !sb.iter().enumerate().all(near) {
                return Err("the bias is not in steps of the scales of input and filter".into());
            }
        }
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
