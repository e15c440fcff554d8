//! Graph optimizers of the AI core: what its nodes become before the plans are made.
pub mod split_n_optimizer;

use ge_plugin_api::engine::Hook;
use ge_plugin_api::patch::Patch;
use ge_plugin_api::view::Graph;

/// Records the edits of a hook.
pub fn run(hook: Hook, graph: &Graph<'_>, patch: &mut Patch) {
    if hook == Hook::WHOLE_GRAPH {
        split_n_optimizer::run(graph, patch);
    }
}
