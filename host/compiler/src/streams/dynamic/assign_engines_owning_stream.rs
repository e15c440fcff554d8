//! `AssignEnginesOwningStream`: an engine that owns a stream uses it for all its nodes. Source:
//! 002, facts 1.13.
use super::context::Dynamic;
use ge_plugin_api::engine::flags;

/// Gives the subgraphs of these engines their streams.
pub fn run(cx: &mut Dynamic<'_>) {
    for k in 0..cx.parts.len() {
        if cx.has(k, flags::OWNS_STREAM_DYNAMIC) {
            cx.parts[k].stream = Some(cx.parts[k].sub.engine);
        }
    }
}
