//! Ids of the events and notifies that engines ask for (`RunningParams::sync`): after those between streams, dense by kind.
use super::SyncPlan;
use crate::ids::{ModelMap, StreamId};
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_plugin_api::engine::RunningParams;
use std::collections::BTreeMap;

/// Gives ids in execution order. Resources of one reuse key share an id where their nodes stand on one stream.
pub fn assign(plan: &mut SyncPlan, params: &ModelMap<RunningParams>, streams: &StreamPlan, order: &ExecutionOrder) {
    let mut shared: BTreeMap<(StreamId, bool, &str), u32> = BTreeMap::new();
    for &key in order.line() {
        let wanted = &params[key].sync;
        if wanted.is_empty() {
            continue;
        }
        let mut ids = Vec::with_capacity(wanted.len());
        for r in wanted {
            let next = if r.notify { &mut plan.notify_num } else { &mut plan.event_num };
            let mut fresh = || {
                *next += 1;
                *next - 1
            };
            ids.push(match streams.of[key] {
                Some(s) if !r.reuse_key.is_empty() => {
                    *shared.entry((s, r.notify, r.reuse_key.as_str())).or_insert_with(fresh)
                }
                _ => fresh(),
            });
        }
        plan.resources.insert(key, ids);
    }
}
