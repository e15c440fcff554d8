//! Properties of a node that memory planning needs. The engine compiles nothing and emits no tasks.
use crate::store::{Family, family};
use ge_plugin_api::engine::RunningParams;
use ge_plugin_api::view::Node;

/// Sizes are those of the descriptors; a view shares the memory of its input.
pub fn running_params(node: &Node<'_>) -> RunningParams {
    let inplace = match family(node.op()) {
        Some(Family::View | Family::Room) => vec![0],
        _ => Vec::new(),
    };
    RunningParams { inplace: inplace.into(), ..RunningParams::default() }
}
