//! Decides into how many slices a subgraph is cut, and how many of them are active at once. The
//! subgraph becomes one node if its intermediates need less memory that way.
use super::rules::sliced;
use ge_plugin_api::author::slices::{self, Cut};
use ge_plugin_api::patch::{Edit, Patch};
use ge_plugin_api::types::{Attr, AttrValue, Key};
use ge_plugin_api::view::Graph;

/// Target size in bytes for the intermediates of one slice: what a core can keep close.
const NEAR_BYTES: u64 = 128 * 1024;
/// Maximum number of slices.
const MOST: u64 = 256;
/// Maximum number of slices that are active at once, given by the hardware's window.
const WINDOW: u64 = 4;

/// Records in the graph how the subgraph is cut. Does nothing if it stays as it is.
pub fn cut(graph: &Graph<'_>, patch: &mut Patch) {
    let Some((cut, nodes)) = of_graph(graph) else { return };
    for (id, inputs, outputs) in nodes {
        let axes = |list: Vec<Option<usize>>| list.into_iter().map(|a| a.map_or(-1, |a| a as i64)).collect::<Vec<_>>();
        patch.set_attr(id, slices::INPUT_AXES, axes(inputs));
        patch.set_attr(id, slices::OUTPUT_AXES, axes(outputs.into_iter().map(Some).collect()));
    }
    let mut set = |key: &str, value: AttrValue| patch.push(Edit::SetGraphAttr(Attr { key: Key::new(key), value }));
    set("_composite_node", slices::OP.into());
    set(slices::EXTENT, (cut.extent as i64).into());
    set(slices::ROWS, (cut.rows as i64).into());
    set(slices::WINDOW, (cut.window as i64).into());
}

type Members = Vec<(ge_plugin_api::types::NodeId, Vec<Option<usize>>, Vec<usize>)>;

fn of_graph(graph: &Graph<'_>) -> Option<(Cut, Members)> {
    let aside = |op: &str| matches!(op, "PlaceHolder" | "End" | "Const" | "Constant");
    let mut extent = None;
    let mut members = Vec::new();
    let mut between = 0u64;
    for node in graph.nodes().filter(|n| !aside(n.op())) {
        let s = sliced(&node).ok()?;
        if *extent.get_or_insert(s.extent) != s.extent {
            return None;
        }
        for (k, d) in node.outputs().iter().enumerate() {
            let users = graph.users(node.value(k as u32));
            if !users.is_empty() && users.iter().all(|u| graph.node(u.node).op() != "End") {
                between = between.checked_add(d.data_bytes()?)?;
            }
        }
        members.push((node.id(), s.inputs, s.outputs));
    }
    let extent = extent.filter(|_| members.len() > 1 && between > 0)?;
    // At least twice as many slices as are active at once, so that the intermediates take half
    // their memory or less.
    let wanted = between.div_ceil(NEAR_BYTES).clamp(2 * WINDOW, MOST).min(extent);
    let rows = extent.div_ceil(wanted);
    let threads = extent.div_ceil(rows);
    let window = WINDOW.min(threads / 2);
    (window > 0).then_some((Cut { extent, rows, window }, members))
}
