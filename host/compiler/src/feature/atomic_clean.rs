//! `AtomicAddrCleanPass` (facts 2.8): memory that must start as zero gets a node that clears it in
//! every run.
//!
//! What must be zero: the outputs that `atomic_output_index` names, and the workspaces for which
//! the engine asks `zeroed` (the pass records them on the node as `_atomic_workspace_index` and
//! `_atomic_workspace_bytes`). When: no `AtomicAddrClean` or `MemSet` clears for the node yet.
//! `ge.exec.atomicCleanPolicy=0`: one clearing node per graph, which clears a region that holds
//! only such memory. `1`: each node has its own clearing node right before it, so that others can
//! use the memory before and after. Graphs with jumps, and memory of a type other than HBM, always
//! work as with `1`.
use super::shared_memory::rules::{ATOMIC_WORKSPACE_BYTES, ATOMIC_WORKSPACES, Rules, atomic_outputs};
use crate::error::{CompileError, Result};
use crate::feature::shared_memory::memory_type::memory_of;
use crate::ids::{ModelMap, NodeKey};
use crate::options::Options;
use ge_ir::{Graph, Model, Node, NodeId};
use ge_plugin_api::device::MemoryKind;
use ge_plugin_api::engine::RunningParams;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::{AttrMap, Key};
use std::collections::BTreeMap;

const WHO: &str = "AtomicAddrCleanPass";

/// Inserts the clearing nodes. Returns whether it inserted any.
///
/// # Errors
/// Fails if an insertion would break a graph, which is a bug.
pub fn insert(model: &mut Model, params: &ModelMap<RunningParams>, options: &Options) -> Result<bool> {
    let each = options.clean_each;
    let mut changed = false;
    for gi in 0..model.graphs().len() {
        let wanted = wanted(&model.graphs()[gi], gi, params);
        let g = &mut model.graphs_mut()[gi];
        for w in &wanted {
            if !w.workspaces.is_empty() {
                g.set_attr(w.node, ATOMIC_WORKSPACES, w.workspaces.iter().map(|w| w.0).collect::<Vec<i64>>());
                g.set_attr(w.node, ATOMIC_WORKSPACE_BYTES, w.workspaces.iter().map(|w| w.1).collect::<Vec<i64>>());
            }
        }
        let open: Vec<&Wanted> = wanted.iter().filter(|w| !w.cleared).collect();
        if open.is_empty() {
            continue;
        }
        changed = true;
        let jumps = g.nodes().any(|n| matches!(n.op(), "LabelSet" | "LabelGotoEx" | "LabelSwitchByIndex"));
        let (own, shared): (Vec<&Wanted>, Vec<&Wanted>) = open.into_iter().partition(|w| each || jumps || w.special);
        let named = |id: NodeId| g.get(id).map_or("", Node::name);
        let mut groups: Vec<(String, Vec<NodeId>)> =
            own.iter().map(|w| (format!("{}_AtomicAddrClean", named(w.node)), vec![w.node])).collect();
        if !shared.is_empty() {
            groups.push((format!("{}_AtomicAddrClean", g.name()), shared.iter().map(|w| w.node).collect()));
        }
        clean(model, gi, &groups)?;
    }
    if changed {
        model.compact();
    }
    Ok(changed)
}

/// A node with memory that must start as zero.
struct Wanted {
    node: NodeId,
    /// Index and size in bytes of each workspace that must start as zero.
    workspaces: Vec<(i64, i64)>,
    /// Whether a node already clears the memory.
    cleared: bool,
    /// Whether some of the memory has a type other than HBM.
    special: bool,
}

fn wanted(g: &Graph, gi: usize, params: &ModelMap<RunningParams>) -> Vec<Wanted> {
    let one = |n: &Node| {
        let list = &params[NodeKey::new(gi, n.id())].workspaces;
        let zeroed = || list.iter().enumerate().filter(|(_, w)| w.zeroed && w.bytes > 0);
        let workspaces: Vec<(i64, i64)> =
            zeroed().map(|(k, w)| (k as i64, i64::try_from(w.bytes).unwrap_or(i64::MAX))).collect();
        let outputs = atomic_outputs(n);
        if workspaces.is_empty() && outputs.is_empty() {
            return None;
        }
        let hbm = MemoryKind::HBM.code();
        let special = zeroed().any(|(_, w)| w.memory != hbm)
            || outputs.iter().any(|k| memory_of(n, *k as usize).is_some_and(|m| m != "HBM"));
        let cleared = n.controls().iter().filter_map(|c| g.get(*c)).any(Rules::clears);
        Some(Wanted { node: n.id(), workspaces, cleared, special })
    };
    g.nodes().filter_map(one).collect()
}

/// Inserts the clearing nodes of `groups`, given as name and users. Each stands right before the
/// first of its users, and all of its users wait for it.
fn clean(model: &mut Model, gi: usize, groups: &[(String, Vec<NodeId>)]) -> Result<()> {
    let broken = || CompileError::internal("streams", "a node that clears memory cannot be put before its readers");
    let g = &mut model.graphs_mut()[gi];
    let old = g.order().to_vec();
    let at: BTreeMap<NodeId, usize> = old.iter().enumerate().map(|(i, id)| (*id, i)).collect();
    let mut before: Vec<(usize, NodeId)> = Vec::new();
    let mut edges = Vec::new();
    for (name, users) in groups {
        // What is ordered before the only user of a clearing node is ordered before the clearing
        // node.
        let after = match users.as_slice() {
            [only] => g.get(*only).map(|n| n.controls().to_vec()).unwrap_or_default(),
            _ => Vec::new(),
        };
        let mut attrs = AttrMap::default();
        attrs.set("_inserted_by", WHO);
        let id = g.push_node(Key::new("AtomicAddrClean"), name.clone(), vec![], after, vec![], attrs);
        let id = id.ok_or_else(broken)?;
        let first = users.iter().filter_map(|u| at.get(u)).min().ok_or_else(broken)?;
        before.push((*first, id));
        edges.extend(users.iter().map(|u| Edit::AddControl(id, *u)));
    }
    model.apply(gi, edges).map_err(|source| CompileError::Patch { who: WHO.into(), source })?;
    before.sort_unstable();
    let mut next = before.into_iter().peekable();
    let mut order = Vec::with_capacity(old.len() + groups.len());
    for (i, id) in old.into_iter().enumerate() {
        while let Some((_, new)) = next.next_if(|(at, _)| *at == i) {
            order.push(new);
        }
        order.push(id);
    }
    if model.graphs_mut()[gi].set_order(&order) { Ok(()) } else { Err(broken()) }
}
