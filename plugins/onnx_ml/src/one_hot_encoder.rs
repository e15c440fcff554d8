//! `MlOneHotEncoder(x) {cats, zeros} -> y [..., categories]`: 1 at the index of the category. A
//! value that is not a category gives zeros, or an error that names it if `zeros` is 0. String
//! categories are looked up first.
use crate::label_encoder::{lookup, text};
use crate::places::Places;
use crate::shared::{NUMBERS, Outs, ints};
use ge_plugin_api::frontend::{ForeignNode, GraphBuilder};
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::ops::flags::MAY_FAIL;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef};
use ge_plugin_api::types::{ConstTensor, DType, Dim, Shape, TensorDesc};
use ge_plugin_api::{Error, Result, map_op, register_kernel, register_op};

fn map(n: &ForeignNode, b: &mut GraphBuilder<'_>) -> Outs {
    let (mut cats, zeros) = (ints(n, "cats_int64s"), n.int_or("zeros", 1));
    let mut x = n.input(0)?;
    if let Some(words) = n.attrs.strs("cats_strings").filter(|w| cats.is_empty() && !w.is_empty()) {
        // Strings become their index among the categories; unknown strings get an index that is not
        // a category.
        cats = (0..words.len() as i64).collect();
        let places = text(&words).zip(ConstTensor::of(&[words.len() as u64], &cats));
        let (words, places) = places.ok_or_else(|| n.refuse("its categories are too many"))?;
        x = lookup(n, b, "", x, words, places)?;
    }
    if cats.is_empty() {
        return Err(n.refuse("it has no categories"));
    }
    let node = b.node("MlOneHotEncoder").name(&n.name).input(x).attr("cats", cats);
    Ok(vec![node.attr("zeros", zeros).build()])
}
map_op!("onnx", "ai.onnx.ml", "OneHotEncoder", 1..=u32::MAX, map);

fn infer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = &c.input(0)?.shape;
    let cats = c.node.ints("cats").map_or(0, <[i64]>::len);
    let shape = if x.rank().is_some() {
        Shape::new(x.dims().iter().copied().chain([Dim::known(cats as u64)]))
    } else {
        Shape::unranked()
    };
    Ok(vec![TensorDesc::new(DType::F32, shape)])
}
register_op!(|| OpDef::new("MlOneHotEncoder", infer)
    .input("x", NUMBERS, "T")
    .output("y", &[DType::F32], "")
    .required_attr("cats", AttrKind::INTS)
    .attr("zeros", AttrKind::INT, 1i64)
    .flags(MAY_FAIL));

fn run(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = ctx.input(0)?;
    let cats = ctx.attrs.ints("cats").unwrap_or_default();
    // Of equal categories the last one counts, so they are searched from the end.
    let places = Places::of(&cats.iter().rev().map(|c| *c as u64).collect::<Vec<_>>());
    let (width, zeros) = (cats.len(), ctx.attrs.int("zeros") != Some(0));
    // A real number is truncated to its integer part.
    let values: Vec<i64> = match x.dtype {
        DType::I64 => x.values::<i64>()?.to_vec(),
        DType::I32 => x.values::<i32>()?.iter().map(|v| i64::from(*v)).collect(),
        DType::F64 => x.values::<f64>()?.iter().map(|v| *v as i64).collect(),
        _ => x.values::<f32>()?.iter().map(|v| *v as i64).collect(),
    };
    let dims: Vec<u64> = x.dims.iter().copied().chain([width as u64]).collect();
    let mut y = ctx.alloc_output(0, &dims)?;
    let y = y.values::<f32>()?;
    y.fill(0.0);
    for (i, v) in values.iter().enumerate() {
        match places.get(*v as u64) {
            p if p < width => y[i * width + width - 1 - p] = 1.0,
            _ if zeros => {}
            _ => return Err(Error::failed(format!("element {i} is none of the {width} categories"))),
        }
    }
    Ok(())
}
register_kernel!("OnnxMlEngine", "MlOneHotEncoder", [DType::F32, DType::F64, DType::I64, DType::I32], run);
