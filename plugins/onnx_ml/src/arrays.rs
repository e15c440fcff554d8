//! `MlColumns(x, places) -> y`: selects elements of the last axis by index; a vector counts as a
//! matrix with one row (`ArrayFeatureExtractor`).
use crate::shared::Outs;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::{HostTensor, KernelCtx};
use ge_plugin_api::ops::flags::INDEXES;
use ge_plugin_api::ops::{InferCtx, OpDef};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc, bytes_of_strings, strings_in};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};

/// Element types of the columns.
const ELEMENTS: &[DType] = &[DType::F32, DType::F64, DType::I64, DType::I32, DType::STRING];

fn extractor(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    Ok(vec![b.node("MlColumns").name(&n.name).input(n.input(0)?).input(n.input(1)?).build()])
}
map_op!("onnx", "ai.onnx.ml", "ArrayFeatureExtractor", 1..=u32::MAX, extractor);

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let (x, places) = (c.input(0)?, &c.input(1)?.shape);
    let product = |s: &[u64]| s.iter().try_fold(1u64, |a, b| a.checked_mul(*b));
    let count = match places.sizes() {
        Some(s) => Dim::known(product(&s).ok_or_else(|| Error::failed(format!("input 1: {places} is too large")))?),
        None => Dim::UNKNOWN,
    };
    let shape = match x.shape.rank() {
        None => Shape::unranked(),
        Some(0) => return Err(Error::failed("input 0: found a single number, expected a vector or more")),
        Some(1) => Shape::new([Dim::known(1), count]),
        Some(r) => Shape::new(x.shape.dims()[..r - 1].iter().copied().chain([count])),
    };
    Ok(vec![TensorDesc::new(x.dtype, shape)])
}
register_op!(|| OpDef::new("MlColumns", infer)
    .input("x", ELEMENTS, "T")
    .input("places", &[DType::I64], "")
    .output("y", ELEMENTS, "T")
    .flags(INDEXES));

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, places) = (ctx.input(0)?, ctx.input(1)?);
    let places = places.values::<i64>()?;
    let Some((&last, before)) = x.dims.split_last() else { return Err(Error::failed("input 0 is a single number")) };
    let (last, unit) = (last as usize, x.dtype.bytes_of(1).unwrap_or(0) as usize);
    let mut picked = Vec::with_capacity(places.len());
    for p in places {
        let there = || Error::failed(format!("place {p} is out of range: the last axis of input 0 has {last}"));
        picked.push(usize::try_from(*p).ok().filter(|p| *p < last).ok_or_else(there)?);
    }
    let mut dims = if before.is_empty() { vec![1] } else { before.to_vec() };
    dims.push(picked.len() as u64);
    if x.dtype == DType::STRING {
        let wrong = || Error::failed(format!("text of sizes {:?} has other bytes", x.dims));
        let all = strings_in(x.bytes, x.count() as u64).ok_or_else(wrong)?;
        let rows = all.chunks_exact(last.max(1));
        let y: Vec<&[u8]> = rows.flat_map(|row| picked.iter().map(|p| row[*p])).collect();
        return ctx.set_output(0, HostTensor::from_bytes(DType::STRING, &dims, &bytes_of_strings(&y))?);
    }
    let y = ctx.alloc_output(0, &dims)?;
    match unit {
        4 => pick::<4>(x.bytes, last, &picked, y.bytes),
        _ => pick::<8>(x.bytes, last, &picked, y.bytes),
    }
    Ok(())
}

/// Copies the elements at `picked` of each row of `last` elements of `N` bytes.
fn pick<const N: usize>(x: &[u8], last: usize, picked: &[usize], y: &mut [u8]) {
    let (x, y) = (x.as_chunks::<N>().0, y.as_chunks_mut::<N>().0);
    for (to, row) in y.chunks_exact_mut(picked.len().max(1)).zip(x.chunks_exact(last.max(1))) {
        for (to, p) in to.iter_mut().zip(picked) {
            *to = row[*p];
        }
    }
}
register_kernel!("OnnxMlEngine", "MlColumns", [DType::F32, DType::F64, DType::I64, DType::I32, DType::STRING], run);
