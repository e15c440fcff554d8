//! Sample nodes of an operator as its prototype allows them: number of inputs, types, attributes
//! within their ranges; shapes with one element, odd shapes and large ones, in groups that
//! operators need (equal, broadcast, matrices, windows, one number per channel). It is not known
//! here whether a sample is valid for the operator: inference and the op store decide that.
use ge_plugin::conformance::attributes;
use ge_plugin_api::ops::{AttrKind, OpProto, ParamKind, ParamSpec};
use ge_plugin_api::types::{AttrMap, AttrValue, ConstTensor, DType, Shape, TensorDesc};

/// An input of a sample.
#[derive(Clone, Debug)]
pub enum Given {
    /// The input is not given.
    Absent,
    /// An input of the graph, filled with random numbers.
    Data(TensorDesc),
    /// A constant.
    Const(ConstTensor),
}

/// A sample node.
#[derive(Clone, Debug)]
pub struct Sample {
    pub inputs: Vec<Given>,
    pub outputs: usize,
    pub attrs: AttrMap,
}

/// Shapes of the inputs in order; further inputs get the last shape.
const SHAPES: &[&[&[u64]]] = &[
    &[&[7]],
    &[&[2, 3]],
    &[&[1, 3, 7, 5]],
    &[&[257, 33]],
    &[&[1]],
    &[&[65537]],
    &[&[2, 3, 5], &[5]],
    &[&[3, 1], &[1, 7]],
    &[&[4, 6], &[]],
    &[&[2, 5, 4], &[1]],
    // Matrices.
    &[&[3, 5], &[5, 7], &[7]],
    &[&[2, 3, 5], &[2, 5, 7], &[7]],
    &[&[65, 129], &[129, 33], &[33]],
    &[&[1, 1], &[1, 1], &[1]],
    // Windows over images, one number per channel, numbers along the last dimension.
    &[&[1, 4, 9, 9], &[6, 4, 3, 3], &[6]],
    &[&[2, 3, 17, 15], &[5, 3, 1, 1], &[5]],
    &[&[2, 6, 5, 5], &[6]],
    &[&[4, 10], &[10]],
    &[&[3, 4, 64], &[64]],
    // Rows by index, one number per row.
    &[&[10, 4], &[3]],
    &[&[6, 5], &[6]],
    &[&[1, 6, 9, 9], &[6, 1, 3, 3], &[6]],
    &[&[1, 2, 5, 6, 7], &[3, 2, 3, 3, 3], &[3]],
    &[&[8, 16, 16, 16]],
    &[&[]],
];

/// Integers for constants that inference reads (axes, sizes, orders of dimensions).
const NUMBERS: &[&[i64]] =
    &[&[0], &[1], &[-1], &[1, 0], &[2, 3], &[0, 1], &[3, 2], &[0, 2, 1], &[0, 3, 1, 2], &[1, 1, 1, 1]];

/// Integer lists for attributes (axes, windows, strides); all list attributes of a node get the
/// same one.
const LISTS: &[&[i64]] = &[&[1], &[0], &[1, 1], &[2, 2], &[1, 1, 1, 1], &[1, 1, 2, 2], &[1, 1, 1]];

/// Maximum number of types tried for each operator.
const TYPES: usize = 4;

/// The candidate samples; the same ones each time.
pub fn of(proto: &OpProto) -> impl Iterator<Item = Sample> + '_ {
    let types = types(proto);
    let values = !proto.value_inputs.is_empty();
    let numbers = if values { NUMBERS } else { &NUMBERS[..1] };
    let attrs = variants(proto);
    // Shapes vary fastest, so that the first samples that fit have many different shapes.
    let whole = [true, false];
    types.into_iter().flat_map(move |t| {
        let attrs = attrs.clone();
        numbers.iter().flat_map(move |n| {
            let attrs = attrs.clone();
            whole.into_iter().flat_map(move |optional| {
                let attrs = attrs.clone();
                attrs
                    .into_iter()
                    .flat_map(move |a| SHAPES.iter().filter_map(move |s| sample(proto, t, s, n, optional, a.clone())))
            })
        })
    })
}

/// Types for the first input that allows more than one.
fn types(proto: &OpProto) -> Vec<DType> {
    let first = proto.inputs.iter().find(|p| p.types.len() > 1).or(proto.inputs.first());
    let all = first.map_or(&[][..], |p| p.types.as_slice());
    let order = [DType::F32, DType::F16, DType::I32, DType::I8, DType::BF16, DType::I64, DType::BOOL, DType::U8];
    let mut out: Vec<DType> = order.into_iter().filter(|t| all.is_empty() || all.contains(t)).take(TYPES).collect();
    if out.is_empty() {
        out.extend(all.first());
    }
    out
}

/// Attribute sets: the defaults, and for each text or number attribute one set with that attribute
/// changed.
fn variants(proto: &OpProto) -> Vec<AttrMap> {
    let base = attributes(proto);
    let mut out = vec![base.clone()];
    for a in proto.attrs.iter() {
        let other = match a.kind {
            AttrKind::BOOL => AttrValue::Bool(base.get(a.name.as_str()) != Some(&AttrValue::Bool(true))),
            AttrKind::INT if a.max - a.min >= 1.0 && a.max < 1e9 => AttrValue::Int(a.max as i64),
            AttrKind::FLOAT => AttrValue::Float(0.5f64.clamp(a.min.min(a.max), a.max.max(a.min))),
            AttrKind::STRING if a.choices.len() > 1 => AttrValue::Str(a.choices[1].clone()),
            _ => continue,
        };
        let mut changed = base.clone();
        changed.set(a.name.as_str(), other);
        out.push(changed);
    }
    out.truncate(6);
    // All list attributes are then changed together to each of the lists.
    let lists: Vec<&str> = proto.attrs.iter().filter(|a| a.kind == AttrKind::INTS).map(|a| a.name.as_str()).collect();
    for list in LISTS.iter().filter(|_| !lists.is_empty()) {
        let mut changed = base.clone();
        lists.iter().for_each(|name| changed.set(*name, AttrValue::Ints(list.to_vec().into())));
        out.push(changed);
    }
    out
}

/// A node with these shapes; `None` if the operator has no such node.
fn sample(
    proto: &OpProto,
    t: DType,
    shapes: &[&[u64]],
    numbers: &[i64],
    optional: bool,
    attrs: AttrMap,
) -> Option<Sample> {
    let group = proto.inputs.iter().find(|p| p.types.is_empty() || p.types.contains(&t)).map(|p| p.type_group.clone());
    let of = |p: &ParamSpec| match p.types.first() {
        None => t,
        Some(_) if p.types.contains(&t) && (group.as_ref() == Some(&p.type_group) || p.types.contains(&DType::F32)) => {
            t
        }
        Some(first) => *first,
    };
    let mut inputs = Vec::new();
    for (k, p) in proto.inputs.iter().enumerate() {
        let times = if p.kind == ParamKind::DYNAMIC { 2 } else { 1 };
        if p.kind == ParamKind::OPTIONAL && !optional {
            inputs.push(Given::Absent);
            continue;
        }
        let value = proto.value_inputs.iter().any(|v| *v as usize == k);
        for _ in 0..times {
            let shape = shapes.get(inputs.len()).or(shapes.last())?;
            let dtype = of(p);
            inputs.push(match (value, dtype) {
                (true, DType::I64) => Given::Const(ConstTensor::of(&[numbers.len() as u64], numbers)?),
                (true, DType::I32) => {
                    let n: Vec<i32> = numbers.iter().map(|v| *v as i32).collect();
                    Given::Const(ConstTensor::of(&[n.len() as u64], &n)?)
                }
                _ => Given::Data(TensorDesc::new(dtype, Shape::of(shape))),
            });
        }
    }
    while matches!(inputs.last(), Some(Given::Absent)) {
        inputs.pop();
    }
    let any = inputs.iter().any(|i| matches!(i, Given::Data(_)));
    let outputs = proto.outputs.iter().filter(|o| o.kind == ParamKind::REQUIRED).count().max(1);
    any.then_some(Sample { inputs, outputs, attrs })
}
