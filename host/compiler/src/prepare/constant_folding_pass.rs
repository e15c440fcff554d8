//! `ConstantFoldingPass`: computes nodes that depend only on constants, with the host kernels of
//! the engine that folds.
//!
//! Before: `%y = Add(%a, %b)` over two `Const`   After: `%y = Const() {value = a + b}`
//! When: all inputs are constants, and the operator has a host kernel and does not use random
//! numbers, state or communication.
//! Refuses: copies (`MemcpyAsync`), whose memory other nodes may write; results over 1 MiB that are
//! larger than their constant inputs, if the file would grow by a quarter or more; control edges
//! into the node.
//! Keeps: the node's name (`name_1` … for further outputs).
//! Source: 003 §2.2, §8, facts 4.3, 4.4 (1_2, 14), DESIGN 10. Cost: each node once, and the kernel.
use super::fold::{fold, folding_engine};
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};

node_pass!(
    ConstantFoldingPass,
    O1,
    [],
    "a node over constants -> `Const`",
    needs "a host kernel; no chance, no effect, no control edge; a result that is small, no larger than its inputs, or within what the file may grow",
    keeps "the node's name",
    visit,
    switch "ge.oo.constantFolding" constant_folding,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    // A copy is made to have memory of its own, which other nodes may write.
    if n.op() == "MemcpyAsync" {
        return Ok(());
    }
    // This quick check excludes almost all nodes.
    let constant = |v: &ge_ir::ValueRef| v.is_absent() || at.g.get(v.node).is_some_and(|p| p.is_const());
    if n.inputs().is_empty() || !n.inputs().iter().all(constant) {
        return Ok(());
    }
    let Some(engine) = folding_engine(cx.toolbox) else { return Ok(()) };
    let context = cx.toolbox.lend(at.model, at.gi);
    if let Some(made) = fold(cx.toolbox, engine, &context.graph().node(n.id())) {
        if made.len() == n.outputs().len() {
            r.fold(n, made);
        }
    }
    Ok(())
}
