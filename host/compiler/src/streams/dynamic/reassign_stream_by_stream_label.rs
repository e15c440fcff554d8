//! `ReassignStreamByStreamLabel`: all nodes with the same stream label move to one stream,
//! regardless of engine and graph. Source: 002, facts 1.13.
use super::context::{Dynamic, Owner};
use crate::ids::NodeKey;
use crate::streams::logical::context::label_of;
use std::collections::BTreeMap;

/// Returns the owner of each node's stream; nodes without an entry are on stream 0.
pub fn run(cx: &Dynamic<'_>) -> BTreeMap<NodeKey, Owner> {
    let mut out = BTreeMap::new();
    for (k, part) in cx.parts.iter().enumerate() {
        for (key, n) in cx.nodes(k) {
            match (label_of(n), part.stream) {
                (Some(l), _) => out.insert(key, Owner::Label(l)),
                (None, Some(e)) => out.insert(key, Owner::Engine(e)),
                (None, None) => None,
            };
        }
    }
    out
}
