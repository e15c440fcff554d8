//! `VariableOpPass`: stores a variable in another layout if all its readers want that layout.
//!
//! Before: `%v = Variable() : @NCHW  %t = TransData(%v) : @NC1HWC0  %a = Assign(%v, %n)`
//! After: `%v = Variable() : @NC1HWC0  %a = Assign(%v, TransData(%n))`, reads of `%t` read `%v`
//! When: all readers are the same `TransData` or `TransposeD`, or assignments to the variable whose
//! results have no readers.
//! Refuses: an initial value (`init_value`); another graph of the model with a variable of this
//! name; readers that differ; control edges on the changes; a variable that is assigned and is an
//! output of the graph.
//! Keeps: the variable's name; its value, as its readers see it. `_variable_layout` says that its
//! layout differs from that of the imported graph.
//! Source: 003 §2.2, facts 4.4 (1_1, 9). Cost: the readers of each variable.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Node, ValueRef};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;

node_pass!(
    VariableOpPass,
    O3,
    ["Variable"],
    "`TransData(Variable)` -> a `Variable` in that layout",
    needs "all readers change its layout alike; no initial value",
    keeps "the variable's name; what it holds, as its readers see it",
    visit,
    switch "ge.exec.variable_acc" variable_acc,
);

/// Attribute of a variable that is stored in another layout than the imported graph says: the
/// change of layout. Values that outlive the run are meaningful only together with it.
const LAYOUT: &str = "_variable_layout";

fn layout(change: &Node) -> String {
    match change.attrs().ints("perm") {
        Some(perm) => format!("{} {perm:?}", change.op()),
        None => format!("{} {}", change.op(), change.attrs().str("dst_format").unwrap_or("?")),
    }
}

struct Match<'m> {
    changes: Vec<&'m Node>,
    writers: Vec<&'m Node>,
}

fn matches<'m>(cx: &PassContext<'_>, at: &At<'m>) -> Result<Match<'m>, &'static str> {
    let n = at.n;
    if !n.inputs().is_empty() || n.attr("init_value").is_some() {
        return Err("it has an initial value");
    }
    let same = |g: &ge_ir::Graph| g.name() != at.g.name() && g.find(n.name()).is_some_and(|o| o.op() == "Variable");
    if at.model.graphs().iter().any(same) {
        return Err("another graph reads it too");
    }
    let mut m = Match { changes: Vec::new(), writers: Vec::new() };
    for u in n.uses(0) {
        let Some(p) = at.g.get(u.node) else { continue };
        if matches!(p.op(), "TransData" | "TransposeD") {
            m.changes.push(p);
        } else if p.op() == "Assign" && cx.op_flags(p) & flags::REFERENCE != 0 && u.input == 0 && p.uses(0).is_empty() {
            m.writers.push(p);
        } else {
            return Err("others than changes of layout and assignments read it");
        }
    }
    let Some(first) = m.changes.first() else { return Err("nobody changes its layout") };
    let alike = |c: &&Node| {
        c.op() == first.op() && c.outputs() == first.outputs() && ge_ir::graph::same_work(c.attrs(), first.attrs())
    };
    if !m.changes.iter().all(alike) {
        return Err("its readers want different layouts");
    }
    if m.changes.iter().any(|c| !c.controls().is_empty() || !c.control_users().is_empty()) {
        return Err("control edges hang on a change of its layout");
    }
    let given_out = |c: &&Node| c.uses(0).iter().any(|u| at.g.get(u.node).is_some_and(|o| o.op() == "NetOutput"));
    if !m.writers.is_empty() && m.changes.iter().any(given_out) {
        return Err("the graph gives out what it writes over");
    }
    Ok(m)
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let m = match matches(cx, at) {
        Ok(m) => m,
        Err(why) => {
            cx.refuse(n.name(), why);
            return Ok(());
        }
    };
    let first = m.changes[0];
    for w in &m.writers {
        let Some(value) = w.input(1) else { continue };
        let name = format!("{}_{}", w.name(), first.op());
        let t = r.patch.add(first.op(), &name, &[value], first.outputs().to_vec(), first.attrs().to_map());
        r.patch.set_input(w.id(), 1, ValueRef::new(t, 0));
        r.patch.push(Edit::SetOutputs(w.id(), first.outputs().to_vec().into()));
    }
    r.patch.push(Edit::SetOutputs(n.id(), first.outputs().to_vec().into()));
    r.patch.set_attr(n.id(), LAYOUT, layout(first));
    for c in m.changes {
        r.patch.replace_uses(c.value(0), n.value(0));
        r.remove(c.id());
    }
    Ok(())
}
