//! `AssignAicpuCanParallel` (`ac_parallel_enable` = 1): an AI CPU subgraph that can run in parallel
//! gets the stream of its engine. That is a subgraph without inputs, one whose inputs all come from
//! subgraphs that have no tasks and no inputs, or one that cannot take a predecessor's stream.
//! Source: 002, facts 1.13.
use super::context::Dynamic;
use ge_plugin_api::engine::flags;

/// Gives these subgraphs the stream of their engine.
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

/// Whether subgraph `k` can take the stream of predecessor `p`: `p` has a stream, is not
/// independent, and has no other successor of its own engine.
fn takes(cx: &Dynamic<'_>, k: usize, p: usize) -> bool {
    let pred = &cx.parts[p];
    pred.stream.is_some()
        && !cx.has(p, flags::INDEPENDENT)
        && !pred.sub.succs.iter().any(|s| *s as usize != k && cx.parts[*s as usize].sub.engine == pred.sub.engine)
}
