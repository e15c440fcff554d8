//! Pooling over 1, 2 or 3 spatial axes.
//!
//! Windows: `ksize`, `strides` and `dilations` have one number per dimension of `x` in the order of
//! `data_format` (`NCHW` and the like: channel second; `NHWC` and the like: channel last). `pads`
//! has begin and end of each spatial axis in turn; `auto_pad` is as for convolutions. `ceil_mode`
//! rounds the output size up, but no window starts beyond the input and the begin pad.
//!
//! * `MaxPoolV3(x)`: padding never wins. `MaxPoolWithArgmaxV2(x) -> y, argmax i64`: flat index into
//!   the whole `x` (ONNX's `Indices`); `storage_order` 1 means column-major within the plane.
//! * `AvgPoolV2(x) {exclusive = true}`: if true, the divisor does not count padding.
//! * `LpPool(x) {p}`: p-th root of the sum of |x|^p.
//! * `GlobalAveragePool`, `GlobalMaxPool`, `GlobalLpPool {p}`: `[N,C,...]` to `[N,C,1,...]`.
//! * `MaxUnpool(x, argmax, output_shape?) {ksize, strides, pads}`: the inverse of a max pooling;
//!   zeros elsewhere.
//! * `RoiAlign(features, rois [R,4], batch_indices [R])` and `MaxRoiPool(x, rois [R,5])` with
//!   ONNX's attributes.
use crate::conv::{axis_out, full_list, layout, pads, with_auto_pad};
use crate::dims;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{
    AttrKind, InferCtx, OpDef,
    flags::{FULL_PRECISION, wide},
};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{FLOATS, INDEX, NUMERIC};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

fn pooled(c: &InferCtx<'_>) -> Result<Shape> {
    let Some(r) = read::rank_in(c, 0, "x", 3, 5)? else { return Ok(Shape::unranked()) };
    let (_, spatial) = layout(c, r);
    let x = c.input(0)?.shape.dims();
    let k = full_list(c, "ksize", r, 1)?;
    let (s, d, p) = (full_list(c, "strides", r, 1)?, full_list(c, "dilations", r, 1)?, pads(c, r - 2)?);
    let (mode, ceil) = (read::text(c, "auto_pad", "NOTSET"), read::flag(c, "ceil_mode", false));
    let mut out = x.to_vec();
    for (i, &a) in spatial.iter().enumerate() {
        out[a] = axis_out(mode, x[a], k[a], s[a], d[a], p[i], ceil)?;
    }
    Ok(Shape::new(out))
}
fn pool(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = pooled(c)?;
    read::one(c, s)
}
fn pool_argmax(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = pooled(c)?;
    Ok(vec![read::out(c, c.input(0)?.dtype, s.clone()), TensorDesc::new(DType::I64, s)])
}
fn global(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let Some(r) = read::rank_in(c, 0, "x", 2, usize::MAX)? else { return read::one(c, Shape::unranked()) };
    let (_, spatial) = layout(c, r);
    let mut d = c.input(0)?.shape.dims().to_vec();
    for a in spatial {
        d[a] = Dim::known(1);
    }
    read::one(c, Shape::new(d))
}
fn unpool(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let Some(r) = read::rank_in(c, 0, "x", 3, 5)? else { return read::one(c, Shape::unranked()) };
    if c.opt_input(2).is_some() {
        return read::one(c, c.const_ints(2).map_or_else(|| dims::unknown(r), |v| Shape::from_i64(&v)));
    }
    let (_, spatial) = layout(c, r);
    let (k, s, p) = (full_list(c, "ksize", r, 1)?, full_list(c, "strides", r, 1)?, pads(c, r - 2)?);
    let mut d = c.input(0)?.shape.dims().to_vec();
    for (i, &a) in spatial.iter().enumerate() {
        d[a] = dims::size(d[a]).map_or(Dim::UNKNOWN, |n| dims::from_i64((n - 1) * s[a] + k[a] - p[i].0 - p[i].1));
    }
    read::one(c, Shape::new(d))
}
fn roi(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "features", 4, 4)?;
    let rois = c.input(1)?.shape.dims().first().copied().unwrap_or(Dim::UNKNOWN);
    let ch = c.input(0)?.shape.dims().get(1).copied().unwrap_or(Dim::UNKNOWN);
    let (h, w) = match read::ints(c, "pooled_shape") {
        Some(&[h, w]) => (h, w),
        _ => (read::int(c, "output_height", 1), read::int(c, "output_width", 1)),
    };
    read::one(c, Shape::new([rois, ch, dims::from_i64(h), dims::from_i64(w)]))
}

fn window(d: OpDef) -> OpDef {
    with_auto_pad(
        d.required_attr("ksize", AttrKind::INTS)
            .range(1.0, f64::INFINITY)
            .attr("strides", AttrKind::INTS, Vec::<i64>::new())
            .range(1.0, f64::INFINITY)
            .attr("pads", AttrKind::INTS, Vec::<i64>::new())
            .attr("dilations", AttrKind::INTS, Vec::<i64>::new())
            .range(1.0, f64::INFINITY)
            .attr("ceil_mode", AttrKind::BOOL, false)
            .attr("data_format", AttrKind::STRING, "NCHW"),
    )
}
fn defs() -> Vec<OpDef> {
    let global = |name: &str| {
        OpDef::new(name, global).input("x", FLOATS, "T").output("y", FLOATS, "T").attr(
            "data_format",
            AttrKind::STRING,
            "NCHW",
        )
    };
    vec![
        window(OpDef::new("MaxPoolV3", pool).input("x", NUMERIC, "T").output("y", NUMERIC, "T")),
        window(
            OpDef::new("MaxPoolWithArgmaxV2", pool_argmax).input("x", NUMERIC, "T").output("y", NUMERIC, "T").output(
                "argmax",
                &[DType::I64],
                "",
            ),
        )
        .attr("storage_order", AttrKind::INT, 0i64),
        window(OpDef::new("AvgPoolV2", pool).input("x", FLOATS, "T").output("y", FLOATS, "T")).attr(
            "exclusive",
            AttrKind::BOOL,
            true,
        ),
        window(OpDef::new("LpPool", pool).input("x", FLOATS, "T").output("y", FLOATS, "T"))
            .attr("p", AttrKind::FLOAT, 2.0)
            .flags(FULL_PRECISION),
        global("GlobalAveragePool"),
        global("GlobalMaxPool"),
        global("GlobalLpPool").attr("p", AttrKind::FLOAT, 2.0).flags(FULL_PRECISION),
        window(
            OpDef::new("MaxUnpool", unpool)
                .input("x", FLOATS, "T")
                .input("argmax", INDEX, "")
                .opt("output_shape", INDEX, "")
                .output("y", FLOATS, "T")
                .value_inputs(&[2]),
        ),
        OpDef::new("RoiAlign", roi)
            .input("features", FLOATS, "T")
            .input("rois", FLOATS, "T")
            .input("batch_indices", INDEX, "")
            .output("y", FLOATS, "T")
            .attr("coordinate_transformation_mode", AttrKind::STRING, "half_pixel")
            .choices(&["half_pixel", "output_half_pixel"])
            .attr("mode", AttrKind::STRING, "avg")
            .choices(&["avg", "max"])
            .attr("output_height", AttrKind::INT, 1i64)
            .attr("output_width", AttrKind::INT, 1i64)
            .attr("sampling_ratio", AttrKind::INT, 0i64)
            .attr("spatial_scale", AttrKind::FLOAT, 1.0)
            .flags(FULL_PRECISION | wide(1)),
        OpDef::new("MaxRoiPool", roi)
            .input("x", FLOATS, "T")
            .input("rois", FLOATS, "T")
            .output("y", FLOATS, "T")
            .required_attr("pooled_shape", AttrKind::INTS)
            .attr("spatial_scale", AttrKind::FLOAT, 1.0)
            .flags(FULL_PRECISION | wide(1)),
    ]
}
register_ops!(|| crate::value_ranges::given(defs()));
