//! Read against write (facts 2.10): an output in place of an input writes over it. A constant and
//! an input that the caller lends for reading are never written; a value that others read too is
//! written as a copy. Variables and `RefData` are there to be written: who reads them when is the
//! graph's own order.
use super::claims::Meeting;
use crate::feature::shared_memory::JoinKind;

/// Why the value may not be written.
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
    if m.readers > 1 && !m.claims.variable && !m.claims.user_reference {
        return Some("others read the value that is written over".into());
    }
    None
}
