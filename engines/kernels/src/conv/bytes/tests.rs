//! Compares convolutions of bytes with the definition, and their bits on every instruction set.
use super::winograd::filters::change_filters;
use super::*;
use crate::simd::{Level, with_level};
use crate::view::{block_range, seen_as};
use proptest::prelude::*;

fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            // The ends of the range are the most difficult numbers.
            if s & 7 == 0 { [0, 255, 127, 128][s as usize >> 3 & 3] } else { (s >> 40) as u8 }
        })
        .collect()
}

/// The definition, in 64 bits; positions outside the input add nothing.
fn naive(s: &ConvSpec, x: &[i64], w: &[i64], zero: i64, zeros: &[i32]) -> Vec<i64> {
    let out = s.output().unwrap();
    let (deep, own, taps) = (s.channels_in / s.groups, s.channels_out / s.groups, s.taps());
    let (si, so): (usize, usize) = (s.input.iter().product(), out.iter().product());
    let split = |i: usize, d: [usize; 3]| [i / (d[1] * d[2]), i / d[2] % d[1], i % d[2]];
    let mut y = vec![0; s.batch * s.channels_out * so];
    for (i, y) in y.iter_mut().enumerate() {
        let (n, o, at) = (i / so / s.channels_out, i / so % s.channels_out, split(i % so, out));
        for (c, t) in (0..deep * taps).map(|k| (k / taps, k % taps)) {
            let k = split(t, s.kernel);
            let place = |d: usize| (at[d] * s.stride[d] + k[d] * s.dilation[d]).checked_sub(s.pad_before[d]);
            let Some(p) = place(0).zip(place(1)).zip(place(2)).map(|((a, b), c)| [a, b, c]) else { continue };
            if (0..3).any(|d| p[d] >= s.input[d]) {
                continue;
            }
            let channel = n * s.channels_in + o / own * deep + c;
            let v = x[channel * si + (p[0] * s.input[1] + p[1]) * s.input[2] + p[2]] - zero;
            *y += v * (w[(o * deep + c) * taps + t] - i64::from(zeros[if zeros.len() == 1 { 0 } else { o }]));
        }
    }
    y
}

fn agree(s: &ConvSpec, signed: bool, zero: u8, by_channel: bool, units: (usize, usize), seed: u64) {
    let x = noise(s.batch * s.channels_in * s.input.iter().product::<usize>(), seed);
    let w: Vec<i8> =
        noise(s.channels_in / s.groups * s.channels_out * s.taps(), seed + 1).iter().map(|v| *v as i8).collect();
    let flip = if signed { 128 } else { 0 };
    let zeros: Vec<i32> = match by_channel {
        true => (0..s.channels_out).map(|o| [0, 5, -128, 127][(o + seed as usize) % 4]).collect(),
        false => vec![0],
    };
    let wide: Vec<i64> = x.iter().map(|v| i64::from(*v ^ flip)).collect();
    let filter: Vec<i64> = w.iter().map(|v| i64::from(*v)).collect();
    let want = naive(s, &wide, &filter, i64::from(zero), &zeros);
    let mut packed = vec![77i8; packed_filter_len(s)];
    pack_filter(s, &w, &mut packed);
    assert_eq!(unpack_filter(s, &packed).as_ref(), Some(&w));
    let plan = ByteConv::new(s).unwrap();
    let mut plans = vec![plan.clone(), plan.clone().with_units(units.0, units.1).unwrap()];
    if !plan.depthwise {
        // The way that was not chosen.
        plans.extend(plans.clone().into_iter().map(|p| ByteConv { gathered: !p.gathered, ..p }));
    }
    if let Some((tiles, changed)) = plan.with_changed_filters().zip(change_filters(s, &w, &zeros)) {
        let other = tiles.tiles.clone().map(|t| t.with_together(1 + units.0 % 3));
        plans.extend([tiles.clone().cheaper_here(), ByteConv { tiles: other, ..tiles.clone() }]);
        plans.extend([tiles.clone(), tiles.with_units(units.0, units.1).unwrap()]);
        packed.extend(changed.into_iter().map(|v| v as i8));
    }
    // Words follow the packed bytes, so the memory must be aligned for them.
    let words: Vec<u32> =
        as_bytes(&packed).chunks(4).map(|b| b.iter().rev().fold(0, |a, v| a << 8 | u32::from(*v))).collect();
    let packed = &seen_as::<i8, _>(&words).unwrap()[..packed.len()];
    let (x, w) = (ByteImages { x: &x, flip, zero }, ByteFilter { packed, zeros: &zeros });
    let mut bias: Vec<i32> = (0..s.channels_out as i32).map(|o| o * 1000 - 3000).collect();
    // One for all channels, every third time.
    bias.truncate(if seed.is_multiple_of(3) { 1 } else { s.channels_out });
    let scale: Vec<f32> = (0..s.channels_out).map(|o| 0.003 + o as f32 * 1e-4).collect();
    let to = Requantise { scale: &scale, zero: 7, range: [0, 255] };
    let size = want.len() / (s.batch * s.channels_out).max(1);
    let bytes: Vec<u8> = want
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let o = i / size % s.channels_out;
            ((v + i64::from(bias[if bias.len() == 1 { 0 } else { o }])) as f64 * f64::from(scale[o])).round_ties_even()
                + 7.0
        })
        .map(|v| v.clamp(0.0, 255.0) as u8)
        .collect();
    for level in Level::available() {
        for plan in &plans {
            let (mut sums, mut y) = (vec![7i32; want.len()], vec![9u8; want.len()]);
            with_level(level, || {
                for b in (0..3).rev() {
                    let part = block_range(plan.units(), b, 3);
                    plan.run_sums(part.clone(), x, w, &mut Out::new(&mut sums)).unwrap();
                    plan.run(part, x, w, &bias, &to, &mut Out::new(&mut y)).unwrap();
                }
            });
            assert!(sums.iter().zip(&want).all(|(a, b)| i64::from(*a) == *b), "{level:?} {s:?}");
            assert_eq!(y, bytes, "{level:?} {s:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn sums_and_bytes_are_those_of_the_definition(
        (batch, groups, deep, own) in (1usize..3, 1usize..4, 1usize..12, 1usize..20),
        a in (1usize..9, 1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3),
        b in (1usize..40, 1usize..5, 1usize..4, 1usize..3, 0usize..3, 0usize..3),
        (signed, zero, by_channel) in (any::<bool>(), prop_oneof![Just(0u8), Just(255), any::<u8>()], any::<bool>()),
        units in (1usize..4, 1usize..30), seed in any::<u16>(),
    ) {
        let s = ConvSpec {
            batch, groups, channels_in: deep * groups, channels_out: own * groups, input: [1, a.0, b.0],
            kernel: [1, a.1, b.1], stride: [1, a.2, b.2], dilation: [1, a.3, b.3],
            pad_before: [0, a.4, b.4], pad_after: [0, a.5, b.5], transposed: None,
        };
        prop_assume!(s.check().is_ok());
        agree(&s, signed, zero, by_channel, units, u64::from(seed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn one_channel_a_group_is_summed_plane_by_plane(
        (batch, groups, own) in (1usize..3, 2usize..7, 1usize..3),
        a in (1usize..9, 1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3),
        b in (1usize..80, 1usize..5, 1usize..4, 1usize..3, 0usize..3, 0usize..3),
        (signed, zero, by_channel) in (any::<bool>(), prop_oneof![Just(0u8), Just(255), any::<u8>()], any::<bool>()),
        units in (1usize..4, 1usize..5), seed in any::<u16>(),
    ) {
        let s = ConvSpec {
            batch, groups, channels_in: groups, channels_out: own * groups, input: [1, a.0, b.0],
            kernel: [1, a.1, b.1], stride: [1, a.2, b.2], dilation: [1, a.3, b.3],
            pad_before: [0, a.4, b.4], pad_after: [0, a.5, b.5], transposed: None,
        };
        prop_assume!(s.check().is_ok());
        agree(&s, signed, zero, by_channel, units, u64::from(seed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]
    #[test]
    fn minimal_filtering_gives_the_sums_of_the_definition(
        (batch, groups, deep, own) in (1usize..3, 1usize..3, 1usize..20, 1usize..20),
        (height, width) in (1usize..14, prop_oneof![1usize..20, 55usize..80]),
        (a, b, c, d) in (0usize..4, 0usize..4, 0usize..4, 0usize..4),
        (signed, zero, by_channel) in (any::<bool>(), prop_oneof![Just(0u8), Just(255), any::<u8>()], any::<bool>()),
        units in (1usize..4, 1usize..30), seed in any::<u16>(),
    ) {
        let s = ConvSpec {
            pad_before: [0, a, b], pad_after: [0, c, d], input: [1, height, width], groups,
            ..ConvSpec::square(batch, [deep * groups, own * groups], 3, 3)
        };
        prop_assume!(s.check().is_ok() && (deep > 1 || groups == 1));
        let plan = ByteConv::new(&s).unwrap();
        prop_assert!(plan.with_changed_filters().is_some());
        agree(&s, signed, zero, by_channel, units, u64::from(seed));
    }
}

#[test]
fn gathered_panels_are_chosen_by_their_costs() {
    let square = |channels, size, kernel: usize| ConvSpec {
        pad_before: [0, kernel / 2, kernel / 2],
        pad_after: [0, kernel / 2, kernel / 2],
        ..ConvSpec::square(1, channels, size, kernel)
    };
    let plan = ByteConv::new(&square([64, 64], 56, 3)).unwrap();
    assert_eq!(plan.gathered, crate::simd::level::amx());
    let tiles = plan.with_changed_filters().unwrap();
    // Tiles do plain products in less time than minimal filtering takes without them.
    assert!(tiles.cheapest(&Costs::TILES).gathered && !tiles.by_tiles(&Costs::TILES));
    assert!(!tiles.cheapest(&Costs::DOTS).gathered && tiles.by_tiles(&Costs::DOTS));
    // A single position would leave most of a vector and of the tiles empty.
    assert!(!ByteConv::new(&square([4, 4], 1, 1)).unwrap().cheapest(&Costs::TILES).gathered);
}

#[test]
fn filters_whose_sums_leave_the_range_of_minimal_filtering_are_not_changed() {
    // 255 * 127 * 9 * c: within 2^25 for 115 channels, beyond for 116.
    for (channels, fits) in [(115, true), (116, false)] {
        let s = ConvSpec { pad_before: [0, 1, 1], ..ConvSpec::square(1, [channels, 1], 6, 3) };
        let (x, w) = (vec![255u8; channels * 36], vec![127i8; channels * 9]);
        let changed = change_filters(&s, &w, &[]);
        assert_eq!(changed.is_some(), fits, "{channels}");
        let low: Vec<i8> = w.iter().map(|w| -w).collect();
        assert_eq!(change_filters(&s, &low, &[]).is_some(), fits, "{channels}");
        let Some(changed) = changed else { continue };
        let mut packed = vec![0; packed_filter_len(&s)];
        pack_filter(&s, &w, &mut packed);
        let all: Vec<u8> = packed.iter().map(|v| *v as u8).chain(changed).collect();
        let words: Vec<u32> = all.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let w = ByteFilter { packed: seen_as(&words).unwrap(), zeros: &[] };
        let plan = ByteConv::new(&s).unwrap().with_changed_filters().unwrap();
        let mut sums = vec![0; plan.out.iter().product()];
        plan.run_sums(0..plan.units(), ByteImages { x: &x, flip: 0, zero: 0 }, w, &mut Out::new(&mut sums)).unwrap();
        assert!(sums.contains(&(255 * 127 * 9 * channels as i32)));
    }
    let s = ConvSpec::square(1, [4, 4], 6, 3);
    assert!(change_filters(&s, &[1; 144], &[256]).is_none() && change_filters(&s, &[1; 143], &[]).is_none());
}

#[test]
fn many_channels_are_taken_in_steps_of_thirty_two() {
    for (deep, own, kernel) in [(70, 33, 1), (32, 16, 3), (129, 8, 2)] {
        let s = ConvSpec { pad_before: [0, 1, 1], ..ConvSpec::square(1, [deep, own], 7, kernel) };
        agree(&s, false, 3, true, (2, 8), deep as u64);
    }
    let s = ConvSpec { kernel: [2, 3, 1], input: [3, 5, 6], pad_after: [1, 0, 2], ..ConvSpec::square(2, [5, 9], 1, 1) };
    agree(&s, true, 200, false, (3, 8), 5);
}

#[test]
fn nothing_gives_nothing_and_no_channels_give_the_bias() {
    let s = ConvSpec { groups: 1, channels_in: 0, ..ConvSpec::square(1, [0, 3], 4, 1) };
    agree(&s, false, 0, false, (1, 1), 1);
    agree(&ConvSpec::square(0, [3, 3], 4, 1), false, 0, false, (1, 1), 1);
    let short = ByteConv::new(&ConvSpec::square(1, [3, 3], 4, 1)).unwrap();
    let (x, w) = (ByteImages { x: &[], flip: 0, zero: 0 }, ByteFilter { packed: &[], zeros: &[] });
    let e = short.run_sums(0..1, x, w, &mut Out::new(&mut [0; 48])).unwrap_err();
    assert_eq!(e.to_string(), "input has 0 elements, the convolution needs 48");
}
