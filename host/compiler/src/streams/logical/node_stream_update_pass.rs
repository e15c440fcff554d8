//! `NodeStreamUpdatePass`: nodes take the streams of their subgraphs. Label nodes of control flow
//! take the parent's stream, and each group of `NewStreamId` gets a stream of its own. Source: 004
//! §4.1.1, facts 1.4 (5), DESIGN 9.
use super::LogicalStreamPass;
use super::context::{Context, NONE};
use crate::error::{CompileError, Result};
use std::collections::BTreeMap;

/// See the module documentation.
pub struct NodeStreamUpdatePass;
impl LogicalStreamPass for NodeStreamUpdatePass {
    const NAME: &'static str = "NodeStreamUpdatePass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        cx.node_stream.fill(NONE);
        for i in 0..cx.subs.len() {
            let sub = &cx.subs[i];
            if sub.stream == NONE && !cx.skipped(sub.engine) {
                let name = sub.nodes.first().and_then(|id| cx.graph.get(*id)).map_or("", |n| n.name());
                return Err(CompileError::internal("streams", format!("the subgraph of `{name}` has no stream")));
            }
            for &id in &sub.nodes {
                let parent = cx.graph.get(id).is_some_and(|n| n.attrs().flag("_rts_label_node")) && cx.default != NONE;
                cx.node_stream[id.index()] = if parent { cx.default } else { sub.stream };
            }
        }
        let mut of: BTreeMap<i64, u32> = BTreeMap::new();
        for (id, group) in std::mem::take(&mut cx.mde) {
            let s = match of.get(&group) {
                Some(s) => *s,
                None => {
                    let s = cx.take();
                    of.insert(group, s);
                    s
                }
            };
            cx.node_stream[id.index()] = s;
        }
        force_while_body_output(cx);
        Ok(())
    }
}

/// Puts the NetOutput of a While body on stream 0 if the While is in a graph of unknown shape (004
/// §6).
fn force_while_body_output(cx: &mut Context<'_>) {
    let parents = crate::streams::order::parents_of(cx.model);
    let Some(parent) = parents[cx.gi] else { return };
    let Some(node) = parent.get(cx.model) else { return };
    let body = node.op() == "While"
        && node.subgraphs().iter().any(|s| *s == cx.graph.name())
        && is_body(node, cx.graph.name());
    if body && crate::streams::unknown::is_dynamic(parent.graph_of(cx.model)) {
        if let Some(out) = cx.graph.net_output() {
            cx.node_stream[out.id().index()] = 0;
        }
    }
}

fn is_body(node: &ge_ir::Node, graph: &str) -> bool {
    matches!(node.attr("body"), Some(ge_ir::AttrValue::Graph(g)) if g.as_str() == graph)
}
