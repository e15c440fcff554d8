//! Compares with the convolution of plain layouts, and bits across tiles and instruction sets.
use super::*;
use crate::conv::{Conv, ConvSpec};
use crate::layout::blocked::{Blocked, Part};
use crate::simd::{Act, Level, with_level};
use crate::view::block_range;
use half::f16;
use proptest::prelude::*;

fn part(axis: usize, step: usize, size: usize) -> Part {
    Part { axis, step, size }
}

/// Converts `[n, c, h, w]` to groups of channels.
fn grouped(x: &[f16], [n, c, h, w]: [usize; 4]) -> Vec<f16> {
    let parts = [part(0, 1, n), part(1, LANES, c.div_ceil(LANES)), part(2, 1, h), part(3, 1, w), part(1, 1, LANES)];
    packed(&Blocked::new(&[n, c, h, w], &parts).unwrap(), x)
}

/// Converts `[o, c, h, w]` to FRACTAL_Z.
fn fractal(x: &[f16], [o, c, h, w]: [usize; 4]) -> Vec<f16> {
    let outer = [part(1, LANES, c.div_ceil(LANES)), part(2, 1, h), part(3, 1, w), part(0, LANES, o.div_ceil(LANES))];
    let inner = [part(0, 1, LANES), part(1, 1, LANES)];
    packed(&Blocked::new(&[o, c, h, w], &[&outer[..], &inner[..]].concat()).unwrap(), x)
}

fn packed(plan: &Blocked, x: &[f16]) -> Vec<f16> {
    let mut y = vec![f16::NAN; plan.len()];
    plan.pack(0..plan.packed_rows(), x, &mut Out::new(&mut y));
    y
}

fn numbers(n: usize, seed: u64) -> Vec<f16> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        f16::from_f32((s >> 40) as f32 / (1u64 << 23) as f32 - 1.0)
    };
    (0..n).map(next).collect()
}

/// Compares both forms of a convolution with bias, residual and an activation that does not map
/// zero to zero.
fn agree(s: &ConvSpec, seed: u64) {
    let [_, h, w] = s.input;
    let out = s.output().unwrap();
    let (x, k) = (numbers(s.batch * s.channels_in * h * w, seed), s.channels_in / s.groups * s.channels_out * s.taps());
    let (weights, bias) = (numbers(k, seed + 1), numbers(s.channels_out, seed + 2));
    let shape = [s.batch, s.channels_out, out[1], out[2]];
    let residual = numbers(shape.iter().product(), seed + 3);
    let plain = Conv::new(s).unwrap();
    let mut want = vec![f16::NAN; residual.len()];
    let act = Act::Sigmoid;
    let e = Epilogue { bias: Bias::PerRow(&bias), residual: Some((&residual, 1.0)), act, ..Epilogue::default() };
    plain.run(0..plain.units(), &x, &weights, &e, &mut Out::new(&mut want)).unwrap();
    let want = grouped(&want, shape);
    let (x, residual) = (grouped(&x, [s.batch, s.channels_in, h, w]), grouped(&residual, shape));
    let e = Epilogue { residual: Some((&residual, 1.0)), ..e };
    let mut first: Option<Vec<f16>> = None;
    for (level, blocks) in Level::available().into_iter().flat_map(|l| [(l, 1), (l, 3)]) {
        let mut y = vec![f16::NAN; want.len()];
        with_level(level, || {
            for b in (0..blocks).rev() {
                let mut out = Out::new(&mut y);
                if s.groups == 1 {
                    let weights = fractal(&weights, [s.channels_out, s.channels_in, s.kernel[1], s.kernel[2]]);
                    let plan = CubeConv::new(s).unwrap();
                    let plan = if blocks == 1 { plan } else { plan.with_tile(7, 1) };
                    plan.run(block_range(plan.units(), b, blocks), &x, &weights, &e, &mut out).unwrap();
                } else {
                    let plan = CubeDepthwise::new(s).unwrap();
                    plan.run(block_range(plan.units(), b, blocks), &x, &weights, &e, &mut out).unwrap();
                }
            }
        });
        for (i, (g, w)) in y.iter().zip(&want).enumerate() {
            let near = (f32::from(*g) - f32::from(*w)).abs() < 2e-3;
            assert!(near && (w.to_f32() != 0.0 || g.to_f32() == 0.0), "element {i}: {g} for {w}, {level:?} {s:?}");
        }
        let same = first.get_or_insert_with(|| y.clone());
        assert!(same.iter().zip(&y).all(|(a, b)| a.to_bits() == b.to_bits()), "{level:?} {blocks} {s:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn layouts_of_the_cube_give_what_plain_ones_give(
        channels in (1usize..40, 1usize..40), batch in 1usize..3, depthwise in any::<bool>(),
        a in (1usize..12, 1usize..4, 1usize..3, 1usize..3, 0usize..3, 0usize..3),
        b in (1usize..24, 1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3), seed in any::<u64>(),
    ) {
        let s = ConvSpec {
            batch, groups: if depthwise { channels.0 } else { 1 }, channels_in: channels.0,
            channels_out: if depthwise { channels.0 } else { channels.1 },
            input: [1, a.0, b.0], kernel: [1, a.1, b.1], stride: [1, a.2, b.2], dilation: [1, a.3, b.3],
            pad_before: [0, a.4, b.4], pad_after: [0, a.5, b.5], transposed: None,
        };
        prop_assume!(s.check().is_ok());
        agree(&s, seed >> 8);
    }
}

#[test]
fn a_long_sum_is_taken_in_blocks() {
    // More steps than one block of K, and several tiles of positions.
    agree(&ConvSpec { pad_before: [0, 1, 1], pad_after: [0, 1, 1], ..ConvSpec::square(1, [70, 33], 15, 3) }, 5);
}

#[test]
fn what_the_layouts_have_no_place_for_is_refused() {
    let s = ConvSpec::square(1, [8, 8], 5, 3);
    let cube = Err(crate::conv::ConvError::Cube);
    assert_eq!(CubeConv::new(&ConvSpec { groups: 2, ..s.clone() }).map(drop), cube);
    assert_eq!(CubeConv::new(&ConvSpec { transposed: Some([0; 3]), ..s.clone() }).map(drop), cube);
    assert_eq!(CubeDepthwise::new(&s).map(drop), cube);
    let short = CubeConv::new(&s).unwrap().check::<f16>(1, usize::MAX, usize::MAX, &Epilogue::default());
    assert_eq!(short.unwrap_err().to_string(), "input has 1 elements, the convolution needs 400");
}
