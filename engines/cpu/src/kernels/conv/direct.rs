//! `Conv2D`, `DepthwiseConv2D`, `Conv3D`, their transposed forms, `ConvInteger`, `QLinearConv`:
//! direct loops over output rows, with bounds checks moved out of the inner loop. Floating-point
//! numbers are summed in doubles, integers in 64 bits.
use super::window::{Apart, Axis, axes, cann_pads, channels_last, onnx_lists, spatial_list, three};
use crate::args::{Arg, bad, count, filled, int_attr, ints_attr, put_f64, put_i64, size, text};
use crate::kernels::matrix::bytes::saturate;
use crate::kernels::matrix::product::{Wide, widen};
use crate::op::{Op, Run};
use crate::par;
use crate::store::types::{BYTE, FLOAT, NUM};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// Rearranges `[N, spatial..., C]` data to `[N, C, spatial...]`.
pub fn channels_first<W: Wide>(v: &[W], n: usize, plane: usize, c: usize) -> Result<Vec<W>> {
    regroup(v, n, plane, c)
}
/// Swaps the two inner of three dimensions `[n, a, b]`.
pub fn regroup<W: Wide>(v: &[W], n: usize, a: usize, b: usize) -> Result<Vec<W>> {
    let mut o = filled(v.len(), W::default())?;
    for (s, o) in v.chunks_exact((a * b).max(1)).zip(o.chunks_exact_mut((a * b).max(1))).take(n) {
        for i in 0..a {
            for j in 0..b {
                o[j * a + i] = s[i * b + j];
            }
        }
    }
    Ok(o)
}

/// Sizes of a convolution.
pub struct Sizes {
    /// Batch size.
    pub n: usize,
    /// Number of input channels.
    pub c: usize,
    /// Number of output channels.
    pub o: usize,
    /// Number of groups.
    pub groups: usize,
    /// Spatial axes.
    pub ax: [Axis; 3],
}
impl Sizes {
    fn in_plane(&self) -> usize {
        self.ax.iter().map(|a| a.input).product()
    }
    fn out_plane(&self) -> usize {
        self.ax.iter().map(|a| a.output).product()
    }
    fn kernel(&self) -> usize {
        self.ax.iter().map(|a| a.kernel).product()
    }
}

/// Computes `y[n][o][...]` from `x[n][c][...]` and `w[o][c/groups][...]`.
pub fn convolve<W: Wide>(s: &Sizes, x: &[W], w: &[W], bias: Option<&[W]>) -> Result<Vec<W>> {
    let [ad, ah, aw] = s.ax;
    let (cg, og) = (s.c / s.groups, (s.o / s.groups).max(1));
    let (ip, kk) = (s.in_plane(), s.kernel());
    let mut y = filled(count(&[s.n, s.o, s.out_plane()])?, W::default())?;
    let width = aw.output;
    let rows_a_plane = ad.output * ah.output;
    if y.is_empty() {
        return Ok(y);
    }
    let cols: Vec<_> = (0..aw.kernel).map(|k| aw.valid(k)).collect();
    par::rows(&mut y, width * rows_a_plane, width * rows_a_plane * cg * kk, |t, plane| {
        let (n, o) = (t / s.o, t % s.o);
        let g = o / og;
        plane.fill(bias.map_or(W::default(), |b| b[o]));
        for c in 0..cg {
            let image = &x[((n * s.c) + g * cg + c) * ip..][..ip];
            let filter = &w[(o * cg + c) * kk..][..kk];
            for kd in 0..ad.kernel {
                let (ds, d0) = ad.valid(kd);
                for kh in 0..ah.kernel {
                    let (hs, h0) = ah.valid(kh);
                    let taps = &filter[(kd * ah.kernel + kh) * aw.kernel..][..aw.kernel];
                    for od in ds.clone() {
                        let id = (d0 + (od * ad.stride) as i64) as usize;
                        for oh in hs.clone() {
                            let ih = (h0 + (oh * ah.stride) as i64) as usize;
                            let line = &image[(id * ah.input + ih) * aw.input..][..aw.input];
                            let row = &mut plane[(od * ah.output + oh) * width..][..width];
                            for ((ws, w0), &f) in cols.iter().zip(taps) {
                                if ws.is_empty() {
                                    continue;
                                }
                                let from = &line[(w0 + (ws.start * aw.stride) as i64) as usize..];
                                let to = &mut row[ws.clone()];
                                if aw.stride == 1 {
                                    to.iter_mut().zip(from).for_each(|(y, v)| *y = y.mul_add(f, *v));
                                } else {
                                    to.iter_mut()
                                        .zip(from.iter().step_by(aw.stride))
                                        .for_each(|(y, v)| *y = y.mul_add(f, *v));
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    })?;
    Ok(y)
}

/// The transposed convolution: each position of `x[n][c]` adds its filter `w[c][o/groups]` to the
/// output. `ax` describes the convolution that it transposes, so its input size is that of the
/// output written here.
pub fn convolve_transposed<W: Wide>(s: &Sizes, x: &[W], w: &[W], bias: Option<&[W]>) -> Result<Vec<W>> {
    let [ad, ah, aw] = s.ax;
    let (cg, og) = ((s.c / s.groups).max(1), s.o / s.groups);
    let (yp, xp, kk) = (s.in_plane(), s.out_plane(), s.kernel());
    let mut y = filled(count(&[s.n, s.o, yp])?, W::default())?;
    if y.is_empty() {
        return Ok(y);
    }
    let cols: Vec<_> = (0..aw.kernel).map(|k| aw.valid(k)).collect();
    par::rows(&mut y, yp, xp * cg * kk, |t, plane| {
        let (n, o) = (t / s.o, t % s.o);
        let g = o / og;
        plane.fill(bias.map_or(W::default(), |b| b[o]));
        for c in g * cg..(g + 1) * cg {
            let image = &x[(n * s.c + c) * xp..][..xp];
            let filter = &w[(c * og + o % og) * kk..][..kk];
            for kd in 0..ad.kernel {
                let (ds, d0) = ad.valid(kd);
                for kh in 0..ah.kernel {
                    let (hs, h0) = ah.valid(kh);
                    let taps = &filter[(kd * ah.kernel + kh) * aw.kernel..][..aw.kernel];
                    for id in ds.clone() {
                        let od = (d0 + (id * ad.stride) as i64) as usize;
                        for ih in hs.clone() {
                            let oh = (h0 + (ih * ah.stride) as i64) as usize;
                            let line = &image[(id * ah.output + ih) * aw.output..][..aw.output];
                            let row = &mut plane[(od * ah.input + oh) * aw.input..][..aw.input];
                            for ((ws, w0), &f) in cols.iter().zip(taps) {
                                for iw in ws.clone() {
                                    let ow = (w0 + (iw * aw.stride) as i64) as usize;
                                    row[ow] = row[ow].mul_add(f, line[iw]);
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    })?;
    Ok(y)
}

fn wide_input<W: Wide>(x: &Arg<'_>, last: bool) -> Result<Vec<W>> {
    let v = widen(x)?;
    if !last {
        return Ok(v);
    }
    let r = x.rank();
    channels_first(&v, x.shape[0], x.shape[1..r - 1].iter().product(), x.shape[r - 1])
}
/// The number of groups, from the attribute `key`. It is the number of channels for
/// `DepthwiseConv2D`.
pub fn groups(ctx: &KernelCtx<'_>, key: &str, c: usize) -> Result<usize> {
    let g = if ctx.op == "DepthwiseConv2D" { c } else { size(&format!("attribute `{key}`"), int_attr(ctx, key, 1))? };
    if g == 0 { Err(bad(format!("attribute `{key}`"), 0, "1 or more")) } else { Ok(g) }
}
/// A bias, with one number per output channel.
pub fn bias_of<W: Wide>(b: Option<&Arg<'_>>, o: usize) -> Result<Option<Vec<W>>> {
    let Some(b) = b else { return Ok(None) };
    if b.len != o {
        return Err(bad(format!("input {} `bias`", b.index), format!("shape {:?}", b.shape), format!("[{o}]")));
    }
    widen(b).map(Some)
}
/// Fails if channels, filter and groups do not fit together.
pub fn check(c: usize, cw: usize, o: usize, groups: usize) -> Result<()> {
    if cw.checked_mul(groups) != Some(c) || !o.is_multiple_of(groups) {
        return Err(bad(
            "filter",
            format!("{o} outputs of {cw} channels (groups {groups})"),
            format!("{c} channels in groups"),
        ));
    }
    Ok(())
}
/// The output's shape, with channels first or last.
fn out_shape(n: usize, o: usize, spatial: &[usize], last: bool) -> Vec<usize> {
    let mut s = vec![n];
    if !last {
        s.push(o);
    }
    s.extend_from_slice(spatial);
    if last {
        s.push(o);
    }
    s
}
fn finish<W: Wide>(y: Vec<W>, n: usize, o: usize, spatial: &[usize], last: bool) -> Result<(Vec<usize>, Vec<W>)> {
    let y = if last { regroup(&y, n, o, spatial.iter().product())? } else { y };
    Ok((out_shape(n, o, spatial, last), y))
}
/// The operands that a convolution and its transposed form have in common.
struct Operands<'x> {
    /// Rank of the input.
    r: usize,
    /// Whether the channels are last.
    last: bool,
    /// Number of channels of the input.
    c: usize,
    /// Sizes of the spatial axes of the input.
    spatial: &'x [usize],
    groups: usize,
    strides: Vec<i64>,
    dilations: Vec<i64>,
}
fn operands<'x>(ctx: &KernelCtx<'_>, x: &'x Arg<'_>, w: &Arg<'_>) -> Result<Operands<'x>> {
    let r = x.rank();
    x.need_rank(3, 5)?;
    w.need_rank(r, r)?;
    let last = channels_last(ctx);
    let (c, spatial) = if last { (x.shape[r - 1], &x.shape[1..r - 1]) } else { (x.shape[1], &x.shape[2..]) };
    let groups = groups(ctx, "groups", c)?;
    let (strides, dilations) = (spatial_list(ctx, "strides", r, 1)?, spatial_list(ctx, "dilations", r, 1)?);
    Ok(Operands { r, last, c, spatial, groups, strides, dilations })
}
/// Computes a convolution with CANN's attributes; returns the shape and the values of `y`.
pub fn conv<W: Wide>(
    ctx: &KernelCtx<'_>,
    x: &Arg<'_>,
    w: &Arg<'_>,
    bias: Option<&Arg<'_>>,
) -> Result<(Vec<usize>, Vec<W>)> {
    let Operands { r, last, c, spatial, groups: g, strides: s, dilations: d } = operands(ctx, x, w)?;
    check(c, w.shape[1], w.shape[0], g)?;
    let kernel: Vec<i64> = w.shape[2..].iter().map(|&k| k as i64).collect();
    let ax = axes(ctx, Apart::FromTheFirst, spatial, &kernel, &s, &d, &cann_pads(ctx, r - 2)?)?;
    let sizes = Sizes { n: x.shape[0], c, o: w.shape[0], groups: g, ax: three(&ax)? };
    let y = convolve(&sizes, &wide_input::<W>(x, last)?, &widen::<W>(w)?, bias_of(bias, sizes.o)?.as_deref())?;
    let out: Vec<usize> = ax.iter().map(|a| a.output).collect();
    finish(y, sizes.n, sizes.o, &out, last)
}
fn run_conv(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, w, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::opt(ctx, 2)?);
    if x.kind()?.is_float() {
        let (shape, y) = conv::<f64>(ctx, &x, &w, b.as_ref())?;
        return put_f64(ctx, 0, &shape, &y);
    }
    let (shape, y) = conv::<i64>(ctx, &x, &w, b.as_ref())?;
    put_i64(ctx, 0, &shape, &y)
}

fn transposed<W: Wide>(
    ctx: &KernelCtx<'_>,
    x: &Arg<'_>,
    w: &Arg<'_>,
    bias: Option<&Arg<'_>>,
) -> Result<(Vec<usize>, Vec<W>)> {
    let Operands { r, last, c, spatial, groups: g, strides: s, dilations: d } = operands(ctx, x, w)?;
    if w.shape[0] != c || c % g != 0 {
        return Err(bad(
            "input 1 `filter`",
            format!("shape {:?}", w.shape),
            format!("{c} channels first, in {g} groups"),
        ));
    }
    let o = w.shape[1].checked_mul(g).ok_or_else(|| bad("attribute `groups`", g, "fewer groups"))?;
    let extra = spatial_list(ctx, "output_padding", r, 0)?;
    let pads = cann_pads(ctx, r - 2)?;
    let mode = text(ctx, "auto_pad", "NOTSET");
    let wanted = match ints_attr(ctx, "input_size").filter(|v| !v.is_empty()) {
        Some(v) if v.len() == r => Some(if last { v[1..r - 1].to_vec() } else { v[2..].to_vec() }),
        Some(v) => return Err(bad("attribute `input_size`", format!("{} numbers", v.len()), format!("{r} numbers"))),
        None => None,
    };
    let mut ax = Vec::new();
    for i in 0..r - 2 {
        let (n, k) = (spatial[i] as i64, w.shape[2 + i] as i64);
        let limit = i64::from(i32::MAX);
        if !(1..=limit).contains(&s[i])
            || !(1..=limit).contains(&d[i])
            || !(0..=limit).contains(&extra[i])
            || k < 1
            || k > limit
            || n > limit
        {
            return Err(bad(
                "window",
                format!("kernel {k}, stride {}, dilation {}", s[i], d[i]),
                "numbers of one or more",
            ));
        }
        let full = (n - 1) * s[i] + (k - 1) * d[i] + 1 + extra[i];
        let (begin, end) = match (&wanted, mode) {
            (Some(v), _) => split_pad(full.saturating_sub(v[i]), mode),
            (None, "SAME_UPPER" | "SAME_LOWER") => split_pad(full - n * s[i], mode),
            (None, "VALID") => (0, 0),
            _ => pads[i],
        };
        let out = full.checked_sub(begin).and_then(|v| v.checked_sub(end)).and_then(|v| usize::try_from(v).ok());
        let out =
            out.ok_or_else(|| bad("attribute `pads`", format!("{begin} and {end}"), "pads that leave an output"))?;
        let [kernel, stride, dilation] = [k, s[i], d[i]].map(|v| v as usize);
        ax.push(Axis { input: out, kernel, stride, dilation, begin, end, output: spatial[i] });
    }
    let sizes = Sizes { n: x.shape[0], c, o, groups: g, ax: three(&ax)? };
    let y = convolve_transposed(&sizes, &wide_input::<W>(x, last)?, &widen::<W>(w)?, bias_of(bias, o)?.as_deref())?;
    let out: Vec<usize> = ax.iter().map(|a| a.input).collect();
    finish(y, sizes.n, o, &out, last)
}
/// Splits a total padding in two: an odd element goes to the beginning, for SAME_UPPER to the end.
fn split_pad(total: i64, mode: &str) -> (i64, i64) {
    let small = total.div_euclid(2);
    if mode == "SAME_UPPER" { (small, total - small) } else { (total - small, small) }
}
fn run_transposed(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, w, b) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::opt(ctx, 2)?);
    if x.kind()?.is_float() {
        let (shape, y) = transposed::<f64>(ctx, &x, &w, b.as_ref())?;
        return put_f64(ctx, 0, &shape, &y);
    }
    let (shape, y) = transposed::<i64>(ctx, &x, &w, b.as_ref())?;
    put_i64(ctx, 0, &shape, &y)
}

/// A convolution of 8-bit numbers minus their zero points, with ONNX's attributes. The weights may
/// have one zero point per output channel.
fn integer(
    ctx: &KernelCtx<'_>,
    x: &Arg<'_>,
    zx: Option<&Arg<'_>>,
    w: &Arg<'_>,
    zw: Option<&Arg<'_>>,
    b: Option<&Arg<'_>>,
) -> Result<(Vec<usize>, Vec<i64>)> {
    let r = x.rank();
    x.need_rank(3, 5)?;
    w.need_rank(r, r)?;
    let (c, o) = (x.shape[1], w.shape[0]);
    let g = groups(ctx, "group", c)?;
    check(c, w.shape[1], o, g)?;
    let kernel: Vec<i64> = w.shape[2..].iter().map(|&k| k as i64).collect();
    let (s, d, p) = onnx_lists(ctx, r - 2)?;
    let ax = axes(ctx, Apart::FromTheFirst, &x.shape[2..], &kernel, &s, &d, &p)?;
    let mut vx = x.i64s()?;
    if let Some(z) = zx {
        let z = z.int()?;
        vx.iter_mut().for_each(|v| *v -= z);
    }
    let mut vw = w.i64s()?;
    if let Some(z) = zw {
        let zs = z.i64s()?;
        if zs.len() != 1 && zs.len() != o {
            return Err(bad(format!("input {}", z.index), format!("{} zero points", zs.len()), format!("1 or {o}")));
        }
        let each = (vw.len() / o.max(1)).max(1);
        vw.chunks_mut(each)
            .enumerate()
            .for_each(|(i, f)| f.iter_mut().for_each(|v| *v -= zs[if zs.len() == 1 { 0 } else { i }]));
    }
    let sizes = Sizes { n: x.shape[0], c, o, groups: g, ax: three(&ax)? };
    let y = convolve(&sizes, &vx, &vw, bias_of(b, o)?.as_deref())?;
    let mut shape = vec![sizes.n, o];
    shape.extend(ax.iter().map(|a| a.output));
    Ok((shape, y))
}
fn run_conv_integer(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, w, zx, zw) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::opt(ctx, 2)?, Arg::opt(ctx, 3)?);
    let (shape, y) = integer(ctx, &x, zx.as_ref(), &w, zw.as_ref(), None)?;
    put_i64(ctx, 0, &shape, &y)
}
fn run_qlinear_conv(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let g = |i| Arg::of(ctx, i);
    let (x, sx, zx, w, sw, zw, sy, zy) = (g(0)?, g(1)?, g(2)?, g(3)?, g(4)?, g(5)?, g(6)?, g(7)?);
    let b = Arg::opt(ctx, 8)?;
    let (shape, y) = integer(ctx, &x, Some(&zx), &w, Some(&zw), b.as_ref())?;
    let (sx, sw, sy, zy) = (sx.scalar()? as f32, sw.f64s()?, sy.scalar()? as f32, zy.int()?);
    let o = shape[1].max(1);
    if sw.len() != 1 && sw.len() != o {
        return Err(bad("input 4 `w_scale`", format!("{} scales", sw.len()), format!("1 or {o}")));
    }
    let plane: usize = shape[2..].iter().product::<usize>().max(1);
    let d = ctx.output_dtype(0).unwrap_or(DType::U8);
    let mut q = crate::args::room(y.len())?;
    for (i, &v) in y.iter().enumerate() {
        let s = sx * sw[if sw.len() == 1 { 0 } else { i / plane % o }] as f32 / sy;
        q.push(saturate(v as f64 * f64::from(s), zy, d));
    }
    put_i64(ctx, 0, &shape, &q)
}

const fn c(name: &'static str, run: Run) -> Op {
    Op::new(name, run, &[NUM]).gives(&[NUM])
}
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    c("Conv2D", run_conv),
    c("DepthwiseConv2D", run_conv),
    c("Conv3D", run_conv),
    c("Conv2DTransposeD", run_transposed),
    c("Conv3DTransposeD", run_transposed),
    Op::new("ConvInteger", run_conv_integer, &[BYTE]).gives(&[&[DType::I32]]),
    Op::new("QLinearConv", run_qlinear_conv, &[BYTE, FLOAT, BYTE, BYTE, FLOAT, BYTE, FLOAT, BYTE, &[DType::I32]])
        .gives(&[BYTE]),
];
