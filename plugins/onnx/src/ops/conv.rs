//! `Conv`, `ConvTranspose`: one to three spatial axes; a single axis is treated as two, with a
//! height of 1.
use super::{Outs, paired, rank};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;
use ge_plugin_api::types::ValueRef;

/// Number of spatial axes, from the filter, the input or the attributes.
fn spatial(n: &ForeignNode) -> Result<usize> {
    let k = rank(n, 1).or(rank(n, 0)).and_then(|r| r.checked_sub(2));
    let k =
        k.or_else(|| ["kernel_shape", "strides", "dilations"].iter().find_map(|a| n.attrs.ints(*a).map(<[i64]>::len)));
    match k {
        Some(k @ 1..=3) => Ok(k),
        Some(k) => Err(n.refuse(format!("{k} spatial axes; one to three are taken"))),
        None => Err(n.refuse("the number of spatial axes is not known: neither filter nor input has a known rank")),
    }
}
/// A list attribute extended to the full rank; with one spatial axis, an extra axis is put in front
/// of it.
fn full(n: &ForeignNode, key: &str, k: usize, default: i64) -> Result<Vec<i64>> {
    let given = match n.attrs.ints(key) {
        None => vec![default; k],
        Some(v) if v.len() == k => v.to_vec(),
        Some(v) => return Err(n.refuse(format!("attribute `{key}` has {} numbers, expected {k}", v.len()))),
    };
    let mut out = vec![default; 2 + usize::from(k == 1)];
    out.extend(given);
    Ok(out)
}
fn pads(n: &ForeignNode, k: usize) -> Result<Vec<i64>> {
    let given = n.attrs.ints("pads").map(<[i64]>::to_vec).unwrap_or_else(|| vec![0; 2 * k]);
    if given.len() != 2 * k {
        return Err(n.refuse(format!("attribute `pads` has {} numbers, expected {}", given.len(), 2 * k)));
    }
    let mut out = if k == 1 { vec![0, 0] } else { Vec::new() };
    out.extend(paired(n, &given)?);
    Ok(out)
}
fn raise(b: &mut GraphBuilder<'_>, v: ValueRef, k: usize) -> ValueRef {
    if k == 1 { b.node("Unsqueeze").input(v).attr("axes", vec![2i64]).build() } else { v }
}

fn conv(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let k = spatial(n)?;
    let (x, w) = (raise(b, n.input(0)?, k), raise(b, n.input(1)?, k));
    let (op, format) = if k == 3 { ("Conv3D", "NCDHW") } else { ("Conv2D", "NCHW") };
    let y = b
        .node(op)
        .name(if k == 1 { "" } else { &n.name })
        .input(x)
        .input(w)
        .opt_input(n.opt_input(2))
        .attr("strides", full(n, "strides", k, 1)?)
        .attr("pads", pads(n, k)?)
        .attr("dilations", full(n, "dilations", k, 1)?)
        .attr("groups", n.int_or("group", 1))
        .attr("data_format", format)
        .attr("auto_pad", n.str_or("auto_pad", "NOTSET"))
        .build();
    Ok(vec![if k == 1 { b.node("Squeeze").name(&n.name).input(y).attr("axis", vec![2i64]).build() } else { y }])
}
map_op!("onnx", "ai.onnx", "Conv", 1..=u32::MAX, conv);

fn conv_transpose(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let k = spatial(n)?;
    let (x, w) = (raise(b, n.input(0)?, k), raise(b, n.input(1)?, k));
    let (op, format) = if k == 3 { ("Conv3DTransposeD", "NCDHW") } else { ("Conv2DTransposeD", "NCHW") };
    // The output's spatial sizes; batch and channels are left to inference.
    let size = match n.attrs.ints("output_shape") {
        Some(v) if v.len() >= k => {
            let mut s = vec![-1i64, -1];
            s.extend(std::iter::repeat_n(1, usize::from(k == 1)));
            s.extend_from_slice(&v[v.len() - k..]);
            s
        }
        _ => Vec::new(),
    };
    let y = b
        .node(op)
        .name(if k == 1 { "" } else { &n.name })
        .input(x)
        .input(w)
        .opt_input(n.opt_input(2))
        .attr("strides", full(n, "strides", k, 1)?)
        .attr("pads", pads(n, k)?)
        .attr("dilations", full(n, "dilations", k, 1)?)
        .attr("output_padding", full(n, "output_padding", k, 0)?)
        .attr("groups", n.int_or("group", 1))
        .attr("data_format", format)
        .attr("auto_pad", n.str_or("auto_pad", "NOTSET"))
        .attr("input_size", size)
        .build();
    Ok(vec![if k == 1 { b.node("Squeeze").name(&n.name).input(y).attr("axis", vec![2i64]).build() } else { y }])
}
map_op!("onnx", "ai.onnx", "ConvTranspose", 1..=u32::MAX, conv_transpose);
