//! The library's exports.
#![allow(unsafe_code, missing_docs)]
ge_plugin_api::ge_plugin! {
    name: "fusion", kinds: ["pass"], provides: []
}
ge_plugin_api::register_pass!(crate::no_effect::NoEffectOpRemove);
ge_plugin_api::register_pass!(crate::select::SelectBeforeMap);
ge_plugin_api::register_pass!(crate::slice::StridedSliceMerge);
ge_plugin_api::register_pass!(crate::transpose::TransposeMotion);
ge_plugin_api::register_pass!(crate::view::ViewMotion);
ge_plugin_api::register_pass!(crate::conv::ConvBatchNormActivation);
ge_plugin_api::register_pass!(crate::gelu::GeluFusion);
ge_plugin_api::register_pass!(crate::einsum::EinsumFusion);
ge_plugin_api::register_pass!(ge_plugin_api::fusion::DecomposePass(crate::attention::AttentionDecompose));
