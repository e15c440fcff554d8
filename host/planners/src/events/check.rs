//! Independent check of a plan of streams and events; it shares no code with the planners.
//!
//! A plan is sound if stream order and events form no cycle, if every edge follows from them, and
//! if the streams obey the rules for labels, independent engines and the number of streams. The
//! order in which the host made its calls is not used.

use crate::events::branch::{Branch, exclusive};
use std::collections::BTreeMap;
use thiserror::Error;

/// What the stream of a node is reserved for, as the caller numbers it. Nodes with equal values may
/// share a stream.
pub type Reserve = Option<u64>;

/// A stream that any one of several nodes wakes. It is ordered after everything that precedes all
/// of its wakers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The first node of the stream.
    pub first: u32,
    /// The nodes that wake it.
    pub wakers: Vec<u32>,
    /// Streams that run only on some of the paths to this point: for these, the furthest progress
    /// among the wakers counts.
    pub beside: Vec<u32>,
}

/// What carries a signal; each kind has its own ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncKind {
    /// An event.
    Event,
    /// A notify.
    Notify,
}

impl std::fmt::Display for SyncKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == SyncKind::Notify { "notify" } else { "event" })
    }
}

/// A plan to check. Nodes are numbered 0..n.
#[derive(Debug, Clone, Copy)]
pub struct PlanView<'a> {
    /// Number of nodes.
    pub nodes: usize,
    /// Edges that must be honoured.
    pub edges: &'a [(u32, u32)],
    /// Stream of each node.
    pub stream: &'a [u32],
    /// All nodes; the nodes of a stream run in this order.
    pub order: &'a [u32],
    /// Sender and receiver of each event; a node waits for its events in this order.
    pub events: &'a [(u32, u32)],
    /// Streams that any one of several nodes wakes.
    pub joins: &'a [Join],
    /// Kind and id of each event, for the first events. The other events are ordering that needs no
    /// id. If empty, each event has its own id.
    pub event_ids: &'a [(SyncKind, u32)],
    /// The branches that contain each node; empty if there are none.
    pub branches: &'a [Branch],
    /// What the stream of each node is reserved for; empty if no node is reserved.
    pub reserve: &'a [Reserve],
    /// Values of `reserve` whose nodes must all be on one stream (labels).
    pub together: &'a [u64],
    /// Greatest number of streams; `None`: no limit.
    pub max_streams: Option<usize>,
}

/// Why a plan is not sound.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum PlanFault {
    /// A table does not have one entry for each node.
    #[error("{what} has {found} entries, the graph has {nodes} nodes")]
    Length {
        /// Name of the table.
        what: &'static str,
        /// Its length.
        found: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// A table names a node that does not exist, or names it twice.
    #[error("{what} names node {node} which is unknown or stands twice")]
    Node {
        /// Name of the table.
        what: &'static str,
        /// Number of the node.
        node: u32,
    },
    /// More streams than allowed.
    #[error("{streams} streams, {allowed} allowed")]
    TooManyStreams {
        /// Number of streams in the plan.
        streams: usize,
        /// The limit.
        allowed: usize,
    },
    /// A stream has nodes with different reservations.
    #[error("stream {stream} mixes nodes of different reservations (nodes {first} and {second})")]
    Mixed {
        /// The stream.
        stream: u32,
        /// A node on the stream.
        first: u32,
        /// A node that may not share a stream with it.
        second: u32,
    },
    /// Nodes with the same label are on different streams.
    #[error("nodes {first} and {second} must stand on one stream")]
    Split {
        /// A node with the label.
        first: u32,
        /// Another node with the label, on another stream.
        second: u32,
    },
    /// Stream order and events form a cycle.
    #[error("deadlock: stream order and events form a cycle through node {node}")]
    Deadlock {
        /// A node that never starts.
        node: u32,
    },
    /// An edge does not follow from stream order and events.
    #[error("edge {from} -> {to} is not honoured (streams {from_stream} and {to_stream})")]
    Unordered {
        /// The producer.
        from: u32,
        /// The consumer.
        to: u32,
        /// The producer's stream.
        from_stream: u32,
        /// The consumer's stream.
        to_stream: u32,
    },
    /// An id is recorded again before its previous wait is known to be over.
    #[error("{kind} id {id} is recorded again at node {} before its wait at node {} is known to be over", second.0, first.1)]
    EventReused {
        /// Whether it is an event or a notify.
        kind: SyncKind,
        /// The id.
        id: u32,
        /// Sender and receiver whose wait may still be pending.
        first: (u32, u32),
        /// Sender and receiver that use the id again.
        second: (u32, u32),
    },
    /// Two nodes may wait for the same id at the same time, and either may consume the record.
    #[error("nodes {} and {} may wait for {kind} id {id} at the same time, either takes the record", first.1, second.1)]
    EventTaken {
        /// Whether it is an event or a notify.
        kind: SyncKind,
        /// The id.
        id: u32,
        /// Sender and receiver of the earlier use.
        first: (u32, u32),
        /// Sender and receiver of the later use.
        second: (u32, u32),
    },
}

/// Checks a plan.
///
/// # Errors
/// Returns the first [`PlanFault`] found, in the order of its variants.
pub fn check_plan(p: &PlanView<'_>) -> Result<(), PlanFault> {
    lengths(p)?;
    streams(p)?;
    let reach = Reach::build(p)?;
    for &(from, to) in p.edges {
        if !reach.before(from, to) {
            return Err(PlanFault::Unordered {
                from,
                to,
                from_stream: p.stream[from as usize],
                to_stream: p.stream[to as usize],
            });
        }
    }
    event_ids(p, &reach)
}

fn lengths(p: &PlanView<'_>) -> Result<(), PlanFault> {
    let n = p.nodes;
    for (what, found) in [("streams", p.stream.len()), ("order", p.order.len())] {
        if found != n {
            return Err(PlanFault::Length { what, found, nodes: n });
        }
    }
    if !p.reserve.is_empty() && p.reserve.len() != n {
        return Err(PlanFault::Length { what: "reserve", found: p.reserve.len(), nodes: n });
    }
    let mut seen = vec![false; n];
    for &node in p.order {
        match seen.get_mut(node as usize) {
            Some(s) if !*s => *s = true,
            _ => return Err(PlanFault::Node { what: "order", node }),
        }
    }
    for (what, list) in [("edges", p.edges), ("events", p.events)] {
        for &(a, b) in list {
            if a as usize >= n || b as usize >= n || a == b {
                return Err(PlanFault::Node { what, node: if (a as usize) < n { b } else { a } });
            }
        }
    }
    Ok(())
}

fn streams(p: &PlanView<'_>) -> Result<(), PlanFault> {
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    let mut home: BTreeMap<u64, u32> = BTreeMap::new();
    for node in 0..p.nodes as u32 {
        let stream = p.stream[node as usize];
        let other = *first.entry(stream).or_insert(node);
        if p.reserve.is_empty() {
            continue;
        }
        let mine = p.reserve[node as usize];
        if p.reserve[other as usize] != mine {
            return Err(PlanFault::Mixed { stream, first: other, second: node });
        }
        if let Some(label) = mine.filter(|l| p.together.contains(l)) {
            let there = *home.entry(label).or_insert(node);
            if p.stream[there as usize] != stream {
                return Err(PlanFault::Split { first: there, second: node });
            }
        }
    }
    match p.max_streams {
        Some(allowed) if first.len() > allowed => Err(PlanFault::TooManyStreams { streams: first.len(), allowed }),
        _ => Ok(()),
    }
}

/// What is known to have ended when a node starts: a row for each node, with the number of ended
/// nodes for each stream.
struct Reach<'a> {
    stream: &'a [u32],
    /// Position of each node on its stream, counted from 1.
    place: Vec<u32>,
    /// Dense index of each stream.
    dense: BTreeMap<u32, usize>,
    width: usize,
    /// For each node a row: the number of nodes of each stream that have ended when it ends.
    ended: Vec<u32>,
    /// An order in which the plan can run.
    walk: Vec<u32>,
}

impl<'a> Reach<'a> {
    fn build(p: &PlanView<'a>) -> Result<Reach<'a>, PlanFault> {
        let n = p.nodes;
        let mut dense: BTreeMap<u32, usize> = BTreeMap::new();
        for &s in p.stream {
            let next = dense.len();
            dense.entry(s).or_insert(next);
        }
        let width = dense.len();
        let mut links: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut open = vec![0u32; n];
        let mut place = vec![0u32; n];
        let mut at_end: BTreeMap<u32, u32> = BTreeMap::new();
        for &v in p.order {
            match at_end.insert(p.stream[v as usize], v) {
                Some(u) => {
                    place[v as usize] = place[u as usize] + 1;
                    links[u as usize].push(v);
                    open[v as usize] += 1;
                }
                None => place[v as usize] = 1,
            }
        }
        for &(a, b) in p.events {
            links[a as usize].push(b);
            open[b as usize] += 1;
        }
        let mut joins: BTreeMap<u32, &Join> = BTreeMap::new();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); n];
        for j in p.joins {
            joins.insert(j.first, j);
            for &w in &j.wakers {
                before[w as usize].push(j.first);
                open[j.first as usize] += 1;
            }
        }
        let mut walk: Vec<u32> = (0..n as u32).filter(|&v| open[v as usize] == 0).collect();
        let mut ended = vec![0u32; n * width];
        let mut done = 0;
        while done < walk.len() {
            let v = walk[done] as usize;
            done += 1;
            if let Some(j) = joins.get(&(v as u32)) {
                for (stream, &k) in &dense {
                    let ways = j.wakers.iter().map(|w| ended[*w as usize * width + k]);
                    let sure = if j.beside.contains(stream) { ways.max() } else { ways.min() };
                    ended[v * width + k] = ended[v * width + k].max(sure.unwrap_or(0));
                }
            }
            for &h in &before[v] {
                open[h as usize] -= 1;
                if open[h as usize] == 0 {
                    walk.push(h);
                }
            }
            ended[v * width + dense[&p.stream[v]]] = place[v];
            for &h in &links[v] {
                let h = h as usize;
                let (from, to) = (v * width, h * width);
                for k in 0..width {
                    ended[to + k] = ended[to + k].max(ended[from + k]);
                }
                open[h] -= 1;
                if open[h] == 0 {
                    walk.push(h as u32);
                }
            }
        }
        if walk.len() < n {
            let node = (0..n as u32).find(|&v| open[v as usize] > 0).unwrap_or(0);
            return Err(PlanFault::Deadlock { node });
        }
        Ok(Reach { stream: p.stream, place, dense, width, ended, walk })
    }

    /// Whether `a` has ended before `b` starts.
    fn before(&self, a: u32, b: u32) -> bool {
        let column = self.dense[&self.stream[a as usize]];
        let known = self.ended[b as usize * self.width + column];
        let own = self.stream[a as usize] == self.stream[b as usize];
        if own { self.place[a as usize] < self.place[b as usize] } else { known >= self.place[a as usize] }
    }
}

/// Checks that ids are reused safely. An id may serve a second pair only if the first wait is over
/// before the second record, so that no record is lost, and before the second wait begins, so that
/// this wait cannot consume the first record. Pairs in branches that exclude each other never meet.
fn event_ids(p: &PlanView<'_>, reach: &Reach<'_>) -> Result<(), PlanFault> {
    if p.event_ids.len() > p.events.len() {
        return Err(PlanFault::Length { what: "event ids", found: p.event_ids.len(), nodes: p.events.len() });
    }
    let mut when = vec![0u32; p.nodes];
    for (k, &v) in reach.walk.iter().enumerate() {
        when[v as usize] = k as u32;
    }
    let mut uses: BTreeMap<(SyncKind, u32), Vec<usize>> = BTreeMap::new();
    let mut waits: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (k, (&id, event)) in p.event_ids.iter().zip(p.events).enumerate() {
        uses.entry(id).or_default().push(k);
        waits.entry(event.1).or_default().push(k);
    }
    let behind = before_on_stream(p);
    let never = |a: (u32, u32), b: (u32, u32)| match (p.branches.get(a.0 as usize), p.branches.get(b.0 as usize)) {
        (Some(x), Some(y)) => exclusive(x, y),
        _ => false,
    };
    let over = |a: u32, b: u32| a == b || reach.before(a, b);
    for ((kind, id), mut list) in uses.into_iter().filter(|(_, list)| list.len() > 1) {
        list.sort_by_key(|e| when[p.events[*e].0 as usize]);
        for (at, &k) in list.iter().enumerate().skip(1) {
            let second = p.events[k];
            // Without branches, each use follows the one before it, which follows all others.
            let earlier = if p.branches.is_empty() { &list[at - 1..at] } else { &list[..at] };
            for first in earlier.iter().map(|e| p.events[*e]).filter(|e| !never(*e, second)) {
                if !over(first.1, second.0) {
                    return Err(PlanFault::EventReused { kind, id, first, second });
                }
                // The second wait comes after the previous node on its stream and after the earlier
                // waits of its own node.
                let sure = behind[second.1 as usize].into_iter();
                let sure = sure.chain(waits[&second.1].iter().take_while(|e| **e < k).map(|e| p.events[*e].0));
                if !sure.into_iter().any(|b| over(first.1, b)) {
                    return Err(PlanFault::EventTaken { kind, id, first, second });
                }
            }
        }
    }
    Ok(())
}

/// For each node, the previous node on its stream.
fn before_on_stream(p: &PlanView<'_>) -> Vec<Option<u32>> {
    let mut out = vec![None; p.nodes];
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for &v in p.order {
        out[v as usize] = last.insert(p.stream[v as usize], v);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &[u32], events: &[(u32, u32)], ids: &[u32], branches: &[Branch]) -> Result<(), PlanFault> {
        let order: Vec<u32> = (0..stream.len() as u32).collect();
        let event_ids: Vec<_> = ids.iter().map(|id| (SyncKind::Event, *id)).collect();
        check_plan(&PlanView {
            nodes: stream.len(),
            edges: &[],
            stream,
            order: &order,
            events,
            joins: &[],
            event_ids: &event_ids,
            branches,
            reserve: &[],
            together: &[],
            max_streams: None,
        })
    }

    #[test]
    fn an_id_serves_again_behind_its_wait() {
        // 0 -> 1, 2 -> 3 on streams 0 and 1: the event 1 -> 2 orders node 2 after the wait at node
        // 1.
        let events = [(0, 1), (1, 2), (2, 3)];
        assert_eq!(check(&[0, 1, 0, 1], &events, &[0, 1, 0], &[]), Ok(()));
        let first_and_second = check(&[0, 1, 0, 1], &[(0, 1), (2, 3)], &[0, 0], &[]);
        assert!(matches!(first_and_second, Err(PlanFault::EventReused { .. })), "{first_and_second:?}");
    }

    #[test]
    fn a_wait_of_another_stream_must_not_take_the_record() {
        // Node 2 records after the wait at node 1, but node 3 may wait for the id before node 1
        // does.
        let taken = check(&[0, 1, 1, 2], &[(0, 1), (2, 3)], &[0, 0], &[]);
        assert!(matches!(taken, Err(PlanFault::EventTaken { .. })), "{taken:?}");
        // If node 3 first waits for node 2 by another id, it comes after it.
        assert_eq!(check(&[0, 1, 1, 2], &[(0, 1), (2, 3), (2, 3)], &[0, 1, 0], &[]), Ok(()));
        let turned = check(&[0, 1, 1, 2], &[(0, 1), (2, 3), (2, 3)], &[0, 0, 1], &[]);
        assert!(matches!(turned, Err(PlanFault::EventTaken { .. })), "{turned:?}");
    }

    #[test]
    fn branches_of_which_one_is_taken_share_ids() {
        let at = |k: u32| vec![(7, k)];
        let branches = [at(0), at(0), at(1), at(1)];
        assert_eq!(check(&[0, 1, 2, 3], &[(0, 1), (2, 3)], &[0, 0], &branches), Ok(()));
        let both = [at(0), at(0), at(0), at(0)];
        let met = check(&[0, 1, 2, 3], &[(0, 1), (2, 3)], &[0, 0], &both);
        assert!(matches!(met, Err(PlanFault::EventReused { .. })), "{met:?}");
    }
}
