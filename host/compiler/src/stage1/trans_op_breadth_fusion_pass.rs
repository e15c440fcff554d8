//! `TransOpBreadthFusionPass`: makes equal changes of layout or type of one value only once.
//!
//! Before: two equal nodes `%a = TransData(%x) %b = TransData(%x)`   After: reads of `%b` read `%a`
//! When: type, attributes and outputs of the two are equal. This works even if subexpressions are
//! not compared.
//! Refuses: control edges into the second.
//! Keeps: the first of them; what waited for the second waits for the first.
//! Source: 003 §2.2, facts 4.4 (1_1, 11). Cost: the readers of each value once.
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Key, Model, Node, ValueRef};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;
use std::collections::HashMap;

graph_pass!(
    TransOpBreadthFusionPass,
    O3,
    "equal changes of layout or type of one value -> one",
    needs "equal type, attributes and outputs; no control edge into the second",
    keeps "the first of them",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let mut r = Rewriter::new(g);
    let mut known: HashMap<(Key, Vec<ValueRef>), Vec<&Node>> = HashMap::new();
    for n in g.nodes() {
        let trans = n.op() == "Cast" || cx.op_flags(n) & flags::TRANS_OP != 0;
        if !trans || n.outputs().len() != 1 {
            continue;
        }
        cx.visits += 1;
        let inputs = n.inputs().iter().map(|v| if v.is_absent() { *v } else { r.resolve(*v) }).collect();
        let list = known.entry((n.op_key(), inputs)).or_default();
        let equal = |m: &&&Node| ge_ir::graph::same_work(m.attrs(), n.attrs()) && m.outputs() == n.outputs();
        match list.iter().find(equal).copied() {
            None => list.push(n),
            Some(_) if !n.controls().is_empty() => cx.refuse(n.name(), "it waits for others by control edges"),
            Some(twin) => r.replace_all(n, twin),
        }
    }
    Ok(r.finish(cx))
}
