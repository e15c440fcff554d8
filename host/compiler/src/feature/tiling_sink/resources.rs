//! Attached streams and sync resources that engines want for their nodes' own tasks (001 §4.2, facts 1.7): wishes are written
//! as the attributes that stream allocation reads, producers of values are waited for on the attached stream.
use crate::ids::{EventId, ModelMap, NodeKey};
use crate::streams::{ExecutionOrder, StreamPlan};
use crate::sync::{SyncPair, SyncPlan, SyncPoint};
use ge_ir::{AttrValue, Model};
use ge_plugin_api::engine::RunningParams;
use ge_plugin_api::types::attr::DictEntry;
use std::collections::BTreeSet;

/// Writes `_attached_stream_info_list` of the nodes whose engine wants attached streams, where the user gave none.
pub fn ask_streams(model: &mut Model, params: &ModelMap<RunningParams>) {
    for gi in 0..model.graphs().len() {
        for id in model.graphs()[gi].order().to_vec() {
            let wishes = &params[NodeKey::new(gi, id)].attached;
            let g = &mut model.graphs_mut()[gi];
            if wishes.is_empty() || g.get(id).is_none_or(|n| n.attr("_attached_stream_info_list").is_some()) {
                continue;
            }
            let entry = |key: &str, value: AttrValue| DictEntry { key: key.into(), value };
            let list = wishes.iter().map(|w| {
                let depends: Vec<i64> = w.depend_value_inputs.iter().map(|i| i64::from(*i)).collect();
                AttrValue::Dict(
                    vec![
                        entry("_attached_resource_name", w.name.as_str().into()),
                        entry("_attached_resource_reuse_key", w.reuse_key.as_str().into()),
                        entry("_attached_resource_depend_value_list_int", depends.into()),
                        entry("_attached_resource_required_flag", w.required.into()),
                        entry("_attached_resource_force_reuse", w.force_reuse.into()),
                    ]
                    .into(),
                )
            });
            g.set_attr(id, "_attached_stream_info_list", AttrValue::list(list.collect()));
        }
    }
}

/// Adds to a sync plan a pair from each producer of a value that an attached stream reads.
pub fn add_sync(
    model: &Model,
    params: &ModelMap<RunningParams>,
    streams: &StreamPlan,
    order: &ExecutionOrder,
    plan: &mut SyncPlan,
) {
    for &key in order.line() {
        for (wish, &side) in params[key].attached.iter().zip(&streams.attached[key]) {
            for p in producers(model, order, key, &wish.depend_value_inputs) {
                let Some(from) = streams.of[p] else { continue };
                plan.pairs.push(SyncPair {
                    id: EventId(plan.event_num),
                    notify: false,
                    send: SyncPoint { node: p, stream: from },
                    recv: SyncPoint { node: key, stream: side },
                });
                plan.event_num += 1;
                plan.inserted += 1;
            }
        }
    }
}

/// Nodes with a task that make the values of some inputs, through nodes without one.
fn producers(model: &Model, order: &ExecutionOrder, key: NodeKey, inputs: &[u32]) -> BTreeSet<NodeKey> {
    let mut out = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let Some(n) = key.get(model) else { return out };
    let mut todo: Vec<NodeKey> = inputs
        .iter()
        .filter_map(|i| n.input(*i as usize))
        .filter(|v| !v.is_absent())
        .map(|v| NodeKey { graph: key.graph, node: v.node })
        .collect();
    while let Some(p) = todo.pop() {
        if !seen.insert(p) {
            continue;
        }
        let Some(n) = p.get(model) else { continue };
        if matches!(n.op(), "Data" | "Const" | "Constant") {
            continue;
        }
        if order.stand(order.position(p)).is_some() {
            out.insert(p);
        } else {
            let up = n.inputs().iter().filter(|v| !v.is_absent());
            todo.extend(up.map(|v| NodeKey { graph: p.graph, node: v.node }));
        }
    }
    out
}
