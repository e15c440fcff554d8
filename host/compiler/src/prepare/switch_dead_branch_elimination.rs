//! `SwitchDeadBranchElimination`: removes nodes that never receive a value.
//!
//! Before: `%f, %t = Switch(%x, %p)` with a constant `%p`, `%m, %i = Merge(%a, %b)` behind it
//! After: readers of the live output read `%x`; all nodes that read the dead one are removed up to
//! the `Merge`, which loses that input
//! When: the predicate is a constant of one element (output 0 is false, output 1 is true).
//! Refuses: a predicate that is computed; a dead value that is an output of the graph.
//! Keeps: names and order of all live nodes.
//! Source: facts 4.3, 4.4 (1_2, 3). Cost: the nodes that are removed.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Graph, Node, NodeId, ValueRef};
use ge_plugin_api::patch::Edit;
use std::collections::{BTreeSet, HashMap};

node_pass!(
    SwitchDeadBranchElimination,
    O1,
    ["Switch", "RefSwitch"],
    "`Switch(x, Const)` -> `x` on the live side, nothing on the other",
    needs "a predicate that is a constant of one element",
    keeps "names and order of all that is alive",
    visit,
);

fn is_merge(n: &Node) -> bool {
    matches!(n.op(), "Merge" | "RefMerge")
}

/// Removes a switch whose predicate is known. Also used for switches below another one with the
/// same predicate.
pub fn cut(r: &mut Rewriter<'_>, g: &Graph, n: &Node, live: u32) -> std::result::Result<(), String> {
    let x = n.input(0).ok_or("it has no input")?;
    let dead_output = 1 - live;
    // Nodes that are dead, and the inputs that each merge loses.
    let mut dead: BTreeSet<NodeId> = BTreeSet::new();
    let mut lost: HashMap<NodeId, BTreeSet<usize>> = HashMap::new();
    let mut merges: BTreeSet<NodeId> = BTreeSet::new();
    let mut todo: Vec<ValueRef> = vec![n.value(dead_output)];
    while let Some(v) = todo.pop() {
        for u in g.users(v) {
            let Some(m) = g.get(u.node) else { continue };
            if m.op() == "NetOutput" {
                return Err(format!(
                    "the graph gives out a value that never comes (`{}`)",
                    g.get(v.node).map_or("", |p| p.name())
                ));
            }
            if is_merge(m) {
                merges.insert(m.id());
                lost.entry(m.id()).or_default().insert(u.input as usize);
                if lost.get(&m.id()).map_or(0, BTreeSet::len) < m.inputs().len() {
                    continue;
                }
            }
            if dead.insert(m.id()) {
                todo.extend((0..m.outputs().len() as u32).map(|k| m.value(k)));
            }
        }
    }
    // Control edges out of a dead node must lead only to dead nodes.
    for d in &dead {
        let Some(n) = g.get(*d) else { continue };
        if let Some(u) = n.control_users().iter().filter(|u| !dead.contains(u)).find_map(|u| g.get(*u)) {
            return Err(format!("`{}` waits for `{}`, which never runs", u.name(), n.name()));
        }
    }
    for m in merges.iter().filter(|m| !dead.contains(m)) {
        let Some(n) = g.get(*m) else { continue };
        let gone = lost.get(m).cloned().unwrap_or_default();
        let left: Vec<(usize, ValueRef)> =
            n.inputs().iter().copied().enumerate().filter(|(i, _)| !gone.contains(i)).collect();
        if let [(only, _)] = left.as_slice() {
            r.patch.set_attr(*m, "_merge_live", *only as i64);
        }
        r.patch.push(Edit::SetInputs(*m, left.into_iter().map(|(_, v)| v).collect::<Vec<_>>().into()));
        r.again(*m);
    }
    for d in dead.iter().rev() {
        r.remove(*d);
    }
    r.patch.replace_uses(n.value(live), x);
    for c in n.controls() {
        for u in n.uses(live as usize).iter().map(|u| u.node).chain(n.control_users().iter().copied()) {
            if !dead.contains(&u) {
                r.patch.push(Edit::AddControl(*c, u));
            }
        }
    }
    r.remove(n.id());
    Ok(())
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    if n.outputs().len() != 2 {
        return Ok(());
    }
    let value = n.input(1).and_then(|v| at.g.constant(v)).filter(|t| t.count() == Some(1)).and_then(|t| t.bytes());
    let Some(value) = value else {
        cx.refuse(n.name(), "its predicate is computed");
        return Ok(());
    };
    let live = u32::from(value.iter().any(|b| *b != 0));
    if let Err(why) = cut(r, at.g, n, live) {
        cx.refuse(n.name(), why);
    }
    Ok(())
}
