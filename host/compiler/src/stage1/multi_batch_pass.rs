//! `MultiBatchPass`: gives the nodes of a gear the label of the gear.
//!
//! Before: `%c = Case(%i, %x) {_batch_num = 2, branches = [@a, @b]}`, `@b`: `%r = Relu(%x)`
//! After: `%r` with `_batch_label = "Batch_1"`
//! When: the graph is a branch of a `Case` with `_batch_num`; or, once branches have become labels
//! and jumps, the node is between the label and the jump of a gear (the pass runs again at the end
//! of stage 2, for nodes inserted in between).
//! Refuses: inputs, outputs and constants, which are on no stream.
//! Keeps: everything but the attribute.
//! Source: 003 §2.2, 002 (labels of gears), facts 8.7. Cost: each node once.
use crate::error::Result;
use crate::feature::control_flow::lower::SCOPE;
use crate::pass::declare::graph_pass;
use crate::pass::{PassContext, Rewriter};
use ge_ir::{Graph, Model, Node};
use ge_model::gears::{BATCH_LABEL, BATCH_NUM, label};
use ge_plugin_api::patch::Edit;

graph_pass!(
    MultiBatchPass,
    O0,
    "nodes of a gear -> the same with `_batch_label`",
    needs "a `Case` with `_batch_num`, or the labels that it has become",
    keeps "everything but the attribute",
    run,
);

fn run(cx: &mut PassContext<'_>, model: &Model, gi: usize) -> Result<Vec<Edit>> {
    let g = &model.graphs()[gi];
    let mut r = Rewriter::new(g);
    if gi == 0 {
        between_labels(&mut r, g);
        for (branch, gear) in branches(model) {
            mark(cx, &mut r, &model.graphs()[branch], &label(gear));
        }
    }
    cx.changes += r.changes();
    Ok(r.patch.into_edits().into())
}

/// The graphs that are gears, each with the number of its gear.
pub(super) fn branches(model: &Model) -> Vec<(usize, usize)> {
    let case = |n: &&Node| n.op() == "Case" && n.attr(BATCH_NUM).is_some();
    let cases = model.graphs().iter().flat_map(Graph::nodes).filter(case);
    cases
        .flat_map(|c| c.subgraphs().into_iter().enumerate().collect::<Vec<_>>())
        .filter_map(|(k, s)| Some((model.graph_index(s)?, k)))
        .collect()
}

/// Gives the nodes of a graph a label.
pub(super) fn mark(cx: &mut PassContext<'_>, r: &mut Rewriter<'_>, g: &Graph, label: &str) {
    r.patch.in_graph(g.name(), g.next_id());
    for n in g.nodes() {
        if is_outside(n) {
            cx.refuse(n.name(), "it stands on no stream");
        } else {
            give(r, n, label);
        }
    }
    let root = r.graph();
    r.patch.in_graph(root.name(), root.next_id());
}

fn is_outside(n: &Node) -> bool {
    matches!(n.op(), "Data" | "NetOutput") || n.is_const()
}

fn give(r: &mut Rewriter<'_>, n: &Node, label: &str) {
    if n.attrs().str(BATCH_LABEL) != Some(label) {
        r.patch.set_attr(n.id(), BATCH_LABEL, label);
        r.count();
    }
}

/// Labels the nodes between the label of a gear and the next label or jump of its scope.
fn between_labels(r: &mut Rewriter<'_>, g: &Graph) {
    let mut at: Option<(&str, i64)> = None;
    for n in g.nodes() {
        let scope = n.attrs().int(SCOPE);
        if let Some((label, of)) = at {
            if scope != Some(of) {
                if !is_outside(n) {
                    give(r, n, label);
                }
                continue;
            }
            at = None;
        }
        if let Some((label, scope)) = n.attrs().str(BATCH_LABEL).zip(scope).filter(|_| n.op() == "LabelSet") {
            at = Some((label, scope));
        }
    }
}
