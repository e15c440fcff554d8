//! Tap by tap: compares with the definition, and the bits with those of other units, blocks and
//! instruction sets.
use super::*;
use crate::conv::Conv;
use crate::gemm::Bias;
use crate::simd::{Act, Level, with_level};
use crate::view::block_range;

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 31) % 201) as f32 / 100.0 - 1.0).collect()
}

fn dilated(channels: [usize; 2], size: [usize; 2], kernel: usize, by: usize, pad: usize) -> ConvSpec {
    let mut s = ConvSpec::square(1, channels, 1, kernel);
    (s.input, s.dilation) = ([1, size[0], size[1]], [1, by, by]);
    (s.pad_before, s.pad_after) = ([0, pad, pad], [0, pad, pad]);
    s
}

fn agree(s: &ConvSpec) {
    let plan = TapConv::new(s).unwrap().expect("suits");
    let size: usize = s.input.iter().product();
    let (x, w) =
        (numbers(s.batch * s.channels_in * size, 1), numbers(s.channels_in / s.groups * s.channels_out * s.taps(), 2));
    let conv = Conv::new(s).unwrap();
    let total = s.batch * s.channels_out * conv.output().iter().product::<usize>();
    let (bias, residual) = (numbers(s.channels_out, 3), numbers(total, 4));
    let e = Epilogue {
        bias: Bias::PerRow(&bias[..]),
        residual: Some((&residual[..], 1.0)),
        act: Act::Relu,
        ..Epilogue::default()
    };
    let mut want = vec![f32::NAN; total];
    conv.run(0..conv.units(), &x, &w, &e, &mut Out::new(&mut want)).unwrap();
    let packed = pack_tap_filter(s, &w).unwrap();
    let mut first = vec![f32::NAN; total];
    plan.run(0..plan.units(), &x, &packed, &e, &mut Out::new(&mut first)).unwrap();
    for (i, (a, b)) in first.iter().zip(&want).enumerate() {
        assert!((a - b).abs() <= 1e-4, "element {i}: {a} for {b} in {s:?}");
    }
    let [height, width] = plan.out;
    for (down, along, high, block) in [(true, true, 1, 16), (false, true, 3, 24), (true, false, 9, 7)] {
        let strips = strips(&pieces(s, 1, height, down), high);
        let other = TapConv { strips, across: pieces(s, 2, width, along), block, ..plan.clone() };
        for level in Level::available() {
            let mut y = vec![f32::NAN; total];
            with_level(level, || {
                for b in (0..5).rev() {
                    let units = block_range(other.units(), b, 5);
                    other.run(units, &x, &packed, &e, &mut Out::new(&mut y)).unwrap();
                }
            });
            assert!(y == first, "{level:?} {other:?}");
        }
    }
}

#[test]
fn results_are_those_of_the_definition_whatever_the_units() {
    // Taps that reach all positions, some, and none but the one in the middle.
    for (by, pad) in [(1, 1), (2, 2), (6, 6), (12, 12), (20, 20), (5, 3), (3, 9)] {
        agree(&dilated([20, 33], [13, 17], 3, by, pad));
    }
    agree(&dilated([16, 16], [1, 1], 3, 1, 1));
    agree(&dilated([300, 16], [5, 40], 3, 2, 2));
    let mut s = dilated([64, 96], [15, 11], 3, 4, 4);
    (s.batch, s.groups, s.stride) = (2, 2, [1, 2, 3]);
    agree(&s);
    // A row, as for sequences; padded at one side.
    let mut s = dilated([32, 48], [1, 90], 1, 8, 0);
    (s.kernel, s.pad_before, s.pad_after) = ([1, 1, 3], [0, 0, 16], [0; 3]);
    agree(&s);
    // An even window whose border is wider than the image.
    agree(&dilated([16, 17], [4, 3], 4, 5, 11));
}

/// A position that no tap reaches has the bias alone; border times infinity is no part of a sum.
#[test]
fn borders_are_no_part_of_the_sums() {
    let s = dilated([16, 16], [2, 2], 3, 30, 30);
    let plan = TapConv::new(&s).unwrap().unwrap();
    assert_eq!(plan.effort(), 16 * 16 * 4);
    let (x, mut w) = (numbers(64, 1), numbers(16 * 16 * 9, 2));
    w[0] = f32::INFINITY;
    let mut y = vec![f32::NAN; 64];
    let packed = pack_tap_filter(&s, &w).unwrap();
    plan.run(0..plan.units(), &x, &packed, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
    assert!(y.iter().all(|v| v.is_finite()));
    let mut s = dilated([16, 16], [2, 2], 2, 1, 5);
    s.pad_after = [0, 0, 0];
    let (plan, w) = (TapConv::new(&s).unwrap().unwrap(), numbers(16 * 16 * 4, 2));
    let mut y = vec![f32::NAN; 16 * plan.out[0] * plan.out[1]];
    let (packed, bias) = (pack_tap_filter(&s, &w).unwrap(), [2.5; 16]);
    let e = Epilogue { bias: Bias::PerRow(&bias[..]), ..Epilogue::default() };
    plan.run(0..plan.units(), &x, &packed, &e, &mut Out::new(&mut y)).unwrap();
    assert_eq!(y[..3], [2.5; 3]);
}

#[test]
fn unsuitable_convolutions_and_lengths_are_refused() {
    for s in
        [ConvSpec::square(1, [15, 64], 9, 3), ConvSpec::square(1, [64, 15], 9, 3), ConvSpec::square(1, [64, 64], 9, 1)]
    {
        assert!(TapConv::new(&s).unwrap().is_none(), "{s:?}");
    }
    let s = dilated([16, 16], [9, 9], 3, 2, 2);
    assert!(pack_tap_filter(&s, &[0.0; 16 * 16 * 9 - 1]).is_none());
    let plan = TapConv::new(&s).unwrap().unwrap();
    let mut y = vec![0.0; 16 * 81];
    let short = plan.run(0..1, &[0.0; 16 * 81], &[0.0; 9], &Epilogue::default(), &mut Out::new(&mut y));
    assert!(matches!(short, Err(ConvError::Short { operand: "filter by taps", .. })));
}
