//! `MlFeatures(x...) {sizes} -> y [rows, sum of sizes]`: joins the features of all inputs in f32
//! (`FeatureVectorizer`). Input `k` contributes `sizes[k]` columns: zeros follow if it has fewer,
//! and further ones are left out. Without `sizes` it contributes all that it has. A vector is one
//! row.
use crate::rows::Rows;
use crate::shared::{NUMBERS, Outs, matrix};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let sizes = n.attrs.ints("inputdimensions").unwrap_or_default().to_vec();
    let count = n.inputs.len();
    if !(sizes.is_empty() || sizes.len() == count) || sizes.iter().any(|s| *s < 0) {
        return Err(n.refuse(format!("attribute `inputdimensions` is {sizes:?}, expected {count} sizes")));
    }
    let inputs = (0..count).map(|i| n.input(i)).collect::<Result<Vec<_>>>()?;
    Ok(vec![b.node("MlFeatures").name(&n.name).inputs(&inputs).attr("sizes", sizes).build()])
}
map_op!("onnx", "ai.onnx.ml", "FeatureVectorizer", 1..=u32::MAX, map);

/// The number of columns that input `k`, with `own` columns, contributes.
fn contributed(sizes: &[i64], k: usize, own: u64) -> Result<u64> {
    match sizes.get(k) {
        _ if sizes.is_empty() => Ok(own),
        Some(s) => u64::try_from(*s).map_err(|_| Error::failed(format!("attribute `sizes`: found {s}"))),
        None => Err(Error::failed(format!("attribute `sizes`: found {} sizes, none for input {k}", sizes.len()))),
    }
}

/// The sum of what the inputs contribute.
fn total(parts: impl IntoIterator<Item = u64>) -> Result<u64> {
    let sum = parts.into_iter().try_fold(0u64, u64::checked_add);
    sum.ok_or_else(|| Error::failed("there are more columns than any memory holds"))
}

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let sizes = c.node.ints("sizes").unwrap_or_default();
    let (mut rows, mut parts) = (Dim::UNKNOWN, Some(Vec::new()));
    for k in 0..c.input_count() {
        let (own, columns) = matrix(&c.input(k)?.shape, k)?;
        if let (Some(a), Some(b)) = (rows.size(), own.size())
            && a != b
        {
            return Err(Error::failed(format!("input {k}: found {b} rows, expected {a}")));
        }
        if !rows.is_known() && own != Dim::UNKNOWN {
            rows = own;
        }
        let part = match columns.size() {
            None if sizes.is_empty() => None,
            own => Some(contributed(sizes, k, own.unwrap_or(0))?),
        };
        parts = parts.zip(part).map(|(all, one)| [all, vec![one]].concat());
    }
    let columns = parts.map_or(Ok(Dim::UNKNOWN), |p| total(p).map(Dim::known))?;
    Ok(vec![TensorDesc::new(DType::F32, Shape::new([rows, columns]))])
}
register_op!(|| OpDef::new("MlFeatures", infer).dynamic("x", NUMBERS, "T").output("y", &[DType::F32], "").attr(
    "sizes",
    AttrKind::INTS,
    Vec::<i64>::new()
));

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let sizes = ctx.attrs.ints("sizes").unwrap_or_default();
    let mut inputs = Vec::new();
    while let Some(x) = ctx.opt_input(inputs.len()) {
        inputs.push(Rows::at(x, inputs.len())?);
    }
    let Some(count) = inputs.first().map(|x| x.count) else { return Err(Error::failed("there is no input")) };
    if let Some(k) = inputs.iter().position(|x| x.count != count) {
        return Err(Error::failed(format!("input {k}: found {} rows, expected {count}", inputs[k].count)));
    }
    let parts =
        inputs.iter().enumerate().map(|(k, x)| contributed(sizes, k, x.width as u64)).collect::<Result<Vec<_>>>()?;
    let width = total(parts.iter().copied())?;
    let mut y = ctx.alloc_output(0, &[count as u64, width])?;
    let (y, width) = (y.values::<f32>()?, width as usize);
    y.fill(0.0);
    let mut buffer = Vec::new();
    for i in 0..count {
        let mut at = i * width;
        for (x, part) in inputs.iter().zip(&parts) {
            let row = x.block::<f32>(i..i + 1, &mut buffer)?.values;
            let part = *part as usize;
            y[at..at + part].iter_mut().zip(row).for_each(|(y, x)| *y = *x);
            at += part;
        }
    }
    Ok(())
}
register_kernel!("OnnxMlEngine", "MlFeatures", [DType::F32, DType::F64, DType::I64, DType::I32], run);
