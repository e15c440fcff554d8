//! `InnerIdentityDeletePass`: removes copies that are not needed to order reads and writes, in
//! every graph.
//!
//! Before: `%y = Identity(%x)` between two operators that do not write in place   After: reads of
//! `%x`
//! When: the value is computed (not an input, a constant, a variable, or a reference to one) and no
//! reader writes into it.
//! Refuses: control edges; sources; copies that a stage inserted; readers that write in place,
//! communicate, have subgraphs, or are a graph's outputs.
//! Keeps: the order of reads and writes of each memory location.
//! Source: 003 §2.2, facts 4.5 (a). Cost: the readers of each `Identity`.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::rewriter::same_desc;
use crate::pass::{PassContext, Rewriter};
use ge_ir::ValueRef;
use ge_plugin_api::ops::flags;

node_pass!(
    InnerIdentityDeletePass,
    O0,
    ["Identity"],
    "`Identity(x)` that keeps no order of reads and writes -> `x`",
    needs "a computed value whose readers only read; no control edge",
    keeps "the order of reads and writes of each place in memory",
    visit,
);

fn matches(cx: &PassContext<'_>, at: &At<'_>) -> Result<ValueRef, &'static str> {
    let (n, g) = (at.n, at.g);
    if n.attr("_inserted_by").is_some() {
        return Err("a stage has inserted it");
    }
    if !n.controls().is_empty() || !n.control_users().is_empty() {
        return Err("its control edges hold an order");
    }
    let (Some(x), Some(p), Some(own)) = (n.input(0), at.producer(0), n.outputs().first()) else {
        return Err("it has no input");
    };
    if n.outputs().len() != 1 || !g.desc(x).is_some_and(|d| same_desc(d, own)) {
        return Err("its input has another type or shape");
    }
    if p.inputs().is_empty() || cx.op_flags(p) & (flags::REFERENCE | flags::STATEFUL) != 0 {
        return Err("its input is no computed value");
    }
    let writes = flags::REFERENCE | flags::STATEFUL | flags::COMMUNICATION;
    let only_read = |v: ValueRef| {
        g.users(v)
            .iter()
            .filter_map(|u| g.get(u.node))
            .all(|u| u.op() != "NetOutput" && u.subgraphs().is_empty() && cx.op_flags(u) & writes == 0)
    };
    if !only_read(n.value(0)) {
        return Err("a reader may write into it, or leads out of the graph");
    }
    if g.users(x).iter().filter_map(|u| g.get(u.node)).any(|u| cx.op_flags(u) & flags::REFERENCE != 0) {
        return Err("another reader of its input writes into it");
    }
    Ok(x)
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    match matches(cx, at) {
        Ok(x) => r.bypass(at.n, x),
        Err(why) => cx.refuse(at.n.name(), why),
    }
    Ok(())
}
