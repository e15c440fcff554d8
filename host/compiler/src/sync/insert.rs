//! Events of a plan: the least set that gives exactly the order asked for, proven by a checker of
//! its own.
//!
//! A node stands once on its own stream and once on each attached one. Its own waits for what the
//! node waits for, an attached one for the producers of the values that it reads, or for the same
//! and its node's own stream where it is not said what it reads; what follows the node waits for
//! all of them; where the node's own tasks have its own stream wait for its attached work, for the
//! node's own alone. Nodes without a task neither send nor receive: the order that they stand for
//! passes through them (DESIGN 9). Every stream joins NetOutput, so that END_GRAPH passes no
//! unfinished work.

use super::items::Items;
use super::plan::{SyncPair, SyncPlan};
use super::{optimize_by_recv_events, optimize_by_send_events, optimize_by_stream_activate};
use crate::ids::EventId;
use ge_planners::events::transitive::Event;

/// The optimisations in their order: those of the document by name, then the transitive one.
type Optimisation = (&'static str, fn(&Items, Vec<Event>) -> Vec<Event>);
const OPTIMISATIONS: &[Optimisation] = &[
    (optimize_by_send_events::NAME, optimize_by_send_events::run),
    (optimize_by_recv_events::NAME, optimize_by_recv_events::run),
    (optimize_by_stream_activate::NAME, optimize_by_stream_activate::run),
    ("TransitiveReduction", |items, events| items.reduced(&events)),
];

/// Inserts the events, each with an id of its own; and what they stand between, in the order of the
/// plan's pairs.
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
