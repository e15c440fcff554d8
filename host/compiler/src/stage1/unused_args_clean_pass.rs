//! `UnusedArgsCleanPass`: removes inputs that no subgraph reads.
//!
//! Before: `%y = If(%c, %x, %z) …` where no branch reads its second input   After: `%y = If(%c, %x)
//! …`
//! When: no branch of an `If`, `Case` or `PartitionedCall` reads the input.
//! Refuses: loops, whose inputs are their outputs; inputs with control edges or with a position of
//! their own (`_parent_node_index`).
//! Keeps: the order of the inputs that stay; names.
//! Source: facts 4.4 (1_3). Cost: the inputs of each such node and of its subgraphs.
use super::fuse_data_nodes_with_common_input_pass::first_argument;
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Graph, Key, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{Attr, AttrValue};

node_pass!(
    UnusedArgsCleanPass,
    O1,
    ["If", "StatelessIf", "Case", "StatelessCase", "PartitionedCall", "StatefulPartitionedCall"],
    "an input that no subgraph reads -> nothing",
    needs "no reader in any subgraph of the node",
    keeps "the order of the inputs that stay; names",
    visit,
);

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let Some(first) = first_argument(n.op()) else { return Ok(()) };
    let subs: Vec<&Graph> = n.subgraphs().into_iter().filter_map(|s| at.model.graph(s)).collect();
    let count = n.inputs().len().saturating_sub(first);
    if subs.is_empty() || count == 0 {
        return Ok(());
    }
    let mut read = vec![false; count];
    for s in &subs {
        for d in s.data_nodes() {
            let own_place = d.attr("_parent_node_index").is_some();
            let index = d.attrs().int("index").and_then(|i| usize::try_from(i).ok());
            let Some(slot) = index.and_then(|i| read.get_mut(i)).filter(|_| !own_place) else {
                cx.refuse(n.name(), "an input of its subgraph has a place of its own");
                return Ok(());
            };
            *slot |= !d.uses(0).is_empty() || !d.control_users().is_empty() || !d.controls().is_empty();
        }
    }
    if read.iter().all(|r| *r) {
        cx.refuse(n.name(), "its subgraphs read every input");
        return Ok(());
    }
    let place: Vec<i64> = (0..count).map(|i| read[..i].iter().filter(|r| **r).count() as i64).collect();
    let inputs: Vec<ValueRef> =
        n.inputs().iter().enumerate().filter(|(i, _)| *i < first || read[*i - first]).map(|(_, v)| *v).collect();
    r.patch.push(Edit::SetInputs(n.id(), inputs.into()));
    for s in &subs {
        r.patch.push(Edit::InGraph(s.name().into()));
        for d in s.data_nodes() {
            let Some(i) = d.attrs().int("index").and_then(|i| usize::try_from(i).ok()) else { continue };
            if read[i] {
                let value = AttrValue::Int(place[i]);
                r.patch.push(Edit::SetAttr(d.id(), Attr { key: Key::new("index"), value }));
            } else {
                r.patch.push(Edit::RemoveNode(d.id()));
            }
        }
    }
    r.patch.push(Edit::InGraph(at.g.name().into()));
    r.count();
    Ok(())
}
