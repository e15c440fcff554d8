//! Checks operators: inference on the declared types and on nonsense must not panic, must answer as
//! the prototype says, and must give the same answer twice.
use super::{Plain, Probe, Rule, fault};
use crate::handle::OpHandle;
use crate::registry::Registry;
use crate::sample::SampleGraph;
use ge_plugin_api::abi::ROption;
use ge_plugin_api::ops::{AttrKind, AttrSpec, OpProto, ParamKind};
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, DType, Shape, TensorDesc};

/// Types that stand for "any type".
const ANY: &[DType] = &[DType::F32, DType::I64];
/// Maximum number of types that are tried for one operator.
const MOST_TYPES: usize = 32;

pub(super) fn probe(r: &Registry, probe: &mut Probe) {
    for op in r.ops() {
        probe.plain(Rule::C5, &format!("operator {}", op.name()), || try_op(op));
    }
}

/// The shapes that are tried: ordinary, scalar, empty, huge and unknown.
fn shapes() -> Vec<Shape> {
    vec![
        Shape::of(&[2, 3]),
        Shape::of(&[1, 4, 5, 5]),
        Shape::of(&[]),
        Shape::of(&[0, 3]),
        Shape::of(&[1 << 40, 1 << 40]),
        Shape::unranked(),
    ]
}

fn try_op(op: &OpHandle) -> Plain {
    let proto = &op.proto;
    let mut types: Vec<DType> = Vec::new();
    for p in &proto.inputs {
        for t in if p.types.is_empty() { ANY } else { p.types.as_slice() } {
            if !types.contains(t) && types.len() < MOST_TYPES {
                types.push(*t);
            }
        }
    }
    if types.is_empty() {
        types = ANY.to_vec();
    }
    let attrs = attributes(proto);
    for shape in shapes() {
        for t in &types {
            twice(op, &node(proto, *t, &shape, attrs.clone()))?;
        }
    }
    // No attributes, no inputs, absent inputs, and inputs of which nothing is known.
    twice(op, &node(proto, types[0], &Shape::of(&[2, 3]), AttrMap::default()))?;
    twice(op, &SampleGraph::with(&proto.name, Vec::new(), outputs(proto), AttrMap::default()))?;
    twice(op, &SampleGraph::with(&proto.name, vec![None; proto.inputs.len()], outputs(proto), attrs.clone()))?;
    let unknown = vec![Some(TensorDesc::unknown()); proto.inputs.len()];
    twice(op, &SampleGraph::with(&proto.name, unknown, outputs(proto), attrs))
}

fn outputs(proto: &OpProto) -> Vec<TensorDesc> {
    let count = proto.outputs.iter().filter(|o| o.kind == ParamKind::REQUIRED).count();
    vec![TensorDesc::unknown(); count]
}

/// A node with one of each input (two of a dynamic one). Each input has type `t` if it accepts it,
/// otherwise the first type that it accepts.
pub(super) fn node(proto: &OpProto, t: DType, shape: &Shape, attrs: AttrMap) -> SampleGraph {
    let mut inputs = Vec::new();
    for p in &proto.inputs {
        let own = if p.types.is_empty() || p.types.contains(&t) { t } else { p.types[0] };
        let copies = if p.kind == ParamKind::DYNAMIC { 2 } else { 1 };
        inputs.extend(vec![Some(TensorDesc::new(own, shape.clone())); copies]);
    }
    SampleGraph::with(&proto.name, inputs, outputs(proto), attrs).flags(proto.flags)
}

/// Attributes with their defaults; required ones without a default get a valid value.
pub fn attributes(proto: &OpProto) -> AttrMap {
    let mut attrs = AttrMap::default();
    for a in &proto.attrs {
        match &a.default {
            ROption::RSome(v) => attrs.set(a.name.as_str(), v.clone()),
            ROption::RNone if a.required => attrs.set(a.name.as_str(), some_value(a)),
            ROption::RNone => {}
        }
    }
    attrs
}

fn some_value(a: &AttrSpec) -> AttrValue {
    let number = 1.0f64.clamp(a.min.min(a.max), a.max.max(a.min));
    match a.kind {
        // Bounds of integers are small; the clamp keeps the number within them.
        AttrKind::INT => AttrValue::Int(number as i64),
        AttrKind::FLOAT => AttrValue::Float(number),
        AttrKind::BOOL => AttrValue::Bool(false),
        AttrKind::TYPE => AttrValue::Type(DType::F32),
        AttrKind::INTS => AttrValue::Ints(vec![1, 1].into()),
        AttrKind::FLOATS => AttrValue::Floats(vec![1.0].into()),
        AttrKind::STRINGS => AttrValue::Strs(vec!["a".into()].into()),
        AttrKind::GRAPH => AttrValue::Graph("none".into()),
        AttrKind::TENSOR => ConstTensor::of(&[1], &[1.0f32]).map_or(AttrValue::Int(1), AttrValue::Tensor),
        _ => AttrValue::Str(a.choices.first().cloned().unwrap_or_default()),
    }
}

fn twice(op: &OpHandle, g: &SampleGraph) -> Plain {
    let ask = || {
        let r = op.infer(&g.node());
        if let Some(why) = r.as_ref().err().and_then(fault) {
            return Err(why);
        }
        Ok(r.map_err(|e| e.to_string()))
    };
    if ask()? != ask()? {
        return Err("it infers two answers from one node".into());
    }
    Ok(())
}
