//! The smallest set of events for an assignment of streams: an event that another path of streams
//! and events implies is dropped.

use super::check::Join;
use crate::streams::dag::{NONE, Rows};
use std::collections::HashMap;

/// An event: it is recorded when `send` has ended and waited for before `recv` starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The node after which the event is recorded.
    pub send: u32,
    /// The node before which it is waited for.
    pub recv: u32,
}

/// Number of columns of the clock table that are computed at a time; this limits its memory to 64
/// words for each node.
const BLOCK: usize = 64;

/// The cross-stream edges of the transitive reduction of (edges + stream order), sorted by receiver
/// in `order`.
///
/// `pred` has the edges, `order` is a topological order of all nodes, and `stream[v] < streams`.
/// The method uses vector clocks (Fidge, Mattern): `clock[v][s]` is the number of nodes of stream
/// `s` that have ended when `v` has ended. Of a node's predecessors on one other stream, only the
/// latest can need an event. It needs none if the clock of the previous node on the own stream or
/// of another predecessor already includes it. Time O((nodes + edges) * streams), memory 64 words
/// for each node, whatever the number of streams.
pub fn minimum_events(pred: &Rows, stream: &[u32], order: &[u32], streams: usize) -> Vec<Event> {
    minimum_events_after(pred, (&[], &[]), stream, order, streams)
}

/// Like [`minimum_events`], if some order exists without events. `starts` are pairs (waker, first
/// node of the stream that it wakes); a waker precedes the node in `order`. Of the wakers of a
/// [`Join`], any one may wake the stream.
pub fn minimum_events_after(
    pred: &Rows,
    (starts, joins): (&[(u32, u32)], &[Join]),
    stream: &[u32],
    order: &[u32],
    streams: usize,
) -> Vec<Event> {
    let n = order.len();
    if streams <= 1 {
        return Vec::new();
    }
    let free = Rows::from_pairs(n, starts.iter().map(|(waker, first)| (*first, *waker)));
    let joins: HashMap<u32, &Join> = joins.iter().map(|j| (j.first, j)).collect();
    let mut pos = vec![0u32; n];
    let mut before = vec![NONE; n];
    let mut tail = vec![NONE; streams];
    for &v in order {
        let s = stream[v as usize] as usize;
        before[v as usize] = tail[s];
        pos[v as usize] = if tail[s] == NONE { 0 } else { pos[tail[s] as usize] + 1 };
        tail[s] = v;
    }
    // The latest predecessor on each other stream.
    let mut at = Vec::with_capacity(n + 1);
    let mut from: Vec<u32> = Vec::new();
    let mut slot = vec![NONE; streams];
    for &v in order {
        let first = from.len();
        at.push(first);
        for &p in pred.row(v) {
            let s = stream[p as usize] as usize;
            if s == stream[v as usize] as usize {
                continue;
            }
            let k = slot[s] as usize;
            if k < from.len() && k >= first {
                if pos[from[k] as usize] < pos[p as usize] {
                    from[k] = p;
                }
            } else {
                slot[s] = from.len() as u32;
                from.push(p);
            }
        }
        for &p in &from[first..] {
            slot[stream[p as usize] as usize] = NONE;
        }
    }
    at.push(from.len());
    let mut needed = vec![true; from.len()];
    for lo in (0..streams).step_by(BLOCK) {
        let width = BLOCK.min(streams - lo);
        mark_block(
            &Layout { stream, order, free: &free, joins: &joins, pos: &pos, before: &before, at: &at, from: &from },
            lo,
            width,
            &mut needed,
        );
    }
    let mut out = Vec::with_capacity(needed.iter().filter(|&&k| k).count());
    for (k, &v) in order.iter().enumerate() {
        for j in at[k]..at[k + 1] {
            if needed[j] {
                out.push(Event { send: from[j], recv: v });
            }
        }
    }
    out
}

struct Layout<'a> {
    stream: &'a [u32],
    order: &'a [u32],
    free: &'a Rows,
    joins: &'a HashMap<u32, &'a Join>,
    pos: &'a [u32],
    before: &'a [u32],
    at: &'a [usize],
    from: &'a [u32],
}

/// Decides which candidates are needed whose sender is on one of the streams `lo..lo + width`.
fn mark_block(l: &Layout<'_>, lo: usize, width: usize, needed: &mut [bool]) {
    let n = l.order.len();
    let mut clock = vec![0u32; n * width];
    let mut row = vec![0u32; width];
    for (k, &v) in l.order.iter().enumerate() {
        let cand = l.at[k]..l.at[k + 1];
        row.fill(0);
        if l.before[v as usize] != NONE {
            let b = l.before[v as usize] as usize * width;
            row.copy_from_slice(&clock[b..b + width]);
        }
        for &w in l.free.row(v) {
            let w = w as usize * width;
            for (r, &c) in row.iter_mut().zip(&clock[w..w + width]) {
                *r = (*r).max(c);
            }
        }
        if let Some(j) = l.joins.get(&v) {
            for (c, r) in row.iter_mut().enumerate() {
                let ways = j.wakers.iter().map(|w| clock[*w as usize * width + c]);
                let sure = if j.beside.contains(&((lo + c) as u32)) { ways.max() } else { ways.min() };
                *r = (*r).max(sure.unwrap_or(0));
            }
        }
        for j in cand.clone() {
            let p = l.from[j] as usize;
            let s = (l.stream[p] as usize).wrapping_sub(lo);
            if s < width {
                let implied = row[s] > l.pos[p]
                    || cand.clone().any(|i| i != j && clock[l.from[i] as usize * width + s] > l.pos[p]);
                needed[j] = !implied;
            }
        }
        for j in cand {
            let p = l.from[j] as usize * width;
            for (r, &c) in row.iter_mut().zip(&clock[p..p + width]) {
                *r = (*r).max(c);
            }
        }
        let s = (l.stream[v as usize] as usize).wrapping_sub(lo);
        if s < width {
            row[s] = l.pos[v as usize] + 1;
        }
        clock[v as usize * width..(v as usize + 1) * width].copy_from_slice(&row);
    }
}
