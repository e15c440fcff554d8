//! Operators of the domain that are refused by name, each with the reason.
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;

fn map_type(n: &ForeignNode, _: &mut GraphBuilder<'_>) -> Outs {
    Err(n.refuse("its input is a dictionary, which no tensor holds; give the model its features as a matrix"))
}
map_op!("onnx", "ai.onnx.ml", "CastMap", 1..=u32::MAX, map_type);
map_op!("onnx", "ai.onnx.ml", "DictVectorizer", 1..=u32::MAX, map_type);
