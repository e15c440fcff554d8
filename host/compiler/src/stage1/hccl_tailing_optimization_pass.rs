//! `HcclTailingOptimizationPass`: makes changes of layout and type after a collective wait for what
//! their reader waits for, so that they do not delay the next collective.
//!
//! Before: `%s = HcomAllReduce(%x)  %t = Cast(%s)  %y = ApplyX(%t) after(%c)`   After: `%t =
//! Cast(%s) after(%c)`
//! When: the result of the collective passes through changes of layout and type, each read once, to
//! a node with control inputs.
//! Refuses: a control input that comes after the change in the order of the graph (it may depend on
//! it).
//! Keeps: all existing edges.
//! Source: facts 4.4 (1_3). Cost: the chain after each collective.
use super::trans_ops::is_trans_op;
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Model, NodeMap};
use ge_plugin_api::patch::Edit;

graph_pass!(
    HcclTailingOptimizationPass,
    O3,
    "control edges into the reader of a collective's changed outcome -> into the change too",
    needs "`HcomAllReduce`, then changes of layout or type that are read once, then a node that waits for others",
    keeps "all edges that are there",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let mut found = g.nodes().filter(|n| n.op() == "HcomAllReduce").peekable();
    if found.peek().is_none() {
        return Ok(Vec::new());
    }
    let mut place = NodeMap::new(g, 0usize);
    for (i, id) in g.order().iter().enumerate() {
        place[*id] = i;
    }
    let mut r = Rewriter::new(g);
    for n in found {
        for u in n.uses(0) {
            cx.visits += 1;
            let Some(first) = g.get(u.node).filter(|t| is_trans_op(g, t)) else { continue };
            let mut last = first;
            while let [u] = last.uses(0) {
                let Some(next) = g.get(u.node) else { break };
                last = next;
                if !is_trans_op(g, next) {
                    break;
                }
            }
            for c in last.controls().iter().filter(|_| last.id() != first.id()) {
                if place[*c] < place[first.id()] {
                    r.patch.push(Edit::AddControl(*c, first.id()));
                    r.count();
                } else {
                    cx.refuse(first.name(), "what its reader waits for comes after it");
                }
            }
        }
    }
    Ok(r.finish(cx))
}
