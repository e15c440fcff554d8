//! Calls of kernels by operator type, for tests.
use crate::store::TABLE;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::{HostTensor, KernelCtx, Plain};
use ge_plugin_api::types::{AttrMap, AttrValue, DType, Scalar};

/// A tensor of plain numbers.
pub fn t<T: Scalar + Plain>(dims: &[u64], v: &[T]) -> HostTensor {
    let mut bytes = Vec::new();
    v.iter().for_each(|x| x.push_le(&mut bytes));
    let t = HostTensor::from_bytes(T::DTYPE, dims, &bytes).unwrap();
    assert_eq!(t.bytes().len(), HostTensor::zeroed(T::DTYPE, dims).unwrap().bytes().len());
    t
}
/// Attributes.
pub fn attrs(list: &[(&str, AttrValue)]) -> AttrMap {
    let mut m = AttrMap::default();
    list.iter().for_each(|(k, v)| m.set(*k, v.clone()));
    m
}
/// Runs an operator; None stands for an absent input.
pub fn call(op: &str, inputs: &[Option<&HostTensor>], attrs: &AttrMap, outputs: &[DType]) -> Result<Vec<HostTensor>> {
    let views = inputs.iter().map(|i| i.map(|t| t.view())).collect();
    let mut c = KernelCtx::new(op, "n", attrs, views, outputs);
    (TABLE.get(op).unwrap_or_else(|| panic!("no operator {op}")).run)(&mut c)?;
    Ok(c.into_made().into_iter().flatten().collect())
}
/// Runs an operator with one f32 output.
pub fn floats(op: &str, inputs: &[&HostTensor], list: &[(&str, AttrValue)]) -> (Vec<u64>, Vec<f32>) {
    let i: Vec<_> = inputs.iter().map(|t| Some(*t)).collect();
    let o = call(op, &i, &attrs(list), &[DType::F32]).unwrap();
    (o[0].view().dims.to_vec(), o[0].view().values::<f32>().unwrap().to_vec())
}
/// Runs an operator with one i64 output.
pub fn ints(op: &str, inputs: &[&HostTensor], list: &[(&str, AttrValue)]) -> (Vec<u64>, Vec<i64>) {
    let i: Vec<_> = inputs.iter().map(|t| Some(*t)).collect();
    let o = call(op, &i, &attrs(list), &[DType::I64]).unwrap();
    (o[0].view().dims.to_vec(), o[0].view().values::<i64>().unwrap().to_vec())
}
/// The message of a refused call.
pub fn refusal(op: &str, inputs: &[&HostTensor], list: &[(&str, AttrValue)]) -> String {
    let i: Vec<_> = inputs.iter().map(|t| Some(*t)).collect();
    call(op, &i, &attrs(list), &[inputs[0].dtype]).err().map(|e| e.to_string()).unwrap_or_else(|| panic!("{op} ran"))
}
/// Whether numbers agree to a relative and absolute 1e-5.
pub fn near(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{a:?} {b:?}");
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!(
            (x - y).abs() <= 1e-5 + 1e-5 * y.abs() || (x.is_nan() && y.is_nan()),
            "element {i}: {x} is not {y} in {a:?}"
        );
    }
}
