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

/// Layouts for the vectors of one processor, as written by onnxruntime's optimiser.
fn blocked(n: &ForeignNode, _: &mut GraphBuilder<'_>) -> Outs {
    Err(n.refuse(
        "onnxruntime has changed the model for this very processor; give the model as it was, or save it \
         with ORT_ENABLE_EXTENDED at most",
    ))
}
map_op!("onnx", "com.microsoft.nchwc", "Conv", 1..=u32::MAX, blocked);
map_op!("onnx", "com.microsoft.nchwc", "MaxPool", 1..=u32::MAX, blocked);
map_op!("onnx", "com.microsoft.nchwc", "AveragePool", 1..=u32::MAX, blocked);
map_op!("onnx", "com.microsoft.nchwc", "GlobalMaxPool", 1..=u32::MAX, blocked);
map_op!("onnx", "com.microsoft.nchwc", "GlobalAveragePool", 1..=u32::MAX, blocked);
map_op!("onnx", "com.microsoft.nchwc", "Upsample", 1..=u32::MAX, blocked);
map_op!("onnx", "com.microsoft.nchwc", "ReorderInput", 1..=u32::MAX, blocked);
map_op!("onnx", "com.microsoft.nchwc", "ReorderOutput", 1..=u32::MAX, blocked);
