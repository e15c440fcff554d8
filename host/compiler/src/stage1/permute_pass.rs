//! `PermutePass`: merges successive transposes into one, or removes them.
//!
//! Before: `%a = TransposeD(%x) {perm = [1, 2, 0]}  %b = TransposeD(%a) {perm = [2, 0, 1]}`
//! After: reads of `%b` read `%x`
//! Before: `%b = TransposeD(%a) {perm = q}` over `%a = TransposeD(%x) {perm = p}`   After: `%b =
//! TransposeD(%x) {perm = p∘q}`
//! When: both permutations are known.
//! Refuses: a computed permutation; control inputs of the second transpose.
//! Keeps: the first transpose if it has other readers (otherwise `PrunePass` removes it); names;
//! control edges.
//! Source: 003 §2.2, facts 4.4 (1_1, 7). Cost: each node once; chains in one walk.
use crate::error::Result;
use crate::pass::rewriter::same_desc;
use crate::pass::{GraphPass, PassContext, PassLevel, Rewriter};
use ge_ir::{Graph, Key, Model, Node, NodeId, ValueRef};
use ge_plugin_api::abi::RVec;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{Attr, AttrValue};
use std::collections::HashMap;

/// See the module documentation.
pub struct PermutePass;

/// The permutation of a transpose: axis `i` of the output is axis `p[i]` of the input. `None` if it
/// is computed or illegal.
pub fn permutation(g: &Graph, n: &Node) -> Option<Vec<usize>> {
    let rank = g.input_desc(n, 0)?.shape.rank()?;
    let given: Option<Vec<i64>> = match n.op() {
        "TransposeD" => n.attrs().ints("perm").map(<[i64]>::to_vec),
        _ => Some(g.constant(n.input(1)?)?.to_i64(64)?),
    };
    let p: Vec<usize> = match given {
        None => (0..rank).rev().collect(),
        Some(p) if p.is_empty() && n.op() == "TransposeD" => (0..rank).rev().collect(),
        Some(p) => {
            let r = i64::try_from(rank).ok()?;
            p.iter().map(|a| usize::try_from(if *a < 0 { a + r } else { *a }).ok()).collect::<Option<_>>()?
        }
    };
    let mut seen = vec![false; rank];
    let legal = p.len() == rank && p.iter().all(|a| seen.get_mut(*a).is_some_and(|s| !std::mem::replace(s, true)));
    legal.then_some(p)
}

impl GraphPass for PermutePass {
    fn name(&self) -> &'static str {
        "PermutePass"
    }
    fn level(&self) -> PassLevel {
        PassLevel::O3
    }
    fn effect(&self) -> &'static str {
        "`Transpose(Transpose(x))` -> one `TransposeD(x)`, or `x`"
    }
    fn needs(&self) -> &'static str {
        "both permutations are known"
    }
    fn keeps(&self) -> &'static str {
        "the first transpose where others read it (`PrunePass` takes it otherwise); names; control edges"
    }
    fn run(&self, cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
        let g = &model.graphs()[gi];
        let mut r = Rewriter::new(g);
        // What each transpose reads and how it permutes, after the rewrites so far.
        let mut now: HashMap<NodeId, (ValueRef, Vec<usize>)> = HashMap::new();
        for n in g.nodes().filter(|n| matches!(n.op(), "Transpose" | "TransposeD")) {
            cx.visits += 1;
            let (Some(v), Some(own)) = (r.input(n, 0), n.outputs().first()) else { continue };
            let Some(q) = permutation(g, n) else {
                cx.refuse(n.name(), "its permutation is computed");
                continue;
            };
            let Some((x, p)) = now.get(&v.node).filter(|_| v.output == 0).cloned() else {
                cx.refuse(n.name(), "it reads no transpose with a known permutation");
                now.insert(n.id(), (v, q));
                continue;
            };
            if !n.controls().is_empty() {
                cx.refuse(n.name(), "it waits for others by control edges");
                now.insert(n.id(), (v, q));
                continue;
            }
            let both: Vec<usize> = q.iter().map(|a| p[*a]).collect();
            let unmoved = both.iter().enumerate().all(|(i, a)| i == *a);
            if unmoved && g.desc(x).is_some_and(|d| same_desc(d, own)) {
                r.bypass(n, x);
                continue;
            }
            let perm: Vec<i64> = both.iter().map(|a| *a as i64).collect();
            r.patch.push(Edit::SetOp(n.id(), Key::new("TransposeD")));
            r.patch.push(Edit::SetInputs(n.id(), RVec::from(vec![x])));
            r.patch.push(Edit::SetAttr(n.id(), Attr { key: Key::new("perm"), value: AttrValue::from(perm) }));
            r.count();
            now.insert(n.id(), (x, both));
        }
        Ok(r.finish(cx))
    }
}
