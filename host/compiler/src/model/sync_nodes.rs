//! GenerateSyncEventNodes (004 §4.6): records and waits of the sync plan become nodes Send and Recv
//! (SendNotify, RecvNotify) of the compiled model. A Recv stands directly before its node, a Send
//! directly after it, and a control edge connects the two. They are added last, when streams are
//! physical and ids are final, so that no earlier stage sees them.
use crate::error::{CompileError, Result};
use crate::ids::NodeKey;
use crate::sync::{Resource, SyncPlan};
use crate::tasks::PlacedTask;
use ge_ir::{Graph, Key, Model, NodeId, NodeMap};
use ge_model::NodeInfo;
use ge_plugin_api::engine::flags;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::task::TaskType;
use std::collections::{HashMap, HashSet};

/// The sync nodes around one node of a graph.
#[derive(Debug, Default)]
pub struct Around {
    /// Recv nodes, which stand before it.
    pub before: Vec<NodeInfo>,
    /// Send nodes, which stand after it.
    pub after: Vec<NodeInfo>,
}

/// The sync nodes, and the positions of all nodes with them included.
pub struct SyncNodes {
    /// Position of each node, by graph.
    pub at: Vec<NodeMap<u32>>,
    /// Position of the sync node of each record and wait, by task index.
    pub of_task: HashMap<usize, u32>,
    /// The sync nodes, by the node to which they belong.
    pub nodes: HashMap<NodeKey, Around>,
}

impl SyncNodes {
    /// Makes the sync nodes for the records and waits among the tasks. `engine` is their engine's
    /// name.
    pub fn generate(model: &Model, sync: &SyncPlan, tasks: &[PlacedTask], engine: &str) -> SyncNodes {
        // Events that an engine uses within a node get no sync nodes.
        let own: HashSet<(NodeKey, Resource)> =
            sync.resources.iter().flat_map(|(k, all)| all.iter().map(|r| (*k, *r))).collect();
        let taken: HashSet<&str> = model.graphs().iter().flat_map(|g| g.nodes().map(|n| n.name())).collect();
        let mut names: HashSet<String> = HashSet::new();
        let mut nodes: HashMap<NodeKey, Around> = HashMap::new();
        // Task index, node, whether the task waits, and its position among the node's waits or
        // records.
        let mut places: Vec<(usize, NodeKey, bool, usize)> = Vec::new();
        for (i, t) in tasks.iter().enumerate() {
            let (op, what, key, waits) = match t.task.kind() {
                TaskType::EVENT_RECORD => ("Send", "Send", "event_id", false),
                TaskType::EVENT_WAIT => ("Recv", "Recv", "event_id", true),
                TaskType::NOTIFY_RECORD => ("SendNotify", "Send_Notify", "notify_id", false),
                TaskType::NOTIFY_WAIT => ("RecvNotify", "Recv_Notify", "notify_id", true),
                _ => continue,
            };
            let notify = key == "notify_id";
            let within = |id: &u32| own.contains(&(t.node, Resource { id: *id, notify }));
            let Some(id) = t.sync_id.filter(|id| !within(id)) else { continue };
            let base = format!("{}_{what}_{id}", t.node.graph_of(model).name());
            let mut name = base.clone();
            let mut again = 0;
            while taken.contains(name.as_str()) || !names.insert(name.clone()) {
                again += 1;
                name = format!("{base}_Reuse_{again}");
            }
            let mut node = NodeInfo {
                name,
                op: op.to_owned(),
                engine: engine.to_owned(),
                stream: Some(t.physical.0),
                logical_stream: Some(t.stream.0),
                ..NodeInfo::default()
            };
            node.attrs.set(key, i64::from(id));
            let around = nodes.entry(t.node).or_default();
            let list = if waits { &mut around.before } else { &mut around.after };
            places.push((i, t.node, waits, list.len()));
            list.push(node);
        }
        let mut at = Vec::with_capacity(model.graphs().len());
        for (gi, g) in model.graphs().iter().enumerate() {
            let mut map = NodeMap::new(g, 0u32);
            let mut next = 0u32;
            for &id in g.order() {
                let around = nodes.get_mut(&NodeKey::new(gi, id));
                next += around.as_ref().map_or(0, |a| a.before.len() as u32);
                map[id] = next;
                next += 1;
                if let Some(a) = around {
                    a.after.iter_mut().for_each(|n| n.controls.push(map[id]));
                    next += a.after.len() as u32;
                }
            }
            at.push(map);
        }
        let of_task = places
            .into_iter()
            .map(|(task, key, waits, k)| {
                let own = at[key.graph as usize][key.node];
                let before = nodes.get(&key).map_or(0, |a| a.before.len());
                (task, if waits { own - before as u32 + k as u32 } else { own + 1 + k as u32 })
            })
            .collect();
        SyncNodes { at, of_task, nodes }
    }

    /// Inserts the sync nodes into the graphs, each beside its node, so that text shows the
    /// compiled model.
    ///
    /// # Errors
    /// Fails if an insertion would break a graph, which is a bug.
    pub fn insert(self, model: &mut Model) -> Result<()> {
        let broken = || CompileError::internal("model", "records and waits cannot stand beside their nodes");
        let mut around = self.nodes;
        for gi in 0..model.graphs().len() {
            let old = model.graphs()[gi].order().to_vec();
            let mut order = Vec::with_capacity(old.len());
            let mut edits = Vec::new();
            for id in old {
                let g = &mut model.graphs_mut()[gi];
                let Around { before, after } = around.remove(&NodeKey::new(gi, id)).unwrap_or_default();
                for n in before {
                    let recv = push(g, n, Vec::new()).ok_or_else(broken)?;
                    edits.push(Edit::AddControl(recv, id));
                    order.push(recv);
                }
                order.push(id);
                for n in after {
                    order.push(push(g, n, vec![id]).ok_or_else(broken)?);
                }
            }
            model
                .apply(gi, edits)
                .map_err(|source| CompileError::Patch { who: "GenerateSyncEventNodes".into(), source })?;
            if !model.graphs_mut()[gi].set_order(&order) {
                return Err(broken());
            }
        }
        Ok(())
    }
}

/// Appends a record or a wait to a graph. `None` if an input does not exist.
fn push(g: &mut Graph, n: NodeInfo, after: Vec<NodeId>) -> Option<NodeId> {
    let mut attrs = n.attrs;
    attrs.set("_engine", n.engine.as_str());
    for (name, stream) in [("_stream_id", n.stream), ("_logic_stream_id", n.logical_stream)] {
        if let Some(s) = stream {
            attrs.set(name, i64::from(s));
        }
    }
    g.push_node(Key::new(&n.op), n.name, vec![], after, vec![], attrs)
}

/// Name of the engine to which records and waits belong; empty if there is none.
pub fn runtime_engine(toolbox: &crate::toolbox::Toolbox) -> String {
    toolbox.engine_with(flags::RUNTIME_TASKS).map_or_else(String::new, |e| toolbox.engine(e).info.name.to_string())
}
