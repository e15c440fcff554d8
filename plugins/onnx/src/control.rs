//! `If`, `Loop`, `Scan` and `SequenceMap`: subgraphs with captured outer values as inputs.
//!
//! * `If` becomes `If(cond, captured...)`; both branches get every value that either reads,
//!   constants are copied in instead.
//! * `Loop` becomes `While` or is written out (`loops`), so does `Scan` (`scan`); `SequenceMap`
//!   becomes `While` (`sequence_map`).
use crate::import::{Building, Env, Importer, domain};
use crate::inputs;
use crate::order::taken;
use crate::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto};
use crate::ranks::desc_of_rank;
use crate::scope::Known;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{AttrValue, ConstTensor, Dim, TensorDesc, ValueRef};

/// Whether an operator of `ai.onnx` is imported here.
pub fn handles(op: &str) -> bool {
    matches!(op, "If" | "Loop" | "Scan" | "SequenceMap")
}

/// Imports such a node; its outputs.
pub fn import(
    im: &mut Importer<'_>,
    n: &NodeProto,
    name: &str,
    attrs: &[(&str, &AttributeProto)],
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    match n.op_type.as_str() {
        "If" => branch(im, n, name, attrs, g, env),
        "Loop" => crate::loops::import(im, n, name, attrs, g, env),
        "SequenceMap" => crate::sequence_map::import(im, n, name, attrs, g, env),
        _ => crate::scan::import(im, n, name, attrs, g, env),
    }
}

/// A subgraph of a node, by its attribute.
pub fn graph<'n>(
    im: &Importer<'_>,
    n: &NodeProto,
    name: &str,
    attrs: &[(&str, &'n AttributeProto)],
    key: &str,
) -> Result<&'n GraphProto> {
    attrs
        .iter()
        .find(|(k, _)| *k == key)
        .and_then(|(_, a)| a.g.as_ref())
        .ok_or_else(|| im.refuse(n, name, domain(&n.domain), None, &format!("it has no subgraph `{key}`")))
}

/// Values that a subgraph gets from outside: those with a node become inputs, constants are copied.
pub struct Captured {
    /// Name in the model and value.
    pub inputs: Vec<(String, Known)>,
    /// Constants, by name.
    pub constants: Vec<(String, Known)>,
}

/// What subgraphs read of the graph around them.
pub fn capture(im: &mut Importer<'_>, g: &mut Building, graphs: &[&GraphProto]) -> Result<Captured> {
    let mut c = Captured { inputs: Vec::new(), constants: Vec::new() };
    let taken: Vec<String> = graphs.iter().flat_map(|sub| taken(sub, &g.scope)).collect();
    for name in taken {
        if c.inputs.iter().chain(&c.constants).any(|(n, _)| *n == name) {
            continue;
        }
        match g.scope.get(&name) {
            Some(k) if k.constant.is_some() => c.constants.push((name, Known { value: ValueRef::ABSENT, ..k.clone() })),
            _ => {
                let k = im.read_value(g, &name)?;
                c.inputs.push((name, k));
            }
        }
    }
    Ok(c)
}

/// A subgraph with its inputs made; `ins` are names and descriptors in order.
pub fn open(
    im: &mut Importer<'_>,
    graph_name: &str,
    ins: &[(String, TensorDesc)],
    constants: &[(String, Known)],
) -> Building {
    let mut b = Building::new();
    for (i, (name, desc)) in ins.iter().enumerate() {
        let node = im.take_name(&format!("{graph_name}/{name}"));
        let v = b.builder.data(&node, i as u32, desc.clone());
        b.scope.insert(name.clone(), Known::new(v, desc.clone()));
    }
    b.scope.extend(constants.iter().cloned());
    b
}

/// The value of a name in a graph that is written.
pub fn at(b: &Building, name: &str) -> ValueRef {
    b.scope.get(name).map_or(ValueRef::ABSENT, |k| k.value)
}

/// A node of a plain operator, named like `what`; its output.
pub fn node(b: &mut Building, im: &mut Importer<'_>, op: &str, given: &[ValueRef], what: &str) -> ValueRef {
    let own = im.take_name(what);
    b.builder.node(op).name(&own).inputs(given).build()
}

/// The graph that ends the loop `name` whose values begin with its turn and its length; its name.
pub fn counted(im: &mut Importer<'_>, name: &str, ins: &[(String, TensorDesc)]) -> String {
    let cond_name = im.graph_name(name, "cond");
    let mut b = open(im, &cond_name, ins, &[]);
    let (turn, length) = (at(&b, &ins[0].0), at(&b, &ins[1].0));
    let go = node(&mut b, im, "Less", &[turn, length], &format!("{cond_name}/Less"));
    b.builder.outputs(&[("cond".to_owned(), go)]);
    im.finish(cond_name.clone(), b);
    cond_name
}
/// What a carried value keeps from turn to turn: its rank.
pub fn loosened(d: &TensorDesc) -> TensorDesc {
    desc_of_rank(d.shape.rank())
}

fn branch(
    im: &mut Importer<'_>,
    n: &NodeProto,
    name: &str,
    attrs: &[(&str, &AttributeProto)],
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    let (then, other) = (graph(im, n, name, attrs, "then_branch")?, graph(im, n, name, attrs, "else_branch")?);
    let cond = im.read_value(g, n.input.first().map_or("", String::as_str))?;
    let captured = capture(im, g, &[then, other])?;
    let ins: Vec<(String, TensorDesc)> =
        captured.inputs.iter().map(|(n, k)| (n.clone(), k.desc.as_ref().clone())).collect();
    let mut names = Vec::new();
    for (role, sub) in [("then", then), ("else", other)] {
        let gn = im.graph_name(name, role);
        let mut b = open(im, &gn, &ins, &captured.constants);
        body(im, sub, &mut b, env)?;
        let mut outs = Vec::new();
        for o in &sub.output {
            outs.push((o.name.clone(), im.read_value(&mut b, &o.name)?.value));
        }
        b.builder.outputs(&outs);
        im.finish(gn.clone(), b);
        names.push(gn);
    }
    let count = n.output.len();
    let values: Vec<ValueRef> = captured.inputs.iter().map(|(_, k)| k.value).collect();
    let outs = g
        .builder
        .node("If")
        .name(name)
        .input(cond.value)
        .inputs(&values)
        .attr("then_branch", AttrValue::Graph(names[0].as_str().into()))
        .attr("else_branch", AttrValue::Graph(names[1].as_str().into()))
        .build_n(count);
    Ok(outs.into_iter().zip(&then.output).map(|(v, o)| Known::new(v, told(o, TensorDesc::unknown()))).collect())
}

/// What is known of a value that a subgraph gives, and that it is a sequence where that is declared.
pub fn told(output: &ValueInfoProto, desc: TensorDesc) -> TensorDesc {
    match inputs::declared(output) {
        Ok(d) if d.container == Container::SEQ => sequence(),
        _ => desc,
    }
}

/// Imports the nodes of a subgraph whose inputs stand in its scope.
pub fn body(im: &mut Importer<'_>, sub: &GraphProto, b: &mut Building, env: &Env<'_>) -> Result<()> {
    im.initializers(sub, b)?;
    let env = Env { prefix: env.prefix.clone(), rename: None, depth: env.depth + 1, ..env.clone() };
    im.nodes(&sub.node, b, &env)
}

/// A constant with a name of its own.
pub fn scalar(b: &mut Building, im: &mut Importer<'_>, name: &str, t: Option<ConstTensor>) -> ValueRef {
    let name = im.take_name(name);
    t.map_or(ValueRef::ABSENT, |t| b.builder.constant(&name, t))
}

/// What is known of a sequence before it has a tensor.
pub fn sequence() -> TensorDesc {
    TensorDesc { container: Container::SEQ, ..TensorDesc::unknown() }
}

/// A loop over these values, by the names of its condition and its body.
pub fn while_node(g: &mut Building, name: &str, values: &[ValueRef], (condition, body): (&str, &str)) -> Vec<ValueRef> {
    let graph = |name: &str| AttrValue::Graph(name.into());
    let node = g.builder.node("While").name(name).inputs(values);
    node.attr("cond", graph(condition)).attr("body", graph(body)).build_n(values.len())
}

/// An empty sequence, for what a body gives as `output`: its declared shape is the only one where no
/// turn is made.
pub fn empty(g: &mut Building, im: &mut Importer<'_>, list: &str, output: &ValueInfoProto) -> ValueRef {
    let own = im.take_name(&format!("{list}/empty"));
    let node = g.builder.node("SequenceEmpty").name(&own);
    match inputs::declared(output) {
        Ok(d) if d.container == Container::TENSOR && !d.shape.is_unranked() => {
            let size = |d: &Dim| d.size().and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
            node.attr("element", d.shape.dims().iter().map(size).collect::<Vec<i64>>()).build()
        }
        _ => node.build(),
    }
}

/// The sequence that a body carries under a name, with one more tensor.
pub fn grown(b: &mut Building, im: &mut Importer<'_>, list: &str, tensor: ValueRef) -> ValueRef {
    let own = im.take_name(&format!("{list}/insert"));
    let before = at(b, list);
    b.builder.node("SequenceInsert").name(&own).input(before).input(tensor).build()
}

/// The tensors of a sequence as slices of one.
pub fn stacked(g: &mut Building, im: &mut Importer<'_>, name: &str, list: ValueRef, axis: i64) -> Known {
    let own = im.take_name(name);
    let v =
        g.builder.node("ConcatFromSequence").name(&own).input(list).attr("axis", axis).attr("new_axis", 1i64).build();
    Known::new(v, TensorDesc::unknown())
}
