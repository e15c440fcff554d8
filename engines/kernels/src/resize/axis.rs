//! One resized axis: the coordinate of each output position on the input, and the input positions
//! that it reads with their weights. Coordinates are computed in single precision, like in ONNX's
//! runtimes, because the choice between two nearest positions depends on it. Weights are computed
//! in double precision, once per plan.

/// How the index of an output position becomes a coordinate on the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// Positions are pixels with a width; their centres are scaled.
    HalfPixel,
    /// As `HalfPixel`, with the middle of the output at the middle of the input.
    HalfPixelSymmetric,
    /// As `HalfPixel`, but zero if the output has only one position.
    PytorchHalfPixel,
    /// The first and the last positions of input and output coincide.
    AlignCorners,
    /// The indices of positions are scaled.
    Asymmetric,
    /// As `HalfPixel`, without the final subtraction of one half.
    TfHalfPixelForNn,
    /// The output covers a window of the input, which may reach beyond the input.
    TfCropAndResize,
}

/// Which position is the nearest to a coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// The nearest position; the lower one if two are equally near.
    PreferFloor,
    /// The nearest position; the higher one if two are equally near.
    PreferCeil,
    /// The position at or below the coordinate.
    Floor,
    /// The position at or above the coordinate.
    Ceil,
}

/// How an output position combines the input positions around its coordinate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// Copies the nearest one.
    Nearest(Rounding),
    /// Linear interpolation between two.
    Linear,
    /// Cubic interpolation of four, with this coefficient.
    Cubic(f64),
}

/// How all axes of a tensor are resized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Method {
    /// How the positions around a coordinate are combined.
    pub filter: Filter,
    /// How coordinates are computed.
    pub coordinates: Coordinates,
    /// Whether filters widen when the output is smaller than the input.
    pub antialias: bool,
    /// Whether positions outside the input are excluded; otherwise they read the nearest one
    /// inside.
    pub exclude_outside: bool,
    /// Value of output positions outside the input. Only `TfCropAndResize` has such positions.
    pub beyond: f32,
}

/// Largest distance from the middle between two positions at which a coordinate counts as the
/// middle.
const HALF: f64 = 1e-6;

/// The sizes of one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Size of the input.
    pub from: usize,
    /// Size of the output.
    pub to: usize,
    /// Ratio of output to input size, before the output size was cut to an integer.
    pub scale: f64,
    /// First and last coordinate that the output covers, as fractions of the input.
    pub window: [f64; 2],
}

impl Axis {
    /// The coordinate of output position `o`; `None` if it is outside the input.
    fn coordinate(&self, how: Coordinates, o: usize) -> Option<f64> {
        let (o, from, to, scale) = (o as f32, self.from as f32, self.to as f32, self.scale as f32);
        let centre = || (o + 0.5) / scale - 0.5;
        let at = match how {
            Coordinates::HalfPixel => centre(),
            Coordinates::PytorchHalfPixel if self.to > 1 => centre(),
            Coordinates::AlignCorners if self.to > 1 => o * (from - 1.0) / (self.length() - 1.0),
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners => 0.0,
            Coordinates::Asymmetric => o / scale,
            Coordinates::TfHalfPixelForNn => (o + 0.5) / scale,
            Coordinates::HalfPixelSymmetric => {
                let kept = to / (scale * from);
                let start = from / 2.0 * (1.0 - kept);
                (f64::from(start) + (f64::from(o) + 0.5) / f64::from(scale) - 0.5) as f32
            }
            Coordinates::TfCropAndResize => {
                let [first, last] = self.window.map(|w| w as f32);
                let at = match self.to > 1 {
                    true => first * (from - 1.0) + o * (last - first) * (from - 1.0) / (to - 1.0),
                    false => 0.5 * (first + last) * (from - 1.0),
                };
                if !(0.0..=from - 1.0).contains(&at) {
                    return None;
                }
                at
            }
        };
        Some(f64::from(at))
    }

    /// The length of the output before it was cut to an integer; ONNX aligns the corners of this
    /// length. It is exactly the output size if they differ only by rounding.
    fn length(&self) -> f32 {
        let (reached, to) = (self.scale * self.from as f64, self.to as f64);
        if (reached - to).abs() <= 1e-6 * to { to as f32 } else { reached as f32 }
    }

    /// The input position that output position `o` copies; `None` if it is outside the input.
    pub fn place(&self, method: &Method, rounding: Rounding, o: usize) -> Option<usize> {
        let x = self.coordinate(method.coordinates, o)?;
        // A coordinate that differs from a middle only by rounding counts as the middle.
        let half = (x - x.floor() - 0.5).abs() <= HALF;
        let at = match rounding {
            Rounding::PreferFloor if half => x.floor(),
            Rounding::PreferCeil if half => x.ceil(),
            Rounding::PreferFloor | Rounding::PreferCeil => x.round(),
            Rounding::Floor => x.floor(),
            Rounding::Ceil => x.ceil(),
        };
        Some((at.max(0.0) as usize).min(self.from.saturating_sub(1)))
    }

    /// The input positions that output position `o` reads, in rising order, with their weights;
    /// positions of weight zero are left out. `None` if `o` is outside the input.
    pub fn taps(&self, method: &Method, o: usize) -> Option<Vec<(usize, f64)>> {
        let cubic = match method.filter {
            Filter::Nearest(rounding) => return self.place(method, rounding, o).map(|p| vec![(p, 1.0)]),
            Filter::Linear => None,
            Filter::Cubic(a) => Some(a),
        };
        let x = self.coordinate(method.coordinates, o)?;
        // A widened filter covers all input positions under an output position.
        let narrow = if method.antialias { self.scale.min(1.0) } else { 1.0 };
        let reach = if cubic.is_some() { 2.0 } else { 1.0 } / narrow;
        let last = self.from as i64 - 1;
        let mut taps: Vec<(usize, f64)> = Vec::new();
        let mut sum = 0.0;
        for p in (x - reach).floor() as i64..=(x + reach).ceil() as i64 {
            let distance = ((p as f64 - x) * narrow).abs();
            let weight = cubic.map_or((1.0 - distance).max(0.0), |a| cubic_weight(distance, a));
            if weight == 0.0 || (method.exclude_outside && !(0..=last).contains(&p)) {
                continue;
            }
            sum += weight;
            let place = p.clamp(0, last.max(0)) as usize;
            match taps.last_mut() {
                Some(tap) if tap.0 == place => tap.1 += weight,
                _ => taps.push((place, weight)),
            }
        }
        if sum != 0.0 && (method.antialias || method.exclude_outside) {
            taps.iter_mut().for_each(|t| t.1 /= sum);
        }
        Some(taps)
    }

    /// Whether the axis is not resized.
    pub fn is_kept(&self) -> bool {
        self.from == self.to && self.scale == 1.0
    }
}

/// The weight of a position at this distance in the cubic curve with coefficient `a`.
fn cubic_weight(distance: f64, a: f64) -> f64 {
    let d = distance;
    match d {
        _ if d <= 1.0 => d * d * ((a + 2.0) * d - (a + 3.0)) + 1.0,
        _ if d < 2.0 => a * (((d - 5.0) * d + 8.0) * d - 4.0),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: Method = Method {
        filter: Filter::Linear,
        coordinates: Coordinates::HalfPixel,
        antialias: false,
        exclude_outside: false,
        beyond: 0.0,
    };

    fn axis(from: usize, to: usize) -> Axis {
        Axis { from, to, scale: to as f64 / from as f64, window: [0.0, 1.0] }
    }

    #[test]
    fn taps_outside_join_the_border_and_none_is_zero() {
        let twice = axis(2, 4);
        assert_eq!(twice.taps(&LINEAR, 0), Some(vec![(0, 1.0)]));
        assert_eq!(twice.taps(&LINEAR, 1), Some(vec![(0, 0.75), (1, 0.25)]));
        assert_eq!(twice.taps(&LINEAR, 3), Some(vec![(1, 1.0)]));
        assert_eq!(axis(3, 3).taps(&LINEAR, 1), Some(vec![(1, 1.0)]));
        let cubic = Method { filter: Filter::Cubic(-0.75), ..LINEAR };
        for o in 0..7 {
            for method in [cubic, Method { exclude_outside: true, ..cubic }, Method { antialias: true, ..cubic }] {
                for axis in [axis(5, 7), axis(13, 7), axis(1, 7)] {
                    let taps = axis.taps(&method, o).expect("inside");
                    let sum: f64 = taps.iter().map(|t| t.1).sum();
                    assert!((sum - 1.0).abs() < 1e-12, "{method:?} {o}: {taps:?}");
                    assert!(taps.is_sorted_by(|a, b| a.0 < b.0) && taps.iter().all(|t| t.0 < axis.from));
                }
            }
        }
    }

    #[test]
    fn a_window_beyond_the_input_has_places_outside() {
        let crop = Method { coordinates: Coordinates::TfCropAndResize, ..LINEAR };
        let axis = Axis { window: [-0.5, 1.0], ..axis(3, 4) };
        let inside: Vec<bool> = (0..4).map(|o| axis.taps(&crop, o).is_some()).collect();
        assert_eq!(inside, [false, true, true, true]);
    }

    /// The positions that onnxruntime copies. Each of these coordinates is an integer or a half
    /// except for rounding: double and single precision put it on different sides, or single
    /// precision exactly on it.
    #[test]
    fn coordinates_that_are_whole_but_for_their_rounding_are_those_of_single_precision() {
        let by = |scale: f32, from: usize, to: usize| Axis { scale: f64::from(scale), ..axis(from, to) };
        let at = |coordinates, rounding, axis: Axis, o| axis.place(&Method { coordinates, ..LINEAR }, rounding, o);
        let (plain, half) = (Coordinates::Asymmetric, Coordinates::HalfPixel);
        for (coordinates, rounding, axis, o, place) in [
            (plain, Rounding::Floor, by(1.6, 28, 44), 8, 5),
            (plain, Rounding::Floor, by(1.1, 39, 42), 11, 10),
            (plain, Rounding::Ceil, by(2.8, 28, 78), 14, 5),
            (half, Rounding::Floor, axis(15, 47), 23, 6),
            (half, Rounding::PreferFloor, by(2.1, 17, 35), 31, 14),
            (half, Rounding::PreferCeil, by(2.9, 29, 84), 43, 15),
            (plain, Rounding::PreferCeil, by(2.0 / 7.0, 21, 6), 1, 4),
            (Coordinates::HalfPixelSymmetric, Rounding::Floor, axis(23, 7), 3, 10),
            (Coordinates::AlignCorners, Rounding::Floor, axis(25, 28), 27, 24),
        ] {
            assert_eq!(at(coordinates, rounding, axis, o), Some(place), "{coordinates:?} {rounding:?} {axis:?} {o}");
        }
    }

    #[test]
    fn each_rounding_takes_its_place() {
        let method = Method { coordinates: Coordinates::Asymmetric, ..LINEAR };
        let at = |rounding| (0..4).map(|o| axis(2, 4).place(&method, rounding, o)).collect::<Vec<_>>();
        assert_eq!(at(Rounding::Floor), [0, 0, 1, 1].map(Some));
        assert_eq!(at(Rounding::Ceil), [0, 1, 1, 1].map(Some));
        assert_eq!(at(Rounding::PreferFloor), [0, 0, 1, 1].map(Some));
        assert_eq!(at(Rounding::PreferCeil), [0, 1, 1, 1].map(Some));
    }
}
