//! Contiguous runs (facts 2.7): the plan places what lies in a run of inputs. Graph inputs,
//! constants and variables cannot be moved. Runs with padding and runs without padding have
//! different distances between their parts.
use super::claims::Meeting;
use crate::feature::shared_memory::JoinKind;

/// Why the value cannot be part of the run; `None` if it can.
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
    // A part of one run may be the whole of an inner run, but a block with padding is not plain
    // data.
    let mixed = match kind {
        JoinKind::NoPaddingInput => m.claims.padded,
        JoinKind::PaddedInput => m.claims.no_padding,
        JoinKind::NoPaddingOutput => false,
        _ => false,
    };
    mixed.then(|| "a run with padding meets one without".to_owned())
}
