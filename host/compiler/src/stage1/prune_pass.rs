//! `PrunePass`: removes nodes that no output needs.
//!
//! Before: `%a = Relu(%x)  %b = Exp(%x)  return %a`   After: `%a = Relu(%x)  return %a`
//! When: no path of data or control edges leads from the node to `NetOutput`.
//! Refuses: graphs without `NetOutput`.
//! Keeps: inputs (`Data`, `RefData`, `AippData`, `AnnData`) and variables; nodes with effects
//! beyond their outputs (stateful, communication) and everything that they need; calls, branches
//! and loops that contain such nodes; in a v1 loop, the values that a needed `Merge` takes.
//! Source: 003 §2.2, facts 4.4. Cost: one walk of nodes and edges.
use crate::error::Result;
use crate::feature::control_flow::regions::NEXT;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::graph::NodeSet;
use ge_ir::{Model, Node, NodeId};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;
use std::collections::HashMap;

/// See the module documentation.
pub struct PrunePass;

/// Whether an operator has effects beyond its outputs.
fn acts(cx: &PassContext<'_>, n: &Node) -> bool {
    // The next iteration of a loop is needed only if its merge is.
    !matches!(n.op(), "NextIteration" | "RefNextIteration")
        && cx.op_flags(n) & (flags::STATEFUL | flags::COMMUNICATION) != 0
}

/// Whether a node of a graph, or of a graph that it calls, has effects beyond its outputs.
fn within(cx: &PassContext<'_>, model: &Model, graph: &str) -> bool {
    let mut todo = vec![graph];
    let mut seen: Vec<&str> = Vec::new();
    while let Some(name) = todo.pop() {
        let Some(g) = model.graph(name).filter(|_| !seen.contains(&name)) else { continue };
        seen.push(name);
        for n in g.nodes() {
            if acts(cx, n) {
                return true;
            }
            todo.extend(n.subgraphs());
        }
    }
    false
}

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
    fn switch(&self) -> Option<crate::options::Switch> {
        Some(crate::options::Switch { name: "ge.oo.deadCodeElimination", is_on: |o| o.dead_code_elimination })
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        let g = &model.graphs()[gi];
        let Some(out) = g.net_output() else { return Ok(Vec::new()) };
        let mut needed = NodeSet::new(g);
        let mut todo: Vec<NodeId> = vec![out.id()];
        for n in g.nodes() {
            let input = matches!(n.op(), "Data" | "RefData" | "AippData" | "AnnData" | "Variable");
            if input || acts(cx, n) || n.subgraphs().iter().any(|s| within(cx, model, s)) {
                todo.push(n.id());
            }
        }
        let turns = g.nodes().filter(|n| matches!(n.op(), "NextIteration" | "RefNextIteration"));
        let nexts: HashMap<&str, NodeId> = turns.map(|n| (n.name(), n.id())).collect();
        while let Some(id) = todo.pop() {
            if !needed.insert(id) {
                continue;
            }
            cx.visits += 1;
            let Some(n) = g.get(id) else { continue };
            todo.extend(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node));
            todo.extend_from_slice(n.controls());
            todo.extend(n.attrs().str(NEXT).and_then(|next| nexts.get(next)));
        }
        let mut r = Rewriter::new(g);
        for n in g.nodes().rev().filter(|n| !needed.contains(n.id())) {
            // Graphs that only this node calls are removed with it.
            r.remove(n.id());
        }
        Ok(r.finish(cx))
    }
}
