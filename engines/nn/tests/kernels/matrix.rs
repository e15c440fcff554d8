//! Products, convolutions, pooling.
use crate::harness::*;
use ge_kernels::conv::{
    Conv, ConvSpec, FilterForms, FilterPlan, change_filters, filter_by_phase_panels, filter_by_phases, pack_row_filter,
    pack_tap_filter,
};
use ge_kernels::simd::{Level, with_level};
use ge_nn::engine::Nn;
use ge_plugin_api::types::{DType, Format};
use std::collections::BTreeSet;

const F: DType = DType::F32;

fn product(a: &T, b: &T, [m, n, k]: [usize; 3], at: impl Fn(usize, usize, usize) -> (usize, usize)) -> Vec<f64> {
    (0..m * n)
        .map(|i| {
            (0..k)
                .map(|x| {
                    let (p, q) = at(i / n, i % n, x);
                    a.data[p] * b.data[q]
                })
                .sum()
        })
        .collect()
}

#[test]
fn products_in_every_type_and_turn() {
    for (dtype, tol) in [(F, 1e-5), (DType::F16, 4e-3), (DType::BF16, 3e-2)] {
        for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
            let (m, n, k) = (13, 37, 29);
            let a = noise(dtype, if ta { &[29, 13] } else { &[13, 29] }, 1);
            let b = noise(dtype, if tb { &[37, 29] } else { &[29, 37] }, 2);
            let c = noise(dtype, &[37], 3);
            let want = product(&a, &b, [m, n, k], |i, j, x| {
                (if ta { x * m + i } else { i * k + x }, if tb { j * k + x } else { x * n + j })
            });
            let with_bias = want.iter().enumerate().map(|(i, v)| v + c.data[i % n]);
            case("MatMulV2", &[&a, &b, &c], &[(dtype, &[13, 37])])
                .with("transpose_x1", ta)
                .with("transpose_x2", tb)
                .gives(with_bias, tol);
        }
    }
}

/// Weights as packed by `MatMulPanelsPass` give the same numbers as the plain product, for sizes
/// near those of tiles and panels, with each instruction set.
#[test]
fn weights_in_panels_give_the_plain_product() {
    for [lead, m, n, k] in
        [[1, 1, 16, 1], [1, 1, 47, 33], [1, 4, 32, 300], [3, 5, 33, 64], [1, 25, 127, 9], [1, 64, 96, 257]]
    {
        for turn in [false, true] {
            let x = noise(F, &if turn { [lead, k, m] } else { [lead, m, k] }, 1);
            let (w, b, r) = (noise(F, &[k, n], 2), noise(F, &[n], 3), noise(F, &[lead, m, n], 4));
            let mut panels = noise(F, &[n.div_ceil(16), k, 16], 0);
            panels.data.fill(0.0);
            for (i, v) in w.data.iter().enumerate() {
                let (x, j) = (i as u64 / n, i as u64 % n);
                panels.data[((j / 16 * k + x) * 16 + j % 16) as usize] = *v;
            }
            let plain = case("FusedMatMul", &[&x, &w, &b, &r], &[(F, &[lead, m, n])])
                .with("transpose_x1", turn)
                .with("activation", "relu");
            let mut packed = plain.clone().laid_from(1, Format::ND, &[k, n]);
            packed.inputs[1] = Some(panels);
            packed.gives(plain.launch(&Nn::ai_core(), 0).unwrap().remove(0).data, 1e-5);
            let best = packed.launch(&Nn::ai_core(), 0).unwrap().remove(0);
            for level in Level::available() {
                let got = with_level(level, || packed.launch(&Nn::ai_core(), 0)).unwrap().remove(0);
                assert_eq!(got, best, "{level:?}");
            }
        }
    }
    let (x, w) = (noise(F, &[2, 3], 1), noise(F, &[2, 3, 16], 2));
    let short = case("MatMulV2", &[&x, &w], &[(F, &[2, 33])]).laid_from(1, Format::ND, &[3, 33]);
    assert_eq!(
        short.refusal(&Nn::ai_core()),
        "input 1 is [2, 3, 16] of [3, 33]; it takes panels [ceil(N / 16), K, 16] of f32"
    );
}

#[test]
fn batches_broadcast_and_vectors_vanish() {
    let (a, b) = (noise(F, &[2, 1, 5, 7], 1), noise(F, &[3, 7, 4], 2));
    let mut want = vec![];
    for i in 0..2 {
        for j in 0..3 {
            want.extend(product(&a, &b, [5, 4, 7], |r, c, x| (i * 35 + r * 7 + x, j * 28 + x * 4 + c)));
        }
    }
    case("BatchMatMulV2", &[&a, &b], &[(F, &[2, 3, 5, 4])]).gives(want, 1e-5);
    let (v, w) = (noise(F, &[7], 3), noise(F, &[6, 5, 7], 4));
    let right = product(&w, &v, [30, 1, 7], |i, _, x| (i * 7 + x, x));
    case("BatchMatMulV2", &[&w, &v], &[(F, &[6, 5])]).gives(right, 1e-5);
    case("BatchMatMulV2", &[&w, &v], &[(F, &[6, 5])])
        .gives(product(&w, &v, [30, 1, 7], |i, _, x| (i * 7 + x, x)), 1e-5);
    let left = product(&v, &b, [1, 4, 7], |_, j, x| (x, x * 4 + j));
    let b0 = t(F, &[7, 4], b.data[..28].iter().copied());
    case("BatchMatMulV2", &[&v, &b0], &[(F, &[4])]).gives(left, 1e-5);
}

/// Equations that are one product of tensors as they lie, with groups of several letters, of one
/// and of none, against sums over the letters; and those that are not.
#[test]
fn equations_are_products_where_nothing_moves() {
    let sizes = |l: char| match l {
        'b' => 2,
        'c' => 3,
        'h' => 1,
        _ => u64::from(l as u32 % 7 + 2),
    };
    let dims = |term: &str| term.chars().map(sizes).collect::<Vec<u64>>();
    let given = |equation: &'static str| {
        let (left, y) = equation.split_once("->").unwrap();
        let (a, b) = left.split_once(',').unwrap();
        ([a, b, y], noise(F, &dims(a), 1), noise(F, &dims(b), 2))
    };
    let equation = |equation: &'static str| {
        let ([.., y], a, b) = given(equation);
        case("Einsum", &[&a, &b], &[(F, &dims(y))]).with("equation", equation)
    };
    let products = [
        "bij,bjk->bik",
        "ij,jk->ik",
        "bid,bjd->bij",
        "bdi,bdj->bij",
        "bcij,bcjk->bcik",
        "bihd,hdk->bik",
        "hj,hjk->hk",
        "bihd,bhdk->bik",
        "ij,j->i",
        "j,jk->k",
        "j,j->",
        "bij,jk->bik",
        "bcdi,bckd->bcik",
        "bj,bj->b",
    ];
    for e in products {
        let ([a, b, y], x1, x2) = given(e);
        let all: Vec<char> = format!("{y}{a}{b}").chars().collect::<BTreeSet<char>>().into_iter().collect();
        let place = |term: &str, at: &[u64]| {
            term.chars().fold(0, |p, l| p * sizes(l) + at[all.iter().position(|a| *a == l).unwrap()]) as usize
        };
        let mut want = vec![0.0; dims(y).iter().product::<u64>() as usize];
        for mut k in 0..all.iter().map(|l| sizes(*l)).product::<u64>() {
            let mut at = vec![0; all.len()];
            for (p, l) in all.iter().enumerate() {
                (at[p], k) = (k % sizes(*l), k / sizes(*l));
            }
            want[place(y, &at)] += x1.data[place(a, &at)] * x2.data[place(b, &at)];
        }
        equation(e).gives(want, 1e-5);
    }
    // Elements would have to move, nothing is summed, or a letter is in one tensor alone.
    for e in ["bij,bjk->bki", "ibj,bjk->bik", "i,j->ij", "ij,jk->i", "bij,cjk->bcik"] {
        let why = equation(e).refusal(&Nn::ai_core());
        assert_eq!(why, format!("`{e}` is not one product of two tensors as they lie"));
    }
    // Sizes of 1 that are repeated, letters that occur twice, and tensors without elements.
    let none = |a: &[u64], b: &[u64], y: &[u64], e: &'static str| {
        let (a, b) = (noise(F, a, 1), noise(F, b, 2));
        case("Einsum", &[&a, &b], &[(F, y)]).with("equation", e).refusal(&Nn::ai_core())
    };
    assert!(none(&[1, 5, 7], &[2, 7, 6], &[2, 5, 6], "bij,bjk->bik").contains("not one product"));
    assert!(none(&[5, 1], &[7, 6], &[5, 6], "ij,jk->ik").contains("not one product"));
    assert_eq!(none(&[5, 5], &[5, 6], &[5, 6], "ii,ik->ik"), "term `ii` of a tensor with 2 axes");
    assert!(none(&[5, 0], &[0, 6], &[5, 6], "ij,jk->ik").contains("without elements"));
}

/// A 3x3 convolution with padding, bias, residual and activation; the array holds images, input
/// channels, output channels and size. Returns the case, its filter and its sizes.
fn bordered([n, c, o, size]: [u64; 4], groups: u64) -> (Case, T, ConvSpec) {
    let (x, w) = (noise(F, &[n, c, size, size], 1), noise(F, &[o, c / groups, 3, 3], 2));
    let (b, r) = (noise(F, &[o], 3), noise(F, &[n, o, size, size], 4));
    let given = case("FusedConv", &[&x, &w, &b, &r], &[(F, &[n, o, size, size])])
        .with("pads", vec![1i64; 4])
        .with("groups", groups as i64)
        .with("activation", "relu");
    let spec = ConvSpec {
        groups: groups as usize,
        pad_before: [0, 1, 1],
        pad_after: [0, 1, 1],
        ..ConvSpec::square(n as usize, [c as usize, o as usize], size as usize, 3)
    };
    (given, w, spec)
}

/// Filters as transformed by `ConvFiltersPass` give the numbers of the original filters, with the
/// same bits for each instruction set.
#[test]
fn filters_changed_ahead_give_the_numbers_of_the_filters() {
    for ([n, c, o, size], groups) in [([1, 32, 48, 12], 1), ([2, 16, 20, 21], 1), ([1, 32, 34, 16], 2)] {
        let (given, w, spec) = bordered([n, c, o, size], groups);
        let plain: Vec<f32> = w.data.iter().map(|v| *v as f32).collect();
        let all = plain.iter().copied().chain(change_filters(&spec, &plain).unwrap()).map(f64::from);
        let all: Vec<f64> = all.collect();
        let mut ahead = given.clone().laid_from(1, Format::NCHW, &w.dims);
        ahead.inputs[1] = Some(t(F, &[all.len() as u64], all));
        ahead.gives(given.launch(&Nn::ai_core(), 0).unwrap().remove(0).data, 1e-4);
        let best = ahead.launch(&Nn::ai_core(), 0).unwrap().remove(0);
        for level in Level::available() {
            let got = with_level(level, || ahead.launch(&Nn::ai_core(), 0)).unwrap().remove(0);
            assert_eq!(got, best, "{level:?} {spec:?}");
        }
    }
    let (x, w) = (noise(F, &[1, 2, 8, 8], 1), noise(F, &[40], 2));
    let short = case("Conv2D", &[&x, &w], &[(F, &[1, 2, 6, 6])]).laid_from(1, Format::NCHW, &[2, 2, 3, 3]);
    assert_eq!(short.refusal(&Nn::ai_core()), "the filter has 40 numbers, changed it takes 1188");
}

/// Filters of transposed convolutions as laid out by `ConvFiltersPass`, by phases and, for few
/// positions, by phases in panels, give the bits of the original filters.
#[test]
fn filters_by_phases_give_the_bits_of_the_filters() {
    let mut in_panels = 0;
    for (c, o, size, kernel, stride, groups) in [
        (8, 6, 7, 4, 2, 1),
        (12, 4, 5, 3, 1, 1),
        (8, 12, 4, 3, 3, 2),
        (4, 5, 6, 2, 4, 1),
        (64, 40, 4, 4, 2, 1),
        (32, 64, 3, 2, 2, 2),
        (48, 32, 1, 4, 1, 1),
    ] {
        let full = (size - 1) * stride + kernel - 2;
        let (x, w) = (noise(F, &[2, c, size, size], 1), noise(F, &[c, o / groups, kernel, kernel], 2));
        let b = noise(F, &[o], 3);
        let given = case("Conv2DTransposeD", &[&x, &w, &b], &[(F, &[2, o, full, full])])
            .with("pads", vec![1i64; 4])
            .with("strides", vec![1, 1, stride as i64, stride as i64])
            .with("groups", groups as i64);
        let spec = ConvSpec {
            groups: groups as usize,
            stride: [1, stride as usize, stride as usize],
            pad_before: [0, 1, 1],
            pad_after: [0, 1, 1],
            transposed: Some([0; 3]),
            ..ConvSpec::square(2, [c as usize, o as usize], size as usize, kernel as usize)
        };
        let plain: Vec<f32> = w.data.iter().map(|v| *v as f32).collect();
        let want = given.clone().launch(&Nn::ai_core(), 0).unwrap().remove(0);
        let laid = |filter: Vec<f32>, lead: &[u64]| {
            let mut ahead = given.clone().laid_from(1, Format::NCHW, &w.dims);
            let dims: Vec<u64> = lead.iter().copied().chain([filter.len() as u64]).collect();
            ahead.inputs[1] = Some(t(F, &dims, filter.into_iter().map(f64::from)));
            ahead.launch(&Nn::ai_core(), 0).unwrap().remove(0)
        };
        assert_eq!(laid(filter_by_phases(&spec, &plain).unwrap(), &[]), want, "{spec:?}");
        if Conv::new(&spec).unwrap().with_filter_by_phase_panels().is_some() {
            in_panels += 1;
            assert_eq!(laid(filter_by_phase_panels(&spec, &plain).unwrap(), &[1]), want, "{spec:?} in panels");
        }
    }
    assert!(in_panels > 1);
}

/// Filters packed for few positions by `ConvFiltersPass`, or appended to the original filters by
/// `OpenWeightsPass`, give the bits of the original filters, also with fused steps.
#[test]
fn filters_packed_for_few_places_give_the_bits_of_the_filters() {
    let sizes = [([1, 32, 48, 3], 1), ([5, 7, 20, 4], 1), ([2, 32, 32, 6], 2), ([1, 16, 20, 21], 1)];
    for ([n, c, o, size], groups) in sizes {
        let (given, w, spec) = bordered([n, c, o, size], groups);
        let plain: Vec<f32> = w.data.iter().map(|v| *v as f32).collect();
        let packed: Vec<f64> = pack_row_filter(&spec, &plain).unwrap().into_iter().map(f64::from).collect();
        let both: Vec<f64> = w.data.iter().chain(&packed).copied().collect();
        let (few, any) = (vec![o.div_ceil(16), c / groups * 9, 16], vec![1, both.len() as u64]);
        let laid = |given: Case, dims: &[u64], filter: &[f64]| {
            let mut laid = given.laid_from(1, Format::NCHW, &w.dims);
            laid.inputs[1] = Some(t(F, dims, filter.to_vec()));
            laid
        };
        let followed = |c: Case| c.with("steps", vec!["Sin %0".to_owned(), "Exp %1".to_owned()]);
        for given in [given.clone(), followed(given)] {
            let want = given.launch(&Nn::ai_core(), 0).unwrap().remove(0);
            let any = laid(given.clone(), &any, &both);
            assert_eq!(any.launch(&Nn::ai_core(), 0).unwrap().remove(0), want, "{spec:?}");
            if size < 20 {
                let few = laid(given, &few, &packed);
                assert_eq!(few.launch(&Nn::ai_core(), 0).unwrap().remove(0), want, "{spec:?}");
            }
        }
    }
    let (x, w) = (noise(F, &[1, 2, 8, 8], 1), noise(F, &[1, 17, 16], 2));
    let short = case("Conv2D", &[&x, &w], &[(F, &[1, 2, 6, 6])]).laid_from(1, Format::NCHW, &[2, 2, 3, 3]);
    assert_eq!(
        short.refusal(&Nn::ai_core()),
        "the packed filter is [1, 17, 16], it takes [1, 18, 16] behind 0 numbers"
    );
    let (x, w) = (noise(F, &[1, 32, 3, 3], 1), noise(F, &[1, 9000], 2));
    let short = case("Conv2D", &[&x, &w], &[(F, &[1, 32, 1, 1])]).laid_from(1, Format::NCHW, &[32, 32, 3, 3]);
    assert_eq!(short.refusal(&Nn::ai_core()), "the filter has 9000 numbers, which is none of its forms");
}

/// Filters in half precision, laid out by phases or packed for few positions, give the bits of the
/// original filters; a transformed one does not exist.
#[test]
fn filters_of_halves_laid_out_give_the_bits_of_the_filters() {
    for dtype in [DType::F16, DType::BF16] {
        let singles = |v: &T| v.data.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        let laid = |given: &Case, w: &T, dims: &[u64], filter: Vec<f32>| {
            let mut laid = given.clone().laid_from(1, Format::NCHW, &w.dims);
            laid.inputs[1] = Some(t(dtype, dims, filter.into_iter().map(f64::from)));
            laid
        };
        let first = |c: &Case| c.launch(&Nn::ai_core(), 0).unwrap().remove(0);
        let (x, w) = (noise(dtype, &[3, 64, 4, 4], 1), noise(dtype, &[64, 40, 4, 4], 2));
        let given = case("Conv2DTransposeD", &[&x, &w], &[(dtype, &[3, 40, 8, 8])])
            .with("pads", vec![1i64; 4])
            .with("strides", vec![1i64, 1, 2, 2]);
        let spec = ConvSpec {
            stride: [1, 2, 2],
            pad_before: [0, 1, 1],
            pad_after: [0, 1, 1],
            transposed: Some([0; 3]),
            ..ConvSpec::square(3, [64, 40], 4, 4)
        };
        let by_phases = filter_by_phases(&spec, &singles(&w)).unwrap();
        let panels = filter_by_phase_panels(&spec, &singles(&w)).unwrap();
        let want = first(&given);
        assert_eq!(first(&laid(&given, &w, &[by_phases.len() as u64], by_phases.clone())), want, "{dtype}");
        assert_eq!(first(&laid(&given, &w, &[1, panels.len() as u64], panels)), want, "{dtype}");
        let short = laid(&given, &w, &[99], by_phases[..99].to_vec());
        assert_eq!(short.refusal(&Nn::ai_core()), "the filter has 99 numbers, in its form it takes 40960");

        let (x, w) = (noise(dtype, &[5, 7, 4, 4], 3), noise(dtype, &[20, 7, 3, 3], 4));
        let given = case("Conv2D", &[&x, &w], &[(dtype, &[5, 20, 2, 2])]);
        let packed = pack_row_filter(&ConvSpec::square(5, [7, 20], 4, 3), &singles(&w)).unwrap();
        let both = [singles(&w), packed.clone()].concat();
        let want = first(&given);
        assert_eq!(first(&laid(&given, &w, &[2, 63, 16], packed)), want, "{dtype}");
        assert_eq!(first(&laid(&given, &w, &[1, both.len() as u64], both.clone())), want, "{dtype}");
        let changed = laid(&given, &w, &[both.len() as u64], both);
        assert_eq!(changed.refusal(&Nn::ai_core()), format!("a transformed filter is f32, not {dtype}"));
    }
}

/// A filter laid out by taps gives the numbers of the filter, also with steps behind it; its length
/// tells it from other forms.
#[test]
fn filters_laid_out_by_taps_give_the_numbers_of_the_filters() {
    let (x, w, bias) = (noise(F, &[2, 32, 9, 9], 1), noise(F, &[48, 32, 3, 3], 2), noise(F, &[48], 3));
    let given = case("Conv2D", &[&x, &w, &bias], &[(F, &[2, 48, 9, 9])])
        .with("pads", vec![6i64; 4])
        .with("dilations", vec![1i64, 1, 6, 6]);
    let spec = ConvSpec {
        dilation: [1, 6, 6],
        pad_before: [0, 6, 6],
        pad_after: [0, 6, 6],
        ..ConvSpec::square(2, [32, 48], 9, 3)
    };
    let plain: Vec<f32> = w.data.iter().map(|v| *v as f32).collect();
    let packed = pack_tap_filter(&spec, &plain).unwrap();
    for given in [given.clone(), given.with("steps", vec!["Sin %0".to_owned(), "Exp %1".to_owned()])] {
        let want = given.launch(&Nn::ai_core(), 0).unwrap().remove(0);
        let mut laid = given.laid_from(1, Format::NCHW, &w.dims);
        laid.inputs[1] = Some(t(F, &[packed.len() as u64], packed.iter().map(|v| f64::from(*v))));
        let got = laid.launch(&Nn::ai_core(), 0).unwrap().remove(0);
        for (got, want) in got.data.iter().zip(&want.data) {
            assert!((got - want).abs() <= 1e-4 * want.abs().max(1.0), "{got} for {want}");
        }
        laid.inputs[1] = Some(t(F, &[packed.len() as u64 - 1], packed[1..].iter().map(|v| f64::from(*v))));
        assert_eq!(laid.refusal(&Nn::ai_core()), "its filter comes changed");
    }
}

/// Filters for images of any size, in all their forms, give the bits of the one form that the sizes
/// use.
#[test]
fn filters_in_several_forms_give_the_bits_of_the_form_that_is_taken() {
    for ([n, c, o, size], groups) in
        [([1, 32, 48, 4], 1), ([1, 64, 64, 32], 1), ([2, 32, 64, 24], 2), ([3, 8, 12, 40], 1)]
    {
        let (given, w, spec) = bordered([n, c, o, size], groups);
        let plain: Vec<f32> = w.data.iter().map(|v| *v as f32).collect();
        let with = |dims: &[u64], filter: Vec<f32>| {
            let mut laid = given.clone().laid_from(1, Format::NCHW, &w.dims);
            laid.inputs[1] = Some(t(F, dims, filter.into_iter().map(f64::from)));
            laid.launch(&Nn::ai_core(), 0).unwrap().remove(0)
        };
        let alone = match FilterPlan::cheapest(&spec, FilterForms::ALL).unwrap() {
            FilterPlan::Given(_) => given.launch(&Nn::ai_core(), 0).unwrap().remove(0),
            FilterPlan::Changed(_) => {
                let all = [&plain[..], &change_filters(&spec, &plain).unwrap()].concat();
                with(&[all.len() as u64], all)
            }
            FilterPlan::Taps(_) => unreachable!("no filter of these forms is laid out by taps"),
            FilterPlan::Rows(_) => {
                let packed = pack_row_filter(&spec, &plain).unwrap();
                with(&[groups * (o / groups).div_ceil(16), c / groups * 9, 16], packed)
            }
        };
        let all = FilterForms::ALL.lay_out(&spec, &plain).unwrap();
        assert_eq!(with(&[1, all.len() as u64], all), alone, "{spec:?}");
    }
}

/// A convolution by its definition, element by element; attributes as in the case.
#[allow(clippy::too_many_arguments)]
fn convolved(
    x: &T,
    w: &T,
    bias: Option<&T>,
    out: [usize; 4],
    s: [usize; 2],
    p: [usize; 2],
    d: [usize; 2],
    groups: usize,
) -> Vec<f64> {
    let [n, o, oh, ow] = out;
    let (c, h, wd) = (x.dims[1] as usize, x.dims[2] as usize, x.dims[3] as usize);
    let (cg, kh, kw) = (w.dims[1] as usize, w.dims[2] as usize, w.dims[3] as usize);
    let mut y = vec![];
    for i in 0..n * o * oh * ow {
        let (b, f, yy, xx) = (i / (o * oh * ow), i / (oh * ow) % o, i / ow % oh, i % ow);
        let mut sum = bias.map_or(0.0, |b| b.data[f]);
        for ch in 0..cg {
            for ky in 0..kh {
                for kx in 0..kw {
                    let (py, px) = (
                        (yy * s[0] + ky * d[0]) as isize - p[0] as isize,
                        (xx * s[1] + kx * d[1]) as isize - p[1] as isize,
                    );
                    if py >= 0 && px >= 0 && (py as usize) < h && (px as usize) < wd {
                        let channel = f / (o / groups) * cg + ch;
                        sum += x.data[((b * c + channel) * h + py as usize) * wd + px as usize]
                            * w.data[((f * cg + ch) * kh + ky) * kw + kx];
                    }
                }
            }
        }
        y.push(sum);
    }
    y
}

#[test]
fn convolutions_with_groups_strides_pads_and_types() {
    let bias = noise(F, &[6], 9);
    let (x, w) = (noise(F, &[2, 4, 9, 11], 1), noise(F, &[6, 2, 3, 2], 2));
    let want = convolved(&x, &w, Some(&bias), [2, 6, 5, 12], [2, 1], [1, 2], [1, 3], 2);
    case("Conv2D", &[&x, &w, &bias], &[(F, &[2, 6, 5, 12])])
        .with("strides", vec![1i64, 1, 2, 1])
        .with("dilations", vec![1i64, 1, 1, 3])
        .with("pads", vec![1i64, 1, 2, 2])
        .with("groups", 2i64)
        .gives(want, 1e-5);
    let (x, w) = (noise(DType::F16, &[1, 3, 8, 8], 3), noise(DType::F16, &[3, 1, 3, 3], 4));
    let want = convolved(&x, &w, None, [1, 3, 4, 4], [2, 2], [0, 0], [1, 1], 3);
    case("DepthwiseConv2D", &[&x, &w], &[(DType::F16, &[1, 3, 4, 4])])
        .with("strides", vec![1i64, 1, 2, 2])
        .with("auto_pad", "SAME_UPPER")
        .gives(want, 4e-3);
    let (x, w) = (noise(F, &[1, 40, 1, 30], 5), noise(F, &[8, 40, 1, 3], 6));
    let want = convolved(&x, &w, None, [1, 8, 1, 28], [1, 1], [0, 0], [1, 1], 1);
    case("Conv2D", &[&x, &w], &[(F, &[1, 8, 1, 28])]).gives(want, 1e-5);
}

#[test]
fn a_transposed_convolution_scatters() {
    let (x, w) = (noise(F, &[1, 3, 4, 5], 1), noise(F, &[3, 2, 3, 3], 2));
    let (oh, ow) = (8, 10);
    let mut want = vec![0.0; 2 * oh * ow];
    for c in 0..3 {
        for f in 0..2 {
            for i in 0..20 {
                for k in 0..9 {
                    let (y, xx) = ((i / 5 * 2 + k / 3) as isize - 1, (i % 5 * 2 + k % 3) as isize - 1);
                    if y >= 0 && xx >= 0 && (y as usize) < oh && (xx as usize) < ow {
                        want[(f * oh + y as usize) * ow + xx as usize] +=
                            x.data[c * 20 + i] * w.data[(c * 2 + f) * 9 + k];
                    }
                }
            }
        }
    }
    let c = case("Conv2DTransposeD", &[&x, &w], &[(F, &[1, 2, 8, 10])])
        .with("strides", vec![1i64, 1, 2, 2])
        .with("pads", vec![1i64, 1, 1, 1])
        .with("output_padding", vec![0i64, 0, 1, 1]);
    c.gives(want, 1e-5);
}

#[test]
fn pooling_by_windows_and_whole() {
    let x = t(F, &[1, 2, 3, 4], (0..24).map(f64::from));
    let c = |op| {
        case(op, &[&x], &[(F, &[1, 2, 2, 2])]).with("ksize", vec![1i64, 1, 2, 2]).with("strides", vec![1i64, 1, 2, 2])
    };
    c("MaxPoolV3").with("ceil_mode", true).gives([5., 7., 9., 11., 17., 19., 21., 23.], 0.0);
    c("AvgPoolV2").with("ceil_mode", true).gives([2.5, 4.5, 8.5, 10.5, 14.5, 16.5, 20.5, 22.5], 1e-6);
    let padded = case("AvgPoolV2", &[&x], &[(F, &[1, 2, 4, 5])])
        .with("ksize", vec![1i64, 1, 2, 2])
        .with("pads", vec![1i64, 1, 1, 1])
        .with("exclusive", false);
    assert_eq!(padded.run(&ge_nn::engine::Nn::ai_core())[0].data[..5], [0.0, 0.25, 0.75, 1.25, 0.75]);
    case("GlobalAveragePool", &[&x], &[(F, &[1, 2, 1, 1])]).gives([5.5, 17.5], 1e-6);
    case("GlobalMaxPool", &[&x], &[(F, &[1, 2, 1, 1])]).gives([11., 23.], 0.0);
}

#[test]
fn products_with_weights_in_panels_give_the_same_bits() {
    for dtype in [DType::F16, DType::BF16] {
        for [m, k, n] in [[1u64, 5, 3], [17, 40, 24], [5, 16, 16], [200, 70, 33], [3, 300, 20]] {
            let (x, w, b) = (noise(dtype, &[m, k], 1), noise(dtype, &[k, n], 2), noise(dtype, &[n], 3));
            let plain = case("MatMulV2", &[&x, &w, &b], &[(dtype, &[m, n])]).run(&Nn::ai_core());
            // Element (k, n) at (n / 16, k / 16, k % 16, n % 16).
            let (k1, n1) = (k.div_ceil(16), n.div_ceil(16));
            let place = |i: u64| (i / 16 % (k1 * 16), i / 256 / k1 * 16 + i % 16);
            let value = |(r, c): (u64, u64)| if r < k && c < n { w.data[(r * n + c) as usize] } else { 0.0 };
            let panels = t(dtype, &[n1, k1, 16, 16], (0..n1 * k1 * 256).map(|i| value(place(i))));
            let laid = case("MatMulV2", &[&x, &panels, &b], &[(dtype, &[m, n])]).laid(1, Format::FRACTAL_NZ);
            assert_eq!(laid.run(&Nn::ai_core())[0], plain[0], "{dtype} {m} {k} {n}");
        }
    }
    let (x, w) = (noise(DType::F16, &[4, 20], 1), noise(DType::F16, &[1, 1, 16, 16], 2));
    let bad = case("MatMulV2", &[&x, &w], &[(DType::F16, &[4, 9])]).laid(1, Format::FRACTAL_NZ);
    let why = "input 1 is FRACTAL_NZ [1, 1, 16, 16]; of f16 it takes [1, 2, 16, 16], not turned";
    assert_eq!(bad.refusal(&Nn::ai_core()), why);
    let x = noise(DType::F16, &[1, 1, 4, 4, 16], 1);
    let w = noise(DType::F16, &[3, 1, 1, 1, 1], 2);
    let five = case("Conv3D", &[&x, &w], &[(DType::F16, &[1, 3, 4, 4, 16])]).laid(0, Format::NC1HWC0);
    assert_eq!(five.refusal(&Nn::ai_core()), "output 0 is in ND, input 0 in NC1HWC0");
}

#[test]
fn weights_of_bytes_by_column() {
    for (m, n, k) in [(1u64, 1u64, 1u64), (16, 40, 33), (19, 16, 8), (3, 5, 0)] {
        let x = noise(DType::F32, &[1, m, k], 1);
        let panels = n.div_ceil(16);
        let bytes: Vec<f64> = (0..panels * k * 16).map(|i| (i * 37 % 255) as f64 - 127.0).collect();
        let w = t(DType::I8, &[panels, k, 16], bytes.clone());
        let (scale, bias) = (noise(DType::F32, &[n], 3), noise(DType::F32, &[n], 4));
        let x3 = noise(DType::F32, &[1, m, n], 5);
        let want: Vec<f64> = (0..m * n)
            .map(|at| {
                let (i, j) = (at / n, at % n);
                let weight = |l: u64| bytes[((j / 16 * k + l) * 16 + j % 16) as usize];
                let sum: f64 = (0..k).map(|l| x.data[(i * k + l) as usize] * weight(l)).sum();
                let v = sum * scale.data[j as usize] + bias.data[j as usize] + x3.data[at as usize];
                v.max(0.0)
            })
            .collect();
        let product = case("FusedWeightMatMul", &[&x, &w, &scale, &bias, &x3], &[(DType::F32, &[1, m, n])]);
        product.with("activation", "relu").feed(0).gives(want, 1e-4);
    }
    let (x, w) = (noise(DType::F32, &[2, 4], 1), t(DType::I8, &[1, 4, 16], [1.0; 64]));
    let far = case("FusedWeightMatMul", &[&x, &w, &noise(DType::F32, &[17], 2)], &[(DType::F32, &[2, 17])]);
    assert_eq!(far.refusal(&Nn::ai_core()), "input 1 is [1, 4, 16], it takes [2, 4, 16]");
}

#[test]
fn weights_of_four_bits_by_groups() {
    for (m, n, k, group, kind) in [
        (1u64, 40u64, 64u64, 32u64, DType::F32),
        (3, 17, 33, 16, DType::F32),
        (19, 16, 48, 0, DType::F32),
        (5, 20, 32, 8, DType::F16),
    ] {
        let x = noise(kind, &[m, k], 1);
        let (panels, lines) = (n.div_ceil(16), k.div_ceil(2));
        let bytes: Vec<f64> = (0..panels * lines * 16).map(|i| (i * 37 % 256) as f64).collect();
        let w = t(DType::U8, &[panels, lines, 16], bytes.clone());
        let groups = if group == 0 { 1 } else { k.div_ceil(group) };
        let dims: &[u64] = if group == 0 { &[n] } else { &[groups, n] };
        let scale = noise(DType::F32, dims, 3);
        let offset = t(DType::F32, dims, (0..groups * n).map(|i| (i % 5) as f64 - 2.0).collect::<Vec<_>>());
        let want = (0..m * n).map(|at| {
            let (i, j) = (at / n, at % n);
            let weight = |l: u64| {
                let byte = bytes[((j / 16 * lines + l / 2) * 16 + j % 16) as usize] as u64;
                let s = (l.checked_div(group).unwrap_or(0) * n + j) as usize;
                (((byte >> (l % 2 * 4)) & 15) as f64 - 8.0 - offset.data[s]) * scale.data[s]
            };
            (0..k).map(|l| x.data[(i * k + l) as usize] * weight(l)).sum()
        });
        let want: Vec<f64> = want.collect();
        let mut product = case("FusedWeightMatMul", &[&x, &w, &scale], &[(kind, &[m, n])]);
        product.inputs.extend([None, None, Some(offset.clone())]);
        let tolerance = if kind == DType::F16 { 2e-2 } else { 1e-4 };
        product.with("group_size", group as i64).feed(0).gives(want, tolerance);
    }
    let (x, w) = (noise(DType::F32, &[2, 9], 1), t(DType::U8, &[1, 5, 16], [1.0; 80]));
    let far = case("FusedWeightMatMul", &[&x, &w, &noise(DType::F32, &[3, 4], 2)], &[(DType::F32, &[2, 4])]);
    let why = far.with("group_size", 3i64).refusal(&Nn::ai_core());
    assert_eq!(why, "groups of 3 rows of four bits begin within a byte");
}
