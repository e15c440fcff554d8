//! `MlLinear(x [rows, features], coefficients [n, features], intercepts [n]) {post} -> y [rows, n]`:
//! `LinearRegressor`, and the scores of `LinearClassifier`.
use crate::classify::{self, Second};
use crate::labels::Labels;
use crate::post::Post;
use crate::rows::{Block, CHUNK, Feature, Rows};
use crate::shared::{NUMBERS, Outs, columns, list, reals};
use crate::sums::products;
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{ConstTensor, DType, TensorDesc, ValueRef};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};

/// The coefficients and intercepts as constants, for `rows` outputs.
fn constants(n: &ForeignNode, b: &mut GraphBuilder<'_>, rows: usize) -> Result<[ValueRef; 2]> {
    let Some(w) = reals(n, "coefficients").filter(|w| !w.is_empty()) else {
        return Err(n.refuse("it has no coefficients"));
    };
    let bias = reals(n, "intercepts").filter(|v| !v.is_empty()).unwrap_or_else(|| vec![0.0; rows]);
    if rows == 0 || w.len() % rows != 0 || bias.len() != rows {
        return Err(n.refuse(format!("{} coefficients and {} intercepts for {rows} rows", w.len(), bias.len())));
    }
    let table = ConstTensor::of(&[rows as u64, (w.len() / rows) as u64], &w);
    let table = table.map_or(ValueRef::ABSENT, |t| b.made_constant("coefficients", t));
    Ok([table, list(b, "intercepts", &bias)])
}

fn regressor(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let rows = usize::try_from(n.int_or("targets", 1)).unwrap_or(0);
    let x = n.input(0)?;
    let [w, bias] = constants(n, b, rows)?;
    let post = Post::of(n)?;
    let node = b.node("MlLinear").name(&n.name).input(x).input(w).input(bias);
    Ok(vec![node.attr("post", post.as_str()).build()])
}
map_op!("onnx", "ai.onnx.ml", "LinearRegressor", 1..=u32::MAX, regressor);

fn classifier(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let labels = Labels::of(n, "classlabels_ints", "classlabels_strings");
    let rows = reals(n, "intercepts").filter(|v| !v.is_empty()).map_or(labels.numbers.len(), |v| v.len());
    let second = match (rows, labels.numbers.len()) {
        (1, 2) => Second::Rest,
        (r, l) if r == l && r > 0 => Second::No,
        (r, l) => return Err(n.refuse(format!("{r} rows of coefficients for {l} labels"))),
    };
    let x = n.input(0)?;
    let [w, bias] = constants(n, b, rows)?;
    let scores = b.node("MlLinear").input(x).input(w).input(bias).build();
    classify::build(n, b, scores, labels, second)
}
map_op!("onnx", "ai.onnx.ml", "LinearClassifier", 1..=u32::MAX, classifier);

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let n = c.input(1)?.shape.dims().first().and_then(|d| d.size()).unwrap_or(0) as usize;
    let bias = &c.input(2)?.shape;
    if bias.sizes().is_some_and(|s| s.as_slice() != [n as u64]) {
        return Err(Error::unsupported(format!("intercepts {bias} for {n} rows of coefficients")));
    }
    Ok(vec![TensorDesc::new(DType::F32, columns(c, n)?)])
}
register_op!(|| OpDef::new("MlLinear", infer)
    .input("x", NUMBERS, "")
    .input("coefficients", &[DType::F64], "")
    .input("intercepts", &[DType::F64], "")
    .output("y", &[DType::F32], "")
    .attr("post", AttrKind::STRING, "NONE"));

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Rows::of(ctx.input(0)?)?;
    let (w, bias) = (ctx.input(1)?, ctx.input(2)?);
    let (w, bias) = (w.values::<f64>()?, bias.values::<f64>()?);
    let post = Post::read(ctx.attrs.str("post"))?;
    if w.len() != x.width * bias.len() {
        let expected = w.len().checked_div(bias.len()).unwrap_or(0);
        return Err(Error::failed(format!("input 0 has {} features, the model takes {expected}", x.width)));
    }
    let mut y = ctx.alloc_output(0, &[x.count as u64, bias.len() as u64])?;
    let y = y.values::<f32>()?;
    match x.dtype() {
        DType::F64 => scores::<f64>(&x, w, bias, post, y),
        _ => scores::<f32>(&x, w, bias, post, y),
    }
}

fn scores<X: Feature>(x: &Rows<'_>, w: &[f64], bias: &[f64], post: Post, y: &mut [f32]) -> Result<()> {
    x.in_blocks(bias.len(), CHUNK, y, |rows: &Block<'_, X>, out| {
        products(rows.values, w, rows.width, out);
        for row in out.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
            post.apply(row);
        }
        Ok(())
    })
}
register_kernel!("OnnxMlEngine", "MlLinear", [DType::F32, DType::F64, DType::I64, DType::I32], run);
