//! Recurrent operators: packed and plain weights, types, refusals.
use crate::harness::*;
use ge_nn::engine::Nn;
use ge_plugin_api::types::{AttrValue, DType};

const F: DType = DType::F32;

/// Packs weights `[d, g * h, k]` as described in `plugins/ops/src/rnn.rs`, as a second
/// implementation; `sections` and `woven` are those of the input's or the state's weights.
fn packed(w: &T, [d, g, h, k]: [u64; 4], sections: &[(u64, u64)], woven: bool) -> T {
    let blocks = h.div_ceil(16);
    let mut data = vec![];
    for dir in 0..d {
        for &(first, many) in sections {
            for block in 0..blocks {
                for row in 0..many * k {
                    let (gate, x) = if woven { (row % many, row / many) } else { (row / k, row % k) };
                    data.extend((0..16).map(|lane| block * 16 + lane).map(|j| match j < h {
                        true => w.data[(((dir * g + first + gate) * h + j) * k + x) as usize],
                        false => 0.0,
                    }));
                }
            }
        }
    }
    t(w.dtype, &[d, data.len() as u64 / d], data)
}

/// A node with weights in ONNX's form, and the same node with packed weights; two directions.
fn node(op: &'static str, dtype: DType, [s, b, i, h]: [u64; 4]) -> [Case; 2] {
    let g = match op {
        "CommonLSTM" => 4,
        "CommonGRU" => 3,
        _ => 1,
    };
    let x = noise(dtype, &[s, b, i], 1);
    let (w, r) = (noise(dtype, &[2, g * h, i], 2), noise(dtype, &[2, g * h, h], 3));
    let bias = noise(dtype, &[2, 2 * g * h], 4);
    let lens = t(DType::I32, &[b], (0..b).map(|n| (s - n.min(s)) as f64));
    let h0 = noise(dtype, &[2, b, h], 5);
    let apart: &[_] = if g == 3 { &[(0, 2), (2, 1)] } else { &[(0, g)] };
    let pw = packed(&w, [2, g, h, i], &[(0, g)], false);
    let pr = packed(&r, [2, g, h, h], apart, true);
    let (y, state) = ([s, 2, b, h], [2, b, h]);
    let outputs = [(dtype, &y[..]), (dtype, &state[..]), (dtype, &state[..])];
    let outputs = if g == 4 { &outputs[..] } else { &outputs[..2] };
    let make = |w: &T, r: &T| {
        case(op, &[&x, w, r, &bias, &lens, &h0], outputs)
            .with("direction", "bidirectional")
            .with("hidden_size", h as i64)
            .feed(0)
            .feed(4)
    };
    [make(&w, &r), make(&pw, &pr).with("packed", true)]
}

#[test]
fn packed_weights_give_the_bits_of_plain_ones_in_every_type() {
    for op in ["CommonLSTM", "CommonGRU", "CommonRNN"] {
        for size in [[3, 2, 5, 19], [1, 1, 1, 1], [4, 20, 3, 16]] {
            let [_, of_singles] = node(op, F, size);
            let exact = of_singles.run(&Nn::ai_core());
            for (dtype, tol) in [(F, 0.0), (DType::F16, 4e-3), (DType::BF16, 3e-2)] {
                let [plain, packed] = node(op, dtype, size);
                let (a, b) = (plain.run(&Nn::ai_core()), packed.run(&Nn::ai_core()));
                assert_eq!(a, b, "{op} {dtype} {size:?}");
                let halves = a.iter().zip(&exact).flat_map(|(a, e)| a.data.iter().zip(&e.data));
                // Inputs are rounded too, so results of 16-bit types are only close.
                assert!(halves.into_iter().all(|(a, e)| (a - e).abs() <= 10.0 * tol), "{op} {dtype} {size:?}");
            }
        }
    }
}

/// Expected values computed with numpy, as in the tests of `cpu`.
#[test]
fn a_gru_of_known_numbers() {
    let ramp = |n: usize, m: usize, shift: f64, scale: f64| (0..n).map(move |k| ((k % m) as f64 - shift) / scale);
    let x = t(F, &[3, 2, 2], ramp(12, 5, 2.0, 4.0));
    let (w, r) = (t(F, &[1, 6, 2], ramp(12, 7, 3.0, 5.0)), t(F, &[1, 6, 2], ramp(12, 5, 2.0, 5.0)));
    let b = t(F, &[1, 12], ramp(12, 3, 1.0, 10.0));
    let both = [[0.0606391, 0.1409624, 0.0375111, 0.1636943], [0.0547983, 0.0991644, 0.0368307, 0.1215481]];
    for (before, want) in both.into_iter().enumerate() {
        let c = case("CommonGRU", &[&x, &w, &r, &b], &[(F, &[3, 1, 2, 2]), (F, &[1, 2, 2])])
            .with("direction", "reverse")
            .with("linear_before_reset", before as i64);
        let got = c.run(&Nn::ai_core());
        assert!(got[1].data.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6), "{before}: {:?}", got[1].data);
    }
}

/// Packs 8-bit weights `[d, k, 4 h]` as described in
/// `plugins/ort_contrib/src/dynamic_quantize_lstm.rs`, as a second implementation.
fn packed_bytes(w: &T, [d, k, h]: [u64; 3]) -> T {
    let less = if w.dtype == DType::U8 { 128 } else { 0 };
    let mut data = vec![];
    for dir in 0..d {
        for panel in 0..h.div_ceil(16) * 4 {
            let of = |k_at: u64, lane: u64| {
                let j = panel / 4 * 16 + lane;
                let at = (dir * k + k_at) * 4 * h + panel % 4 * h + j;
                if k_at < k && j < h { w.data[at as usize] as i32 - less } else { 0 }
            };
            let own = (0..k.div_ceil(4) * 64).map(|at| of(at / 64 * 4 + at % 4, at % 64 / 4));
            let sums = (0..16).flat_map(|lane| (0..k).map(|at| of(at, lane)).sum::<i32>().to_le_bytes());
            data.extend(own.map(|v| v as u8).chain(sums).map(|v| match less {
                0 => f64::from(v as i8),
                _ => f64::from(v),
            }));
        }
    }
    t(w.dtype, &[d, data.len() as u64 / d], data)
}

/// An LSTM with 8-bit weights in ONNX's form, and the same with packed weights; two directions.
fn of_bytes(dtype: DType, [s, b, i, h]: [u64; 4], each_column: bool) -> [Case; 2] {
    let scaled = |v: T, by: f64, to: f64| t(v.dtype, &v.dims, v.data.iter().map(|v| v * by + to));
    let middle = if dtype == DType::U8 { 128.0 } else { 0.0 };
    let whole = |dims: &[u64], seed: u64| {
        let v = noise(F, dims, seed);
        t(dtype, dims, v.data.iter().map(|v| (v * 127.0 + middle).round()))
    };
    let (w, r) = (whole(&[2, i, 4 * h], 2), whole(&[2, h, 4 * h], 3));
    let of = if each_column { vec![2, 4 * h] } else { vec![2] };
    let scale = |seed: u64| scaled(noise(F, &of, seed), 0.002, 0.008);
    let zero = t(dtype, &of, (0..of.iter().product::<u64>()).map(|n| middle + (n % 5) as f64 - 2.0));
    let x = noise(F, &[s, b, i], 1);
    let (bias, h0, c0) = (noise(F, &[2, 8 * h], 4), noise(F, &[2, b, h], 5), noise(F, &[2, b, h], 6));
    let lens = t(DType::I32, &[b], (0..b).map(|n| (s - n.min(s)) as f64));
    let (sw, sr, peep) = (scale(7), scale(8), noise(F, &[2, 3 * h], 9));
    let (y, state) = ([s, 2, b, h], [2, b, h]);
    let make = |w: &T, r: &T| {
        case(
            "DynamicQuantizeLSTM",
            &[&x, w, r, &bias, &lens, &h0, &c0, &peep, &sw, &zero, &sr, &zero],
            &[(F, &y[..]), (F, &state[..]), (F, &state[..])],
        )
        .with("direction", "bidirectional")
        .with("hidden_size", h as i64)
        .feed(0)
        .feed(4)
    };
    let (pw, pr) = (packed_bytes(&w, [2, i, h]), packed_bytes(&r, [2, h, h]));
    [make(&w, &r), make(&pw, &pr).with("packed", true)]
}

#[test]
fn packed_bytes_give_the_bits_of_plain_ones() {
    for dtype in [DType::I8, DType::U8] {
        for size in [[3, 2, 5, 19], [1, 1, 1, 1], [4, 20, 3, 16]] {
            for each_column in [false, true] {
                let [plain, packed] = of_bytes(dtype, size, each_column);
                let got = plain.run(&Nn::ai_core());
                assert_eq!(got, packed.run(&Nn::ai_core()), "{dtype} {size:?} {each_column}");
                assert!(got[0].data.iter().any(|v| v.abs() > 0.05) && got[0].data.iter().all(|v| v.abs() <= 1.0));
            }
        }
    }
}

/// The same weights as signed and as unsigned integers, with zero points that differ by the same
/// offset.
#[test]
fn bytes_of_either_sign_give_the_same_numbers() {
    let [signed, _] = of_bytes(DType::I8, [4, 3, 6, 18], false);
    let mut unsigned = signed.clone();
    for i in [1, 2, 9, 11] {
        let v = unsigned.inputs[i].take().expect("given");
        unsigned.inputs[i] = Some(t(DType::U8, &v.dims, v.data.iter().map(|v| v + 128.0)));
    }
    assert_eq!(signed.run(&Nn::ai_core()), unsigned.run(&Nn::ai_core()));
}

#[test]
fn an_lstm_of_bytes_that_does_not_fit_is_told() {
    let refused = |c: Case| c.refusal(&Nn::ai_core());
    let [plain, packed] = of_bytes(DType::I8, [3, 2, 5, 19], false);
    let mut short = packed.clone();
    short.inputs[2] = Some(t(DType::I8, &[2, 64], vec![0.0; 128]));
    assert_eq!(refused(short), "input 2 is i8 [2, 64], it takes i8 [2, 3072]");
    let mut scales = plain.clone();
    scales.inputs[8] = Some(noise(F, &[3], 1));
    assert_eq!(refused(scales), "input 8 is f32 [3], it takes f32 [2] or [2, 76]");
    let named: Vec<String> = ["Sigmoid", "Tanh", "Softsign"].repeat(2).iter().map(|s| (*s).to_owned()).collect();
    let other = plain.clone().with("activations", AttrValue::from(named));
    assert_eq!(refused(other), "it takes the activations sigmoid, tanh and relu");
    let mut long = plain;
    long.inputs[4] = Some(t(DType::I32, &[2], [4.0, 1.0]));
    let told = long.launch(&Nn::ai_core(), 1).unwrap_err();
    assert_eq!(told, "input 4 `sequence_lens`: found 4, expected 0 to 3");
}

#[test]
fn what_does_not_fit_is_told() {
    let refused = |c: Case| c.refusal(&Nn::ai_core());
    let [plain, packed] = node("CommonLSTM", F, [3, 2, 5, 19]);
    let named = |names: &[&str]| AttrValue::from(names.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
    assert_eq!(refused(plain.clone().with("activations", named(&["Tanh"]))), "1 activations, it takes 6");
    let other = named(&["Sigmoid", "Tanh", "Cosine", "Sigmoid", "Tanh", "Tanh"]);
    assert_eq!(refused(plain.clone().with("activations", other)), "activation `Cosine`");
    let mut short = packed.clone();
    short.inputs[2] = Some(noise(F, &[2, 4 * 19 * 19], 1));
    assert_eq!(refused(short), "input 2 is f32 [2, 1444], it takes f32 [2, 2432]");
    let mut long = plain.clone();
    long.inputs[4] = Some(t(DType::I32, &[2], [4.0, 1.0]));
    let told = long.launch(&Nn::ai_core(), 1).unwrap_err();
    assert_eq!(told, "input 4 `sequence_lens`: found 4, expected 0 to 3");
}
