//! `AssignAicpuCanParallel` (`ac_parallel_enable` = 1): an AI CPU subgraph that can run beside the
//! others has the stream of its engine: one without inputs, one whose inputs all come from
//! subgraphs without tasks and inputs of their own, and one that can take no predecessor's stream.
//! Source: 002, facts 1.13.
use super::context::Dynamic;
use ge_plugin_api::engine::flags;

/// Gives those subgraphs their engine's stream.
pub fn run(cx: &mut Dynamic<'_>) {
    for k in 0..cx.parts.len() {
        if cx.parts[k].stream.is_none() && cx.aicpu(k) && can_parallel(cx, k) {
            cx.parts[k].stream = Some(cx.parts[k].sub.engine);
        }
    }
}

fn can_parallel(cx: &Dynamic<'_>, k: usize) -> bool {
    let preds = &cx.parts[k].sub.preds;
    let idle = |p: &u32| cx.has(*p as usize, flags::NO_TASK) && cx.parts[*p as usize].sub.preds.is_empty();
    preds.iter().all(idle) || !preds.iter().any(|p| takes(cx, k, *p as usize))
}

/// The predecessor owns a stream, is not independent, and no other subgraph of its engine follows
/// it.
fn takes(cx: &Dynamic<'_>, k: usize, p: usize) -> bool {
    let pred = &cx.parts[p];
    pred.stream.is_some()
        && !cx.has(p, flags::INDEPENDENT)
        && !pred.sub.succs.iter().any(|s| *s as usize != k && cx.parts[*s as usize].sub.engine == pred.sub.engine)
}
