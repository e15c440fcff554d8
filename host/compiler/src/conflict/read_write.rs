//! Read against write (facts 2.10): an output in place of an input overwrites the input. A constant
//! and an input that the caller lends for reading are never overwritten; a value that others may
//! still read, under whatever name, is copied first. Variables and `RefData` are meant to be
//! written: the order of their reads and writes is the order of the graph.
use super::claims::Meeting;
use crate::feature::shared_memory::JoinKind;

/// Why the value may not be overwritten; `None` if it may.
pub fn conflict(m: &Meeting<'_>) -> Option<String> {
    if m.kind != Some(JoinKind::Reference) {
        return None;
    }
    if m.claims.immutable {
        return Some("a constant is not written".into());
    }
    if m.claims.user_input {
        return Some("a graph input is lent for reading".into());
    }
    if m.read_later && !m.claims.variable && !m.claims.user_reference {
        return Some("others read the value that is written over".into());
    }
    None
}
