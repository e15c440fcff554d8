//! Streams of bodies of control flow in `parallel:N`. Each body is treated as a graph of its own
//! and spread over at most N streams if that outweighs the cost of waking and joining them. The
//! nodes keep their order; scopes within a body stay on the stream of the outer one.
use crate::ids::{ModelMap, NodeKey};
use crate::streams::StreamPlan;
use crate::streams::flow::Flow;
use ge_ir::{Model, NodeId};
use ge_planners::streams::dag::{Dag, DagNode, NONE, Rules, StreamAssignment};
use ge_planners::streams::{Aim, EventCost, ParallelOptions, measured, plan_parallel};
use std::collections::BTreeMap;

/// Limits and costs used to plan a body.
pub(super) struct Costs {
    /// Maximum number of streams.
    pub width: usize,
    /// Costs of events.
    pub events: EventCost,
    /// Cost of the task that wakes a stream, in ns.
    pub launch: u64,
}

/// Spreads the nodes of each body that are on their scope's stream. `raw` holds the stream of each
/// node and is updated.
pub(super) fn spread(
    model: &Model,
    plan: &StreamPlan,
    flow: &Flow,
    time: &ModelMap<u64>,
    costs: &Costs,
    raw: &mut ModelMap<u32>,
) {
    let g = model.root();
    let mut next = g.nodes().map(|n| raw[NodeKey::new(0, n.id())]).filter(|s| *s != NONE).max().map_or(0, |s| s + 1);
    let mut bodies: Vec<Vec<NodeId>> = vec![Vec::new(); flow.region_count()];
    let mut over = vec![false; flow.region_count()];
    for n in g.nodes() {
        let r = flow.region(NodeKey::new(0, n.id()));
        over[r] |= flow.join(r) == n.id();
        if r > 0 && !over[r] {
            bodies[r].push(n.id());
        }
    }
    // The total time of all nodes within each scope.
    let mut whole = vec![0u64; flow.scope_count()];
    for n in g.nodes() {
        let key = NodeKey::new(0, n.id());
        flow.scopes_around(flow.region(key)).for_each(|s| whole[s] = whole[s].saturating_add(time[key]));
    }
    for nodes in bodies.iter().filter(|b| b.len() > 1) {
        let Some(home) = flow.around(nodes[0]).map(|e| raw[NodeKey::new(0, e)]).filter(|h| *h != NONE) else {
            continue;
        };
        let Some(of) = body(model, plan, flow, nodes, (time, &whole), costs, home, raw) else { continue };
        let mut became: BTreeMap<u32, u32> = BTreeMap::new();
        for (id, s) in of {
            let s = *became.entry(s).or_insert_with(|| {
                next += 1;
                next - 1
            });
            raw[NodeKey::new(0, id)] = s;
        }
    }
}

/// Returns the nodes of one body that leave its scope's stream, each with its new stream; `None` if
/// this does not pay.
#[allow(clippy::too_many_arguments)]
fn body(
    model: &Model,
    plan: &StreamPlan,
    flow: &Flow,
    nodes: &[NodeId],
    (time, whole): (&ModelMap<u64>, &[u64]),
    costs: &Costs,
    home: u32,
    raw: &ModelMap<u32>,
) -> Option<Vec<(NodeId, u32)>> {
    let mut item: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
    let (mut made, mut edges, mut stays): (Vec<DagNode>, Vec<(u32, u32)>, Vec<bool>) =
        (Vec::new(), Vec::new(), Vec::new());
    let mut keys: Vec<NodeId> = Vec::new();
    for &id in nodes {
        let key = NodeKey::new(0, id);
        let mut before: Vec<u32> = flow.before(id).iter().filter_map(|p| item.get(p)).flatten().copied().collect();
        before.sort_unstable();
        before.dedup();
        let frame = flow.is_label(id);
        let scope = frame.then(|| flow.scope_at(id)).flatten();
        let wakes = key.get(model).is_some_and(|n| n.op() == "StreamActive");
        if let Some((entry, _)) = scope.filter(|(entry, _)| *entry != id) {
            // The last label of an inner scope: what waits for it waits for the whole scope.
            item.insert(id, item.get(&entry).cloned().unwrap_or_default());
            continue;
        }
        if plan.of[key].is_none() || plan.taskless[key] || wakes || (frame && scope.is_none()) {
            item.insert(id, before);
            continue;
        }
        let inner = scope.map_or(0, |(_, s)| whole[s]);
        let k = made.len() as u32;
        edges.extend(before.into_iter().map(|p| (p, k)));
        // Inner scopes, and nodes bound to another stream by a rule, stay where they are.
        stays.push(frame || raw[key] != home);
        made.push(DagNode { cost: time[key].saturating_add(inner), ..DagNode::default() });
        keys.push(id);
        item.insert(id, vec![k]);
    }
    let dag = Dag::new(made, &edges).ok()?;
    let rules = Rules { independent: vec![false], slots: vec![None], labels: 0, max_streams: None };
    let options = ParallelOptions { plain: costs.width, events: costs.events, aim: Aim::Speed };
    let best = plan_parallel(&dag, &rules, &options).ok()?.assignment;
    // The scope's own stream replaces the planned stream with the most nodes that must stay, or on
    // a tie the most work.
    let mut weight = vec![(0u64, 0u64); best.streams.max(1)];
    for (k, s) in best.stream.iter().enumerate() {
        let w = &mut weight[*s as usize];
        (w.0, w.1) = (w.0 + u64::from(stays[k]), w.1 + dag.nodes[k].cost);
    }
    let main = (0..weight.len()).max_by_key(|s| (weight[*s], std::cmp::Reverse(*s)))? as u32;
    let stream: Vec<u32> = best.stream.iter().zip(&stays).map(|(s, stays)| if *stays { main } else { *s }).collect();
    let beside = stream.iter().filter(|s| **s != main).collect::<std::collections::BTreeSet<_>>().len() as u64;
    let a = StreamAssignment { stream, order: (0..keys.len() as u32).collect(), streams: best.streams };
    let span = measured(&dag, &rules, a.clone(), costs.events).ok()?.makespan;
    let price = beside.saturating_mul(costs.launch.saturating_add(costs.events.pair()));
    (beside > 0 && span.saturating_add(price) < dag.work())
        .then(|| keys.iter().zip(&a.stream).filter(|(_, s)| **s != main).map(|(id, s)| (*id, *s)).collect())
}
