//! `AssignRemainSubgraphNeedAssignStream`: what is left has the stream of its engine, unless the
//! engine takes part in no assignment; those stand on stream 0. Source: 002, facts 1.13.
use super::context::Dynamic;
use ge_plugin_api::engine::flags;

/// Gives the rest its streams.
pub fn run(cx: &mut Dynamic<'_>) {
    for k in 0..cx.parts.len() {
        if cx.parts[k].stream.is_none() && !cx.has(k, flags::SKIP_ASSIGN_STREAM) {
            cx.parts[k].stream = Some(cx.parts[k].sub.engine);
        }
    }
}
