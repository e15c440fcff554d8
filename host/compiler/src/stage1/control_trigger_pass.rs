//! `ControlTriggerPass`: a node that is reached whichever side of a switch was taken waits for a
//! value that both sides provide.
//!
//! Before: `%c = ControlTrigger() after(%t)` with `%t` on one side of a `Switch`
//! After: `%c_Merge = Merge(…)` of a constant of each side, that of `%t`'s side after it; `%c =
//! ControlTrigger() after(%c_Merge)`
//! When: the node waits for a node on a side, nested deeper than itself.
//! Refuses: waits for nodes that always run.
//! Keeps: names; the order that its control edges impose.
//! Source: facts 4.4 (1_3). Cost: the control inputs of each `ControlTrigger`, and once all nodes
//! and edges times the depth of nesting.
use crate::error::Result;
use crate::feature::control_flow::regions::{Region, Regions};
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{ConstTensor, DType, Model, NodeId, Shape, TensorDesc, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;
use std::collections::BTreeMap;

graph_pass!(
    ControlTriggerPass,
    O0,
    "`ControlTrigger` behind a side of a `Switch` -> behind a `Merge` of both sides",
    needs "a control edge from a side of a `Switch`",
    keeps "names; the order of control edges",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    if !g.nodes().any(|n| n.op() == "ControlTrigger") {
        return Ok(Vec::new());
    }
    let Some(all) = Regions::of(g)? else { return Ok(Vec::new()) };
    let mut r = Rewriter::new(g);
    for t in g.nodes().filter(|n| n.op() == "ControlTrigger") {
        cx.visits += 1;
        let home = all.at(t.id());
        // For each region, inner ones first, the nodes of it that the trigger must wait for.
        let mut todo: BTreeMap<(std::cmp::Reverse<usize>, Region), Vec<NodeId>> = BTreeMap::new();
        for c in t.controls() {
            let at = all.at(*c);
            if at == home {
                cx.refuse(t.name(), "what it waits for always runs");
                continue;
            }
            r.patch.push(Edit::RemoveControl(*c, t.id()));
            todo.entry((std::cmp::Reverse(all.path(at).len()), at)).or_default().push(*c);
        }
        let mut made = 0;
        while let Some(((_, at), waits)) = todo.pop_first() {
            let around = all.around(at).unwrap_or(Region::Root);
            let joined: Vec<NodeId> = match at {
                Region::Side(k, side) if all.group(k).of_loop.is_none() => {
                    let group = all.group(k);
                    let Some(switch) = group.switches.first() else { continue };
                    // If the trigger waits for both sides, they are handled together.
                    let depth = std::cmp::Reverse(all.path(at).len());
                    let other = todo.remove(&(depth, Region::Side(k, 1 - side))).unwrap_or_default();
                    let name =
                        if made == 0 { format!("{}_Merge", t.name()) } else { format!("{}_Merge_{made}", t.name()) };
                    made += 1;
                    let number = TensorDesc::new(DType::I32, Shape::scalar());
                    let ways = [(side, waits), (1 - side, other)].map(|(s, waits)| {
                        let value =
                            ConstTensor::of(&[], &[i32::from(s)]).map(|c| r.patch.constant(&format!("{name}_{s}"), c));
                        let from = value.unwrap_or(ValueRef::ABSENT);
                        let mut attrs = AttrMap::default();
                        attrs.set("_inserted_by", "MergeInputMemcpyPass");
                        let way = r.patch.add(
                            "MemcpyAsync",
                            &format!("{name}_copy_{s}"),
                            &[from],
                            vec![number.clone()],
                            attrs,
                        );
                        let here = r.patch.add(
                            "NoOp",
                            &format!("{name}_side_{s}"),
                            &[ValueRef::new(*switch, u32::from(s))],
                            vec![],
                            AttrMap::default(),
                        );
                        r.patch.push(Edit::AddControl(here, way));
                        waits.into_iter().for_each(|w| r.patch.push(Edit::AddControl(w, way)));
                        ValueRef::new(way, 0)
                    });
                    let merge = r.patch.add("Merge", &name, &ways, vec![number.clone(), number], AttrMap::default());
                    r.count();
                    vec![merge]
                }
                // A loop ends with its exits.
                Region::Side(k, _) => all.group(k).of_loop.map_or(Vec::new(), |l| all.loops[l as usize].exits.clone()),
                Region::Loop(l) => all.loops[l as usize].exits.clone(),
                Region::Root => waits,
            };
            if around == home || matches!(at, Region::Root) {
                joined.into_iter().for_each(|m| r.patch.push(Edit::AddControl(m, t.id())));
            } else {
                todo.entry((std::cmp::Reverse(all.path(around).len()), around)).or_default().extend(joined);
            }
        }
    }
    Ok(r.finish(cx))
}
