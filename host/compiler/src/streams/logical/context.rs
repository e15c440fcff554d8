//! What the passes read of one graph (the graph, its single-engine subgraphs) and what they write
//! (streams).
use crate::feature::parallel_group::group_of;
use crate::ids::NodeKey;
use crate::options::Options;
use crate::place::Placement;
use crate::toolbox::{EngineId, Toolbox};
use ge_ir::{Graph, Key, Model, Node, NodeId};
use ge_planners::cluster::{Fit, partition};
use ge_plugin_api::engine::flags;
use std::sync::LazyLock;

/// Marks the absence of a stream.
pub const NONE: u32 = u32::MAX;

/// A subgraph of one engine: the unit on which the first passes work.
#[derive(Clone, Debug)]
pub struct Sub {
    /// Engine of its nodes.
    pub engine: EngineId,
    /// Stream label of its nodes (a user's label overrides it), or empty.
    pub label: String,
    /// The user's label, or empty.
    pub user_label: String,
    /// Its nodes, in order.
    pub nodes: Vec<NodeId>,
    /// Subgraphs that it depends on.
    pub preds: Vec<u32>,
    /// Subgraphs that depend on it.
    pub succs: Vec<u32>,
    /// Its stream, or [`NONE`].
    pub stream: u32,
}

/// One graph under allocation.
pub struct Context<'a> {
    /// The model.
    pub model: &'a Model,
    /// Index of the graph in the model.
    pub gi: usize,
    /// The graph; it does not change during the allocation.
    pub graph: &'a Graph,
    /// Access to the engines.
    pub toolbox: &'a Toolbox,
    /// Engine of each node.
    pub placement: &'a Placement,
    /// Options of the compilation.
    pub options: &'a Options,
    /// Subgraphs, by smallest node id.
    pub subs: Vec<Sub>,
    /// Stream of each node, by id; set by NodeStreamUpdatePass.
    pub node_stream: Vec<u32>,
    /// The parent's stream, or [`NONE`].
    pub default: u32,
    /// The next free stream id.
    pub next: u32,
    /// Nodes with `NewStreamId` and its value; found by UpdateForMdeGroupPass.
    pub mde: Vec<(NodeId, i64)>,
    /// Position of each node in the graph's order (its topological id).
    pub rank: Vec<u32>,
}

/// The effective stream label of a node: the user's label overrides the stream label; with
/// `_enable_inner_parallel` both are combined (facts 1.14).
pub fn label_of(n: &Node) -> Option<String> {
    static KEYS: LazyLock<[Key; 2]> = LazyLock::new(|| ["_stream_label", "_user_stream_label"].map(Key::new));
    let [stream, user] = KEYS.map(|k| n.attrs().str(k).filter(|s| !s.is_empty()));
    let mut label = match user {
        Some(user) => match stream {
            Some(s) if n.attrs().flag("_enable_inner_parallel") => format!("{user}_{s}"),
            _ => user.to_owned(),
        },
        None => stream?.to_owned(),
    };
    // In a gear the label includes the gear (document 004 §6), so that gears do not share streams.
    if let Some(gear) = n.attrs().str("_batch_label").filter(|s| !s.is_empty()) {
        label = format!("{label}_{gear}");
    }
    Some(label)
}

/// Nodes without inputs that only provide data. They belong to no cluster and count as no
/// predecessor (DESIGN 9).
pub fn is_data(n: &Node) -> bool {
    n.inputs().is_empty()
        && n.controls().is_empty()
        && matches!(
            n.op(),
            "Data"
                | "RefData"
                | "AippData"
                | "AnnData"
                | "Const"
                | "Constant"
                | "FileConstant"
                | "Variable"
                | "ConstPlaceHolder"
        )
}

impl<'a> Context<'a> {
    /// Partitions a graph (the second partition); no subgraph has a stream yet.
    pub fn new(
        model: &'a Model,
        gi: usize,
        placement: &'a Placement,
        toolbox: &'a Toolbox,
        options: &'a Options,
        default: u32,
        next: u32,
    ) -> Context<'a> {
        let graph = &model.graphs()[gi];
        let mut rank = vec![0; graph.id_bound()];
        let mut items: Vec<&Node> = Vec::new();
        let mut item_of = vec![NONE; graph.id_bound()];
        for (i, n) in graph.nodes().enumerate() {
            rank[n.id().index()] = i as u32;
            if !is_data(n) {
                item_of[n.id().index()] = items.len() as u32;
                items.push(n);
            }
        }
        let engines: Vec<EngineId> = items.iter().map(|n| placement.engine[NodeKey::new(gi, n.id())]).collect();
        let labels: Vec<String> = items.iter().map(|n| label_of(n).unwrap_or_default()).collect();
        let users: Vec<&str> = items.iter().map(|n| n.attrs().str("_user_stream_label").unwrap_or("")).collect();
        let edges = items.iter().enumerate().flat_map(|(i, n)| {
            let item_of = &item_of;
            let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node);
            data.chain(n.controls().iter().copied())
                .map(move |p| (item_of[p.index()], i as u32))
                .filter(|(p, _)| *p != NONE)
        });
        let fit = |a: u32, b: u32| {
            let (a, b) = (a as usize, b as usize);
            if !users[a].is_empty() && users[a] == users[b] && labels[a] == labels[b] {
                Fit::Always
            } else if engines[a] == engines[b] && labels[a] == labels[b] {
                Fit::IfDirect
            } else {
                Fit::Never
            }
        };
        let clusters = partition(items.len(), edges, &fit);
        let subs = clusters
            .members
            .iter()
            .enumerate()
            .map(|(c, members)| {
                let first = members[0] as usize;
                Sub {
                    engine: engines[first],
                    label: labels[first].clone(),
                    user_label: users[first].to_owned(),
                    nodes: members.iter().map(|i| items[*i as usize].id()).collect(),
                    preds: clusters.preds[c].clone(),
                    succs: clusters.succs[c].clone(),
                    stream: NONE,
                }
            })
            .collect();
        Context {
            model,
            gi,
            graph,
            toolbox,
            placement,
            options,
            subs,
            node_stream: vec![NONE; graph.id_bound()],
            default,
            next,
            mde: Vec::new(),
            rank,
        }
    }
    /// Whether an engine has a flag.
    pub fn has(&self, e: EngineId, flag: u64) -> bool {
        self.toolbox.engine(e).info.flags & flag != 0
    }
    /// Whether an engine's nodes have streams of their own.
    pub fn independent(&self, e: EngineId) -> bool {
        self.has(e, flags::INDEPENDENT)
    }
    /// Whether the assignment skips an engine.
    pub fn skipped(&self, e: EngineId) -> bool {
        self.has(e, flags::SKIP_ASSIGN_STREAM)
    }
    /// Engine of a node.
    pub fn engine(&self, id: NodeId) -> EngineId {
        self.placement.engine[NodeKey::new(self.gi, id)]
    }
    /// Returns the id of a new stream.
    pub fn take(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
    /// Stream of a node, or [`NONE`].
    pub fn stream(&self, id: NodeId) -> u32 {
        self.node_stream[id.index()]
    }
    /// Producers and control sources of a node.
    pub fn ins(&self, n: &Node) -> Vec<NodeId> {
        n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node).chain(n.controls().iter().copied()).collect()
    }
    /// Readers and control followers of a node.
    pub fn outs(&self, n: &Node) -> Vec<NodeId> {
        (0..n.outputs().len())
            .flat_map(|k| n.uses(k).iter().map(|u| u.node))
            .chain(n.control_users().iter().copied())
            .collect()
    }
    /// Whether a node is bound by a label, `NewStreamId` or a group.
    pub fn is_bound(n: &Node) -> bool {
        label_of(n).is_some() || n.attrs().int("NewStreamId").is_some() || group_of(n).is_some()
    }
}
