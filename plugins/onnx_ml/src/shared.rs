//! Helpers for mappings: attribute lists as constants, and the shapes of matrices.
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::ops::InferCtx;
use ge_plugin_api::types::{ConstTensor, DType, Dim, Scalar, Shape, ValueRef};
use ge_plugin_api::{Error, Result};

/// Result of a mapping: the values of the node's outputs.
pub type Outs = Result<Vec<ValueRef>>;

/// Supported types of features.
pub const NUMBERS: &[DType] = &[DType::F32, DType::F64, DType::I64, DType::I32];

/// The element type of the node's first input, if the import knows it.
pub fn known_type(n: &ForeignNode) -> Option<DType> {
    n.desc(0).map(|d| d.dtype).filter(|t| *t != DType::UNKNOWN)
}

/// Makes a constant with one axis from a list.
pub fn list<T: Scalar>(b: &mut GraphBuilder<'_>, name: &str, v: &[T]) -> ValueRef {
    ConstTensor::of(&[v.len() as u64], v).map_or(ValueRef::ABSENT, |t| b.made_constant(name, t))
}

/// The real numbers of an attribute: a list, or a tensor named `name_as_tensor` or `name`.
pub fn reals(n: &ForeignNode, name: &str) -> Option<Vec<f64>> {
    if let Some(v) = n.attrs.floats(name) {
        return Some(v.to_vec());
    }
    let tensor = n.attrs.tensor(name).or_else(|| n.attrs.tensor(format!("{name}_as_tensor").as_str()))?;
    tensor.to_f64(usize::MAX)
}

/// The integers of an attribute.
pub fn ints(n: &ForeignNode, name: &str) -> Vec<i64> {
    match n.attrs.ints(name) {
        Some(v) => v.to_vec(),
        None => n.attrs.tensor(name).and_then(|t| t.to_i64(usize::MAX)).unwrap_or_default(),
    }
}

/// The numbers of rows and columns of input `k` with this shape.
///
/// # Errors
/// Fails if it is neither a vector nor a matrix.
pub fn matrix(shape: &Shape, k: usize) -> Result<(Dim, Dim)> {
    match shape.rank() {
        Some(1) => Ok((Dim::known(1), shape.dims()[0])),
        Some(2) => Ok((shape.dims()[0], shape.dims()[1])),
        None => Ok((Dim::UNKNOWN, Dim::UNKNOWN)),
        Some(_) => Err(Error::failed(format!("input {k}: found {shape}, expected [rows, features]"))),
    }
}

/// The number of rows of input 0, as a dimension.
pub fn rows(c: &InferCtx<'_>) -> Result<Dim> {
    Ok(matrix(&c.input(0)?.shape, 0)?.0)
}

/// The shape of a matrix with `n` columns and the rows of input 0.
pub fn columns(c: &InferCtx<'_>, n: usize) -> Result<Shape> {
    Ok(Shape::new([rows(c)?, Dim::known(n as u64)]))
}
