//! `RoiAlign`, `MaxRoiPool`: regions of feature maps, resampled to a common size
//! (`plugins/ops/src/pool.rs`).
use super::greatest::Greatest;
use crate::args::{Arg, bad, float_attr, int_attr, ints_attr, out, size, text};
use crate::op::Op;
use crate::par;
use crate::store::types::{FLOAT, INDEX};
use ge_kernels::view::Elem;
use ge_kernels::with_kind;
use ge_plugin_api::Result;
use ge_plugin_api::kernel::KernelCtx;
use ge_plugin_api::types::DType;

/// Maximum number of samples of a cell along one axis. A region that needs more is far outside of
/// any map.
const MOST_SAMPLES: f64 = 16_384.0;
/// Maximum number of samples of a region along one axis that are stored while its maps are read.
const MOST_TAPS: usize = 1 << 20;

/// What a sample reads along one axis: two positions, and the weight of the second.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) part: f64,
}

/// What the samples of one cell read along one axis.
pub(super) struct CellTaps {
    pub(super) taps: Vec<Tap>,
    /// Whether there are samples outside the map, or none at all.
    pub(super) outside: bool,
}

impl Tap {
    /// The tap of a coordinate on an axis of size `n`; `None` if it is outside by more than one.
    fn at(at: f64, n: usize) -> Option<Tap> {
        if !(-1.0..=n as f64).contains(&at) {
            return None;
        }
        let at = at.max(0.0);
        let low = (at as usize).min(n - 1);
        Some(if low == n - 1 {
            Tap { low, high: low, part: 0.0 }
        } else {
            Tap { low, high: low + 1, part: at - low as f64 }
        })
    }
}

/// The samples of all cells of a region along one axis.
#[derive(Clone, Copy)]
struct Samples {
    first: f64,
    /// Length of a cell, and number of samples per cell.
    length: f64,
    each: usize,
    cells: usize,
    /// Size of the axis.
    n: usize,
}

impl Samples {
    /// The samples of a region from `from` to `to` on an axis of size `n`.
    fn of(from: f64, to: f64, half: bool, cells: usize, samples: i64, n: usize) -> Result<Samples> {
        let (first, length, each) = self::cells(from, to, half, cells, samples)?;
        Ok(Samples { first, length, each, cells, n })
    }
    /// What each sample of a cell reads; `None` for samples outside the map.
    fn taps(&self, cell: usize) -> impl Iterator<Item = Option<Tap>> {
        let Samples { first, length, each, n, .. } = *self;
        let at = move |i: usize| first + cell as f64 * length + (i as f64 + 0.5) * length / each as f64;
        (0..each).map(move |i| Tap::at(at(i), n))
    }
    /// What the samples of all cells read, cell by cell. Fails if there are too many samples.
    fn all(&self) -> Result<Vec<CellTaps>> {
        if self.cells.saturating_mul(self.each) > MOST_TAPS {
            let found = format!("{} cells of {} samples", self.cells, self.each);
            return Err(bad("input 1 `rois`", found, "regions about as large as the map"));
        }
        let taps = |cell| {
            let taps: Vec<Tap> = self.taps(cell).flatten().collect();
            CellTaps { outside: taps.len() < self.each.max(1), taps }
        };
        Ok((0..self.cells).map(taps).collect())
    }
    /// Positions with the sums of their weights, cell by cell: all samples of a cell count equally.
    fn weights(&self) -> Vec<Vec<(usize, f64)>> {
        let mut all = vec![Vec::new(); self.cells];
        for (cell, list) in all.iter_mut().enumerate() {
            for tap in self.taps(cell).flatten() {
                add(list, tap.low, 1.0 - tap.part);
                add(list, tap.high, tap.part);
            }
        }
        all
    }
}

/// Adds a weight to an ascending list; only one of its last two positions can occur again.
fn add(list: &mut Vec<(usize, f64)>, place: usize, weight: f64) {
    match list.iter_mut().rev().take(2).find(|w| w.0 == place) {
        Some(w) => w.1 += weight,
        None => list.push((place, weight)),
    }
}

/// Means of samples. Within a cell, the samples along both axes count equally, so rows are first
/// combined to cells and then the rows of each cell are added.
struct Means {
    /// The rows of the map that are read, in ascending order.
    rows: Vec<usize>,
    /// For each row of cells, indices into `rows` with weights.
    down: Vec<Vec<(usize, f64)>>,
    /// For each column of cells, positions with weights.
    across: Vec<Vec<(usize, f64)>>,
    /// Number of samples of a cell.
    samples: f64,
}

impl Means {
    fn of(down: &Samples, across: &Samples) -> Means {
        let samples = (down.each * across.each).max(1) as f64;
        let (mut down, across) = (down.weights(), across.weights());
        let mut rows: Vec<usize> = down.iter().flatten().map(|w| w.0).collect();
        rows.sort_unstable();
        rows.dedup();
        down.iter_mut().flatten().for_each(|w| w.0 = rows.partition_point(|r| *r < w.0));
        Means { rows, down, across, samples }
    }
    fn write<T: Elem>(&self, plane: &[T], width: usize, scratch: &mut Vec<f64>, o: &mut [T]) {
        scratch.clear();
        for &row in &self.rows {
            let line = &plane[row * width..][..width];
            scratch.extend(self.across.iter().map(|list| list.iter().fold(0.0, |s, (p, w)| s + w * line[*p].to_f64())));
        }
        let cells = self.across.len();
        for (o, list) in o.chunks_exact_mut(cells).zip(&self.down) {
            for (k, o) in o.iter_mut().enumerate() {
                let sum = list.iter().fold(0.0, |s, (row, w)| s + w * scratch[row * cells + k]);
                *o = T::from_f64(sum / self.samples);
            }
        }
    }
}

/// Start and length of a cell along an axis, and its number of samples.
fn cells(from: f64, to: f64, half: bool, cells: usize, samples: i64) -> Result<(f64, f64, usize)> {
    let length = if half { to - from } else { (to - from).max(1.0) };
    let taken = if samples > 0 { samples as f64 } else { (length / cells as f64).ceil().max(0.0) };
    if !from.is_finite() || !length.is_finite() || taken > MOST_SAMPLES {
        return Err(bad(
            "input 1 `rois`",
            format!("a region from {from} to {to}"),
            "a region about as large as the map",
        ));
    }
    Ok((from, length / cells as f64, taken as usize))
}

fn run_roi_align(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, rois, batch) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?, Arg::of(ctx, 2)?);
    x.need_rank(4, 4)?;
    let regions = rois.shape.first().copied().unwrap_or(0);
    rois.need_shape(&[regions, 4])?;
    batch.need_shape(&[regions])?;
    let half = text(ctx, "coordinate_transformation_mode", "half_pixel") == "half_pixel";
    let most = text(ctx, "mode", "avg") == "max";
    let out = [
        size("attribute `output_height`", int_attr(ctx, "output_height", 1))?,
        size("attribute `output_width`", int_attr(ctx, "output_width", 1))?,
    ];
    let (samples, scale) = (int_attr(ctx, "sampling_ratio", 0), float_attr(ctx, "spatial_scale", 1.0));
    let shift = if half { 0.5 } else { 0.0 };
    let (r, of) = (rois.f64s()?, batch.i64s()?);
    let region = |roi: usize| [0, 1, 2, 3].map(|k| r[roi * 4 + k] * scale - shift);
    let regions = Regions { x: &x, regions, out };
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => regions.each::<T>(ctx, |roi, h, w| {
        let b = usize::try_from(of[roi]).ok().filter(|b| *b < x.shape[0]);
        let last = x.shape[0] as i64 - 1;
        let b = b.ok_or_else(|| bad("input 2 `batch_indices`", of[roi], format!("0 to {last}")))?;
        let [x1, y1, x2, y2] = region(roi);
        let down = Samples::of(y1, y2, half, out[0], samples, h)?;
        let across = Samples::of(x1, x2, half, out[1], samples, w)?;
        if !most {
            let means = Means::of(&down, &across);
            let write: PlaneOf<T> = Box::new(move |plane, scratch, o| means.write(plane, w, scratch, o));
            return Ok((b, write));
        }
        let (down, across) = (down.all()?, across.all()?);
        let greatest = Greatest::of(&down, &across);
        let write: PlaneOf<T> = Box::new(move |plane, _, o| greatest.write(plane, w, o));
        Ok((b, write))
    }), else x.refused())
}

/// Regions of the maps of an input, each resampled to the same size.
struct Regions<'a> {
    x: &'a Arg<'a>,
    regions: usize,
    out: [usize; 2],
}

impl Regions<'_> {
    /// Writes every region. `plan(region, height, width)` returns the batch of a region and the
    /// function that computes the cells of one of its planes.
    fn each<T: Elem>(
        &self,
        ctx: &mut KernelCtx<'_>,
        plan: impl Fn(usize, usize, usize) -> Result<(usize, PlaneOf<T>)> + Sync,
    ) -> Result<()> {
        let [_, c, h, w] = [self.x.shape[0], self.x.shape[1], self.x.shape[2], self.x.shape[3]];
        let v = self.x.values::<T>()?;
        let y = out::<T>(ctx, 0, &[self.regions, c, self.out[0], self.out[1]])?;
        if y.is_empty() {
            return Ok(());
        }
        if h * w == 0 {
            return Err(bad("input 0", format!("shape {:?}", self.x.shape), "places to sample"));
        }
        let cells = self.out[0] * self.out[1];
        par::rows(y, c * cells, c * cells * 16, |roi, o| {
            let (b, write) = plan(roi, h, w)?;
            let mut scratch = Vec::new();
            let planes = v[b * c * h * w..][..c * h * w].chunks_exact(h * w);
            o.chunks_exact_mut(cells).zip(planes).for_each(|(o, plane)| write(plane, &mut scratch, o));
            Ok(())
        })
    }
}

/// A function that writes the cells of one plane.
type PlaneOf<T> = Box<dyn Fn(&[T], &mut Vec<f64>, &mut [T])>;

fn run_max_roi_pool(ctx: &mut KernelCtx<'_>) -> Result<()> {
    let (x, rois) = (Arg::of(ctx, 0)?, Arg::of(ctx, 1)?);
    x.need_rank(4, 4)?;
    let regions = rois.shape.first().copied().unwrap_or(0);
    rois.need_shape(&[regions, 5])?;
    let Some(&[ph, pw]) = ints_attr(ctx, "pooled_shape") else {
        return Err(bad("attribute `pooled_shape`", "another number of sizes", "two sizes"));
    };
    let out = [size("attribute `pooled_shape`", ph)?, size("attribute `pooled_shape`", pw)?];
    let scale = float_attr(ctx, "spatial_scale", 1.0);
    let (n, r) = (x.shape[0], rois.f64s()?);
    let regions = Regions { x: &x, regions, out };
    with_kind!(x.kind()?, [F32, F64, F16, Bf16], T => regions.each::<T>(ctx, |roi, h, w| {
        let own = &r[roi * 5..][..5];
        if !(0.0..n as f64).contains(&own[0]) {
            return Err(bad("input 1 `rois`", format!("batch {}", own[0]), format!("0 to {}", n as i64 - 1)));
        }
        // The ranges of positions of all cells of an axis; region bounds are rounded to integers
        // and inclusive. Positions of f64 regions have its digits, all others those of f32.
        let near = |v: f64| if rois.dtype == DType::F64 { v } else { f64::from(v as f32) };
        let ranges = |from: f64, to: f64, cells: usize, n: usize| -> Vec<std::ops::Range<usize>> {
            let (from, to) = (near(from * scale).round(), near(to * scale).round());
            let step = near((to - from + 1.0).max(1.0) / cells as f64);
            let at = |q: f64| (q + from).clamp(0.0, n as f64) as usize;
            let cell = |k: usize| (at(near(k as f64 * step).floor()), at(near((k + 1) as f64 * step).ceil()));
            (0..cells).map(cell).map(|(from, to)| from..to.max(from)).collect()
        };
        let (rows, cols) = (ranges(own[2], own[4], out[0], h), ranges(own[1], own[3], out[1], w));
        let write: PlaneOf<T> = Box::new(move |plane, _, o| {
            for (o, rows) in o.chunks_exact_mut(out[1]).zip(&rows) {
                for (o, cols) in o.iter_mut().zip(&cols) {
                    let lines = rows.clone().map(|i| &plane[i * w..][..w][cols.clone()]);
                    let seen = lines.flatten().map(|v| v.to_f64());
                    *o = T::from_f64(seen.reduce(f64::max).unwrap_or(0.0));
                }
            }
        });
        Ok((own[0] as usize, write))
    }), else x.refused())
}

/// Operator rows of this file.
pub const OPS: &[Op] = &[
    Op::new("RoiAlign", run_roi_align, &[FLOAT, FLOAT, INDEX]).gives(&[FLOAT]),
    Op::new("MaxRoiPool", run_max_roi_pool, &[FLOAT]).gives(&[FLOAT]),
];
