//! Physical streams (004 §4.4). Input: logical streams and the tasks actually generated. Output:
//! `PhysicalPlan`.
//!
//! A stream of a SoC holds a limited number of tasks. A logical stream with more is cut into
//! several physical ones, joined by events. The first piece keeps the id of the logical stream; the
//! others get ids after all logical ids, in node order. Nothing is cut on a SoC whose streams have
//! no limit.

/// Nodes that wait for more streams than one stream has room for.
pub mod gather;
/// Positions at which a stream is cut.
pub mod points;

use crate::error::{CompileError, Result};
use crate::ids::{ModelMap, NodeKey, PhysicalId, StreamId};
use crate::options::Options;
use crate::options::SyncBy;
use crate::streams::activation::Wakers;
use crate::streams::flow::scope_of;
use crate::streams::{ExecutionOrder, StreamPlan};
use crate::sync::SyncPlan;
use crate::sync::split_points::Stands;
use crate::tasks::PlacedTask;
use crate::tasks::generator::sync_task;
use ge_ir::Model;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::task::TaskType;
use std::collections::{BTreeMap, HashMap};

/// Number of tasks that every stream keeps free: 7 trace points and 20 more (facts 1.2).
pub const RESERVED_TASKS: u64 = 27;

/// One physical stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalStream {
    /// The logical stream of which it is a part.
    pub logical: StreamId,
    /// Whether it is a huge stream.
    pub huge: bool,
    /// Whether it starts at launch; otherwise it sleeps until it is activated.
    pub head: bool,
    /// Number of tasks on it.
    pub tasks: u32,
}

/// Physical streams of a model.
#[derive(Clone, Debug)]
pub struct PhysicalPlan {
    /// Physical streams; the index is the id.
    pub streams: Vec<PhysicalStream>,
    /// Physical stream of each node's main tasks.
    pub of: ModelMap<Option<PhysicalId>>,
    /// Physical streams of each node's attached streams.
    pub attached: ModelMap<Vec<PhysicalId>>,
    /// Tasks in the order of TASK_INFO: by node order, then in the order in which the engine
    /// emitted them.
    pub tasks: Vec<PlacedTask>,
}

impl PhysicalPlan {
    /// Writes the plan as attributes: from here on `_stream_id` and `_attached_stream_ids` hold
    /// physical ids.
    pub fn to_attrs(&self, model: &mut Model) {
        for gi in 0..model.graphs().len() {
            for id in model.graphs()[gi].order().to_vec() {
                let key = NodeKey::new(gi, id);
                let g = &mut model.graphs_mut()[gi];
                match self.of[key] {
                    Some(s) => g.set_attr(id, "_stream_id", i64::from(s.0)),
                    None => drop(g.remove_attr(id, "_stream_id")),
                }
                if !self.attached[key].is_empty() {
                    let ids: Vec<i64> = self.attached[key].iter().map(|s| i64::from(s.0)).collect();
                    g.set_attr(id, "_attached_stream_ids", ids);
                }
            }
        }
        crate::tasks::to_attrs(&self.tasks, model);
    }
}

/// Result of splitting.
#[derive(Debug)]
pub enum Split {
    /// The physical streams.
    Done(PhysicalPlan),
    /// These switches wake a stream that was cut. Each needs a StreamActive of its own stream; then
    /// planning starts again.
    NeedsActive(Vec<NodeKey>),
    /// There are more event or notify ids than the SoC has, and `may_reuse` allows them to be
    /// reused; then planning starts again.
    ManyIds,
    /// These nodes wait for more streams than their own has room for. Other nodes must wait in
    /// their place; then planning starts again.
    Crowded(Vec<gather::Crowded>),
}

/// Input of the stage.
pub struct Input<'a> {
    /// Logical streams.
    pub streams: &'a StreamPlan,
    /// Execution order of the nodes.
    pub order: &'a ExecutionOrder,
    /// Limits of the SoC.
    pub soc: &'a SocSpec,
    /// Options of the compilation.
    pub options: &'a Options,
    /// Whether ids may be reused but are not yet.
    pub may_reuse: bool,
}

/// Cuts streams that are too long, adds the events that join the pieces to the sync plan, and
/// replaces the streams in tasks and in `active_stream_list` by physical ids. The tasks move into
/// the plan.
///
/// # Errors
/// Fails if nodes that must stay together do not fit on one stream, or if more streams, events or
/// notifies are needed than the SoC has.
pub fn run(model: &mut Model, input: &Input<'_>, tasks: Vec<PlacedTask>, sync: &mut SyncPlan) -> Result<Split> {
    let Input { streams, order, soc, options, may_reuse } = *input;
    let logical = streams.streams.len();
    let wakers = Wakers::of(model, streams);
    let tasks = NodeTasks::new(model, order, tasks);
    let stands = Stands::of(model, streams, order);
    let limit = u64::from(soc.tasks_normal);
    let full = if soc.unlimited_depth || limit == 0 { Vec::new() } else { full(&stands, &tasks, limit) };
    let crowded = gather::crowded(model, sync, &full, limit);
    if !crowded.is_empty() {
        return Ok(Split::Crowded(crowded));
    }
    let (pieces, physical, huge) = pieces(model, input, &stands, &tasks)?;
    let mut plan = PhysicalPlan {
        streams: pieces
            .iter()
            .map(|s| PhysicalStream {
                logical: *s,
                huge: huge.contains(s),
                head: wakers.by.get(s.0 as usize).is_none_or(Vec::is_empty),
                tasks: 0,
            })
            .collect(),
        of: ModelMap::new(model, None),
        attached: ModelMap::new(model, Vec::new()),
        tasks: Vec::new(),
    };
    enough_streams(&plan, soc)?;
    let mut of_piece: Vec<Vec<PhysicalId>> = vec![Vec::new(); logical.max(1)];
    for (p, s) in pieces.iter().enumerate() {
        if let Some(list) = of_piece.get_mut(s.0 as usize) {
            list.push(PhysicalId(p as u32));
        }
    }
    let switches = TaskType::STREAM_SWITCH;
    let crowded: Vec<NodeKey> = streams
        .wakes
        .iter()
        .filter(|(_, l)| l.iter().any(|s| of_piece.get(s.0 as usize).is_some_and(|p| p.len() > 1)))
        .map(|(k, _)| *k)
        .filter(|k| tasks.of(*k).iter().any(|t| t.task.kind() == switches))
        .collect();
    if !crowded.is_empty() {
        return Ok(Split::NeedsActive(crowded));
    }
    // The current piece of each stream while nodes are visited; a node without tasks gets the
    // current piece.
    let mut now: Vec<u32> = (0..logical.max(1) as u32).collect();
    let mut at: HashMap<(NodeKey, StreamId), u32> = HashMap::new();
    for (i, key) in stands.iter().enumerate() {
        at.insert(key, physical[i]);
    }
    for &key in order.line() {
        let mut place = |s: StreamId| {
            if let (Some(p), Some(n)) = (at.get(&(key, s)), now.get_mut(s.0 as usize)) {
                *n = *p;
            }
            PhysicalId(now.get(s.0 as usize).copied().unwrap_or(s.0))
        };
        plan.of[key] = streams.of[key].map(&mut place);
        plan.attached[key] = streams.attached[key].iter().map(|s| place(*s)).collect();
    }
    let had = sync.pairs.len();
    if pieces.len() > logical {
        stands.join_pieces(model, sync, &physical, options.sync_by == SyncBy::Notify)?;
    }
    if let Err(e) = enough_events(sync, soc) {
        return if may_reuse { Ok(Split::ManyIds) } else { Err(e) };
    }
    let mut waits: BTreeMap<NodeKey, Vec<PlacedTask>> = BTreeMap::new();
    let mut records: BTreeMap<NodeKey, Vec<PlacedTask>> = BTreeMap::new();
    for p in &sync.pairs[had..] {
        waits.entry(p.recv.node).or_default().push(sync_task(p, false));
        records.entry(p.send.node).or_default().push(sync_task(p, true));
    }
    let mut tasks = tasks.list;
    if !waits.is_empty() || !records.is_empty() || !streams.wakes.is_empty() {
        let mut own = std::mem::take(&mut tasks).into_iter().peekable();
        for &key in order.line() {
            tasks.extend(waits.remove(&key).into_iter().flatten());
            let own = std::iter::from_fn(|| own.next_if(|t| t.node == key));
            match streams.wakes.get(&key) {
                None => tasks.extend(own),
                Some(list) => {
                    let pieces = list.iter().flat_map(|s| of_piece.get(s.0 as usize).into_iter().flatten());
                    let woken: Vec<PhysicalId> = pieces.copied().collect();
                    tasks.extend(wake(own, &woken));
                    let ids: Vec<i64> = woken.iter().map(|p| i64::from(p.0)).collect();
                    model.graphs_mut()[key.graph as usize].set_attr(key.node, "active_stream_list", ids);
                }
            }
            tasks.extend(records.remove(&key).into_iter().flatten());
        }
    }
    plan.tasks = tasks;
    for t in &mut plan.tasks {
        t.physical = match at.get(&(t.node, t.stream)) {
            Some(p) => PhysicalId(*p),
            None => PhysicalId(t.stream.0),
        };
        if let Some(s) = plan.streams.get_mut(t.physical.0 as usize) {
            s.tasks += 1;
        }
    }
    Ok(Split::Done(plan))
}

/// Tasks by node, in node order.
struct NodeTasks {
    list: Vec<PlacedTask>,
    /// Range of each node's tasks in the list.
    at: ModelMap<(u32, u32)>,
}

impl NodeTasks {
    /// Sorts tasks by the order of their nodes; the order of one node's tasks is kept.
    fn new(model: &Model, order: &ExecutionOrder, mut list: Vec<PlacedTask>) -> NodeTasks {
        if !list.is_sorted_by_key(|t| order.position(t.node)) {
            list.sort_by_key(|t| order.position(t.node));
        }
        let mut at = ModelMap::new(model, (0, 0));
        for (i, t) in list.iter().enumerate() {
            let (first, end) = &mut at[t.node];
            if *end == 0 {
                *first = i as u32;
            }
            *end = i as u32 + 1;
        }
        NodeTasks { list, at }
    }

    fn of(&self, key: NodeKey) -> &[PlacedTask] {
        let (first, end) = self.at[key];
        &self.list[first as usize..end as usize]
    }
}

/// Rewrites the tasks of a node that wakes streams. STREAM_ACTIVE becomes one task for each woken
/// stream, in order; STREAM_SWITCH wakes the first of them.
fn wake(tasks: impl Iterator<Item = PlacedTask>, woken: &[PhysicalId]) -> Vec<PlacedTask> {
    let mut out = Vec::new();
    let mut done = false;
    for mut t in tasks {
        match t.task.kind() {
            TaskType::STREAM_ACTIVE => {
                if !std::mem::replace(&mut done, true) {
                    out.extend(woken.iter().map(|p| {
                        let mut one = t.clone();
                        one.task.numbers = vec![i64::from(p.0)].into();
                        one
                    }));
                }
            }
            TaskType::STREAM_SWITCH => {
                if let (Some(to), Some(p)) = (t.task.numbers.get_mut(2), woken.first()) {
                    *to = i64::from(p.0);
                }
                out.push(t);
            }
            _ => out.push(t),
        }
    }
    out
}

/// Returns the logical stream of each physical one, the physical stream of each position in
/// `stands`, and the logical streams that become huge.
fn pieces(
    model: &Model,
    input: &Input<'_>,
    stands: &Stands,
    tasks: &NodeTasks,
) -> Result<(Vec<StreamId>, Vec<u32>, Vec<StreamId>)> {
    let Input { streams, soc, .. } = *input;
    let logical = streams.streams.len().max(1);
    let mut pieces: Vec<StreamId> = (0..logical as u32).map(StreamId).collect();
    let mut physical: Vec<u32> = stands.iter().map(|(_, s)| s.0).collect();
    if soc.unlimited_depth || soc.tasks_normal == 0 {
        return Ok((pieces, physical, Vec::new()));
    }
    let limit = u64::from(soc.tasks_normal);
    let mut rough = vec![0u64; logical];
    for t in &tasks.list {
        if let Some(n) = rough.get_mut(t.stream.0 as usize) {
            *n += u64::from(t.task.sqe_num.max(1));
        }
    }
    let per_piece = limit.saturating_sub(RESERVED_TASKS).max(1);
    let woken_pieces = |s: &StreamId| rough.get(s.0 as usize).map_or(1, |n| n.div_ceil(per_piece).max(1));
    // For each stream: index in `stands`, node and SQE count of each position on it.
    let mut on: Vec<Vec<(usize, points::Stand<'_>)>> = vec![Vec::new(); logical];
    for (i, (key, s)) in stands.iter().enumerate() {
        let Some(node) = key.get(model) else { continue };
        let own = tasks.of(key);
        let count = sqes(node, own, s, |k| {
            // A task that wakes a stream that will be cut becomes one task for each piece.
            let list = streams.wakes.get(&key).map_or(&[][..], Vec::as_slice);
            list.get(k).map_or(1, woken_pieces)
        });
        if let Some(list) = on.get_mut(s.0 as usize) {
            list.push((i, points::Stand { node, count }));
        }
    }
    let all = |s: usize| on[s].iter().fold(0u64, |sum, (_, s)| sum.saturating_add(s.count));
    // A stream with jumps can be cut only in few places, so it becomes huge if necessary and if the
    // SoC has a huge stream left. So does the one stream of single-stream mode.
    let jumps = |s: usize| streams.flow.is_some() && on[s].iter().any(|(_, s)| scope_of(s.node).is_some());
    let may_be_huge = |s: &usize| (streams.single && *s == 0) || jumps(*s);
    let huge: Vec<usize> = (0..logical)
        .filter(|_| soc.tasks_huge > soc.tasks_normal)
        .filter(may_be_huge)
        .filter(|s| all(*s).saturating_add(RESERVED_TASKS) > limit)
        .take(soc.streams_huge as usize)
        .collect();
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    for (s, list) in on.iter().enumerate() {
        let limit = if huge.contains(&s) { u64::from(soc.tasks_huge) } else { limit };
        let plain: Vec<points::Stand<'_>> = list.iter().map(|(_, s)| s.clone()).collect();
        cuts.extend(points::cuts(&plain, limit, &soc.name)?.into_iter().map(|k| (list[k].0, s)));
    }
    cuts.sort_unstable();
    let mut next: Vec<BTreeMap<usize, u32>> = vec![BTreeMap::new(); logical];
    for (first, s) in cuts {
        next[s].insert(first, pieces.len() as u32);
        pieces.push(StreamId(s as u32));
    }
    for (i, p) in physical.iter_mut().enumerate() {
        if let Some((_, piece)) = next[*p as usize].range(..=i).next_back() {
            *p = *piece;
        }
    }
    Ok((pieces, physical, huge.into_iter().map(|s| StreamId(s as u32)).collect()))
}

/// Nodes with so many waits that a stream cannot hold them together with what every piece needs.
fn full(stands: &Stands, tasks: &NodeTasks, limit: u64) -> Vec<NodeKey> {
    let wait = |t: &&PlacedTask| {
        matches!(t.task.kind(), TaskType::EVENT_WAIT | TaskType::NOTIFY_WAIT | TaskType::MEM_EVENT_WAIT)
    };
    let room = gather::room(limit);
    let too_many = |(key, s): &(NodeKey, StreamId)| {
        let own = tasks.of(*key);
        own.len() > room && own.iter().filter(|t| t.stream == *s).filter(wait).count() > room
    };
    stands.iter().filter(too_many).map(|(key, _)| key).collect()
}

/// SQEs of a node on a stream: `_node_sqe_num` or those of its own tasks, plus those of its waits
/// and records.
fn sqes(node: &ge_ir::Node, tasks: &[PlacedTask], s: StreamId, wakes: impl Fn(usize) -> u64) -> u64 {
    let given = node.attrs().int("_node_sqe_num").and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    let (mut own, mut sync, mut woken) = (0u64, 0u64, 0usize);
    for t in tasks.iter().filter(|t| t.stream == s) {
        let sqe = u64::from(t.task.sqe_num.max(1));
        match t.task.kind() {
            TaskType::EVENT_WAIT | TaskType::NOTIFY_WAIT | TaskType::MEM_EVENT_WAIT => {
                sync += sqe.max(points::WAIT_SQES)
            }
            TaskType::EVENT_RECORD | TaskType::NOTIFY_RECORD | TaskType::MEM_EVENT_RECORD => sync += sqe,
            TaskType::STREAM_ACTIVE => {
                own += wakes(woken);
                woken += 1;
            }
            _ => own += sqe,
        }
    }
    given.unwrap_or(own).saturating_add(sync)
}

fn enough_streams(plan: &PhysicalPlan, soc: &SocSpec) -> Result<()> {
    let huge = plan.streams.iter().filter(|s| s.huge).count();
    let normal = plan.streams.len() - huge;
    let help = "compile for a SoC with more or longer streams, or with fewer streams";
    for (what, found, most) in [("streams", normal, soc.streams_normal), ("huge streams", huge, soc.streams_huge)] {
        if most > 0 && found > most as usize {
            return Err(too_many(what, found, most, soc, help));
        }
    }
    Ok(())
}

fn enough_events(sync: &SyncPlan, soc: &SocSpec) -> Result<()> {
    let most_notifies = soc.max_notifies.min(crate::sync::MAX_NOTIFIES);
    let help = "compile for a SoC with longer streams, with fewer streams, or with ge.x.event_reuse=auto";
    for (what, found, most) in
        [("events", sync.event_num, soc.max_events), ("notifies", sync.notify_num, most_notifies)]
    {
        if most > 0 && found > most {
            return Err(too_many(what, found as usize, most, soc, help));
        }
    }
    Ok(())
}

fn too_many(what: &'static str, found: usize, most: u32, soc: &SocSpec, help: &'static str) -> CompileError {
    CompileError::Limit { what, needs: found as u64, whose: format!("{} has", soc.name), has: u64::from(most), help }
}
