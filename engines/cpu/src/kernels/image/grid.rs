//! `GridSample` over any number of spatial axes, `AffineGrid`,
//! `Col2Im` (`plugins/ops/src/image.rs`).
use crate::args::{Arg, bad, count, filled, flag, ints_attr, out, size, text};
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX, NUM};
use ge_kernels::view::{Elem, lines};
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

fn reflect(mut x: f64, low: f64, high: f64) -> f64 {
    let span = high - low;
    if span <= 0.0 {
        return low;
    }
    x = (x - low).abs();
    let turns = (x / span).floor();
    let rest = x - turns * span;
    if turns % 2.0 == 0.0 { rest + low } else { high - rest }
}
/// Weights of the four positions around a fraction, with `a = -0.75`.
fn cubic(t: f64) -> [f64; 4] {
    let a = -0.75;
    let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}
fn run_grid_sample(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, g) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    x.need_rank(3, 8)?;
    let k = x.rank() - 2;
    if g.rank() != x.rank() || g.shape[0] != x.shape[0] || g.shape[k + 1] != k {
        return Err(bad(
            "input 1 `grid`",
            format!("shape {:?}", g.shape),
            format!("[{}, ..., {k}] of rank {}", x.shape[0], x.rank()),
        ));
    }
    let (mode, pad) = (text(ctx, "interpolation_mode", "bilinear"), text(ctx, "padding_mode", "zeros"));
    let corners = flag(ctx, "align_corners", false);
    let spatial = &x.shape[2..];
    if spatial.contains(&0) {
        return Err(bad("input 0", format!("shape {:?}", x.shape), "places to sample"));
    }
    let mut shape = x.shape[..2].to_vec();
    shape.extend_from_slice(&g.shape[1..k + 1]);
    count(&shape)?;
    let sampler = Sampler {
        axes: spatial.to_vec(),
        bicubic: mode == "bicubic",
        nearest: mode == "nearest",
        border: pad == "border",
        reflection: pad == "reflection",
        corners,
    };
    let grid = g.f64s()?;
    with_kind!(x.kind()?, T => sampler.run(&grid, x.values::<T>()?, x.shape[1], out::<T>(ctx, 0, &shape)?));
    Ok(())
}

/// Maximum number of positions that a point reads along an axis.
const TAPS: usize = 4;
/// Number of points whose positions are computed at a time.
const POINTS: usize = 128;
/// Marks a position outside the map.
const OUTSIDE: f64 = -1.0;

/// One of the positions that each of some points reads, as an integral double, and its weight.
#[derive(Clone, Copy)]
struct Tap {
    place: [f64; POINTS],
    weight: [f64; POINTS],
}

/// Working memory for the positions of some points: along one axis, and over all axes so far.
struct Rooms {
    own: [Tap; TAPS],
    all: Vec<Tap>,
}

/// How a point of the grid reads a map.
struct Sampler {
    /// Sizes of the map's axes.
    axes: Vec<usize>,
    bicubic: bool,
    nearest: bool,
    border: bool,
    reflection: bool,
    corners: bool,
}

impl Sampler {
    /// Number of positions that a point reads along an axis.
    fn taps(&self) -> usize {
        match (self.bicubic, self.nearest) {
            (true, _) => 4,
            (_, true) => 1,
            _ => 2,
        }
    }
    /// Applies the padding mode: moves a coordinate back into an axis of `n` positions, if the mode
    /// does so.
    #[inline(always)]
    fn fold(&self, at: f64, n: f64) -> f64 {
        let (low, high) = if self.corners { (0.0, n - 1.0) } else { (-0.5, n - 0.5) };
        if self.border {
            at.clamp(0.0, n - 1.0)
        } else if self.reflection {
            reflect(at, low, high).clamp(0.0, n - 1.0)
        } else {
            at
        }
    }
    /// The positions along an axis of size `n` that grid coordinates read, with their weights, in
    /// one line for each position of a point. Positions outside the axis are [`OUTSIDE`].
    fn along(&self, us: &[f64], n: usize, taps: &mut [Tap]) {
        let n = n as f64;
        let mut at = [0.0; POINTS];
        let mut first = [0.0; POINTS];
        let (at, first) = (&mut at[..us.len()], &mut first[..us.len()]);
        lines::map(at, us, |u| {
            let at = if self.corners { (u + 1.0) / 2.0 * (n - 1.0) } else { ((u + 1.0) * n - 1.0) / 2.0 };
            // A cubic filter folds each of its positions, the other filters fold the point.
            if self.bicubic { at } else { self.fold(at, n) }
        });
        let nearest = self.nearest;
        lines::map(first, at, |at: f64| if nearest { at.round_ties_even() } else { at.floor() });
        for (i, tap) in taps.iter_mut().enumerate() {
            let step = i as f64 - if self.bicubic { 1.0 } else { 0.0 };
            let place = |first: f64, at: f64| {
                let q = if self.bicubic { self.fold(first + step, n) } else { first + step };
                if (q >= 0.0) & (q <= n - 1.0) & at.is_finite() { q.trunc() } else { OUTSIDE }
            };
            lines::zip(&mut tap.place, first, at, place);
            match (self.nearest, self.bicubic, i) {
                (true, ..) => tap.weight.fill(1.0),
                (_, true, _) => lines::zip(&mut tap.weight, at, first, |at: f64, f: f64| cubic(at - f)[i]),
                (.., 0) => lines::zip(&mut tap.weight, at, first, |at: f64, f: f64| 1.0 - (at - f)),
                _ => lines::zip(&mut tap.weight, at, first, |at: f64, f: f64| at - f),
            }
        }
    }
    /// The positions of the map that points of the grid read, with their weights, the last axis
    /// fastest. The positions of a point are consecutive. A position that is outside the map or has
    /// no weight is `usize::MAX`.
    fn points(&self, grid: &[f64], rooms: &mut Rooms, taps: &mut [(usize, f64)]) {
        let k = self.axes.len();
        let (points, each) = (grid.len() / k, self.taps());
        let (mut total, mut step) = (1, 1.0);
        rooms.all[0].place.fill(0.0);
        rooms.all[0].weight.fill(1.0);
        let mut us = [0.0; POINTS];
        let us = &mut us[..points];
        for (d, &n) in self.axes.iter().rev().enumerate() {
            us.iter_mut().zip(grid[d..].iter().step_by(k)).for_each(|(o, u)| *o = *u);
            self.along(us, n, &mut rooms.own[..each]);
            // Combines each position along this axis with everything that the later axes read. It
            // goes from last to first, so that nothing is overwritten before it is read.
            for i in (0..each).rev() {
                for t in 0..total {
                    let (behind, own) = (rooms.all[t], rooms.own[i]);
                    let to = &mut rooms.all[i * total + t];
                    let joined = |own: f64, behind: f64| {
                        if (own < 0.0) | (behind < 0.0) { OUTSIDE } else { behind + own * step }
                    };
                    lines::zip(&mut to.place[..points], &own.place, &behind.place, joined);
                    lines::zip(&mut to.weight[..points], &behind.weight, &own.weight, |a: f64, b: f64| a * b);
                }
            }
            total *= each;
            step *= n as f64;
        }
        for (t, tap) in rooms.all[..total].iter().enumerate() {
            let places = tap.place.iter().zip(&tap.weight).map(|(p, w)| (if *w == 0.0 { OUTSIDE } else { *p }, *w));
            let to = taps[t..].iter_mut().step_by(total);
            to.zip(places).for_each(|(o, (p, w))| *o = (p as i64 as usize, w));
        }
    }
    /// Samples maps of `c` channels, batch by batch.
    fn run<T: Elem>(&self, grid: &[f64], x: &[T], c: usize, y: &mut [T]) {
        let k = self.axes.len();
        let plane: usize = self.axes.iter().product();
        let per = self.taps().pow(k as u32);
        let mut taps = vec![(0, 0.0); per * POINTS];
        let none = Tap { place: [0.0; POINTS], weight: [0.0; POINTS] };
        let mut rooms = Rooms { own: [none; TAPS], all: vec![none; per] };
        let batches = x.len() / (c * plane).max(1);
        if batches == 0 || y.is_empty() {
            return;
        }
        let each = y.len() / (batches * c);
        for (b, y) in y.chunks_exact_mut(c * each).enumerate() {
            let grid = &grid[b * each * k..][..each * k];
            for (block, at) in grid.chunks(POINTS * k).enumerate() {
                let points = at.len() / k;
                let taps = &mut taps[..points * per];
                self.points(at, &mut rooms, taps);
                for ch in 0..c {
                    let plane = &x[(b * c + ch) * plane..][..plane];
                    let o = &mut y[ch * each + block * POINTS..][..points];
                    // The loops for the common filters know the number of positions at compile
                    // time.
                    match per {
                        4 => read::<T, 4>(o, plane, taps),
                        8 => read::<T, 8>(o, plane, taps),
                        16 => read::<T, 16>(o, plane, taps),
                        _ => o.iter_mut().zip(taps.chunks_exact(per)).for_each(|(o, t)| *o = mean(plane, t)),
                    }
                }
            }
        }
    }
}

/// The weighted sum of positions of a map.
fn mean<T: Elem>(plane: &[T], taps: &[(usize, f64)]) -> T {
    T::from_f64(taps.iter().fold(0.0, |s, (at, w)| s + plane.get(*at).map_or(0.0, |v| w * v.to_f64())))
}
fn read<T: Elem, const N: usize>(o: &mut [T], plane: &[T], taps: &[(usize, f64)]) {
    o.iter_mut().zip(taps.as_chunks::<N>().0).for_each(|(o, t)| *o = mean(plane, t));
}
fn run_affine_grid(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (theta, want) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?.list()?);
    if want.len() != 4 && want.len() != 5 {
        return Err(bad("input 1 `size`", format!("{} numbers", want.len()), "4 or 5 numbers"));
    }
    let dims = want.iter().map(|&d| size("input 1 `size`", d)).collect::<Result<Vec<_>>>()?;
    let k = dims.len() - 2;
    theta.need_shape(&[dims[0], k, k + 1])?;
    let corners = flag(ctx, "align_corners", false);
    let mut shape = vec![dims[0]];
    shape.extend_from_slice(&dims[2..]);
    shape.push(k);
    count(&shape)?;
    let v = theta.f64s()?;
    // The coordinates along each axis.
    let along = |n: usize| {
        let size = n as f64;
        let at = move |i: usize| match (corners, n) {
            (false, _) => (2.0 * i as f64 + 1.0) / size - 1.0,
            (true, 0 | 1) => 0.0,
            (true, _) => -1.0 + 2.0 * i as f64 / (size - 1.0),
        };
        (0..n).map(at).collect::<Vec<f64>>()
    };
    let axes: Vec<Vec<f64>> = dims[2..].iter().map(|&n| along(n)).collect();
    with_kind!(theta.kind()?, [F32, F64, F16, Bf16], T => {
        let o = out::<T>(ctx, 0, &shape)?;
        match k {
            2 => points::<T, 2>(o, &v, &axes),
            _ => points::<T, 3>(o, &v, &axes),
        }
        Ok(())
    }, else theta.refused())
}
/// The points of a grid over `K` axes, transformed by one matrix per batch. The first row of the
/// matrix gives the coordinate of the last axis.
fn points<T: Elem, const K: usize>(o: &mut [T], matrices: &[f64], axes: &[Vec<f64>]) {
    let (lead, xs) = (&axes[..K - 1], &axes[K - 1]);
    let rows: usize = lead.iter().map(Vec::len).product();
    let (row, plane) = (xs.len() * K, rows * xs.len() * K);
    if plane == 0 {
        return;
    }
    for (o, m) in o.chunks_exact_mut(plane).zip(matrices.chunks_exact(K * (K + 1))) {
        for (r, o) in o.chunks_exact_mut(row).enumerate() {
            let (mut rest, mut outer) = (r, [0.0; 2]);
            for (at, axis) in outer.iter_mut().zip(lead.iter().rev()) {
                *at = axis[rest % axis.len()];
                rest /= axis.len();
            }
            for (o, x) in o.as_chunks_mut::<K>().0.iter_mut().zip(xs) {
                for (o, m) in o.iter_mut().zip(m.chunks_exact(K + 1)) {
                    let sum = outer[..K - 1].iter().zip(&m[1..K]).fold(m[0] * x, |s, (at, m)| s + m * at);
                    *o = T::from_f64(sum + m[K]);
                }
            }
        }
    }
}
fn run_col2im(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let x = Arg::of(ctx, 0)?;
    x.need_rank(3, 3)?;
    let list =
        |i: usize| Arg::of(ctx, i)?.list()?.iter().map(|&d| size(&format!("input {i}"), d)).collect::<Result<Vec<_>>>();
    let (image, block) = (list(1)?, list(2)?);
    let k = image.len();
    let attr = |key: &str, n: usize, d: i64| match ints_attr(ctx, key) {
        None | Some([]) => Ok(vec![d; n]),
        Some(v) if v.len() == n => Ok(v.to_vec()),
        Some(v) => Err(bad(format!("attribute `{key}`"), format!("{} numbers", v.len()), format!("{n} numbers"))),
    };
    let (dil, pads, strides) = (attr("dilations", k, 1)?, attr("pads", 2 * k, 0)?, attr("strides", k, 1)?);
    let area = count(&block)?;
    if block.len() != k || area == 0 || x.shape[1] % area != 0 || strides.iter().chain(&dil).any(|&s| s < 1) {
        return Err(bad(
            "inputs of Col2Im",
            format!("shape {:?}, block {block:?}", x.shape),
            "whole blocks, strides and dilations of one or more",
        ));
    }
    let mut steps = Vec::new();
    for d in 0..k {
        let room = i128::from(image[d] as u64) + i128::from(pads[d]) + i128::from(pads[k + d])
            - (i128::from(block[d] as u64) - 1) * i128::from(dil[d])
            - 1;
        steps.push(if room < 0 {
            0
        } else {
            usize::try_from(room / i128::from(strides[d])).unwrap_or(usize::MAX - 1) + 1
        });
    }
    if count(&steps)? != x.shape[2] {
        return Err(bad("input 0: columns", x.shape[2], count(&steps)?));
    }
    let (n, c, plane) = (x.shape[0], x.shape[1] / area, count(&image)?);
    let mut shape = vec![n, c];
    shape.extend_from_slice(&image);
    count(&shape)?;
    // For each axis and each position in a block: the range of steps that are inside the image, and
    // the image position of the first of them.
    let mut spans = Vec::new();
    for d in 0..k {
        let list = (0..block[d] as i64).map(|q| span(q * dil[d] - pads[d], strides[d], steps[d], image[d]));
        spans.push(list.collect::<Vec<_>>());
    }
    let columns = Columns { image: &image, steps: &steps, strides: &strides, spans };
    with_kind!(x.kind()?, T => {
        let (v, o) = (x.values::<T>()?, out::<T>(ctx, 0, &shape)?);
        let mut sum = filled(plane, 0f64)?;
        for row in 0..n * c {
            sum.fill(0.0);
            for q in 0..area {
                columns.add(q, &v[(row * area + q) * x.shape[2]..][..x.shape[2]], &mut sum);
            }
            lines::map(&mut o[row * plane..][..plane], &sum, T::from_f64);
        }
    });
    Ok(())
}
/// The range of the steps, `stride` apart from `first` on, that are in `0..n`, and the position of
/// the first one.
fn span(first: i64, stride: i64, steps: usize, n: usize) -> (std::ops::Range<usize>, usize) {
    let (first, stride, n) = (i128::from(first), i128::from(stride), n as i128);
    let from = if first >= 0 { 0 } else { (-first + stride - 1) / stride }.min(steps as i128);
    let to = if first >= n { 0 } else { (n - 1 - first) / stride + 1 }.clamp(from, steps as i128);
    (from as usize..to as usize, (first + from * stride).max(0) as usize)
}
/// Columns of blocks, and the position of each in the image.
struct Columns<'a> {
    image: &'a [usize],
    steps: &'a [usize],
    strides: &'a [i64],
    spans: Vec<Vec<(std::ops::Range<usize>, usize)>>,
}

impl Columns<'_> {
    /// Adds the elements that all blocks have at position `q` of the block.
    fn add<T: Elem>(&self, q: usize, v: &[T], image: &mut [f64]) {
        let (mut rest, mut own) = (q, Vec::with_capacity(self.image.len()));
        for spans in self.spans.iter().rev() {
            own.push(spans[rest % spans.len()].clone());
            rest /= spans.len();
        }
        own.reverse();
        let Some(((last, first), lead)) = own.split_last() else { return };
        let d = lead.len();
        let (width, stride) = (self.steps[d], self.strides[d] as usize);
        let rows: usize = lead.iter().map(|(r, _)| r.len()).product();
        for row in 0..rows {
            let (mut rest, mut from, mut at) = (row, 0, 0);
            let (mut from_step, mut at_step) = (width, self.image[d]);
            for (a, (r, first)) in lead.iter().enumerate().rev() {
                let k = rest % r.len();
                rest /= r.len();
                from += (r.start + k) * from_step;
                at += (first + k * self.strides[a] as usize) * at_step;
                from_step *= self.steps[a];
                at_step *= self.image[a];
            }
            let line = &v[from..][..width][last.clone()];
            if line.is_empty() {
                return;
            }
            let target = &mut image[at + first..];
            if stride == 1 {
                let target = &mut target[..line.len()];
                if line.len() < 16 {
                    target.iter_mut().zip(line).for_each(|(o, v)| *o += v.to_f64());
                } else {
                    lines::update(target, line, |o, v: T| o + v.to_f64());
                }
            } else {
                target.iter_mut().step_by(stride).zip(line).for_each(|(o, v)| *o += v.to_f64());
            }
        }
    }
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("GridSample", run_grid_sample, &[NUM, FLOAT]).gives(&[NUM]),
    Op::new("AffineGrid", run_affine_grid, &[FLOAT, INDEX]).gives(&[FLOAT]),
    Op::new("Col2Im", run_col2im, &[NUM, INDEX]).gives(&[NUM]),
];
