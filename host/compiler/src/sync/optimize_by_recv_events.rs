//! `OptimizeByRecvEvents` (004 §4.3.3): if a node receives several events from one stream, the
//! event of the last sender is enough, because everything before it on that stream has run earlier.
use super::items::Items;
use ge_planners::events::transitive::Event;
use std::collections::HashMap;

/// Name of the pass in the document.
pub const NAME: &str = "OptimizeByRecvEvents";

/// Drops the events of earlier senders.
pub fn run(items: &Items, events: Vec<Event>) -> Vec<Event> {
    let mut last: HashMap<(u32, u32), u32> = HashMap::new();
    for e in &events {
        let s = last.entry((items.stream[e.send as usize], e.recv)).or_insert(e.send);
        *s = (*s).max(e.send);
    }
    events.into_iter().filter(|e| last.get(&(items.stream[e.send as usize], e.recv)) == Some(&e.send)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sender_of_a_stream_is_enough() {
        let items = Items::plain(&[0, 0, 1, 2]);
        let all = [(0, 2), (1, 2), (0, 3)].map(|(send, recv)| Event { send, recv });
        assert_eq!(run(&items, all.to_vec()), [all[1], all[2]]);
    }
}
