//! Products by weights against sums in double precision.
use super::*;
use crate::gemm::Bias;
use crate::simd::{Act, Level, with_level};
use crate::view::block_range;

/// Sizes, rows of a group (0: all), bits, and whether there are offsets.
type Case = ([usize; 3], usize, Bits, bool);

const CASES: [Case; 17] = [
    ([1, 1, 1], 0, Bits::Eight, false),
    ([1, 40, 7], 0, Bits::Eight, true),
    ([3, 16, 64], 0, Bits::Eight, false),
    ([5, 17, 33], 3, Bits::Eight, true),
    ([16, 48, 384], 0, Bits::Eight, false),
    ([23, 31, 5], 2, Bits::Eight, false),
    ([40, 20, 0], 0, Bits::Eight, false),
    ([1, 1, 1], 0, Bits::Four, false),
    ([1, 600, 96], 32, Bits::Four, true),
    ([7, 17, 33], 16, Bits::Four, false),
    ([33, 70, 63], 0, Bits::Four, true),
    ([2, 16, 2], 2, Bits::Four, false),
    ([4, 33, 300], 0, Bits::Eight, true),
    ([6, 33, 301], 20, Bits::Four, true),
    ([18, 5, 40], 64, Bits::Four, true),
    ([70, 260, 140], 0, Bits::Eight, true),
    ([130, 170, 260], 20, Bits::Four, true),
];

struct Given {
    x1: Vec<f32>,
    x2: Vec<i8>,
    scale: Vec<f32>,
    offset: Option<Vec<f32>>,
    bias: Vec<f32>,
    residual: Vec<f32>,
}

fn given(([m, n, k], _, bits, offset): Case, groups: usize) -> Given {
    let most = if bits == Bits::Four { 16 } else { 255 };
    let low = if bits == Bits::Four { 8 } else { 128 };
    Given {
        x1: (0..m * k).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect(),
        x2: (0..k * n).map(|i| ((i * 29 % most) as i32 - low) as i8).collect(),
        scale: (0..groups * n).map(|j| 0.01 + (j % 97) as f32 / 1000.0).collect(),
        offset: offset.then(|| (0..groups * n).map(|j| (j % 5) as f32 - 2.0).collect()),
        bias: (0..n).map(|j| j as f32).collect(),
        residual: (0..m * n).map(|i| (i % 7) as f32).collect(),
    }
}

/// The result in double precision.
fn wanted(([_, n, k], group, ..): Case, g: &Given) -> Vec<f64> {
    let group = if group == 0 { k.max(1) } else { group };
    let one = |at: usize| {
        let (i, j) = (at / n, at % n);
        let weight = |l: usize| {
            let s = l / group * n + j;
            let less = g.offset.as_ref().map_or(0.0, |o| f64::from(o[s]));
            (f64::from(g.x2[l * n + j]) - less) * f64::from(g.scale[s])
        };
        let sum: f64 = (0..k).map(|l| f64::from(g.x1[i * k + l]) * weight(l)).sum();
        (sum + f64::from(g.bias[j]) + f64::from(g.residual[at])).max(0.0)
    };
    (0..g.residual.len()).map(one).collect()
}

#[test]
fn products_of_every_size_agree_with_sums_in_double_precision() {
    for case in CASES {
        let (sizes @ [m, n, k], group, bits, _) = case;
        let plan = WeightProduct::new(sizes, group, bits).unwrap();
        let g = given(case, plan.groups());
        let panels = match bits {
            Bits::Eight => pack_bytes(&g.x2, k, n).into_iter().map(|v| v as u8).collect(),
            Bits::Four => pack_halves(&g.x2, k, n),
        };
        assert_eq!(panels.len(), n.div_ceil(PANEL) * bits.lines(k) * PANEL);
        let (bias, residual) = (Bias::PerColumn(&g.bias[..]), Some((&g.residual[..], 1.0)));
        let follow = Epilogue { alpha: 1.0, bias, residual, act: Act::Relu };
        let w = Weights { panels: &panels, scale: &g.scale, offset: g.offset.as_deref() };
        let made = |blocks: usize| {
            let mut y = vec![f32::NAN; m * n];
            for b in 0..blocks {
                let units = block_range(plan.units(), b, blocks);
                plan.run(units, &g.x1, &w, &follow, &mut Out::new(&mut y));
            }
            y
        };
        let got = made(1);
        for (at, (g, want)) in got.iter().zip(wanted(case, &g)).enumerate() {
            assert!((f64::from(*g) - want).abs() <= 1e-4 * want.abs().max(1.0), "{case:?} {at}: {g} for {want}");
        }
        assert_eq!(made(3), got);
        for level in Level::available() {
            assert_eq!(with_level(level, || made(2)), got, "{level:?} {case:?}");
        }
    }
}

#[test]
fn halves_are_widened_and_rounded_once() {
    let (m, n, k) = (17, 20, 48);
    let x1: Vec<half::f16> = (0..m * k).map(|i| half::f16::from_f32((i % 13) as f32 / 8.0 - 0.5)).collect();
    let x2: Vec<i8> = (0..k * n).map(|i| (i * 7 % 16) as i8 - 8).collect();
    let scale = vec![0.25; n * 3];
    let panels = pack_halves(&x2, k, n);
    let w = Weights { panels: &panels, scale: &scale, offset: None };
    let plan = WeightProduct::new([m, n, k], 16, Bits::Four).unwrap();
    let mut y = vec![half::f16::NAN; m * n];
    plan.run(0..plan.units(), &x1, &w, &Epilogue::default(), &mut Out::new(&mut y));
    let wide: Vec<f32> = x1.iter().map(|v| v.to_f32()).collect();
    let mut same = vec![f32::NAN; m * n];
    plan.run(0..plan.units(), &wide, &w, &Epilogue::default(), &mut Out::new(&mut same));
    let rounded: Vec<half::f16> = same.iter().map(|v| half::f16::from_f32(*v)).collect();
    assert_eq!(y, rounded);
}

#[test]
fn groups_of_four_bits_begin_with_a_byte() {
    assert!(WeightProduct::new([1, 1, 9], 3, Bits::Four).is_none());
    assert!(WeightProduct::new([1, 1, 9], 9, Bits::Four).is_some());
    assert!(WeightProduct::new([1, 1, 9], 3, Bits::Eight).is_some());
}

#[test]
fn what_is_no_number_stays_in_its_row() {
    let mut x1 = vec![1.0f32; 3 * 4];
    x1[5] = f32::NAN;
    let panels: Vec<u8> = pack_bytes(&[1; 4 * 2], 4, 2).into_iter().map(|v| v as u8).collect();
    let w = Weights { panels: &panels, scale: &[1.0; 2], offset: None };
    let mut y = [0.0; 6];
    let plan = WeightProduct::new([3, 2, 4], 0, Bits::Eight).unwrap();
    plan.run(0..1, &x1, &w, &Epilogue::default(), &mut Out::new(&mut y));
    assert!(y[0] == 4.0 && y[2].is_nan() && y[3].is_nan() && y[5] == 4.0);
}
