//! `LinkGenMaskNodesPass`: makes dropout masks one after the other instead of all at once.
//!
//! Before: `%a = DropOutGenMask(...)  %b = DropOutGenMask(...)`   After: `%b = DropOutGenMask(...)
//! after(%a)`
//! When: a graph has two or more such nodes; neighbours in the order of the graph are linked.
//! Refuses: a single node.
//! Keeps: all existing edges.
//! Source: facts 4.5 (a). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Model, Node};
use ge_plugin_api::patch::Edit;

graph_pass!(
    LinkGenMaskNodesPass,
    O3,
    "`DropOutGenMask` nodes -> the same, each after the one before",
    needs "two or more in a graph",
    keeps "all edges that are there",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let masks: Vec<&Node> = g
        .nodes()
        .filter(|n| matches!(n.op(), "DropOutGenMask" | "DropOutGenMaskV3" | "StatelessDropOutGenMask"))
        .collect();
    cx.visits += masks.len() as u64;
    let mut r = Rewriter::new(g);
    for w in masks.windows(2) {
        if w[1].controls().contains(&w[0].id()) {
            continue;
        }
        r.patch.push(Edit::AddControl(w[0].id(), w[1].id()));
        r.count();
    }
    if let [only] = masks.as_slice() {
        cx.refuse(only.name(), "it is the only one");
    }
    Ok(r.finish(cx))
}
