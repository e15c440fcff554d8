//! `NhwcMaxPool`: becomes the built-in pooling between two changes of layout. Also defines pooling
//! windows.
use crate::declare::ort_op;
use crate::shared::{Outs, channel_orders, transposed};
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, NodeBuilder};
use ge_plugin_api::types::ValueRef;

/// A pooling window in the built-in form: sizes, strides and dilations for all axes (1 for batch
/// and channels), pads as begin and end of each axis.
pub(crate) struct Window {
    size: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    pads: Vec<i64>,
    ceil: bool,
    auto_pad: String,
}

impl Window {
    /// Reads the window of a foreign pooling node.
    pub fn of(n: &ForeignNode) -> Result<Window> {
        let kernel = n.attrs.ints("kernel_shape").ok_or_else(|| n.refuse("attribute `kernel_shape` is missing"))?;
        let k = kernel.len();
        let list = |key: &str, or: i64, len: usize| match n.attrs.ints(key) {
            None => Ok(vec![or; len]),
            Some(v) if v.len() == len => Ok(v.to_vec()),
            Some(v) => Err(n.refuse(format!("attribute `{key}` has {} numbers, expected {len}", v.len()))),
        };
        let full = |v: Vec<i64>| [1, 1].into_iter().chain(v).collect::<Vec<i64>>();
        let pads = list("pads", 0, 2 * k)?;
        Ok(Window {
            size: full(kernel.to_vec()),
            strides: full(list("strides", 1, k)?),
            dilations: full(list("dilations", 1, k)?),
            pads: (0..k).flat_map(|i| [pads[i], pads[k + i]]).collect(),
            ceil: n.int_or("ceil_mode", 0) != 0,
            auto_pad: n.str_or("auto_pad", "NOTSET").to_owned(),
        })
    }
    /// Begins a pooling node over `x`, to which attributes may be added.
    pub fn node<'b, 'a>(self, b: &'b mut GraphBuilder<'a>, op: &str, x: ValueRef) -> NodeBuilder<'b, 'a> {
        b.node(op)
            .input(x)
            .attr("ksize", self.size)
            .attr("strides", self.strides)
            .attr("pads", self.pads)
            .attr("dilations", self.dilations)
            .attr("ceil_mode", self.ceil)
            .attr("auto_pad", self.auto_pad)
    }
}

fn nhwc(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let window = Window::of(n)?;
    let (to, back) = channel_orders(window.size.len() as i64);
    let x = transposed(b, n.input(0)?, &to);
    let y = window.node(b, "MaxPoolV3", x).build();
    Ok(vec![b.node("TransposeD").name(&n.name).input(y).attr("perm", back).build()])
}
ort_op!("NhwcMaxPool", 1, ["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"], nhwc);
