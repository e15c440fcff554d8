//! `AddNPass`: replaces a sum of one summand by the summand.
//!
//! Before: `%y = AddN(%x) {N = 1}` ... reads of `%y`   After: reads of `%x`
//! When: the node has one input of the output's type and shape.
//! Refuses: two or more inputs; another type or shape.
//! Keeps: the order that its control edges imposed; graph outputs.
//! Source: 003 §2.2, facts 4.4 (1_2, 2). Cost: each node once.
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{NodePass, PassContext, PassLevel, Rewriter};
use ge_ir::{Model, Node};

/// See the module documentation.
pub struct AddNPass;

impl NodePass for AddNPass {
    fn name(&self) -> &'static str {
        "AddNPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`AddN(x)` -> `x`"
    }
    fn needs(&self) -> &'static str {
        "the node has one input of the output's type and shape"
    }
    fn keeps(&self) -> &'static str {
        "the order that its control edges stood for; graph outputs"
    }
    fn ops(&self) -> &'static [&'static str] {
        &["AddN"]
    }
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        let g = &model.graphs()[gi];
        match (n.inputs().len(), n.input(0), n.outputs().first()) {
            (1, Some(x), Some(own)) if g.desc(x).is_some_and(|d| same_desc(d, own)) => r.bypass(n, x),
            (1, ..) => cx.refuse(n.name(), "its input has another type or shape"),
            (k, ..) => cx.refuse(n.name(), format!("it adds {k} inputs")),
        }
        Ok(())
    }
}
