//! `If`, `Loop`, `Scan` and `SequenceMap`: their subgraphs get captured outer values as inputs.
//!
//! * `If` becomes `If(cond, captured...)`; both branches get every value that either of them reads,
//!   except constants, which are copied into the branches.
//! * `Loop` becomes `While` or is unrolled (`loops`), and so is `Scan` (`scan`); `SequenceMap`
//!   becomes `While` (`sequence_map`).
use crate::import::{Building, Env, Importer, domain};
use crate::inputs;
use crate::order::taken;
use crate::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto};
use crate::random::Turns;
use crate::ranks::desc_of_rank;
use crate::scope::Known;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{AttrValue, ConstTensor, Dim, TensorDesc, ValueRef};

/// Whether this module imports an operator of `ai.onnx`.
pub fn handles(op: &str) -> bool {
    matches!(op, "If" | "Loop" | "Scan" | "SequenceMap")
}

/// Imports a control-flow node and returns its outputs.
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

/// The subgraph of a node that an attribute holds.
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

/// Outer values that subgraphs read: values made by nodes become inputs, constants are copied.
pub struct Captured {
    /// Name in the model, and value, of each input.
    pub inputs: Vec<(String, Known)>,
    /// Constants, by name.
    pub constants: Vec<(String, Known)>,
}

/// Collects what subgraphs read from the graph around them.
pub fn capture(im: &mut Importer<'_>, g: &mut Building, graphs: &[&GraphProto]) -> Result<Captured> {
    let mut c = Captured { inputs: Vec::new(), constants: Vec::new() };
    let taken: Vec<String> = graphs.iter().flat_map(|sub| taken(sub, &g.scope)).collect();
    for name in taken {
        if c.inputs.iter().chain(&c.constants).any(|(n, _)| *n == name) {
            continue;
        }
        match g.scope.get(&name) {
            Some(k) if k.constant.is_some() || k.is_left_out() => {
                c.constants.push((name, Known { value: ValueRef::ABSENT, ..k.clone() }))
            }
            _ => {
                let k = im.read_value(g, &name)?;
                c.inputs.push((name, k));
            }
        }
    }
    Ok(c)
}

/// An input of a subgraph under construction.
pub struct Input {
    label: String,
    desc: TensorDesc,
    /// Whether the label is the model's name of the value.
    is_named: bool,
}

impl Input {
    /// A value that nodes of the subgraph read by this name.
    pub fn named(name: &str, desc: TensorDesc) -> Input {
        Input { label: name.to_owned(), desc, is_named: true }
    }
    /// A value that the model does not name: it has no name that nodes of the subgraph could read.
    pub fn internal(label: String, desc: TensorDesc) -> Input {
        Input { label, desc, is_named: false }
    }
    /// The captured values.
    pub fn captured(c: &Captured) -> impl Iterator<Item = Input> + '_ {
        c.inputs.iter().map(|(name, k)| Input::named(name, k.desc.as_ref().clone()))
    }
}

/// Begins a subgraph and makes its inputs. Returns their values in order.
pub fn open(
    im: &mut Importer<'_>,
    graph_name: &str,
    ins: &[Input],
    constants: &[(String, Known)],
) -> (Building, Vec<ValueRef>) {
    let mut b = Building::new();
    let mut values = Vec::with_capacity(ins.len());
    for (i, Input { label, desc, is_named }) in ins.iter().enumerate() {
        let node = im.take_name(&format!("{graph_name}/{label}"));
        let v = b.builder.data(&node, i as u32, desc.clone());
        if *is_named {
            b.scope.insert(label.clone(), Known::new(v, desc.clone()));
        }
        values.push(v);
    }
    b.scope.extend(constants.iter().cloned());
    (b, values)
}

/// Outputs of a body that passes these inputs on unchanged.
pub fn passed_on<'i>(ins: &'i [Input], values: &'i [ValueRef]) -> impl Iterator<Item = (String, ValueRef)> + 'i {
    ins.iter().zip(values).map(|(i, v)| (i.label.clone(), *v))
}

/// Makes a node of a plain operator, named like `what`, and returns its output.
pub fn node(b: &mut Building, im: &mut Importer<'_>, op: &str, given: &[ValueRef], what: &str) -> ValueRef {
    let own = im.take_name(what);
    b.builder.node(op).name(&own).inputs(given).build()
}

/// Makes the condition graph of loop `name`, whose values begin with the turn and the number of
/// turns. Returns the graph's name.
pub fn counted(im: &mut Importer<'_>, name: &str, ins: &[Input]) -> String {
    let cond_name = im.graph_name(name, "cond");
    let (mut b, values) = open(im, &cond_name, ins, &[]);
    let go = node(&mut b, im, "Less", &values[..2], &format!("{cond_name}/Less"));
    b.builder.outputs(&[("cond".to_owned(), go)]);
    im.finish(cond_name.clone(), b);
    cond_name
}
/// The part of a carried value's descriptor that holds in every turn: kind, type and rank.
pub fn loosened(d: &TensorDesc) -> TensorDesc {
    TensorDesc { container: d.container, dtype: d.dtype, ..desc_of_rank(d.shape.rank()) }
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
    let turns = Turns::of(im, &[&then.node, &other.node], env);
    let ins: Vec<Input> = turns.input(name).into_iter().chain(Input::captured(&captured)).collect();
    let mut names = Vec::new();
    for (role, sub) in [("then", then), ("else", other)] {
        let gn = im.graph_name(name, role);
        let (mut b, values) = open(im, &gn, &ins, &captured.constants);
        let turn = turns.given().and_then(|_| values.first().copied());
        body(im, sub, &mut b, &Env { turn, ..env.clone() })?;
        let mut outs = Vec::new();
        for o in &sub.output {
            outs.push((o.name.clone(), im.read_value(&mut b, &o.name)?.value));
        }
        b.builder.outputs(&outs);
        im.finish(gn.clone(), b);
        names.push(gn);
    }
    let count = n.output.len();
    let values: Vec<ValueRef> = turns.given().into_iter().chain(captured.inputs.iter().map(|(_, k)| k.value)).collect();
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

/// The descriptor of a value that a subgraph returns; it is marked as a sequence or an optional if
/// it is declared as one.
pub fn told(output: &ValueInfoProto, desc: TensorDesc) -> TensorDesc {
    match inputs::declared(output) {
        Ok(d) if d.container != Container::TENSOR => TensorDesc { container: d.container, ..TensorDesc::unknown() },
        _ => desc,
    }
}

/// Imports the nodes of a subgraph whose inputs are already in scope.
pub fn body(im: &mut Importer<'_>, sub: &GraphProto, b: &mut Building, env: &Env<'_>) -> Result<()> {
    im.initializers(sub, b)?;
    let env = Env { prefix: env.prefix.clone(), rename: None, depth: env.depth + 1, ..env.clone() };
    im.nodes(&sub.node, b, &env)
}

/// Makes a constant with a unique name.
pub fn scalar(b: &mut Building, im: &mut Importer<'_>, name: &str, t: Option<ConstTensor>) -> ValueRef {
    let name = im.take_name(name);
    t.map_or(ValueRef::ABSENT, |t| b.builder.constant(&name, t))
}

/// The descriptor of a sequence that has no tensor yet.
pub fn sequence() -> TensorDesc {
    TensorDesc { container: Container::SEQ, ..TensorDesc::unknown() }
}

/// Makes a loop over these values; the last argument names its condition graph and its body graph.
pub fn while_node(g: &mut Building, name: &str, values: &[ValueRef], (condition, body): (&str, &str)) -> Vec<ValueRef> {
    let graph = |name: &str| AttrValue::Graph(name.into());
    let node = g.builder.node("While").name(name).inputs(values);
    node.attr("cond", graph(condition)).attr("body", graph(body)).build_n(values.len())
}

/// Makes an empty sequence for the body result `output`. Its declared shape is all that is known if
/// no turn is executed.
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

/// Appends a tensor to the sequence `list`, which is labelled `label`.
pub fn grown(b: &mut Building, im: &mut Importer<'_>, label: &str, [list, tensor]: [ValueRef; 2]) -> ValueRef {
    node(b, im, "SequenceInsert", &[list, tensor], &format!("{label}/insert"))
}

/// Stacks the tensors of a sequence into one tensor.
pub fn stacked(g: &mut Building, im: &mut Importer<'_>, name: &str, list: ValueRef, axis: i64) -> Known {
    let own = im.take_name(name);
    let v =
        g.builder.node("ConcatFromSequence").name(&own).input(list).attr("axis", axis).attr("new_axis", 1i64).build();
    Known::new(v, TensorDesc::unknown())
}
