//! Event ids: reuse once a wait is known to be over, shared numbers for gears that never run
//! together, multiplexing, and continuous numbering. Sources: 003 §5.3, 004 §4.3.4 and §4.3.5,
//! facts 1.10.
use super::items::index;
use super::plan::SyncPlan;
use crate::error::EventFault;
use crate::error::{CompileError, Result};
use crate::ids::EventId;
use crate::streams::ExecutionOrder;
use ge_ir::Model;
use ge_model::gears::BATCH_NUM;
use std::collections::{BTreeMap, BTreeSet};

/// Reuses ids. A second pair gets the id of a first one only if the first wait is over before the
/// second record, and precedes the second wait on the same stream; then neither wait can take the
/// other's signal. Costs one look-up in an ordered map per pair.
pub fn reuse_ids(plan: &mut SyncPlan, order: &ExecutionOrder) {
    // For each receiving stream: ids by the position of their last wait on it.
    let mut free: Vec<BTreeMap<u32, Vec<u32>>> = vec![BTreeMap::new(); order.stream_count()];
    let mut next = 0u32;
    for p in &mut plan.pairs {
        let (send, recv) = (order.position(p.send.node), order.position(p.recv.node));
        let own = order.stand(recv).filter(|(s, _)| *s == p.recv.stream);
        // Attached positions are not in the clocks, so their ids are not reused.
        let Some((s, pos)) = own else {
            p.id = EventId(next);
            next += 1;
            continue;
        };
        // A record on an attached stream may come as early as the attached work begins.
        let main = order.stand(send).is_some_and(|(s, _)| s == p.send.stream);
        let from = if main { send } else { order.beginning(send) };
        let over = order.clock(from).get(index(s)).copied().unwrap_or(0);
        let ids = &mut free[index(s)];
        let found = ids.range(..over.min(pos)).next().map(|(k, _)| *k);
        let id = match found.and_then(|k| {
            let list = ids.get_mut(&k)?;
            let id = list.pop();
            if list.is_empty() {
                ids.remove(&k);
            }
            id
        }) {
            Some(id) => id,
            None => {
                next += 1;
                next - 1
            }
        };
        ids.entry(pos).or_default().push(id);
        p.id = EventId(id);
    }
    plan.event_num = next;
}

/// Only one gear runs at a time, so the events inside each gear start at the same number. The gears
/// of the next choice begin after the greatest of them, and events outside gears follow all (004
/// §4.3.4). A gear is a branch of a `Case` with `_batch_num`, or of the label switch that it has
/// become. That two gears never run together follows from the branches of the graph.
pub fn reuse_event_for_multi_dims(model: &Model, plan: &mut SyncPlan, order: &ExecutionOrder) {
    let branches = order.branches();
    let choices = branches.choices(model, &|n| n.attr(BATCH_NUM).is_some());
    let mut base = 0u32;
    let mut done: BTreeSet<usize> = BTreeSet::new();
    for choice in choices {
        // New numbers in each gear, by the old ones.
        let mut gears: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
        for (k, p) in plan.pairs.iter_mut().enumerate() {
            let inside = |key| branches.at(key).iter().find(|(c, _)| *c == choice).map(|(_, branch)| *branch);
            let Some(gear) = inside(p.send.node).filter(|g| inside(p.recv.node) == Some(*g)) else { continue };
            if done.insert(k) {
                let ids = gears.entry(gear).or_default();
                let next = base + ids.len() as u32;
                p.id = EventId(*ids.entry(p.id.0).or_insert(next));
            }
        }
        base += gears.values().map(|ids| ids.len() as u32).max().unwrap_or(0);
    }
    if done.is_empty() {
        return;
    }
    let mut ids: BTreeMap<u32, u32> = BTreeMap::new();
    for (k, p) in plan.pairs.iter_mut().enumerate() {
        if !done.contains(&k) {
            let next = base + ids.len() as u32;
            p.id = EventId(*ids.entry(p.id.0).or_insert(next));
        }
    }
    plan.event_num = base + ids.len() as u32;
}

/// Applies `_event_multiplexing`: `SendTo;<node>;<n>` and `RecvFrom;<node>;<n>` give the event
/// between two nodes the number `n`, counted after all other ids, so that events with the same
/// number become one. Returns the indices of the pairs that got such a number.
///
/// # Errors
/// Fails if an entry has another form, or names a node that does not exist.
pub fn multiplex(model: &Model, plan: &mut SyncPlan) -> Result<Vec<usize>> {
    let mut wanted: BTreeMap<(String, String), u32> = BTreeMap::new();
    let known = |name: &str| model.graphs().iter().any(|g| g.find(name).is_some());
    for n in model.graphs().iter().flat_map(|g| g.nodes()) {
        for entry in n.attrs().strs("_event_multiplexing").unwrap_or_default() {
            let parts: Vec<&str> = entry.split(';').collect();
            let (pair, number) = match parts.as_slice() {
                ["SendTo", node, k] => ((n.name().to_owned(), (*node).to_owned()), k.trim().parse::<u16>()),
                ["RecvFrom", node, k] => (((*node).to_owned(), n.name().to_owned()), k.trim().parse::<u16>()),
                _ => return Err(bad_entry(n.name(), entry)),
            };
            if let Some(gone) = [&pair.0, &pair.1].into_iter().find(|name| !known(name)) {
                return Err(
                    EventFault::NoNode { node: n.name().into(), entry: entry.into(), gone: gone.clone() }.into()
                );
            }
            wanted.insert(pair, u32::from(number.map_err(|_| bad_entry(n.name(), entry))?));
        }
    }
    let mut given = Vec::new();
    if wanted.is_empty() {
        return Ok(given);
    }
    let behind = plan.event_num;
    for (i, p) in plan.pairs.iter_mut().enumerate() {
        if let Some(k) = wanted.get(&(p.send.node.name(model), p.recv.node.name(model))) {
            p.id = EventId(behind + k);
            given.push(i);
        }
    }
    Ok(given)
}

fn bad_entry(node: &str, entry: &str) -> CompileError {
    EventFault::Form { node: node.into(), entry: entry.into() }.into()
}

/// Renumbers ids from 0 without gaps, in the order of the old ids (004 §4.3.5).
pub fn refresh_continuous(plan: &mut SyncPlan) {
    let mut ids: BTreeMap<u32, u32> = plan.pairs.iter().map(|p| (p.id.0, 0)).collect();
    for (k, v) in ids.values_mut().enumerate() {
        *v = k as u32;
    }
    for p in &mut plan.pairs {
        if let Some(id) = ids.get(&p.id.0) {
            p.id = EventId(*id);
        }
    }
    plan.event_num = ids.len() as u32;
}
