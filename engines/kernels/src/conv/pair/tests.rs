//! Compares pairs with the two convolutions run one after the other, and their bits across units,
//! blocks and instruction sets.
use super::*;
use crate::conv::Conv;
use crate::gemm::{Bias, Epilogue};
use crate::simd::{Level, with_level};
use crate::view::block_range;
use proptest::prelude::*;

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            ((s >> 40) as f32 / (1u64 << 24) as f32) * 2.0 - 1.0
        })
        .collect()
}

/// Runs one convolution alone.
fn alone(s: &ConvSpec, x: &[f32], half: &Half<'_>, residual: Option<&[f32]>) -> Vec<f32> {
    let out = s.output().unwrap();
    let mut y = vec![f32::NAN; s.batch * s.channels_out * out.iter().product::<usize>()];
    let c = Conv::new(s).unwrap();
    let bias = half.bias.map_or(Bias::None, Bias::PerRow);
    let e = Epilogue { bias, residual: residual.map(|r| (r, 1.0)), act: half.act, ..Epilogue::default() };
    c.run(0..c.units(), x, half.w, &e, &mut Out::new(&mut y)).unwrap();
    y
}

/// Makes a plan for any sizes, even if the pair would not pay.
fn plan(first: &ConvSpec, second: &ConvSpec) -> ConvPair {
    let depthwise_first = is_plane(first) && is_point(second);
    let ([_, high, wide], [_, height, width]) = (first.output().unwrap(), second.output().unwrap());
    let (first, second, block) = (first.clone(), second.clone(), second.channels_out);
    let (between, out) = ([high, wide], [height, width]);
    let band = bands::rows(second.batch, out);
    ConvPair { first, second, depthwise_first, between, out, rows: TOGETHER, block, band, alone: None }
}

/// Sizes around the number of lanes, windows of three, five and seven, strides of one and two, in
/// either order.
fn pairs() -> impl Strategy<Value = (ConvSpec, ConvSpec)> {
    let sizes = (1usize..20, prop_oneof![1usize..20, 30usize..36, 60usize..70], (0usize..5, 0usize..5, 0usize..5));
    (sizes, (1usize..14, 1usize..30, 1usize..3), 1usize..4, any::<bool>(), any::<bool>()).prop_filter_map(
        "the window fits",
        |((h, w, (top, left, right)), (c, o, batch), half, two, depthwise_first)| {
            let deep = if depthwise_first { c } else { o };
            let mut plane = ConvSpec::square(batch, [deep, deep], 1, 2 * half + 1);
            plane.groups = deep;
            plane.input = [1, h, w];
            plane.stride = if two && half < 3 { [1, 2, 2] } else { [1; 3] };
            (plane.pad_before, plane.pad_after) = ([0, top, left], [0, left, right]);
            let out = plane.output().ok().filter(|o| !o.contains(&0))?;
            let mut point = ConvSpec::square(batch, [c, o], 1, 1);
            point.input = if depthwise_first { out } else { [1, h, w] };
            Some(if depthwise_first { (plane, point) } else { (point, plane) })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn pairs_are_the_two_one_behind_the_other(
        (first, second) in pairs(), seed in 1u64..500, rows in 1usize..9, block in 1usize..20, band in 1usize..24,
        act in 0usize..16, bias in any::<bool>(), residual in any::<bool>(),
    ) {
        let acts = [Act::None, Act::Relu, Act::Clip(-0.25, 0.5), Act::HardSwish];
        let len = |s: &ConvSpec| s.channels_out * s.channels_in / s.groups * s.taps();
        let weights = [numbers(len(&first), seed + 1), numbers(len(&second), seed + 2)];
        let biases = [numbers(first.channels_out, seed + 3), numbers(second.channels_out, seed + 4)];
        let half = |i: usize, act| Half { w: &weights[i], bias: bias.then_some(&biases[i][..]), act };
        let halves = [half(0, acts[act % 4]), half(1, acts[act / 4])];
        let x = numbers(first.batch * first.channels_in * first.input[1] * first.input[2], seed);
        let between = alone(&first, &x, &halves[0], None);
        let total = second.batch * second.channels_out * second.output().unwrap().iter().product::<usize>();
        let other = residual.then(|| numbers(total, seed + 5));
        let want = alone(&second, &between, &halves[1], other.as_deref());
        let run = |p: &ConvPair| {
            let mut y = vec![f32::NAN; total];
            for b in (0..5).rev() {
                let units = block_range(p.units(), b, 5);
                p.run(units, &x, [&halves[0], &halves[1]], other.as_deref(), &mut Out::new(&mut y)).unwrap();
            }
            y
        };
        let one = plan(&first, &second);
        let best = run(&one);
        for (i, (g, w)) in best.iter().zip(&want).enumerate() {
            prop_assert!((g - w).abs() < 1e-4, "element {}: {} for {}", i, g, w);
        }
        let cut = ConvPair { band, ..one.clone().with_units(rows, block) };
        for level in Level::available() {
            for plan in [&one, &cut] {
                prop_assert_eq!(&with_level(level, || run(plan)), &best, "{:?}", level);
            }
        }
    }
}

/// NaN and infinities affect only the results that read them.
#[test]
fn numbers_without_bound_stay_where_they_are_seen() {
    let mut plane = ConvSpec::square(1, [6, 6], 33, 3);
    plane.groups = 6;
    (plane.pad_before, plane.pad_after) = ([0, 1, 1], [0, 1, 1]);
    let point = ConvSpec::square(1, [6, 6], 33, 1);
    let (w, v, mut x) = (numbers(54, 1), numbers(36, 2), numbers(6 * 33 * 33, 3));
    (x[40], x[33 * 33 + 500], x[5 * 33 * 33 - 1]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let half = |w| Half { w, bias: None, act: Act::None };
    for (first, second, halves) in [(&plane, &point, [&w[..], &v[..]]), (&point, &plane, [&v[..], &w[..]])] {
        let halves = halves.map(half);
        let want = alone(second, &alone(first, &x, &halves[0], None), &halves[1], None);
        let p = plan(first, second);
        let mut y = vec![0.0; want.len()];
        p.run(0..p.units(), &x, [&halves[0], &halves[1]], None, &mut Out::new(&mut y)).unwrap();
        for (i, (g, w)) in y.iter().zip(&want).enumerate() {
            let same = g == w || (g - w).abs() < 1e-4 || g.is_nan() && w.is_nan();
            assert!(same, "element {i}: {g} for {w}");
        }
        assert!(y.iter().filter(|v| v.is_finite()).count() > 33 * 33 * 5);
    }
}

#[test]
fn what_is_no_pair_or_has_weights_beyond_the_caches_has_no_plan() {
    let mut plane = ConvSpec::square(1, [32, 32], 56, 3);
    plane.groups = 32;
    (plane.pad_before, plane.pad_after) = ([0, 1, 1], [0, 1, 1]);
    let point = ConvSpec::square(1, [32, 64], 56, 1);
    assert!(ConvPair::new(&plane, &point).unwrap().is_some());
    assert_eq!(ConvPair::new(&point, &plane).unwrap(), None, "channels that do not fit");
    assert_eq!(ConvPair::new(&point, &point).unwrap(), None);
    let deep = ConvSpec { channels_in: 4096, channels_out: 4096, groups: 4096, ..plane.clone() };
    let wide = ConvSpec { channels_in: 4096, channels_out: 4096, ..point.clone() };
    assert_eq!(ConvPair::new(&deep, &wide).unwrap(), None, "weights that do not stay in the caches");
    let p = ConvPair::new(&plane, &point).unwrap().unwrap();
    assert!(p.stays());
    let (w, v) = (vec![0.0; 288], vec![0.0; 2047]);
    let half = |w| Half { w, bias: None, act: Act::None };
    let x = vec![0.0; 32 * 56 * 56];
    let e = p.run(0..1, &x, [&half(&w), &half(&v)], None, &mut Out::new(&mut vec![0.0; 64 * 56 * 56])).unwrap_err();
    assert_eq!(e, ConvError::Short { operand: "weights", has: 2047, needs: 2048 });
}

/// A pair has a plan for images of any size, and the plan is right where its units do not stay in
/// the caches: wide rows, planes that share cache sets, images of one position.
#[test]
fn images_of_any_size_have_a_plan() {
    for (h, w, stays) in
        [(3, 4099, false), (2, 1, false), (1, 1, false), (7, 9, false), (64, 64, true), (40, 130, true), (14, 14, true)]
    {
        let (c, o) = (24, 26);
        let mut plane = ConvSpec::square(1, [c, c], 1, 3);
        (plane.groups, plane.input) = (c, [1, h, w]);
        (plane.pad_before, plane.pad_after) = ([0, 1, 1], [0, 1, 1]);
        let mut point = ConvSpec::square(1, [c, o], 1, 1);
        point.input = [1, h, w];
        let behind = ConvSpec { channels_in: o, channels_out: o, groups: o, ..plane.clone() };
        let (x, v, u) = (numbers(c * h * w, 1), numbers(9 * o, 2), numbers(c * o, 3));
        let half = |w| Half { w, bias: None, act: Act::Relu };
        for (first, second, weights) in [(&plane, &point, [&v[..9 * c], &u[..]]), (&point, &behind, [&u[..], &v[..]])] {
            let halves = weights.map(half);
            let want = alone(second, &alone(first, &x, &halves[0], None), &halves[1], None);
            let p = ConvPair::new(first, second).unwrap().unwrap();
            if p.is_depthwise_first() {
                assert_eq!(p.stays(), stays, "{h} by {w}");
            }
            let mut y = vec![f32::NAN; want.len()];
            p.run(0..p.units(), &x, [&halves[0], &halves[1]], None, &mut Out::new(&mut y)).unwrap();
            assert!(y.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-4), "{h} by {w}");
        }
    }
}

/// Strips of eight rows where those of four would end within a vector, but not if that gave one of
/// two threads more to do.
#[test]
fn strips_of_small_images_fill_their_vectors() {
    let rows = |side: usize| {
        let mut plane = ConvSpec::square(1, [96, 96], side, 3);
        plane.groups = 96;
        (plane.pad_before, plane.pad_after) = ([0, 1, 1], [0, 1, 1]);
        ConvPair::new(&plane, &ConvSpec::square(1, [96, 24], side, 1)).unwrap().unwrap().rows
    };
    assert_eq!([9, 10, 14, 20, 28, 56].map(rows), [8, 8, 8, 4, 4, 4]);
}
