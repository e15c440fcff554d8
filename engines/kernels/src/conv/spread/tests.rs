//! Windows: compares with the definition, and the bits with those of other bands and instruction
//! sets.
use super::*;
use crate::conv::Conv;
use crate::gemm::Bias;
use crate::simd::{Act, Level, with_level};
use crate::view::block_range;

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 31) % 201) as f32 / 100.0 - 1.0).collect()
}

fn agree(s: &ConvSpec) {
    let plan = Conv::new(s).unwrap();
    let spread = Spread::plan(s, plan.output()).expect("suits");
    let single = plan.clone().in_singles();
    assert!(single.is_spread());
    let size: usize = s.input.iter().product();
    let x = numbers(s.batch * s.channels_in * size, 1);
    let w = numbers(s.channels_in * s.channels_out / s.groups * s.taps(), 2);
    let total = s.batch * s.channels_out * plan.output().iter().product::<usize>();
    let (bias, residual) = (numbers(s.channels_out, 3), numbers(total, 4));
    let e = Epilogue {
        bias: Bias::PerRow(&bias[..]),
        residual: Some((&residual[..], 1.0)),
        act: Act::Relu,
        ..Epilogue::default()
    };
    let (mut want, mut first) = (vec![f32::NAN; total], vec![f32::NAN; total]);
    plan.run(0..plan.units(), &x, &w, &e, &mut Out::new(&mut want)).unwrap();
    single.run(0..single.units(), &x, &w, &e, &mut Out::new(&mut first)).unwrap();
    for (i, (a, b)) in first.iter().zip(&want).enumerate() {
        assert!((a - b).abs() <= 1e-4, "element {i}: {a} for {b} in {s:?}");
    }
    for rows in [1, s.stride[1], 3 * s.stride[1] + 1, 1000] {
        let other = Spread { rows: rows.min(spread.out[0]), ..spread.clone() };
        for level in Level::available() {
            let mut y = vec![f32::NAN; total];
            with_level(level, || {
                for b in (0..5).rev() {
                    let units = block_range(other.units(s), b, 5);
                    other.run(s, units, (&x, &w), &e, &mut Out::new(&mut y));
                }
            });
            assert!(y == first, "{level:?} {other:?} of {s:?}");
        }
    }
}

#[test]
fn results_are_those_of_the_definition_whatever_the_bands() {
    for (groups, channels, size, kernel, stride, pads, extra) in [
        // Upsampling by group, channels that are summed at once, and by products.
        (3, [1, 1], [5, 4], [16, 16], [8, 8], [0, 0], 0),
        (1, [6, 2], [3, 5], [9, 11], [2, 3], [1, 2], 1),
        (2, [40, 1], [7, 9], [4, 16], [2, 2], [1, 1], 0),
        (1, [33, 3], [4, 17], [16, 16], [8, 8], [4, 4], 0),
        // Windows that do not touch; more border than a step; one position.
        (1, [17, 4], [3, 3], [5, 17], [9, 20], [0, 0], 3),
        (1, [16, 1], [6, 6], [5, 19], [1, 1], [4, 4], 0),
        (1, [20, 2], [1, 1], [5, 18], [3, 3], [2, 1], 0),
        (1, [64, 1], [1, 50], [1, 16], [1, 8], [0, 4], 0),
        // Narrow windows: some that touch, some that overlap twice, three wide.
        (1, [35, 3], [9, 21], [4, 4], [2, 2], [1, 1], 0),
        (2, [33, 2], [5, 6], [5, 5], [2, 2], [2, 2], 1),
        (1, [48, 1], [17, 40], [3, 3], [2, 2], [1, 1], 0),
        (1, [32, 4], [8, 3], [4, 8], [3, 4], [0, 2], 2),
    ] {
        let mut s = ConvSpec::square(2, [channels[0] * groups, channels[1] * groups], 1, 1);
        (s.groups, s.input, s.kernel) = (groups, [1, size[0], size[1]], [1, kernel[0], kernel[1]]);
        (s.stride, s.pad_before) = ([1, stride[0], stride[1]], [0, pads[0], pads[1]]);
        (s.pad_after, s.transposed) = (s.pad_before, Some([0, extra, 0]));
        agree(&s);
    }
}

#[test]
fn other_plans_keep_what_suits_them() {
    let of = |channels, kernel, stride| {
        let mut s = ConvSpec::square(1, channels, 8, kernel);
        (s.stride, s.transposed) = ([1, stride, stride], Some([0; 3]));
        Conv::new(&s).unwrap().in_singles().is_spread()
    };
    assert!(of([256, 1], 16, 8) && of([1, 1], 16, 8));
    assert!(of([64, 3], 4, 2) && of([64, 2], 5, 2) && of([64, 1], 3, 2));
    assert!(!of([64, 32], 4, 2) && !of([1, 1], 4, 2) && !of([16, 3], 4, 2));
    assert!(!of([64, 1], 2, 2) && !of([64, 1], 6, 2) && !of([64, 1], 4, 1));
}
