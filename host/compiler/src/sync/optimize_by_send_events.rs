//! `OptimizeBySendEvents` (004 §4.3.3): if a node sends several events to one stream, the event to
//! the first receiver is enough, because everything after it on that stream runs later.
use super::items::Items;
use ge_planners::events::transitive::Event;
use std::collections::HashSet;

/// Name of the pass in the document.
pub const NAME: &str = "OptimizeBySendEvents";

/// Drops the events to later receivers. `events` must be in the order of their receivers.
pub fn run(items: &Items, events: Vec<Event>) -> Vec<Event> {
    let mut served: HashSet<(u32, u32)> = HashSet::new();
    events.into_iter().filter(|e| served.insert((e.send, items.stream[e.recv as usize]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_receiver_of_a_stream_is_enough() {
        let items = Items::plain(&[0, 1, 1, 2]);
        let all = [(0, 1), (0, 2), (0, 3)].map(|(send, recv)| Event { send, recv });
        assert_eq!(run(&items, all.to_vec()), [all[0], all[2]]);
    }
}
