//! `MergePass`: removes a merge to which only one path is left.
//!
//! Before: `%m, %i = Merge(%x)`   After: reads of `%x`; reads of `%i` read a `Const` 0
//! When: the node has one input left, or none and no reader.
//! Refuses: two or more inputs; a loop whose `NextIteration` still exists.
//! Keeps: the order of control edges; the index that its readers saw (`_merge_live`, which says
//! which input is left).
//! Source: facts 4.3, 4.4 (1_2, 5). Cost: each node once.
use crate::error::Result;
use crate::feature::control_flow::regions::NEXT;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType, ValueRef};
use ge_plugin_api::patch::Edit;

node_pass!(
    MergePass,
    O1,
    ["Merge", "RefMerge"],
    "`Merge(x)` -> `x`",
    needs "one input, or none and no reader",
    keeps "the order of control edges; the index of the input",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let live: Vec<ValueRef> = n.inputs().iter().copied().filter(|v| !v.is_absent()).collect();
    let unread = (0..n.outputs().len()).all(|k| n.uses(k).is_empty());
    match live.as_slice() {
        [] if unread => r.drop_dead_end(n),
        [_] if at.n.attrs().str(NEXT).is_some_and(|next| at.g.find(next).is_some()) => {
            cx.refuse(n.name(), "its loop gives it another value in every turn");
        }
        [x] => {
            if n.outputs().len() > 1 && !n.uses(1).is_empty() {
                let dtype = n.outputs()[1].dtype;
                let index = n.attrs().int("_merge_live").unwrap_or(0);
                let t = if dtype == DType::I64 {
                    ConstTensor::of(&[], &[index])
                } else {
                    i32::try_from(index).ok().and_then(|i| ConstTensor::of(&[], &[i]))
                };
                let Some(t) = t else { return Ok(()) };
                let c = r.patch.constant(&format!("{}_index", n.name()), t);
                r.patch.push(Edit::ReplaceUses(n.value(1), c));
            }
            r.bypass(n, *x);
        }
        many => cx.refuse(n.name(), format!("{} ways lead to it", many.len())),
    }
    Ok(())
}
