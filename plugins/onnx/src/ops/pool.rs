//! `MaxPool`, `AveragePool`, `LpPool`, `GlobalLpPool`, `MaxUnpool`.
use super::{Outs, paired};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, NodeBuilder};
use ge_plugin_api::map_op;

fn window<'b, 'a>(n: &ForeignNode, b: &'b mut GraphBuilder<'a>, op: &str) -> Result<NodeBuilder<'b, 'a>> {
    let kernel = n.attrs.ints("kernel_shape").ok_or_else(|| n.refuse("attribute `kernel_shape` is missing"))?;
    let full = |key: &str| -> Result<Vec<i64>> {
        let mut v = vec![1, 1];
        match n.attrs.ints(key) {
            None => v.extend(std::iter::repeat_n(1, kernel.len())),
            Some(s) if s.len() == kernel.len() => v.extend_from_slice(s),
            Some(s) => {
                return Err(n.refuse(format!("attribute `{key}` has {} numbers, expected {}", s.len(), kernel.len())));
            }
        }
        Ok(v)
    };
    let pads = paired(n, n.attrs.ints("pads").unwrap_or(&[]))?;
    let (k, s, d) = (full("kernel_shape")?, full("strides")?, full("dilations")?);
    Ok(b.node(op)
        .name(&n.name)
        .inputs(&n.inputs)
        .attr("ksize", k)
        .attr("strides", s)
        .attr("pads", pads)
        .attr("dilations", d)
        .attr("ceil_mode", n.int_or("ceil_mode", 0) != 0)
        .attr("auto_pad", n.str_or("auto_pad", "NOTSET")))
}
fn max_pool(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    if n.output_count() > 1 {
        let d = window(n, b, "MaxPoolWithArgmaxV2")?.attr("storage_order", n.int_or("storage_order", 0));
        return Ok(d.build_n(2));
    }
    Ok(vec![window(n, b, "MaxPoolV3")?.build()])
}
fn average_pool(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![window(n, b, "AvgPoolV2")?.attr("exclusive", n.int_or("count_include_pad", 0) == 0).build()])
}
/// The exponent of a norm, which is a real number in opset 1.
fn exponent(n: &ForeignNode) -> f64 {
    n.float_or("p", 2.0)
}
fn lp_pool(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![window(n, b, "LpPool")?.attr("p", exponent(n)).build()])
}
fn global_lp_pool(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![b.node("GlobalLpPool").name(&n.name).input(n.input(0)?).attr("p", exponent(n)).build()])
}
fn max_unpool(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![window(n, b, "MaxUnpool")?.build()])
}
map_op!("onnx", "ai.onnx", "MaxPool", 1..=u32::MAX, max_pool);
map_op!("onnx", "ai.onnx", "AveragePool", 1..=u32::MAX, average_pool);
map_op!("onnx", "ai.onnx", "LpPool", 1..=u32::MAX, lp_pool);
map_op!("onnx", "ai.onnx", "GlobalLpPool", 1..=u32::MAX, global_lp_pool);
map_op!("onnx", "ai.onnx", "MaxUnpool", 9..=u32::MAX, max_unpool);
