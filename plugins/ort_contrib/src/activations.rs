//! `FastGelu`, `Gelu`, `BiasGelu`, `QuickGelu`: become built-in activations, after an optional
//! bias.
use crate::declare::ort_op;
use crate::shared::{Outs, named, plus};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};

fn gelu(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = plus(b, n.input(0)?, n.opt_input(1));
    Ok(vec![named(n, b, "Gelu", &[x])])
}
ort_op!("Gelu", 1, [], gelu);
ort_op!("BiasGelu", 2, [], gelu);

fn fast_gelu(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let x = plus(b, n.input(0)?, n.opt_input(1));
    Ok(vec![b.node("Gelu").name(&n.name).input(x).attr("approximate", "tanh").build()])
}
ort_op!("FastGelu", 2, [], fast_gelu);

fn quick_gelu(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let alpha = n.float_or("alpha", 1.702);
    Ok(vec![b.node("Swish").name(&n.name).input(n.input(0)?).attr("scale", alpha).build()])
}
ort_op!("QuickGelu", 1, ["alpha"], quick_gelu);
