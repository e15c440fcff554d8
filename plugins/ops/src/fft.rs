//! Fourier transforms, windows and spectra.
//!
//! * `DFT(x, dft_length?, axis?) {axis = -2, inverse, onesided}` as in ONNX: the last dimension is
//!   1 (real) or 2 (complex); `axis` is an input or an attribute; the forward transform does not
//!   scale, the inverse divides by the length; onesided forward: length/2+1 bins; onesided inverse:
//!   real result (last dimension 1). `STFT(signal [B,L,1|2], frame_step, window?, frame_length?)
//!   {onesided = true} -> [B,frames,bins,2]`.
//! * `RFFT(x [..., n]) {n} -> [..., n/2+1, 2]` and `IRFFT(x [..., m, 2]) {n} -> [..., n]` (n
//!   defaults to 2·(m-1)), both along the last axis.
//! * `HannWindow HammingWindow BlackmanWindow (size) {periodic = true, output_dtype = f32}`;
//!   `MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz) {output_dtype}`.
use crate::dims;
use crate::read::{self, bad};
use ge_plugin_api::diagnostic::Result;
use ge_plugin_api::ops::{AttrKind, InferCtx, OpDef, flags::FULL_PRECISION};
use ge_plugin_api::register_ops;
use ge_plugin_api::types::dtype::{FLOATS, INDEX, NUMERIC};
use ge_plugin_api::types::{DType, Dim, Shape, TensorDesc};

fn dft(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = &c.input(0)?.shape;
    let Some(r) = x.rank() else { return read::one(c, Shape::unranked()) };
    if r < 2 {
        return Err(bad("input 0 `x`", x, "rank 2 or more, the last dimension 1 or 2"));
    }
    let a = if c.opt_input(2).is_some() {
        c.const_ints(2).and_then(|v| v.first().copied())
    } else {
        Some(read::int(c, "axis", -2))
    };
    let mut d = x.dims().to_vec();
    let (inverse, onesided) = (read::flag(c, "inverse", false), read::flag(c, "onesided", false));
    match a {
        Some(a) => {
            let a = read::axis("axis", a, r)?;
            if a == r - 1 {
                return Err(bad("axis", a, "an axis before the last one"));
            }
            let n = match c.opt_input(1) {
                Some(_) => c.const_ints(1).and_then(|v| v.first().copied()).map_or(Dim::UNKNOWN, dims::from_i64),
                None if inverse && onesided => dims::size(d[a]).map_or(Dim::UNKNOWN, |m| dims::from_i64(2 * (m - 1))),
                None => d[a],
            };
            d[a] = if onesided && !inverse {
                dims::size(n).map_or(Dim::UNKNOWN, |n| dims::from_i64(n / 2 + 1))
            } else {
                n
            };
        }
        None => d[..r - 1].fill(Dim::UNKNOWN),
    }
    d[r - 1] = Dim::known(if inverse && onesided { 1 } else { 2 });
    read::one(c, Shape::new(d))
}
fn stft(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    read::rank_in(c, 0, "signal", 2, 3)?;
    let x = c.input(0)?.shape.dims();
    let one = |i: usize| c.const_ints(i).and_then(|v| v.first().copied());
    let len = one(3).or_else(|| c.opt_input(2).and_then(|w| w.shape.dims().first().and_then(|d| dims::size(*d))));
    let frames = match (x.get(1).and_then(|d| dims::size(*d)), len, one(1)) {
        (Some(_), _, Some(s)) if s < 1 => return Err(bad("input 1 `frame_step`", s, "1 or more")),
        (Some(n), Some(l), Some(s)) => dims::from_i64(((n - l) / s + 1).max(0)),
        _ => Dim::UNKNOWN,
    };
    let bins =
        len.map_or(Dim::UNKNOWN, |l| dims::from_i64(if read::flag(c, "onesided", true) { l / 2 + 1 } else { l }));
    read::one(c, Shape::new([x.first().copied().unwrap_or(Dim::UNKNOWN), frames, bins, Dim::known(2)]))
}
fn rfft(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let x = &c.input(0)?.shape;
    if read::rank_in(c, 0, "x", 1, usize::MAX)?.is_none() {
        return read::one(c, Shape::unranked());
    }
    let mut d = x.dims().to_vec();
    let n = c.node.int("n").map_or_else(|| d.last().copied().unwrap_or(Dim::UNKNOWN), dims::from_i64);
    d.pop();
    d.push(dims::size(n).map_or(Dim::UNKNOWN, |n| dims::from_i64(n / 2 + 1)));
    d.push(Dim::known(2));
    read::one(c, Shape::new(d))
}
fn irfft(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let Some(r) = read::rank_in(c, 0, "x", 2, usize::MAX)? else { return read::one(c, Shape::unranked()) };
    let x = c.input(0)?.shape.dims();
    dims::equal("input 0 `x`: last dimension", Dim::known(2), x[r - 1])?;
    let mut d = x[..r - 2].to_vec();
    d.push(match c.node.int("n") {
        Some(n) => dims::from_i64(n),
        None => dims::size(x[r - 2]).map_or(Dim::UNKNOWN, |m| dims::from_i64(2 * (m - 1))),
    });
    read::one(c, Shape::new(d))
}
fn window(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let n = c.const_ints(0).and_then(|v| v.first().copied()).map_or(Dim::UNKNOWN, dims::from_i64);
    Ok(vec![TensorDesc::new(read::dtype(c, "output_dtype").unwrap_or(DType::F32), Shape::new([n]))])
}
fn mel(c: &InferCtx<'_>) -> Result<Vec<TensorDesc>> {
    let one = |i: usize| c.const_ints(i).and_then(|v| v.first().copied());
    let rows = one(1).map_or(Dim::UNKNOWN, |n| dims::from_i64(n / 2 + 1));
    let s = Shape::new([rows, one(0).map_or(Dim::UNKNOWN, dims::from_i64)]);
    Ok(vec![TensorDesc::new(read::dtype(c, "output_dtype").unwrap_or(DType::F32), s)])
}

fn defs() -> Vec<OpDef> {
    let (b, t) = (AttrKind::BOOL, AttrKind::TYPE);
    let mut v = vec![
        OpDef::new("DFT", dft)
            .input("x", FLOATS, "T")
            .opt("dft_length", INDEX, "")
            .opt("axis", INDEX, "")
            .output("y", FLOATS, "T")
            .attr("axis", AttrKind::INT, -2i64)
            .attr("inverse", b, false)
            .attr("onesided", b, false)
            .value_inputs(&[1, 2])
            .flags(FULL_PRECISION),
        OpDef::new("STFT", stft)
            .input("signal", FLOATS, "T")
            .input("frame_step", INDEX, "")
            .opt("window", FLOATS, "T")
            .opt("frame_length", INDEX, "")
            .output("y", FLOATS, "T")
            .attr("onesided", b, true)
            .value_inputs(&[1, 3])
            .flags(FULL_PRECISION),
        OpDef::new("RFFT", rfft)
            .input("x", FLOATS, "T")
            .output("y", FLOATS, "T")
            .opt_attr("n", AttrKind::INT)
            .flags(FULL_PRECISION),
        OpDef::new("IRFFT", irfft)
            .input("x", FLOATS, "T")
            .output("y", FLOATS, "T")
            .opt_attr("n", AttrKind::INT)
            .flags(FULL_PRECISION),
        OpDef::new("MelWeightMatrix", mel)
            .input("num_mel_bins", INDEX, "")
            .input("dft_length", INDEX, "")
            .input("sample_rate", INDEX, "")
            .input("lower_edge_hertz", FLOATS, "")
            .input("upper_edge_hertz", FLOATS, "")
            .output("y", NUMERIC, "")
            .attr("output_dtype", t, DType::F32)
            .value_inputs(&[0, 1]),
    ];
    for name in ["HannWindow", "HammingWindow", "BlackmanWindow"] {
        v.push(
            OpDef::new(name, window)
                .input("size", INDEX, "")
                .output("y", NUMERIC, "")
                .attr("periodic", b, true)
                .attr("output_dtype", t, DType::F32)
                .value_inputs(&[0]),
        );
    }
    v
}
register_ops!(|| crate::value_ranges::given(defs()));
