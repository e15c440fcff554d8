//! `UpdateForSkippedEnginePass`: a node of an engine that is skipped by the assignment gets no
//! stream if no node before it has one, and the stream of its neighbours if they share one. Source:
//! 004 §4.1.1, facts 1.4 (8), DESIGN 9.
use super::LogicalStreamPass;
use super::context::{Context, NONE};
use crate::error::Result;
use crate::ids::NodeKey;

/// See the module documentation.
pub struct UpdateForSkippedEnginePass;
impl LogicalStreamPass for UpdateForSkippedEnginePass {
    const NAME: &'static str = "UpdateForSkippedEnginePass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        let graph = cx.graph;
        // Streams to which no node is moved: those with a label or with nodes of an independent
        // engine.
        let mut closed = vec![false; cx.next as usize + 1];
        for n in graph.nodes() {
            let s = cx.stream(n.id());
            if s != NONE && (super::context::label_of(n).is_some() || cx.independent(cx.engine(n.id()))) {
                if let Some(c) = closed.get_mut(s as usize) {
                    *c = true;
                }
            }
        }
        for n in graph.nodes() {
            let id = n.id();
            if !cx.skipped(cx.placement.engine[NodeKey::new(cx.gi, id)]) || Context::is_bound(n) {
                continue;
            }
            let ins: Vec<u32> = cx.ins(n).into_iter().map(|p| cx.stream(p)).collect();
            if n.subgraphs().is_empty() && ins.iter().all(|s| *s == NONE) {
                cx.node_stream[id.index()] = NONE;
                continue;
            }
            let outs = cx.outs(n);
            if outs.is_empty() {
                continue;
            }
            let mut around: Vec<u32> =
                ins.into_iter().chain(outs.into_iter().map(|o| cx.stream(o))).filter(|s| *s != NONE).collect();
            around.sort_unstable();
            around.dedup();
            if let [only] = around.as_slice() {
                if !closed.get(*only as usize).copied().unwrap_or(false) {
                    cx.node_stream[id.index()] = *only;
                }
            }
        }
        Ok(())
    }
}
