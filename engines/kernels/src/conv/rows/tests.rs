//! Positions as rows: compares with the bits of plain products, for other units, blocks and
//! instruction sets.
use super::*;
use crate::conv::Conv;
use crate::simd::{Act, Level, with_level};
use crate::view::block_range;
use proptest::prelude::*;

fn numbers(n: usize, seed: u64) -> Vec<f32> {
    (0..n as u64).map(|i| ((i.wrapping_mul(2_654_435_761) ^ seed) % 2001) as f32 / 1000.0 - 1.0).collect()
}

fn spec() -> impl Strategy<Value = ConvSpec> {
    let axis = || (1usize..9, 1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3);
    let channels = (1usize..20, 1usize..40, 1usize..6, prop_oneof![Just(1usize), Just(2)]);
    (axis(), axis(), axis(), channels, 1usize..4).prop_filter_map(
        "the kernel fits, and places are few",
        |(z, y, x, (ci, co, batch, groups), dims)| {
            let co = if groups > 1 { co.next_multiple_of(PANEL) } else { co };
            let mut s = ConvSpec::square(batch, [ci * groups, co * groups], 1, 1);
            s.groups = groups;
            for (axis, v) in [z, y, x].into_iter().enumerate().skip(3 - dims) {
                (s.input[axis], s.kernel[axis], s.stride[axis]) = (v.0, v.1, v.2);
                (s.dilation[axis], s.pad_before[axis], s.pad_after[axis]) = (v.3, v.4, v.5);
            }
            RowConv::new(&s).ok().flatten().map(|_| s)
        },
    )
}

fn agree(s: &ConvSpec, seed: u64, units: (usize, usize), act: Act) {
    let size: usize = s.input.iter().product();
    let x = numbers(s.batch * s.channels_in * size, seed);
    let w = numbers(s.channels_in / s.groups * s.channels_out * s.taps(), seed + 1);
    let plain = Conv::new(s).unwrap();
    let total = s.batch * s.channels_out * plain.output().iter().product::<usize>();
    let (bias, residual) = (numbers(s.channels_out, seed + 2), numbers(total, seed + 3));
    let epilogue = match seed % 3 {
        0 => Epilogue { act, ..Epilogue::default() },
        1 => Epilogue { bias: Bias::PerRow(&bias[..]), act, ..Epilogue::default() },
        _ => Epilogue { bias: Bias::PerRow(&bias[..]), residual: Some((&residual[..], 1.0)), act, alpha: 1.0 },
    };
    let mut want = vec![f32::NAN; total];
    plain.run(0..plain.units(), &x, &w, &epilogue, &mut Out::new(&mut want)).unwrap();
    let packed = pack_row_filter(s, &w).unwrap();
    let planned = RowConv::new(s).unwrap().unwrap();
    let other = RowConv { images: units.0, block: units.1 * PANEL, ..planned.clone() };
    for (conv, level) in [planned, other].iter().flat_map(|c| Level::available().into_iter().map(move |l| (c, l))) {
        let mut y = vec![f32::NAN; total];
        with_level(level, || {
            for b in (0..5).rev() {
                let units = block_range(conv.units(), b, 5);
                conv.run(units, &x, &packed, &epilogue, &mut Out::new(&mut y)).unwrap();
            }
        });
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&y), bits(&want), "{level:?} {s:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn places_as_rows_give_the_bits_of_plain_products(s in spec(), seed in 1u64..500, units in (1usize..4, 1usize..4)) {
        agree(&s, seed, units, Act::Relu);
    }
}

#[test]
fn long_sums_many_channels_and_long_windows_too() {
    let mut long = ConvSpec::square(3, [1, 40], 1, 1);
    (long.input, long.kernel, long.stride) = ([1, 1, 700], [1, 1, 300], [1, 1, 160]);
    // With this many channels and positions, plain products pack their steps.
    let packed = ConvSpec { pad_before: [0, 1, 1], pad_after: [0, 1, 1], ..ConvSpec::square(2, [64, 100], 11, 3) };
    let spread = ConvSpec { stride: [1, 2, 2], ..ConvSpec::square(1, [200, 96], 16, 3) };
    for s in [long, packed, spread, ConvSpec::square(1, [300, 530], 3, 1), ConvSpec::square(5, [70, 130], 3, 3)] {
        agree(&s, 8, (2, 3), Act::Sigmoid);
    }
}

#[test]
fn what_is_no_number_stays_where_it_is_seen() {
    let s = ConvSpec { pad_before: [0, 1, 1], pad_after: [0, 1, 1], ..ConvSpec::square(2, [3, 17], 3, 3) };
    let mut x = numbers(54, 1);
    x[0] = f32::NAN;
    let w = pack_row_filter(&s, &numbers(17 * 27, 2)).unwrap();
    let conv = RowConv::new(&s).unwrap().unwrap();
    let mut y = vec![0.0; 2 * 17 * 9];
    conv.run(0..conv.units(), &x, &w, &Epilogue::default(), &mut Out::new(&mut y)).unwrap();
    let nan: Vec<usize> = (0..9).filter(|p| y[*p].is_nan()).collect();
    assert_eq!((nan, y[17 * 9..].iter().any(|v| v.is_nan())), (vec![0, 1, 3, 4], false));
}

#[test]
fn many_places_narrow_groups_and_transposed_windows_are_for_other_plans() {
    let of = |s: &ConvSpec| RowConv::new(s).unwrap().is_some();
    assert!(of(&ConvSpec::square(1, [4, 4], 11, 1)) && !of(&ConvSpec::square(1, [4, 4], 12, 1)));
    // Convolutions whose rows would not stay in a cache have no plan either.
    assert!(of(&ConvSpec::square(1, [2048, 4], 11, 1)) && !of(&ConvSpec::square(1, [4096, 4], 11, 1)));
    let grouped = |own: usize| ConvSpec { groups: 2, ..ConvSpec::square(1, [4, 2 * own], 2, 1) };
    assert!(of(&grouped(16)) && !of(&grouped(8)));
    assert!(!of(&ConvSpec { transposed: Some([0; 3]), ..ConvSpec::square(1, [4, 4], 2, 1) }));
    let s = ConvSpec::square(1, [2, 3], 1, 1);
    assert_eq!(pack_row_filter(&s, &[0.0; 5]), None);
    let conv = RowConv::new(&s).unwrap().unwrap();
    let short = conv.run(0..1, &[0f32; 2], &[0f32; 31], &Epilogue::default(), &mut Out::new(&mut [0f32; 3]));
    assert_eq!(short.unwrap_err().to_string(), "packed filter has 31 elements, the convolution needs 32");
}
