//! Products of 8-bit integers, and quantisation by a tensor's own extremes.
use crate::cube::laid;
use crate::harness::*;
use ge_kernels::conv::{ConvSpec, pack_filter, packed_filter_len};
use ge_nn::engine::Nn;
use ge_plugin_api::types::{DType, Format};

const F: DType = DType::F32;

/// Random integers over the whole range of a type.
fn whole(d: DType, dims: &[u64], seed: u64) -> T {
    let low = if d == DType::U8 { 0.0 } else { -128.0 };
    t(d, dims, noise(F, dims, seed).data.iter().map(|v| ((v + 1.0) * 127.99).floor() + low))
}

/// `sum (a - za)(b - zb[j])` in 64-bit integers; b is `[k, n]`, or `[n, k]` if it is transposed.
fn sums(a: &T, za: i64, b: &T, zb: &[i64], [m, k, n]: [usize; 3], turned: bool) -> Vec<i64> {
    let mut out = Vec::with_capacity(m * n);
    for (i, j) in (0..m * n).map(|p| (p / n, p % n)) {
        let of = |x: usize| if turned { j * k + x } else { x * n + j };
        let z = zb[if zb.len() == 1 { 0 } else { j }];
        out.push((0..k).map(|x| (a.data[i * k + x] as i64 - za) * (b.data[of(x)] as i64 - z)).sum());
    }
    out
}

/// Weights as packed by `ByteWeightsPass`: a constant with one axis and the original type.
fn one_axis(d: DType, bytes: &[i8]) -> T {
    t(d, &[bytes.len() as u64], bytes.iter().map(|v| if d == DType::U8 { f64::from(*v as u8) } else { f64::from(*v) }))
}

/// Bytes as signed values, as kernels expect the second factor.
fn signed(x: &T) -> Vec<i8> {
    let less = if x.dtype == DType::U8 { 128.0 } else { 0.0 };
    x.data.iter().map(|v| (v - less) as i8).collect()
}

/// A packed matrix; `turned`: it is given as its transpose.
fn packed(b: &T, turned: bool) -> T {
    let size = [b.dims[usize::from(turned)], b.dims[usize::from(!turned)]].map(|d| d as usize);
    one_axis(b.dtype, &ge_nn::families::qmatmul::packed(&signed(b), size, turned))
}

const KINDS: [DType; 2] = [DType::U8, DType::I8];

#[test]
fn sums_of_bytes_are_exact_in_every_pair_of_types() {
    // Edge cases of the packing: no panel, one and several panels and groups of four; more than one
    // unit of rows and of columns.
    for (at, [m, k, n]) in [[1, 1, 1], [4, 7, 16], [9, 12, 17], [3, 64, 150], [130, 5, 3]].into_iter().enumerate() {
        for (ta, tb) in KINDS.into_iter().flat_map(|a| KINDS.map(|b| (a, b))) {
            let (a, b) = (whole(ta, &[m, k], at as u64), whole(tb, &[k, n], 9 + at as u64));
            let y: &[(DType, &[u64])] = &[(DType::I32, &[m, n])];
            let size = [m, k, n].map(|v| v as usize);
            let want = sums(&a, 0, &b, &[0], size, false);
            case("MatMulInteger", &[&a, &b], y).gives(want.iter().map(|v| *v as f64), 0.0);
            let (za, zb): (i64, Vec<i64>) = (100, (0..n as i64).map(|j| j % 128 - (j % 3)).map(|z| z.max(0)).collect());
            let zeros = (t(ta, &[], [za as f64]), t(tb, &[n], zb.iter().map(|z| *z as f64)));
            let want = sums(&a, za, &b, &zb, size, false);
            case("MatMulInteger", &[&a, &b, &zeros.0, &zeros.1], y).gives(want.iter().map(|v| *v as f64), 0.0);
            let ahead = case("MatMulInteger", &[&a, &packed(&b, false), &zeros.0, &zeros.1], y);
            ahead.laid_from(1, Format::ND, &[k, n]).gives(want.iter().map(|v| *v as f64), 0.0);
        }
    }
}

#[test]
fn vectors_and_stacks_of_matrices_multiply_as_numpy_has_it() {
    let (a, b) = (whole(DType::I8, &[2, 1, 3, 5], 1), whole(DType::U8, &[4, 5, 2], 2));
    let mut want = vec![];
    for (i, j) in (0..8).map(|p| (p / 4, p % 4)) {
        let part = |t: &T, at: usize, len: usize| T { data: t.data[at * len..(at + 1) * len].to_vec(), ..t.clone() };
        want.extend(sums(&part(&a, i, 15), 0, &part(&b, j, 10), &[0], [3, 5, 2], false).iter().map(|v| *v as f64));
    }
    case("MatMulInteger", &[&a, &b], &[(DType::I32, &[2, 4, 3, 2])]).gives(want, 0.0);
    let (v, w) = (whole(DType::U8, &[5], 3), whole(DType::I8, &[5], 4));
    let want = sums(&v, 0, &w, &[0], [1, 5, 1], false)[0] as f64;
    case("MatMulInteger", &[&v, &w], &[(DType::I32, &[])]).gives([want], 0.0);
}

#[test]
fn products_of_bytes_are_scaled_with_bias_and_activation() {
    let [m, k, n] = [5, 33, 19];
    for (ta, tb, turned) in [(DType::U8, DType::I8, false), (DType::I8, DType::I8, true), (DType::U8, DType::U8, true)]
    {
        let dims = if turned { [n, k] } else { [k, n] };
        let (a, b) = (whole(ta, &[1, m, k], 1), whole(tb, &dims, 2));
        let scale: Vec<f64> = (0..n).map(|j| f64::from(1e-3f32 * (j + 1) as f32)).collect();
        let (sa, sb, za) = (t(F, &[], [0.25]), t(F, &[n], scale.clone()), t(ta, &[], [7.0]));
        let zb = t(tb, &[], [3.0]);
        let bias = noise(F, &[n], 5);
        let all = sums(&a, 7, &b, &[3], [m, k, n].map(|v| v as usize), turned);
        let real = |p: usize| all[p] as f64 * 0.25 * scale[p % n as usize] + bias.data[p % n as usize];
        let made = |y: DType| {
            let c = case("FusedQuantMatMul", &[&a, &sa, &za, &b, &sb, &zb], &[(y, &[1, m, n])]);
            c.with("transpose_x2", turned).with("activation", "relu")
        };
        let mut floats = made(F);
        floats.inputs.extend([None, None, Some(bias.clone())]);
        floats.gives((0..all.len()).map(|p| real(p).max(0.0)), 1e-6);
        let mut ahead = floats.clone().with("transpose_x2", false).laid_from(3, Format::ND, &[k, n]);
        ahead.inputs[3] = Some(packed(&b, turned));
        assert_eq!(ahead.run(&Nn::ai_core()), floats.run(&Nn::ai_core()));
        // One scale, no bias, no zero points.
        let plain = case("FusedQuantMatMul", &[&a, &sa, &b, &t(F, &[1], [0.5])], &[(F, &[1, m, n])]).absent(2);
        let plain_sums = sums(&a, 0, &b, &[0], [m, k, n].map(|v| v as usize), turned);
        plain.with("transpose_x2", turned).gives(plain_sums.iter().map(|s| *s as f64 * 0.125), 1e-6);
        for (ty, zy) in [(DType::U8, 3.0), (DType::I8, -20.0)] {
            // Chosen so that the greatest numbers saturate and the others are spread.
            let sy = f64::from(((0..all.len()).map(real).fold(0.0, f64::max) / 300.0) as f32);
            let mut bytes = made(ty);
            bytes.inputs.extend([Some(t(F, &[], [sy])), Some(t(ty, &[], [zy])), Some(bias.clone())]);
            let [low, high] = if ty == DType::U8 { [0.0, 255.0] } else { [-128.0, 127.0] };
            let want: Vec<f64> =
                (0..all.len()).map(|p| ((real(p).max(0.0) / sy).round_ties_even() + zy).clamp(low, high)).collect();
            let kinds: std::collections::BTreeSet<i64> = want.iter().map(|v| *v as i64).collect();
            assert!(want.contains(&high) && kinds.len() > 12, "{kinds:?}");
            // A quotient whose last bit decides a tie may be rounded either way.
            let got = bytes.run(&Nn::ai_core()).remove(0).data;
            let off = got.iter().zip(&want).filter(|(g, w)| g != w).count();
            assert!(off <= 1 && got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1.0), "{off} numbers are off");
        }
    }
}

/// A few rows, whose b is read as it is; many rows of few columns, which are finished together; and
/// several blocks of columns.
#[test]
fn onnx_products_of_bytes_round_once() {
    for (m, n) in [(4, 20), (300, 10), (9, 150), (300, 150)] {
        let (a, b) = (whole(DType::U8, &[m, 40], 1), whole(DType::I8, &[40, n], 2));
        let (sa, sb) = (t(F, &[], [0.02]), t(F, &[n], (0..n).map(|j| f64::from(0.01f32 + j as f32 * 1e-3))));
        let (za, zb) = (t(DType::U8, &[], [120.0]), t(DType::I8, &[n], (0..n).map(|j| (j % 100) as f64 - 9.0)));
        let (sy, zy) = (t(F, &[], [0.3]), t(DType::I8, &[], [11.0]));
        let zs: Vec<i64> = zb.data.iter().map(|z| *z as i64).collect();
        let want = sums(&a, 120, &b, &zs, [m as usize, 40, n as usize], false).into_iter().enumerate().map(|(p, s)| {
            let scale = 0.02f32 * sb.data[p % n as usize] as f32 / 0.3f32;
            ((s as f64 * f64::from(scale)).round_ties_even() + 11.0).clamp(-128.0, 127.0)
        });
        case("QLinearMatMul", &[&a, &sa, &za, &b, &sb, &zb, &sy, &zy], &[(DType::I8, &[m, n])]).gives(want, 0.0);
    }
}

#[test]
fn numbers_are_quantised_by_their_own_extremes() {
    for n in [1u64, 50, 200_000] {
        let x = t(F, &[n], noise(F, &[n], 3).data.iter().map(|v| f64::from((*v * 3.0 + 1.0) as f32)));
        let outputs: &[(DType, &[u64])] = &[(DType::U8, &[n]), (F, &[]), (DType::U8, &[])];
        let got = case("DynamicQuantizeLinear", &[&x], outputs).run(&Nn::ai_core());
        let v: Vec<f32> = x.data.iter().map(|v| *v as f32).collect();
        let (low, high) = v.iter().fold((0f32, 0f32), |(l, h), v| (l.min(*v), h.max(*v)));
        let scale = (high - low) / 255.0;
        let zero = (-low / scale).round_ties_even();
        assert_eq!((got[1].data[0], got[2].data[0]), (f64::from(scale), f64::from(zero)));
        for (g, v) in got[0].data.iter().zip(&v) {
            assert_eq!(*g, f64::from(((v / scale).round_ties_even() + zero).clamp(0.0, 255.0)));
        }
    }
    let nothing = t(F, &[3], [0.0; 3]);
    let got = case("DynamicQuantizeLinear", &[&nothing], &[(DType::U8, &[3]), (F, &[]), (DType::U8, &[])]);
    assert_eq!(
        got.run(&Nn::ai_core()).iter().flat_map(|o| o.data.clone()).collect::<Vec<_>>(),
        [0.0, 0.0, 0.0, 1.0, 0.0]
    );
}

#[test]
fn real_numbers_are_quantised_on_the_way_as_apart() {
    for turned in [false, true] {
        let x = t(F, &[3, 70, 20], noise(F, &[3, 70, 20], 3).data.iter().map(|v| f64::from((*v * 3.0 + 1.0) as f32)));
        let b = whole(DType::I8, if turned { &[140, 20] } else { &[20, 140] }, 4);
        let (sb, bias) = (t(F, &[140], (0..140).map(|j| f64::from(0.01f32 * (j + 1) as f32))), noise(F, &[140], 5));
        let outputs: &[(DType, &[u64])] = &[(DType::U8, &[3, 70, 20]), (F, &[]), (DType::U8, &[])];
        let apart = case("DynamicQuantizeLinear", &[&x], outputs).run(&Nn::ai_core());
        let product = |a: Option<&T>, scale: Option<&T>, zero: Option<&T>| {
            let mut c = case("FusedQuantMatMul", &[], &[(F, &[3, 70, 140])]).with("transpose_x2", turned);
            let of = |v: Option<&T>| v.cloned();
            c.inputs = vec![of(a), of(scale), of(zero), Some(b.clone()), Some(sb.clone()), None, None, None];
            c.inputs.push(Some(bias.clone()));
            c.run(&Nn::ai_core()).remove(0).data
        };
        let want = product(Some(&apart[0]), Some(&apart[1]), Some(&apart[2]));
        assert_eq!(product(Some(&x), None, None), want);
    }
    let x = t(F, &[2, 4], [0.0; 8]);
    let (b, one) = (whole(DType::I8, &[4, 3], 4), t(F, &[], [1.0]));
    let nothing = case("FusedQuantMatMul", &[&x, &b, &one], &[(F, &[2, 3])]).absent(1).absent(1);
    nothing.gives([0.0; 6], 0.0);
}

#[test]
fn refusals_of_products_of_bytes_have_their_reasons() {
    let ai = Nn::ai_core();
    let (a, b, s) = (whole(DType::U8, &[2, 3], 1), whole(DType::I8, &[3, 4], 2), t(F, &[], [1.0]));
    let y: &[(DType, &[u64])] = &[(F, &[2, 4])];
    let rows = t(F, &[2], [1.0, 2.0]);
    let by_row = case("FusedQuantMatMul", &[&a, &rows, &b, &s], y).absent(2);
    assert_eq!(by_row.refusal(&ai), "input 1 is [2], it takes 1 or 1 numbers");
    let zero = t(DType::I8, &[], [1.0]);
    let other = case("FusedQuantMatMul", &[&a, &s, &zero, &b, &s], y);
    assert_eq!(other.refusal(&ai), "input 2 is i8, it takes u8");
    let half = case("FusedQuantMatMul", &[&a, &s, &b, &s, &s], y).absent(2).absent(5);
    assert_eq!(half.refusal(&ai), "one of the output's scale and zero point is given");
    let (long, tall) = (whole(DType::U8, &[1, 33_026], 1), whole(DType::I8, &[33_026, 1], 2));
    let deep = case("FusedQuantMatMul", &[&long, &s, &tall, &s], &[(F, &[1, 1])]).absent(2);
    assert!(deep.refusal(&ai).starts_with("inner size 33026"));
}

/// A convolution of images by its definition: x `[1, c, h, w]`, filter `[o, c / groups, k, k]`,
/// padding of one on all sides.
fn convolved(x: &T, zx: f64, w: &T, zw: &[f64], groups: usize, stride: usize) -> Vec<f64> {
    let [c, h, wide, o, k] = [x.dims[1], x.dims[2], x.dims[3], w.dims[0], w.dims[2]].map(|v| v as usize);
    let [oh, ow] = [h, wide].map(|v| (v + 2 - k) / stride + 1);
    let deep = c / groups;
    let mut want = vec![];
    for (o, oy, ox) in (0..o * oh * ow).map(|i| (i / (oh * ow), i / ow % oh, i % ow)) {
        let first = o / (w.dims[0] as usize / groups) * deep;
        let z = zw[if zw.len() == 1 { 0 } else { o }];
        let taps = (0..deep * k * k).map(|i| (i / (k * k), i / k % k, i % k));
        let sum = taps.filter_map(|(c, ky, kx)| {
            let (y, x_at) = ((oy * stride + ky).checked_sub(1)?, (ox * stride + kx).checked_sub(1)?);
            let v = (y < h && x_at < wide).then(|| x.data[((first + c) * h + y) * wide + x_at])?;
            Some((v - zx) * (w.data[((o * deep + c) * k + ky) * k + kx] - z))
        });
        want.push(sum.sum());
    }
    want
}

#[test]
fn convolutions_of_bytes_are_exact_in_every_type_group_and_layout() {
    for (seed, (c, o, k, groups, stride)) in
        [(3u64, 5u64, 3u64, 1usize, 1usize), (40, 19, 3, 1, 2), (33, 16, 1, 1, 1), (12, 6, 3, 3, 1), (6, 6, 3, 6, 2)]
            .into_iter()
            .enumerate()
    {
        for (tx, tw) in KINDS.into_iter().flat_map(|a| KINDS.map(|b| (a, b))) {
            let x = whole(tx, &[1, c, 9, 11], seed as u64);
            let w = whole(tw, &[o, c / groups as u64, k, k], 20 + seed as u64);
            let zx = if tx == DType::U8 { 255.0 } else { -128.0 };
            let zw: Vec<f64> =
                (0..o).map(|o| if tw == DType::U8 { 128.0 + o as f64 } else { o as f64 - 3.0 }).collect();
            let (pads, strides) = (vec![1i64; 4], vec![stride as i64; 2]);
            let size = [9, 11].map(|v: u64| (v + 2 - k) / stride as u64 + 1);
            let dims = [1, o, size[0], size[1]];
            let sums = convolved(&x, zx, &w, &zw, groups, stride);
            let zeros = (t(tx, &[], [zx]), t(tw, &[o], zw.clone()));
            let integer = case("ConvInteger", &[&x, &w, &zeros.0, &zeros.1], &[(DType::I32, &dims)])
                .with("group", groups as i64)
                .with("pads", pads.clone())
                .with("strides", strides.clone());
            integer.gives(sums.iter().copied(), 0.0);
            let plain = case("ConvInteger", &[&x, &w], &[(DType::I32, &dims)])
                .with("group", groups as i64)
                .with("pads", pads.clone())
                .with("strides", strides.clone());
            plain.gives(convolved(&x, 0.0, &w, &[0.0], groups, stride), 0.0);
            let one = |v: f64| t(F, &[], [v]);
            let scale = t(F, &[o], (0..o).map(|o| f64::from(0.002f32 * (o + 1) as f32)));
            let bias = t(DType::I32, &[o], (0..o).map(|o| o as f64 * 300.0 - 1000.0));
            let (ty, zy) = (tx, if tx == DType::U8 { 3.0 } else { -100.0 });
            let inputs = [&x, &one(0.5), &zeros.0, &w, &scale, &zeros.1, &one(0.75), &t(ty, &[], [zy]), &bias];
            let mut linear = case("QLinearConv", &inputs, &[(ty, &dims)])
                .with("group", groups as i64)
                .with("pads", pads)
                .with("strides", strides);
            let [low, high] = if ty == DType::U8 { [0.0, 255.0] } else { [-128.0, 127.0] };
            let per = sums.len() / o as usize;
            let bytes: Vec<f64> = sums
                .iter()
                .enumerate()
                .map(|(i, s)| {
                    let by = 0.5f32 * scale.data[i / per] as f32 / 0.75f32;
                    (((s + bias.data[i / per]) * f64::from(by)).round_ties_even() + zy).clamp(low, high)
                })
                .collect();
            linear.gives(bytes.iter().copied(), 0.0);
            let mut spec = ConvSpec::square(1, [w.dims[1] as usize * groups, o as usize], 1, 1);
            (spec.groups, spec.kernel) = (groups, [1, w.dims[2] as usize, w.dims[3] as usize]);
            let mut filter = vec![0; packed_filter_len(&spec)];
            pack_filter(&spec, &signed(&w), &mut filter);
            let mut ahead = linear.clone().laid_from(3, Format::ND, &w.dims);
            ahead.inputs[3] = Some(one_axis(w.dtype, &filter));
            assert_eq!(ahead.run(&Nn::ai_core()).remove(0).data, bytes);
            if groups == 1 {
                linear = linear.laid_from(3, Format::FRACTAL_Z, &w.dims);
                linear.inputs[3] = Some(laid(&w, Format::FRACTAL_Z));
                assert_eq!(linear.run(&Nn::ai_core()).remove(0).data, bytes);
            }
        }
    }
}

#[test]
fn convolutions_of_bytes_over_lines_and_solids() {
    let (x, w) = (whole(DType::U8, &[2, 5, 13], 1), whole(DType::I8, &[4, 5, 3], 2));
    let mut want = vec![];
    for (n, o, p) in (0..2 * 4 * 6).map(|i| (i / 24, i / 6 % 4, i % 6)) {
        let taps = (0..15).map(|i| (i / 3, i % 3));
        want.push(taps.map(|(c, t)| x.data[(n * 5 + c) * 13 + p * 2 + t] * w.data[(o * 5 + c) * 3 + t]).sum::<f64>());
    }
    case("ConvInteger", &[&x, &w], &[(DType::I32, &[2, 4, 6])]).with("strides", vec![2i64]).gives(want, 0.0);
    let (x, w) = (whole(DType::I8, &[1, 2, 3, 4, 5], 1), whole(DType::U8, &[3, 2, 2, 2, 1], 2));
    let mut want = vec![];
    for (o, p) in (0..3 * 2 * 3 * 5).map(|i| (i / 30, [i / 15 % 2, i / 5 % 3, i % 5])) {
        let taps = (0..8).map(|i| (i / 4, i / 2 % 2, i % 2));
        let at = |c: usize, z: usize, y: usize| ((c * 3 + p[0] + z) * 4 + p[1] + y) * 5 + p[2];
        want.push(taps.map(|(c, z, y)| x.data[at(c, z, y)] * w.data[((o * 2 + c) * 2 + z) * 2 + y]).sum::<f64>());
    }
    case("ConvInteger", &[&x, &w], &[(DType::I32, &[1, 3, 2, 3, 5])]).gives(want, 0.0);
    let wrong = case("ConvInteger", &[&x, &w], &[(DType::I32, &[1, 3, 2, 3, 4])]);
    assert_eq!(wrong.refusal(&Nn::ai_core()), "output 0 is [1, 3, 2, 3, 4], the window gives another size");
}
