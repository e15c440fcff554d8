//! Mappings of `ai.onnx`: operators with an equivalent are in the table of [`direct`], the others
//! have one function each, grouped by family. [`npu`] has those of Ascend's own domain.
pub mod causal;
pub mod conv;
pub mod direct;
pub mod elementwise;
pub mod image;
pub mod learn;
pub mod legacy;
pub mod matmul;
pub mod norm;
pub mod npu;
pub mod ort;
pub mod pool;
pub mod reduce;
pub mod rnn;
pub mod sequence;
pub mod shape;
pub mod slice;
pub mod text;

use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder, NodeBuilder};
use ge_plugin_api::types::{ConstTensor, DType, ValueRef};

/// Result of a mapping: the values of the node's outputs.
pub type Outs = Result<Vec<ValueRef>>;

/// The integers of input `i`, or `None` if it is absent; fails if it is not constant.
pub fn const_ints(n: &ForeignNode, i: usize, what: &str) -> Result<Option<Vec<i64>>> {
    if n.opt_input(i).is_none() {
        return Ok(None);
    }
    match n.constant(i).and_then(|t| t.to_i64(4096)) {
        Some(v) => Ok(Some(v)),
        None => Err(n.refuse(format!("{what} (input {i}) is not a constant"))),
    }
}
/// Rank of input `i`, if known.
pub fn rank(n: &ForeignNode, i: usize) -> Option<usize> {
    n.desc(i)?.shape.rank()
}
/// Makes a scalar constant with a generated name.
pub fn scalar<T: ge_plugin_api::types::Scalar>(b: &mut GraphBuilder<'_>, name: &str, v: T) -> ValueRef {
    ConstTensor::of(&[], &[v]).map_or(ValueRef::ABSENT, |t| b.made_constant(name, t))
}
/// Makes a scalar constant in the element type of input 0; a type that is not known yet is left to
/// `CastLike`.
pub fn like_input(n: &ForeignNode, b: &mut GraphBuilder<'_>, name: &str, v: f64) -> Result<ValueRef> {
    Ok(match n.desc(0).map(|d| d.dtype) {
        Some(DType::F16) => scalar(b, name, half::f16::from_f64(v)),
        Some(DType::F32) => scalar(b, name, v as f32),
        Some(DType::F64) => scalar(b, name, v),
        _ => {
            let wide = scalar(b, name, v);
            b.node("CastLike").input(wide).input(n.input(0)?).build()
        }
    })
}
/// The element type of input 0, if the import knows it.
pub fn known_type(n: &ForeignNode) -> Option<DType> {
    n.desc(0).map(|d| d.dtype).filter(|t| *t != DType::UNKNOWN)
}
/// Begins a node that converts a value to the element type of input 0; a type that is not known yet
/// is left to `CastLike`.
pub fn back<'b, 'a>(n: &ForeignNode, b: &'b mut GraphBuilder<'a>, v: ValueRef) -> Result<NodeBuilder<'b, 'a>> {
    Ok(match known_type(n) {
        Some(t) => b.node("Cast").input(v).attr("dst_type", t),
        None => b.node("CastLike").input(v).input(n.input(0)?),
    })
}
/// The element type that an attribute gives by ONNX's number; 0 stands for none.
pub fn type_attr(n: &ForeignNode, key: &str) -> Result<Option<DType>> {
    match n.attrs.int(key) {
        None | Some(0) => Ok(None),
        Some(v) => match i32::try_from(v).ok().and_then(crate::tensor::dtype) {
            Some(t) => Ok(Some(t)),
            None => Err(n.refuse(format!("attribute `{key}` names element type {v}, which is not known"))),
        },
    }
}
/// ONNX's pads (all begins, then all ends) as pairs of begin and end per axis.
pub fn paired(n: &ForeignNode, pads: &[i64]) -> Result<Vec<i64>> {
    if !pads.len().is_multiple_of(2) {
        return Err(n.refuse(format!("attribute `pads` has {} numbers", pads.len())));
    }
    let h = pads.len() / 2;
    Ok((0..h).flat_map(|i| [pads[i], pads[h + i]]).collect())
}
