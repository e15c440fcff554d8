//! Helpers for tests that call kernels by operator type.
use crate::store::TABLE;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::{HostTensor, KernelCtx, Plain};
use ge_plugin_api::types::{AttrMap, AttrValue, DType, Scalar};

#[path = "../../nn/tests/kernels/defaults.rs"]
mod defaults;

/// A tensor of numbers.
pub fn t<T: Scalar + Plain>(dims: &[u64], v: &[T]) -> HostTensor {
    let mut bytes = Vec::new();
    v.iter().for_each(|x| x.push_le(&mut bytes));
    let t = HostTensor::from_bytes(T::DTYPE, dims, &bytes).unwrap();
    assert_eq!(t.bytes().len(), HostTensor::zeroed(T::DTYPE, dims).unwrap().bytes().len());
    t
}
/// An attribute map.
pub fn attrs(list: &[(&str, AttrValue)]) -> AttrMap {
    let mut m = AttrMap::default();
    list.iter().for_each(|(k, v)| m.set(*k, v.clone()));
    m
}
/// Runs an operator; `None` stands for an absent input. It also runs it with every omitted
/// attribute set to the prototype's default, and checks that the result is the same.
pub fn call(op: &str, inputs: &[Option<&HostTensor>], attrs: &AttrMap, outputs: &[DType]) -> Result<Vec<HostTensor>> {
    let made = once(op, inputs, attrs, outputs);
    if let Some(full) = defaults::filled(op, attrs) {
        match (&made, once(op, inputs, &full, outputs)) {
            (Ok(made), Ok(again)) => {
                let bits = |v: &[HostTensor]| v.iter().map(|t| t.bytes().to_vec()).collect::<Vec<_>>();
                assert_eq!(bits(made), bits(&again), "{op} with {full:?}");
            }
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string(), "{op} with {full:?}"),
            (Ok(_), Err(e)) => panic!("{op} with {full:?}: {e}"),
            (Err(e), Ok(_)) => panic!("{op} without {full:?}: {e}"),
        }
    }
    made
}
fn once(op: &str, inputs: &[Option<&HostTensor>], attrs: &AttrMap, outputs: &[DType]) -> Result<Vec<HostTensor>> {
    let views = inputs.iter().map(|i| i.map(|t| t.view())).collect();
    let mut c = KernelCtx::new(op, "n", attrs, views, outputs);
    TABLE.get(op).unwrap_or_else(|| panic!("no operator {op}")).run(&mut c)?;
    Ok(c.into_made().into_iter().flatten().collect())
}
/// Checks that omitted attributes mean what the prototype says ([`call`]). It calls every operator
/// that has defaults with combinations of a few small tensors for its required inputs, and with
/// plain values for its required attributes. Returns the operators that computed something, and the
/// others.
pub fn every_default() -> (Vec<&'static str>, Vec<&'static str>) {
    let run: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32 / 16.0 - 1.5).collect();
    let cubes: Vec<f32> = (0..54).map(|i| (i * 29 % 54) as f32 / 16.0 - 1.5).collect();
    let bools =
        HostTensor::from_bytes(DType::BOOL, &[4, 4], &[1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1]).unwrap();
    let tensors = [
        t(&[1, 4, 4, 4], &run),
        t(&[4, 4], &run[..16]),
        t(&[4], &run[..4]),
        t(&[1, 2, 3, 3, 3], &cubes),
        t(&[4, 1, 4], &run[..16]),
        t(&[1, 4, 4], &run[..16]),
        t(&[1], &[1i64]),
        t(&[2], &[2i64, 2]),
        t(&[], &[2i64]),
        t(&[1, 1, 4, 4], &(0..16).map(|i| i as u8).collect::<Vec<_>>()),
        t(&[1], &[0.5f32]),
        t(&[1, 4, 1], &run[..4]),
        t(&[1], &[4i64]),
        t(&[2], &[4i64, 4]),
        bools,
    ];
    let required = [
        attrs(&[]),
        attrs(&[
            ("axes", vec![1i64].into()),
            ("axis", 1i64.into()),
            ("dimension", 1i64.into()),
            ("block_size", 2i64.into()),
            ("block_shape", vec![2i64, 2].into()),
            ("ksize", vec![1i64, 1, 2, 2].into()),
            ("kernel_shape", vec![2i64, 2].into()),
            ("hidden_size", 1i64.into()),
            ("num_groups", 2i64.into()),
            ("num_heads", 2i64.into()),
            ("size", 3i64.into()),
            ("num", 4i64.into()),
            ("N", 1i64.into()),
            ("depth", 4i64.into()),
            ("dst_type", AttrValue::Type(DType::F16)),
            ("num_output", 1i64.into()),
            ("src_format", "NCHW".into()),
            ("dst_format", "NHWC".into()),
        ]),
    ];
    let (mut seen, mut unseen) = (Vec::new(), Vec::new());
    for (op, inputs) in defaults::inputs() {
        let Some(row) = TABLE.get(op) else { continue };
        let mut computed = false;
        let choices = tensors.len().pow(inputs as u32);
        // Operators with many inputs get only a part of the combinations, spread evenly.
        for pick in (0..choices).step_by((choices / 4000).max(1) | 1) {
            let chosen: Vec<_> =
                (0..inputs).map(|i| Some(&tensors[pick / tensors.len().pow(i as u32) % tensors.len()])).collect();
            let takes = |i: usize| row.inputs.get(i).or(row.inputs.last()).copied().unwrap_or_default();
            let fits = chosen.iter().enumerate().all(|(i, t)| t.is_some_and(|t| takes(i).contains(&t.dtype)));
            if !fits {
                continue;
            }
            for attrs in &required {
                for out in [DType::F32, DType::I64, DType::BOOL, DType::I32, DType::U8] {
                    computed |= call(op, &chosen, attrs, &[out; 4]).is_ok();
                }
            }
        }
        if computed { &mut seen } else { &mut unseen }.push(op);
    }
    (seen, unseen)
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
/// The error message of a refused call.
pub fn refusal(op: &str, inputs: &[&HostTensor], list: &[(&str, AttrValue)]) -> String {
    let i: Vec<_> = inputs.iter().map(|t| Some(*t)).collect();
    call(op, &i, &attrs(list), &[inputs[0].dtype]).err().map(|e| e.to_string()).unwrap_or_else(|| panic!("{op} ran"))
}
/// Checks that numbers agree to a relative and absolute 1e-5.
pub fn near(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{a:?} {b:?}");
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!(
            (x - y).abs() <= 1e-5 + 1e-5 * y.abs() || (x.is_nan() && y.is_nan()),
            "element {i}: {x} is not {y} in {a:?}"
        );
    }
}
