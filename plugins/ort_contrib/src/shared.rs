//! Helpers for mappings: typed constants, small chains of nodes, and known properties of a node's
//! inputs.
use ge_plugin_api::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::types::{ConstTensor, DType, Scalar, ValueRef};

/// Result of a mapping: the values of the node's outputs.
pub type Outs = Result<Vec<ValueRef>>;

/// The element type of input `i`, if it is f16, bf16 or f64; otherwise f32.
pub fn float_type(n: &ForeignNode, i: usize) -> DType {
    match n.desc(i).map(|d| d.dtype) {
        Some(t @ (DType::F16 | DType::BF16 | DType::F64)) => t,
        _ => DType::F32,
    }
}

/// The element type of input `i`, if it is known.
pub fn known_type(n: &ForeignNode, i: usize) -> Option<DType> {
    n.desc(i).map(|d| d.dtype).filter(|t| *t != DType::UNKNOWN)
}

/// Quantises `y` under the foreign node's name. Without a zero point, the type is that of input
/// `like`.
pub fn quantised(
    n: &ForeignNode,
    b: &mut GraphBuilder<'_>,
    y: ValueRef,
    (scale, zero): (ValueRef, Option<ValueRef>),
    like: usize,
) -> Outs {
    let (zero, dtype) = match (zero, known_type(n, like)) {
        (None, None) => {
            let none = scalar(b, "zero", 0u8);
            (Some(apply(b, "CastLike", &[none, n.input(like)?])), None)
        }
        (None, dtype) => (None, dtype),
        (zero, _) => (zero, None),
    };
    let d = b.node("QuantizeLinear").name(&n.name).input(y).input(scale).opt_input(zero);
    Ok(vec![match dtype {
        Some(t) => d.attr("output_dtype", t).build(),
        None => d.build(),
    }])
}

/// Number of axes of input `i`, if it is known.
pub fn rank(n: &ForeignNode, i: usize) -> Option<usize> {
    n.desc(i)?.shape.rank()
}

/// Size of an axis of input `i`, if it is known; a negative `axis` counts from the end.
pub fn size(n: &ForeignNode, i: usize, axis: i64) -> Option<u64> {
    let dims = n.desc(i)?.shape.dims();
    let at = if axis < 0 { dims.len().checked_sub(axis.unsigned_abs() as usize)? } else { axis as usize };
    dims.get(at)?.size()
}

/// Makes a scalar constant.
pub fn scalar<T: Scalar>(b: &mut GraphBuilder<'_>, name: &str, v: T) -> ValueRef {
    ConstTensor::of(&[], &[v]).map_or(ValueRef::ABSENT, |t| b.made_constant(name, t))
}

/// Makes a scalar constant of a real type.
pub fn real(b: &mut GraphBuilder<'_>, name: &str, v: f64, dtype: DType) -> ValueRef {
    match dtype {
        DType::F16 => scalar(b, name, half::f16::from_f64(v)),
        DType::BF16 => scalar(b, name, half::bf16::from_f64(v)),
        DType::F64 => scalar(b, name, v),
        _ => scalar(b, name, v as f32),
    }
}

/// Makes a scalar constant of the element type of input 0; a type that is not known is left to
/// `CastLike`.
pub fn real_like(n: &ForeignNode, b: &mut GraphBuilder<'_>, name: &str, v: f64) -> Result<ValueRef> {
    Ok(match known_type(n, 0) {
        Some(t) => real(b, name, v, t),
        None => {
            let v = scalar(b, name, v);
            apply(b, "CastLike", &[v, n.input(0)?])
        }
    })
}

/// Makes a node with one output.
pub fn apply(b: &mut GraphBuilder<'_>, op: &str, inputs: &[ValueRef]) -> ValueRef {
    b.node(op).inputs(inputs).build()
}

/// Converts `x` to a type.
pub fn cast(b: &mut GraphBuilder<'_>, x: ValueRef, to: DType) -> ValueRef {
    b.node("Cast").input(x).attr("dst_type", to).build()
}

/// `x` plus `y`, or just `x` if `y` is absent.
pub fn plus(b: &mut GraphBuilder<'_>, x: ValueRef, y: Option<ValueRef>) -> ValueRef {
    match y {
        Some(y) => apply(b, "Add", &[x, y]),
        None => x,
    }
}

/// Permutes the axes of `x`.
pub fn transposed(b: &mut GraphBuilder<'_>, x: ValueRef, perm: &[i64]) -> ValueRef {
    b.node("TransposeD").input(x).attr("perm", perm.to_vec()).build()
}

/// Permutations for an image with `rank` axes: from channels last to channels second, and back.
pub fn channel_orders(rank: i64) -> (Vec<i64>, Vec<i64>) {
    let to = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    (to, std::iter::once(0).chain(2..rank).chain([1]).collect())
}

/// Reshapes `x`; 0 keeps a size, and -1 stands for the remaining elements.
pub fn reshaped(b: &mut GraphBuilder<'_>, x: ValueRef, name: &str, shape: &[i64]) -> ValueRef {
    let shape = b.ints(name, shape);
    b.node("Reshape").input(x).input(shape).attr("allowzero", 0i64).build()
}

/// Adds axes of size 1 to `x`.
pub fn unsqueezed(b: &mut GraphBuilder<'_>, x: ValueRef, axes: &[i64]) -> ValueRef {
    b.node("Unsqueeze").input(x).attr("axes", axes.to_vec()).build()
}

/// Splits `x` along an axis.
pub fn split(b: &mut GraphBuilder<'_>, x: ValueRef, axis: i64, sizes: &[i64]) -> Vec<ValueRef> {
    b.node("SplitVD")
        .input(x)
        .attr("size_splits", sizes.to_vec())
        .attr("split_dim", axis)
        .attr("num_split", sizes.len() as i64)
        .build_n(sizes.len())
}

/// Makes the last node of a mapping, which has the foreign node's name.
pub fn named(n: &ForeignNode, b: &mut GraphBuilder<'_>, op: &str, inputs: &[ValueRef]) -> ValueRef {
    b.node(op).name(&n.name).inputs(inputs).build()
}

/// Refuses an attribute unless it has the only supported value.
pub fn only(n: &ForeignNode, key: &str, value: i64) -> Result<()> {
    match n.int_or(key, value) {
        v if v == value => Ok(()),
        v => Err(n.refuse(format!("attribute `{key}` is {v}; {value} alone is computed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ge_plugin_api::patch::{Edit, NewNode};
    use ge_plugin_api::types::{AttrValue, NodeId, Shape, TensorDesc};

    #[test]
    fn without_a_zero_point_numbers_are_quantised_to_the_type_of_the_input() {
        let made = |zero: Option<ValueRef>, dtype: DType| -> Vec<NewNode> {
            let (x, scale) = (ValueRef::new(NodeId(1), 0), ValueRef::new(NodeId(2), 0));
            let descs = vec![TensorDesc::new(dtype, Shape::unranked())];
            let n = ForeignNode { inputs: vec![x].into(), input_descs: descs.into(), ..ForeignNode::default() };
            let mut b = GraphBuilder::new(None);
            quantised(&n, &mut b, x, (scale, zero), 0).expect("maps");
            let node = |e: &Edit| if let Edit::AddNode(n) = e { Some(n.clone()) } else { None };
            b.into_patch().edits().iter().filter_map(node).collect()
        };
        let ops = |nodes: &[NewNode]| nodes.iter().map(|n| n.op.to_string()).collect::<Vec<_>>();
        let known = made(None, DType::I8);
        assert_eq!(ops(&known), ["QuantizeLinear"]);
        assert_eq!(known[0].attrs.get("output_dtype"), Some(&AttrValue::Type(DType::I8)));
        let open = made(None, DType::UNKNOWN);
        assert_eq!(ops(&open), ["Const", "CastLike", "QuantizeLinear"]);
        assert_eq!(open[1].inputs[1], ValueRef::new(NodeId(1), 0));
        let given = made(Some(ValueRef::new(NodeId(3), 0)), DType::I8);
        assert_eq!(ops(&given), ["QuantizeLinear"]);
        assert!(given[0].attrs.get("output_dtype").is_none());
    }
}
