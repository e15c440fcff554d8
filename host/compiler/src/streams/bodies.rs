//! Streams of bodies (facts 1.12). Each scope of labels has one stream of its own. If the pass
//! chain puts a node of a body on another stream, the node gets a stream that belongs to this body
//! only and is woken by the body's StreamActive, so that it runs as often as the body does.
//!
//! Nodes of engines that may use any stream stay on the scope's stream, unless another node of the
//! same body must be on the stream that they were given.
use super::flow::{FIRST_ACTIVE, Flow, scope_of};
use super::logical::context::label_of;
use super::{LogicalStream, StreamPlan};
use crate::error::Result;
use crate::feature::parallel_group::group_of;
use crate::ids::{NodeKey, StreamId};
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::{Model, Node};
use ge_plugin_api::engine::flags;
use std::collections::{BTreeMap, BTreeSet};

/// Assigns streams to the nodes of bodies. If `planned`, the streams of bodies come from a planner,
/// and each scope is on the stream of its entry; otherwise it is on the stream that most of its
/// nodes have.
///
/// # Errors
/// Fails if attached streams cannot be assigned.
pub fn spread(
    model: &Model,
    plan: &mut StreamPlan,
    flow: &Flow,
    placement: &Placement,
    toolbox: &Toolbox,
    planned: bool,
) -> Result<()> {
    let g = model.root();
    let bound = |n: &Node| {
        let info = &toolbox.engine(placement.engine[NodeKey::new(0, n.id())]).info;
        let by_attr = label_of(n).is_some() || n.attrs().int("NewStreamId").is_some() || group_of(n).is_some();
        (by_attr || info.flags & flags::INDEPENDENT != 0, info.flags & flags::ATTACH != 0)
    };
    let home = homes(model, plan, flow, &bound, planned);
    let joins: Vec<usize> = {
        let at: BTreeMap<_, usize> = g.nodes().enumerate().map(|(i, n)| (n.id(), i)).collect();
        (0..flow.region_count()).map(|r| at.get(&flow.join(r)).copied().unwrap_or(usize::MAX)).collect()
    };
    let own = |n: &Node, at: usize, region: usize| {
        scope_of(n).is_some() || at >= joins[region] || n.attrs().flag(FIRST_ACTIVE)
    };
    // Streams that some node of a region requires.
    let mut wanted: BTreeSet<(usize, StreamId)> = BTreeSet::new();
    for (at, n) in g.nodes().enumerate() {
        let key = NodeKey::new(0, n.id());
        let r = flow.region(key);
        let (Some(scope), Some(s)) = (flow.outermost(r), plan.of[key]) else { continue };
        let (held, attaches) = bound(n);
        if s != home[scope] && !plan.taskless[key] && !own(n, at, r) && (planned || held || !attaches) {
            wanted.insert((r, s));
        }
    }
    let mains = plan.main_count();
    plan.streams.truncate(mains);
    let mut of: BTreeMap<(usize, StreamId), StreamId> = BTreeMap::new();
    // Nodes that may be on any stream and shared one with labels move with the labels.
    let mut with_labels: BTreeMap<StreamId, StreamId> = BTreeMap::new();
    for n in g.nodes().filter(|n| !planned && scope_of(n).is_some()) {
        let key = NodeKey::new(0, n.id());
        let scope = flow.outermost(flow.region(key)).or_else(|| flow.scope_at(n.id()).map(|(_, s)| s));
        if let (Some(s), Some(scope)) = (plan.of[key], scope) {
            with_labels.entry(s).or_insert(home[scope]);
        }
    }
    for (at, n) in g.nodes().enumerate() {
        let key = NodeKey::new(0, n.id());
        plan.attached[key].clear();
        let r = flow.region(key);
        if let (0, (false, true), Some(to)) = (r, bound(n), plan.of[key].and_then(|s| with_labels.get(&s))) {
            plan.of[key] = Some(*to);
        }
        let scope = flow.outermost(r).or_else(|| flow.scope_at(n.id()).map(|(_, s)| s));
        let (Some(scope), Some(s)) = (scope, plan.of[key]) else { continue };
        plan.of[key] = Some(if r > 0 && !own(n, at, r) && wanted.contains(&(r, s)) {
            *of.entry((r, s)).or_insert_with(|| {
                let like = plan.streams.get(s.0 as usize).cloned().unwrap_or_default();
                plan.streams.push(LogicalStream { attached: false, ..like });
                StreamId(plan.streams.len() as u32 - 1)
            })
        } else {
            home[scope]
        });
    }
    super::logical::attached::assign(model, plan, Some(flow))
}

/// The stream of each scope; only the entries of outermost scopes are used.
fn homes(
    model: &Model,
    plan: &StreamPlan,
    flow: &Flow,
    bound: &dyn Fn(&Node) -> (bool, bool),
    planned: bool,
) -> Vec<StreamId> {
    let mut count: Vec<BTreeMap<StreamId, usize>> = vec![BTreeMap::new(); flow.scope_count()];
    let mut all: BTreeMap<StreamId, usize> = BTreeMap::new();
    for n in model.root().nodes() {
        let key = NodeKey::new(0, n.id());
        let Some(s) = plan.of[key].filter(|_| !plan.taskless[key] && !bound(n).0) else { continue };
        // Nodes that may be on any stream hardly influence the choice.
        let weight = if bound(n).1 { 1 } else { model.root().len() };
        *all.entry(s).or_default() += weight;
        if let Some(scope) = flow.outermost(flow.region(key)) {
            *count[scope].entry(s).or_default() += weight;
        }
    }
    let most =
        |c: &BTreeMap<StreamId, usize>| c.iter().max_by_key(|(s, k)| (**k, std::cmp::Reverse(**s))).map(|(s, _)| *s);
    (0..flow.scope_count())
        .map(|scope| {
            let entry = plan.of[NodeKey::new(0, flow.ends(scope).0)];
            let by_entry = if planned { entry } else { None };
            by_entry.or_else(|| most(&count[scope])).or_else(|| most(&all)).or(entry).unwrap_or(StreamId(0))
        })
        .collect()
}
