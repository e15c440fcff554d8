//! Runs (facts 2.7): what lies in a run of inputs is put there by the plan. A graph input, a
//! constant and a variable lie where they lie; runs with padding and runs without have different
//! distances.
use super::claims::Meeting;
use crate::feature::shared_memory::JoinKind;

/// Why the value cannot be part of the run.
pub fn conflict(m: &Meeting<'_>) -> Option<String> {
    let kind = m.kind?;
    let inputs = matches!(kind, JoinKind::NoPaddingInput | JoinKind::PaddedInput);
    if inputs {
        if let Some(what) = m.claims.arranged() {
            return Some(format!("{what} cannot be moved into a run of inputs"));
        }
        if let Some(what) = m.other.arranged() {
            return Some(format!("it would have to lie beside {what}"));
        }
    }
    // A part of one run may be the whole of a run inside it, but blocks with padding are no plain
    // data.
    let mixed = match kind {
        JoinKind::NoPaddingInput => m.claims.padded,
        JoinKind::PaddedInput => m.claims.no_padding,
        JoinKind::NoPaddingOutput => false,
        _ => false,
    };
    mixed.then(|| "a run with padding meets one without".to_owned())
}
