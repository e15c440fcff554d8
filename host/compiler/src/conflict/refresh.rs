//! Refresh of the caller's addresses, against splits without a task (document 000, 5.3). Our
//! devices relocate every argument at each launch, including inner offsets of an input. Only where
//! the feature map itself may move between launches (`ge.featureBaseRefreshable=1`) do the parts of
//! an input get a copy, so that they can be refreshed.
use super::claims::Meeting;
use crate::feature::shared_memory::JoinKind;

/// Why an input of the caller cannot be split where it lies; `None` if it can.
pub fn conflict(m: &Meeting<'_>) -> Option<String> {
    let user = m.claims.user_input || m.claims.user_reference;
    if m.refresh && user && m.kind == Some(JoinKind::NoPaddingOutput) {
        return Some("the address of a graph input is refreshed, those of its parts are not".into());
    }
    None
}
