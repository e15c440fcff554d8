//! `SequenceMap`: becomes a `While` over `turn, length, made..., given..., captured...`. Each turn
//! takes the element with its number from each sequence and appends the results of the body to the
//! output sequences.
use crate::control::{self, Input, capture, graph, node, scalar};
use crate::import::{Building, Env, Importer, domain};
use crate::proto::{AttributeProto, NodeProto};
use crate::random::Turns;
use crate::scope::Known;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{ConstTensor, DType, Shape, TensorDesc};
use std::rc::Rc;

/// Imports a `SequenceMap` node and returns its outputs.
pub fn import(
    im: &mut Importer<'_>,
    n: &NodeProto,
    name: &str,
    attrs: &[(&str, &AttributeProto)],
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    let sub = graph(im, n, name, attrs, "body")?;
    if n.input.is_empty() || sub.input.len() != n.input.len() || sub.output.len() < n.output.len() {
        let dom = domain(&n.domain);
        let version = env.opsets.get(dom).copied();
        return Err(im.refuse(n, name, dom, version, "its body's inputs or outputs do not fit its own"));
    }
    let mut given = Vec::with_capacity(n.input.len());
    for s in &n.input {
        given.push(im.read_value(g, s)?);
    }
    // The first input is always a sequence; the others may also be tensors, which every turn gets
    // unchanged.
    Rc::make_mut(&mut given[0].desc).container = Container::SEQ;
    let captured = capture(im, g, &[sub])?;
    let made = n.output.len();
    let i64s = TensorDesc::new(DType::I64, Shape::scalar());
    let own = |what: &str, k: usize| format!("{name}/{what}{k}");
    let mut ins = vec![Input::internal(own("turn", 0), i64s.clone()), Input::internal(own("length", 0), i64s)];
    ins.extend((0..made).map(|k| Input::internal(own("made", k), control::sequence())));
    let first_given = ins.len();
    ins.extend(given.iter().enumerate().map(|(k, v)| Input::internal(own("given", k), v.desc.as_ref().clone())));
    let turns = Turns::of(im, &[&sub.node], env);
    let outer_turn = ins.len();
    ins.extend(turns.input(name));
    ins.extend(Input::captured(&captured));
    let cond_name = control::counted(im, name, &ins);
    let body_name = im.graph_name(name, "body");
    let (mut b, inside) = control::open(im, &body_name, &ins, &captured.constants);
    let (turn, length) = (inside[0], inside[1]);
    for (k, v) in given.iter().enumerate() {
        let whole = inside[first_given + k];
        let known = if v.desc.container == Container::SEQ {
            let element = node(&mut b, im, "SequenceAt", &[whole, turn], &format!("{body_name}/at{k}"));
            Known::new(element, TensorDesc::unknown())
        } else {
            Known::new(whole, v.desc.clone())
        };
        b.scope.insert(sub.input[k].name.clone(), known);
    }
    let outer = turns.given().map(|_| inside[outer_turn]);
    let number = turns.within(im, &mut b, (outer, turn), &body_name);
    control::body(im, sub, &mut b, &Env { turn: number, ..env.clone() })?;
    let one = scalar(&mut b, im, &format!("{body_name}/one"), ConstTensor::of(&[], &[1i64]));
    let next = node(&mut b, im, "Add", &[turn, one], &format!("{body_name}/next"));
    let mut outs = vec![("turn".to_owned(), next), ("length".to_owned(), length)];
    for (k, o) in sub.output.iter().take(made).enumerate() {
        let element = im.read_value(&mut b, &o.name)?.value;
        let list = control::grown(&mut b, im, &own("made", k), [inside[2 + k], element]);
        outs.push((o.name.clone(), list));
    }
    outs.extend(control::passed_on(&ins[first_given..], &inside[first_given..]));
    b.builder.outputs(&outs);
    im.finish(body_name.clone(), b);

    let zero = scalar(g, im, &own("zero", 0), ConstTensor::of(&[], &[0i64]));
    let length = node(g, im, "SequenceLength", &[given[0].value], &own("length", 0));
    let mut values = vec![zero, length];
    for k in 0..made {
        values.push(control::empty(g, im, &own("made", k), &sub.output[k]));
    }
    values.extend(given.iter().map(|k| k.value));
    values.extend(turns.given());
    values.extend(captured.inputs.iter().map(|(_, k)| k.value));
    let outs = control::while_node(g, name, &values, (&cond_name, &body_name));
    Ok(outs.into_iter().skip(2).take(made).map(|v| Known::new(v, control::sequence())).collect())
}
