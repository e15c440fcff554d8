//! `HcclContinuousMemcpyPass`: copies the inputs that a collective wants in contiguous memory if
//! their own place in memory is fixed.
//!
//! Before: `%y = HcomAllReduce(%w, %x) {continuous_input = true}` over a `Const`   After: `%c =
//! Identity(%w)`, the collective reads `%c`
//! When: a communication operator asks for continuous inputs, and an input is a graph's input, a
//! constant or a variable, or has another reader that asks for the same.
//! Refuses: operators that do not ask for continuous inputs, or have fewer than two inputs.
//! Keeps: everything but the edges into the collective.
//! Source: 003 §2.2, facts 4.5 (a). Cost: the readers of the inputs of each such operator.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Node, ValueRef};
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::AttrMap;

node_pass!(
    HcclContinuousMemcpyPass,
    O0,
    [],
    "a collective with continuous inputs over constants, inputs, shared values -> the same over copies of them",
    needs "`continuous_input = true` on a communication operator",
    keeps "everything but the edges into the collective",
    visit,
);

fn asks(n: &Node) -> bool {
    n.attrs().flag("continuous_input") || n.attrs().flag("_continuous_input")
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    if cx.op_flags(n) & flags::COMMUNICATION == 0 {
        return Ok(());
    }
    if !asks(n) || n.inputs().len() < 2 {
        cx.refuse(n.name(), "it asks for no run of inputs");
        return Ok(());
    }
    for (i, v) in n.inputs().iter().enumerate() {
        let Some(p) = at.producer(i) else { continue };
        let shared = |v: ValueRef| {
            let others = at.g.users(v).iter().filter(|u| (u.node, u.input as usize) != (n.id(), i));
            others.filter_map(|u| at.g.get(u.node)).any(|u| cx.op_flags(u) & flags::COMMUNICATION != 0 && asks(u))
        };
        if !p.inputs().is_empty() && !shared(*v) {
            continue;
        }
        let mut attrs = AttrMap::default();
        attrs.set("_inserted_by", "HcclContinuousMemcpyPass");
        let desc = at.g.desc(*v).cloned().unwrap_or_default();
        let c = r.patch.add("Identity", &format!("{}_{i}_copy", n.name()), &[*v], vec![desc], attrs);
        r.patch.set_input(n.id(), i as u32, ValueRef::new(c, 0));
        r.count();
    }
    Ok(())
}
