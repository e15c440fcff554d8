//! `ParallelGroupPass`: makes the nodes of one parallel group run in the order of the graph.
//!
//! Before: `%a = A() {_parallel_group = "g"}  %b = B() {_parallel_group = "g"}`   After: `%b = B()
//! {...} after(%a)`
//! When: two or more nodes of a graph name the same group.
//! Refuses: the groups "-1" and "", which are no groups; a node that is alone in its group.
//! Keeps: all existing edges.
//! Source: 003 §2.2, facts 4.5 (d), DESIGN 9. Cost: each node once.
use crate::error::Result;
use crate::feature::parallel_group::group_of;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Model, Node};
use ge_plugin_api::patch::Edit;
use std::collections::BTreeMap;

graph_pass!(
    ParallelGroupPass,
    O0,
    "nodes of one `_parallel_group` -> the same, each after the one before",
    needs "two or more nodes with the same `_parallel_group`",
    keeps "all edges that are there",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let mut groups: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for n in g.nodes() {
        if let Some(name) = group_of(n).filter(|g| *g != "-1") {
            cx.visits += 1;
            groups.entry(name).or_default().push(n);
        }
    }
    let mut r = Rewriter::new(g);
    for list in groups.values() {
        if let [only] = list.as_slice() {
            cx.refuse(only.name(), "it is alone in its group");
        }
        for w in list.windows(2) {
            let there = w[1].controls().contains(&w[0].id())
                || w[1].inputs().iter().any(|v| !v.is_absent() && v.node == w[0].id());
            if !there {
                r.patch.push(Edit::AddControl(w[0].id(), w[1].id()));
                r.count();
            }
        }
    }
    Ok(r.finish(cx))
}
