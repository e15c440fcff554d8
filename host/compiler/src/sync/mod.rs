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
use crate::ids::{ModelMap, NodeKey};
use crate::options::{EventReuse, Options, SyncBy};
use crate::streams::{ExecutionOrder, StreamPlan};
use ge_ir::Model;
use ge_planners::events::check::SyncKind;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::engine::RunningParams;
use items::Items;

/// Maximum number of notifies of a model (facts 1.2).
pub const MAX_NOTIFIES: u32 = 1024;

/// What limits the number of ids.
pub struct Limits<'a> {
    /// The SoC.
    pub soc: &'a SocSpec,
    /// Ids that engines ask for: events, and notifies.
    pub wanted: (u32, u32),
    /// Whether an earlier plan without reuse had too many ids once its streams were cut.
    pub scarce: bool,
}

impl<'a> Limits<'a> {
    /// The limits for a model whose engines ask for what `params` says.
    pub fn new(soc: &'a SocSpec, model: &Model, params: &ModelMap<RunningParams>, scarce: bool) -> Limits<'a> {
        let graphs = || model.graphs().iter().enumerate();
        let keys = || graphs().flat_map(|(gi, g)| g.nodes().map(move |n| NodeKey::new(gi, n.id())));
        let all = || keys().flat_map(|key| params[key].sync.iter());
        let count = |notify| u32::try_from(all().filter(|r| r.notify == notify).count()).unwrap_or(u32::MAX);
        Limits { soc, wanted: (count(false), count(true)), scarce }
    }
    /// Whether this many ids between streams, and those of the engines, are more than the SoC has.
    fn passed_by(&self, ids: u32, notify: bool) -> bool {
        let (most, wanted) = match notify {
            true => (self.soc.max_notifies.min(MAX_NOTIFIES), self.wanted.1),
            false => (self.soc.max_events, self.wanted.0),
        };
        most > 0 && ids.saturating_add(wanted) > most
    }
}

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
    limits: &Limits<'_>,
) -> Result<SyncPlan> {
    // Dynamic graphs use only events (004 §4.2).
    let notify = options.sync_by == SyncBy::Notify && !crate::streams::unknown::is_dynamic(model.root());
    let items = Items::gather(model, streams, order);
    let (mut plan, events) = insert::insert(&items);
    let many = limits.scarce || limits.passed_by(plan.event_num, notify);
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
    if notify {
        if plan.event_num > MAX_NOTIFIES {
            return Err(CompileError::Limit {
                what: "notifies",
                needs: u64::from(plan.event_num),
                whose: "a model has at most".into(),
                has: u64::from(MAX_NOTIFIES),
                help: "compile without ge.event=notify, with fewer streams, or with ge.x.event_reuse=auto",
            });
        }
        plan.pairs.iter_mut().for_each(|p| p.notify = true);
        plan.notify_num = std::mem::take(&mut plan.event_num);
    }
    Ok(plan)
}
