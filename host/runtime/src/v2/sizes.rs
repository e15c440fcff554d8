//! What a refused run says of the sizes of its inputs.
use super::DynamicModel;
use crate::error::RuntimeError;
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::types::tensor::Container;

/// Maximum number of inputs that an error lists.
const MOST: usize = 6;

impl DynamicModel {
    /// Adds to a node's refusal which inputs determine the sizes of the run. `dims` are the
    /// dimensions of an input; `None` if it is no tensor.
    pub(super) fn by_sizes<'d>(&self, why: RuntimeError, dims: &dyn Fn(usize) -> Option<&'d [u64]>) -> RuntimeError {
        let RuntimeError::Border(e) = why else { return why };
        let of_node = |d: &Diagnostic| d.help.is_empty() && !d.node.is_empty();
        if !matches!(e.kind, ErrorKind::FAILED | ErrorKind::UNSUPPORTED) || !e.diagnostics.iter().any(of_node) {
            return e.into();
        }
        let inputs = self.compiled.inputs.iter().enumerate();
        let tensors = inputs.filter(|(_, i)| i.desc.container == Container::TENSOR);
        let told: Vec<String> =
            tensors.filter_map(|(k, i)| Some(format!("`{}` {}{:?}", i.name, i.desc.dtype, dims(k)?))).collect();
        if told.is_empty() {
            return e.into();
        }
        let rest = told.len().saturating_sub(MOST);
        let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        let list = told[..told.len() - rest].join(", ");
        let help = format!("check the sizes and values of the inputs: this run has {list}{more}");
        e.with(|d| if of_node(&d) { d.help(help.as_str()) } else { d }).into()
    }
}
