//! `If`, `Loop`, `Scan` and `SequenceMap`: subgraphs with captured outer values as inputs.
//!
//! * `If` becomes `If(cond, captured...)`; both branches get every value that either reads,
//!   constants are copied in instead.
//! * `Loop` becomes `While` over `iteration, condition, carried..., scans..., bound, captured...`.
//!   A loop with scan outputs is written out when its count is a constant and its condition stays
//!   true (at most `UNROLL` nodes); else each of them is carried as a sequence, to which a turn
//!   adds its slice and which is joined behind the loop.
//! * `Scan` is written out in the same way, or becomes such a `While` (`scan`), `SequenceMap` always
//!   does (`sequence_map`).
use crate::free;
use crate::import::{Building, Env, Importer, domain};
use crate::inputs;
use crate::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto};
use crate::ranks::desc_of_rank;
use crate::scope::Known;
use crate::unroll::{turns, unroll};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{AttrValue, ConstTensor, DType, Dim, Shape, TensorDesc, ValueRef};

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
        "Loop" => repeat(im, n, name, attrs, g, env),
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
    for name in graphs.iter().flat_map(|g| free::captured(g)) {
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
fn told(output: &ValueInfoProto, desc: TensorDesc) -> TensorDesc {
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

fn repeat(
    im: &mut Importer<'_>,
    n: &NodeProto,
    name: &str,
    attrs: &[(&str, &AttributeProto)],
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    let sub = graph(im, n, name, attrs, "body")?;
    let dom = domain(&n.domain);
    let carried = n.input.len().saturating_sub(2);
    if sub.input.len() < 2 + carried || sub.output.len() < 1 + carried || n.output.len() > sub.output.len() - 1 {
        return Err(im.refuse(
            n,
            name,
            dom,
            env.opsets.get(dom).copied(),
            "its body's inputs or outputs do not fit its own",
        ));
    }
    let given = |i: usize| n.input.get(i).filter(|s| !s.is_empty());
    let bound = match given(0) {
        Some(s) => Some(im.read_value(g, s)?),
        None => None,
    };
    let cond = match given(1) {
        Some(s) => Some(im.read_value(g, s)?),
        None => None,
    };
    let mut state = Vec::new();
    for s in n.input.iter().skip(2) {
        state.push(im.read_value(g, s)?);
    }
    let scans = n.output.len().saturating_sub(carried);
    let scanned = n.output.iter().skip(carried).any(|o| !o.is_empty());
    if scanned {
        if let Some(count) = turns(sub, bound.as_ref(), cond.as_ref()) {
            return unroll(im, name, sub, count, state, g, env);
        }
    }
    if bound.is_none() && cond.is_none() {
        return Err(im.refuse(n, name, dom, env.opsets.get(dom).copied(), "a loop without bound and condition"));
    }
    let captured = capture(im, g, &[sub])?;
    // The state of the While: iteration, condition, carried values, bound, captured values.
    let (i64s, bools) = (TensorDesc::new(DType::I64, Shape::scalar()), TensorDesc::new(DType::BOOL, Shape::scalar()));
    let mut ins = vec![(sub.input[0].name.clone(), i64s.clone()), (sub.input[1].name.clone(), bools)];
    for (i, k) in sub.input[2..2 + carried].iter().zip(&state) {
        ins.push((i.name.clone(), loosened(&k.desc)));
    }
    let lists = if scanned { scans } else { 0 };
    let list_name = |k: usize| format!("{name}/scan{k}/list");
    ins.extend((0..lists).map(|k| (list_name(k), sequence())));
    let bound_name = format!("{name}/bound");
    if bound.is_some() {
        ins.push((bound_name.clone(), i64s));
    }
    ins.extend(captured.inputs.iter().map(|(n, k)| (n.clone(), k.desc.as_ref().clone())));

    let cond_name = im.graph_name(name, "cond");
    let mut b = open(im, &cond_name, &ins, &[]);
    let (iter, go) = (at(&b, &ins[0].0), at(&b, &ins[1].0));
    let test = if bound.is_some() {
        let limit = at(&b, &bound_name);
        let less_name = im.take_name(&format!("{cond_name}/Less"));
        let less = b.builder.node("Less").name(&less_name).input(iter).input(limit).build();
        let and_name = im.take_name(&format!("{cond_name}/And"));
        b.builder.node("LogicalAnd").name(&and_name).input(less).input(go).build()
    } else {
        go
    };
    b.builder.outputs(&[("cond".to_owned(), test)]);
    im.finish(cond_name.clone(), b);

    let body_name = im.graph_name(name, "body");
    let mut b = open(im, &body_name, &ins, &captured.constants);
    body(im, sub, &mut b, env)?;
    let one = scalar(&mut b, im, &format!("{body_name}/one"), ConstTensor::of(&[], &[1i64]));
    let next_name = im.take_name(&format!("{body_name}/next"));
    let iter = at(&b, &ins[0].0);
    let next = b.builder.node("Add").name(&next_name).input(iter).input(one).build();
    let mut outs = vec![("iteration".to_owned(), next)];
    for o in sub.output.iter().take(1 + carried) {
        outs.push((o.name.clone(), im.read_value(&mut b, &o.name)?.value));
    }
    for (k, o) in sub.output.iter().skip(1 + carried).take(lists).enumerate() {
        let slice = im.read_value(&mut b, &o.name)?.value;
        outs.push((o.name.clone(), grown(&mut b, im, &list_name(k), slice)));
    }
    for (name, _) in ins.iter().skip(2 + carried + lists) {
        outs.push((name.clone(), at(&b, name)));
    }
    b.builder.outputs(&outs);
    im.finish(body_name.clone(), b);

    let zero = scalar(g, im, &format!("{name}/zero"), ConstTensor::of(&[], &[0i64]));
    let start = match &cond {
        Some(k) => k.value,
        None => scalar(g, im, &format!("{name}/true"), ConstTensor::of(&[], &[true])),
    };
    let mut values = vec![zero, start];
    values.extend(state.iter().map(|k| k.value));
    for k in 0..lists {
        values.push(empty(g, im, &list_name(k), &sub.output[1 + carried + k]));
    }
    values.extend(bound.iter().map(|k| k.value));
    values.extend(captured.inputs.iter().map(|(_, k)| k.value));
    let outs = while_node(g, name, &values, (&cond_name, &body_name));
    let lists: Vec<ValueRef> = outs[2 + carried..2 + carried + lists].to_vec();
    let kept = outs.into_iter().skip(2).zip(&state).zip(&sub.output[1..]);
    let mut all: Vec<Known> = kept.map(|((v, k), o)| Known::new(v, told(o, loosened(&k.desc)))).collect();
    for (k, l) in lists.into_iter().enumerate() {
        all.push(stacked(g, im, &format!("{name}/scan{k}"), l, 0));
    }
    Ok(all)
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
