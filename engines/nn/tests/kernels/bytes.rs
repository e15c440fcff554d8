//! Products of bytes, and quantisation by the numbers' own extremes.
use crate::harness::*;
use ge_nn::engine::Nn;
use ge_plugin_api::types::DType;

const F: DType = DType::F32;

/// Whole numbers over the whole range of a type.
fn whole(d: DType, dims: &[u64], seed: u64) -> T {
    let low = if d == DType::U8 { 0.0 } else { -128.0 };
    t(d, dims, noise(F, dims, seed).data.iter().map(|v| ((v + 1.0) * 127.99).floor() + low))
}

/// `sum (a - za)(b - zb[j])` in 64-bit integers; b is `[k, n]`, or `[n, k]` where it is turned.
fn sums(a: &T, za: i64, b: &T, zb: &[i64], [m, k, n]: [usize; 3], turned: bool) -> Vec<i64> {
    let mut out = Vec::with_capacity(m * n);
    for (i, j) in (0..m * n).map(|p| (p / n, p % n)) {
        let of = |x: usize| if turned { j * k + x } else { x * n + j };
        let z = zb[if zb.len() == 1 { 0 } else { j }];
        out.push((0..k).map(|x| (a.data[i * k + x] as i64 - za) * (b.data[of(x)] as i64 - z)).sum());
    }
    out
}

const KINDS: [DType; 2] = [DType::U8, DType::I8];

#[test]
fn sums_of_bytes_are_exact_in_every_pair_of_types() {
    // Borders of the packing: no, one and several panels and fours; more than one unit of rows and of columns.
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
        // One scale, no bias, no zero points.
        let plain = case("FusedQuantMatMul", &[&a, &sa, &b, &t(F, &[1], [0.5])], &[(F, &[1, m, n])]).absent(2);
        let plain_sums = sums(&a, 0, &b, &[0], [m, k, n].map(|v| v as usize), turned);
        plain.with("transpose_x2", turned).gives(plain_sums.iter().map(|s| *s as f64 * 0.125), 1e-6);
        for (ty, zy) in [(DType::U8, 3.0), (DType::I8, -20.0)] {
            // So that the greatest numbers saturate and the others are spread.
            let sy = f64::from(((0..all.len()).map(real).fold(0.0, f64::max) / 300.0) as f32);
            let mut bytes = made(ty);
            bytes.inputs.extend([Some(t(F, &[], [sy])), Some(t(ty, &[], [zy])), Some(bias.clone())]);
            let [low, high] = if ty == DType::U8 { [0.0, 255.0] } else { [-128.0, 127.0] };
            let want: Vec<f64> =
                (0..all.len()).map(|p| ((real(p).max(0.0) / sy).round_ties_even() + zy).clamp(low, high)).collect();
            let kinds: std::collections::BTreeSet<i64> = want.iter().map(|v| *v as i64).collect();
            assert!(want.contains(&high) && kinds.len() > 12, "{kinds:?}");
            // A quotient that is a tie but for its last bit may go either way.
            let got = bytes.run(&Nn::ai_core()).remove(0).data;
            let off = got.iter().zip(&want).filter(|(g, w)| g != w).count();
            assert!(off <= 1 && got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1.0), "{off} numbers are off");
        }
    }
}

#[test]
fn onnx_products_of_bytes_round_once() {
    let (a, b) = (whole(DType::U8, &[4, 40], 1), whole(DType::I8, &[40, 20], 2));
    let (sa, sb) = (t(F, &[], [0.02]), t(F, &[20], (0..20).map(|j| f64::from(0.01f32 + j as f32 * 1e-3))));
    let (za, zb) = (t(DType::U8, &[], [120.0]), t(DType::I8, &[20], (0..20).map(|j| f64::from(j - 9))));
    let (sy, zy) = (t(F, &[], [0.3]), t(DType::I8, &[], [11.0]));
    let zs: Vec<i64> = zb.data.iter().map(|z| *z as i64).collect();
    let want = sums(&a, 120, &b, &zs, [4, 40, 20], false).into_iter().enumerate().map(|(p, s)| {
        let scale = 0.02f32 * sb.data[p % 20] as f32 / 0.3f32;
        ((s as f64 * f64::from(scale)).round_ties_even() + 11.0).clamp(-128.0, 127.0)
    });
    case("QLinearMatMul", &[&a, &sa, &za, &b, &sb, &zb, &sy, &zy], &[(DType::I8, &[4, 20])]).gives(want, 0.0);
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
    assert_eq!(got.run(&Nn::ai_core()).iter().flat_map(|o| o.data.clone()).collect::<Vec<_>>(), [0.0; 5]);
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
