//! `Loop`: becomes `While` over `iteration, condition, carried..., scans..., bound, captured...`. A
//! loop with scan outputs is unrolled if its count is a constant and its condition stays true (up
//! to `UNROLL` nodes). Otherwise each scan output is carried as a sequence; each turn appends its
//! slice, and the slices are joined after the loop.
//!
//! In the standard, the turn, the bound and the conditions are scalars. Exporters write one-element
//! tensors of any rank, so a body gets its turn and its condition with the rank that it declares.
use crate::control::{
    Input, body, capture, empty, graph, grown, loosened, node, open, passed_on, scalar, sequence, stacked, told,
    while_node,
};
use crate::import::{Building, Env, Importer, domain, is_standard};
use crate::inputs;
use crate::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto};
use crate::random::Turns;
use crate::scope::Known;
use crate::unroll::{turns, unroll};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::{ConstTensor, DType, Shape, TensorDesc, ValueRef};
use std::collections::HashMap;

/// The rank that a body declares for a one-element value; 0 if it declares nothing.
pub fn declared_rank(value: Option<&ValueInfoProto>) -> usize {
    value.and_then(|v| inputs::declared(v).ok()?.shape.rank()).unwrap_or(0)
}

/// A one-element value with `rank` axes; it is reshaped unless its rank is known to match. `what`
/// names the value where it has more or fewer elements.
fn of_rank(im: &mut Importer<'_>, b: &mut Building, k: &Known, rank: usize, (name, what): (&str, &str)) -> Known {
    if k.desc.shape.rank() == Some(rank) {
        return k.clone();
    }
    let shape = scalar(b, im, &format!("{name}/shape"), ConstTensor::of(&[rank as u64], &vec![1i64; rank]));
    let own = im.take_name(name);
    let v = b.builder.node("Reshape").name(&own).inputs(&[k.value, shape]).attr("what", what).build();
    Known::new(v, TensorDesc::new(k.desc.dtype, Shape::of(&vec![1; rank])))
}

/// Maximum number of successive `Identity` nodes followed for a value.
const MOST_COPIES: usize = 8;

/// For each carried value, whether the body passes it on unchanged.
fn handed_on(sub: &GraphProto, carried: usize) -> Vec<bool> {
    let copies = sub.node.iter().filter(|n| is_standard(n, "Identity"));
    let copies: HashMap<&str, &str> =
        copies.filter_map(|n| Some((n.output.first()?.as_str(), n.input.first()?.as_str()))).collect();
    let is_handed_on = |k: usize| {
        let (given, mut back) = (sub.input[2 + k].name.as_str(), sub.output[1 + k].name.as_str());
        let mut left = MOST_COPIES;
        while let Some(from) = copies.get(back).filter(|_| left > 0 && back != given) {
            (back, left) = (*from, left - 1);
        }
        back == given
    };
    (0..carried).map(is_handed_on).collect()
}

/// Imports a `Loop` node and returns its outputs.
pub fn import(
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
        if let Some(count) = turns(sub, bound.as_ref(), cond.as_ref())
            && let Some(share) = env.unrolled.take(im, sub, count)
        {
            return unroll(im, name, sub, (count, share), state, g, env);
        }
    }
    if bound.is_none() && cond.is_none() {
        return Err(im.refuse(n, name, dom, env.opsets.get(dom).copied(), "a loop without bound and condition"));
    }
    let bound =
        bound.map(|k| of_rank(im, g, &k, 0, (&format!("{name}/limit"), &format!("number of turns of `{name}`"))));
    let cond = cond.map(|k| of_rank(im, g, &k, 0, (&format!("{name}/go"), &format!("condition of `{name}`"))));
    let mut captured = capture(im, g, &[sub])?;
    // Constants that no turn changes become constants of the body.
    let same = handed_on(sub, carried);
    let (fixed, changing): (Vec<usize>, Vec<usize>) =
        (0..carried).partition(|k| same[*k] && state[*k].constant.is_some());
    for k in fixed {
        let constant = Known { value: ValueRef::ABSENT, ..state[k].clone() };
        captured.constants.push((sub.input[2 + k].name.clone(), constant));
    }
    // The state of the While: iteration, condition, carried values, lists, bound, captured values.
    let (i64s, bools) = (TensorDesc::new(DType::I64, Shape::scalar()), TensorDesc::new(DType::BOOL, Shape::scalar()));
    let mut ins = vec![Input::named(&sub.input[0].name, i64s.clone()), Input::named(&sub.input[1].name, bools)];
    ins.extend(changing.iter().map(|k| Input::named(&sub.input[2 + k].name, loosened(&state[*k].desc))));
    let first_list = ins.len();
    let lists = if scanned { scans } else { 0 };
    let list_name = |k: usize| format!("{name}/scan{k}/list");
    ins.extend((0..lists).map(|k| Input::internal(list_name(k), sequence())));
    let first_same = ins.len();
    ins.extend(bound.iter().map(|_| Input::internal(format!("{name}/bound"), i64s.clone())));
    let turns = Turns::of(im, &[&sub.node], env);
    let outer_turn = ins.len();
    ins.extend(turns.input(name));
    ins.extend(Input::captured(&captured));

    let cond_name = im.graph_name(name, "cond");
    let (mut b, values) = open(im, &cond_name, &ins, &[]);
    let (iter, go) = (values[0], values[1]);
    let test = if bound.is_some() {
        let less = node(&mut b, im, "Less", &[iter, values[first_same]], &format!("{cond_name}/Less"));
        node(&mut b, im, "LogicalAnd", &[less, go], &format!("{cond_name}/And"))
    } else {
        go
    };
    b.builder.outputs(&[("cond".to_owned(), test)]);
    im.finish(cond_name.clone(), b);

    let body_name = im.graph_name(name, "body");
    let (mut b, values) = open(im, &body_name, &ins, &captured.constants);
    for (input, own) in sub.input.iter().take(2).zip(["iteration", "condition"]) {
        if let Some(k) = b.scope.get(&input.name).cloned() {
            let what = format!("{own} of `{name}`");
            let read =
                of_rank(im, &mut b, &k, declared_rank(Some(input)), (&format!("{body_name}/{own}"), what.as_str()));
            b.scope.insert(input.name.clone(), read);
        }
    }
    let outer = turns.given().map(|_| values[outer_turn]);
    let turn = turns.within(im, &mut b, (outer, values[0]), &body_name);
    body(im, sub, &mut b, &Env { turn, ..env.clone() })?;
    let one = scalar(&mut b, im, &format!("{body_name}/one"), ConstTensor::of(&[], &[1i64]));
    let next = node(&mut b, im, "Add", &[values[0], one], &format!("{body_name}/next"));
    let mut outs = vec![("iteration".to_owned(), next)];
    let mut go = im.read_value(&mut b, &sub.output[0].name)?;
    if go.desc.shape.is_unranked()
        && let Ok(declared) = inputs::declared(&sub.output[0])
    {
        go.desc = declared.into();
    }
    let what = format!("condition of `{name}`");
    let go = of_rank(im, &mut b, &go, 0, (&format!("{body_name}/go"), what.as_str()));
    outs.push((sub.output[0].name.clone(), go.value));
    for o in changing.iter().map(|k| &sub.output[1 + k]) {
        outs.push((o.name.clone(), im.read_value(&mut b, &o.name)?.value));
    }
    for (k, o) in sub.output.iter().skip(1 + carried).take(lists).enumerate() {
        let slice = im.read_value(&mut b, &o.name)?.value;
        let list = grown(&mut b, im, &list_name(k), [values[first_list + k], slice]);
        outs.push((o.name.clone(), list));
    }
    outs.extend(passed_on(&ins[first_same..], &values[first_same..]));
    b.builder.outputs(&outs);
    im.finish(body_name.clone(), b);

    let zero = scalar(g, im, &format!("{name}/zero"), ConstTensor::of(&[], &[0i64]));
    let start = match &cond {
        Some(k) => k.value,
        None => scalar(g, im, &format!("{name}/true"), ConstTensor::of(&[], &[true])),
    };
    let mut values = vec![zero, start];
    values.extend(changing.iter().map(|k| state[*k].value));
    for k in 0..lists {
        values.push(empty(g, im, &list_name(k), &sub.output[1 + carried + k]));
    }
    values.extend(bound.iter().map(|k| k.value));
    values.extend(turns.given());
    values.extend(captured.inputs.iter().map(|(_, k)| k.value));
    let outs = while_node(g, name, &values, (&cond_name, &body_name));
    let (made, gathered) = outs[2..].split_at(changing.len());
    let mut all = state;
    for (k, v) in changing.into_iter().zip(made) {
        all[k] = Known::new(*v, told(&sub.output[1 + k], loosened(&all[k].desc)));
    }
    for (k, l) in gathered.iter().take(lists).enumerate() {
        all.push(stacked(g, im, &format!("{name}/scan{k}"), *l, 0));
    }
    Ok(all)
}
