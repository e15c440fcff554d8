//! `LoopInvariantPass`: moves computations that give the same result in every iteration of a loop
//! before the loop.
//!
//! Before: `%w = While(%i, %x) {body = @b}`, where `@b(%i, %x)` reads `MatMulV2(%x, %k)` and gives
//! `%x` back
//! After: `%p = MatMulV2(%x, %k)  %w = While(%i, %x, %p) {body = @b}`, where `@b(%i, %x, %p)` reads
//! `%p`
//! When: a node reads only constants and values that the body returns unchanged. Constants and
//! views that it reads move with it; views alone stay.
//! Refuses: nodes that have effects, are random or whose shape depends on values; bodies that
//! change variables; what might fail although the loop makes no iteration: values that are not
//! floating-point, indices that may be beyond an axis, operators whose prototype says that they may
//! fail, open sizes that may not fit each other.
//! Keeps: names; the values of the loop at their positions, the new ones after them.
//! Source: Aho, Sethi, Ullman, "Compilers" 10.3 (code motion). Cost: the nodes of the body.
use crate::error::Result;
use crate::pass::declare::{At, node_pass};
use crate::pass::subgraph::{add_argument, arguments, called, may_fail, movable, original, sizes_fit};
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Graph, Node, NodeId, TensorDesc, ValueRef};
use ge_plugin_api::ops::flags;
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::tensor::Container;
use std::collections::{HashMap, HashSet};

node_pass!(
    LoopInvariantPass,
    O3,
    ["While", "StatelessWhile"],
    "nodes of a body over what no turn changes -> one ahead of the loop, a value of it",
    needs "real numbers, of constants and of values that the body gives back as they were; indices and sizes that fit",
    keeps "names; the values of the loop at their places",
    visit,
);

/// A loop whose body can be analysed.
struct Loop<'m> {
    cond: &'m Graph,
    body: &'m Graph,
    /// The NetOutput of the body.
    ends: &'m Node,
    /// Indices of the inputs that no iteration changes, by their value in the body.
    same: HashMap<ValueRef, usize>,
}

fn visit(cx: &mut PassContext<'_>, at: &At<'_>, r: &mut Rewriter<'_>) -> Result<()> {
    match looked_into(cx, at) {
        Ok(l) => match invariant(cx, &l) {
            moved if moved.is_empty() => cx.refuse(at.n.name(), "its turns compute nothing twice"),
            moved => rewrite(at, r, &l, &moved),
        },
        Err(why) => cx.refuse(at.n.name(), why),
    }
    Ok(())
}

fn looked_into<'m>(cx: &PassContext<'_>, at: &At<'m>) -> Result<Loop<'m>, &'static str> {
    let (cond, body) = (called(at, "cond")?, called(at, "body")?);
    let count = at.n.inputs().len();
    let ends = body.net_output().filter(|o| o.inputs().len() == count).ok_or("its body gives more than it is given")?;
    if at.n.outputs().len() != count || cond.net_output().is_none_or(|o| o.inputs().len() != 1) {
        return Err("its condition gives more than a flag");
    }
    let given = arguments(body, count).zip(arguments(cond, count)).ok_or("an input has a place of its own")?.0;
    if body.nodes().any(|n| cx.op_flags(n) & (flags::STATEFUL | flags::REFERENCE) != 0) {
        return Err("its body changes what others may read");
    }
    let variable = |k: usize| at.producer(k).is_none_or(|p| matches!(p.op(), "Variable" | "RefData"));
    let back = |v: ValueRef, k: usize| ends.input(k).is_some_and(|out| original(body, out) == v);
    let same = given.into_iter().filter(|(v, k)| back(*v, *k) && !variable(*k)).collect();
    Ok(Loop { cond, body, ends, same })
}

/// Whether a node computes floating-point values from floating-point values and constants.
fn is_real(l: &Loop<'_>, n: &Node) -> bool {
    let real = |d: &TensorDesc| d.dtype.is_float() && d.container == Container::TENSOR && !d.shape.is_unranked();
    let read = |v: &ValueRef| l.body.constant(*v).is_some() || l.body.desc(*v).is_some_and(real);
    n.inputs().iter().filter(|v| !v.is_absent()).all(read) && n.outputs().iter().all(real)
}

/// A node that moves.
struct Moved<'m> {
    node: &'m Node,
    /// Whether the body still reads it: a constant or a view, which is copied instead of moved.
    stays: bool,
}

/// The nodes that move, each after what it reads: nodes that do work, with the constants and views
/// that they read.
fn invariant<'m>(cx: &mut PassContext<'_>, l: &Loop<'m>) -> Vec<Moved<'m>> {
    let mut same: HashSet<ValueRef> = l.same.keys().copied().collect();
    let mut candidates: Vec<&Node> = Vec::new();
    for n in l.body.nodes() {
        cx.visits += 1;
        let read = |v: &ValueRef| v.is_absent() || same.contains(v) || l.body.constant(*v).is_some();
        let safe = || is_real(l, n) && !may_fail(cx, l.body, n) && sizes_fit(cx, l.body, n);
        let computed = || safe() && n.inputs().iter().all(read) && n.inputs().iter().any(|v| same.contains(v));
        if movable(cx, n) && (n.is_const() || computed()) {
            if !n.is_const() {
                same.extend((0..n.outputs().len()).map(|k| n.value(k as u32)));
            }
            candidates.push(n);
        }
    }
    let works = |n: &Node| !n.is_const() && n.op() != "Identity" && cx.op_flags(n) & flags::VIEW == 0;
    let mut wanted: HashSet<NodeId> = HashSet::new();
    for n in candidates.iter().rev() {
        if wanted.contains(&n.id()) || works(n) {
            wanted.insert(n.id());
            wanted.extend(n.inputs().iter().map(|v| v.node));
        }
    }
    candidates.retain(|n| wanted.contains(&n.id()));
    let mut stays: HashSet<NodeId> = HashSet::new();
    for n in candidates.iter().rev().filter(|n| !works(n)) {
        let reads_it = |u: NodeId| stays.contains(&u) || !wanted.contains(&u);
        if (0..n.outputs().len()).any(|k| l.body.users(n.value(k as u32)).iter().any(|u| reads_it(u.node))) {
            stays.insert(n.id());
        }
    }
    candidates.into_iter().map(|node| Moved { node, stays: stays.contains(&node.id()) }).collect()
}

fn rewrite(at: &At<'_>, r: &mut Rewriter<'_>, l: &Loop<'_>, moved: &[Moved<'_>]) {
    let body = l.body;
    let gone: HashSet<NodeId> = moved.iter().filter(|m| !m.stays).map(|m| m.node.id()).collect();
    // The originals are renamed first, so that the copies can take their names.
    r.patch.push(Edit::InGraph(body.name().into()));
    for Moved { node, .. } in moved.iter().filter(|m| !m.stays) {
        r.patch.push(Edit::SetName(node.id(), format!("{}/{}", body.name(), node.name()).into()));
    }
    r.patch.push(Edit::InGraph(at.g.name().into()));
    let mut value: HashMap<ValueRef, ValueRef> = HashMap::new();
    value.extend(l.same.iter().filter_map(|(v, k)| Some((*v, at.n.input(*k)?))));
    let mut given: Vec<ValueRef> = at.n.inputs().to_vec();
    let mut outputs: Vec<TensorDesc> = at.n.outputs().to_vec();
    let mut lent: Vec<(ValueRef, TensorDesc)> = Vec::new();
    for Moved { node: n, stays } in moved {
        let read = |v: &ValueRef| if v.is_absent() { Some(*v) } else { value.get(v).copied() };
        let inputs: Vec<ValueRef> = n.inputs().iter().filter_map(read).collect();
        let name = if *stays { format!("{}/{}", at.n.name(), n.name()) } else { n.name().to_owned() };
        let made = r.patch.add(n.op(), &name, &inputs, n.outputs().to_vec(), n.attrs().to_map());
        for (k, d) in n.outputs().iter().enumerate() {
            let (inside, outside) = (n.value(k as u32), ValueRef::new(made, k as u32));
            value.insert(inside, outside);
            if !stays && body.users(inside).iter().any(|u| !gone.contains(&u.node)) {
                lent.push((inside, d.clone()));
                given.push(outside);
                outputs.push(d.clone());
            }
        }
    }
    let first = at.n.inputs().len();
    r.patch.push(Edit::SetInputs(at.n.id(), given.into()));
    r.patch.push(Edit::SetOutputs(at.n.id(), outputs.into()));
    r.patch.in_graph(l.cond.name(), l.cond.next_id());
    for (k, (_, d)) in lent.iter().enumerate() {
        add_argument(&mut r.patch, l.cond, first + k, d);
    }
    r.patch.in_graph(body.name(), body.next_id());
    let mut ends: Vec<ValueRef> = l.ends.inputs().to_vec();
    for (k, (own, d)) in lent.iter().enumerate() {
        let data = add_argument(&mut r.patch, body, first + k, d);
        r.patch.replace_uses(*own, data);
        ends.iter_mut().filter(|v| *v == own).for_each(|v| *v = data);
        ends.push(data);
    }
    r.patch.push(Edit::SetInputs(l.ends.id(), ends.into()));
    for Moved { node, .. } in moved.iter().rev().filter(|m| !m.stays) {
        r.patch.push(Edit::RemoveNode(node.id()));
    }
    r.patch.in_graph(at.g.name(), at.g.next_id());
    r.count();
}
