//! `Scan` (of opset 9 on): its body written out once for each slice of its inputs, outputs joined again. That needs a length that is
//! known when the model is read.
use crate::control::{UNROLL, capture, graph, scalar, turn};
use crate::import::{Building, Env, Importer, domain};
use crate::proto::{AttributeProto, NodeProto};
use crate::scope::Known;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::types::{ConstTensor, TensorDesc, ValueRef};

type Attrs<'a, 'm> = &'a [(&'m str, &'m AttributeProto)];

/// Element `k` of a list of numbers, or 0.
fn number(attrs: Attrs<'_, '_>, key: &str, k: usize) -> i64 {
    let list = attrs.iter().find(|(name, _)| *name == key).map_or(&[][..], |(_, a)| a.ints.as_slice());
    list.get(k).copied().unwrap_or(0)
}

/// Imports such a node; its outputs.
pub fn import<'m>(
    im: &mut Importer<'m>,
    n: &'m NodeProto,
    name: &str,
    attrs: Attrs<'_, 'm>,
    g: &mut Building,
    env: &Env<'m>,
) -> Result<Vec<Known>> {
    let sub = graph(im, n, name, attrs, "body")?;
    let dom = domain(&n.domain);
    let version = env.opsets.get(dom).copied();
    let refuse = |im: &Importer<'m>, why: &str, remedy: &str| {
        let mut e = im.refuse(n, name, dom, version, why);
        e.diagnostics.iter_mut().for_each(|d| d.help = remedy.into());
        e
    };
    if version.is_some_and(|v| v < 9) {
        return Err(refuse(im, "before opset 9 it has a batch of its own", "convert the model to opset 9 or newer"));
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
    let rows = values.split_off(carried);
    let mut state = values;
    let length = rows.iter().enumerate().find_map(|(k, v)| axis_of(&v.desc, number(attrs, "scan_input_axes", k)));
    let Some(length) = length.and_then(|l| usize::try_from(l).ok()) else {
        let why = "no size of what it goes through is known when the model is read";
        return Err(refuse(
            im,
            why,
            "give the model's inputs sizes with `--input-shape`, or run ONNX's shape inference on it",
        ));
    };
    if length == 0 || length.saturating_mul(sub.node.len().max(1)) > UNROLL {
        let why = format!("{length} turns of {} nodes are written out to none or more than {UNROLL}", sub.node.len());
        return Err(refuse(im, &why, "split it into shorter ones"));
    }
    let captured = capture(im, g, &[sub])?;
    let mut parts: Vec<Vec<ValueRef>> = vec![Vec::new(); sub.output.len() - carried];
    for k in 0..length {
        let mut given = state.clone();
        for (j, row) in rows.iter().enumerate() {
            let back = number(attrs, "scan_input_directions", j) == 1;
            let at = if back { length - 1 - k } else { k };
            let axis = number(attrs, "scan_input_axes", j);
            given.push(slice(im, g, row, (at, axis), &format!("{name}/{k}/slice{j}")));
        }
        let env = Env { prefix: format!("{}{name}/{k}/", env.prefix), ..env.clone() };
        let made = turn(im, sub, given, &captured, g, &env)?;
        for (p, o) in parts.iter_mut().zip(&made[carried..]) {
            p.push(o.value);
        }
        state = made[..carried].to_vec();
    }
    debug_assert_eq!(rows.len(), slices);
    Ok(joined(im, g, name, attrs, state, parts))
}

/// The carried values, then each output's slices as one.
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

fn axis_of(d: &TensorDesc, axis: i64) -> Option<u64> {
    let rank = d.shape.rank()?;
    let at = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok()?;
    d.shape.dims().get(at)?.size()
}

/// Slice `at` of a value along an axis, which is gone then.
fn slice(im: &mut Importer<'_>, g: &mut Building, v: &Known, (at, axis): (usize, i64), name: &str) -> Known {
    let index = scalar(g, im, &format!("{name}/index"), ConstTensor::of(&[], &[at as i64]));
    let axis_value = scalar(g, im, &format!("{name}/axis"), ConstTensor::of(&[], &[axis]));
    let own = im.take_name(name);
    let made = g.builder.node("GatherV2").name(&own).input(v.value).input(index).input(axis_value).build();
    let rank = v.desc.shape.rank().and_then(|r| r.checked_sub(1));
    Known::new(made, crate::ranks::desc_of_rank(rank))
}
