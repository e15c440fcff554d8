//! GenerateSyncEventNodes (004 §4.6): records and waits of the sync plan become nodes Send and Recv (SendNotify, RecvNotify) of the
//! compiled model: a Recv directly before its node, a Send directly behind it, joined to it by a control edge. They come last, when
//! streams are physical and ids are final, so that no earlier stage meets them.
use super::GeRootModel;
use crate::ids::NodeKey;
use crate::sync::Resource;
use ge_ir::NodeMap;
use ge_model::NodeInfo;
use ge_plugin_api::engine::flags;
use ge_plugin_api::task::TaskType;
use std::collections::{HashMap, HashSet};

/// Nodes around one of the graph.
#[derive(Debug, Default)]
pub struct Around {
    /// Recv nodes.
    pub before: Vec<NodeInfo>,
    /// Send nodes.
    pub after: Vec<NodeInfo>,
}

/// The nodes, and where everything stands with them.
pub struct SyncNodes {
    /// Position of each node of the graphs.
    pub at: Vec<NodeMap<u32>>,
    /// Position of the node of each record and wait, by task.
    pub of_task: HashMap<usize, u32>,
    /// The nodes by the node that they belong to.
    pub nodes: HashMap<NodeKey, Around>,
}

impl SyncNodes {
    /// Of everything decided.
    pub fn generate(root: &GeRootModel) -> SyncNodes {
        // What an engine records and waits for within a node stays in the node.
        let own: HashSet<(NodeKey, Resource)> =
            root.sync.resources.iter().flat_map(|(k, all)| all.iter().map(|r| (*k, *r))).collect();
        let engine = root.runtime_engine.clone();
        let taken: HashSet<&str> = root.model.graphs().iter().flat_map(|g| g.nodes().map(|n| n.name())).collect();
        let mut names: HashSet<String> = HashSet::new();
        let mut nodes: HashMap<NodeKey, Around> = HashMap::new();
        // Task, whether it waits, and its place among the node's waits or records.
        let mut places: Vec<(usize, NodeKey, bool, usize)> = Vec::new();
        for (i, t) in root.physical.tasks.iter().enumerate() {
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
            let base = format!("{}_{what}_{id}", t.node.graph_of(&root.model).name());
            let mut name = base.clone();
            let mut again = 0;
            while taken.contains(name.as_str()) || !names.insert(name.clone()) {
                again += 1;
                name = format!("{base}_Reuse_{again}");
            }
            let mut node = NodeInfo {
                name,
                op: op.to_owned(),
                engine: engine.clone(),
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
        let mut at = Vec::with_capacity(root.model.graphs().len());
        for (gi, g) in root.model.graphs().iter().enumerate() {
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
}

/// The engine to which records and waits belong.
pub fn runtime_engine(toolbox: &crate::toolbox::Toolbox) -> String {
    toolbox.engine_with(flags::RUNTIME_TASKS).map_or_else(String::new, |e| toolbox.engine(e).info.name.to_string())
}
