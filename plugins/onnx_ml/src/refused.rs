//! Operators of the domain that are refused by name, each with the reason.
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::map_op;

fn zip_map(n: &ForeignNode, _: &mut GraphBuilder<'_>) -> Outs {
    Err(n.refuse(
        "its output is a list of dictionaries, which no tensor holds; export the model with `zipmap=False` \
         (skl2onnx: options={id(model): {'zipmap': False}}): the probabilities are a matrix then",
    ))
}
map_op!("onnx", "ai.onnx.ml", "ZipMap", 1..=u32::MAX, zip_map);

fn map_type(n: &ForeignNode, _: &mut GraphBuilder<'_>) -> Outs {
    Err(n.refuse("its input is a dictionary, which no tensor holds; give the model its features as a matrix"))
}
map_op!("onnx", "ai.onnx.ml", "CastMap", 1..=u32::MAX, map_type);
map_op!("onnx", "ai.onnx.ml", "DictVectorizer", 1..=u32::MAX, map_type);
