//! `CastRemovePass`: removes casts that change nothing, and casts back from a wider type.
//!
//! Before: `%y = Cast(%x : f32) : f32`   After: reads of `%x`
//! Before: `%w = Cast(%x : f16) : f32  %y = Cast(%w) : f16`   After: reads of `%x`
//! When: input and output have the same type; or the first cast is lossless and the second restores
//! the type.
//! Refuses: a first cast that loses bits; unknown shapes.
//! Keeps: the wide value if it has other readers; the order of control edges.
//! Source: 003 §2.2, facts 4.4 (1_2, 6). Cost: each node once.
use super::trans_ops::loses_nothing;
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{NodePass, PassContext, PassLevel, Rewriter};
use ge_ir::{Model, Node};

/// See the module documentation.
pub struct CastRemovePass;

impl NodePass for CastRemovePass {
    fn name(&self) -> &'static str {
        "CastRemovePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`Cast` to its own type, or back from a wider one -> `x`"
    }
    fn needs(&self) -> &'static str {
        "input and output have one type; or the first cast loses nothing and the second goes back"
    }
    fn keeps(&self) -> &'static str {
        "the wide value where others read it; the order of control edges"
    }
    fn ops(&self) -> &'static [&'static str] {
        &["Cast"]
    }
    fn visit(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize, n: &Node, r: &mut Rewriter<'_>) -> Result<()> {
        let g = &model.graphs()[gi];
        let (Some(v), Some(own)) = (r.input(n, 0), n.outputs().first()) else { return Ok(()) };
        let Some(d) = g.desc(v) else { return Ok(()) };
        if same_desc(d, own) {
            r.bypass(n, v);
            return Ok(());
        }
        let Some(first) = g.get(v.node).filter(|f| f.op() == "Cast") else {
            cx.refuse(n.name(), format!("it changes {} to {}", d.dtype, own.dtype));
            return Ok(());
        };
        let Some(x) = r.input(first, 0) else { return Ok(()) };
        match g.desc(x) {
            Some(s) if same_desc(s, own) && loses_nothing(s.dtype, d.dtype) => r.bypass(n, x),
            Some(s) if s.dtype == own.dtype => {
                cx.refuse(n.name(), format!("the cast from {} to {} before it loses bits", s.dtype, d.dtype))
            }
            _ => cx.refuse(n.name(), "the cast before it starts from another type"),
        }
        Ok(())
    }
}
