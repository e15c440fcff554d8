//! `FastGelu`, `Gelu`, `BiasGelu`, `QuickGelu`: become built-in activations, after an optional
//! bias.
use crate::shared::{Outs, named, plus};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;

fn gelu(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = plus(b, n.input(0)?, n.opt_input(1));
    Ok(vec![named(n, b, "Gelu", &[x])])
}
map_op!("onnx", "com.microsoft", "Gelu", 1..=u32::MAX, gelu);
map_op!("onnx", "com.microsoft", "BiasGelu", 1..=u32::MAX, gelu);

fn fast_gelu(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = plus(b, n.input(0)?, n.opt_input(1));
    Ok(vec![b.node("Gelu").name(&n.name).input(x).attr("approximate", "tanh").build()])
}
map_op!("onnx", "com.microsoft", "FastGelu", 1..=u32::MAX, fast_gelu);

fn quick_gelu(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let alpha = n.float_or("alpha", 1.702);
    Ok(vec![b.node("Swish").name(&n.name).input(n.input(0)?).attr("scale", alpha).build()])
}
map_op!("onnx", "com.microsoft", "QuickGelu", 1..=u32::MAX, quick_gelu);
