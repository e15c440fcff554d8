//! `SwitchLogicRemovePass`: removes a switch on a side of another switch with the same predicate.
//!
//! Before: `%s = Switch(%x, %p)  %t = Switch(%s#1, %p)`   After: reads of `%t#1` read `%s#1`; nodes
//! that read `%t` are removed
//! When: a `Switch` reads an output of another with the same predicate.
//! Refuses: other predicates; a dead value that is an output of the graph.
//! Keeps: names and order of all live nodes.
//! Source: facts 4.4 (1_2, 4). Cost: the nodes that are removed.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use crate::prepare::switch_dead_branch_elimination::cut;

node_pass!(
    SwitchLogicRemovePass,
    O3,
    ["Switch", "RefSwitch"],
    "`Switch(Switch(x, p), p)` -> the inner one",
    needs "the same predicate",
    keeps "names and order of all that is alive",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let (Some(x), Some(outer)) = (n.input(0), at.producer(0)) else { return Ok(()) };
    if !outer.op().ends_with("Switch") || n.outputs().len() != 2 {
        return Ok(());
    }
    if outer.input(1) != n.input(1) {
        cx.refuse(n.name(), "the outer one has another predicate");
        return Ok(());
    }
    if let Err(why) = cut(r, at.g, n, x.output) {
        cx.refuse(n.name(), why);
    }
    Ok(())
}
