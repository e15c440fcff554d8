//! Synchronisation. Input: streams and their order. Output: `SyncPlan`, which guarantees exactly
//! that order.

/// The decisions of the stage.
pub mod plan;
/// Insertion of events.
pub mod insert;
/// Nodes on streams in execution order.
pub mod items;
/// Events and notifies that engines request.
pub mod resources;
/// Keeps only the first receiver on a stream.
pub mod optimize_by_send_events;
/// Keeps only the last sender on a stream.
pub mod optimize_by_recv_events;
/// Drops events that the activation of a stream implies.
pub mod optimize_by_stream_activate;
/// Events that are needed because logical streams become several physical ones.
pub mod split_points;

/// Engine hooks that see the graph with streams and events.
pub mod streamed;

/// Event ids: reuse, gears, multiplexing, continuous numbering.
pub mod reuse;

pub use plan::{Resource, SyncPair, SyncPlan, SyncPoint};

use crate::error::{CompileError, Result};
use crate::options::{EventReuse, Options, SyncBy};
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_ir::Model;
use ge_planners::events::check::SyncKind;
use ge_plugin_api::device::SocSpec;
use items::Items;

/// Maximum number of notifies of a model (facts 1.2).
pub const MAX_NOTIFIES: u32 = 1024;

/// Synchronises a model: finds the minimal set of events, assigns their ids, and proves both
/// together. With `ge.event=notify` it uses notifies instead of events.
///
/// # Errors
/// Fails if there are more than 1,024 notifies, if an `_event_multiplexing` cannot be read or gives
/// one number to events that may be pending at once, or if the plan is wrong (a bug).
pub fn run(
    model: &Model,
    streams: &StreamPlan,
    order: &ExecutionOrder,
    options: &Options,
    soc: &SocSpec,
) -> Result<SyncPlan> {
    let items = Items::gather(model, streams, order);
    let (mut plan, events) = insert::insert(&items);
    let many = soc.max_events > 0 && plan.event_num > soc.max_events;
    match options.event_reuse {
        EventReuse::Always => reuse::reuse_ids(&mut plan, order),
        EventReuse::Auto if many => reuse::reuse_ids(&mut plan, order),
        EventReuse::Auto | EventReuse::Off => {}
    }
    reuse::reuse_event_for_multi_dims(model, &mut plan, order);
    let by_user: Vec<(u32, u32)> =
        reuse::multiplex(model, &mut plan)?.into_iter().map(|k| (events[k].send, events[k].recv)).collect();
    reuse::refresh_continuous(&mut plan);
    let ids: Vec<_> = plan.pairs.iter().map(|p| (SyncKind::Event, p.id.0)).collect();
    items.prove(model, &events, &ids, &by_user)?;
    // Dynamic graphs use only events (004 §4.2).
    if options.sync_by == SyncBy::Notify && !crate::streams::unknown::is_dynamic(model.root()) {
        if plan.event_num > MAX_NOTIFIES {
            return Err(CompileError::Limit {
                what: "notifies",
                needs: u64::from(plan.event_num),
                whose: "a model has at most".into(),
                has: u64::from(MAX_NOTIFIES),
                help: "compile without ge.event=notify, or with fewer streams",
            });
        }
        plan.pairs.iter_mut().for_each(|p| p.notify = true);
        plan.notify_num = std::mem::take(&mut plan.event_num);
    }
    Ok(plan)
}
