//! `UpdateForMdeGroupPass`: nodes with `NewStreamId` have one stream for each id.
//!
//! It stands first in the chain; its groups get their streams after the engine rules, so that they
//! survive NodeStreamUpdatePass (DESIGN 9). A user's label or a parallel group has the better
//! claim. Source: 004 §4.1.1, facts 1.4 (1).
use super::LogicalStreamPass;
use super::context::{Context, group_of};
use crate::error::Result;

/// The pass.
pub struct UpdateForMdeGroupPass;
impl LogicalStreamPass for UpdateForMdeGroupPass {
    const NAME: &'static str = "UpdateForMdeGroupPass";
    fn run(cx: &mut Context<'_>) -> Result<()> {
        cx.mde = cx
            .graph
            .nodes()
            .filter(|n| n.attrs().str("_user_stream_label").is_none_or(str::is_empty) && group_of(n).is_none())
            .filter_map(|n| Some((n.id(), n.attrs().int("NewStreamId")?)))
            .collect();
        Ok(())
    }
}
