//! Which nodes have unknown shapes (facts 3.5). The reasons are: a mark, an engine that runs on the
//! host, a shape of an input or output, a subgraph, addresses that cannot be refreshed, or tiling
//! that reads values and does not run on the device. A constant is unknown if all its readers are.
use crate::error::CompileError;
use crate::feature::born::Born;
use crate::feature::tiling_sink::gate;
use crate::ids::NodeKey;
use crate::place::Placement;
use crate::toolbox::Toolbox;
use ge_ir::{DType, Dim, Graph, Model, Node, NodeId, TensorDesc};
use ge_plugin_api::author::tiling_sink::SINK;
use ge_plugin_api::diagnostic::Diagnostic;
use ge_plugin_api::engine::flags;
use ge_plugin_api::types::tensor::Container;

/// Attributes that mark a node as unknown.
const MARKS: [&str; 3] = ["_is_unknown_shape", "is_unknown_shape", "_force_unknown_shape"];
/// Operator types of a graph's parameters.
const DATA: [&str; 4] = ["Data", "RefData", "AippData", "AnnData"];
/// Operators that read only the sizes of their input, not its values.
pub(crate) const SIZES: [&str; 5] = ["Shape", "ShapeN", "Rank", "Size", "GatherShapes"];
/// Maximum number of inputs, and of nodes, that the error names.
const NAMED: usize = 10;
/// Maximum nesting depth of subgraphs; anything deeper counts as unknown.
const DEEPEST: usize = 32;

/// Whether the size of a value is unknown before a run. The size of strings always is.
fn is_open(d: &TensorDesc) -> bool {
    !d.shape.is_static() || d.dtype == DType::STRING
}
/// Whether a device does not take the value: it is no tensor, a string, or of a type that only a run
/// tells (an optional's value).
pub fn unfit(d: &TensorDesc) -> bool {
    d.container != Container::TENSOR || matches!(d.dtype, DType::STRING | DType::UNKNOWN)
}
pub(super) fn open(n: &Node) -> bool {
    !n.is_const() && n.outputs().iter().any(is_open)
}
pub(super) fn reads_open(g: &Graph, n: &Node) -> bool {
    let open = |i: usize| g.producer(n, i).is_some_and(|p| !p.is_const()) && g.input_desc(n, i).is_some_and(is_open);
    (0..n.inputs().len()).any(open)
}
/// The results of the model that are strings. Their size is unknown before a run even if they are
/// constants, because only the host holds strings.
fn text_results(model: &Model) -> Vec<String> {
    let g = model.root();
    let of = |out: &Node| -> Vec<String> {
        let is_text = |i: &usize| g.input_desc(out, *i).is_some_and(|d| d.dtype == DType::STRING);
        (0..out.inputs().len()).filter(is_text).filter_map(|i| Some(g.producer(out, i)?.name().to_owned())).collect()
    };
    g.net_output().map(of).unwrap_or_default()
}
fn runs(n: &Node) -> bool {
    !DATA.contains(&n.op()) && n.op() != "NetOutput" && !n.attrs().flag(ge_model::KEPT)
}

/// For each node of graph `gi`, in order, whether it is unknown; always false for Data and
/// NetOutput.
pub fn nodes(model: &Model, gi: usize, placement: &Placement, toolbox: &Toolbox) -> Vec<bool> {
    let on_host =
        |n: &Node| toolbox.engine(placement.engine[NodeKey::new(gi, n.id())]).info.flags & flags::HOST_RUNTIME != 0;
    marks(model, gi, &on_host)
}

/// Like [`nodes`], with `on_host` saying which nodes the host runs.
pub fn marks(model: &Model, gi: usize, on_host: &dyn Fn(&Node) -> bool) -> Vec<bool> {
    let g = &model.graphs()[gi];
    let mut out: Vec<bool> = g
        .nodes()
        .map(|n| {
            let fixed = || n.attrs().get("_is_support_addr_refresh").and_then(|v| v.as_bool()) == Some(false);
            // Tiling that reads values and does not run on the device is done by the host in every
            // run.
            let tiled = || n.attrs().flag(gate::DEPENDS) && !n.attrs().flag(SINK);
            runs(n)
                && !n.is_const()
                && (MARKS.iter().any(|m| n.attrs().flag(*m))
                    || open(n)
                    || reads_open(g, n)
                    || fixed()
                    || tiled()
                    || inner(model, n, 0)
                    || on_host(n))
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

/// Whether a node's subgraphs contain, at any depth, an unknown shape or a value that a device does
/// not take.
fn inner(model: &Model, n: &Node, depth: usize) -> bool {
    let bad = |m: &Node| m.outputs().iter().any(unfit) || open(m) || depth > DEEPEST || inner(model, m, depth + 1);
    n.subgraphs().iter().filter_map(|s| model.graph(s)).any(|s| s.nodes().any(bad))
}

/// Why node `n` of graph `g` makes the shapes after it unknown; `None` if it only passes on unknown
/// shapes of its inputs.
fn reason(g: &Graph, n: &Node, toolbox: &Toolbox) -> Option<String> {
    // An unnamed unknown size that no input has originates here; a symbol would have been passed
    // on.
    let has_none = |d: &Dim| *d == Dim::UNKNOWN || Born::is(*d);
    let nameless = |d: &TensorDesc| d.shape.is_unranked() || d.shape.dims().iter().any(has_none);
    let given = |i: usize| g.input_desc(n, i).is_some_and(nameless);
    if !n.outputs().iter().any(nameless) || (0..n.inputs().len()).any(given) {
        let from_known = open(n) && !reads_open(g, n);
        return from_known.then(|| format!("states an open shape: {}", descs(n)));
    }
    if !n.subgraphs().is_empty() {
        return Some(format!(
            "has subgraphs whose shapes differ from branch to branch or from turn to turn: {}",
            descs(n)
        ));
    }
    let Some(op) = toolbox.op(n.op_key()) else { return Some(format!("gives {}", descs(n))) };
    let values: Vec<String> = op
        .proto
        .value_inputs
        .iter()
        .filter_map(|i| g.producer(n, usize::try_from(*i).ok()?))
        .filter(|p| !p.is_const())
        .map(|p| format!("`{}` ({})", p.name(), p.op()))
        .collect();
    Some(match values.is_empty() {
        true => format!("has outputs whose shape depends on values: {}", descs(n)),
        false => format!("takes its sizes from the value of {}: {}", values.join(", "), descs(n)),
    })
}

fn descs(n: &Node) -> String {
    n.outputs().iter().map(Born::told).collect::<Vec<_>>().join(", ")
}

/// Inputs of the model whose values determine sizes. They can be fixed when the model is compiled.
fn deciding(model: &Model, toolbox: &Toolbox) -> Vec<String> {
    let g = model.root();
    let mut out: Vec<String> = Vec::new();
    let mut seen = vec![false; g.id_bound()];
    let mut todo: Vec<NodeId> = Vec::new();
    for n in g.nodes().filter(|n| runs(n) && open(n)) {
        let Some(op) = toolbox.op(n.op_key()) else { continue };
        todo.extend(op.proto.value_inputs.iter().filter_map(|i| Some(g.producer(n, usize::try_from(*i).ok()?)?.id())));
    }
    while let Some(id) = todo.pop() {
        if std::mem::replace(&mut seen[id.index()], true) {
            continue;
        }
        let Some(n) = g.get(id) else { continue };
        // The sizes of a tensor do not depend on its values.
        if !SIZES.contains(&n.op()) {
            todo.extend(n.inputs().iter().filter(|v| !v.is_absent()).map(|v| v.node));
        }
    }
    let table = |n: &&Node| n.outputs().first().is_some_and(|d| d.dtype.is_int() || d.dtype == DType::BOOL);
    out.extend(g.data_nodes().into_iter().filter(|n| seen[n.id().index()]).filter(table).map(|n| n.name().to_owned()));
    out
}

/// Whether any shape of the model is unknown.
///
/// Nodes that are unknown only because of a mark or their engine do not count: since all sizes are
/// known, they run like their neighbours.
pub fn any(model: &Model) -> bool {
    let input = model.root().data_nodes().into_iter().any(open);
    input
        || !text_results(model).is_empty()
        || model.graphs().iter().flat_map(|g| g.nodes()).any(|n| runs(n) && open(n))
}

/// The error for a model with unknown shapes: it names the nodes where they originate and suggests
/// an `--input-shape` that fixes them. `None` if all shapes are known.
///
/// Nodes that are unknown only because of a mark or their engine are no reason: since all sizes are
/// known, they run like their neighbours.
pub fn refusal(model: &Model, toolbox: &Toolbox) -> Option<CompileError> {
    let count = model.graphs().iter().flat_map(|g| g.nodes()).filter(|n| runs(n) && open(n)).count();
    let inputs: Vec<&Node> = model.root().data_nodes().into_iter().filter(|n| open(n)).collect();
    let texts = text_results(model);
    if count == 0 && inputs.is_empty() && texts.is_empty() {
        return None;
    }
    let mut own: Vec<(String, &Node, String)> = Vec::new();
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes().filter(|n| runs(n) && open(n)) {
            if let Some(why) = reason(g, n, toolbox) {
                let name = if gi == 0 { n.name().to_owned() } else { format!("{}/{}", g.name(), n.name()) };
                own.push((name, n, why));
            }
        }
    }
    let mut d = Diagnostic::error(format!(
        "{} of {} nodes have unknown shapes, for which no memory can be planned",
        count + inputs.len(),
        model.node_count()
    ))
    .atc("E10001");
    for n in inputs.iter().take(NAMED) {
        d = d.note(format!("input `{}` leaves its shape open: {}", n.name(), descs(n)));
    }
    for (name, n, why) in own.iter().take(NAMED) {
        d = d.note(format!("`{name}` ({}) {why}", n.op()));
    }
    if count == 0 && inputs.is_empty() {
        d = d.note(format!("the model gives strings, which only the host holds: `{}`", texts.join("`, `")));
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
    let mut help: Vec<String> = Vec::new();
    if !shapes.is_empty() {
        help.push(format!("give the open sizes, for example `--input-shape \"{}\"`", shapes.join(";")));
    }
    if !own.is_empty() {
        let fixed = deciding(model, toolbox);
        let fixed: Vec<String> = fixed.iter().map(|n| format!("`--input {n}={n}.npy`")).collect();
        help.push(match fixed.is_empty() {
            true if !shapes.is_empty() => "what still hangs on values then needs constant inputs".into(),
            true => "give the operators named above constant inputs: their results' sizes hang on values".into(),
            false => format!("compile for one value of what decides sizes: {}", fixed.join(" ")),
        });
    }
    Some(CompileError::model(ge_codes::OPEN_SIZES, d.help(help.join("; "))))
}
