//! `CastRemovePass`: casts that change nothing, and casts back from a wider type.
//!
//! Before: `%y = Cast(%x : f32) : f32`   After: reads of `%x`
//! Before: `%w = Cast(%x : f16) : f32  %y = Cast(%w) : f16`   After: reads of `%x`
//! When: input and output have one type; or the first cast loses nothing and the second goes back.
//! Refuses: a first cast that loses bits; unknown shapes.
//! Keeps: the wide value where others read it; the order of control edges.
//! Source: 003 §2.2, facts 4.4 (1_2, 6). Cost: each node once.
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::{DType, Model};
use ge_plugin_api::patch::Edit;

/// See the module.
pub struct CastRemovePass;

/// Whether every value of the first type is a value of the second.
fn loses_nothing(from: DType, to: DType) -> bool {
    let wider: &[DType] = match from {
        DType::F16 | DType::BF16 => &[DType::F32, DType::F64],
        DType::F32 => &[DType::F64],
        DType::I8 => &[DType::I16, DType::I32, DType::I64, DType::F16, DType::F32, DType::F64],
        DType::U8 => &[
            DType::U16,
            DType::U32,
            DType::U64,
            DType::I16,
            DType::I32,
            DType::I64,
            DType::F16,
            DType::F32,
            DType::F64,
        ],
        DType::I16 => &[DType::I32, DType::I64, DType::F32, DType::F64],
        DType::I32 => &[DType::I64, DType::F64],
        _ => &[],
    };
    wider.contains(&to)
}

impl GraphPass for CastRemovePass {
    fn name(&self) -> &'static str {
        "CastRemovePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`Cast` to its own type, or back from a wider one -> `x`"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        let g = &model.graphs()[gi];
        let mut r = Rewriter::new(g);
        for n in g.nodes().filter(|n| n.op() == "Cast") {
            cx.visits += 1;
            let (Some(v), Some(own)) = (r.input(n, 0), n.outputs().first()) else { continue };
            let Some(d) = g.desc(v) else { continue };
            if same_desc(d, own) {
                r.bypass(n, v);
                continue;
            }
            let Some(first) = g.get(v.node).filter(|f| f.op() == "Cast") else {
                cx.refuse(n.name(), format!("it changes {} to {}", d.dtype, own.dtype));
                continue;
            };
            let Some(x) = r.input(first, 0) else { continue };
            match g.desc(x) {
                Some(s) if same_desc(s, own) && loses_nothing(s.dtype, d.dtype) => r.bypass(n, x),
                Some(s) if s.dtype == own.dtype => {
                    cx.refuse(n.name(), format!("the cast from {} to {} before it loses bits", s.dtype, d.dtype))
                }
                _ => cx.refuse(n.name(), "the cast before it starts from another type"),
            }
        }
        Ok(r.finish(cx))
    }
}
