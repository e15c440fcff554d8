//! `ProcessNullableOutput`: removes optional outputs without readers, so that the engine need not
//! produce them.
//!
//! Before: `%y, %k, %v = Attention(…)` without readers of `%k` and `%v`   After: `%y =
//! Attention(…)`
//! When: the prototype says that the output may be left out, and all outputs after it are removed
//! too.
//! Refuses: an output that is a variable, which the task writes; an output before one that is read:
//! it keeps its number, and memory that only the node's task uses.
//! Keeps: the numbers of the outputs that are read.
//! Source: 003 §1.2 (D2a), facts 4.2 (opens PreRunOptimizeSubGraph). Cost: each node once.
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Model, Node};
use ge_plugin_api::ops::{ParamKind, flags};
use ge_plugin_api::patch::Edit;

graph_pass!(
    ProcessNullableOutput, O1,
    "`%y, %k = Op(…)`, `%k` optional and unread -> `%y = Op(…)`",
    needs "the prototype says that the output may be left out; all outputs behind it go too",
    keeps "the numbers of the outputs that are read",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let mut r = Rewriter::new(g);
    for n in g.nodes().filter(|n| n.outputs().len() > 1) {
        let Some(op) = cx.toolbox.op(n.op_key()) else { continue };
        cx.visits += 1;
        let written = |k: usize| flags::written(op.proto.flags).any(|w| w == k);
        let may_go = |k: usize| op.proto.outputs.get(k).is_some_and(|p| p.kind == ParamKind::OPTIONAL) && !written(k);
        let unread = |n: &Node, k: usize| n.uses(k).is_empty();
        let mut left = n.outputs().len();
        while left > 1 && may_go(left - 1) && unread(n, left - 1) {
            left -= 1;
        }
        if let Some(k) = (1..left).find(|k| may_go(*k) && unread(n, *k)) {
            cx.refuse(n.name(), format!("output {k}, which nobody reads, stands before one that is read"));
        }
        if left < n.outputs().len() {
            r.patch.push(Edit::SetOutputs(n.id(), n.outputs()[..left].into()));
            r.count();
        }
    }
    Ok(r.finish(cx))
}
