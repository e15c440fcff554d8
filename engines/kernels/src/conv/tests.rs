//! Compares convolutions with a naive one, and their bits across units, blocks and instruction
//! sets.
use super::*;
use crate::gemm::{Bias, Epilogue};
use crate::simd::isa::PanelElem;
use crate::simd::{Act, Level, with_level};
use crate::view::{Out, block_range};
use half::f16;
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

/// The definition, in double precision, output by output. A transposed convolution scatters its
/// input.
fn naive(s: &ConvSpec, x: &[f32], w: &[f32]) -> Vec<f64> {
    let out = s.output().unwrap();
    let (gi, go, taps) = (s.channels_in / s.groups, s.channels_out / s.groups, s.taps());
    let (si, so): (usize, usize) = (s.input.iter().product(), out.iter().product());
    let mut y = vec![0.0; s.batch * s.channels_out * so];
    let split = |i: usize, d: [usize; 3]| [i / (d[1] * d[2]), i / d[2] % d[1], i % d[2]];
    for n in 0..s.batch {
        for o in 0..s.channels_out {
            for c in 0..gi {
                for t in 0..taps {
                    let (g, kt) = (o / go, split(t, s.kernel));
                    let weight = match s.transposed {
                        None => w[(o * gi + c) * taps + t],
                        Some(_) => w[((g * gi + c) * go + o % go) * taps + t],
                    };
                    let image = &x[(n * s.channels_in + g * gi + c) * si..][..si];
                    let (many, few) = if s.transposed.is_some() { (s.input, out) } else { (out, s.input) };
                    for p in 0..many.iter().product() {
                        let at = split(p, many);
                        let mut q = [0; 3];
                        let inside = (0..3).all(|d| {
                            let v = (at[d] * s.stride[d] + kt[d] * s.dilation[d]) as isize - s.pad_before[d] as isize;
                            q[d] = v as usize;
                            v >= 0 && (v as usize) < few[d]
                        });
                        if !inside {
                            continue;
                        }
                        let q = (q[0] * few[1] + q[1]) * few[2] + q[2];
                        let (i, j) = if s.transposed.is_some() { (p, q) } else { (q, p) };
                        y[(n * s.channels_out + o) * so + j] += f64::from(weight) * f64::from(image[i]);
                    }
                }
            }
        }
    }
    y
}

fn agree(s: &ConvSpec, seed: u64, units: (usize, usize)) {
    agree_to(2e-5, s, seed, units);
}

/// Checks a convolution whose plain sums have at most this error.
fn agree_to(error: f64, s: &ConvSpec, seed: u64, units: (usize, usize)) {
    let si: usize = s.input.iter().product();
    let x = numbers(s.batch * s.channels_in * si, seed);
    let w = numbers(s.channels_in / s.groups * s.channels_out * s.taps(), seed + 1);
    let want = naive(s, &x, &w);
    let c = Conv::new(s).unwrap();
    let mut first = vec![f32::NAN; want.len()];
    c.run(0..c.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut first)).unwrap();
    for (i, (g, w)) in first.iter().zip(&want).enumerate() {
        assert!((f64::from(*g) - w).abs() < error, "element {i}: {g} for {w} in {s:?}");
    }
    let single = c.clone().in_singles();
    let mut by_single = vec![f32::NAN; want.len()];
    single.run(0..single.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut by_single)).unwrap();
    for (i, (g, w)) in by_single.iter().zip(&want).enumerate() {
        // Minimal filtering has twice the error of plain sums.
        assert!((f64::from(*g) - w).abs() < 2.0 * error, "element {i}: {g} for {w} in {s:?}");
    }
    if let Some(by_phases) = filter_by_phases(s, &w) {
        let ahead = c.clone().with_filter_by_phases().unwrap();
        let mut y = vec![f32::NAN; want.len()];
        ahead.run(0..ahead.units(), &x, &by_phases, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
        assert_eq!(y, by_single, "it does not matter who laid out the filter: {s:?}");
        let panels = filter_by_phase_panels(s, &w).unwrap();
        for plan in
            [c.clone().by_phases(phases::Form::Panels), c.clone().with_filter_by_phase_panels()].into_iter().flatten()
        {
            assert_eq!(panels.len(), plan.weights(), "{s:?}");
            let mut y = vec![f32::NAN; want.len()];
            plan.run(0..plan.units(), &x, &panels, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
            for (i, (g, w)) in y.iter().zip(&want).enumerate() {
                assert!((f64::from(*g) - w).abs() < error, "element {i}: {g} for {w} in {s:?}, by panels");
            }
            for level in Level::available() {
                let mut again = vec![f32::NAN; want.len()];
                with_level(level, || {
                    for b in 0..3 {
                        let units = block_range(plan.units(), b, 3);
                        plan.run(units, &x, &panels, &Epilogue::default(), &mut Out::new(&mut again)).unwrap();
                    }
                });
                assert_eq!(again, y, "{level:?} {s:?}, by panels");
            }
        }
    }
    for (c, first) in [(single, by_single), (c.with_units(units.0, units.1).unwrap(), first)] {
        for level in Level::available() {
            let mut y = vec![f32::NAN; want.len()];
            with_level(level, || {
                for b in (0..7).rev() {
                    c.run(block_range(c.units(), b, 7), &x, &w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
                }
            });
            assert_eq!(y, first, "{level:?} {s:?}");
        }
    }
}

fn spec() -> impl Strategy<Value = ConvSpec> {
    let axis = || (1usize..12, 1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3);
    let channels = (1usize..4, 1usize..6, 1usize..6, 1usize..3);
    (axis(), axis(), axis(), channels, 1usize..4, any::<bool>(), any::<bool>()).prop_filter_map(
        "the kernel fits",
        |(z, y, x, (groups, ci, co, batch), dims, transposed, one)| {
            let mut s = ConvSpec::square(batch, [ci * groups, co * groups], 1, 1);
            s.groups = groups;
            for (axis, v) in [z, y, x].into_iter().enumerate().skip(3 - dims) {
                s.input[axis] = v.0;
                s.kernel[axis] = if one { 1 } else { v.1 };
                s.stride[axis] = v.2;
                s.dilation[axis] = v.3;
                s.pad_before[axis] = v.4;
                s.pad_after[axis] = v.5;
            }
            if transposed {
                s.transposed = Some([0, 0, s.stride[2] - 1]);
            }
            s.output().ok().filter(|o| !o.contains(&0)).map(|_| s)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn any_convolution_agrees_with_the_definition(s in spec(), seed in 1u64..500, rows in 1usize..9, block in 1usize..30) {
        agree(&s, seed, (rows, block));
    }
}

/// The definition of one output, in double precision.
fn output_of(s: &ConvSpec, x: &[f32], w: &[f32], o: usize, [oy, ox]: [usize; 2]) -> f64 {
    let (gi, go, [_, height, width]) = (s.channels_in / s.groups, s.channels_out / s.groups, s.input);
    let mut sum = 0.0;
    for (c, ky, kx) in
        (0..gi).flat_map(|c| (0..s.kernel[1]).flat_map(move |ky| (0..s.kernel[2]).map(move |kx| (c, ky, kx))))
    {
        let y = (oy * s.stride[1] + ky * s.dilation[1]).checked_sub(s.pad_before[1]);
        let x_at = (ox * s.stride[2] + kx * s.dilation[2]).checked_sub(s.pad_before[2]);
        if let (Some(y), Some(x_at)) = (y.filter(|y| *y < height), x_at.filter(|x| *x < width)) {
            let image = x[((o / go * gi + c) * height + y) * width + x_at];
            sum += f64::from(image) * f64::from(w[((o * gi + c) * s.kernel[1] + ky) * s.kernel[2] + kx]);
        }
    }
    sum
}

/// Every plan of a convolution of two axes, at some of its outputs.
fn agree_at_some_places(s: &ConvSpec, next: &mut dyn FnMut(usize, usize) -> usize) {
    let [_, height, width] = s.output().unwrap();
    let (size, places) = (s.input[1] * s.input[2], height * width);
    let (x, w) = (numbers(s.channels_in * size, 11), numbers(s.channels_in * s.channels_out * s.taps(), 7));
    let at: Vec<[usize; 3]> = (0..24).map(|_| [next(0, s.channels_out), next(0, height), next(0, width)]).collect();
    let want: Vec<f64> = at.iter().map(|[o, y, x_at]| output_of(s, &x, &w, *o, [*y, *x_at])).collect();
    let check = |what: &str, run: &dyn Fn(&mut Out<'_, f32>)| {
        for level in Level::available().into_iter().filter(|l| [Level::Avx2, Level::Avx512].contains(l)) {
            let mut got = vec![f32::NAN; s.channels_out * places];
            with_level(level, || run(&mut Out::new(&mut got)));
            for ([o, y, x_at], want) in at.iter().zip(&want) {
                let got = f64::from(got[o * places + y * width + x_at]);
                assert!((got - want).abs() < 2e-4, "{what}: {got} for {want}, {level:?} {s:?}");
            }
            assert!(got.iter().all(|v| !v.is_nan()), "{what} leaves an output out, {level:?} {s:?}");
        }
    };
    let e = Epilogue::default();
    let plain = Conv::new(s).unwrap();
    for (what, c) in [("plain", plain.clone()), ("in singles", plain.in_singles())] {
        check(what, &|out| c.run(0..c.units(), &x, &w, &e, out).unwrap());
    }
    if let Some(rows) = RowConv::new(s).unwrap() {
        let packed = pack_row_filter(s, &w).unwrap();
        check("rows", &|out| rows.run(0..rows.units(), &x, &packed, &e, out).unwrap());
    }
    if let Some(taps) = TapConv::new(s).unwrap() {
        let packed = pack_tap_filter(s, &w).unwrap();
        check("taps", &|out| taps.run(0..taps.units(), &x, &packed, &e, out).unwrap());
    }
}

/// Large images, of which a plan has strips of several sizes, and far dilated windows.
#[test]
fn large_images_agree_with_the_definition_at_some_places() {
    let mut seed = 5u64;
    let mut next = |from: usize, to: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (seed >> 33) as usize % (to - from)
    };
    // The last strip is so low that its steps could be packed, those of the others are not.
    let pads = [0, 12, 12];
    let far =
        ConvSpec { dilation: [1, 12, 12], pad_before: pads, pad_after: pads, ..ConvSpec::square(1, [64; 2], 129, 3) };
    agree_at_some_places(&far, &mut next);
    let (mut count, wanted) = (0, if std::env::var_os("GE_LONG").is_some() { 1500 } else { 40 });
    while count < wanted {
        let mut s = ConvSpec::square(1, [next(1, 90), next(1, 110)], 1, 1);
        for a in 1..3 {
            s.input[a] = next(8, 180);
            (s.kernel[a], s.stride[a]) = ([1, 3, 3, 3, 5][next(0, 5)], next(1, 6).div_ceil(4));
            s.dilation[a] = [1, 1, 2, 6, 12, next(1, 30)][next(0, 6)];
            (s.pad_before[a], s.pad_after[a]) = match next(0, 3) {
                0 => (0, 0),
                1 => (next(0, 9), next(0, 9)),
                _ => ([s.kernel[a] / 2 * s.dilation[a]; 2]).into(),
            };
        }
        let out = s.output().ok().filter(|o| !o.contains(&0) && s.work(o[1] * o[2]) <= 150 << 20);
        if out.is_some() {
            agree_at_some_places(&s, &mut next);
            count += 1;
        }
    }
}

/// Transposed convolutions by phases: strides larger than the window, borders wider than it,
/// results that end before or after the last window, and a depth.
#[test]
fn transposed_ones_agree_with_the_definition() {
    for (kernel, stride, dilation, pads, more) in [
        ([1, 2, 2], [1, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0]),
        ([1, 4, 4], [1, 2, 2], [1, 1, 1], [0, 1, 1], [0, 0, 0]),
        ([1, 3, 3], [1, 2, 2], [1, 1, 1], [0, 1, 0], [0, 1, 1]),
        ([1, 5, 3], [1, 3, 2], [1, 2, 1], [0, 2, 3], [0, 2, 0]),
        ([1, 1, 7], [1, 1, 4], [1, 1, 1], [0, 0, 2], [0, 0, 3]),
        ([1, 1, 2], [1, 4, 5], [1, 1, 3], [0, 0, 0], [0, 1, 2]),
        ([1, 2, 3], [1, 3, 1], [1, 1, 1], [0, 4, 4], [0, 2, 0]),
        ([1, 3, 3], [1, 1, 1], [1, 1, 1], [0, 1, 1], [0, 0, 0]),
        ([2, 2, 2], [2, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0]),
        ([3, 2, 5], [2, 1, 3], [1, 1, 1], [1, 0, 2], [1, 0, 1]),
        ([1, 1, 16], [1, 1, 8], [1, 1, 1], [0, 0, 4], [0, 0, 0]),
    ] {
        // The last has several blocks of output channels, of which the last one is smaller.
        for (groups, batch, wide, own) in [(1, 1, 9, 7), (2, 2, 5, 7), (1, 1, 1, 7), (1, 1, 5, 40)] {
            let mut s = ConvSpec::square(batch, [12 * groups, own * groups], 1, 1);
            s.groups = groups;
            s.transposed = Some(more);
            s.input = [if kernel[0] > 1 { 3 } else { 1 }, 6, wide];
            (s.kernel, s.stride, s.dilation, s.pad_before, s.pad_after) = (kernel, stride, dilation, pads, pads);
            if s.output().is_ok_and(|o| !o.contains(&0)) {
                agree(&s, 9, (3, 12));
            }
        }
    }
}

#[test]
fn common_shapes_agree_with_the_definition() {
    let mut s = ConvSpec::square(1, [40, 50], 14, 3);
    s.pad_before = [0, 1, 1];
    s.pad_after = [0, 1, 1];
    agree(&s, 1, (3, 24));
    s.stride = [1, 2, 2];
    agree(&s, 2, (2, 48));
    agree(&ConvSpec::square(2, [300, 20], 7, 1), 3, (20, 12));
    agree(&ConvSpec::square(1, [24, 17], 16, 1), 4, (33, 12));
    // Sums so long that some steps are packed at a time, for all channels of several units. Errors
    // grow with the number of terms.
    agree_to(2.7e-5, &ConvSpec::square(2, [400, 130], 13, 1), 8, (50, 36));
    agree_to(3.4e-5, &ConvSpec::square(1, [512, 107], 8, 1), 9, (20, 12));
    agree_to(1.4e-4, &ConvSpec::square(1, [2048, 100], 3, 1), 10, (9, 36));
    let mut long = ConvSpec::square(1, [80, 220], 15, 3);
    (long.groups, long.stride, long.pad_before) = (2, [1, 2, 2], [0, 1, 1]);
    agree_to(2.4e-5, &long, 11, (4, 24));
    (long.groups, long.stride, long.kernel) = (1, [1, 1, 1], [1, 5, 2]);
    agree_to(5.4e-5, &long, 12, (4, 60));
    // Rows of whole vectors, and rows that are far from that.
    for size in [8, 16, 32, 48] {
        for (stride, dilation) in [(1, 1), (2, 1), (1, 2)] {
            let mut s = ConvSpec::square(2, [5, 18], size, 3);
            (s.stride[1], s.stride[2]) = (stride, stride);
            (s.dilation[1], s.dilation[2]) = (dilation, dilation);
            for pads in [&mut s.pad_before, &mut s.pad_after] {
                (pads[1], pads[2]) = (dilation, dilation);
            }
            agree(&s, 5, (3, 12));
        }
    }
    let mut d = ConvSpec::square(1, [32, 32], 15, 3);
    d.groups = 32;
    d.pad_before = [0, 1, 1];
    d.pad_after = [0, 1, 1];
    agree(&d, 5, (4, 3));
    d.stride = [1, 2, 2];
    agree(&d, 6, (4, 3));
}

#[test]
fn bias_residual_and_activation_are_applied_by_channel() {
    let mut s = ConvSpec::square(2, [3, 5], 6, 3);
    for groups in [1, 3] {
        s.groups = groups;
        s.channels_out = 5 * groups;
        let so = 16 * s.channels_out * 2;
        let (x, w) = (numbers(2 * 3 * 36, 1), numbers(3 / groups * s.channels_out * 9, 2));
        let (bias, residual) = (numbers(s.channels_out, 3), numbers(so, 4));
        let want = naive(&s, &x, &w);
        let e = Epilogue {
            bias: Bias::PerRow(&bias),
            residual: Some((&residual, 1.0)),
            act: Act::Clip(0.0, 1.0),
            alpha: 1.0,
        };
        let c = Conv::new(&s).unwrap();
        let mut y = vec![0.0; so];
        c.run(0..c.units(), &x, &w, &e, &mut Out::new(&mut y)).unwrap();
        for i in 0..so {
            let v = want[i] + f64::from(bias[i / 16 % s.channels_out]) + f64::from(residual[i]);
            assert!((f64::from(y[i]) - v.clamp(0.0, 1.0)).abs() < 1e-5);
        }
    }
}

/// Depthwise windows of 3 and 5 with strides of one and two, and of 7, with all widths around
/// sixteen lanes.
fn small_window() -> impl Strategy<Value = (ConvSpec, Act, bool)> {
    let sizes = (1usize..60, 1usize..90, 0usize..8, 0usize..8, 0usize..8);
    let act = prop_oneof![Just(Act::None), Just(Act::Relu), Just(Act::Clip(-0.5, 0.5)), Just(Act::HardSwish)];
    (sizes, 1usize..4, 1usize..3, 1usize..4, any::<bool>(), act, any::<bool>()).prop_filter_map(
        "the kernel fits",
        |((h, w, top, left, right), groups, multiplier, half, two, act, residual)| {
            let mut s = ConvSpec::square(2, [groups, groups * multiplier], 1, 2 * half + 1);
            s.groups = groups;
            s.input = [1, h, w];
            s.stride = if two && half < 3 { [1, 2, 2] } else { [1; 3] };
            s.pad_before = [0, top, left];
            s.pad_after = [0, left, right];
            s.output().ok().filter(|o| !o.contains(&0)).map(|_| (s, act, residual))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn small_depthwise_windows_agree_with_the_definition(case in small_window(), seed in 1u64..500, rows in 1usize..9) {
        let (s, act, residual) = case;
        let (x, w) = (numbers(2 * s.groups * s.input[1] * s.input[2], seed), numbers(s.channels_out * s.taps(), seed + 1));
        let mut want = naive(&s, &x, &w);
        let (bias, other) = (numbers(s.channels_out, seed + 2), numbers(want.len(), seed + 3));
        let plane: usize = s.output().unwrap().iter().product();
        for (i, v) in want.iter_mut().enumerate() {
            let mut one = [(*v + f64::from(bias[i / plane % s.channels_out])) as f32];
            one[0] += if residual { other[i] } else { 0.0 };
            with_level(Level::Scalar, || act.apply(&mut one));
            *v = f64::from(one[0]);
        }
        let e = Epilogue { bias: Bias::PerRow(&bias), residual: residual.then_some((&other[..], 1.0)), act, alpha: 1.0 };
        let mut first: Option<Vec<f32>> = None;
        for level in Level::available() {
            let c = Conv::new(&s).unwrap().with_units(rows, 2).unwrap();
            let mut y = vec![f32::NAN; want.len()];
            with_level(level, || c.run(0..c.units(), &x, &w, &e, &mut Out::new(&mut y)).unwrap());
            for (g, w) in y.iter().zip(&want) {
                prop_assert!((f64::from(*g) - w).abs() < 2e-5, "{} for {} in {:?} {:?}", g, w, s, level);
            }
            let same = first.get_or_insert_with(|| y.clone());
            prop_assert!(same.iter().zip(&y).all(|(a, b)| a.to_bits() == b.to_bits()), "{:?}", level);
        }
    }
}

/// Sizes around the register tiles of all instruction sets.
fn one_point() -> impl Strategy<Value = (ConvSpec, Act, bool)> {
    let act = prop_oneof![Just(Act::None), Just(Act::Relu), Just(Act::Clip(-0.5, 0.5)), Just(Act::HardSwish)];
    (
        prop_oneof![4 => 1usize..20, 1 => 257usize..300],
        8usize..60,
        1usize..20,
        1usize..20,
        1usize..3,
        act,
        any::<bool>(),
    )
        .prop_map(|(k, m, h, w, groups, act, residual)| {
            let mut s = ConvSpec::square(2, [k * groups, m * groups], 1, 1);
            (s.groups, s.input) = (groups, [1, h, w]);
            (s, act, residual)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]
    #[test]
    fn one_point_in_place_gives_what_the_copy_gives(case in one_point(), seed in 1u64..500) {
        let (s, act, residual) = case;
        let plane = s.input[1] * s.input[2];
        let (mut x, w) = (numbers(2 * s.channels_in * plane, seed), numbers(s.channels_in * s.channels_out / s.groups, seed + 1));
        let (bias, other) = (numbers(s.channels_out, seed + 2), numbers(2 * s.channels_out * plane, seed + 3));
        x[seed as usize % (2 * s.channels_in * plane)] = f32::INFINITY;
        let e = Epilogue { bias: Bias::PerRow(&bias), residual: residual.then_some((&other[..], 1.0)), act, alpha: 1.0 };
        let run = |c: &Conv, level| {
            let mut y = vec![-7.0f32; other.len()];
            with_level(level, || {
                for b in 0..3 {
                    c.run(block_range(c.units(), b, 3), &x, &w, &e, &mut Out::new(&mut y)).unwrap();
                }
            });
            y
        };
        let c = Conv::new(&s).unwrap();
        let want = run(&c, Level::Scalar);
        let first = run(&c.clone().in_singles(), Level::Scalar);
        for (g, w) in first.iter().zip(&want) {
            prop_assert!((g - w).abs() < 2e-5 || g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan(), "{g} for {w} in {s:?}");
        }
        let bits = |v: &[f32]| v.iter().map(|v| if v.is_nan() { 1 } else { v.to_bits() }).collect::<Vec<_>>();
        for level in Level::available() {
            prop_assert_eq!(bits(&run(&c.clone().in_singles(), level)), bits(&first), "{:?} {:?}", level, s);
        }
    }
}

#[test]
fn what_is_not_a_number_reaches_its_windows_and_no_others() {
    for (stride, bad) in [(1, f32::NAN), (2, f32::INFINITY)] {
        let mut s = ConvSpec::square(1, [1, 1], 21, 3);
        (s.stride, s.pad_before, s.pad_after) = ([1, stride, stride], [0, 1, 1], [0, 1, 1]);
        let (mut x, w) = (numbers(21 * 21, 1), [1.0; 9]);
        x[20 * 21 + 16] = bad;
        for level in Level::available() {
            let c = Conv::new(&s).unwrap();
            let [_, height, width] = c.output();
            let mut y = vec![0.0f32; height * width];
            with_level(level, || c.run(0..c.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap());
            for (i, v) in y.iter().enumerate() {
                let near = |at: usize, place: usize| (at * stride).abs_diff(place) <= 1;
                assert_eq!(!v.is_finite(), near(i / width, 20) && near(i % width, 16), "{level:?} {i}: {v}");
            }
        }
    }
}

#[test]
fn halves_accumulate_in_singles() {
    let mut s = ConvSpec::square(1, [20, 9], 9, 3);
    s.pad_before = [0, 1, 1];
    for (kernel, groups) in [(3, 1), (1, 1), (3, 20)] {
        s.kernel = [1, kernel, kernel];
        (s.groups, s.channels_out) = (groups, 20);
        let x: Vec<f16> = numbers(20 * 81, 1).into_iter().map(f16::from_f32).collect();
        let w: Vec<f16> = numbers(20 * 20 / groups * s.taps(), 2).into_iter().map(f16::from_f32).collect();
        let wide = |v: &[f16]| v.iter().map(|h| h.to_f32()).collect::<Vec<_>>();
        let c = Conv::new(&s).unwrap();
        let n = 20 * c.output().iter().product::<usize>();
        let (mut y, mut z) = (vec![f16::ZERO; n], vec![0.0; n]);
        c.run(0..c.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
        c.run(0..c.units(), &wide(&x), &wide(&w), &Epilogue::default(), &mut Out::new(&mut z)).unwrap();
        assert_eq!(y, z.into_iter().map(f16::from_f32).collect::<Vec<_>>());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut s = ConvSpec::square(1, [3, 4], 5, 3);
    s.groups = 2;
    assert_eq!(Conv::new(&s).unwrap_err().to_string(), "input channels 3 are not a multiple of 2 groups");
    s.groups = 1;
    s.kernel = [1, 7, 3];
    assert_eq!(Conv::new(&s).unwrap_err(), ConvError::Kernel { axis: 1, span: 7, size: 5 });
    let turned = ConvSpec { transposed: Some([0; 3]), pad_before: [0, 9, 0], ..ConvSpec::square(1, [1, 1], 5, 3) };
    assert_eq!(Conv::new(&turned).unwrap_err(), ConvError::Padding { axis: 1, pads: 9, size: 7 });
    s.kernel = [1, 3, 3];
    s.stride = [1, 0, 1];
    assert_eq!(Conv::new(&s).unwrap_err(), ConvError::Zero { what: "stride" });
    s.stride = [1; 3];
    s.input = [1, usize::MAX / 2, usize::MAX / 2];
    assert_eq!(Conv::new(&s).unwrap_err(), ConvError::Overflow);
    let mut far = ConvSpec::square(1, [1, 1], 1, 2);
    far.pad_before = [0, 29_999, 29_999];
    far.pad_after = far.pad_before;
    far.dilation = [1, 59_998, 59_998];
    assert!(matches!(Conv::new(&far), Err(ConvError::Copy { .. })));
    s.input = [1, 5, 5];
    let c = Conv::new(&s).unwrap();
    let mut y = vec![0.0f32; 36];
    let e = c.run(0..1, &[0.0; 75], &[0.0; 107], &Epilogue::default(), &mut Out::new(&mut y)).unwrap_err();
    assert_eq!(e, ConvError::Short { operand: "weights", has: 107, needs: 108 });
}

/// Sizes whose tiles end with the output, before it or after it, in several vectors of tiles.
fn windows() -> impl Strategy<Value = ConvSpec> {
    let side = || prop_oneof![1usize..12, 12usize..40, 60usize..75, 13usize..17, 29usize..33];
    let channels = (1usize..4, 1usize..20, 1usize..30, 1usize..3);
    (side(), side(), channels, (0usize..3, 0usize..3), (0usize..3, 0usize..3)).prop_filter_map(
        "the window fits",
        |(height, width, (groups, ci, co, batch), y, x)| {
            let mut s = ConvSpec::square(batch, [ci * groups, co * groups], 1, 3);
            s.groups = groups;
            s.input = [1, height, width];
            (s.pad_before, s.pad_after) = ([0, y.0, x.0], [0, y.1, x.1]);
            s.output().ok().map(|_| s)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn minimal_filtering_agrees_with_the_definition_whatever_the_units(s in windows(), seed in 1u64..500, rows in 1usize..40, block in 1usize..50) {
        let x = numbers(s.batch * s.channels_in * s.input[1] * s.input[2], seed);
        let w = numbers(s.channels_in / s.groups * s.channels_out * 9, seed + 1);
        let want = naive(&s, &x, &w);
        let one = Conv::new(&s).unwrap().tiled_by(4, 12, false).unwrap();
        let changed = [&w[..], &change_filters(&s, &w).unwrap()].concat();
        let run = |c: &Conv| {
            let w = &changed[..c.weights()];
            let mut y = vec![f32::NAN; want.len()];
            for b in (0..5).rev() {
                c.run(block_range(c.units(), b, 5), &x, w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
            }
            y
        };
        let first = run(&one);
        for (i, (g, w)) in first.iter().zip(&want).enumerate() {
            prop_assert!((f64::from(*g) - w).abs() < 4e-5, "element {}: {} for {}", i, g, w);
        }
        let other = one.with_units(rows, block).unwrap();
        let ahead = Conv::new(&s).unwrap().tiled_by(4, 12, true).unwrap();
        prop_assert_eq!(ahead.weights(), changed.len());
        let ahead = [ahead.clone(), ahead.with_units(rows, block).unwrap()];
        for level in Level::available() {
            prop_assert_eq!(&with_level(level, || change_filters(&s, &w).unwrap()), &changed[w.len()..], "{:?}", level);
            for plan in ahead.iter().chain([&other]) {
                prop_assert_eq!(&with_level(level, || run(plan)), &first, "{:?}", level);
            }
        }
    }
}

#[test]
fn minimal_filtering_is_as_exact_as_plain_sums_are_to_a_factor_of_three() {
    let s = ConvSpec { pad_before: [0, 1, 1], pad_after: [0, 1, 1], ..ConvSpec::square(1, [64, 24], 28, 3) };
    let (x, w) = (numbers(64 * 28 * 28, 5), numbers(64 * 24 * 9, 6));
    let want = naive(&s, &x, &w);
    let off = |c: Conv| {
        let mut y = vec![f32::NAN; want.len()];
        c.run(0..c.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
        let squares: f64 = y.iter().zip(&want).map(|(g, w)| (f64::from(*g) - w).powi(2)).sum();
        (squares / want.len() as f64).sqrt()
    };
    let (plain, tiled) = (off(Conv::new(&s).unwrap()), off(Conv::new(&s).unwrap().tiled_by(8, 24, false).unwrap()));
    assert!(tiled < 3.0 * plain && plain < 1e-5, "{tiled} beside {plain}");
}

/// Infinities, NaN and numbers near the end of the range affect only the outputs that read them.
#[test]
fn numbers_without_bound_stay_where_they_are_seen() {
    let s = ConvSpec { pad_before: [0, 1, 1], pad_after: [0, 1, 1], ..ConvSpec::square(1, [4, 5], 20, 3) };
    for (huge, in_filter) in
        [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 3e38, -2e20].into_iter().flat_map(|h| [(h, false), (h, true)])
    {
        let (mut x, mut w) = (numbers(4 * 400, 3), numbers(4 * 5 * 9, 4));
        if in_filter {
            w[2 * 36 + 13] = huge;
        } else {
            x[400 + 7 * 20 + 9] = huge;
        }
        let run = |c: Conv| {
            let mut y = vec![0f32; 5 * 400];
            c.run(0..c.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
            y
        };
        let near = |got: &[f32], want: &[f32]| {
            for (i, (g, w)) in got.iter().zip(want).enumerate() {
                let near = (g - w).abs() <= 1e-5 + 1e-5 * w.abs();
                assert!(g == w || near || g.is_nan() && w.is_nan(), "{huge} {in_filter} element {i}: {g} for {w}");
            }
        };
        let want = run(Conv::new(&s).unwrap());
        near(&run(Conv::new(&s).unwrap().tiled_by(8, 12, false).unwrap()), &want);
        let changed = change_filters(&s, &w);
        assert_eq!(changed.is_none(), in_filter);
        if let Some(changed) = changed {
            let (c, w) = (Conv::new(&s).unwrap().tiled_by(8, 12, true).unwrap(), [&w[..], &changed].concat());
            let mut y = vec![0f32; 5 * 400];
            c.run(0..c.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
            near(&y, &want);
        }
    }
}

/// Depthwise convolutions of small images, with more channels than a vector has lanes.
/// Numbers far beyond the others spoil the digits only of outputs that read them, be it one, some in
/// a row, or a tenth of each channel.
#[test]
fn numbers_beyond_the_others_spoil_no_output_that_does_not_read_them() {
    let s = ConvSpec { pad_before: [0, 1, 1], pad_after: [0, 1, 1], ..ConvSpec::square(1, [8, 5], 20, 3) };
    let (x, w) = (numbers(8 * 400, 3), numbers(8 * 5 * 9, 4));
    let quiet = naive(&s, &x, &w);
    for (much, first, count, step) in [(300.0f32, 607, 1, 1), (1e6, 607, 1, 1), (1e9, 607, 9, 1), (1e7, 0, 320, 10)] {
        let mut x = x.clone();
        let places: Vec<usize> = (0..count).map(|k| first + k * step).collect();
        places.iter().for_each(|p| x[*p] = much);
        let mut y = vec![f32::NAN; quiet.len()];
        let c = Conv::new(&s).unwrap().tiled_by(8, 12, false).unwrap();
        c.run(0..c.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
        let reads = |o: usize| {
            let [row, column] = [o % 400 / 20, o % 20];
            places.iter().any(|p| row.abs_diff(p % 400 / 20) <= 1 && column.abs_diff(p % 20) <= 1)
        };
        let worst = (0..y.len()).filter(|o| !reads(*o)).map(|o| (f64::from(y[o]) - quiet[o]).abs()).fold(0.0, f64::max);
        assert!(worst < 4e-5, "{much} {count}: {worst}");
    }
}

fn small_planes() -> impl Strategy<Value = ConvSpec> {
    let axis = || (1usize..9, 1usize..8, 1usize..4, 1usize..3, 0usize..4, 0usize..4);
    (axis(), axis(), 16usize..40, 1usize..3).prop_filter_map("the kernel fits", |(y, x, channels, batch)| {
        let mut s = ConvSpec { groups: channels, ..ConvSpec::square(batch, [channels, channels], 1, 1) };
        for (axis, v) in [(1, y), (2, x)] {
            (s.input[axis], s.kernel[axis], s.stride[axis]) = (v.0, v.1, v.2);
            (s.dilation[axis], s.pad_before[axis], s.pad_after[axis]) = (v.3, v.4, v.5);
        }
        s.output().ok().map(|_| s)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn channels_as_lanes_give_the_bits_of_plain_sums(s in small_planes(), seed in 1u64..500, shut in 0usize..4) {
        let size: usize = s.input.iter().product();
        let (x, w) = (numbers(s.batch * s.channels_in * size, seed), numbers(s.channels_out * s.taps(), seed + 1));
        let plain = Conv::new(&s).unwrap();
        let total = s.batch * s.channels_out * plain.output().iter().product::<usize>();
        let (bias, residual) = (numbers(s.channels_out, seed + 2), numbers(total, seed + 3));
        let act = [Act::None, Act::Relu, Act::Silu, Act::Clip(-0.1, 0.4)][shut];
        let residual = (seed % 2 == 1).then_some((&residual[..], 1.0));
        let e = Epilogue { bias: Bias::PerRow(&bias[..]), residual, act, ..Epilogue::default() };
        let mut want = vec![f32::NAN; total];
        plain.run(0..plain.units(), &x, &w, &e, &mut Out::new(&mut want)).unwrap();
        let lanes = plain.by_lanes_always();
        for level in Level::available() {
            let mut y = vec![f32::NAN; total];
            with_level(level, || {
                for b in (0..3).rev() {
                    let units = block_range(lanes.units(), b, 3);
                    lanes.run(units, &x, &w, &e, &mut Out::new(&mut y)).unwrap();
                }
            });
            let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&y), bits(&want), "{:?} {:?}", level, s);
        }
    }
}

#[test]
fn small_images_have_channels_as_lanes_and_large_ones_rows() {
    let of = |channels, size, kernel: usize| {
        let border = [0, kernel / 2, kernel / 2];
        let s = ConvSpec::square(1, [channels, channels], size, kernel);
        let s = ConvSpec { groups: channels, pad_before: border, pad_after: border, ..s };
        Conv::new(&s).unwrap().in_singles().divided().is_none()
    };
    assert!(of(96, 3, 3) && of(96, 7, 5) && of(384, 14, 7));
    assert!(!of(96, 14, 3) && !of(96, 56, 7) && !of(15, 3, 3));
}

/// Checks every plan that [`HalfConv`] has for a convolution: rounding is the only error beyond
/// that of sums in single precision, and units and instruction sets change no bit.
fn halves_agree<T: PanelElem>(s: &ConvSpec, unit: f64) {
    let (size, places): (usize, usize) = (s.input.iter().product(), s.output().unwrap().iter().product());
    let halves = |n: usize, seed: u64| numbers(n, seed).into_iter().map(T::narrow).collect::<Vec<T>>();
    let wide = |v: &[T]| v.iter().map(|v| v.wide()).collect::<Vec<f32>>();
    let x = halves(s.batch * s.channels_in * size, 3);
    let w = halves(s.channels_in / s.groups * s.channels_out * s.taps(), 4);
    let (bias, residual) = (halves(s.channels_out, 5), halves(s.batch * s.channels_out * places, 6));
    let mut want = naive(s, &wide(&x), &wide(&w));
    for (i, v) in want.iter_mut().enumerate() {
        *v += f64::from(bias[i / places % s.channels_out].wide()) + f64::from(residual[i].wide());
        *v = v.max(0.0);
    }
    let some = HalfConv::some_images(s).unwrap();
    let conv = || Conv::new(&some).unwrap();
    let given = |conv: Conv| FilterPlan::Given(Box::new(conv));
    let laid = |w: Option<Vec<f32>>| w.unwrap().into_iter().map(T::narrow).collect::<Vec<T>>();
    let mut plans = vec![(given(conv().in_singles()), w.clone(), 0)];
    if let Some(plan) = conv().with_filter_by_phases() {
        plans.push((given(plan), laid(filter_by_phases(s, &wide(&w))), 0));
    }
    if let Some(plan) = conv().by_phases(phases::Form::Panels) {
        plans.push((given(plan), laid(filter_by_phase_panels(s, &wide(&w))), 0));
    }
    if let Some(rows) = RowConv::new(&some).unwrap() {
        let packed = laid(pack_row_filter(s, &wide(&w)));
        plans.push((FilterPlan::Rows(Box::new(rows)), [w.clone(), packed].concat(), w.len()));
    }
    let e = Epilogue {
        bias: Bias::PerRow(&bias),
        residual: Some((&residual[..], 1.0)),
        act: Act::Relu,
        ..Epilogue::default()
    };
    for (plan, filter, from) in plans {
        let plan = HalfConv::new(s, plan, from).unwrap();
        assert_eq!(plan.filter_len(), filter.len(), "{s:?}");
        let mut y = vec![T::narrow(f32::NAN); want.len()];
        plan.run(0..plan.units(), &x, &filter, &e, &mut Out::new(&mut y)).unwrap();
        for (i, (got, want)) in wide(&y).iter().zip(&want).enumerate() {
            let most = want.abs() * unit + 4e-5;
            assert!((f64::from(*got) - want).abs() <= most, "element {i}: {got} for {want} in {s:?}, {plan:?}");
        }
        for level in Level::available() {
            let mut again = vec![T::narrow(f32::NAN); want.len()];
            with_level(level, || {
                for b in (0..5).rev() {
                    let units = block_range(plan.units(), b, 5);
                    plan.run(units, &x, &filter, &e, &mut Out::new(&mut again)).unwrap();
                }
            });
            assert_eq!(wide(&again), wide(&y), "{level:?} {s:?}");
        }
        let short = &filter[1..];
        let refused = plan.run(0..1, &x, short, &e, &mut Out::new(&mut y));
        assert!(matches!(refused, Err(ConvError::Short { operand: "weights", .. })), "{refused:?}");
    }
}

#[test]
fn halves_are_computed_as_singles_and_rounded_once() {
    let bordered = |batch: usize, channels: [usize; 2], size: usize| ConvSpec {
        pad_before: [0, 1, 1],
        pad_after: [0, 1, 1],
        ..ConvSpec::square(batch, channels, size, 3)
    };
    let turned = |batch: usize, channels: [usize; 2], kernel: usize, pad: usize| ConvSpec {
        input: [1, 8, 4],
        stride: [1, 2, 2],
        pad_before: [0, pad, pad],
        pad_after: [0, pad, pad],
        transposed: Some([0; 3]),
        ..ConvSpec::square(batch, channels, 8, kernel)
    };
    let all = [
        // Minimal filtering, rows, and images that are computed together.
        bordered(3, [16, 20], 17),
        bordered(2, [32, 32], 8),
        bordered(5, [8, 24], 3),
        turned(3, [16, 12], 2, 0),
        turned(2, [8, 6], 4, 1),
        ConvSpec { groups: 2, ..turned(1, [8, 6], 3, 0) },
        ConvSpec { input: [1, 1, 1], ..turned(2, [8, 6], 4, 1) },
        // Pointwise, depthwise, three axes, and images too large to be computed together.
        ConvSpec::square(3, [24, 20], 7, 1),
        ConvSpec { groups: 16, ..bordered(2, [16, 16], 6) },
        ConvSpec { input: [4, 5, 6], kernel: [2, 3, 2], ..ConvSpec::square(2, [3, 5], 1, 1) },
        ConvSpec { stride: [1, 2, 2], ..bordered(2, [5, 30], 80) },
    ];
    for s in all {
        halves_agree::<f16>(&s, 1.0 / 2048.0);
        halves_agree::<half::bf16>(&s, 1.0 / 256.0);
    }
}
