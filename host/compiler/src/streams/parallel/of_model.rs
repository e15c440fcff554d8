//! `ge.x.stream_mode = parallel:N` in the compiler: turns the root graph into a graph of costs, and
//! the plan for it back into streams and a node order.
//!
//! The pass chain of document 004 runs first. Nodes that its rules bind keep the stream that they
//! got there: nodes with a label, a `NewStreamId` or a `_parallel_group`, and those of independent
//! engines. `plan_parallel` spreads all other nodes of the root over at most N streams; the
//! planner's order becomes the graph's. Bodies of subgraphs are on the stream of the node that
//! calls them. Control flow by labels counts as one item there, and each of its bodies is spread
//! separately (`body`). Nodes that the chain puts on no stream, and nodes without a task, are not
//! planned: order passes through them.
use super::times::{Profile, times};
use crate::error::{CompileError, Result};
use crate::feature::parallel_group::group_of;
use crate::ids::{ModelMap, NodeKey, StreamId};
use crate::options::{Options, StreamMode};
use crate::place::Placement;
use crate::streams::flow::{FIRST_ACTIVE, Flow, scope_of};
use crate::streams::logical::context::label_of;
use crate::streams::{LogicalStream, StreamPlan};
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Model, Node, NodeId};
use ge_planners::streams::dag::{Dag, DagError, DagNode, NONE, Rules};
use ge_planners::streams::{Aim, EventCost, ParallelOptions, plan_parallel};
use ge_plugin_api::engine::flags;
use std::collections::BTreeMap;
use std::path::Path;

/// If a node without a task waits for more items than this, it becomes an item itself. Otherwise a
/// join of many items to many readers would yield edges in the number of their product.
const JOINED: usize = 16;

/// The width that the option requests: N of `parallel:N`. `None` in the mode `engine`.
pub fn width(options: &Options) -> Option<usize> {
    match options.stream_mode {
        StreamMode::Engine => None,
        StreamMode::Parallel(width) => Some(width),
    }
}

/// Whether the streams of this model come from its engines regardless of the option: because one
/// stream was requested, a custom pass has assigned streams, shapes are unknown, or labels and
/// activations in the graph already determine streams.
pub fn by_engine_all_the_same(model: &Model, plan: &StreamPlan, flow: Option<&Flow>) -> bool {
    let of_a_body = |n: &Node| {
        let inside = flow.is_some_and(|f| f.region(NodeKey::new(0, n.id())) > 0);
        flow.is_some() && (scope_of(n).is_some() || (inside && n.attrs().flag(FIRST_ACTIVE)))
    };
    let speaks_of_streams = |n: &Node| {
        !of_a_body(n)
            && (n.attrs().flag("_rts_label_node")
                || matches!(
                    n.op(),
                    "StreamActive" | "StreamSwitch" | "StreamMerge" | "LabelSet" | "LabelGotoEx" | "LabelSwitchByIndex"
                ))
    };
    plan.single
        || plan.assigned_by_stream_pass
        || !plan.wakes.is_empty()
        || crate::streams::unknown::is_dynamic(model.root())
        || model.graphs().iter().any(|g| g.nodes().any(speaks_of_streams))
}

/// The profile that `ge.x.stream_profile` names; an empty one if it names none.
///
/// # Errors
/// Fails if the profile cannot be read.
pub fn profile(options: &Options) -> Result<Profile> {
    match options.stream_profile.as_str() {
        "" => Ok(Profile::default()),
        path => Profile::read(Path::new(path)),
    }
}

/// Replaces the streams of nodes that no rule binds by those of a plan of at most `width` streams,
/// fewer if the SoC has fewer, and the root's order by the plan's.
///
/// # Errors
/// Fails if the profile cannot be read, or if the sum of costs exceeds what the planner can hold.
pub fn apply(
    model: &mut Model,
    plan: &mut StreamPlan,
    placement: &Placement,
    toolbox: &Toolbox,
    options: &Options,
    width: usize,
    flow: Option<&Flow>,
) -> Result<()> {
    let profile = profile(options)?;
    let soc = &toolbox.target.soc;
    let time = times(model, placement, toolbox, &profile, &|key| plan.of[key].is_some() && !plan.taskless[key]);
    let bound = Bound::find(model, plan, placement, toolbox);
    let items = Items::gather(model, plan, &bound, &time, flow);
    let events = EventCost { record: soc.event_record_ns, wait: soc.event_wait_ns };
    let internal = |e: DagError| CompileError::internal("streams", e.to_string());
    let dag = Dag::new(items.nodes.clone(), &items.edges).map_err(internal)?;
    let rules = Rules { independent: vec![false], slots: vec![None], labels: bound.reserved.len(), max_streams: None };
    let attached = plan.streams.len().saturating_sub(plan.main_count());
    let most = (soc.streams_normal as usize).saturating_sub(bound.reserved.len() + attached).max(1);
    let width = if soc.streams_normal > 0 { width.min(most) } else { width };
    let made =
        plan_parallel(&dag, &rules, &ParallelOptions { plain: width, events, aim: Aim::of(options.plan.text()) })
            .map_err(internal)?;

    let order = items.order_of_graph(model.root(), &made.assignment.order, flow);
    if order != model.root().order() && !model.graphs_mut()[0].set_order(&order) {
        return Err(CompileError::internal("streams", "the plan's order is no order of the graph"));
    }
    let mut raw: ModelMap<u32> = ModelMap::new(model, NONE);
    for (k, key) in items.keys.iter().enumerate() {
        if let Some(key) = key {
            raw[*key] = made.assignment.stream[k];
        }
    }
    place_the_rest(model, plan, &bound, &items, &made.assignment.stream, &mut raw, flow);
    if let Some(flow) = flow {
        super::body::spread(
            model,
            plan,
            flow,
            &time,
            &super::body::Costs { width, events, launch: soc.task_launch_ns },
            &mut raw,
        );
    }
    write_back(model, plan, &raw)
}

/// Nodes and streams that the rules of the chain bind.
struct Bound {
    /// For each reserved stream of the chain, its number among the reserved ones.
    reserved: BTreeMap<StreamId, u32>,
    /// Hcom operators of group "-1", with the producer that each follows.
    follows: BTreeMap<NodeKey, NodeId>,
}

impl Bound {
    fn find(model: &Model, plan: &StreamPlan, placement: &Placement, toolbox: &Toolbox) -> Bound {
        let mut out = Bound { reserved: BTreeMap::new(), follows: BTreeMap::new() };
        let mut scheduler = None;
        for (gi, g) in model.graphs().iter().enumerate() {
            for n in g.nodes() {
                let key = NodeKey::new(gi, n.id());
                let Some(stream) = plan.of[key].filter(|_| !plan.taskless[key]) else { continue };
                let follower =
                    group_of(n) == Some("-1") && n.attrs().str("_user_stream_label").is_none_or(str::is_empty);
                if follower && let Some(producer) = followed(n) {
                    if gi == 0 {
                        out.follows.insert(key, producer);
                    }
                    continue;
                }
                let info = &toolbox.engine(placement.engine[key]).info;
                let by_attr = label_of(n).is_some()
                    || n.attrs().int("NewStreamId").is_some()
                    || (group_of(n).is_some() && !follower);
                // Streams of two schedulers are never merged (facts 1.5 a).
                let home = scheduler.get_or_insert_with(|| info.scheduler_id.clone());
                if by_attr || info.flags & flags::INDEPENDENT != 0 || *home != info.scheduler_id {
                    let next = out.reserved.len() as u32;
                    out.reserved.entry(stream).or_insert(next);
                }
            }
        }
        out
    }
}

/// The producer that a Hcom operator of group "-1" follows: that of its only input.
fn followed(n: &Node) -> Option<NodeId> {
    let mut inputs = n.inputs().iter().filter(|v| !v.is_absent());
    match (inputs.next(), inputs.next(), n.op().starts_with("Hcom")) {
        (Some(only), None, true) => Some(only.node),
        _ => None,
    }
}

/// The root graph in the form that the planner uses.
struct Items {
    /// The node of each item; `None` for a join that represents a node without a task.
    keys: Vec<Option<NodeKey>>,
    nodes: Vec<DagNode>,
    edges: Vec<(u32, u32)>,
    /// The items that each node of the root is, or that it represents.
    of: Vec<Vec<u32>>,
}

impl Items {
    fn gather(model: &Model, plan: &StreamPlan, bound: &Bound, time: &ModelMap<u64>, flow: Option<&Flow>) -> Items {
        let g = model.root();
        let bodies = body_times(model, time);
        let mut out =
            Items { keys: Vec::new(), nodes: Vec::new(), edges: Vec::new(), of: vec![Vec::new(); g.id_bound()] };
        let mut has_reader: Vec<bool> = Vec::new();
        let net_output = g.net_output().map(Node::id);
        for n in g.nodes().filter(|n| Some(n.id()) != net_output).chain(g.net_output()) {
            let key = NodeKey::new(0, n.id());
            let scope = flow.and_then(|f| f.around(n.id()));
            if let Some(entry) = scope.filter(|entry| *entry != n.id()) {
                // The whole scope is one item.
                let item = out.of[entry.index()].clone();
                if let Some(d) = item.first().and_then(|k| out.nodes.get_mut(*k as usize)) {
                    d.cost = d.cost.saturating_add(time[key]);
                    let leaves = |k: usize| n.uses(k).iter().any(|u| flow.and_then(|f| f.around(u.node)) != scope);
                    let bytes = n.outputs().iter().enumerate().filter(|(k, _)| leaves(*k));
                    let bytes = bytes.filter_map(|(_, d)| d.data_bytes()).fold(0u64, u64::saturating_add);
                    d.out_bytes = d.out_bytes.saturating_add(bytes);
                }
                out.of[n.id().index()] = item;
                continue;
            }
            let before = |id| flow.map_or_else(|| predecessors(n).collect::<Vec<_>>(), |f| f.before(id).to_vec());
            let mut before: Vec<u32> =
                before(n.id()).into_iter().flat_map(|p| out.of[p.index()].iter().copied()).collect();
            if Some(n.id()) == net_output {
                // Every stream joins NetOutput.
                before.extend((0..out.keys.len() as u32).filter(|k| !has_reader[*k as usize]));
            }
            before.sort_unstable();
            before.dedup();
            let stands =
                scope.is_some() || (plan.of[key].is_some() && !plan.taskless[key]) || !n.subgraphs().is_empty();
            if !stands && before.len() <= JOINED {
                out.of[n.id().index()] = before;
                continue;
            }
            let item = out.keys.len() as u32;
            for &p in &before {
                out.edges.push((p, item));
                has_reader[p as usize] = true;
            }
            let reserved = plan.of[key].and_then(|s| bound.reserved.get(&s)).copied();
            let follow = bound.follows.get(&key).and_then(|p| out.of[p.index()].last()).copied();
            let bytes = n.outputs().iter().filter_map(|d| d.data_bytes()).fold(0u64, u64::saturating_add);
            out.keys.push(stands.then_some(key));
            has_reader.push(false);
            out.nodes.push(DagNode {
                cost: if stands { time[key].saturating_add(bodies.get(&n.id()).copied().unwrap_or(0)) } else { 0 },
                engine: 0,
                label: if stands && follow.is_none() { reserved } else { None },
                out_bytes: if stands { bytes } else { 0 },
                keep: false,
                follow: if stands { follow } else { None },
            });
            out.of[n.id().index()].push(item);
        }
        out
    }

    /// All nodes of the root in their new order: inputs and constants in their old order, then the
    /// items in the plan's order, each after the nodes without a task that it waits for, then the
    /// remaining nodes; NetOutput is last.
    fn order_of_graph(&self, g: &Graph, order: &[u32], flow: Option<&Flow>) -> Vec<NodeId> {
        // A scope moves as a whole to the place of its entry, after everything that enters it.
        let whole = |id: NodeId| flow.and_then(|f| f.around(id)).unwrap_or(id);
        let mut inside: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for n in g.nodes().filter(|n| flow.is_some_and(|f| f.around(n.id()).is_some())) {
            inside.entry(whole(n.id())).or_default().push(n.id());
        }
        let ahead = |id: NodeId| -> Vec<NodeId> {
            let list = match (flow, g.get(id)) {
                (Some(f), _) => f.before(id).to_vec(),
                (None, Some(n)) => predecessors(n).collect(),
                (None, None) => Vec::new(),
            };
            list.into_iter().map(whole).collect()
        };
        let mut out = Vec::with_capacity(g.len());
        let mut state = vec![0u8; g.id_bound()];
        let last = g.net_output().map(Node::id);
        let free = g.nodes().filter(|n| predecessors(n).next().is_none() && self.of[n.id().index()].is_empty());
        for n in free {
            state[n.id().index()] = 2;
            out.push(n.id());
        }
        let items = order.iter().filter_map(|&k| self.keys[k as usize]).map(|k| k.node);
        let rest = g.order().iter().copied();
        let mut stack: Vec<NodeId> = Vec::new();
        for seed in items.chain(rest).filter(|id| Some(*id) != last).chain(last) {
            stack.push(whole(seed));
            while let Some(&id) = stack.last() {
                match state[id.index()] {
                    0 => {
                        state[id.index()] = 1;
                        stack.extend(ahead(id).into_iter().filter(|p| state[p.index()] == 0));
                    }
                    1 => {
                        state[id.index()] = 2;
                        match inside.get(&id) {
                            Some(all) => out.extend_from_slice(all),
                            None => out.push(id),
                        }
                        stack.pop();
                    }
                    _ => {
                        stack.pop();
                    }
                }
            }
        }
        out
    }
}

fn predecessors(n: &Node) -> impl Iterator<Item = NodeId> + '_ {
    n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(n.controls().iter().copied())
}

/// The total time of all bodies of each node of the root, at every level.
fn body_times(model: &Model, time: &ModelMap<u64>) -> BTreeMap<NodeId, u64> {
    let parents = crate::streams::order::parents_of(model);
    let mut out: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (gi, g) in model.graphs().iter().enumerate().skip(1) {
        let mut up = parents[gi];
        // A graph that calls itself would never reach the root.
        for _ in 0..parents.len() {
            match up {
                Some(p) if p.graph != 0 => up = parents[p.graph as usize],
                _ => break,
            }
        }
        if let Some(p) = up.filter(|p| p.graph == 0) {
            let sum = g.nodes().map(|n| time[NodeKey::new(gi, n.id())]).fold(0u64, u64::saturating_add);
            let at = out.entry(p.node).or_default();
            *at = at.saturating_add(sum);
        }
    }
    out
}

/// Streams of nodes that are no items: nodes without a task get the stream of a neighbour, and
/// bodies that of their caller.
fn place_the_rest(
    model: &Model,
    plan: &StreamPlan,
    bound: &Bound,
    items: &Items,
    of_item: &[u32],
    raw: &mut ModelMap<u32>,
    flow: Option<&Flow>,
) {
    // The new stream of each reserved stream of the chain.
    let mut became: BTreeMap<StreamId, u32> = BTreeMap::new();
    for (key, &s) in items.keys.iter().zip(of_item) {
        if let Some(old) = key.and_then(|k| plan.of[k]).filter(|old| bound.reserved.contains_key(old)) {
            became.entry(old).or_insert(s);
        }
    }
    let mut next = of_item.iter().copied().max().map_or(0, |s| s + 1);
    for &id in model.root().order() {
        let key = NodeKey::new(0, id);
        let Some(n) = key.get(model) else { continue };
        let Some(old) = plan.of[key].filter(|_| raw[key] == NONE) else { continue };
        if let Some(entry) = flow.and_then(|f| f.around(id)) {
            raw[key] = match bound.reserved.contains_key(&old) {
                true => *became.entry(old).or_insert_with(|| {
                    next += 1;
                    next - 1
                }),
                false => raw[NodeKey::new(0, entry)],
            };
            continue;
        }
        // The stream of its last predecessor that has one: there it is known first that the node's
        // inputs are ready.
        let before = predecessors(n).map(|p| raw[NodeKey::new(0, p)]).filter(|s| *s != NONE).last();
        raw[key] = before.unwrap_or_else(|| {
            let readers = (0..n.outputs().len()).flat_map(|k| n.uses(k).iter().map(|u| u.node));
            readers.map(|r| raw[NodeKey::new(0, r)]).filter(|s| *s != NONE).min().unwrap_or(0)
        });
    }
    let parents = crate::streams::order::parents_of(model);
    for gi in from_the_root(&parents) {
        let parent = parents[gi].map_or(NONE, |p| raw[p]);
        for n in model.graphs()[gi].nodes() {
            let key = NodeKey::new(gi, n.id());
            raw[key] = match plan.of[key] {
                None => NONE,
                Some(old) if bound.reserved.contains_key(&old) => *became.entry(old).or_insert_with(|| {
                    next += 1;
                    next - 1
                }),
                Some(_) => {
                    if parent == NONE {
                        0
                    } else {
                        parent
                    }
                }
            };
        }
    }
}

/// Subgraphs, each after the graph of its parent.
fn from_the_root(parents: &[Option<NodeKey>]) -> Vec<usize> {
    let depth = |gi: usize| {
        let mut at = gi;
        let mut d = 0;
        while let Some(p) = parents[at].filter(|_| d <= parents.len()) {
            at = p.graph as usize;
            d += 1;
        }
        d
    };
    let mut out: Vec<(usize, usize)> = (1..parents.len()).map(|gi| (depth(gi), gi)).collect();
    out.sort_unstable();
    out.into_iter().map(|(_, gi)| gi).collect()
}

/// Writes the streams to the plan: ids are continuous from 0 in the order in which streams first
/// appear, labels are recorded, and attached streams are assigned again, because they belong to
/// main streams.
fn write_back(model: &Model, plan: &mut StreamPlan, raw: &ModelMap<u32>) -> Result<()> {
    let mut ids: BTreeMap<u32, u32> = BTreeMap::new();
    let mut streams: Vec<LogicalStream> = Vec::new();
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes() {
            let key = NodeKey::new(gi, n.id());
            plan.attached[key].clear();
            if raw[key] == NONE {
                plan.of[key] = None;
                continue;
            }
            let id = *ids.entry(raw[key]).or_insert_with(|| {
                streams.push(LogicalStream::default());
                streams.len() as u32 - 1
            });
            plan.of[key] = Some(StreamId(id));
            let s = &mut streams[id as usize];
            if let Some(l) = n.attrs().str("_user_stream_label").filter(|_| s.user_label.is_empty()) {
                s.user_label = l.to_owned();
            }
            if let Some(l) = label_of(n).filter(|_| s.label.is_empty()) {
                s.label = l;
            }
        }
    }
    if streams.is_empty() {
        streams.push(LogicalStream::default());
    }
    plan.streams = streams;
    crate::streams::logical::attached::assign(model, plan, None)
}
