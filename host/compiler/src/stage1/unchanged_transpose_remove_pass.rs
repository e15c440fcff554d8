//! `UnchangedTransposeRemovePass`: removes a transpose that leaves every axis where it is.
//!
//! Before: `%y = TransposeD(%x) {perm = [0, 1, 2]}`   After: reads of `%x`
//! When: the permutation is known and is the identity.
//! Refuses: a permutation that moves an axis, or one that is computed.
//! Keeps: the order of control edges; graph outputs.
//! Source: 003 §2.2, facts 4.3. Cost: each node once.
use super::permute_pass::permutation;
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{NodePass, PassContext, PassLevel, Rewriter};
use ge_ir::{Model, Node};

/// See the module documentation.
pub struct UnchangedTransposeRemovePass;

impl NodePass for UnchangedTransposeRemovePass {
    fn name(&self) -> &'static str {
        "UnchangedTransposeRemovePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O1
    }
    fn effect(&self) -> &'static str {
        "`Transpose` that moves no axis -> `x`"
    }
    fn needs(&self) -> &'static str {
        "the permutation is known and is the identity"
    }
    fn keeps(&self) -> &'static str {
        "the order of control edges; graph outputs"
    }
    fn ops(&self) -> &'static [&'static str] {
        &["Transpose", "TransposeD"]
    }
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        let g = &model.graphs()[gi];
        let (Some(x), Some(own)) = (n.input(0), n.outputs().first()) else { return Ok(()) };
        match permutation(g, n) {
            None => cx.refuse(n.name(), "its permutation is computed"),
            Some(p) if p.iter().enumerate().any(|(i, a)| i != *a) => cx.refuse(n.name(), "it moves an axis"),
            Some(_) if !g.desc(x).is_some_and(|d| same_desc(d, own)) => cx.refuse(n.name(), "its shape is not known"),
            Some(_) => r.bypass(n, x),
        }
        Ok(())
    }
}
