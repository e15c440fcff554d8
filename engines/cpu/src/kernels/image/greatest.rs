//! The greatest of the weighted positions that the samples of cells read, for `RoiAlign` with the
//! mode `max`. A sample reads four positions, which are compared side by side.
use super::roi::{CellTaps, Tap};
use ge_kernels::multiversion;
use ge_kernels::view::Elem;

/// What a sample reads along one axis: two positions, and the factor of each of the four positions
/// that it reads along both axes.
#[derive(Clone, Copy)]
struct Pair {
    low: usize,
    high: usize,
    by: [f64; 4],
}

/// The samples of one cell along one axis.
struct Cell {
    pairs: Vec<Pair>,
    /// Whether there are samples outside the map, which count as zero.
    outside: bool,
}

/// The samples of all cells of a region along both axes.
pub(super) struct Greatest {
    down: Vec<Cell>,
    across: Vec<Cell>,
}

impl Greatest {
    pub(super) fn of(down: &[CellTaps], across: &[CellTaps]) -> Greatest {
        let cells = |cells: &[CellTaps], by: fn(f64, f64) -> [f64; 4]| {
            let pair = |tap: &Tap| Pair { low: tap.low, high: tap.high, by: by(1.0 - tap.part, tap.part) };
            let cell = |c: &CellTaps| Cell { pairs: c.taps.iter().map(pair).collect(), outside: c.outside };
            cells.iter().map(cell).collect()
        };
        Greatest {
            down: cells(down, |low, high| [low, low, high, high]),
            across: cells(across, |low, high| [low, high, low, high]),
        }
    }

    /// Writes the cells of a plane with rows of `width` numbers. What is not a number is left out;
    /// a cell without any number is NaN.
    pub(super) fn write<T: Elem>(&self, plane: &[T], width: usize, o: &mut [T]) {
        cells(self, plane, width, o);
    }
}

/// The four positions that a sample reads, by their factors.
#[inline(always)]
fn terms<T: Elem>(upper: &[T], lower: &[T], down: &Pair, across: &Pair) -> [f64; 4] {
    let read = [upper[across.low], upper[across.high], lower[across.low], lower[across.high]];
    std::array::from_fn(|k| read[k].to_f64() * (down.by[k] * across.by[k]))
}

multiversion! {
    fn cells<T: Elem>(of: &Greatest, plane: &[T], width: usize, o: &mut [T]) {
        for (o, down) in o.chunks_exact_mut(of.across.len().max(1)).zip(&of.down) {
            for (o, across) in o.iter_mut().zip(&of.across) {
                let mut most = [f64::NEG_INFINITY; 4];
                for y in &down.pairs {
                    let (upper, lower) = (&plane[y.low * width..][..width], &plane[y.high * width..][..width]);
                    for x in &across.pairs {
                        let found = terms(upper, lower, y, x);
                        // A comparison with NaN is false, so that the other number stays.
                        most = std::array::from_fn(|k| if found[k] > most[k] { found[k] } else { most[k] });
                    }
                }
                let mut most = most.into_iter().fold(f64::NEG_INFINITY, |a, b| if b > a { b } else { a });
                if (down.outside | across.outside) & (most <= 0.0) {
                    most = 0.0;
                } else if most == f64::NEG_INFINITY && !has_number(plane, width, down, across) {
                    most = f64::NAN;
                }
                *o = T::from_f64(most);
            }
        }
    }
}

/// Whether any position of a cell, by its factor, is a number.
fn has_number<T: Elem>(plane: &[T], width: usize, down: &Cell, across: &Cell) -> bool {
    let of = |y: &Pair, x: &Pair| terms(&plane[y.low * width..][..width], &plane[y.high * width..][..width], y, x);
    down.pairs.iter().any(|y| across.pairs.iter().any(|x| of(y, x).iter().any(|v| !v.is_nan())))
}

#[cfg(test)]
mod tests {
    use crate::testing::{attrs, call, t};
    use ge_kernels::simd::{Level, with_level};
    use ge_plugin_api::types::DType;

    /// The greatest weighted position of a cell, by a plain loop over its samples.
    fn plain(map: &[f32], [h, w]: [usize; 2], at: [f64; 2], cell: [f64; 2], samples: usize) -> f32 {
        let tap = |v: f64, n: usize| {
            let inside = (-1.0..=n as f64).contains(&v);
            let low = (v.max(0.0) as usize).min(n - 1);
            let part = if low == n - 1 { 0.0 } else { v.max(0.0) - low as f64 };
            inside.then_some((low, (low + 1).min(n - 1), part))
        };
        let mut best = None::<f64>;
        for i in 0..samples {
            for j in 0..samples {
                let place = |k: usize, i: usize| at[k] + (i as f64 + 0.5) * cell[k] / samples as f64;
                let own = match (tap(place(0, i), h), tap(place(1, j), w)) {
                    (Some(y), Some(x)) => {
                        let v = |i: usize, j: usize| f64::from(map[i * w + j]);
                        let upper = (v(y.0, x.0) * ((1.0 - y.2) * (1.0 - x.2))).max(v(y.0, x.1) * ((1.0 - y.2) * x.2));
                        upper.max((v(y.1, x.0) * (y.2 * (1.0 - x.2))).max(v(y.1, x.1) * (y.2 * x.2)))
                    }
                    _ => 0.0,
                };
                best = Some(best.map_or(own, |b| b.max(own)));
            }
        }
        best.unwrap_or(0.0) as f32
    }

    /// Regions inside, at the border and outside of maps of any size, with numbers that are not
    /// finite and maps without a number.
    #[test]
    fn cells_have_the_greatest_position_of_a_plain_loop() {
        for [h, w] in [[1usize, 1], [1, 9], [5, 2], [6, 7]] {
            let mut x: Vec<f32> = (0..4 * h * w).map(|i| (i * 37 % 101) as f32 - 70.0).collect();
            x[0] = f32::NAN;
            x[h * w - 1] = f32::INFINITY;
            x[h * w..2 * h * w].fill(f32::NEG_INFINITY);
            x[2 * h * w..3 * h * w].fill(f32::NAN);
            let rois =
                [[0f32, 0.0, 4.0, 4.0], [1.5, 0.25, 1.75, 8.0], [-9.0, -3.0, 2.0, 1.0], [20.0, 30.0, 25.0, 31.0]];
            let inputs = [t(&[1, 4, h as u64, w as u64], &x), t(&[4, 4], &rois.concat()), t(&[4], &[0i64; 4])];
            let inputs: Vec<_> = inputs.iter().map(Some).collect();
            for (out, samples) in [(1usize, 1usize), (3, 2), (2, 5)] {
                let mut want = Vec::new();
                for [x1, y1, x2, y2] in rois {
                    let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(|v| f64::from(v) - 0.5);
                    let cell = [(y2 - y1) / out as f64, (x2 - x1) / out as f64];
                    for map in x.chunks(h * w) {
                        for k in 0..out * out {
                            let at = [y1 + (k / out) as f64 * cell[0], x1 + (k % out) as f64 * cell[1]];
                            want.push(plain(map, [h, w], at, cell, samples));
                        }
                    }
                }
                let given = attrs(&[
                    ("mode", "max".into()),
                    ("output_height", (out as i64).into()),
                    ("output_width", (out as i64).into()),
                    ("sampling_ratio", (samples as i64).into()),
                ]);
                for level in Level::available() {
                    let made = with_level(level, || call("RoiAlign", &inputs, &given, &[DType::F32]).unwrap());
                    for (y, want) in made[0].view().values::<f32>().unwrap().iter().zip(&want) {
                        assert!(y == want || y.is_nan() && want.is_nan(), "{level:?}, {h}x{w}, {out}: {y} for {want}");
                    }
                }
            }
        }
    }
}
