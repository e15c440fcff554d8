//! `SubgraphMultiDimsPass`: gives the nodes of graphs within a gear the label of the gear too.
//!
//! Before: `@b` is the branch of gear 1 and contains `%y = If(%c, %x) {then_branch = @t, …}`, `@t`:
//! `%n = Neg(%x)`
//! After: `%n` with `_batch_label = "Batch_1"`
//! When: a node of a gear, or of a graph within one, calls the graph.
//! Refuses: inputs, outputs and constants, which are on no stream.
//! Keeps: everything but the attribute.
//! Source: 003 §2.2, facts 8.7. Cost: each node once, and the depth of nesting.
use super::multi_batch_pass::{branches, mark};
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::Model;
use ge_model::gears::label;
use ge_plugin_api::patch::Edit;

graph_pass!(
    SubgraphMultiDimsPass,
    O0,
    "nodes of branches and bodies within a gear -> the same with `_batch_label`",
    needs "a `Case` with `_batch_num` around the graph",
    keeps "everything but the attribute",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let mut r = Rewriter::new(&model.graphs()[gi]);
    let mut todo = if gi == 0 { branches(model) } else { Vec::new() };
    while let Some((at, gear)) = todo.pop() {
        let below = model.graphs()[at].nodes().flat_map(|n| n.subgraphs());
        for s in below.filter_map(|s| model.graph_index(s)) {
            mark(cx, &mut r, &model.graphs()[s], &label(gear));
            todo.push((s, gear));
        }
    }
    cx.changes += r.changes();
    Ok(r.patch.into_edits().into())
}
