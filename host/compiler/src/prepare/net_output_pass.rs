//! `NetOutputPass`: makes the unread values of a graph without outputs its outputs.
//!
//! Before: `graph @main(%x) { %y = Relu(%x) }`   After: the same with `return %y`
//! When: the graph has no `NetOutput`.
//! Refuses: nothing.
//! Keeps: all nodes, in their order.
//! Source: facts 4.3 (NormalizeGraph). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::Model;
use ge_plugin_api::patch::{Edit, NamedValue};

graph_pass!(
    NetOutputPass,
    O0,
    "a graph without `NetOutput` -> the same with the values that nobody reads as outputs",
    needs "no `NetOutput`",
    keeps "all nodes, in their order",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    cx.visits += 1;
    if g.net_output().is_some() {
        return Ok(Vec::new());
    }
    let source = |op: &str| matches!(op, "Data" | "RefData" | "AippData" | "Const" | "Constant" | "Variable");
    let mut r = Rewriter::new(g);
    let unread = g.nodes().filter(|n| !source(n.op())).flat_map(|n| {
        (0..n.outputs().len())
            .filter(|k| n.uses(*k).is_empty())
            .map(|k| NamedValue { name: n.name().into(), value: n.value(k as u32) })
    });
    r.patch.push(Edit::SetGraphOutputs(unread.collect::<Vec<_>>().into()));
    r.count();
    Ok(r.finish(cx))
}
