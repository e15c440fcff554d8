//! `NextIterationPass`: gives a v1 loop nodes that wake its streams at its three borders, and one
//! memory for each carried value.
//!
//! Before: `%e = Enter(%x)  %m = Merge(%e) {_next_iteration_node = "n"} … %n = NextIteration(%b)
//! %y = Exit(%s)`
//! After: `%c_Enter_StreamActive` after the `Enter`s wakes the loop; `%c_Next_StreamActive` after
//! everything that an iteration does wakes it again; `%c_Exit_StreamActive` starts what comes after
//! the loop and keeps alive what the loop reads. `%n = NextIteration(%b, %e)` writes where the
//! `Enter` wrote (`_ref_input`); an `Enter` of a value from outside the region of its loop waits
//! for one from inside.
//! When: a loop over a `LoopCond`.
//! Refuses (an error that names the node): values whose type or shape an iteration changes; graphs
//! whose regions do not nest.
//! Keeps: names; everything but the edges at the borders.
//! Source: 003 §2.2, facts 4.4 (1_3), 8.6. Cost: nodes and edges times the depth of nesting.
use crate::error::Result;
use crate::feature::control_flow::lower::{REF_INPUT, refused};
use crate::feature::control_flow::regions::{self, BORDER, Region, Regions, is_outside};
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Graph, Model, NodeId, ValueRef};
use ge_plugin_api::patch::Edit;
use ge_plugin_api::types::AttrMap;
use std::collections::{BTreeSet, HashSet};

graph_pass!(
    NextIterationPass,
    O0,
    "a loop `Enter … Merge … NextIteration, Exit` -> the same with a `StreamActive` at each border",
    needs "`LoopCond`, and values whose shapes no turn changes",
    keeps "names; everything but the edges at the borders",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let done = |n: &ge_ir::Node| n.attrs().str(BORDER).is_some();
    if !g.nodes().any(|n| n.op() == "LoopCond") || g.nodes().any(done) {
        return Ok(Vec::new());
    }
    let Some(all) = Regions::of(g)? else { return Ok(Vec::new()) };
    let mut r = Rewriter::new(g);
    cx.visits += g.len() as u64;
    let mut made = Vec::new();
    for l in 0..all.loops.len() {
        made.extend(borders(g, &all, l as u32, &mut r)?);
    }
    // If a loop is inside an iteration of another, its end comes before the end of that iteration.
    for (inner, (_, exit)) in all.loops.iter().zip(&made) {
        let outer = all.loops.iter().zip(&made).find(|(o, _)| o.group.map(|k| Region::Side(k, 1)) == Some(inner.base));
        if let Some((_, (next, _))) = outer {
            r.patch.push(Edit::AddControl(*exit, *next));
        }
    }
    Ok(r.finish(cx))
}

fn active(name: &str, cond: &str, border: &str, wakes: bool) -> (String, AttrMap) {
    let mut attrs = AttrMap::default();
    attrs.set(BORDER, border);
    attrs.set("_loop_name", cond);
    if wakes {
        attrs.set("_active_label_list", vec![cond.to_owned()]);
    }
    (format!("{cond}_{name}_StreamActive"), attrs)
}

/// Returns the node that ends an iteration of a loop and the node that ends the loop.
fn borders(g: &Graph, all: &Regions, l: u32, r: &mut Rewriter<'_>) -> Result<Option<(NodeId, NodeId)>> {
    let of = &all.loops[l as usize];
    let Some((cond, group)) = g.get(of.cond).zip(of.group) else { return Ok(None) };
    let (name, attrs) = active("Enter", cond.name(), "enter", true);
    let enter = r.patch.add("StreamActive", &name, &[], vec![], attrs);
    let mut taken: HashSet<ValueRef> = HashSet::new();
    let mut nexts: Vec<ValueRef> = Vec::new();
    let base = all.path(of.base).first().copied().unwrap_or(Region::Root);
    let (mut inside, mut outside) = (None, Vec::new());
    for c in &of.carried {
        let (Some(m), Some(n)) = (g.get(c.merge), g.get(c.next)) else { continue };
        let (had, gets) = (g.desc(c.enter), n.outputs().first());
        match (had, gets) {
            (Some(a), Some(b)) if a.dtype == b.dtype && a.shape.is_static() && a.shape == b.shape => {}
            (a, b) => {
                let show =
                    |d: Option<&ge_ir::TensorDesc>| d.map_or("nothing".into(), |d| format!("{}{}", d.dtype, d.shape));
                let what = format!("a value is {} one time and {} another", show(a), show(b));
                return Err(refused(m, &format!("{what}: its shapes are not static")));
            }
        }
        // Each value has memory of its own. A value that entered together with others, or that is
        // no copy, is copied.
        let alone = g.users(c.enter).len() == 1 && taken.insert(c.enter);
        let own = match g.get(c.enter.node).filter(|e| alone && matches!(e.op(), "Enter" | "RefEnter")) {
            Some(_) => c.enter,
            None => {
                let desc = had.cloned().unwrap_or_default();
                let e =
                    r.patch.add("Enter", &format!("{}_Enter", m.name()), &[c.enter], vec![desc], AttrMap::default());
                r.patch.set_input(c.merge, 0, ValueRef::new(e, 0));
                ValueRef::new(e, 0)
            }
        };
        if all.of_value(c.enter) == base {
            inside.get_or_insert(own.node);
        } else {
            outside.push(own.node);
        }
        r.patch.push(Edit::AddControl(own.node, enter));
        r.patch.push(Edit::AddControl(enter, c.merge));
        let value = n.input(0).unwrap_or(ValueRef::ABSENT);
        r.patch.push(Edit::SetInputs(c.next, vec![value, own].into()));
        r.patch.set_attr(c.next, REF_INPUT, 1i64);
        nexts.push(n.value(0));
    }
    // A value from further outside, for example a constant, must be entered again each time the
    // loop starts, because iterations have overwritten it.
    if let Some(inside) = inside {
        outside.into_iter().for_each(|e| r.patch.push(Edit::AddControl(inside, e)));
    }
    // Values that an iteration leaves for the next live until the end of the next.
    let (name, attrs) = active("Next", cond.name(), "next", true);
    let next = r.patch.add("StreamActive", &name, &nexts, vec![], attrs);
    for n in all.last(g, Region::Side(group, 1)) {
        r.patch.push(Edit::AddControl(n.id(), next));
    }
    let (name, attrs) = active("Exit", cond.name(), "exit", false);
    let exit = r.patch.add("StreamActive", &name, &read_within(g, all, Region::Loop(l)), vec![], attrs);
    for e in &of.exits {
        r.patch.push(Edit::AddControl(exit, *e));
    }
    r.count();
    Ok(Some((next, exit)))
}

/// Values from outside that the nodes of a loop read; they live until the loop has ended.
fn read_within(g: &Graph, all: &Regions, inside: Region) -> Vec<ValueRef> {
    let mut out: BTreeSet<ValueRef> = BTreeSet::new();
    let within = |id: NodeId| all.within(all.at(id), inside);
    for n in g.nodes().filter(|n| !is_outside(n)) {
        if !within(n.id()) || regions::is_merge(n) {
            continue;
        }
        for v in n.inputs().iter().filter(|v| !v.is_absent()) {
            if g.get(v.node).is_some_and(|p| !p.is_const() && !within(p.id())) {
                out.insert(*v);
            }
        }
    }
    out.into_iter().collect()
}
