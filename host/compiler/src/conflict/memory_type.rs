//! Memory types: a class has one. Two different ones that are asked for by name, or one that is not
//! the caller's for a graph input or output, need a copy between them.
use super::claims::Meeting;

/// Why the two types cannot be one.
pub fn conflict(m: &Meeting<'_>) -> Option<String> {
    let plain = |s: &str| s == "HBM";
    match (&m.claims.memory, &m.other.memory) {
        (Some(a), Some(b)) if a != b => return Some(format!("{a} memory meets {b} memory")),
        _ => {}
    }
    let special = [m.claims, m.other].into_iter().find_map(|c| c.memory.as_deref().filter(|k| !plain(k)));
    let kind = special?;
    let mine = m.claims.arranged().or(m.other.arranged());
    if let Some(what) = mine {
        return Some(format!("{what} does not lie in {kind} memory"));
    }
    if m.claims.user_output || m.other.user_output {
        return Some(format!("a graph output does not lie in {kind} memory"));
    }
    None
}
