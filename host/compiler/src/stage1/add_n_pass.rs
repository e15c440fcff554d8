//! `AddNPass`: a sum of one summand is that summand.
//!
//! Before: `%y = AddN(%x) {N = 1}` ... reads of `%y`   After: reads of `%x`
//! When: the node has one input of the output's type and shape.
//! Refuses: two or more inputs; another type or shape.
//! Keeps: the order that its control edges stood for; graph outputs.
//! Source: 003 §2.2, facts 4.4 (1_2, 2). Cost: each node once.
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::Model;
use ge_plugin_api::patch::Edit;

/// See the module.
pub struct AddNPass;

impl GraphPass for AddNPass {
    fn name(&self) -> &'static str {
        "AddNPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`AddN(x)` -> `x`"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        let g = &model.graphs()[gi];
        let mut r = Rewriter::new(g);
        for n in g.nodes().filter(|n| n.op() == "AddN") {
            cx.visits += 1;
            match (n.inputs().len(), n.input(0), n.outputs().first()) {
                (1, Some(x), Some(own)) if g.desc(x).is_some_and(|d| same_desc(d, own)) => r.bypass(n, x),
                (1, ..) => cx.refuse(n.name(), "its input has another type or shape"),
                (k, ..) => cx.refuse(n.name(), format!("it adds {k} inputs")),
            }
        }
        Ok(r.finish(cx))
    }
}
