//! Tests of what the import knows of values that nodes make.
use super::*;
use crate::facts::{Facts, Shared};
use ge_plugin_api::frontend::ForeignNode;
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

/// A length-delimited field of a protobuf message; number and length are small.
fn field(number: u8, bytes: Vec<u8>) -> Vec<u8> {
    [vec![number << 3 | 2, u8::try_from(bytes.len()).expect("a short field")], bytes].concat()
}

#[test]
fn what_the_model_states_of_a_value_counts_where_nothing_else_is_known() {
    let softmax = with(node("Softmax", &["r"], &["y"]), vec![int("axis", 1)]);
    let nodes = vec![node("Reshape", &["x", "s"], &["r"]), softmax];
    let g = graph(vec![value("x", 1, &["6"]), value("s", 7, &["k"])], nodes, vec![], &["y"]);
    let bytes = model(11, g).encode_to_vec();
    let imported = |bytes: Vec<u8>| {
        let edits = import_bytes(bytes, &ImportOptions::default(), &Files(Vec::new())).expect("imports");
        said(&edits, "").split(' ').next_back().expect("a node").to_owned()
    };
    assert_eq!(imported(bytes.clone()), "n_y=Reshape");
    // A second graph in the file is merged into the first; field 13 is `value_info`.
    let stated = field(7, field(13, value("r", 1, &["2", "3"]).encode_to_vec()));
    assert_eq!(imported([bytes.clone(), stated].concat()), "n_y=SoftmaxV2");
    let broken = field(7, field(13, vec![0xff]));
    assert_eq!(imported([bytes, broken].concat()), "n_y=Reshape");
}

#[test]
fn sizes_are_taken_from_inference_if_they_are_constant() {
    let n =
        ForeignNode { op: "SkipLayerNormalization".into(), domain: "com.microsoft".into(), ..ForeignNode::default() };
    let own = Facts::of_output(&n, 0);
    assert!(!own.is_whole());
    let inferred = TensorDesc::new(DType::F16, Shape::new([Dim::known(2), Dim::symbol("n")]));
    let d = Shared::default().completed(own, Some(&inferred), None);
    assert_eq!((d.dtype, &d.shape), (DType::F16, &Shape::new([Dim::known(2), Dim::UNKNOWN])));
    let nothing = Shared::default().completed(own, None, None);
    assert_eq!(*nothing, TensorDesc::unknown());
}
