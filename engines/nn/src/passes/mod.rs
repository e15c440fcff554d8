//! Fusions for the kernels of this engine. Each one asks the op store whether it has a kernel for
//! the node it would make; if not, the graph stays unchanged and the store's reason is recorded.
//! They run where engines optimise the original graph, with these exceptions: element-wise chains
//! run after precision is settled, convolutions and products of 8-bit integers before constants are
//! folded, and steps behind products in the engine's own subgraph.

/// A cache of recent answers of the op store.
pub mod asked;
/// Makes attention from products and softmax.
pub mod attention;
/// Products by constant integers of at most eight bits.
pub mod byte_product;
/// Packs weights of products and convolutions of 8-bit integers.
pub mod byte_weights;
/// Fuses what follows a convolution, and the padding before it.
pub mod conv;
/// Joins depthwise and pointwise convolutions.
pub mod conv_pair;
/// Clusters of element-wise operators and reductions.
pub mod cluster;
/// Decomposes operators into several simpler ones.
pub mod composites;
/// Nodes as steps of clusters.
mod cluster_steps;
/// Chains of element-wise operators.
pub mod elementwise;
/// Fuses what follows a product, and the transposes before it.
pub mod matmul;
/// Normalisations, softmax with mask, and SiLU.
pub mod norm;
/// Trial sizes that replace open sizes.
pub mod open;
/// Packs weights of products and convolutions with open sizes.
pub mod open_weights;
/// Packs weights of products in single precision.
pub mod panels;
/// Makes products of 8-bit integers from dequantised ones.
pub mod qmatmul;
/// Makes convolutions of 8-bit integers from dequantised ones.
pub mod quant;
/// Finds out whether a path leaves a set of nodes and comes back.
pub mod reach;
/// Packs weights of recurrent operators.
pub mod recurrent;
/// Element-wise chains behind products and convolutions.
pub mod ub;
/// Lays out filters of convolutions in single precision.
pub mod filters;
/// Constant integers as weights of products.
mod weights;
/// Splits that need no task.
pub mod split_n_optimizer;

use crate::families::maps::MapRow;
use crate::sig::{Sig, Tensor};
use crate::store;
use ge_plugin_api::fusion::{Boundary, Made, Replacement, SubgraphRewriter, Verdict};
use ge_plugin_api::pass::{PassInfo, PassLevel, PassStage};
use ge_plugin_api::types::{AttrMap, AttrValue, Dim, NodeId, Shape, TensorDesc, ValueRef};
use ge_plugin_api::view::{Graph, Node};

/// The description of a fusion on the original graph, at level O3.
fn info(name: &str, help: &str) -> PassInfo {
    PassInfo::new(name, PassStage::OPTIMIZE_ORIGINAL_GRAPH, PassLevel::O3, help)
}

/// Checks that the store has a kernel for a node with these inputs and this output; with open
/// sizes, for every trial of sizes.
///
/// # Errors
/// Returns the store's reason for a refusal.
fn has_kernel(g: &Graph<'_>, op: &str, inputs: &[ValueRef], attrs: &AttrMap, out: &TensorDesc) -> Verdict {
    let given = inputs.iter().map(|v| g.desc(*v)).chain([Some(out)]).collect::<Vec<_>>();
    has_kernel_for(op, &given, 1, attrs)
}

/// Like [`has_kernel`], for descriptors: first the inputs', then the outputs'.
fn has_kernel_for(op: &str, given: &[Option<&TensorDesc>], outputs: usize, attrs: &AttrMap) -> Verdict {
    asked::answer(op, given, outputs, attrs, || {
        let trials = open::trials(given).filter(|t| !t.is_empty());
        let trials = trials.ok_or_else(|| format!("{op}: a size is not known, and has no name"))?;
        for descs in trials {
            let sig = signature(op, &descs, outputs, attrs)?;
            store::build(&sig).map_err(|why| format!("{op} has no kernel here: {why}"))?;
        }
        Ok(())
    })
}

/// The signature of an operator with these descriptors; the last `outputs` of them are outputs.
///
/// # Errors
/// Returns a reason if no kernel supports a type or shape.
fn signature(op: &str, descs: &[Option<TensorDesc>], outputs: usize, attrs: &AttrMap) -> Verdict<Sig> {
    let (inputs, outputs) = descs.split_at(descs.len().saturating_sub(outputs));
    let tensor = |d: &TensorDesc| Tensor::of(d, None);
    let inputs = inputs.iter().map(|d| d.as_ref().map(tensor).transpose()).collect::<Result<_, _>>()?;
    let outputs = outputs.iter().flatten().map(tensor).collect::<Result<_, _>>()?;
    Ok(Sig { op: op.to_owned(), attrs: attrs.clone(), inputs, outputs })
}

/// Makes a new node with the described output, if the store has a kernel for it.
///
/// # Errors
/// Returns the store's reason for a refusal.
fn put<'r>(
    r: &'r Replacement<'_>,
    op: &str,
    inputs: &[ValueRef],
    attrs: &AttrMap,
    out: &TensorDesc,
) -> Verdict<Made<'r>> {
    has_kernel(&r.graph(), op, inputs, attrs, out)?;
    let mut made = r.op(op, inputs.iter().copied());
    for a in attrs {
        made = made.attr(a.key.as_str(), a.value.clone());
    }
    Ok(made.desc(0, TensorDesc { attrs: AttrMap::default(), ..out.clone() }))
}

/// The descriptor of output 0.
fn out_desc<'g>(n: &Node<'g>) -> Verdict<&'g TensorDesc> {
    n.outputs().first().ok_or_else(|| format!("`{}` has no output", n.name()))
}

/// The value of a constant with one element.
fn number(g: &Graph<'_>, v: ValueRef) -> Option<f64> {
    g.constant(v).filter(|c| c.count() == Some(1))?.to_f64(1)?.first().copied()
}

/// A factor after a further factor or divisor. Kernels take it in single precision: `None` if that
/// is an infinity, a number that has lost digits, or a zero that was none.
fn scaled(factor: f64, c: f64, divides: bool) -> Option<f64> {
    let all = if divides { factor / c } else { factor * c };
    ((all as f32).is_normal() || (c == 0.0 && !divides)).then_some(all)
}

/// Refuses a product that reads a state which may grow in place, that is, an open-sized
/// concatenation of a graph input with new rows that is also a graph output. The executor lets
/// plain products read such a state in place, in memory with room; any other reader gets a copy of
/// the whole state in each step.
///
/// # Errors
/// Says which operand is such a state.
fn no_growing_state(g: &Graph<'_>, operands: &[ValueRef]) -> Verdict {
    let producer = |v: ValueRef| if v.is_absent() { None } else { g.find(v.node) };
    for v in operands {
        let n = match producer(*v) {
            Some(t) if t.op() == "TransposeD" => t.input(0).and_then(producer),
            n => n,
        };
        let Some(n) = n.filter(|n| n.op() == "ConcatD") else { continue };
        let past = n.input(0).and_then(producer).is_some_and(|p| p.op() == "Data");
        let open = n.outputs().first().is_some_and(|d| !d.shape.is_static());
        let given = g.users(n.value(0)).iter().any(|u| g.find(u.node).is_some_and(|u| u.op() == "NetOutput"));
        if past && open && given {
            return Err(format!("`{}` is a state that may grow in place, which plain products read", n.name()));
        }
    }
    Ok(())
}

/// The only node that reads a value; `None` if there are several readers or if it is a graph
/// output.
fn only_reader<'g>(g: &Graph<'g>, v: ValueRef) -> Option<Node<'g>> {
    match g.users(v) {
        [u] => g.find(u.node).filter(|n| n.op() != "NetOutput" && n.outputs().len() == 1),
        _ => None,
    }
}

/// The other operand of a node with two operands, one of which is `v`.
fn other_operand(n: &Node<'_>, v: ValueRef) -> Option<ValueRef> {
    match n.inputs() {
        [a, b] if *a == v && *b != v => Some(*b),
        [a, b] if *b == v && *a != v => Some(*a),
        _ => None,
    }
}

/// Attributes of a node that do not start with `_`.
fn attrs_of(n: &Node<'_>) -> AttrMap {
    n.attrs().iter().filter(|a| !a.key.as_str().starts_with('_')).cloned().collect()
}

/// Stores an activation and its numbers in the attributes of a node.
fn set_activation(attrs: &mut AttrMap, name: &str, numbers: Vec<f64>) {
    attrs.set("activation", name);
    if !numbers.is_empty() {
        attrs.set("activation_params", numbers);
    }
}

/// The activation that a node computes, with its numbers (`families/fused.rs`).
fn activation_of(n: &Node<'_>) -> Option<(&'static str, Vec<f64>)> {
    if n.op() == "ClipByValue" {
        return Some(("clip", vec![number(&n.graph(), n.input(1)?)?, number(&n.graph(), n.input(2)?)?]));
    }
    let numbers = MapRow::of(n.op())?.numbers(|key| n.float(key), |key| n.str(key));
    Some(match (n.op(), &numbers[..]) {
        ("Relu", _) => ("relu", vec![]),
        ("Relu6", _) => ("clip", vec![0.0, 6.0]),
        ("LeakyRelu", _) => ("leaky_relu", numbers),
        ("Sigmoid", _) => ("sigmoid", vec![]),
        ("Tanh", _) => ("tanh", vec![]),
        ("Gelu", []) => ("gelu", vec![]),
        ("Gelu", _) => ("gelu_tanh", vec![]),
        ("Swish", [1.0]) => ("silu", vec![]),
        ("HardSigmoid", _) => ("hard_sigmoid", numbers),
        ("HardSwish", _) => ("hard_swish", vec![]),
        ("Elu", _) => ("elu", numbers),
        _ => return None,
    })
}

/// The nodes that follow a product or a convolution, each the only reader of the one before: bias,
/// factor, residual and activation, each at most once and in the order in which the kernel applies
/// them.
struct Tail {
    nodes: Vec<NodeId>,
    last: ValueRef,
    bias: Option<ValueRef>,
    alpha: f64,
    residual: Option<ValueRef>,
    act: Option<(&'static str, Vec<f64>)>,
}

/// Moves what follows each node of `ops` into the kernel of `fused`. `bias_axis` and `scales`: see
/// [`tail`]. `attrs` returns the attributes that the fused node takes over from the first node.
fn fuse_tails(
    mut rewriter: SubgraphRewriter<'_, '_>,
    graph: &Graph<'_>,
    ops: &[&str],
    fused: &str,
    (bias_axis, scales): (usize, bool),
    attrs: fn(&Node<'_>) -> Verdict<AttrMap>,
) {
    for n in graph.nodes_of(ops) {
        if rewriter.is_gone(n.id()) || n.input(3).is_some() {
            continue;
        }
        let t = tail(&n, n.input(2).is_some(), bias_axis, scales);
        if t.nodes.len() < 2 || t.nodes.iter().any(|n| rewriter.is_gone(*n)) {
            continue;
        }
        let b = Boundary { nodes: t.nodes.clone(), outputs: vec![t.last] };
        rewriter.replace(&b, |r| {
            let mut attrs = attrs(&n)?;
            t.attrs(&mut attrs);
            let bias = n.input(2).or(t.bias).unwrap_or(ValueRef::ABSENT);
            let inputs = [n.inputs()[0], n.inputs()[1], bias, t.residual.unwrap_or(ValueRef::ABSENT)];
            Ok(vec![put(r, fused, &inputs, &attrs, out_desc(&graph.node(t.last.node))?)?.into()])
        });
    }
}

/// Follows the readers of output 0 of a node. `bias_axis`: the output axis along which a bias lies,
/// counted from the end.
fn tail(n: &Node<'_>, has_bias: bool, bias_axis: usize, scales: bool) -> Tail {
    let g = n.graph();
    let mut t = Tail { nodes: vec![n.id()], last: n.value(0), bias: None, alpha: 1.0, residual: None, act: None };
    let Some(shape) = n.outputs().first().map(|d| &d.shape).filter(|s| open::is_named(s)) else { return t };
    while let Some(next) = only_reader(&g, t.last) {
        if t.act.is_some() || !next.outputs().first().is_some_and(|d| open::same(&d.shape, shape)) {
            break;
        }
        let other = other_operand(&next, t.last);
        let first = t.residual.is_none() && t.bias.is_none();
        match (next.op(), other) {
            ("Add" | "BiasAdd", Some(o)) => {
                let Some(s) = g.desc(o).map(|d| &d.shape) else { break };
                let lies = is_vector(s, shape, bias_axis);
                if t.residual.is_none() && t.bias.is_none() && !has_bias && lies && g.constant(o).is_some() {
                    t.bias = Some(o);
                } else if t.residual.is_none() && open::same(s, shape) {
                    t.residual = Some(o);
                } else {
                    break;
                }
            }
            (op @ ("Mul" | "Div" | "RealDiv"), Some(o))
                if scales && first && !has_bias && (op == "Mul" || next.input(0) == Some(t.last)) =>
            {
                match number(&g, o).and_then(|c| scaled(t.alpha, c, op != "Mul")) {
                    Some(alpha) => t.alpha = alpha,
                    None => break,
                }
            }
            _ => match activation_of(&next).filter(|_| next.input(0) == Some(t.last)) {
                Some(a) => t.act = Some(a),
                None => break,
            },
        }
        t.nodes.push(next.id());
        t.last = next.value(0);
    }
    t
}

/// Whether a shape has the size of `whole` on one axis, which is counted from the end, and 1 on all
/// others.
fn is_vector(s: &Shape, whole: &Shape, from_end: usize) -> bool {
    let (s, whole) = (s.dims(), whole.dims());
    let along = |dims: &[Dim]| dims.len().checked_sub(1 + from_end).map(|k| dims[k]);
    let own = s.len().checked_sub(1 + from_end);
    let (Some(own), Some(n), Some(of)) = (own, along(s), along(whole)) else { return false };
    s.len() <= whole.len() && n.same(of) && s.iter().enumerate().all(|(k, d)| k == own || d.size() == Some(1))
}

impl Tail {
    /// Adds the attributes of the fused node.
    fn attrs(&self, attrs: &mut AttrMap) {
        if self.alpha != 1.0 {
            attrs.set("alpha", AttrValue::Float(self.alpha));
        }
        if let Some((name, numbers)) = &self.act {
            set_activation(attrs, name, numbers.clone());
        }
    }
}
