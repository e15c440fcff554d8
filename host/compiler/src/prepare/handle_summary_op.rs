//! `HandleSummaryOp`: makes a value that is to be watched an output of the graph.
//!
//! Before: `Summary(%x) : ()  return %y`   After: `return %y, %x`
//! When: the node is in the root graph and reads values.
//! Refuses: summaries in subgraphs, whose values cannot become outputs of the model.
//! Keeps: the outputs that the graph has; the summary's name as the name of the new output.
//! Source: 003 §1.2 (D1c), facts 4.2. Cost: each summary once.
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Model, ValueRef};
use ge_plugin_api::patch::{Edit, NamedValue};

graph_pass!(
    HandleSummaryOp,
    O0,
    "`Summary(x)` -> `x` as one more output of the graph",
    needs "the root graph",
    keeps "the outputs that the graph has",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let mut found = g.nodes().filter(|n| n.op() == "Summary").peekable();
    if found.peek().is_none() {
        return Ok(Vec::new());
    }
    let mut r = Rewriter::new(g);
    let out = g.net_output();
    let mut values: Vec<ValueRef> = out.map(|o| o.inputs().to_vec()).unwrap_or_default();
    let mut names: Vec<String> = out
        .and_then(|o| o.attrs().strs("_output_names"))
        .map(|v| v.into_iter().map(str::to_owned).collect())
        .unwrap_or_default();
    names.resize(values.len(), String::new());
    for n in found {
        cx.visits += 1;
        if gi != 0 {
            cx.refuse(n.name(), "it stands in a subgraph");
            continue;
        }
        for v in n.inputs().iter().filter(|v| !v.is_absent()) {
            values.push(*v);
            names.push(n.name().to_owned());
        }
        r.drop_dead_end(n);
    }
    if r.changes() == 0 {
        return Ok(Vec::new());
    }
    let outs = values.into_iter().zip(names).map(|(value, name)| NamedValue { name: name.as_str().into(), value });
    r.patch.push(Edit::SetGraphOutputs(outs.collect::<Vec<_>>().into()));
    Ok(r.finish(cx))
}
