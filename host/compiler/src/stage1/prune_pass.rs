//! `PrunePass`: nodes that no output needs are removed.
//!
//! Before: `%a = Relu(%x)  %b = Exp(%x)  return %a`   After: `%a = Relu(%x)  return %a`
//! When: no path of data or control edges leads from the node to `NetOutput`.
//! Refuses: graphs without `NetOutput`.
//! Keeps: inputs (`Data`, `RefData`, `AippData`), and nodes that act beyond their outputs (stateful, communication) with all
//! that they need.
//! Source: 003 §2.2, facts 4.4. Cost: one walk of nodes and edges.
use crate::error::Result;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::graph::NodeSet;
use ge_ir::{Model, NodeId};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;

/// See the module.
pub struct PrunePass;

impl GraphPass for PrunePass {
    fn name(&self) -> &'static str {
        "PrunePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O1
    }
    fn effect(&self) -> &'static str {
        "nodes that lead to no output -> nothing"
    }
    fn needs(&self) -> &'static str {
        "no path of data or control edges leads from the node to `NetOutput`"
    }
    fn keeps(&self) -> &'static str {
        "inputs (`Data`, `RefData`, `AippData`), and nodes that act beyond their outputs (stateful, communication) with all that they need"
    }
    fn switch(&self) -> Option<&'static str> {
        Some("ge.oo.deadCodeElimination")
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        let g = &model.graphs()[gi];
        let Some(out) = g.net_output() else { return Ok(Vec::new()) };
        let mut needed = NodeSet::new(g);
        let mut todo: Vec<NodeId> = vec![out.id()];
        for n in g.nodes() {
            let input = matches!(n.op(), "Data" | "RefData" | "AippData" | "AnnData" | "Variable");
            if input || cx.op_flags(n) & (flags::STATEFUL | flags::COMMUNICATION) != 0 {
                todo.push(n.id());
            }
        }
        while let Some(id) = todo.pop() {
            if !needed.insert(id) {
                continue;
            }
            cx.visits += 1;
            let Some(n) = g.get(id) else { continue };
            todo.extend(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node));
            todo.extend_from_slice(n.controls());
        }
        let mut r = Rewriter::new(g);
        for n in g.nodes().rev().filter(|n| !needed.contains(n.id())) {
            // A node with subgraphs goes as a whole with the removal of its graphs: left to the compiler of control flow.
            if n.subgraphs().is_empty() {
                r.remove(n.id());
            } else {
                cx.refuse(n.name(), "it names subgraphs");
            }
        }
        Ok(r.finish(cx))
    }
}
