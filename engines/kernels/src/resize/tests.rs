//! Resizing compared with sums over all taps of all axes in double precision, on every level and
//! for every division into units.
use super::*;
use crate::simd::{Level, with_level};
use crate::view::block_range;
use half::{bf16, f16};
use proptest::prelude::*;

/// Computes element by element, over the taps of all axes at once.
fn plainly<T: Elem>(method: &Method, shape: &[usize], axes: &[Option<Axis>], x: &[T]) -> Vec<f64> {
    let sizes: Vec<usize> = shape.iter().zip(axes).map(|(&n, a)| a.map_or(n, |a| a.to)).collect();
    let element = |i: usize| {
        let (mut rest, mut step) = (i, 1);
        let mut sources = Some(vec![(0, 1.0)]);
        for (d, axis) in axes.iter().enumerate().rev() {
            let o = rest % sizes[d];
            rest /= sizes[d];
            let taps = axis.filter(|a| !a.is_kept()).map_or(Some(vec![(o, 1.0)]), |a| a.taps(method, o));
            sources = sources.zip(taps).map(|(sources, taps)| {
                let each =
                    |&(at, w): &(usize, f64)| taps.iter().map(move |t| (at + t.0 * step, w * t.1)).collect::<Vec<_>>();
                sources.iter().flat_map(each).collect()
            });
            step *= shape[d];
        }
        match sources {
            None => f64::from(method.beyond),
            Some(list) => list.into_iter().map(|(at, w)| x[at].to_f64() * w).sum(),
        }
    };
    (0..sizes.iter().product()).map(element).collect()
}

fn made<T: Elem>(plan: &Resizing, blocks: usize, x: &[T]) -> Vec<T> {
    let mut y = vec![T::default(); plan.rows() * plan.width()];
    for b in 0..blocks {
        let units = block_range(plan.rows(), b, blocks);
        match plan.method.filter {
            Filter::Nearest(_) => plan.copy(units, x, T::from_f32(plan.method.beyond), &mut Out::new(&mut y)),
            _ => plan.filter(units, x, &mut Out::new(&mut y)),
        }
    }
    y
}

fn judge<T: Elem>(method: Method, shape: &[usize], axes: &[Option<Axis>], x: &[T], tolerance: f64) {
    let plan = Resizing::new(method, shape, axes);
    let want = plainly(&method, shape, axes, x);
    let got = made(&plan, 1, x);
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let g = g.to_f64();
        let near = (g - w).abs() <= tolerance * w.abs().max(1.0) || g == *w || (g.is_nan() && w.is_nan());
        assert!(near, "{method:?} {shape:?} {axes:?} element {i}: {g} for {w}");
    }
    let bits = |y: &[T]| crate::view::as_bytes(y).to_vec();
    for blocks in [2, 7] {
        assert_eq!(bits(&made(&plan, blocks, x)), bits(&got), "{blocks} blocks");
    }
    for level in Level::available() {
        assert_eq!(bits(&with_level(level, || made(&plan, 2, x))), bits(&got), "{level:?}");
    }
}

/// Irregular numbers in -2..2.
fn noise(n: usize) -> Vec<f32> {
    (0..n as u64).map(|i| ((i * 2_654_435_761 + 17) % 65_521) as f32 / 16_380.25 - 2.0).collect()
}

fn axis(from: usize, to: usize) -> Axis {
    Axis { from, to, scale: to as f64 / from as f64, window: [-0.1, 0.9] }
}

const COORDINATES: [Coordinates; 7] = [
    Coordinates::HalfPixel,
    Coordinates::HalfPixelSymmetric,
    Coordinates::PytorchHalfPixel,
    Coordinates::AlignCorners,
    Coordinates::Asymmetric,
    Coordinates::TfHalfPixelForNn,
    Coordinates::TfCropAndResize,
];
const FILTERS: [Filter; 6] = [
    Filter::Linear,
    Filter::Cubic(-0.75),
    Filter::Nearest(Rounding::PreferFloor),
    Filter::Nearest(Rounding::PreferCeil),
    Filter::Nearest(Rounding::Floor),
    Filter::Nearest(Rounding::Ceil),
];

/// A kept size, or a resized axis.
fn any_axis() -> impl Strategy<Value = (usize, Option<Axis>)> {
    let size = prop_oneof![Just(1usize), 2usize..6, 6usize..40];
    (size.clone(), prop::option::of(prop_oneof![size, Just(90usize)])).prop_map(|(n, to)| (n, to.map(|to| axis(n, to))))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn every_shape_and_method_agrees_with_the_definition(
        axes in prop::collection::vec(any_axis(), 1..4),
        filter in prop::sample::select(&FILTERS[..]),
        coordinates in prop::sample::select(&COORDINATES[..]),
        antialias: bool,
        exclude_outside: bool,
    ) {
        let method = Method { filter, coordinates, antialias, exclude_outside, beyond: 1.5 };
        let (shape, axes): (Vec<usize>, Vec<Option<Axis>>) = axes.into_iter().unzip();
        let x = noise(shape.iter().product());
        judge(method, &shape, &axes, &x, 1e-5);
        judge(method, &shape, &axes, &x.iter().map(|v| f16::from_f32(*v)).collect::<Vec<_>>(), 1e-3);
        judge(method, &shape, &axes, &x.iter().map(|v| bf16::from_f32(*v)).collect::<Vec<_>>(), 8e-3);
    }
}

const METHOD: Method = Method {
    filter: Filter::Linear,
    coordinates: Coordinates::HalfPixel,
    antialias: false,
    exclude_outside: false,
    beyond: 0.0,
};

#[test]
fn rows_of_every_ratio_are_right_in_every_register_form() {
    for filter in [Filter::Linear, Filter::Cubic(-0.5), Filter::Nearest(Rounding::Floor)] {
        for (from, to) in [(8, 16), (33, 66), (33, 99), (20, 80), (100, 37), (640, 224), (97, 1), (1, 97), (700, 31)] {
            for inner in [1, 3, 16, 20] {
                let shape = [2, 3, from, inner];
                let axes = [None, Some(axis(3, 5)), Some(axis(from, to)), None];
                let x = noise(shape.iter().product());
                judge(Method { filter, ..METHOD }, &shape, &axes, &x, 1e-5);
            }
        }
    }
}

/// Planes that are resized at once; those of 60 columns are not, because sixteen elements of the
/// result read more of two rows than registers hold.
#[test]
fn small_planes_are_one_row_each() {
    for (from, to, small) in [
        ([4, 4], [8, 8], true),
        ([7, 7], [14, 14], true),
        ([7, 7], [3, 5], true),
        ([1, 1], [9, 40], true),
        ([5, 13], [11, 13 * 4], true),
        ([20, 20], [40, 40], true),
        ([40, 40], [80, 80], true),
        ([60, 60], [70, 70], false),
    ] {
        let axes = [None, Some(axis(from[0], to[0])), Some(axis(from[1], to[1]))];
        let x = noise(6 * from[0] * from[1]);
        for coordinates in COORDINATES {
            let method = Method { coordinates, ..METHOD };
            judge(method, &[6, from[0], from[1]], &axes, &x, 1e-5);
        }
        let plan = Resizing::new(METHOD, &[6, from[0], from[1]], &axes);
        assert_eq!(plan.rows() == 6, small, "{from:?}");
    }
}

#[test]
fn bytes_are_rounded_and_kept_in_their_range() {
    for (filter, most) in [(Filter::Linear, 0.5), (Filter::Cubic(-0.75), 150.0)] {
        let method = Method { filter, ..METHOD };
        let (shape, axes) = ([1, 2, 7, 9], [None, None, Some(axis(7, 15)), Some(axis(9, 20))]);
        let x: Vec<u8> = (0..126u32).map(|i| (i * 97 % 256) as u8).collect();
        judge(method, &shape, &axes, &x, most);
        let whole = plainly(&method, &shape, &axes, &x);
        let got = made(&Resizing::new(method, &shape, &axes), 1, &x);
        for (g, w) in got.iter().zip(&whole) {
            assert!((f64::from(*g) - w.clamp(0.0, 255.0)).abs() <= 0.501, "{g} for {w}");
        }
        let signed: Vec<i8> = x.iter().map(|v| v.wrapping_sub(128) as i8).collect();
        judge(method, &shape, &axes, &signed, most);
    }
}

#[test]
fn what_is_no_number_stays_where_it_has_a_part() {
    for filter in FILTERS {
        let mut x = noise(4 * 40);
        x[45] = f32::NAN;
        x[100] = f32::INFINITY;
        let method = Method { filter, ..METHOD };
        for (to, wide) in [(8, 80), (4, 40), (3, 25), (9, 41)] {
            judge(method, &[4, 40], &[Some(axis(4, to)), Some(axis(40, wide))], &x, 1e-5);
        }
    }
}

#[test]
fn nothing_and_single_elements() {
    for filter in FILTERS {
        let method = Method { filter, ..METHOD };
        judge(method, &[2, 0, 3], &[None, None, Some(axis(3, 6))], &[0f32; 0], 0.0);
        judge(method, &[1], &[Some(axis(1, 5))], &[2.0f32], 1e-6);
        judge(method, &[5], &[Some(axis(5, 1))], &noise(5), 1e-5);
        judge(method, &[2, 3], &[None, None], &noise(6), 0.0);
        judge(method, &[], &[], &[3.0f32], 0.0);
    }
}
