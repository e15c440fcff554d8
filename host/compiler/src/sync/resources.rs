//! Ids of the events and notifies that engines request (`RunningParams::sync`). They follow those
//! between streams and are dense for each kind.
use super::{Resource, SyncPlan};
use crate::ids::{ModelMap, StreamId};
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_plugin_api::engine::RunningParams;
use std::collections::BTreeMap;

/// Assigns ids in execution order. Resources with the same reuse key share an id if their nodes are
/// on one stream and the first node is over before the second, including its attached work, begins.
/// Otherwise the second record could come before the wait for the first.
pub fn assign(plan: &mut SyncPlan, params: &ModelMap<RunningParams>, streams: &StreamPlan, order: &ExecutionOrder) {
    let mut shared: BTreeMap<(StreamId, bool, &str), (u32, usize)> = BTreeMap::new();
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
            let at = order.position(key);
            let name = streams.of[key].filter(|_| !r.reuse_key.is_empty()).map(|s| (s, r.notify, r.reuse_key.as_str()));
            let over = |last: &&(u32, usize)| last.1 == at || order.ordered_at(last.1, order.beginning(at));
            let id = match name.and_then(|n| shared.get(&n).filter(over)) {
                Some((id, _)) => *id,
                None => fresh(),
            };
            shared.extend(name.map(|n| (n, (id, at))));
            ids.push(Resource { id, notify: r.notify });
        }
        plan.resources.insert(key, ids);
    }
}
