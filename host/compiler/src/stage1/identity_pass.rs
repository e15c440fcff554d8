//! `IdentityPass`: removes copies that have no effect.
//!
//! Before: `%y = Identity(%x)` ... reads of `%y`   After: reads of `%x`
//! When: the node is an `Identity` with one input of the same type and shape, and no control edge.
//! Refuses: control edges (the copy keeps an order); copies that a stage has inserted
//! (`_inserted_by`); copies in subgraphs.
//! Keeps: names of graph outputs, which are stored at `NetOutput`.
//! Source: 003 §2.2, facts 4.4. Cost: each node once.
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{NodePass, PassContext, PassLevel, Rewriter};
use ge_ir::{Graph, Model, Node, ValueRef};

/// See the module documentation.
pub struct IdentityPass;

fn matches(g: &Graph, n: &Node, gi: usize) -> Result<ValueRef, &'static str> {
    if gi != 0 {
        return Err("copies at the borders of subgraphs keep memory apart");
    }
    if n.attr("_inserted_by").is_some() {
        return Err("a stage has inserted it");
    }
    if !n.controls().is_empty() || !n.control_users().is_empty() {
        return Err("its control edges hold an order");
    }
    let (Some(x), Some(own)) = (n.input(0), n.outputs().first()) else { return Err("it has no input or output") };
    match g.desc(x) {
        Some(d) if same_desc(d, own) && n.outputs().len() == 1 => Ok(x),
        _ => Err("its input has another type or shape"),
    }
}

impl NodePass for IdentityPass {
    fn name(&self) -> &'static str {
        "IdentityPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`Identity(x)` -> `x`"
    }
    fn needs(&self) -> &'static str {
        "the node is an `Identity` with one input of the same type and shape, and no control edge"
    }
    fn keeps(&self) -> &'static str {
        "names of graph outputs, which stand at `NetOutput`"
    }
    fn ops(&self) -> &'static [&'static str] {
        &["Identity"]
    }
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        let g = &model.graphs()[gi];
        match matches(g, n, gi) {
            Ok(x) => r.bypass(n, x),
            Err(why) => cx.refuse(n.name(), why),
        }
        Ok(())
    }
}
