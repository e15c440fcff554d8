//! Events of a plan: the minimal set that gives exactly the requested order, proven by an
//! independent checker.
//!
//! A node has one position on its own stream and one on each attached stream. The position on its
//! own stream waits for what the node waits for. An attached position waits for the producers of
//! the values that it reads; if these are not known, it waits for the same nodes and for the node's
//! own stream. What follows the node waits for all its positions, or only for the one on its own
//! stream if the node's own tasks make that stream wait for the attached work. Nodes without a task
//! neither send nor receive: the order that they impose passes through them (DESIGN 9). Every
//! stream joins NetOutput, so that END_GRAPH does not overtake unfinished work.

use super::items::Items;
use super::plan::{SyncPair, SyncPlan};
use super::{optimize_by_recv_events, optimize_by_send_events, optimize_by_stream_activate};
use crate::ids::EventId;
use ge_planners::events::transitive::Event;

/// The optimisations in their order: those that the document names, then the transitive reduction.
type Optimisation = (&'static str, fn(&Items, Vec<Event>) -> Vec<Event>);
const OPTIMISATIONS: &[Optimisation] = &[
    (optimize_by_send_events::NAME, optimize_by_send_events::run),
    (optimize_by_recv_events::NAME, optimize_by_recv_events::run),
    (optimize_by_stream_activate::NAME, optimize_by_stream_activate::run),
    ("TransitiveReduction", |items, events| items.reduced(&events)),
];

/// Inserts the events, each with its own id. Also returns the items that each event connects, in
/// the order of the plan's pairs.
pub(super) fn insert(items: &Items) -> (SyncPlan, Vec<Event>) {
    let mut events = items.crossing();
    let inserted = events.len();
    let mut dropped = Vec::new();
    for (name, run) in OPTIMISATIONS {
        let before = events.len();
        events = run(items, events);
        dropped.push((*name, before - events.len()));
    }
    let pairs: Vec<SyncPair> = events
        .iter()
        .enumerate()
        .map(|(k, e)| SyncPair {
            id: EventId(k as u32),
            notify: false,
            send: items.points[e.send as usize],
            recv: items.points[e.recv as usize],
        })
        .collect();
    (SyncPlan { event_num: pairs.len() as u32, inserted, dropped, pairs, ..SyncPlan::default() }, events)
}
