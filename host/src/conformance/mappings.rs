//! Checks that mappings make nodes only of operators that have a prototype.
use ge_plugin::Registry;
use ge_plugin::conformance::Found;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, MappingInfo, MappingRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{DType, Shape, TensorDesc};

/// Maximum number of inputs of a tested foreign node.
const MOST_INPUTS: u32 = 5;

/// Maps nodes with zero to [`MOST_INPUTS`] inputs of ordinary tensors. A mapping may refuse such a
/// node: that proves nothing.
pub fn made(known: &Registry, info: &MappingInfo, mapping: MappingRef) -> Found {
    let mut types = Vec::new();
    for inputs in 0..=MOST_INPUTS {
        for op in of(info, mapping, inputs) {
            if known.op(&op).is_none() {
                return Err(format!(
                    "it makes a node of type `{op}`, which no plugin in use has a prototype of: register it (`register_op!`), or map to an \
                     operator of docs/operators.md"
                ));
            }
            if !types.contains(&op) {
                types.push(op);
            }
        }
    }
    Ok(types.join(", "))
}

/// Types of the nodes that a mapping makes from one node.
fn of(info: &MappingInfo, mapping: MappingRef, inputs: u32) -> Vec<String> {
    let desc = TensorDesc::new(DType::F32, Shape::of(&[2, 3]));
    let mut b = GraphBuilder::new(None);
    let mut node = ForeignNode {
        name: "sample".into(),
        op: info.op.clone(),
        domain: info.domain.clone(),
        version: info.since,
        ..ForeignNode::default()
    };
    node.output_names.push("y".into());
    for k in 0..inputs {
        node.inputs.push(b.data(&format!("x{k}"), k, desc.clone()));
        node.input_names.push(format!("x{k}").into());
        node.input_descs.push(desc.clone());
        node.constants.push(ROption::RNone);
    }
    let before = b.patch().edits().len();
    if mapping.map(&node, &mut b).is_err() {
        return Vec::new();
    }
    let made = |e: &Edit| match e {
        Edit::AddNode(n) => Some(n.op.as_str().to_owned()),
        _ => None,
    };
    b.patch().edits().get(before..).unwrap_or_default().iter().filter_map(made).collect()
}
