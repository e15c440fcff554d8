//! `CondRemovePass`: removes a choice whose condition is constant.
//!
//! Before: `%y = If(true, %x) {then_branch = @a, else_branch = @b}`   After: the nodes of `@a` over
//! `%x`
//! Before: `%y = While(%x) {cond = @c, body = @b}` where `@c` always gives false   After: reads of
//! `%x`
//! When: the condition of an `If` or the index of a `Case` (out of range: the last branch) is a
//! constant of one element; the condition of a `While` is a constant false.
//! Refuses: conditions that are computed; control edges at the borders of the branch; a loop whose
//! outputs have other types than its inputs.
//! Keeps: names of the branch's nodes, the order of control edges.
//! Source: facts 4.3, 4.5 (b). Cost: the nodes of the branch taken.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::inline::inline;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{AttrValue, ConstTensor, Graph};
use ge_plugin_api::patch::Edit;

node_pass!(
    CondRemovePass,
    O1,
    ["If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"],
    "`If`, `Case` of a constant -> the branch; `While` of a constant false -> its inputs",
    needs "a condition that is a constant of one element",
    keeps "names of the branch's nodes, the order of control edges",
    visit,
);

/// The only element of a constant as an integer (a fraction counts as not 0).
fn one(t: &ConstTensor) -> Option<i64> {
    if t.count()? != 1 {
        return None;
    }
    t.to_i64(1)
        .and_then(|v| v.first().copied())
        .or_else(|| Some(i64::from(*t.to_f64(1)?.first()? != 0.0)))
        .or_else(|| Some(i64::from(t.bytes()?.iter().any(|b| *b != 0))))
}

fn named<'m>(at: &At<'m>, key: &str) -> Option<&'m Graph> {
    match at.n.attr(key)? {
        AttrValue::Graph(g) => at.model.graph(g),
        _ => None,
    }
}

fn branches<'m>(at: &At<'m>) -> Option<Vec<&'m Graph>> {
    if at.n.op().ends_with("If") {
        return Some(vec![named(at, "then_branch")?, named(at, "else_branch")?]);
    }
    at.n.subgraphs().into_iter().map(|s| at.model.graph(s)).collect()
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    if n.op().ends_with("While") {
        let Some(cond) = named(at, "cond") else { return Ok(()) };
        let stops = cond.net_output().and_then(|o| one(cond.constant(o.input(0)?)?));
        if stops != Some(0) {
            cx.refuse(
                n.name(),
                if stops.is_some() { "its condition is always true" } else { "its condition is computed" },
            );
            return Ok(());
        }
        let fits = n.inputs().len() == n.outputs().len()
            && n.inputs().iter().zip(n.outputs()).all(|(v, d)| at.g.desc(*v).is_some_and(|x| x.dtype == d.dtype));
        if !fits {
            cx.refuse(n.name(), "its outputs are not of its inputs' types");
            return Ok(());
        }
        for (k, v) in n.inputs().iter().enumerate() {
            r.patch.replace_uses(n.value(k as u32), *v);
        }
        for c in n.controls() {
            for u in n.control_users().iter().chain((0..n.outputs().len()).flat_map(|k| n.uses(k)).map(|u| &u.node)) {
                r.patch.push(Edit::AddControl(*c, *u));
            }
        }
        r.remove(n.id());
        return Ok(());
    }
    let Some(index) = n.input(0).and_then(|v| at.g.constant(v)) else {
        cx.refuse(n.name(), "its condition is computed");
        return Ok(());
    };
    let (Some(index), Some(branches)) = (one(index), branches(at)) else {
        cx.refuse(n.name(), "its condition has more than one element");
        return Ok(());
    };
    let last = branches.len().saturating_sub(1);
    let taken =
        if n.op().ends_with("If") { usize::from(index == 0) } else { usize::try_from(index).unwrap_or(last).min(last) };
    let Some(branch) = branches.get(taken) else { return Ok(()) };
    if let Err(why) = inline(r, n, branch, n.inputs().get(1..).unwrap_or(&[])) {
        cx.refuse(n.name(), why);
    }
    Ok(())
}
