//! Pages of the codes that front ends use; the codes themselves are defined in the plugin
//! interface.
use crate::Page;
pub use ge_plugin_api::diagnostic::{BROKEN_MODEL, NO_EXTERNAL_DATA, NOT_MAPPED};

/// The pages of this group, by code.
pub(crate) const PAGES: &[Page] = &[
    Page {
        code: BROKEN_MODEL,
        title: "the model file is damaged or contradicts itself",
        text: "The file is cut, a length in it points outside, a tensor's bytes do not fit its shape, or nodes form a cycle. Export or copy the model again.",
        remedy: "Export or copy the model again, and compare its size with the original's.",
        example: "head -c 1000 model.onnx > cut.onnx; ge compile cut.onnx -o m.om",
    },
    Page {
        code: NO_EXTERNAL_DATA,
        title: "an external data file is asked for where there is none",
        text: "The model names a file beside it, but came without a folder. Give the model by its path.",
        remedy: "Give the model by its path, with its data files beside it.",
        example: "ge compile models/big.onnx -o m.om (with its data beside it)",
    },
    Page {
        code: NOT_MAPPED,
        title: "the model uses something that its front end does not map",
        text: "An operator, an attribute or an opset has no mapping. All such nodes are listed at once. A plugin can add mappings for its own domain (docs/plugins.md).",
        remedy: "Replace the nodes before the export, or write a mapping for them; `ge inspect MODEL --support` lists all of them.",
        example: "an ONNX node of domain `com.example` without the plugin that maps it",
    },
];
/// The names of the constants, with their codes.
#[cfg(test)]
pub(crate) const NAMES: &[(&str, &str)] =
    &[("BROKEN_MODEL", "GE-E0102"), ("NO_EXTERNAL_DATA", "GE-E0103"), ("NOT_MAPPED", "GE-E0104")];
