//! The engines' last hooks on the graph (facts 1.1, 3.3): `OptimizeStreamedWholeGraph` after events
//! are inserted, `OptimizeStreamGraph` before tasks are generated. During the calls, streams and
//! events are attributes of the nodes, as in text form.
use super::SyncPlan;
use crate::error::Result;
use crate::ids::NodeKey;
use crate::pass::{PassManager, Records, hooks};
use crate::streams::StreamPlan;
use ge_ir::{AttrValue, Key, Model};
use ge_plugin_api::engine::Hook;

/// Calls the engines at each hook in turn, in order of optimizer priority.
///
/// # Errors
/// Returns an engine's own error, or an error if an edit does more than set or remove attributes
/// that carry no decision.
pub fn run(
    at: &[Hook],
    model: &mut Model,
    streams: &StreamPlan,
    sync: &SyncPlan,
    passes: &PassManager<'_>,
    records: &mut Records,
) -> Result<()> {
    let written = written(model, streams, sync);
    // The values that the model itself has for these attributes are restored after the calls.
    let own: Vec<Option<AttrValue>> =
        written.iter().map(|(key, k)| key.get(model).and_then(|n| n.attrs().get(*k)).cloned()).collect();
    streams.to_attrs(model);
    sync.to_attrs(model);
    for hook in at {
        let stage = if *hook == Hook::STREAM_GRAPH { "tasks" } else { "sync" };
        hooks::streamed(passes, stage, *hook, model, records)?;
    }
    for ((key, k), value) in written.into_iter().zip(own) {
        let g = &mut model.graphs_mut()[key.graph as usize];
        match value {
            Some(v) => g.set_attr(key.node, k, v),
            None => drop(g.remove_attr(key.node, k)),
        }
    }
    Ok(())
}

/// The attributes that the plans write on nodes.
fn written(model: &Model, streams: &StreamPlan, sync: &SyncPlan) -> Vec<(NodeKey, Key)> {
    let mut out = Vec::with_capacity(model.node_count());
    let [stream, attached, send, recv, notify, wait] = [
        "_stream_id",
        "_attached_stream_ids",
        "_send_event_ids",
        "_recv_event_ids",
        "_send_notify_ids",
        "_recv_notify_ids",
    ]
    .map(Key::new);
    for (gi, g) in model.graphs().iter().enumerate() {
        for &id in g.order() {
            let key = NodeKey::new(gi, id);
            out.push((key, stream));
            if !streams.attached[key].is_empty() {
                out.push((key, attached));
            }
        }
    }
    for p in &sync.pairs {
        let (from, to) = if p.notify { (notify, wait) } else { (send, recv) };
        out.extend([(p.send.node, from), (p.recv.node, to)]);
    }
    out
}
