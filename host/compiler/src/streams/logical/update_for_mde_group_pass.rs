//! `UpdateForMdeGroupPass`: nodes with the same `NewStreamId` get one stream.
//!
//! The pass is the first of the chain, but its groups get their streams after the engine rules, so
//! that they survive NodeStreamUpdatePass (DESIGN 9). A user's label or a parallel group takes
//! precedence. Source: 004 §4.1.1, facts 1.4 (1).
use super::LogicalStreamPass;
use super::context::Context;
use crate::error::Result;
use crate::feature::parallel_group::group_of;

/// See the module documentation.
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
