//! `AssignRemainSubgraphNeedAssignStream`: the remaining subgraphs get the stream of their engine,
//! unless the assignment skips the engine; those stay on stream 0. Source: 002, facts 1.13.
use super::context::Dynamic;
use ge_plugin_api::engine::flags;

/// Assigns the remaining streams.
pub fn run(cx: &mut Dynamic<'_>) {
    for k in 0..cx.parts.len() {
        if cx.parts[k].stream.is_none() && !cx.has(k, flags::SKIP_ASSIGN_STREAM) {
            cx.parts[k].stream = Some(cx.parts[k].sub.engine);
        }
    }
}
