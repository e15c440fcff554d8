//! `FusedConv`, `FusedGemm`: a convolution or a product with an activation, and a tensor that is
//! added before it, as written by onnxruntime's optimiser. They become the operators that they were
//! made of, which the engines fuse for their own kernels.
use crate::declare::ort_op;
use crate::shared::{Outs, plus, rank, real_like, unsqueezed};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::ValueRef;

/// Applies the activation that a node names to `x`; `number` returns its parameter by index and
/// name.
fn activated(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    x: ValueRef,
    number: impl Fn(usize, &str, f64) -> f64,
) -> Result<ValueRef> {
    let named = n.str_or("activation", "");
    let (op, attrs): (&str, &[(&str, &str, f64)]) = match named {
        "" => return Ok(b.node("Identity").name(&n.name).input(x).build()),
        "Relu" | "Sigmoid" | "Tanh" | "Softplus" | "Softsign" | "HardSwish" => (named, &[]),
        "LeakyRelu" => (named, &[("alpha", "negative_slope", 0.01)]),
        "Elu" | "Celu" | "ThresholdedRelu" => (named, &[("alpha", "alpha", 1.0)]),
        "HardSigmoid" => (named, &[("alpha", "alpha", 0.2), ("beta", "beta", 0.5)]),
        // A factor before the function, and one after it.
        "ScaledTanh" | "ParametricSoftplus" | "Selu" => {
            let alpha = number(0, "alpha", 1.0);
            let (op, before, after) = match named {
                "ScaledTanh" => ("Tanh", number(1, "beta", 1.0), alpha),
                "ParametricSoftplus" => ("Softplus", number(1, "beta", 1.0), alpha),
                _ => ("Elu", 1.0, number(1, "gamma", 1.0)),
            };
            let x = b.node("Muls").input(x).attr("value", before).build();
            let d = b.node(op).input(x);
            let y = if op == "Elu" { d.attr("alpha", alpha) } else { d }.build();
            return Ok(b.node("Muls").name(&n.name).input(y).attr("value", after).build());
        }
        "Clip" => {
            let low = real_like(n, b, "min", number(0, "min", f64::from(f32::MIN)))?;
            let high = real_like(n, b, "max", number(1, "max", f64::from(f32::MAX)))?;
            return Ok(b.node("ClipByValue").name(&n.name).input(x).input(low).input(high).build());
        }
        other => return Err(n.refuse(format!("activation {other} is not computed"))),
    };
    let mut d = b.node(op).name(&n.name).input(x);
    for (at, (theirs, ours, or)) in attrs.iter().enumerate() {
        d = d.attr(ours, number(at, theirs, *or));
    }
    Ok(d.build())
}

/// A list attribute of the spatial axes, extended to all axes of an image: batch and channels get
/// `or`, and so does the added height if there is one spatial axis.
fn full(n: &ForeignNode, key: &str, spatial: usize, or: i64) -> Result<Vec<i64>> {
    let given = n.attrs.ints(key).map_or_else(|| vec![or; spatial], <[i64]>::to_vec);
    if given.len() != spatial {
        return Err(n.refuse(format!("attribute `{key}` has {} numbers, expected {spatial}", given.len())));
    }
    Ok([or].repeat(2 + usize::from(spatial == 1)).into_iter().chain(given).collect())
}

fn conv(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let axes = rank(n, 1).or(rank(n, 0)).or(n.attrs.ints("kernel_shape").map(|k| k.len() + 2));
    let Some(spatial @ 1..=3) = axes.and_then(|r| r.checked_sub(2)) else {
        return Err(
            n.refuse("one to three spatial axes are taken, and neither filter nor input says how many there are")
        );
    };
    let (op, format) = if spatial == 3 { ("Conv3D", "NCDHW") } else { ("Conv2D", "NCHW") };
    let line = spatial == 1;
    let pads = n.attrs.ints("pads").map_or_else(|| vec![0; 2 * spatial], <[i64]>::to_vec);
    if pads.len() != 2 * spatial {
        return Err(n.refuse(format!("attribute `pads` has {} numbers, expected {}", pads.len(), 2 * spatial)));
    }
    let pads = (0..spatial).flat_map(|i| [pads[i], pads[spatial + i]]);
    let raised = |b: &mut GraphBuilder<'_>, v: ValueRef| if line { unsqueezed(b, v, &[2]) } else { v };
    let (x, w) = (raised(b, n.input(0)?), raised(b, n.input(1)?));
    let y = b
        .node(op)
        .input(x)
        .input(w)
        .opt_input(n.opt_input(2))
        .attr("strides", full(n, "strides", spatial, 1)?)
        .attr("pads", [0, 0].repeat(usize::from(line)).into_iter().chain(pads).collect::<Vec<i64>>())
        .attr("dilations", full(n, "dilations", spatial, 1)?)
        .attr("groups", n.int_or("group", 1))
        .attr("data_format", format)
        .attr("auto_pad", n.str_or("auto_pad", "NOTSET"))
        .build();
    let y = if line { b.node("Squeeze").input(y).attr("axis", vec![2i64]).build() } else { y };
    let y = plus(b, y, n.opt_input(3));
    let params = n.attrs.floats("activation_params").unwrap_or_default();
    let y = activated(n, b, y, |at, _, or| params.get(at).copied().unwrap_or(or))?;
    Ok(vec![y])
}
ort_op!(
    "FusedConv",
    4,
    ["activation", "activation_params", "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"],
    conv
);

fn gemm(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let scaled = |b: &mut GraphBuilder<'_>, v: ValueRef, by: f64| match by {
        1.0 => v,
        _ => b.node("Muls").input(v).attr("value", by).build(),
    };
    let product = b
        .node("MatMulV2")
        .input(n.input(0)?)
        .input(n.input(1)?)
        .attr("transpose_x1", n.int_or("transA", 0) != 0)
        .attr("transpose_x2", n.int_or("transB", 0) != 0)
        .build();
    let y = scaled(b, product, n.float_or("alpha", 1.0));
    let beta = n.float_or("beta", 1.0);
    let c = n.opt_input(2).filter(|_| beta != 0.0).map(|c| scaled(b, c, beta));
    let y = plus(b, y, c);
    let y = activated(n, b, y, |_, key, or| n.float_or(&format!("activation_{key}"), or))?;
    Ok(vec![y])
}
ort_op!(
    "FusedGemm",
    3,
    ["activation", "activation_alpha", "activation_beta", "activation_gamma", "alpha", "beta", "transA", "transB"],
    gemm
);
