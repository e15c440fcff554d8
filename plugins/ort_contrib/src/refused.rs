//! Operators of the domain that are refused by name, each with the reason.
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;

fn bifurcation(n: &ForeignNode, _: &mut GraphBuilder<'_>) -> Outs {
    Err(n.refuse(
        "it compares token lists of a length known only at run for speculative decoding; take the \
         decoding loop out of the model and keep the decoder",
    ))
}
map_op!("onnx", "com.microsoft", "BifurcationDetector", 1..=u32::MAX, bifurcation);

fn search(n: &ForeignNode, _: &mut GraphBuilder<'_>) -> Outs {
    Err(n.refuse("the search over a decoder is the application's; export the decoder as a model of its own"))
}
map_op!("onnx", "com.microsoft", "BeamSearch", 1..=u32::MAX, search);
map_op!("onnx", "com.microsoft", "GreedySearch", 1..=u32::MAX, search);
map_op!("onnx", "com.microsoft", "Sampling", 1..=u32::MAX, search);
map_op!("onnx", "com.microsoft", "WhisperBeamSearch", 1..=u32::MAX, search);
