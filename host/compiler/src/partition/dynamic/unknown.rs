//! Which nodes have unknown shapes (facts 3.5): by a mark, by an engine that runs on the host, by a shape of theirs, by their subgraphs,
//! by addresses that cannot be refreshed; constants with their readers.
use crate::error::CompileError;
use crate::ids::NodeKey;
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::{Graph, Model, Node};
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::engine::flags;

/// Attributes that make a node unknown.
const MARKS: [&str; 3] = ["_is_unknown_shape", "is_unknown_shape", "_force_unknown_shape"];
/// Parameters of a graph.
const DATA: [&str; 4] = ["Data", "RefData", "AippData", "AnnData"];
/// So many nodes are named.
const NAMED: usize = 10;

fn open(n: &Node) -> bool {
    n.outputs().iter().any(|d| !d.shape.is_static())
}
fn reads_open(g: &Graph, n: &Node) -> bool {
    (0..n.inputs().len()).any(|i| g.input_desc(n, i).is_some_and(|d| !d.shape.is_static()))
}
fn runs(n: &Node) -> bool {
    !DATA.contains(&n.op()) && n.op() != "NetOutput"
}

/// By place in the order of graph `gi`. Data and NetOutput are neither.
pub fn nodes(model: &Model, gi: usize, placement: &Placement, toolbox: &Toolbox) -> Vec<bool> {
    let g = &model.graphs()[gi];
    let mut out: Vec<bool> = g
        .nodes()
        .map(|n| {
            let on_host =
                || toolbox.engine(placement.engine[NodeKey::new(gi, n.id())]).info.flags & flags::HOST_RUNTIME != 0;
            let inner = || n.subgraphs().iter().filter_map(|s| model.graph(s)).any(|s| s.nodes().any(open));
            let fixed = || n.attrs().get("_is_support_addr_refresh").and_then(|v| v.as_bool()) == Some(false);
            runs(n)
                && !n.is_const()
                && (MARKS.iter().any(|m| n.attrs().flag(*m))
                    || open(n)
                    || reads_open(g, n)
                    || on_host()
                    || inner()
                    || fixed())
        })
        .collect();
    let mut at = vec![0usize; g.id_bound()];
    g.order().iter().enumerate().for_each(|(i, id)| at[id.index()] = i);
    for (i, n) in g.nodes().enumerate() {
        if n.is_const() && !n.uses(0).is_empty() && n.uses(0).iter().all(|u| out[at[u.node.index()]]) {
            out[i] = true;
        }
    }
    out
}

/// What refuses a model with an unknown shape: the nodes that bring it in, and the `--input-shape` that closes it. None: all are known.
pub fn refusal(model: &Model) -> Option<CompileError> {
    let g = model.root();
    let all: Vec<&Node> = model.graphs().iter().flat_map(|g| g.nodes()).filter(|n| open(n) && runs(n)).collect();
    let inputs: Vec<&Node> = g.data_nodes().into_iter().filter(|n| open(n)).collect();
    if all.is_empty() && inputs.is_empty() {
        return None;
    }
    let desc = |n: &Node| n.outputs().iter().map(|d| format!("{}{}", d.dtype, d.shape)).collect::<Vec<_>>().join(", ");
    // What opens a shape although all that it reads is known.
    let own: Vec<&Node> =
        model.graphs().iter().flat_map(|g| g.nodes().filter(|n| runs(n) && open(n) && !reads_open(g, n))).collect();
    let mut d = Diagnostic::error(format!(
        "{} of {} nodes have unknown shapes, which cannot be compiled yet",
        all.len() + inputs.len(),
        model.node_count()
    ))
    .code("GE-E0342")
    .atc("E10001");
    for n in inputs.iter().take(NAMED) {
        d = d.note(format!("input `{}` leaves its shape open: {}", n.name(), desc(n)));
    }
    for n in own.iter().take(NAMED) {
        d = d.note(format!("`{}` ({}) has outputs whose shape depends on values: {}", n.name(), n.op(), desc(n)));
    }
    let more = inputs.len().saturating_sub(NAMED) + own.len().saturating_sub(NAMED);
    if more > 0 {
        d = d.note(format!("and {more} more"));
    }
    let shapes: Vec<String> = inputs
        .iter()
        .filter_map(|n| {
            let shape = &n.outputs().first()?.shape;
            let sizes: Vec<String> = shape.dims().iter().map(|s| s.size().unwrap_or(1).to_string()).collect();
            Some(format!("{}:{}", n.name(), if shape.is_unranked() { "SIZES".into() } else { sizes.join(",") }))
        })
        .collect();
    let d = if shapes.is_empty() {
        d.help("take the operators named above out of the model, or give them constant inputs")
    } else {
        d.help(format!("give the open sizes, for example `--input-shape \"{}\"`", shapes.join(";")))
    };
    // A shape that was not given is the caller's, one that depends on values the model's.
    Some(CompileError::Plugin(d.of(if own.is_empty() { ErrorKind::USAGE } else { ErrorKind::UNSUPPORTED })))
}
