//! Convolutions with CANN's attributes.
//!
//! Common attributes: `strides` and `dilations` have one number per dimension of `x`, in the order
//! of `data_format` (the default is `NCHW`, in 3-D `NCDHW`; `NHWC` is possible, too). `pads` has
//! begin and end of each spatial axis in turn: `[top, bottom, left, right]`, in 3-D
//! `[front, back, top, bottom, left, right]`; `groups`; `auto_pad` is `NOTSET` (pads as given),
//! `VALID` (none), `SAME_UPPER` or `SAME_LOWER`. With these two the output size is ceil(in /
//! stride) and the total pad is (out-1)·stride + (k-1)·dilation + 1 - in, with the odd one at the
//! end or at the beginning, respectively. If the total is negative, that many elements are left out
//! instead, halved towards zero.
//!
//! * `Conv2D(x [N,C,H,W], filter [O,C/groups,kh,kw], bias? [O], offset_w?)`; `Conv3D` has one more
//!   axis. With `NHWC` the filter is still `[O,C/groups,kh,kw]`. A depthwise convolution is
//!   `Conv2D` with groups = C; `DepthwiseConv2D(x, filter [C·m,1,kh,kw], bias?)` is the same
//!   without `groups`.
//! * `Conv2DTransposeD(x [N,C,H,W], filter [C,O/groups,kh,kw], bias? [O]) {output_padding, input_size}`:
//!   out = (in-1)·stride + (k-1)·dilation + 1 + output_padding - pads. `output_padding` has one
//!   number per dimension, like strides. `input_size` (empty: use the formula) is the whole shape
//!   of the output; the pads then follow from it (total = formula without pads - size; the odd one
//!   is at the beginning, but at the end for SAME_UPPER). `Conv3DTransposeD` has one more axis.
//! * `ConvInteger(x, w, x_zero_point?, w_zero_point?) -> i32`,
//!   `QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, b?)`:
//!   any number of spatial axes and **ONNX's** attributes (`strides` and `dilations` with one
//!   number per spatial axis, `pads` with all begins and then all ends, `group`, `auto_pad`,
//!   `kernel_shape`). The scale and zero point of w are a single number or one per output channel.
//! * `DeformConv(x, w, offset, b?, mask?)`: ONNX's attributes, including `offset_group`.
//! * ONNX's `CausalConvWithState` has no prototype: see `plugins/onnx/src/ops/causal.rs`.
use crate::dims;
use crate::read;
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::LOW_PRECISION};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{FLOATS, NUMERIC};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

const BYTE: &[DType] = &[DType::I8, DType::U8];

/// The channel axis and the spatial axes of the data format.
pub fn layout(c: &InferCtx<'_>, rank: usize) -> (usize, Vec<usize>) {
    let format = read::text(c, "data_format", "");
    if format.ends_with('C') { (rank - 1, (1..rank - 1).collect()) } else { (1, (2..rank).collect()) }
}
/// A list attribute with one number per dimension; `default` for each if it is missing or empty.
pub fn full_list(c: &InferCtx<'_>, key: &str, rank: usize, default: i64) -> Result<Vec<i64>> {
    match read::ints(c, key) {
        None | Some([]) => Ok(vec![default; rank]),
        Some(v) if v.len() == rank => Ok(v.to_vec()),
        Some(v) => {
            Err(read::bad(format!("attribute `{key}`"), format!("{} numbers", v.len()), format!("{rank} numbers")))
        }
    }
}
/// Begin and end pad of each of the `n` spatial axes from CANN's interleaved list; zeros if it is
/// missing or empty.
pub fn pads(c: &InferCtx<'_>, n: usize) -> Result<Vec<(i64, i64)>> {
    match read::ints(c, "pads") {
        None | Some([]) => Ok(vec![(0, 0); n]),
        Some(v) if v.len() == 2 * n => Ok(v.chunks_exact(2).map(|p| (p[0], p[1])).collect()),
        Some(v) => Err(read::bad("attribute `pads`", format!("{} numbers", v.len()), format!("{} numbers", 2 * n))),
    }
}
/// Output size of one axis with the padding mode `mode`.
pub fn axis_out(mode: &str, n: Dim, k: i64, s: i64, d: i64, pad: (i64, i64), ceil: bool) -> Result<Dim> {
    let r = match mode {
        "SAME_UPPER" | "SAME_LOWER" => Some(dims::window_same(n, s)),
        "VALID" => dims::window(n, k, s, d, 0, 0, ceil),
        _ => dims::window(n, k, s, d, pad.0, pad.1, ceil),
    };
    r.ok_or_else(|| {
        read::bad(
            "window",
            format!("kernel {k} (stride {s}, dilation {d}) over {n}"),
            "a window that fits the padded input",
        )
    })
}

/// The shape of the filter. A filter that was laid out for a kernel has a rank within `laid` and
/// the sizes of the filter in its original shape. Its rank is 1, or 3 if it is packed, or 2 if it
/// holds both forms; that of a transposed convolution is 1 if laid out by phases, 2 if by phases in
/// panels.
fn filter<'c>(c: &'c InferCtx<'_>, rank: usize, laid: std::ops::RangeInclusive<usize>) -> Result<&'c Shape> {
    let w = c.input(1)?;
    if w.shape.rank().is_some_and(|r| laid.contains(&r)) && w.origin_shape().rank() == Some(rank) {
        return Ok(w.origin_shape());
    }
    read::rank_in(c, 1, "filter", rank, rank)?;
    Ok(&w.shape)
}

fn conv_shape(c: &InferCtx<'_>, rank: usize) -> Result<Shape> {
    read::rank_in(c, 0, "x", rank, rank)?;
    let (x, w) = (&c.input(0)?.shape, filter(c, rank, 1..=3)?);
    if w.is_unranked() {
        return Ok(dims::unknown(rank));
    }
    let wd = w.dims();
    let (ca, spatial) = layout(c, rank);
    let x = if x.is_unranked() { dims::unknown(rank) } else { x.clone() };
    let groups = if c.node.op() == "DepthwiseConv2D" {
        dims::size(x.dims()[ca]).unwrap_or(-1)
    } else {
        read::int(c, "groups", 1)
    };
    if let (Some(ch), Some(cw)) = (dims::size(x.dims()[ca]), dims::size(wd[1])) {
        if groups > 0 && cw.checked_mul(groups) != Some(ch) {
            return Err(read::bad(
                "input 1 `filter`: channels",
                format!("{cw} (groups {groups})"),
                format!("{ch} / groups"),
            ));
        }
    }
    if let Some(o) = dims::size(wd[0]) {
        if groups > 0 && o % groups != 0 {
            return Err(read::bad("input 1 `filter`: outputs", o, format!("a multiple of groups = {groups}")));
        }
        if let Some(b) = c.opt_input(2).and_then(|b| b.shape.sizes()) {
            if b.iter().product::<u64>() != o as u64 {
                return Err(read::bad("input 2 `bias`", format!("{b:?}"), format!("[{o}]")));
            }
        }
    }
    let (s, d, p) = (full_list(c, "strides", rank, 1)?, full_list(c, "dilations", rank, 1)?, pads(c, rank - 2)?);
    let mode = read::text(c, "auto_pad", "NOTSET");
    let mut out = x.dims().to_vec();
    out[ca] = wd[0];
    for (i, &a) in spatial.iter().enumerate() {
        out[a] = match dims::size(wd[2 + i]) {
            Some(k) => axis_out(mode, x.dims()[a], k, s[a], d[a], p[i], false)?,
            None => Dim::UNKNOWN,
        };
    }
    Ok(Shape::new(out))
}
/// Inference of a 2-D convolution.
pub fn conv2d(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = conv_shape(c, 4)?;
    conv_out(c, s)
}
fn conv3d(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let s = conv_shape(c, 5)?;
    conv_out(c, s)
}
fn conv_out(c: &InferCtx<'_>, s: Shape) -> Result<Vec<TensorDesc>> {
    let t = c.input(0)?.dtype;
    let own = if matches!(t, DType::I8 | DType::U8) { DType::I32 } else { t };
    Ok(vec![read::out(c, read::dtype(c, "y_dtype").unwrap_or(own), s)])
}
fn transpose_shape(c: &InferCtx<'_>, rank: usize) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "x", rank, rank)?;
    let (x, w) = (&c.input(0)?.shape, filter(c, rank, 1..=2)?);
    if let Some(v) = read::ints(c, "input_size").filter(|v| !v.is_empty()) {
        if v.len() != rank {
            return Err(read::bad("attribute `input_size`", format!("{} numbers", v.len()), format!("{rank} numbers")));
        }
        let mut s = Shape::from_i64(v);
        for (o, i) in s.dims_mut().iter_mut().zip(x.dims()).take(1) {
            *o = if o.is_known() { *o } else { *i };
        }
        let (ca, _) = layout(c, rank);
        if let Some(o) = w.dims().get(1) {
            s.dims_mut()[ca] = dims::mul(*o, dims::from_i64(read::int(c, "groups", 1)));
        }
        return read::product(c, s);
    }
    if x.is_unranked() || w.is_unranked() {
        return read::product(c, dims::unknown(rank));
    }
    let (ca, spatial) = layout(c, rank);
    dims::equal("input 1 `filter`: channels", x.dims()[ca], w.dims()[0])?;
    let (s, d, p) = (full_list(c, "strides", rank, 1)?, full_list(c, "dilations", rank, 1)?, pads(c, rank - 2)?);
    let extra = full_list(c, "output_padding", rank, 0)?;
    let mode = read::text(c, "auto_pad", "NOTSET");
    let mut out = x.dims().to_vec();
    out[ca] = dims::mul(w.dims()[1], dims::from_i64(read::int(c, "groups", 1)));
    for (i, &a) in spatial.iter().enumerate() {
        let Some(k) = dims::size(w.dims()[2 + i]) else {
            out[a] = Dim::UNKNOWN;
            continue;
        };
        if mode.starts_with("SAME") {
            out[a] = dims::mul(x.dims()[a], dims::from_i64(s[a]));
            continue;
        }
        let (b, e) = if mode == "VALID" { (0, 0) } else { p[i] };
        out[a] = dims::steps(x.dims()[a], s[a], [k - 1, d[a]], [extra[a], b, e])
            .ok_or_else(|| read::bad("attribute `pads`", format!("{b} and {e}"), "pads that leave an output"))?;
    }
    read::product(c, Shape::new(out))
}
fn transpose2d(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    transpose_shape(c, 4)
}
fn transpose3d(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    transpose_shape(c, 5)
}
/// Output shape of a convolution with ONNX's attributes.
fn onnx_conv_shape(c: &InferCtx<'_>, xi: usize, wi: usize) -> Result<Shape> {
    let (x, w) = (&c.input(xi)?.shape, c.input(wi)?.origin_shape());
    let (Some(r), Some(rw)) = (x.rank(), w.rank()) else {
        return Ok(if x.is_unranked() { Shape::unranked() } else { dims::unknown(x.dims().len()) });
    };
    if r != rw || r < 3 {
        return Err(read::bad(format!("input {wi} `w`"), w, format!("rank {r}, at least 3")));
    }
    let n = r - 2;
    let list = |key: &str, len: usize, default: i64| match read::ints(c, key) {
        None | Some([]) => Ok(vec![default; len]),
        Some(v) if v.len() == len => Ok(v.to_vec()),
        Some(v) => {
            Err(read::bad(format!("attribute `{key}`"), format!("{} numbers", v.len()), format!("{len} numbers")))
        }
    };
    let (s, d, p) = (list("strides", n, 1)?, list("dilations", n, 1)?, list("pads", 2 * n, 0)?);
    let mode = read::text(c, "auto_pad", "NOTSET");
    let mut out = vec![x.dims()[0], w.dims()[0]];
    for i in 0..n {
        out.push(match dims::size(w.dims()[2 + i]) {
            Some(k) => axis_out(mode, x.dims()[2 + i], k, s[i], d[i], (p[i], p[n + i]), false)?,
            None => Dim::UNKNOWN,
        });
    }
    Ok(Shape::new(out))
}
fn conv_integer(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(DType::I32, onnx_conv_shape(c, 0, 1)?)])
}
fn qlinear_conv(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    Ok(vec![TensorDesc::new(c.input(7)?.dtype, onnx_conv_shape(c, 0, 3)?)])
}
fn deform_conv(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "x", 4, 4)?;
    let s = onnx_conv_shape(c, 0, 1)?;
    read::one(c, s)
}

/// Adds the attribute `auto_pad` with its choices.
pub fn with_auto_pad(d: OpDef) -> OpDef {
    d.attr("auto_pad", AttrKind::STRING, "NOTSET").choices(&["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
}
/// Adds the attributes that all convolutions in CANN's form have.
pub fn common(d: OpDef, format: &str) -> OpDef {
    with_auto_pad(
        d.attr("strides", AttrKind::INTS, Vec::<i64>::new())
            .range(1.0, f64::INFINITY)
            .attr("pads", AttrKind::INTS, Vec::<i64>::new())
            .attr("dilations", AttrKind::INTS, Vec::<i64>::new())
            .range(1.0, f64::INFINITY)
            .attr("groups", AttrKind::INT, 1i64)
            .range(1.0, f64::INFINITY)
            .attr("data_format", AttrKind::STRING, format)
            .attr("offset_x", AttrKind::INT, 0i64)
            .opt_attr("y_dtype", AttrKind::TYPE),
    )
}
fn conv(name: &str, f: fn(&InferCtx<'_>) -> Result<Vec<TensorDesc>>, format: &str) -> OpDef {
    common(
        OpDef::new(name, f)
            .input("x", NUMERIC, "T")
            .input("filter", NUMERIC, "")
            .opt("bias", NUMERIC, "")
            .opt("offset_w", BYTE, "")
            .output("y", NUMERIC, "")
            .flags(LOW_PRECISION),
        format,
    )
}
fn onnx_attrs(d: OpDef) -> OpDef {
    with_auto_pad(
        d.attr("strides", AttrKind::INTS, Vec::<i64>::new())
            .range(1.0, f64::INFINITY)
            .attr("pads", AttrKind::INTS, Vec::<i64>::new())
            .attr("dilations", AttrKind::INTS, Vec::<i64>::new())
            .range(1.0, f64::INFINITY)
            .attr("kernel_shape", AttrKind::INTS, Vec::<i64>::new())
            .range(1.0, f64::INFINITY)
            .attr("group", AttrKind::INT, 1i64)
            .range(1.0, f64::INFINITY),
    )
}

fn defs() -> Vec<OpDef> {
    let transpose = |name: &str, f, format| {
        conv(name, f, format).attr("output_padding", AttrKind::INTS, Vec::<i64>::new()).attr(
            "input_size",
            AttrKind::INTS,
            Vec::<i64>::new(),
        )
    };
    vec![
        conv("Conv2D", conv2d, "NCHW"),
        conv("DepthwiseConv2D", conv2d, "NCHW"),
        conv("Conv3D", conv3d, "NCDHW"),
        transpose("Conv2DTransposeD", transpose2d, "NCHW"),
        transpose("Conv3DTransposeD", transpose3d, "NCDHW"),
        onnx_attrs(
            OpDef::new("ConvInteger", conv_integer)
                .input("x", BYTE, "")
                .input("w", BYTE, "")
                .opt("x_zero_point", BYTE, "")
                .opt("w_zero_point", BYTE, "")
                .output("y", &[DType::I32], ""),
        ),
        onnx_attrs(
            OpDef::new("QLinearConv", qlinear_conv)
                .input("x", BYTE, "")
                .input("x_scale", FLOATS, "")
                .input("x_zero_point", BYTE, "")
                .input("w", BYTE, "")
                .input("w_scale", FLOATS, "")
                .input("w_zero_point", BYTE, "")
                .input("y_scale", FLOATS, "")
                .input("y_zero_point", BYTE, "")
                .opt("b", &[DType::I32], "")
                .output("y", BYTE, ""),
        ),
        onnx_attrs(
            OpDef::new("DeformConv", deform_conv)
                .input("x", FLOATS, "T")
                .input("w", FLOATS, "T")
                .input("offset", FLOATS, "T")
                .opt("b", FLOATS, "T")
                .opt("mask", FLOATS, "T")
                .output("y", FLOATS, "T")
                .attr("offset_group", AttrKind::INT, 1i64),
        ),
    ]
}
register_ops!(|| crate::value_ranges::given(defs()));
