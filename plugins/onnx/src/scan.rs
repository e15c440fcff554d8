//! `Scan`: its body is unrolled for each slice of its inputs, and the outputs are
//! joined again. If the length is not known when the model is read, it becomes a `While` over
//! `turn, length, carried..., parts..., rows..., captured...`, where the parts are sequences.
//!
//! Before opset 9, all inputs have a batch as their first axis, and each item is scanned by itself:
//! this becomes a scan over the items, whose body is a scan of the newer form.
use crate::control::{self, Input, capture, graph, node, scalar};
use crate::free;
use crate::import::{Building, Env, Importer, domain};
use crate::proto::{AttributeProto, GraphProto, NodeProto, ValueInfoProto};
use crate::random::Turns;
use crate::scope::Known;
use crate::unroll::turn;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::{ConstTensor, DType, Shape, TensorDesc, ValueRef};

type Attrs<'a, 'n> = &'a [(&'n str, &'n AttributeProto)];

/// Element `k` of a list attribute, or 0.
fn number(attrs: Attrs<'_, '_>, key: &str, k: usize) -> i64 {
    let list = attrs.iter().find(|(name, _)| *name == key).map_or(&[][..], |(_, a)| a.ints.as_slice());
    list.get(k).copied().unwrap_or(0)
}

/// An attribute that only the form of opset 9 and newer has.
const NEWER: &str = "scan_input_axes";

/// The scan over the items of a batch that a scan before opset 9 stands for.
fn over_items(n: &NodeProto, name: &str, attrs: Attrs<'_, '_>, sub: &GraphProto) -> NodeProto {
    let mut own = format!("{name}/");
    // The body may read outer values, whose names must not begin like those made here.
    while free::captured(sub).iter().any(|outer| outer.starts_with(&own)) {
        own.push('_');
    }
    let named = |what: &str, count: usize| (0..count).map(|k| format!("{own}{what}{k}")).collect::<Vec<_>>();
    let values = |names: &[String]| names.iter().map(|n| ValueInfoProto { name: n.clone(), r#type: None }).collect();
    let ints = |key: &str, ints: Vec<i64>| AttributeProto { name: key.into(), r#type: 7, ints, ..Default::default() };
    let body = |g: GraphProto| AttributeProto { name: "body".into(), r#type: 5, g: Some(g), ..Default::default() };
    let whole = |i: i64| AttributeProto { name: "num_scan_inputs".into(), r#type: 2, i, ..Default::default() };
    let given = |key: &str| attrs.iter().find(|(name, _)| *name == key).map(|(_, a)| *a);
    let inputs = n.input.get(1..).unwrap_or_default().to_vec();
    let (ins, outs) = (named("item", inputs.len()), named("made", sub.output.len()));
    let scan = |name: String, input: Vec<String>, output: Vec<String>, attribute: Vec<AttributeProto>| NodeProto {
        op_type: "Scan".into(),
        name,
        input,
        output,
        attribute,
        ..Default::default()
    };
    let directions = given("directions").map_or_else(Vec::new, |a| a.ints.clone());
    let slices = given("num_scan_inputs").map_or(0, |a| a.i);
    let own = vec![body(sub.clone()), whole(slices), ints("scan_input_directions", directions), ints(NEWER, vec![])];
    let graph = GraphProto {
        name: format!("{name}/item"),
        input: values(&ins),
        output: values(&outs),
        node: vec![scan(format!("{name}/item"), ins.clone(), outs, own)],
        ..Default::default()
    };
    let items = vec![body(graph), whole(inputs.len() as i64), ints(NEWER, vec![])];
    scan(n.name.clone(), inputs, n.output.clone(), items)
}

/// Imports a `Scan` node and returns its outputs.
pub fn import(
    im: &mut Importer<'_>,
    n: &NodeProto,
    name: &str,
    attrs: Attrs<'_, '_>,
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    let sub = graph(im, n, name, attrs, "body")?;
    let dom = domain(&n.domain);
    let version = env.opsets.get(dom).copied();
    let refuse = |im: &Importer<'_>, why: &str, remedy: &str| {
        let mut e = im.refuse(n, name, dom, version, why);
        e.diagnostics.iter_mut().for_each(|d| d.help = remedy.into());
        e
    };
    if version.is_some_and(|v| v < 9) && !attrs.iter().any(|(key, _)| *key == NEWER) {
        if n.input.first().is_some_and(|lengths| !lengths.is_empty()) {
            let why = "each item of its batch has a length of its own (`sequence_lens`)";
            return Err(refuse(im, why, "convert the model to opset 9 or newer"));
        }
        let items = over_items(n, name, attrs, sub);
        let attrs: Vec<_> = items.attribute.iter().map(|a| (a.name.as_str(), a)).collect();
        return import(im, &items, name, &attrs, g, env);
    }
    let slices = attrs.iter().find(|(key, _)| *key == "num_scan_inputs").map_or(0, |(_, a)| a.i);
    let slices = usize::try_from(slices).ok().filter(|s| *s > 0 && *s <= n.input.len());
    let carried = slices.map_or(0, |s| n.input.len() - s);
    let fits = sub.input.len() == n.input.len() && sub.output.len() >= carried.max(n.output.len());
    let Some(slices) = slices.filter(|_| fits) else {
        return Err(im.refuse(n, name, dom, version, "its body's inputs or outputs do not fit its own"));
    };
    let mut values = Vec::with_capacity(n.input.len());
    for s in &n.input {
        values.push(im.read_value(g, s)?);
    }
    let mut rows = values.split_off(carried);
    let mut state = values;
    let sizes: Vec<Option<u64>> =
        rows.iter().enumerate().map(|(k, v)| axis_of(&v.desc, number(attrs, "scan_input_axes", k))).collect();
    let first = sizes.iter().position(Option::is_some);
    let length = first.and_then(|k| sizes[k]);
    if let Some((k, other)) = sizes.iter().enumerate().find(|(_, s)| s.is_some() && **s != length) {
        let said = |k: usize, size: Option<u64>| {
            let axis = number(attrs, "scan_input_axes", k);
            format!("`{}` has {} along axis {axis}", n.input[carried + k], size.unwrap_or_default())
        };
        let why = format!(
            "the inputs that it scans differ in length: {}, {}",
            said(first.unwrap_or_default(), length),
            said(k, *other)
        );
        return Err(refuse(im, &why, "give it inputs of one length, or cut the longer one with `Slice`"));
    }
    // One of the lengths decides; those not known here must equal it.
    let by = first.unwrap_or(0);
    for k in (0..rows.len()).filter(|k| *k != by && sizes[*k].is_none()) {
        let names = [&n.input[carried + k], &n.input[carried + by]];
        rows[k] = of_one_length(im, g, name, attrs, (&rows[k], k), (&rows[by], by), names);
    }
    let length = length.and_then(|l| usize::try_from(l).ok());
    let unrolled = length.and_then(|l| Some((l, env.unrolled.take(im, sub, l)?)));
    let Some((length, share)) = unrolled else {
        return repeat(im, name, attrs, sub, (state, rows), g, env);
    };
    let captured = capture(im, g, &[sub])?;
    let turns = Turns::of(im, &[&sub.node], env);
    let mut parts: Vec<Vec<ValueRef>> = vec![Vec::new(); sub.output.len() - carried];
    for k in 0..length {
        let mut given = state.clone();
        for (j, row) in rows.iter().enumerate() {
            let back = number(attrs, "scan_input_directions", j) == 1;
            let at = if back { length - 1 - k } else { k };
            let axis = number(attrs, "scan_input_axes", j);
            given.push(slice(im, g, row, (at, axis), &format!("{name}/{k}/slice{j}")));
        }
        let prefix = format!("{}{name}/{k}/", env.prefix);
        let number = turns.unrolled(im, g, k, &format!("{name}/{k}"));
        let made = env.unrolled.turn(share, |unrolled| {
            turn(im, sub, given, &captured, g, &Env { prefix, unrolled, turn: number, ..env.clone() })
        })?;
        for (p, o) in parts.iter_mut().zip(&made[carried..]) {
            p.push(o.value);
        }
        state = made[..carried].to_vec();
    }
    debug_assert_eq!(rows.len(), slices);
    Ok(joined(im, g, name, attrs, state, parts))
}

/// A scan whose length is known only in the run: a loop, each turn of which takes the slice with
/// its number.
fn repeat(
    im: &mut Importer<'_>,
    name: &str,
    attrs: Attrs<'_, '_>,
    sub: &GraphProto,
    (state, rows): (Vec<Known>, Vec<Known>),
    g: &mut Building,
    env: &Env<'_>,
) -> Result<Vec<Known>> {
    let captured = capture(im, g, &[sub])?;
    let carried = state.len();
    let parts = sub.output.len() - carried;
    let i64s = TensorDesc::new(DType::I64, Shape::scalar());
    let own = |what: &str, k: usize| format!("{name}/{what}{k}");
    let mut ins = vec![Input::internal(own("turn", 0), i64s.clone()), Input::internal(own("length", 0), i64s)];
    for (i, k) in sub.input[..carried].iter().zip(&state) {
        ins.push(Input::named(&i.name, control::loosened(&k.desc)));
    }
    let first_part = ins.len();
    ins.extend((0..parts).map(|k| Input::internal(own("part", k), control::sequence())));
    let first_row = ins.len();
    ins.extend(rows.iter().enumerate().map(|(k, r)| Input::internal(own("row", k), r.desc.as_ref().clone())));
    let turns = Turns::of(im, &[&sub.node], env);
    let outer_turn = ins.len();
    ins.extend(turns.input(name));
    ins.extend(Input::captured(&captured));
    let cond_name = control::counted(im, name, &ins);
    let body_name = im.graph_name(name, "body");
    let (mut b, given) = control::open(im, &body_name, &ins, &captured.constants);
    let (i, l) = (given[0], given[1]);
    let one = scalar(&mut b, im, &format!("{body_name}/one"), ConstTensor::of(&[], &[1i64]));
    let next = node(&mut b, im, "Add", &[i, one], &format!("{body_name}/next"));
    for (k, rows) in rows.iter().enumerate() {
        let index = if number(attrs, "scan_input_directions", k) == 1 {
            node(&mut b, im, "Sub", &[l, next], &format!("{body_name}/back{k}"))
        } else {
            i
        };
        let axis = scalar(&mut b, im, &own("axis", k), ConstTensor::of(&[], &[number(attrs, "scan_input_axes", k)]));
        let row = given[first_row + k];
        let v = node(&mut b, im, "GatherV2", &[row, index, axis], &format!("{body_name}/slice{k}"));
        let rank = rows.desc.shape.rank().and_then(|r| r.checked_sub(1));
        b.scope.insert(sub.input[carried + k].name.clone(), Known::new(v, crate::ranks::desc_of_rank(rank)));
    }
    let outer = turns.given().map(|_| given[outer_turn]);
    let turn = turns.within(im, &mut b, (outer, i), &body_name);
    control::body(im, sub, &mut b, &Env { turn, ..env.clone() })?;
    let mut outs = vec![("turn".to_owned(), next), ("length".to_owned(), l)];
    for o in &sub.output[..carried] {
        outs.push((o.name.clone(), im.read_value(&mut b, &o.name)?.value));
    }
    for (k, o) in sub.output[carried..].iter().enumerate() {
        let slice = im.read_value(&mut b, &o.name)?.value;
        // An output that is joined in reverse order grows at its front.
        let mut insert = vec![given[first_part + k], slice];
        if number(attrs, "scan_output_directions", k) == 1 {
            insert.push(scalar(&mut b, im, &own("front", k), ConstTensor::of(&[], &[0i64])));
        }
        outs.push((o.name.clone(), node(&mut b, im, "SequenceInsert", &insert, &format!("{body_name}/insert{k}"))));
    }
    outs.extend(control::passed_on(&ins[first_row..], &given[first_row..]));
    b.builder.outputs(&outs);
    im.finish(body_name.clone(), b);

    // All scanned inputs have one length: that of the first along its axis.
    let shape_name = im.take_name(&own("shape", 0));
    let shape = g
        .builder
        .node("Shape")
        .name(&shape_name)
        .input(rows[0].value)
        .attr("dtype", DType::I64)
        .attr("start", 0i64)
        .build();
    let axis = scalar(g, im, &own("first_axis", 0), ConstTensor::of(&[], &[number(attrs, "scan_input_axes", 0)]));
    let zero = scalar(g, im, &own("zero", 0), ConstTensor::of(&[], &[0i64]));
    let length = node(g, im, "GatherV2", &[shape, axis, zero], &own("length", 0));
    let mut values = vec![zero, length];
    values.extend(state.iter().map(|k| k.value));
    for k in 0..parts {
        values.push(control::empty(g, im, &own("part", k), &sub.output[carried + k]));
    }
    values.extend(rows.iter().map(|k| k.value));
    values.extend(turns.given());
    values.extend(captured.inputs.iter().map(|(_, k)| k.value));
    let outs = control::while_node(g, name, &values, (&cond_name, &body_name));
    let mut all: Vec<Known> =
        (0..carried).map(|k| Known::new(outs[2 + k], control::loosened(&state[k].desc))).collect();
    for k in 0..parts {
        let axis = number(attrs, "scan_output_axes", k);
        all.push(control::stacked(g, im, &own("scan", k), outs[2 + carried + k], axis));
    }
    Ok(all)
}

/// The carried values, then the joined slices of each output.
fn joined(
    im: &mut Importer<'_>,
    g: &mut Building,
    name: &str,
    attrs: Attrs<'_, '_>,
    state: Vec<Known>,
    parts: Vec<Vec<ValueRef>>,
) -> Vec<Known> {
    let carried = state.len();
    let mut out = state;
    for (j, mut p) in parts.into_iter().enumerate() {
        if number(attrs, "scan_output_directions", j) == 1 {
            p.reverse();
        }
        let own = if carried + j == 0 { name.to_owned() } else { im.take_name(&format!("{name}/scan{j}")) };
        let axis = number(attrs, "scan_output_axes", j);
        let v = g.builder.node("Pack").name(&own).inputs(&p).attr("axis", axis).attr("N", p.len() as i64).build();
        out.push(Known::new(v, TensorDesc::unknown()));
    }
    out
}

/// A scanned input whose length must be that of another one, which is found out later.
fn of_one_length(
    im: &mut Importer<'_>,
    g: &mut Building,
    name: &str,
    attrs: Attrs<'_, '_>,
    (x, k): (&Known, usize),
    (like, by): (&Known, usize),
    [own, other]: [&String; 2],
) -> Known {
    let node_name = im.take_name(&format!("{name}/length{k}"));
    let v = g
        .builder
        .node("SameSize")
        .name(&node_name)
        .inputs(&[x.value, like.value])
        .attr("axis", number(attrs, "scan_input_axes", k))
        .attr("like_axis", number(attrs, "scan_input_axes", by))
        .attr("what", format!("length of `{own}`, which `{name}` scans with `{other}`").as_str())
        .build();
    Known { value: v, ..x.clone() }
}

fn axis_of(d: &TensorDesc, axis: i64) -> Option<u64> {
    let rank = d.shape.rank()?;
    let at = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok()?;
    d.shape.dims().get(at)?.size()
}

/// Slice `at` of a value along an axis; the slice does not have that axis.
fn slice(im: &mut Importer<'_>, g: &mut Building, v: &Known, (at, axis): (usize, i64), name: &str) -> Known {
    let index = scalar(g, im, &format!("{name}/index"), ConstTensor::of(&[], &[at as i64]));
    let axis_value = scalar(g, im, &format!("{name}/axis"), ConstTensor::of(&[], &[axis]));
    let own = im.take_name(name);
    let made = g.builder.node("GatherV2").name(&own).input(v.value).input(index).input(axis_value).build();
    let rank = v.desc.shape.rank().and_then(|r| r.checked_sub(1));
    Known::new(made, crate::ranks::desc_of_rank(rank))
}
