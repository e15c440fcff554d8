//! `ConstantFuseSamePass` and `RemoveSameConstPass`: merge equal constants.
//!
//! Before: `%a = Const() {value = v}  %b = Const() {value = v}`   After: reads of `%b` read `%a`
//! When: type, shape, format and bytes are equal; the first pass handles constants up to 64 KiB,
//! the second all.
//! Refuses: constants with control inputs, which delay them for a reason.
//! Keeps: the first of them, with its name.
//! Source: 003 §2.2, facts 4.4 (1_1, 3 and 1_3). Cost: each constant once; its bytes are hashed and
//! compared only if the hash agrees.
use crate::error::Result;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::{ConstTensor, Model, Node};
use ge_plugin_api::patch::Edit;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum size in bytes of a constant that [`ConstantFuseSamePass`] handles.
const SMALL: u64 = 64 << 10;

/// Merges small constants, before subexpressions are compared.
pub struct ConstantFuseSamePass;
/// Merges constants of any size, after folding.
pub struct RemoveSameConstPass;

fn fuse(cx: &mut PassContext<'_>, model: &Model, gi: usize, limit: u64) -> Vec<Edit> {
    let g = &model.graphs()[gi];
    let mut r = Rewriter::new(g);
    let mut known: HashMap<u64, Vec<(&Node, &ConstTensor)>> = HashMap::new();
    for n in g.nodes().filter(|n| n.is_const()) {
        cx.visits += 1;
        let Some(t) = n.attrs().tensor("value").filter(|t| t.byte_len().is_some_and(|b| b <= limit)) else { continue };
        if !n.controls().is_empty() {
            cx.refuse(n.name(), "control edges hold it back");
            continue;
        }
        let Some(bytes) = t.bytes() else { continue };
        let mut h = DefaultHasher::new();
        (t.dtype.code(), &*t.dims, &bytes[..]).hash(&mut h);
        let list = known.entry(h.finish()).or_default();
        let twin = list.iter().find(|(m, u)| {
            u.dtype == t.dtype
                && u.dims == t.dims
                && m.outputs() == n.outputs()
                && u.bytes().is_some_and(|b| b[..] == bytes[..])
        });
        match twin {
            Some((m, _)) => r.bypass(n, m.value(0)),
            None => list.push((n, t)),
        }
    }
    r.finish(cx)
}

impl GraphPass for ConstantFuseSamePass {
    fn name(&self) -> &'static str {
        "ConstantFuseSamePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "equal constants up to 64 KiB -> one"
    }
    fn needs(&self) -> &'static str {
        "type, shape, format and bytes are equal; the first handles constants up to 64 KiB, the second all"
    }
    fn keeps(&self) -> &'static str {
        "the first of them, with its name"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        Ok(fuse(cx, model, gi, SMALL))
    }
}

impl GraphPass for RemoveSameConstPass {
    fn name(&self) -> &'static str {
        "RemoveSameConstPass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "equal constants of any size -> one"
    }
    fn needs(&self) -> &'static str {
        "type, shape, format and bytes are equal; the first handles constants up to 64 KiB, the second all"
    }
    fn keeps(&self) -> &'static str {
        "the first of them, with its name"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        Ok(fuse(cx, model, gi, u64::MAX))
    }
}
