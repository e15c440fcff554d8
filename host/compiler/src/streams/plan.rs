//! `StreamPlan`: the decisions of the stage `streams`, which later stages read.
use super::flow::Flow;
use crate::ids::{ModelMap, NodeKey, StreamId};
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin_api::engine::flags;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Attribute of a root graph with control flow as labels: everything is on one stream.
const SINGLE: &str = "_single_stream";

/// Properties of a logical stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogicalStream {
    /// Stream label (`_stream_label`), or empty.
    pub label: String,
    /// User's label (`_user_stream_label`), or empty.
    pub user_label: String,
    /// Whether it is an attached stream.
    pub attached: bool,
}

/// Streams of a model.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Logical stream of each node; `None` if it is on no stream.
    pub of: ModelMap<Option<StreamId>>,
    /// Attached streams of each node, in the order of its requests.
    pub attached: ModelMap<Vec<StreamId>>,
    /// Whether a node has no task. Such a node takes no part in the order of its stream, and order
    /// passes through it (DESIGN 9).
    pub taskless: ModelMap<bool>,
    /// Logical streams: main ones first, then attached ones. The index is the stream id.
    pub streams: Vec<LogicalStream>,
    /// Streams that each node wakes, in the order of its tasks; they sleep until then.
    pub wakes: BTreeMap<NodeKey, Vec<StreamId>>,
    /// Whether the plan was made in single-stream mode.
    pub single: bool,
    /// Whether a custom stream pass changed the plan.
    pub assigned_by_stream_pass: bool,
    /// Control flow by labels, if there is any.
    pub flow: Option<Arc<Flow>>,
}

impl StreamPlan {
    /// Creates a plan without streams.
    pub fn empty(model: &Model) -> StreamPlan {
        StreamPlan {
            of: ModelMap::new(model, None),
            attached: ModelMap::new(model, Vec::new()),
            taskless: ModelMap::new(model, false),
            streams: Vec::new(),
            wakes: BTreeMap::new(),
            single: false,
            assigned_by_stream_pass: false,
            flow: None,
        }
    }
    /// For each stream, the region of the control flow that contains it; 0 if it runs outside of
    /// all regions.
    pub fn regions(&self, model: &Model) -> Vec<usize> {
        self.flow.as_ref().map_or_else(|| vec![0; self.streams.len()], |f| f.of_streams(model, self))
    }
    /// Records which nodes have no task: those with `_no_task` and those of engines without tasks,
    /// except the root's NetOutput.
    pub fn mark_taskless(&mut self, model: &Model, placement: &Placement, toolbox: &Toolbox) {
        for (gi, g) in model.graphs().iter().enumerate() {
            let end = if gi == 0 { g.net_output().map(|n| n.id()) } else { None };
            for n in g.nodes() {
                let key = NodeKey::new(gi, n.id());
                let no_tasks = toolbox.engine(placement.engine[key]).info.flags & flags::NO_TASK != 0;
                self.taskless[key] = Some(n.id()) != end && (no_tasks || n.attrs().flag("_no_task"));
            }
        }
    }

    /// Drops streams that have no node with a task and that no node wakes, because a device has no
    /// streams without tasks. Their nodes are then on no stream. A node without a task has no
    /// attached work, so it keeps no attached stream. Returns whether anything was dropped.
    pub fn drop_idle(&mut self, model: &Model) -> bool {
        let mut changed = false;
        for (gi, g) in model.graphs().iter().enumerate() {
            for key in g.nodes().map(|n| NodeKey::new(gi, n.id())).filter(|k| self.taskless[*k]) {
                changed |= !std::mem::take(&mut self.attached[key]).is_empty();
            }
        }
        let mut used = vec![false; self.streams.len()];
        let nodes = || model.graphs().iter().enumerate();
        let keys = || nodes().flat_map(|(gi, g)| g.nodes().map(move |n| NodeKey::new(gi, n.id())));
        let own = keys().filter(|k| !self.taskless[*k]).filter_map(|k| self.of[k]);
        let attached = keys().flat_map(|k| self.attached[k].iter().copied());
        for s in own.chain(attached).chain(self.wakes.values().flatten().copied()) {
            if let Some(u) = used.get_mut(s.0 as usize) {
                *u = true;
            }
        }
        if used.iter().all(|u| *u) || !used.contains(&true) {
            return changed;
        }
        let mut next = 0;
        let to: Vec<Option<StreamId>> = used
            .iter()
            .map(|u| {
                next += u32::from(*u);
                u.then(|| StreamId(next - 1))
            })
            .collect();
        let of = |s: StreamId| to.get(s.0 as usize).copied().flatten();
        for k in keys() {
            self.of[k] = self.of[k].and_then(of);
            self.attached[k] = self.attached[k].iter().filter_map(|s| of(*s)).collect();
        }
        for list in self.wakes.values_mut() {
            *list = list.iter().filter_map(|s| of(*s)).collect();
        }
        let mut keep = used.iter();
        self.streams.retain(|_| keep.next().copied().unwrap_or(true));
        true
    }

    /// Writes `_logic_stream_id`, which keeps the logical stream after physical ones are assigned.
    pub fn logic_to_attrs(&self, model: &mut Model) {
        for gi in 0..model.graphs().len() {
            for id in model.graphs()[gi].order().to_vec() {
                if let Some(s) = self.of[NodeKey::new(gi, id)] {
                    model.graphs_mut()[gi].set_attr(id, "_logic_stream_id", i64::from(s.0));
                }
            }
        }
    }

    /// Number of main streams.
    pub fn main_count(&self) -> usize {
        self.streams.iter().filter(|s| !s.attached).count()
    }

    /// Writes `active_stream_list`: the logical streams that a node wakes.
    pub fn active_to_attrs(&self, model: &mut Model) {
        for (key, list) in &self.wakes {
            let ids: Vec<i64> = list.iter().map(|s| i64::from(s.0)).collect();
            model.graphs_mut()[key.graph as usize].set_attr(key.node, "active_stream_list", ids);
        }
    }

    /// Marks the root graph if all its control flow is on a single stream, which no attribute of a
    /// node says.
    pub fn mode_to_attrs(&self, model: &mut Model) {
        if self.single && Flow::of(model).is_some() {
            model.root_mut().attrs_mut().set(SINGLE, true);
        }
    }

    /// Writes the streams as attributes: `_stream_id` (absent if a node has no stream) and
    /// `_attached_stream_ids`.
    pub fn to_attrs(&self, model: &mut Model) {
        for gi in 0..model.graphs().len() {
            for id in model.graphs()[gi].order().to_vec() {
                let key = NodeKey::new(gi, id);
                let g = &mut model.graphs_mut()[gi];
                match self.of[key] {
                    Some(s) => g.set_attr(id, "_stream_id", i64::from(s.0)),
                    None => {
                        g.remove_attr(id, "_stream_id");
                    }
                }
                if !self.attached[key].is_empty() {
                    let ids: Vec<i64> = self.attached[key].iter().map(|s| i64::from(s.0)).collect();
                    g.set_attr(id, "_attached_stream_ids", ids);
                }
            }
        }
    }

    /// Reads the plan from attributes. `None` if no node has a stream.
    pub fn from_attrs(model: &Model) -> Option<StreamPlan> {
        let single = model.root().attrs().flag(SINGLE);
        let flow = if single { None } else { Flow::of(model).map(Arc::new) };
        let mut plan = StreamPlan { flow, single, ..StreamPlan::empty(model) };
        let (mut count, mut attached) = (0u32, std::collections::BTreeSet::new());
        for (gi, g) in model.graphs().iter().enumerate() {
            for n in g.nodes() {
                let key = NodeKey::new(gi, n.id());
                let stream = |v: i64| u32::try_from(v).ok().filter(|s| *s < 1 << 20);
                if let Some(s) = n.attrs().int("_stream_id").and_then(stream) {
                    plan.of[key] = Some(StreamId(s));
                    count = count.max(s + 1);
                }
                for s in n.attrs().ints("_attached_stream_ids").unwrap_or(&[]).iter().filter_map(|v| stream(*v)) {
                    plan.attached[key].push(StreamId(s));
                    attached.insert(s);
                    count = count.max(s + 1);
                }
                let woken = n.attrs().ints("active_stream_list").unwrap_or(&[]);
                let woken: Vec<StreamId> = woken.iter().filter_map(|v| stream(*v)).map(StreamId).collect();
                if !woken.is_empty() {
                    count = count.max(woken.iter().map(|s| s.0 + 1).max().unwrap_or(0));
                    plan.wakes.insert(key, woken);
                }
            }
        }
        plan.streams =
            (0..count).map(|s| LogicalStream { attached: attached.contains(&s), ..LogicalStream::default() }).collect();
        (count > 0).then_some(plan)
    }
}
