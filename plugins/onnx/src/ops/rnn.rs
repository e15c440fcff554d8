//! `RNN`, `GRU`, `LSTM`: each becomes one operator, which always has all outputs.
use super::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;

fn recurrent(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (op, outs) = match n.op.as_str() {
        "LSTM" => ("CommonLSTM", 3),
        "GRU" => ("CommonGRU", 2),
        _ => ("CommonRNN", 2),
    };
    let mut d = b.node(op).name(&n.name).inputs(&n.inputs);
    for key in [
        "hidden_size",
        "direction",
        "activations",
        "activation_alpha",
        "activation_beta",
        "clip",
        "layout",
        "linear_before_reset",
        "input_forget",
    ] {
        if let Some(v) = n.attrs.get(key) {
            d = d.attr(key, v.clone());
        }
    }
    Ok(d.build_n(outs))
}
map_op!("onnx", "ai.onnx", "LSTM", 1..=u32::MAX, recurrent);
map_op!("onnx", "ai.onnx", "GRU", 1..=u32::MAX, recurrent);
map_op!("onnx", "ai.onnx", "RNN", 1..=u32::MAX, recurrent);
