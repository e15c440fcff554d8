//! Memory types: a class has one type. Values of two different named types need a copy between
//! them; so does a graph input, constant, variable or graph output that is wanted in a type other
//! than `HBM`.
use super::claims::Meeting;

/// Why the two classes cannot have one type; `None` if they can.
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
