//! `AttachStreamLabelPass`: puts the nodes that a switch or a loop wakes on one stream of their
//! own.
//!
//! Before: `%s_t_StreamSwitch = StreamSwitch(…) {_active_label_list = ["s_t"]}  %t = Relu(%x)
//! after(%s_t_StreamSwitch)  %u = Neg(%t)`
//! After: `%t` and `%u` with `_stream_label = "s_t"`
//! When: a node follows a `StreamSwitch`, or is in a loop, up to the `StreamMerge` or `Exit` that
//! ends it. The pass runs at the end of stage 1, and again at the end of stage 2 for the nodes
//! inserted in between. A node with a label of its own keeps it; whatever wakes the node's branch
//! or loop then wakes the stream of that label too, in every iteration.
//! Refuses: constants, inputs and outputs, which are on no stream. It is an error if the nodes of a
//! label are in several branches or loops.
//! Keeps: everything but the attribute.
//! Source: 003 §2.2, facts 4.4 (1_3), 4.5 (c). Cost: nodes and edges times the depth of nesting.
use crate::error::Result;
use crate::feature::control_flow::lower::refused;
use crate::feature::control_flow::regions::{BORDER, NEXT, is_outside};
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Model, Node};
use ge_plugin_api::patch::Edit;
use std::collections::{BTreeMap, BTreeSet, HashMap};

graph_pass!(
    AttachStreamLabelPass,
    O0,
    "nodes behind a `StreamSwitch`, or in a loop of streams -> the same with `_stream_label`",
    needs "a `StreamSwitch`, or the `StreamActive` at a loop's border",
    keeps "everything but the attribute; labels that are there",
    run,
);

/// A side of a switch or a loop: its label and the index of the place that contains it.
struct Place {
    label: String,
    around: usize,
}

struct Places {
    list: Vec<Place>,
    by_gate: HashMap<String, usize>,
}

impl Places {
    fn inner(&mut self, label: &str, around: usize) -> usize {
        if let Some(p) = self.by_gate.get(label) {
            return *p;
        }
        self.list.push(Place { label: label.to_owned(), around });
        self.by_gate.insert(label.to_owned(), self.list.len() - 1);
        self.list.len() - 1
    }
    fn around(&self, p: usize) -> usize {
        self.list.get(p).map_or(0, |p| p.around)
    }
    fn within(&self, mut inner: usize, outer: usize) -> bool {
        while inner != outer {
            if inner == 0 {
                return false;
            }
            inner = self.around(inner);
        }
        true
    }
}

fn own_label(n: &Node) -> Option<&str> {
    ["_user_stream_label", "_stream_label"].into_iter().find_map(|k| n.attrs().str(k).filter(|l| !l.is_empty()))
}

fn woken(n: &Node) -> Option<String> {
    n.attrs().strs("_active_label_list").and_then(|l| l.first().map(|l| (*l).to_owned()))
}

/// Whether a node wakes a loop for the first time.
fn enters(n: &Node) -> bool {
    n.attrs().str(BORDER) == Some("enter")
}

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    if !g.nodes().any(|n| n.op() == "StreamSwitch") {
        return Ok(Vec::new());
    }
    let mut r = Rewriter::new(g);
    let root = Place { label: String::new(), around: 0 };
    let mut places = Places { list: vec![root], by_gate: HashMap::new() };
    let mut at = vec![0usize; g.id_bound()];
    // Labels of the exits of loops: each exit continues on a stream of its own.
    let mut own: HashMap<ge_ir::NodeId, String> = HashMap::new();
    // `given`: the places of nodes with labels of their own. `within`: nodes whose own label no
    // node activates, so that it must be woken together with their place.
    let named: BTreeSet<&str> =
        g.nodes().flat_map(|n| n.attrs().strs("_active_label_list").unwrap_or_default()).collect();
    let mut given: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut within: Vec<(&Node, &str)> = Vec::new();
    for n in g.nodes() {
        cx.visits += 1;
        let border = n.attrs().str(BORDER);
        let mut here = 0usize;
        let data = n.inputs().iter().filter(|v| !v.is_absent()).map(|v| (v.node, false));
        for (p, waits) in data.chain(n.controls().iter().map(|c| (*c, true))) {
            let Some(p) = g.get(p) else { continue };
            let brings = match p.op() {
                // The two switches of a pair are in the same place.
                "StreamSwitch" if !waits || (n.op() == "StreamSwitch" && n.input(0) == p.input(0)) => {
                    at[p.id().index()]
                }
                "StreamSwitch" | "StreamActive" if waits && (p.op() == "StreamSwitch" || enters(p)) => {
                    woken(p).map_or(at[p.id().index()], |l| places.inner(&l, at[p.id().index()]))
                }
                _ => at[p.id().index()],
            };
            if n.op() == "StreamMerge" && n.attr(NEXT).is_none() {
                // The sides of the switch end here.
                let outer = if waits || p.op() != "MemcpyAsync" { here } else { places.around(brings) };
                here = if places.within(outer, here) { outer } else { here };
            } else if places.within(brings, here) {
                here = brings;
            } else if !places.within(here, brings) && border.is_none() && !matches!(n.op(), "Exit" | "RefExit") {
                cx.refuse(n.name(), "it follows two sides of a switch");
            }
        }
        if border == Some("exit") {
            // The exit is on its own label, within the loop's condition; what follows is outside of
            // the loop.
            let label = places.list.get(here).map(|p| p.label.clone()).unwrap_or_default();
            own.insert(n.id(), label);
            here = places.around(places.around(here));
        } else if matches!(n.op(), "Exit" | "RefExit") {
            let exit = n.controls().iter().find_map(|c| Some((at[c.index()], own.get(c)?.clone())));
            if let Some((around, label)) = exit {
                own.insert(n.id(), label);
                here = around;
            }
        }
        at[n.id().index()] = here;
        let label = own.get(&n.id()).map_or(places.list[here].label.as_str(), String::as_str);
        let has = own_label(n);
        if let Some(l) = has.filter(|_| !is_outside(n)) {
            given.entry(l).or_default().insert(here);
        }
        if label.is_empty() || is_outside(n) {
            continue;
        }
        match has {
            Some(l) if l != label && n.op() != "StreamMerge" && !named.contains(l) => within.push((n, l)),
            Some(_) => {}
            None => {
                r.patch.set_attr(n.id(), "_stream_label", label);
                r.count();
            }
        }
    }
    let mut also: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (n, l) in within {
        if given.get(l).is_some_and(|places| places.len() > 1) {
            let why = format!(
                "its label `{l}` is that of nodes in another branch or loop, or in none: nothing could wake them all"
            );
            return Err(refused(n, &why));
        }
        also.entry(&places.list[at[n.id().index()]].label).or_default().insert(l);
    }
    for gate in g.nodes() {
        let Some(more) = woken(gate).and_then(|l| also.get(l.as_str())) else { continue };
        let mut list: Vec<&str> = gate.attrs().strs("_active_label_list").unwrap_or_default();
        let had = list.len();
        list.extend(more.iter().filter(|l| !list.contains(l)).copied().collect::<Vec<_>>());
        if list.len() > had {
            r.patch.set_attr(gate.id(), "_active_label_list", list.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>());
            r.count();
        }
    }
    Ok(r.finish(cx))
}
