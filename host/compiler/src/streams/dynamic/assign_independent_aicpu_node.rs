//! `AssignIndependentAicpuNode` (`ac_parallel_enable` is 0 or not given): an AI CPU subgraph with a
//! node that always runs in parallel gets the stream of its engine. Source: 002, facts 1.13.
use super::context::Dynamic;

/// Operator types that always run in parallel.
const TYPES: &[&str] = &["DropOutGenMask", "DropOutDoMaskV3", "GetNext", "DynamicGetNext", "DynamicGetNextV2"];

/// Gives these subgraphs the stream of their engine.
pub fn run(cx: &mut Dynamic<'_>) {
    for k in 0..cx.parts.len() {
        let independent = cx.nodes(k).any(|(_, n)| TYPES.contains(&n.op()));
        if cx.parts[k].stream.is_none() && cx.aicpu(k) && independent {
            cx.parts[k].stream = Some(cx.parts[k].sub.engine);
        }
    }
}
