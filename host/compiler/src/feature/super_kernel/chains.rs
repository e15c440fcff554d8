//! Chains: which nodes of a scope are launched together.
//!
//! A chain is a sequence of nodes of one scope that follow each other directly on one stream. It
//! waits at its start for everything that its nodes wait for, and records at its end; so it is cut
//! after a node for which others wait. This cannot create new waits between streams: what waits for
//! a chain already waited for its last node. Tiling on the device belongs to the chain: what it
//! waits for on its node's own stream stands before the chain, and the chain waits for it through
//! the address of an event, not by a task.
use crate::ids::{ModelMap, NodeKey, StreamId};
use crate::pass::Records;
use crate::place::Placement;
use crate::streams::{ExecutionOrder, StreamPlan};
use crate::sync::SyncPlan;
use crate::toolbox::Toolbox;
use ge_ir::Model;
use ge_plugin_api::author::tiling_sink::{CUSTOM_LOG_BYTES, SCOPE};
use ge_plugin_api::engine::{RunningParams, flags};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The chains of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    /// Nodes of each chain, in order.
    pub chains: Vec<Vec<NodeKey>>,
    of: HashMap<NodeKey, usize>,
}

impl Chains {
    /// Sets the attribute `_super_kernel` of each node of a chain to the index of the chain.
    pub fn to_attrs(&self, model: &mut Model) {
        for (number, members) in self.chains.iter().enumerate() {
            for key in members {
                model.graphs_mut()[key.graph as usize].set_attr(key.node, "_super_kernel", number as i64);
            }
        }
    }
    /// Index of the chain that contains a node; `None` if there is none.
    pub fn of(&self, key: NodeKey) -> Option<usize> {
        self.of.get(&key).copied()
    }
}

/// The plans from which chains are formed.
pub struct Plans<'a> {
    /// The model.
    pub model: &'a Model,
    /// The engines of the compilation.
    pub toolbox: &'a Toolbox,
    /// Engine of each node.
    pub placement: &'a Placement,
    /// Answers of the engines for each node.
    pub params: &'a ModelMap<RunningParams>,
    /// Streams of the nodes.
    pub streams: &'a StreamPlan,
    /// Order in which the nodes run.
    pub order: &'a ExecutionOrder,
}

/// Forms the chains, and removes the pairs inside a chain from the sync plan.
pub fn form(p: &Plans<'_>, sync: &mut SyncPlan, records: &mut Records) -> Chains {
    let mut out = Chains::default();
    let asks = |k: NodeKey| k.get(p.model).and_then(|n| n.attrs().str(SCOPE).map(str::to_owned));
    if !p.order.line().iter().any(|k| asks(*k).is_some()) {
        return out;
    }
    let mut sends: HashMap<NodeKey, Vec<usize>> = HashMap::new();
    for (i, pair) in sync.pairs.iter().enumerate() {
        sends.entry(pair.send.node).or_default().push(i);
    }
    let mut open: BTreeMap<StreamId, (String, Vec<NodeKey>)> = BTreeMap::new();
    for (i, &key) in p.order.line().iter().enumerate() {
        let Some((stream, _)) = p.order.stand(i) else { continue };
        let scope = asks(key).filter(|_| match refusal(p, key) {
            None => true,
            Some(why) => {
                records.refuse(&key.name(p.model), "SuperKernel", why);
                false
            }
        });
        let Some(scope) = scope else {
            out.close(open.remove(&stream));
            continue;
        };
        let goes_on = open.get(&stream).is_some_and(|(of, members)| {
            *of == scope && members.last().is_some_and(|last| follows(p, sync, &sends, members, *last, key))
        });
        if goes_on {
            if let Some((_, members)) = open.get_mut(&stream) {
                members.push(key);
            }
        } else {
            out.close(open.insert(stream, (scope, vec![key])));
        }
    }
    for chain in open.into_values() {
        out.close(Some(chain));
    }
    out.chains.sort_by_key(|c| c.first().map(|k| p.order.position(*k)));
    out.of = out.chains.iter().enumerate().flat_map(|(c, all)| all.iter().map(move |k| (*k, c))).collect();
    strip(&out, p, sync);
    out
}

impl Chains {
    fn close(&mut self, chain: Option<(String, Vec<NodeKey>)>) {
        self.chains.extend(chain.map(|c| c.1));
    }
}

/// Why a node cannot be in a chain; `None` if it can.
fn refusal(p: &Plans<'_>, key: NodeKey) -> Option<String> {
    let engine = &p.toolbox.engine(p.placement.engine[key]).info;
    if engine.flags & (flags::AI_CORE | flags::VECTOR_CORE) == 0 {
        return Some(format!("{} runs on no AI core: only kernels of AI cores are launched as one", engine.name));
    }
    None
}

/// Whether `key` may be appended to the chain whose last node is `last`.
fn follows(
    p: &Plans<'_>,
    sync: &SyncPlan,
    sends: &HashMap<NodeKey, Vec<usize>>,
    members: &[NodeKey],
    last: NodeKey,
    key: NodeKey,
) -> bool {
    if last.graph != key.graph {
        return false;
    }
    let own = p.streams.of[last];
    let recorded_within = |i: &usize| {
        let pair = &sync.pairs[*i];
        Some(pair.send.stream) != own
            || (pair.recv.node == key && Some(pair.recv.stream) != p.streams.of[key] && !pair.notify)
    };
    if !sends.get(&last).is_none_or(|all| all.iter().all(recorded_within)) {
        return false;
    }
    let wishes = &p.params[key].attached;
    // A custom tiling writes a workspace of its node, whose memory earlier nodes may still use.
    let writes = p.params[key].workspaces.iter().any(|w| w.bytes == CUSTOM_LOG_BYTES);
    if !wishes.is_empty() && writes {
        return false;
    }
    // If the tiling reads what the chain computes, it has to wait for it.
    let reads = wishes.iter().flat_map(|w| w.depend_value_inputs.iter().copied());
    producers(p, key, reads).is_disjoint(&members.iter().copied().collect())
}

/// Nodes with a task that produce the values of some inputs, directly or through nodes without a
/// task.
fn producers(p: &Plans<'_>, key: NodeKey, inputs: impl Iterator<Item = u32>) -> BTreeSet<NodeKey> {
    let mut out = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let Some(n) = key.get(p.model) else { return out };
    let at = |node| NodeKey { graph: key.graph, node };
    let mut todo: Vec<NodeKey> =
        inputs.filter_map(|i| n.input(i as usize)).filter(|v| !v.is_absent()).map(|v| at(v.node)).collect();
    while let Some(k) = todo.pop() {
        if !seen.insert(k) {
            continue;
        }
        if p.order.stand(p.order.position(k)).is_some() {
            out.insert(k);
        } else if let Some(n) = k.get(p.model) {
            todo.extend(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| at(v.node)));
        }
    }
    out
}

/// Removes the pairs from a node's tiling to the chain that contains the node, and renumbers the
/// events so that their ids stay dense.
fn strip(chains: &Chains, p: &Plans<'_>, sync: &mut SyncPlan) {
    sync.pairs.retain(|pair| {
        let same = chains.of(pair.send.node).is_some() && chains.of(pair.send.node) == chains.of(pair.recv.node);
        let to_chain = Some(pair.recv.stream) == p.streams.of[pair.recv.node];
        !(same && to_chain)
    });
    let mut ids: Vec<&mut u32> = sync.pairs.iter_mut().filter(|p| !p.notify).map(|p| &mut p.id.0).collect();
    ids.extend(sync.resources.values_mut().flatten().filter(|r| !r.notify).map(|r| &mut r.id));
    let used: BTreeSet<u32> = ids.iter().map(|id| **id).collect();
    let new: BTreeMap<u32, u32> = used.into_iter().zip(0..).collect();
    for id in ids {
        *id = new.get(id).copied().unwrap_or(*id);
    }
    sync.event_num = new.len() as u32;
}
