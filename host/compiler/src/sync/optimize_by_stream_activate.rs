//! `OptimizeByStreamActivate` (004 §4.3.3): drops an event if the sender precedes, on its stream, a
//! node that wakes the receiver's stream: the wake-up is the signal. The chain of wakers is
//! followed back to streams that start at launch.
use super::items::Items;
use ge_planners::events::transitive::Event;
use std::collections::{HashMap, HashSet};

/// Name of the pass in the document.
pub const NAME: &str = "OptimizeByStreamActivate";

/// Drops events that activation implies.
pub fn run(items: &Items, events: Vec<Event>) -> Vec<Event> {
    if items.starts.is_empty() {
        return events;
    }
    // The wakers of each stream.
    let mut wakers: HashMap<u32, Vec<u32>> = HashMap::new();
    for (w, first) in &items.starts {
        wakers.entry(items.stream[*first as usize]).or_default().push(*w);
    }
    // Any one of several wakers may run. The search back goes on from streams through which all of
    // them were woken, and from streams beside the receiver on any of the paths.
    for j in &items.joins {
        let ways: Vec<Vec<u32>> = j.wakers.iter().map(|w| back(items, &wakers, *w)).collect();
        let on_all = ways.first().into_iter().flatten().filter(|w| {
            let stream = items.stream[**w as usize];
            let reached = |way: &Vec<u32>| way.iter().any(|o| items.stream[*o as usize] == stream && o >= *w);
            ways.iter().all(reached)
        });
        let aside = ways.iter().flatten().filter(|w| j.beside.contains(&items.stream[**w as usize]));
        let list: Vec<u32> = on_all.chain(aside).copied().collect();
        wakers.entry(items.stream[j.first as usize]).or_default().extend(list);
    }
    let woken_behind = |e: &Event| {
        let from = items.stream[e.send as usize];
        let mut todo = vec![items.stream[e.recv as usize]];
        let mut seen: HashSet<u32> = HashSet::new();
        while let Some(s) = todo.pop() {
            if !seen.insert(s) {
                continue;
            }
            for w in wakers.get(&s).into_iter().flatten() {
                let at = items.stream[*w as usize];
                if at == from && *w >= e.send {
                    return true;
                }
                // If several wakers can wake a stream, what woke one of them says nothing about the
                // others.
                if !items.joins.iter().any(|j| items.stream[j.first as usize] == s) {
                    todo.push(at);
                }
            }
        }
        false
    };
    events.into_iter().filter(|e| !woken_behind(e)).collect()
}

/// A waker and the wakers before it, back to a stream that starts at launch.
fn back(items: &Items, wakers: &HashMap<u32, Vec<u32>>, from: u32) -> Vec<u32> {
    let mut out = vec![from];
    let mut seen: HashSet<u32> = HashSet::new();
    let mut at = 0;
    while at < out.len() {
        let stream = items.stream[out[at] as usize];
        if seen.insert(stream) {
            out.extend(wakers.get(&stream).into_iter().flatten().copied());
        }
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_waker_needs_no_event() {
        // Item 1 wakes stream 1 (items 2, 3); item 3 wakes stream 2 (item 5); item 4 comes after
        // the waker.
        let mut items = Items::plain(&[0, 0, 1, 1, 0, 2]);
        items.starts = vec![(1, 2), (3, 5)];
        let all = [(0, 2), (0, 3), (1, 2), (0, 5), (4, 5)].map(|(send, recv)| Event { send, recv });
        assert_eq!(run(&items, all.to_vec()), [all[4]]);
    }
}
