//! `FuseDataNodesWithCommonInputPass`: makes a subgraph that gets the same value twice read only
//! one of the two inputs.
//!
//! Before: `%y = If(%c, %x, %x) …` with `@then(%a, %b)`   After: within `@then` reads of `%b` read
//! `%a`
//! When: two inputs of the caller are the same value.
//! Refuses: loops, whose inputs change independently; inputs with control edges; different
//! descriptors.
//! Keeps: the inputs themselves; `UnusedArgsCleanPass` removes those left unread.
//! Source: 003 §2.2, facts 4.4 (1_1, 5). Cost: the inputs of each subgraph.
use crate::error::Result;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Model, Node, ValueRef};
use ge_plugin_api::patch::Edit;
use std::collections::HashMap;

graph_pass!(
    FuseDataNodesWithCommonInputPass,
    O3,
    "inputs of a subgraph that are one value -> one is read",
    needs "an `If`, `Case` or `PartitionedCall` that is given a value twice",
    keeps "the inputs of the subgraph",
    run,
);

/// Number of inputs of a node before those of its subgraphs; `None` for loops and other nodes.
pub fn first_argument(op: &str) -> Option<usize> {
    match op {
        "If" | "StatelessIf" | "Case" | "StatelessCase" => Some(1),
        "PartitionedCall" | "StatefulPartitionedCall" => Some(0),
        _ => None,
    }
}

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    if gi == 0 {
        return Ok(Vec::new());
    }
    let Some((pg, pn)) = model.parents().get(g.name()).copied() else { return Ok(Vec::new()) };
    let Some(parent) = model.graphs()[pg].get(pn) else { return Ok(Vec::new()) };
    let Some(first) = first_argument(parent.op()) else {
        cx.refuse(parent.name(), "its inputs change apart");
        return Ok(Vec::new());
    };
    let mut r = Rewriter::new(g);
    let mut known: HashMap<ValueRef, &Node> = HashMap::new();
    for d in g.data_nodes() {
        cx.visits += 1;
        let index = d.attrs().int("index").and_then(|i| usize::try_from(i).ok());
        let Some(given) = index.and_then(|i| parent.input(first + i)).filter(|v| !v.is_absent()) else { continue };
        let Some(twin) = known.get(&given) else {
            known.insert(given, d);
            continue;
        };
        if d.uses(0).is_empty() {
            continue;
        }
        if !d.controls().is_empty() || !d.control_users().is_empty() || d.outputs() != twin.outputs() {
            cx.refuse(d.name(), "it is another input than its twin");
            continue;
        }
        r.patch.replace_uses(d.value(0), twin.value(0));
        r.count();
    }
    Ok(r.finish(cx))
}
