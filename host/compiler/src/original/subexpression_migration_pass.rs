//! `SubexpressionMigrationPass`: what every branch computes from the same values is computed once,
//! before the choice of the branch.
//!
//! Before: `%y = Case(%k, %x) {branches = [@a, @b]}`, `Exp` of the input in both   After: `%e = Exp(%x)  %y = Case(%k, %x, %e) …`
//! When: nodes with equal type, attributes and output descriptors over equal inputs stand in every
//! branch of an `If` or `Case`. Equal constants that they read move with them.
//! Refuses: branches that change variables; random and communication operators; nodes with control
//! edges or subgraphs; nodes that read a variable.
//! Keeps: the names of the first branch's nodes; whatever only some of the branches compute.
//! Source: facts 4.2 (after the formats). Cost: the nodes of the branches.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::subgraph::{add_argument, arguments, movable};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Graph, Node, NodeId, ValueRef};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;
use std::collections::{HashMap, HashSet};

node_pass!(
    SubexpressionMigrationPass,
    O3,
    ["If", "StatelessIf", "Case", "StatelessCase"],
    "equal nodes over equal inputs in every branch -> one before the choice, an input of it",
    needs "equal type, attributes, inputs and descriptors in every branch",
    keeps "names of one branch's nodes; what a branch has alone",
    visit,
);

/// Number of a value: values with the same number are equal in all branches.
type Class = usize;

/// What moves out: the corresponding node of each branch, in the order of the branches.
struct Moved {
    nodes: Vec<NodeId>,
    inputs: Vec<Class>,
    first_output: Class,
}

/// The nodes that all branches have in common, each after the nodes that it reads.
fn common(cx: &mut PassContext<'_>, at: &At<'_>, branches: &[&Graph], args: &[ValueRef]) -> Vec<Moved> {
    let variable = |v: &ValueRef| at.g.get(v.node).is_none_or(|p| matches!(p.op(), "Variable" | "RefData"));
    // A value that is passed twice is one class.
    let of_arg: Vec<Class> = (0..args.len()).map(|i| args.iter().position(|v| *v == args[i]).unwrap_or(i)).collect();
    let mut class: Vec<HashMap<ValueRef, Class>> = Vec::new();
    for b in branches {
        let Some(own) = arguments(b, args.len()) else {
            cx.refuse(at.n.name(), format!("an input of @{} has a place of its own", b.name()));
            return Vec::new();
        };
        class.push(own.into_iter().filter(|(_, k)| !variable(&args[*k])).map(|(v, k)| (v, of_arg[k])).collect());
    }
    let inputs = |class: &HashMap<ValueRef, Class>, n: &Node| -> Option<Vec<Class>> {
        n.inputs().iter().map(|v| class.get(v).copied()).collect()
    };
    // Constants by type and shape: only constants of the same kind are compared.
    let kind = |n: &Node| n.outputs().first().map(|d| (d.dtype, d.shape.clone()));
    let mut constants: Vec<HashMap<_, Vec<&Node>>> = Vec::new();
    for b in branches.iter().skip(1) {
        let mut of: HashMap<_, Vec<&Node>> = HashMap::new();
        b.nodes().filter(|n| n.is_const()).for_each(|n| of.entry(kind(n)).or_default().push(n));
        constants.push(of);
    }
    // The values of each class in the branches after the first, in the order in which they were
    // found.
    let mut values: Vec<HashMap<Class, Vec<ValueRef>>> = vec![HashMap::new(); branches.len()];
    for (k, of) in class.iter().enumerate().skip(1) {
        of.iter().for_each(|(v, c)| values[k].entry(*c).or_default().push(*v));
        values[k].values_mut().for_each(|of| of.sort());
    }
    let mut next = args.len();
    let mut moved: Vec<Moved> = Vec::new();
    let mut taken: Vec<HashSet<NodeId>> = vec![HashSet::new(); branches.len()];
    let Some((first, others)) = branches.split_first() else { return moved };
    // Looks for the nodes of the first branch in the other branches. Nodes come in order, so the
    // values that they read already have a class.
    for n in first.nodes() {
        cx.visits += 1;
        if !movable(cx, n) {
            continue;
        }
        let Some(read) = inputs(&class[0], n) else { continue };
        let mut nodes = vec![n.id()];
        for (k, b) in others.iter().enumerate() {
            let candidates: Vec<&Node> = match n.inputs().first() {
                // Readers of the equal value in the other branch.
                Some(_) => {
                    let same = values[k + 1].get(&read[0]).into_iter().flatten();
                    same.flat_map(|v| b.users(*v)).filter_map(|u| b.get(u.node)).collect()
                }
                None => constants[k].get(&kind(n)).cloned().unwrap_or_default(),
            };
            let twin =
                candidates.into_iter().filter(|m| !taken[k + 1].contains(&m.id())).filter(|m| movable(cx, m)).find(
                    |m| {
                        m.op_key() == n.op_key()
                            && m.outputs() == n.outputs()
                            && ge_ir::graph::same_work(m.attrs(), n.attrs())
                            && inputs(&class[k + 1], m).as_ref() == Some(&read)
                    },
                );
            match twin {
                Some(m) => nodes.push(m.id()),
                None => break,
            }
        }
        if nodes.len() < branches.len() {
            continue;
        }
        for (k, id) in nodes.iter().enumerate() {
            taken[k].insert(*id);
            for o in 0..n.outputs().len() {
                let v = ValueRef::new(*id, o as u32);
                class[k].insert(v, next + o);
                values[k].entry(next + o).or_default().push(v);
            }
        }
        moved.push(Moved { nodes, inputs: read, first_output: next });
        next += n.outputs().len();
    }
    // A constant alone stays, since equal constants are stored only once anyway. A constant that a
    // moved node reads moves with it.
    let read: HashSet<Class> = moved.iter().flat_map(|m| m.inputs.iter().copied()).collect();
    moved.retain(|m| !m.inputs.is_empty() || read.contains(&m.first_output));
    moved
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    let n = at.n;
    let names = n.subgraphs();
    let branches: Vec<&Graph> = names.iter().filter_map(|s| at.model.graph(s)).collect();
    let distinct: HashSet<&&str> = names.iter().collect();
    if branches.len() < 2 || branches.len() != names.len() || distinct.len() != names.len() {
        return Ok(());
    }
    let args = n.inputs().get(1..).unwrap_or(&[]);
    if args.iter().any(|v| v.is_absent()) {
        return Ok(());
    }
    let acts = |b: &&Graph| b.nodes().any(|n| cx.op_flags(n) & (flags::STATEFUL | flags::REFERENCE) != 0);
    if let Some(b) = branches.iter().find(|b| acts(b)) {
        cx.refuse(n.name(), format!("@{} changes what others may read", b.name()));
        return Ok(());
    }
    let moved = common(cx, at, &branches, args);
    if moved.is_empty() {
        cx.refuse(n.name(), "its branches compute nothing in common");
        return Ok(());
    }
    let host = at.g.name().to_owned();
    let gone: Vec<HashSet<NodeId>> = (0..branches.len()).map(|k| moved.iter().map(|m| m.nodes[k]).collect()).collect();
    // The originals are renamed before the copies take their names.
    for m in &moved {
        let name = branches[0].get(m.nodes[0]).map_or("", Node::name);
        r.patch.push(Edit::InGraph(branches[0].name().into()));
        r.patch.push(Edit::SetName(m.nodes[0], format!("{}/{name}", branches[0].name()).into()));
    }
    r.patch.push(Edit::InGraph(host.as_str().into()));
    let mut value: HashMap<Class, ValueRef> = args.iter().copied().enumerate().collect();
    let mut given: Vec<ValueRef> = n.inputs().to_vec();
    // For each new input of the choice: the moved node, its output, and the place of the input.
    let mut lent: Vec<(usize, u32, usize)> = Vec::new();
    for (i, m) in moved.iter().enumerate() {
        let Some(old) = branches[0].get(m.nodes[0]) else { continue };
        let inputs: Vec<ValueRef> = m.inputs.iter().filter_map(|c| value.get(c).copied()).collect();
        let made = r.patch.add(old.op(), old.name(), &inputs, old.outputs().to_vec(), old.attrs().to_map());
        for k in 0..old.outputs().len() {
            value.insert(m.first_output + k, ValueRef::new(made, k as u32));
            let read = |b: usize| {
                branches[b].users(ValueRef::new(m.nodes[b], k as u32)).iter().any(|u| !gone[b].contains(&u.node))
            };
            if (0..branches.len()).any(read) {
                lent.push((i, k as u32, given.len() - 1));
                given.push(ValueRef::new(made, k as u32));
            }
        }
    }
    r.patch.push(Edit::SetInputs(n.id(), given.into()));
    for (b, branch) in branches.iter().enumerate() {
        r.patch.in_graph(branch.name(), branch.next_id());
        for (i, k, place) in &lent {
            let own = moved[*i].nodes[b];
            let Some(d) = branch.get(own).and_then(|n| n.outputs().get(*k as usize)) else { continue };
            let data = add_argument(&mut r.patch, branch, *place, d);
            r.patch.replace_uses(ValueRef::new(own, *k), data);
        }
        for m in moved.iter().rev() {
            r.patch.push(Edit::RemoveNode(m.nodes[b]));
        }
    }
    r.patch.in_graph(&host, at.g.next_id());
    r.count();
    Ok(())
}
