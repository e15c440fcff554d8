//! `TransOpSymmetryEliminationPass`: removes a format change that undoes the one before it.
//!
//! Before: `%a = TransData(%x : @NCHW) : @NC1HWC0  %b = TransData(%a) : @NCHW`   After: reads of
//! `%b` read `%x`
//! When: the second gives the type, format and shape that the first started from.
//! Refuses: another format or shape at the end than at the start.
//! Keeps: the first if it has other readers; the order of control edges.
//! Source: 003 §2.2, facts 4.4 (1_2, 9). Cost: each node once; chains in one walk.
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{NodePass, PassContext, PassLevel, Rewriter};
use ge_ir::{Model, Node};

/// See the module documentation.
pub struct TransOpSymmetryEliminationPass;

impl NodePass for TransOpSymmetryEliminationPass {
    fn name(&self) -> &'static str {
        "TransOpSymmetryEliminationPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`TransData(TransData(x))` back to the start -> `x`"
    }
    fn needs(&self) -> &'static str {
        "the second gives the type, format and shape that the first started from"
    }
    fn keeps(&self) -> &'static str {
        "the first where others read it; the order of control edges"
    }
    fn ops(&self) -> &'static [&'static str] {
        &["TransData"]
    }
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        let g = &model.graphs()[gi];
        let Some(first) = r.producer(n, 0).filter(|f| f.op() == "TransData") else {
            cx.refuse(n.name(), "it reads no TransData");
            return Ok(());
        };
        let (Some(x), Some(own)) = (r.input(first, 0), n.outputs().first()) else { return Ok(()) };
        if g.desc(x).is_some_and(|d| same_desc(d, own)) {
            r.bypass(n, x);
        } else {
            cx.refuse(n.name(), "it does not go back to where the first started");
        }
        Ok(())
    }
}
