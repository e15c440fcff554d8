//! Graph outputs: each has memory of its own, which is the caller's. A value is copied if it is an
//! input, a constant or a variable, if it is returned twice, or if it is only a part of what lies
//! there.
use super::claims::Meeting;

/// Why the value cannot be a graph output where it lies; `None` if it can.
pub fn conflict(m: &Meeting<'_>) -> Option<String> {
    if m.kind.is_some() || !m.other.user_output {
        return None;
    }
    if let Some(what) = m.claims.arranged() {
        return Some(format!("a graph output would be {what}"));
    }
    if m.claims.cleared {
        return Some("a graph output would be cleared with the memory of others".into());
    }
    if m.claims.user_output {
        return Some("two graph outputs would be one".into());
    }
    if !m.other.whole && (m.claims.no_padding || m.claims.padded) {
        return Some("a graph output would be a part of a run".into());
    }
    None
}
