//! Operators that choose elements by value.
//!
//! * `NonZero(x) {transpose = true, dtype = i64}`: `[rank, n]` (transpose false: `[n, rank]`).
//!   `Compress(x, condition) {axis}` (without axis: on the flattened x).
//!   `Unique(x) {axis, sorted = true} -> y, indices, inverse_indices, counts` (indices i64). The
//!   output sizes of all three are known only after they have run.
//! * `OneHot(x, depth, on_value, off_value) {axis = -1}`: negative indices count from depth; an
//!   index out of range gives off values only.
//! * `MapIndex(x [n], data_seq [m*n], level_index?) -> i32[]`: the number of the row of `data_seq`
//!   (rows have n numbers) that equals x, or the entry of `level_index` with that number; the
//!   number of rows if no row equals x.
//! * `NonMaxSuppression(boxes [B,N,4], scores [B,C,N], max_output_boxes_per_class?, iou_threshold?, score_threshold?) {center_point_box} -> [n,3] i64`,
//!   with ONNX's semantics.
use crate::dims;
use crate::elementwise::BOOL;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::*};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{ANY, FLOATS, INDEX, NUMERIC};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

fn non_zero(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let r = c.input(0)?.shape.rank().map_or(Dim::UNKNOWN, |r| Dim::known(r as u64));
    let s = if read::flag(c, "transpose", true) { [r, Dim::UNKNOWN] } else { [Dim::UNKNOWN, r] };
    Ok(vec![TensorDesc::new(read::dtype(c, "dtype").unwrap_or(DType::I64), Shape::new(s))])
}
fn compress(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let mut s = c.input(0)?.shape.clone();
    match c.node.int("axis") {
        Some(a) => {
            if let Some(r) = s.rank() {
                let a = read::axis("attribute `axis`", a, r)?;
                s.dims_mut()[a] = Dim::UNKNOWN;
            }
        }
        None => s = dims::unknown(1),
    }
    read::one(c, s)
}
fn unique(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = c.input(0)?;
    let mut s = x.shape.clone();
    let inverse = match c.node.int("axis") {
        Some(a) => match s.rank() {
            Some(r) => {
                let a = read::axis("attribute `axis`", a, r)?;
                let n = s.dims()[a];
                s.dims_mut()[a] = Dim::UNKNOWN;
                n
            }
            None => Dim::UNKNOWN,
        },
        None => {
            let n = s.count().map_or(Dim::UNKNOWN, Dim::known);
            s = dims::unknown(1);
            n
        }
    };
    let index = |d: Dim| TensorDesc::new(DType::I64, Shape::new([d]));
    Ok(vec![TensorDesc::new(x.dtype, s), index(Dim::UNKNOWN), index(inverse), index(Dim::UNKNOWN)])
}
fn one_hot(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let t = c.input(2)?.dtype;
    let x = &c.input(0)?.shape;
    let Some(r) = x.rank() else { return Ok(vec![TensorDesc::new(t, Shape::unranked())]) };
    let a = read::axis("attribute `axis`", read::int(c, "axis", -1), r + 1)?;
    let depth = c.constant(1).and_then(|d| d.to_f64(1)).and_then(|v| v.first().copied());
    let mut d = x.dims().to_vec();
    d.insert(a, depth.filter(|v| *v >= 0.0 && *v < 1e15).map_or(Dim::UNKNOWN, |v| Dim::known(v as u64)));
    Ok(vec![TensorDesc::new(t, Shape::new(d))])
}
fn map_index(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "x", 1, 1)?;
    read::rank_in(c, 1, "data_seq", 1, 1)?;
    Ok(vec![TensorDesc::new(DType::I32, Shape::scalar())])
}
fn nms(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "boxes", 3, 3)?;
    read::rank_in(c, 1, "scores", 3, 3)?;
    Ok(vec![TensorDesc::new(DType::I64, Shape::new([Dim::UNKNOWN, Dim::known(3)]))])
}

fn defs() -> Vec<OpDef> {
    let i = AttrKind::INT;
    vec![
        OpDef::new("MapIndex", map_index)
            .input("x", INDEX, "T")
            .input("data_seq", INDEX, "T")
            .opt("level_index", &[DType::I32], "")
            .output("y", &[DType::I32], ""),
        OpDef::new("NonZero", non_zero)
            .input("x", ANY, "")
            .output("y", INDEX, "")
            .attr("transpose", AttrKind::BOOL, true)
            .attr("dtype", AttrKind::TYPE, DType::I64)
            .flags(DATA_DEPENDENT_SHAPE),
        OpDef::new("Compress", compress)
            .input("x", ANY, "T")
            .input("condition", BOOL, "")
            .output("y", ANY, "T")
            .opt_attr("axis", i)
            .flags(DATA_DEPENDENT_SHAPE),
        OpDef::new("Unique", unique)
            .input("x", ANY, "T")
            .output("y", ANY, "T")
            .output("indices", INDEX, "")
            .output("inverse_indices", INDEX, "")
            .output("counts", INDEX, "")
            .opt_attr("axis", i)
            .attr("sorted", AttrKind::BOOL, true)
            .flags(DATA_DEPENDENT_SHAPE),
        OpDef::new("OneHot", one_hot)
            .input("x", NUMERIC, "")
            .input("depth", NUMERIC, "")
            .input("on_value", ANY, "T")
            .input("off_value", ANY, "T")
            .output("y", ANY, "T")
            .attr("axis", i, -1i64)
            .value_inputs(&[1]),
        OpDef::new("NonMaxSuppression", nms)
            .input("boxes", FLOATS, "")
            .input("scores", FLOATS, "")
            .opt("max_output_boxes_per_class", INDEX, "")
            .opt("iou_threshold", FLOATS, "")
            .opt("score_threshold", FLOATS, "")
            .output("selected_indices", INDEX, "")
            .attr("center_point_box", i, 0i64)
            .flags(DATA_DEPENDENT_SHAPE | wide(0)),
    ]
}
register_ops!(defs);
