//! Element-wise operators, normalisation, reductions.
use crate::harness::*;
use ge_nn::engine::Nn;
use ge_plugin_api::types::DType;

const F: DType = DType::F32;
const ALL: [(DType, f64); 3] = [(F, 2e-6), (DType::F16, 2e-3), (DType::BF16, 1.6e-2)];

#[test]
fn maps_of_one_tensor_in_every_type() {
    type Case = (&'static str, fn(f64) -> f64);
    let cases: [Case; 12] = [
        ("Relu", |x| x.max(0.0)),
        ("Sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
        ("Tanh", f64::tanh),
        ("Exp", f64::exp),
        ("Abs", f64::abs),
        ("Neg", |x| -x),
        ("Square", |x| x * x),
        ("Swish", |x| x / (1.0 + (-x).exp())),
        ("HardSwish", |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0)),
        ("Softplus", |x| x.exp().ln_1p()),
        ("Elu", |x| if x < 0.0 { x.exp_m1() } else { x }),
        ("LeakyRelu", |x| if x < 0.0 { 0.01 * x } else { x }),
    ];
    for (dtype, tol) in ALL {
        let x = noise(dtype, &[5, 1000, 2], 3);
        for (op, f) in cases {
            let c = case(op, &[&x], &[(dtype, &[5, 1000, 2])]);
            c.gives(x.data.iter().map(|&v| f(v)), tol);
            assert_eq!(c.run(&Nn::vector()), c.run(&Nn::ai_core()), "both engines give the same bits");
        }
    }
}

#[test]
fn maps_of_two_tensors_broadcast() {
    for (dtype, tol) in [(F, 1e-6), (DType::F16, 1e-3), (DType::I32, 0.0), (DType::I64, 0.0)] {
        let (mut a, mut b) = (noise(dtype, &[3, 1, 50], 1), noise(dtype, &[7, 1], 2));
        if dtype.is_int() {
            a.data = (0..150).map(|i| f64::from(i * 7 % 31 - 15)).collect();
            b.data = (0..7).map(|i| f64::from(i - 3) * 2.0 + 1.0).collect();
        }
        type Case = (&'static str, fn(f64, f64) -> f64);
        let cases: [Case; 6] = [
            ("Add", |x, y| x + y),
            ("Sub", |x, y| x - y),
            ("Mul", |x, y| x * y),
            ("Maximum", f64::max),
            ("Minimum", f64::min),
            ("SquaredDifference", |x, y| (x - y) * (x - y)),
        ];
        for (op, f) in cases {
            let want = (0..1050).map(|i| f(a.data[i / 350 * 50 + i % 50], b.data[i / 50 % 7]));
            case(op, &[&a, &b], &[(dtype, &[3, 7, 50])]).gives(want, tol);
        }
    }
    let (a, b) = (t(F, &[4], [7.0, -7.0, 1.0, 0.0]), t(F, &[1], [2.0]));
    case("RealDiv", &[&a, &b], &[(F, &[4])]).gives([3.5, -3.5, 0.5, 0.0], 0.0);
    case("Pow", &[&a, &b], &[(F, &[4])]).gives([49.0, 49.0, 1.0, 0.0], 0.0);
    case("Less", &[&a, &b], &[(DType::BOOL, &[4])]).gives([0.0, 1.0, 1.0, 1.0], 0.0);
    case("AddN", &[&a, &a, &a], &[(F, &[4])]).with("N", 3i64).gives([21.0, -21.0, 3.0, 0.0], 0.0);
    let (low, high) = (t(F, &[], [-1.0]), t(F, &[], [2.0]));
    case("ClipByValue", &[&a, &low, &high], &[(F, &[4])]).gives([2.0, -1.0, 1.0, 0.0], 0.0);
    let c = t(DType::BOOL, &[4], [1.0, 0.0, 0.0, 1.0]);
    case("SelectV2", &[&c, &a, &b], &[(F, &[4])]).gives([7.0, 2.0, 2.0, 0.0], 0.0);
}

#[test]
fn casts_follow_numpy() {
    let x = t(F, &[4], [1.9, -1.9, 300.0, 0.0]);
    case("Cast", &[&x], &[(DType::I32, &[4])]).gives([1.0, -1.0, 300.0, 0.0], 0.0);
    case("Cast", &[&x], &[(DType::U8, &[4])]).gives([1.0, 255.0, 44.0, 0.0], 0.0);
    case("Cast", &[&x], &[(DType::BOOL, &[4])]).gives([1.0, 1.0, 1.0, 0.0], 0.0);
    let i = t(DType::I64, &[2], [3.0, -4.0]);
    case("Cast", &[&i], &[(DType::F16, &[2])]).gives([3.0, -4.0], 0.0);
}

#[test]
fn softmax_over_one_or_several_axes() {
    for (dtype, tol) in ALL {
        let x = noise(dtype, &[4, 6, 10], 5);
        let e: Vec<f64> = x.data.iter().map(|v| v.exp()).collect();
        let over = |inner: usize, len: usize| {
            let e = e.clone();
            (0..240usize).map(move |i| {
                let base = i / (inner * len) * inner * len + i % inner;
                e[i] / (0..len).map(|k| e[base + k * inner]).sum::<f64>()
            })
        };
        let c = |axes: Vec<i64>| case("SoftmaxV2", &[&x], &[(dtype, &[4, 6, 10])]).with("axes", axes);
        c(vec![-1]).gives(over(1, 10), tol);
        c(vec![1]).gives(over(10, 6), tol);
        c(vec![1, 2]).gives(over(1, 60), tol);
        case("LogSoftmaxV2", &[&x], &[(dtype, &[4, 6, 10])]).gives(over(1, 10).map(f64::ln), tol * 2.0);
    }
}

fn moments(v: &[f64]) -> (f64, f64) {
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    (mean, v.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / v.len() as f64)
}

#[test]
fn layer_norms_give_statistics_too() {
    for (dtype, tol) in [(F, 1e-5), (DType::F16, 6e-3)] {
        let (x, g, b) = (noise(dtype, &[3, 5, 40], 1), noise(dtype, &[40], 2), noise(dtype, &[40], 3));
        let rows: Vec<(f64, f64)> = x.data.chunks(40).map(moments).collect();
        let want: Vec<f64> = (0..600)
            .map(|i| (x.data[i] - rows[i / 40].0) / (rows[i / 40].1 + 1e-5).sqrt() * g.data[i % 40] + b.data[i % 40])
            .collect();
        let stat: &[u64] = &[3, 5, 1];
        let c = case("LayerNormV3", &[&x, &g, &b], &[(dtype, &[3, 5, 40]), (F, stat), (F, stat)]).with("epsilon", 1e-5);
        c.gives(want, tol);
        let out = c.run(&Nn::ai_core());
        for (r, (m, v)) in rows.iter().enumerate() {
            assert!((out[1].data[r] - m).abs() < 1e-5 && (out[2].data[r] - 1.0 / (v + 1e-5).sqrt()).abs() < 1e-4);
        }
        let rms = (0..600).map(|i| {
            let row = &x.data[i / 40 * 40..(i / 40 + 1) * 40];
            x.data[i] / (row.iter().map(|v| v * v).sum::<f64>() / 40.0 + 1e-5).sqrt() * g.data[i % 40]
        });
        case("RmsNorm", &[&x, &g], &[(dtype, &[3, 5, 40]), (F, stat)]).with("epsilon", 1e-5).gives(rms, tol);
    }
}

#[test]
fn norms_of_channels() {
    let x = noise(F, &[2, 4, 3, 5], 1);
    let p: Vec<T> = (2..6).map(|s| noise(F, &[4], s)).collect();
    let v = t(F, &[4], p[3].data.iter().map(|v| v.abs() + 0.5));
    let bn = (0..120).map(|i| {
        let c = i / 15 % 4;
        (x.data[i] - p[2].data[c]) / (v.data[c] + 1e-3).sqrt() * p[0].data[c] + p[1].data[c]
    });
    case("BNInfer", &[&x, &p[0], &p[1], &p[2], &v], &[(F, &[2, 4, 3, 5])]).with("epsilon", 1e-3).gives(bn, 1e-5);
    for (op, groups, key) in [("InstanceNorm", 4, "epsilon"), ("GroupNorm", 2, "eps")] {
        let len = 60 / groups;
        let m: Vec<(f64, f64)> = x.data.chunks(len).map(moments).collect();
        let want: Vec<f64> = (0..120)
            .map(|i| {
                (x.data[i] - m[i / len].0) / (m[i / len].1 + 1e-5).sqrt() * p[0].data[i / 15 % 4]
                    + p[1].data[i / 15 % 4]
            })
            .collect();
        case(op, &[&x, &p[0], &p[1]], &[(F, &[2, 4, 3, 5])])
            .with(key, 1e-5)
            .with("num_groups", groups as i64)
            .gives(want, 1e-5);
    }
}

#[test]
fn reductions_by_constant_or_attribute() {
    for (dtype, tol) in ALL {
        let x = noise(dtype, &[3, 4, 5], 7);
        let axes = t(DType::I64, &[2], [0.0, -1.0]);
        let group = |k: usize| -> Vec<f64> { (0..60).filter(|i| i / 5 % 4 == k).map(|i| x.data[i]).collect() };
        let c = |op| case(op, &[&x, &axes], &[(dtype, &[1, 4, 1])]).with("keep_dims", true);
        c("ReduceSum").gives((0..4).map(|k| group(k).iter().sum()), tol * 4.0);
        c("ReduceMean").gives((0..4).map(|k| group(k).iter().sum::<f64>() / 15.0), tol);
        c("ReduceMax").gives((0..4).map(|k| group(k).into_iter().fold(f64::MIN, f64::max)), 0.0);
        c("ReduceMin").gives((0..4).map(|k| group(k).into_iter().fold(f64::MAX, f64::min)), 0.0);
        let all = case("ReduceMeanD", &[&x], &[(dtype, &[])]).with("axes", vec![0i64, 1, 2]);
        all.gives([x.data.iter().sum::<f64>() / 60.0], tol);
        let axis = t(DType::I32, &[], [1.0]);
        let best = (0..15).map(|i| {
            let v: Vec<f64> = (0..4).map(|k| x.data[i / 5 * 20 + k * 5 + i % 5]).collect();
            v.iter().enumerate().fold(0, |b, (k, y)| if *y > v[b] { k } else { b }) as f64
        });
        case("ArgMaxV2", &[&x, &axis], &[(DType::I64, &[3, 5])]).gives(best, 0.0);
    }
}

#[test]
fn quantisation_rounds_to_even_and_saturates() {
    let x = t(F, &[2, 3], [0.25, 0.75, -1.0, 100.0, -100.0, 1.5]);
    let (s, z) = (t(F, &[], [0.5]), t(DType::U8, &[], [128.0]));
    case("QuantizeLinear", &[&x, &s, &z], &[(DType::U8, &[2, 3])]).gives([128.0, 130.0, 126.0, 255.0, 0.0, 131.0], 0.0);
    let (by, zero) = (t(F, &[3], [0.5, 1.0, 2.0]), t(DType::I8, &[3], [0.0, 1.0, -1.0]));
    let q = case("QuantizeLinear", &[&x, &by, &zero], &[(DType::I8, &[2, 3])]);
    q.gives([0.0, 2.0, -1.0, 127.0, -99.0, 0.0], 0.0);
    let back = t(DType::I8, &[2, 3], [0.0, 2.0, -1.0, 127.0, -99.0, 0.0]);
    let d = case("DequantizeLinear", &[&back, &by, &zero], &[(F, &[2, 3])]);
    d.gives([0.0, 1.0, 0.0, 63.5, -100.0, 2.0], 0.0);
}

#[test]
fn truth_values_and_what_is_no_number() {
    let (a, b) = (t(DType::BOOL, &[2, 2], [0.0, 0.0, 1.0, 1.0]), t(DType::BOOL, &[2], [0.0, 1.0]));
    let all = [
        ("LogicalAnd", [0.0, 0.0, 0.0, 1.0]),
        ("LogicalOr", [0.0, 1.0, 1.0, 1.0]),
        ("LogicalXor", [0.0, 1.0, 1.0, 0.0]),
    ];
    for (op, want) in all {
        case(op, &[&a, &b], &[(DType::BOOL, &[2, 2])]).gives(want, 0.0);
    }
    case("LogicalNot", &[&b], &[(DType::BOOL, &[2])]).gives([1.0, 0.0], 0.0);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let x = t(dtype, &[4], [1.0, f64::NAN, f64::INFINITY, -0.0]);
        case("IsNan", &[&x], &[(DType::BOOL, &[4])]).gives([0.0, 1.0, 0.0, 0.0], 0.0);
    }
    for dtype in [DType::F32, DType::F16, DType::I64, DType::U8, DType::BOOL] {
        let (dims, value) = (t(DType::I64, &[2], [3.0, 2.0]), t(dtype, &[], [1.0]));
        case("Fill", &[&dims, &value], &[(dtype, &[3, 2])]).feed(0).gives([1.0; 6], 0.0);
        case("Fill", &[&dims, &value], &[(dtype, &[0, 2])]).feed(0).gives([], 0.0);
    }
}
