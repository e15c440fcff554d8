//! `GridSample` over any number of spatial axes, `AffineGrid` (`plugins/ops/src/image.rs`).
use crate::args::{Arg, bad, count, flag, out, size, text};
use crate::op::Op;
use crate::store::types::{FLOAT, INDEX, NUM};
use ge_kernels::view::{Elem, lines};
use ge_kernels::{multiversion, with_kind};
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;

#[inline(always)]
fn reflect(mut x: f64, low: f64, high: f64) -> f64 {
    let span = high - low;
    if span <= 0.0 {
        return low;
    }
    x = (x - low).abs();
    let turns = (x / span).floor();
    let rest = x - turns * span;
    let half = turns / 2.0;
    if half == half.floor() { rest + low } else { high - rest }
}
/// The nearest number from zero to `last`; NaN stays.
#[inline(always)]
fn within(at: f64, last: f64) -> f64 {
    let at = if at > last { last } else { at };
    if at < 0.0 { 0.0 } else { at }
}
/// Weights of the four positions around a fraction, with `a = -0.75`.
#[inline(always)]
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
/// More positions than a map has; up to this number, doubles hold every whole number.
const MOST_PLACES: f64 = (1u64 << 52) as f64;
/// Marks a position outside the map.
const OUTSIDE: f64 = -1.0;

/// One of the positions that each of some points reads, as an integral double, and its weight.
#[derive(Clone, Copy)]
struct Tap {
    place: [f64; POINTS],
    weight: [f64; POINTS],
}

/// One of the positions of a map that each of some points reads, and its weight.
#[derive(Clone, Copy)]
struct MapTap {
    place: [usize; POINTS],
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
            within(at, n - 1.0)
        } else if self.reflection {
            within(reflect(at, low, high), n - 1.0)
        } else {
            at
        }
    }
    /// The coordinates on an axis of size `n` that grid coordinates stand for. A cubic filter folds
    /// each of its positions, the other filters fold the point.
    fn coordinates(&self, us: &[f64], n: f64, at: &mut [f64]) {
        let last = n - 1.0;
        if self.corners {
            lines::map(at, us, |u: f64| (u + 1.0) / 2.0 * last);
        } else {
            lines::map(at, us, |u: f64| ((u + 1.0) * n - 1.0) / 2.0);
        }
        if self.bicubic {
            return;
        }
        // Short functions without a choice become vector instructions.
        if self.border {
            lines::update(at, us, |at: f64, _| within(at, last));
        } else if self.reflection {
            lines::update(at, us, |at: f64, _| self.fold(at, n));
        }
    }
    /// The positions along an axis of size `n` that grid coordinates read, with their weights, in
    /// one line for each position of a point. Positions outside the axis are [`OUTSIDE`].
    fn along(&self, us: &[f64], n: usize, taps: &mut [Tap]) {
        let n = n as f64;
        let last = n - 1.0;
        let mut at = [0.0; POINTS];
        let mut first = [0.0; POINTS];
        let (at, first) = (&mut at[..us.len()], &mut first[..us.len()]);
        self.coordinates(us, n, at);
        if self.nearest {
            lines::map(first, at, |at: f64| at.round_ties_even());
        } else {
            lines::map(first, at, |at: f64| at.floor());
        }
        for (i, tap) in taps.iter_mut().enumerate() {
            let step = if self.bicubic { i as f64 - 1.0 } else { i as f64 };
            let place = |first: f64, at: f64| {
                let q = self.fold(first + step, n);
                if (q >= 0.0) & (q <= n - 1.0) & at.is_finite() { q.trunc() } else { OUTSIDE }
            };
            if self.bicubic {
                lines::zip(&mut tap.place, first, at, place);
            } else {
                // A coordinate that is not finite is in no range.
                let inside = |q: f64| if (q >= 0.0) & (q <= last) { q } else { OUTSIDE };
                lines::map(&mut tap.place, first, |first: f64| inside(first + step));
            }
            match (self.nearest, self.bicubic, i) {
                (true, ..) => tap.weight.fill(1.0),
                (_, true, _) => lines::zip(&mut tap.weight, at, first, |at: f64, f: f64| cubic(at - f)[i]),
                (.., 0) => lines::zip(&mut tap.weight, at, first, |at: f64, f: f64| 1.0 - (at - f)),
                _ => lines::zip(&mut tap.weight, at, first, |at: f64, f: f64| at - f),
            }
        }
    }
    /// The positions of the map that at most [`POINTS`] points of the grid read, with their
    /// weights, the last axis fastest. A position that is outside the map or has no weight is the
    /// first one, with the weight zero.
    fn points(&self, grid: &[f64], rooms: &mut Rooms, taps: &mut [MapTap]) {
        let k = self.axes.len();
        let (points, each) = (grid.len() / k, self.taps());
        let (mut total, mut step) = (1, 1.0);
        let mut us = [0.0; POINTS];
        let us = &mut us[..points];
        for (d, &n) in self.axes.iter().rev().enumerate() {
            us.iter_mut().zip(grid[d..].iter().step_by(k)).for_each(|(o, u)| *o = *u);
            let Rooms { own, all } = rooms;
            if d == 0 {
                self.along(us, n, &mut all[..each]);
                (total, step) = (each, n as f64);
                continue;
            }
            let own = &mut own[..each];
            self.along(us, n, own);
            // Combines each position along this axis with everything that the later axes read. The
            // first position is combined last, in the place of what it is combined with.
            let join = |behind: f64, own: f64| {
                if (own < 0.0) | (behind < 0.0) { OUTSIDE } else { behind + own * step }
            };
            let (behind, all) = all.split_at_mut(total);
            for (own, all) in own[1..].iter().zip(all.chunks_mut(total)) {
                for (to, behind) in all.iter_mut().zip(&*behind) {
                    lines::zip(&mut to.place[..points], &behind.place, &own.place, join);
                    lines::zip(&mut to.weight[..points], &behind.weight, &own.weight, |a: f64, b: f64| a * b);
                }
            }
            for to in behind {
                lines::update(&mut to.place[..points], &own[0].place, join);
                lines::update(&mut to.weight[..points], &own[0].weight, |a: f64, b: f64| a * b);
            }
            total *= each;
            step *= n as f64;
        }
        for (tap, to) in rooms.all[..total].iter().zip(taps) {
            let none = |p: f64, w: f64| (p < 0.0) | (w == 0.0);
            // The bits of a whole number, of which no map has more, behind the leading one.
            let place = |p: f64| ((p + MOST_PLACES).to_bits() & (MOST_PLACES as u64 - 1)) as usize;
            lines::zip(&mut to.place, &tap.place, &tap.weight, |p, w| if none(p, w) { 0 } else { place(p) });
            lines::zip(&mut to.weight, &tap.place, &tap.weight, |p, w| if none(p, w) { 0.0 } else { w });
        }
    }
    /// Samples maps of `c` channels, batch by batch.
    fn run<T: Elem>(&self, grid: &[f64], x: &[T], c: usize, y: &mut [T]) {
        let k = self.axes.len();
        let plane: usize = self.axes.iter().product();
        let per = self.taps().pow(k as u32);
        let mut taps = vec![MapTap { place: [0; POINTS], weight: [0.0; POINTS] }; per];
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
                self.points(at, &mut rooms, &mut taps);
                for ch in 0..c {
                    let plane = &x[(b * c + ch) * plane..][..plane];
                    let o = &mut y[ch * each + block * POINTS..][..points];
                    read(o, plane, &taps);
                }
            }
        }
    }
}

/// Number of points that are computed at a time.
const TOGETHER: usize = 8;

multiversion! {
    /// The weighted sums of what points read from a map, in doubles, each rounded once.
    fn read<T: Elem>(o: &mut [T], plane: &[T], taps: &[MapTap]) {
        let whole = o.len() / TOGETHER * TOGETHER;
        let (blocks, rest) = o.as_chunks_mut::<TOGETHER>();
        for (k, o) in blocks.iter_mut().enumerate() {
            let mut sums = [0.0; TOGETHER];
            for tap in taps {
                let (place, weight) = (&tap.place.as_chunks::<TOGETHER>().0[k], &tap.weight.as_chunks::<TOGETHER>().0[k]);
                let found: [T; TOGETHER] = std::array::from_fn(|l| plane[place[l]]);
                for l in 0..TOGETHER {
                    sums[l] += term(found[l], weight[l]);
                }
            }
            *o = std::array::from_fn(|l| T::from_f64(sums[l]));
        }
        for (k, o) in (whole..).zip(rest) {
            *o = T::from_f64(taps.iter().fold(0.0, |s, tap| s + term(plane[tap.place[k]], tap.weight[k])));
        }
    }
}

/// A number by its weight. A number without weight counts as zero, even if it is not finite.
#[inline(always)]
fn term<T: Elem>(v: T, weight: f64) -> f64 {
    let v = if weight == 0.0 { 0.0 } else { v.to_f64() };
    v * weight
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
/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("GridSample", run_grid_sample, &[NUM, FLOAT]).gives(&[NUM]),
    Op::new("AffineGrid", run_affine_grid, &[FLOAT, INDEX]).gives(&[FLOAT]),
];

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, t};
    use ge_kernels::simd::{Level, with_level};
    use ge_plugin_api::types::DType;

    /// Bilinear samples of one plane, with zeros outside: a plain loop.
    fn plain(plane: &[f32], [h, w]: [usize; 2], [u, v]: [f32; 2]) -> f32 {
        let at = |u: f32, n: usize| ((f64::from(u) + 1.0) * n as f64 - 1.0) / 2.0;
        let (x, y) = (at(u, w), at(v, h));
        let mut sum = 0.0;
        for (i, down) in [(y.floor(), 1.0 - (y - y.floor())), (y.floor() + 1.0, y - y.floor())] {
            for (j, across) in [(x.floor(), 1.0 - (x - x.floor())), (x.floor() + 1.0, x - x.floor())] {
                let inside = i >= 0.0 && i < h as f64 && j >= 0.0 && j < w as f64;
                if inside && down * across != 0.0 {
                    sum += f64::from(plane[i as usize * w + j as usize]) * (down * across);
                }
            }
        }
        sum as f32
    }

    /// Any number of points, also none, one, and more than are computed at a time, on any
    /// instruction set. What has no weight adds nothing, even if it is not a number.
    #[test]
    fn points_of_any_number_read_what_a_plain_loop_reads() {
        let (c, h, w) = (3, 5, 4);
        for points in [0usize, 1, 7, 8, 9, 130, 300] {
            let mut x: Vec<f32> = (0..2 * c * h * w).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
            (x[0], x[h * w], x[c * h * w + 7]) = (f32::NAN, f32::INFINITY, f32::NAN);
            let mut grid: Vec<f32> = (0..4 * points).map(|i| (i * 61 % 203) as f32 / 75.0 - 1.35).collect();
            let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1.0, 1.0, 0.75, 0.6];
            grid.iter_mut().skip(3).step_by(5).zip(odd).for_each(|(g, odd)| *g = odd);
            let inputs = [t(&[2, c as u64, h as u64, w as u64], &x), t(&[2, 1, points as u64, 2], &grid)];
            let want: Vec<f32> = (0..2 * c * points)
                .map(|i| {
                    let (b, ch, p) = (i / (c * points), i / points % c, i % points);
                    let at = (b * points + p) * 2;
                    plain(&x[(b * c + ch) * h * w..][..h * w], [h, w], [grid[at], grid[at + 1]])
                })
                .collect();
            for level in Level::available() {
                let made = with_level(level, || {
                    call("GridSample", &[Some(&inputs[0]), Some(&inputs[1])], &attrs(&[]), &[DType::F32]).unwrap()
                });
                for (k, (y, want)) in made[0].view().values::<f32>().unwrap().iter().zip(&want).enumerate() {
                    assert!(
                        y == want || y.is_nan() && want.is_nan(),
                        "{level:?}, {points} points, {k}: {y} for {want}"
                    );
                }
            }
        }
    }
}
