//! What follows a product or a convolution in the same kernel: the activation by name, and the
//! residual.
use crate::sig::{Answer, Sig};
use ge_kernels::simd::Act;

/// An activation by its name and numbers (`plugins/ops/src/fused.rs`).
///
/// # Errors
/// Where there is none.
pub fn act_named(name: &str, numbers: &[f64]) -> Answer<Act> {
    let n: Vec<f32> = numbers.iter().map(|v| *v as f32).collect();
    Ok(match (name, n.as_slice()) {
        ("none" | "", []) => Act::None,
        ("relu", []) => Act::Relu,
        ("clip", &[low, high]) => Act::Clip(low, high),
        ("leaky_relu", &[slope]) => Act::LeakyRelu(slope),
        ("sigmoid", []) => Act::Sigmoid,
        ("tanh", []) => Act::Tanh,
        ("gelu", []) => Act::Gelu,
        ("gelu_tanh", []) => Act::GeluTanh,
        ("silu", []) => Act::Silu,
        ("hard_sigmoid", &[alpha, beta]) => Act::HardSigmoid(alpha, beta),
        ("hard_swish", []) => Act::HardSwish,
        ("elu", &[alpha]) => Act::Elu(alpha),
        _ => return Err(format!("activation `{name}` with {} numbers", n.len())),
    })
}

/// Activation and residual of an operator; only `fused` has them: input 3 of others is `offset_w`.
///
/// # Errors
/// An unknown activation, a residual of another shape, `offset_w`.
pub fn epilogue(sig: &Sig, fused: &str) -> Answer<(Act, bool)> {
    if sig.op != fused {
        return if sig.opt_input(3).is_some() {
            Err("input 3 `offset_w` is given".into())
        } else {
            Ok((Act::None, false))
        };
    }
    let act = act_named(sig.text("activation", "none"), sig.attrs.floats("activation_params").unwrap_or(&[]))?;
    let y = sig.output(0)?;
    match sig.opt_input(3) {
        Some(r) if r.shape != y.shape => Err(format!("input 3 is {:?}, output 0 {:?}", r.shape, y.shape)),
        r => Ok((act, r.is_some())),
    }
}
