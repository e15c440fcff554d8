//! Operators made by fusions, compared with their parts.
use crate::harness::*;
use ge_nn::engine::Nn;
use ge_plugin_api::types::DType;

const F: DType = DType::F32;

fn texts(v: &[&str]) -> Vec<String> {
    v.iter().map(|s| (*s).to_owned()).collect()
}

#[test]
fn a_product_with_factor_bias_residual_and_activation() {
    for (dtype, tol) in [(F, 1e-5), (DType::F16, 4e-3), (DType::BF16, 3e-2)] {
        let (a, b) = (noise(dtype, &[2, 5, 7], 1), noise(dtype, &[11, 7], 2));
        let (c, r) = (noise(dtype, &[11], 3), noise(dtype, &[2, 5, 11], 4));
        let want = (0..110).map(|i| {
            let (row, col) = (i / 11, i % 11);
            let sum: f64 = (0..7).map(|k| a.data[row * 7 + k] * b.data[col * 7 + k]).sum();
            let v = 0.5 * sum + c.data[col] + r.data[i];
            v / (1.0 + (-v).exp())
        });
        case("FusedMatMul", &[&a, &b, &c, &r], &[(dtype, &[2, 5, 11])])
            .with("transpose_x2", true)
            .with("alpha", 0.5)
            .with("activation", "silu")
            .gives(want, tol);
    }
}

#[test]
fn a_convolution_with_residual_and_bounds() {
    let (x, w) = (noise(F, &[1, 2, 4, 5], 1), noise(F, &[3, 2, 1, 1], 2));
    let r = noise(F, &[1, 3, 4, 5], 3);
    let want = (0..60).map(|i| {
        let (o, p) = (i / 20, i % 20);
        let v: f64 = (0..2).map(|c| x.data[c * 20 + p] * w.data[o * 2 + c]).sum::<f64>() + r.data[i];
        v.clamp(-0.25, 0.5)
    });
    case("FusedConv", &[&x, &w, &r], &[(F, &[1, 3, 4, 5])])
        .absent(2)
        .with("activation", "clip")
        .with("activation_params", vec![-0.25, 0.5])
        .gives(want, 1e-5);
}

/// Both orders, strides one and two, with all possible steps behind them; compared with the two
/// kernels run in sequence.
#[test]
fn a_pair_of_convolutions_is_one_behind_the_other() {
    for (stride, window, first) in
        [(1, 3, true), (2, 3, true), (1, 5, true), (1, 3, false), (2, 3, false), (2, 5, false)]
    {
        let (c, o, size) = (20u64, 28u64, 37u64);
        let (deep, pad) = (if first { c } else { o }, window / 2);
        let small = (size + 2 * pad - window) / stride + 1;
        let (x, b, d) = (noise(F, &[2, c, size, size], 1), noise(F, &[deep], 2), noise(F, &[o], 3));
        let (v, w) = (noise(F, &[deep, 1, window, window], 4), noise(F, &[o, c, 1, 1], 5));
        let r = noise(F, &[2, o, small, small], 6);
        let mid = if first { [2, c, small, small] } else { [2, o, size, size] };
        let plane =
            |c: Case| c.with("strides", vec![1, 1, stride as i64, stride as i64]).with("pads", vec![pad as i64; 4]);
        let clip = |c: Case| c.with("activation", "clip").with("activation_params", vec![-0.5, 0.75]);
        let (one, two) = if first { (&v, &w) } else { (&w, &v) };
        let a = clip(case("FusedConv", &[&x, one, &b], &[(F, &mid)]));
        let a = if first { plane(a).with("groups", deep as i64) } else { a };
        let between = a.run(&Nn::ai_core()).remove(0);
        let z =
            case("FusedConv", &[&between, two, &d, &r], &[(F, &[2, o, small, small])]).with("activation", "hard_swish");
        let z = if first { z } else { plane(z).with("groups", deep as i64) };
        let pair = case("FusedConvPair", &[&x, one, &b, two, &d, &r], &[(F, &[2, o, small, small])])
            .with("depthwise", if first { "first" } else { "second" })
            .with("first_activation", "clip")
            .with("first_activation_params", vec![-0.5, 0.75])
            .with("activation", "hard_swish");
        plane(pair).gives(z.run(&Nn::ai_core()).remove(0).data, 1e-5);
    }
    let (x, v, w) = (noise(F, &[2, 4, 9, 9], 1), noise(F, &[4, 1, 3, 3], 2), noise(F, &[6, 4, 1, 1], 3));
    let ai = Nn::ai_core();
    let refused = |c: Case| c.absent(2).refusal(&ai);
    let other = case("FusedConvPair", &[&x, &v, &w], &[(F, &[2, 6, 9, 9])]);
    assert_eq!(refused(other), "output 0 is [2, 6, 9, 9], the windows give another size");
    let turned = case("FusedConvPair", &[&x, &w, &v], &[(F, &[2, 4, 7, 7])]).with("depthwise", "second");
    assert_eq!(refused(turned), "filter [4, 1, 3, 3] for 6 channels in 6 groups");
    let flat = noise(F, &[4, 1, 1, 1], 2);
    let flat = case("FusedConvPair", &[&x, &flat, &w], &[(F, &[2, 6, 9, 9])]);
    assert_eq!(refused(flat), "the depthwise filter is [4, 1, 1, 1]");
}

#[test]
fn a_chain_in_every_type_with_a_row_and_a_number() {
    for (dtype, tol) in [(F, 1e-6), (DType::F16, 2e-3), (DType::BF16, 1.6e-2)] {
        // More than one block; the last one is not full.
        let (x, b) = (noise(dtype, &[70, 131], 1), noise(dtype, &[131], 2));
        let want = x.data.iter().enumerate().map(|(i, x)| {
            let a = x + b.data[i % 131];
            a - (0.5 * a).tanh()
        });
        case("FusedElementwise", &[&x, &b], &[(dtype, &[70, 131])])
            .with("steps", texts(&["Add %0 %1", "Mul 0.5 %2", "Tanh %3", "Sub %2 %4"]))
            .gives(want, tol);
    }
}

#[test]
fn a_chain_between_bytes() {
    let (x, y) = (t(DType::U8, &[4], [0.0, 3.0, 200.0, 255.0]), t(DType::I8, &[4], [-128.0, 0.0, 5.0, 127.0]));
    for sum in ["Add %2 %3", "Add %3 %2"] {
        let steps = ["Dequantize %0 0.5 3", "Dequantize %1 0.25 -1", sum, "Quantize %4 0.5 10"];
        let want = [-1.5 - 31.75, 0.25, 98.5 + 1.5, 126.0 + 32.0]
            .map(|v: f64| ((v / 0.5).round_ties_even() + 10.0).clamp(0.0, 255.0));
        case("FusedElementwise", &[&x, &y], &[(DType::U8, &[4])])
            .with("steps", texts(&steps))
            .with("dtype", DType::U8)
            .gives(want, 0.0);
    }
}

/// Long tensors of bytes are computed by a table, short ones step by step.
#[test]
fn a_long_chain_of_one_tensor_of_bytes() {
    for (from, low) in [(DType::U8, 0.0), (DType::I8, -128.0)] {
        for n in [256, 1024, 5000] {
            let x = t(from, &[n], (0..n).map(|i| (i * 37 % 256) as f64 + low));
            let steps = ["Dequantize %0 0.05 3", "Sigmoid %1", "Quantize %2 0.00392 -100"];
            let want = x.data.iter().map(|v| {
                let real = f64::from(((v - 3.0) as f32) * 0.05f32);
                ((1.0 / (1.0 + (-real).exp()) / f64::from(0.00392f32)).round_ties_even() - 100.0).clamp(-128.0, 127.0)
            });
            case("FusedElementwise", &[&x], &[(DType::I8, &[n])])
                .with("steps", texts(&steps))
                .with("dtype", DType::I8)
                .gives(want, 0.0);
        }
    }
}

#[test]
fn a_product_of_bytes_is_rounded_to_bytes() {
    let (x, y) = (t(DType::U8, &[4], [0.0, 3.0, 200.0, 255.0]), t(DType::I8, &[4], [-128.0, 0.0, 5.0, 127.0]));
    let steps = ["Dequantize %0 0.5 3", "Dequantize %1 0.25 -1", "Mul %3 %2", "Quantize %4 0.5 10"];
    let want = [-1.5 * -31.75, 0.0, 98.5 * 1.5, 126.0 * 32.0]
        .map(|v: f64| ((v / 0.5).round_ties_even() + 10.0).clamp(0.0, 255.0));
    case("FusedElementwise", &[&x, &y], &[(DType::U8, &[4])])
        .with("steps", texts(&steps))
        .with("dtype", DType::U8)
        .gives(want, 0.0);
}

#[test]
fn a_softmax_with_factor_and_mask() {
    let (x, m) = (noise(F, &[2, 3, 5], 1), noise(F, &[2, 1, 5], 2));
    let mut want = vec![];
    for row in 0..6 {
        let e: Vec<f64> = (0..5).map(|i| (3.0 * x.data[row * 5 + i] + m.data[row / 3 * 5 + i]).exp()).collect();
        let sum: f64 = e.iter().sum();
        want.extend(e.iter().map(|v| v / sum));
    }
    case("ScaledMaskedSoftmax", &[&x, &m], &[(F, &[2, 3, 5])]).with("scale", 3.0).gives(want, 1e-6);
}

/// Attention by its definition; indices are `[B, N, S, D]`.
fn attention(
    q: impl Fn([usize; 4]) -> f64,
    k: impl Fn([usize; 4]) -> f64,
    v: impl Fn([usize; 4]) -> f64,
    m: impl Fn([usize; 4]) -> f64,
    [b, n, s, t, d]: [usize; 5],
) -> Vec<[f64; 1]> {
    let mut out = vec![];
    for (b, n, s) in (0..b * n * s).map(|i| (i / (n * s), i / s % n, i % s)) {
        let e: Vec<f64> = (0..t)
            .map(|t| ((0..d).map(|d| q([b, n, s, d]) * k([b, n, t, d])).sum::<f64>() * 0.5 + m([b, n, s, t])).exp())
            .collect();
        let sum: f64 = e.iter().sum();
        out.extend((0..d).map(|d| [e.iter().enumerate().map(|(t, e)| e * v([b, n, t, d])).sum::<f64>() / sum]));
    }
    out
}

#[test]
fn attention_by_heads_and_by_positions() {
    // More query positions than fit into a unit.
    let (b, n, s, t_, d) = (2, 2, 70, 5, 3);
    let (q, k, v) = (noise(F, &[2, 2, 70, 3], 1), noise(F, &[2, 1, 5, 3], 2), noise(F, &[2, 1, 5, 3], 3));
    let mask = noise(F, &[2, 1, 1, 5], 4);
    let at = |x: &T, n: usize, s: usize, [b, h, i, j]: [usize; 4]| x.data[((b * n + h.min(n - 1)) * s + i) * 3 + j];
    let want = attention(
        |i| at(&q, 2, 70, i),
        |i| at(&k, 1, 5, i),
        |i| at(&v, 1, 5, i),
        |[b, _, _, t]| mask.data[b * 5 + t],
        [b, n, s, t_, d],
    );
    case("PromptFlashAttention", &[&q, &k, &v, &mask], &[(F, &[2, 2, 70, 3])])
        .with("input_layout", "BNSD")
        .with("num_heads", 2i64)
        .with("num_key_value_heads", 1i64)
        .with("scale_value", 0.5)
        .gives(want.iter().map(|v| v[0]), 1e-5);
    // Without keys, nothing is summed and the result is zero.
    let none = noise(F, &[2, 1, 0, 3], 2);
    case("PromptFlashAttention", &[&q, &none, &none], &[(F, &[2, 2, 70, 3])])
        .with("input_layout", "BNSD")
        .with("num_heads", 2i64)
        .with("num_key_value_heads", 1i64)
        .gives((0..2 * 2 * 70 * 3).map(|_| 0.0), 0.0);
    // A score that is NaN stays NaN under a mask of a wider type; other queries are as usual.
    let (f16, f32) = (DType::F16, DType::F32);
    let q = t(f16, &[1, 1, 2, 1], [f64::NAN, 1.0]);
    let (k, mask) = (t(f16, &[1, 1, 2, 1], [1.0, 2.0]), t(f32, &[2, 2], [0.0, 0.0, 0.0, f64::from(f32::MIN)]));
    case("PromptFlashAttention", &[&q, &k, &k, &mask], &[(f16, &[1, 1, 2, 1])])
        .with("input_layout", "BNSD")
        .with("num_heads", 1i64)
        .gives([f64::NAN, 1.0], 0.0);
    // Two heads side by side in rows of six numbers.
    let (q, k, v) = (noise(F, &[1, 4, 6], 1), noise(F, &[1, 5, 6], 2), noise(F, &[1, 5, 6], 3));
    let at = |x: &T, [_, h, i, j]: [usize; 4]| x.data[i * 6 + h * 3 + j];
    let heads = attention(|i| at(&q, i), |i| at(&k, i), |i| at(&v, i), |_| 0.0, [1, 2, 4, 5, 3]);
    let want = (0..24).map(|i| heads[(i / 3 % 2 * 4 + i / 6) * 3 + i % 3][0]);
    case("PromptFlashAttention", &[&q, &k, &v], &[(F, &[1, 4, 6])])
        .with("num_heads", 2i64)
        .with("scale_value", 0.5)
        .gives(want, 1e-5);
}

/// Units of up to 192 queries with many heads, fewer beside many keys or with few heads; positions
/// that are no multiple of a unit, and rows of keys that are no whole vectors.
#[test]
fn units_of_many_queries_give_the_attention_of_each() {
    for (n, s, t_, d) in
        [(12u64, 193u64, 17u64, 4u64), (12, 200, 700, 2), (3, 97, 33, 20), (16, 130, 257, 1), (1, 129, 50, 8)]
    {
        let (q, k, v) = (noise(F, &[1, n, s, d], 1), noise(F, &[1, n, t_, d], 2), noise(F, &[1, n, t_, d], 3));
        let at = |x: &T, s: u64, [_, h, i, j]: [usize; 4]| x.data[(h * s as usize + i) * d as usize + j];
        let sizes = [1, n, s, t_, d].map(|v| v as usize);
        let want = attention(|i| at(&q, s, i), |i| at(&k, t_, i), |i| at(&v, t_, i), |_| 0.0, sizes);
        case("PromptFlashAttention", &[&q, &k, &v], &[(F, &[1, n, s, d])])
            .with("input_layout", "BNSD")
            .with("num_heads", n as i64)
            .with("scale_value", 0.5)
            .gives(want.iter().map(|v| v[0]), 1e-5);
    }
}

#[test]
fn a_query_sees_the_keys_of_its_band() {
    let inf = f64::INFINITY;
    // Blocks of positions; and a single position with heads that share a key.
    for (s, t_) in [(70usize, 90usize), (90, 70), (1, 9), (5, 5)] {
        let (sq, st) = (s as u64, t_ as u64);
        let q = noise(F, &[2, 4, sq, 3], 1);
        let (k, v) = (noise(F, &[2, 2, st, 3], 2), noise(F, &[2, 2, st, 3], 3));
        let shift = noise(F, &[4, 1, st], 4);
        let last = t_ as i64 - s as i64;
        for (mode, pre, next) in [(0i64, 5i64, 1i64), (2, 5, 1), (3, 5, 1), (4, 5, 1), (4, 0, 0), (4, 3, -1)] {
            let seen = |i: usize, j: usize| {
                let ahead = j as i64 - i as i64;
                match mode {
                    2 => ahead <= 0,
                    3 => ahead <= last,
                    4 => (-pre..=next).contains(&(ahead - last)),
                    _ => true,
                }
            };
            let at = |x: &T, n: usize, s: usize, [b, h, i, j]: [usize; 4]| x.data[((b * n + h) * s + i) * 3 + j];
            let want = attention(
                |i| at(&q, 4, s, i),
                |[b, h, i, j]| at(&k, 2, t_, [b, h / 2, i, j]),
                |[b, h, i, j]| at(&v, 2, t_, [b, h / 2, i, j]),
                |[_, h, i, j]| if seen(i, j) { shift.data[h * t_ + j] } else { -inf },
                [2, 4, s, t_, 3],
            );
            // A query that sees no key gives zeros.
            let want = want.iter().map(|v| if v[0].is_nan() { 0.0 } else { v[0] });
            case("PromptFlashAttention", &[&q, &k, &v, &shift], &[(F, &[2, 4, sq, 3])])
                .with("input_layout", "BNSD")
                .with("num_heads", 4i64)
                .with("num_key_value_heads", 2i64)
                .with("scale_value", 0.5)
                .with("sparse_mode", mode)
                .with("pre_tokens", pre)
                .with("next_tokens", next)
                .with("inner_precise", 2i64)
                .gives(want, 1e-5);
        }
    }
}

/// Capped scores, and keys beyond the length of a sequence: blocks of positions, and a single
/// position with heads that share a key. The band of a sequence ends at its own last key.
#[test]
fn an_attention_caps_scores_and_reads_no_keys_behind_a_sequence() {
    let at = |x: &T, n: usize, s: usize, [b, h, i, j]: [usize; 4]| x.data[((b * n + h) * s + i) * 3 + j];
    for (s, t_, lengths) in [(70usize, 90usize, [90usize, 71]), (70, 90, [33, 0]), (1, 9, [9, 4]), (5, 5, [5, 3])] {
        let (sq, st) = (s as u64, t_ as u64);
        let q = noise(F, &[2, 4, sq, 3], 1);
        let (k, v) = (noise(F, &[2, 2, st, 3], 2), noise(F, &[2, 2, st, 3], 3));
        let shift = noise(F, &[4, 1, st], 4);
        for dtype in [DType::I32, DType::I64] {
            let list = t(dtype, &[2], lengths.map(|n| n as f64));
            for (mode, pre, next, cap) in [(0i64, 9i64, 0i64, 0.7), (2, 9, 0, 0.7), (3, 9, 0, 0.0), (4, 2, 1, 0.7)] {
                let want = (0..2 * 4 * s * 3).map(|at_y| {
                    let (b, h, i, d) = (at_y / (4 * s * 3), at_y / (s * 3) % 4, at_y / 3 % s, at_y % 3);
                    let last = lengths[b] as i64 - s as i64;
                    let seen = |j: &usize| {
                        let ahead = *j as i64 - i as i64;
                        *j < lengths[b]
                            && match mode {
                                2 => ahead <= 0,
                                3 => ahead <= last,
                                4 => (-pre..=next).contains(&(ahead - last)),
                                _ => true,
                            }
                    };
                    let score = |j: usize| {
                        let dot: f64 =
                            (0..3).map(|d| at(&q, 4, s, [b, h, i, d]) * at(&k, 2, t_, [b, h / 2, j, d])).sum();
                        let x = dot * 4.0;
                        (if cap > 0.0 { cap * (x / cap).tanh() } else { x }) + shift.data[h * t_ + j]
                    };
                    let weights: Vec<(usize, f64)> = (0..t_).filter(seen).map(|j| (j, score(j).exp())).collect();
                    let sum: f64 = weights.iter().map(|w| w.1).sum();
                    let y: f64 = weights.iter().map(|(j, w)| w * at(&v, 2, t_, [b, h / 2, *j, d])).sum();
                    if weights.is_empty() { 0.0 } else { y / sum }
                });
                case("PromptFlashAttention", &[&q, &k, &v, &shift, &list], &[(F, &[2, 4, sq, 3])])
                    .absent(4)
                    .absent(5)
                    .absent(6)
                    .with("input_layout", "BNSD")
                    .with("num_heads", 4i64)
                    .with("num_key_value_heads", 2i64)
                    .with("scale_value", 4.0)
                    .with("softcap", cap)
                    .with("sparse_mode", mode)
                    .with("pre_tokens", pre)
                    .with("next_tokens", next)
                    .gives(want, 2e-5);
            }
        }
    }
    let (q, list) = (noise(F, &[1, 4, 6], 1), t(DType::I64, &[2], [1.0, 2.0]));
    let heads = case("PromptFlashAttention", &[&q, &q, &q, &list], &[(F, &[1, 4, 6])]).with("num_heads", 2i64);
    let heads = heads.absent(3).absent(4).absent(5).absent(6);
    assert_eq!(heads.refusal(&Nn::ai_core()), "input 7 `kv_lengths` is [2], it takes [1]");
}

/// Both orders of heads and positions, pairs that are adjacent or half a head apart, only a part of
/// each head, and angles by ids (one counted from the end) or by position.
#[test]
fn heads_are_turned_by_their_positions() {
    let (b, n, s, d) = (2usize, 3usize, 5usize, 8usize);
    for (dtype, tol) in [(F, 1e-6), (DType::F16, 2e-3), (DType::BF16, 2e-2)] {
        for (by_head, interleaved, part, by_ids) in
            [(true, false, 0, true), (true, true, 4, false), (false, false, 6, false), (false, true, 0, true)]
        {
            let half = if part == 0 { d } else { part } / 2;
            let dims: &[u64] = if by_head { &[2, 3, 5, 8] } else { &[2, 5, 24] };
            let x = noise(dtype, dims, 1);
            let tables: &[u64] = &if by_ids { vec![7, half as u64] } else { vec![2, 5, half as u64] };
            let (cos, sin) = (noise(dtype, tables, 2), noise(dtype, tables, 3));
            let ids = t(DType::I64, &[2, 5], (0..10).map(|i| if i == 4 { -1.0 } else { f64::from(i * 3 % 7) }));
            let want = (0..b * n * s * d).map(|at| {
                let (row, k) = (at / d, at % d);
                let place = if by_head { row / (n * s) * s + row % s } else { row / n };
                let id = if by_ids { ids.data[place] as i64 } else { place as i64 };
                let angle = (if id < 0 { id + 7 } else { id }) as usize * half;
                let (pair, second, other) = match (k < 2 * half, interleaved) {
                    (false, _) => return x.data[at],
                    (_, true) => (k / 2, k % 2 == 1, at ^ 1),
                    (_, false) => (k % half, k >= half, if k < half { at + half } else { at - half }),
                };
                let (c, s) = (cos.data[angle + pair], sin.data[angle + pair]);
                if second { x.data[other] * s + x.data[at] * c } else { x.data[at] * c - x.data[other] * s }
            });
            let inputs: &[&T] = if by_ids { &[&x, &cos, &sin, &ids] } else { &[&x, &cos, &sin] };
            case("RotaryEmbedding", inputs, &[(dtype, dims)])
                .with("num_heads", if by_head { 0i64 } else { n as i64 })
                .with("interleaved", i64::from(interleaved))
                .with("rotary_embedding_dim", part as i64)
                .gives(want, tol);
        }
    }
    let (x, table) = (noise(F, &[1, 2, 3, 4], 1), noise(F, &[3, 1], 2));
    let other = case("RotaryEmbedding", &[&x, &table, &table], &[(F, &[1, 2, 3, 4])]);
    assert_eq!(other.refusal(&Nn::ai_core()), "tables [3, 1] for 1 x 3 positions of 2 pairs");
}

#[test]
fn a_convolution_of_bytes_is_the_sum_of_its_numbers() {
    for (xt, wt, yt, zx, zw, zy) in
        [(DType::U8, DType::I8, DType::U8, 128.0, 0.0, 3.0), (DType::I8, DType::U8, DType::I8, -7.0, 120.0, -5.0)]
    {
        let whole = |d: DType, dims: &[u64], seed: u64| {
            let low = if d == DType::U8 { 0.0 } else { -128.0 };
            t(d, dims, noise(F, dims, seed).data.iter().map(|v| ((v + 1.0) * 127.0).floor() + low))
        };
        let (x, w) = (whole(xt, &[1, 2, 6, 7], 1), whole(wt, &[3, 2, 3, 3], 2));
        let scalar = |d: DType, v: f64| t(d, &[], [v]);
        let (sw, b) = (t(F, &[3], [0.01, 0.02, 0.005]), t(DType::I32, &[3], [100.0, -50.0, 0.0]));
        let zws = t(wt, &[3], [zw; 3]);
        let mut want = vec![];
        for (o, oy, ox) in (0..3 * 3 * 4).map(|i| (i / 12, i / 4 % 3, i % 4)) {
            let mut sum = b.data[o];
            for (c, ky, kx) in (0..18).map(|i| (i / 9, i / 3 % 3, i % 3)) {
                let (iy, ix) = ((oy * 2 + ky) as i64 - 1, (ox * 2 + kx) as i64 - 1);
                if (0..6).contains(&iy) && (0..7).contains(&ix) {
                    sum += (x.data[c * 42 + iy as usize * 7 + ix as usize] - zx)
                        * (w.data[o * 18 + c * 9 + ky * 3 + kx] - zw);
                }
            }
            let scale = f64::from(0.5f32 * sw.data[o] as f32 / 0.25f32);
            let (low, high) = if yt == DType::U8 { (0.0, 255.0) } else { (-128.0, 127.0) };
            want.push(((sum * scale).round_ties_even() + zy).clamp(low, high));
        }
        let (sx, sy) = (scalar(F, 0.5), scalar(F, 0.25));
        let inputs = [&x, &sx, &scalar(xt, zx), &w, &sw, &zws, &sy, &scalar(yt, zy), &b];
        case("QLinearConv", &inputs, &[(yt, &[1, 3, 3, 4])])
            .with("strides", vec![2i64, 2])
            .with("pads", vec![1i64, 1, 1, 1])
            .gives(want, 0.0);
    }
}

#[test]
fn refusals_have_their_reasons() {
    let ai = Nn::ai_core();
    let x = noise(F, &[2, 3], 1);
    let chain =
        |steps: &[&str]| case("FusedElementwise", &[&x], &[(F, &[2, 3])]).with("steps", texts(steps)).refusal(&ai);
    assert_eq!(chain(&["Add %0 %1"]), "step `Add %0 %1` reads %1, which does not stand before it");
    assert_eq!(chain(&["Sort %0"]), "no map of one tensor is called Sort");
    assert!(chain(&["Quantize %0 1 0"]).starts_with("output 0 is f32"));
    let product = case("FusedMatMul", &[&x, &noise(F, &[3, 2], 2), &x], &[(F, &[2, 2])]).absent(2);
    assert_eq!(product.refusal(&ai), "input 3 is [2, 3], output 0 [2, 2]");
    let act = case("FusedMatMul", &[&x, &noise(F, &[3, 2], 2)], &[(F, &[2, 2])]).with("activation", "sine");
    assert_eq!(act.refusal(&ai), "activation `sine` with 0 numbers");
    let q = noise(F, &[1, 4, 6], 1);
    let heads = case("PromptFlashAttention", &[&q, &q, &q], &[(F, &[1, 4, 6])]).with("num_heads", 4i64);
    assert_eq!(heads.refusal(&ai), "[1, 4, 6] is not BSH with 4 heads");
}

/// Checks that each output of a cluster is close to the expected numbers.
fn cluster_gives(c: Case, want: &[Vec<f64>], tol: f64) {
    let got = c.run(&Nn::ai_core());
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.data.len(), want.len());
        for (i, (g, w)) in got.data.iter().zip(want).enumerate() {
            let near = (g - w).abs() <= tol * w.abs().max(1.0) || g == w || (g.is_nan() && w.is_nan());
            assert!(near, "output {k} element {i}: {g} for {w}");
        }
    }
}

#[test]
fn a_cluster_is_a_softmax_with_its_mask_in_every_type_and_length() {
    for (dtype, tol) in [(F, 1e-6), (DType::F16, 2e-3), (DType::BF16, 1.6e-2)] {
        // Rows of one element, of less than a tile, and of more than one.
        for len in [1u64, 7, 100, 5000] {
            let (x, mask) = (noise(dtype, &[2, 3, len], 1), noise(dtype, &[2, 1, len], 2));
            let n = len as usize;
            let (mut y, mut e, mut sums) = (vec![], vec![], vec![]);
            for r in 0..6 {
                let v: Vec<f64> = (0..n).map(|i| 3.0 * x.data[r * n + i] + mask.data[r / 3 * n + i]).collect();
                let most = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let all: Vec<f64> = v.iter().map(|v| (v - most).exp()).collect();
                let sum: f64 = all.iter().sum();
                y.extend(all.iter().map(|e| e / sum));
                e.extend(all);
                sums.push(sum.ln() + most);
            }
            let steps = [
                "Mul %0 3",
                "Add %2 %1",
                "ReduceMax %3 1 1",
                "Sub %3 %4",
                "Exp %5",
                "ReduceSum %6 1 1",
                "Div %6 %7",
                "Log %7",
                "Add %9 %4",
            ];
            let c = case(
                "FusedCluster",
                &[&x, &mask],
                &[(dtype, &[2, 3, len]), (dtype, &[2, 3, len]), (dtype, &[2, 3, 1])],
            );
            // Sums grow with the length of the row, and so does the rounding error of 16-bit types.
            cluster_gives(c.with("steps", texts(&steps)).with("gives", vec![8i64, 6, 10]), &[y, e, sums], tol);
        }
    }
}

#[test]
fn a_cluster_is_a_layer_norm_over_two_axes_with_vectors_and_a_sum_given_out() {
    let (x, r) = (noise(F, &[3, 4, 6], 1), noise(F, &[3, 4, 6], 2));
    let (gamma, beta) = (noise(F, &[4, 6], 3), noise(F, &[6], 4));
    let (mut sum, mut y, mut mean) = (vec![], vec![], vec![]);
    for row in 0..3 {
        let v: Vec<f64> = (0..24).map(|i| x.data[row * 24 + i] + r.data[row * 24 + i]).collect();
        let m = v.iter().sum::<f64>() / 24.0;
        let spread = (v.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / 24.0 + 1e-5).sqrt();
        y.extend(v.iter().enumerate().map(|(i, v)| (v - m) / spread * gamma.data[i] + beta.data[i % 6]));
        sum.extend(v);
        mean.push(m.abs());
    }
    let steps = [
        "Add %0 %1",
        "ReduceMean %4 2 1",
        "Sub %4 %5",
        "Square %6",
        "ReduceMean %7 2 1",
        "Add %8 0.00001",
        "Sqrt %9",
        "Div %6 %10",
        "Mul %11 %2",
        "Add %12 %3",
        "ReduceMean %4 2 0",
        "Abs %14",
    ];
    let c = case("FusedCluster", &[&x, &r, &gamma, &beta], &[(F, &[3, 4, 6]), (F, &[3, 4, 6]), (F, &[3])]);
    cluster_gives(c.with("steps", texts(&steps)).with("gives", vec![4i64, 13, 15]), &[sum, y, mean], 1e-5);
}

#[test]
fn a_cluster_without_reductions_has_columns_numbers_and_any_broadcast_input() {
    // More than one tile; the last one is not full.
    let (x, column) = (noise(F, &[5, 40, 33], 1), noise(F, &[40, 1], 2));
    let (plane, one) = (noise(F, &[5, 1, 33], 3), noise(F, &[1], 4));
    let (mut first, mut second) = (vec![], vec![]);
    for i in 0..5 * 40 * 33 {
        let v = (x.data[i] - column.data[i / 33 % 40]) * plane.data[i / (40 * 33) * 33 + i % 33];
        first.push(v);
        second.push(0.5 - v.tanh() + one.data[0]);
    }
    let steps = ["Sub %0 %1", "Mul %4 %2", "Tanh %5", "Sub 0.5 %6", "Add %7 %3"];
    let c = case("FusedCluster", &[&x, &column, &plane, &one], &[(F, &[5, 40, 33]), (F, &[5, 40, 33])]);
    cluster_gives(c.with("steps", texts(&steps)).with("gives", vec![5i64, 8]), &[first, second], 1e-6);
}

/// Comparisons, selections, casts and integers together with a column, over several tiles.
#[test]
fn values_of_a_cluster_have_types_of_their_own() {
    let (x, column) = (noise(F, &[3, 70, 33], 1), noise(F, &[3, 70, 1], 2));
    let ids = t(DType::I64, &[3, 70, 33], (0..6930).map(|i| f64::from(i * 7 % 5)));
    let whole = t(DType::I32, &[3, 70, 33], (0..6930).map(|i| f64::from(i % 9 - 4)));
    let flags = t(DType::BOOL, &[3, 70, 33], (0..6930).map(|i| f64::from(i / 3 % 2)));
    let (mut chosen, mut sums, mut truths, mut halves) = (vec![], vec![], vec![], vec![]);
    for i in 0..3 * 70 * 33 {
        let id = ids.data[i];
        let above = x.data[i] > column.data[i / 33] && flags.data[i] == 0.0;
        chosen.push(if above { id } else { -0.5 });
        sums.push(if above { (whole.data[i] + 3.0) * whole.data[i] } else { 7.0 });
        truths.push(f64::from(u8::from(above != (whole.data[i] < 1.0))));
        halves.push(f64::from(half::f16::from_f64(x.data[i] * id)));
    }
    let steps = [
        "Cast:f32 %2",
        "Greater %0 %1",
        "LogicalNot %4",
        "LogicalAnd %6 %7",
        "Select:f32 %8 %5 -0.5",
        "Add %3 3",
        "Mul %10 %3",
        "Select:i32 %8 %11 7",
        "Less %3 1",
        "LogicalXor %8 %13",
        "Mul %0 %5",
        "Cast:f16 %15",
        "Cast:i64 %12",
        "Equal %17 %3",
    ];
    let shape: &[u64] = &[3, 70, 33];
    let outs = [(F, shape), (DType::I32, shape), (DType::BOOL, shape), (DType::F16, shape), (DType::I64, shape)];
    let c = case("FusedCluster", &[&x, &column, &ids, &whole, &flags], &outs);
    let gives = vec![9i64, 12, 14, 16, 17];
    let want = [chosen, sums.clone(), truths, halves, sums];
    cluster_gives(c.with("steps", texts(&steps[..13])).with("gives", gives.clone()), &want, 1e-3);
    let ai = Nn::ai_core();
    let refused = |steps: &[&str], inputs: &[&T], out: (DType, &[u64]), gives: i64| {
        case("FusedCluster", inputs, &[out]).with("steps", texts(steps)).with("gives", vec![gives]).refusal(&ai)
    };
    let c = case("FusedCluster", &[&x, &column, &ids, &whole, &flags], &outs);
    let all = c.with("steps", texts(&steps)).with("gives", gives).refusal(&ai);
    assert_eq!(all, "step Equal reads a value of i64");
    assert_eq!(refused(&["Exp %0"], &[&whole], (DType::I32, shape), 1), "step Exp of i32");
    assert_eq!(refused(&["Add %0 0.5"], &[&whole], (DType::I32, shape), 1), "0.5 is no whole number of 32 bits");
    let twice = refused(&["Cast:f32 %0", "Cast:i32 %0"], &[&ids], (DType::I32, shape), 2);
    assert_eq!(twice, "input 0 is cast to whole numbers and to others");
    let wide = refused(&["Cast:bf16 %0"], &[&ids], (DType::BF16, shape), 1);
    assert_eq!(wide, "input 0 is i64, which step Cast:bf16 does not read");
}

/// Steps on the output of a product and a convolution, over parts of several units.
#[test]
fn steps_follow_a_product_and_a_convolution() {
    let steps = ["Add %0 3", "Clip %1 0 6", "Mul %0 %2", "Div %3 6", "Maximum %4 -0.125"];
    let follow = |v: f64| (v * (v + 3.0).clamp(0.0, 6.0) / 6.0).max(-0.125);
    let (a, b) = (noise(F, &[150, 9], 1), noise(F, &[9, 70], 2));
    let want = (0..150 * 70).map(|i| {
        let sum: f64 = (0..9).map(|k| a.data[i / 70 * 9 + k] * b.data[k * 70 + i % 70]).sum();
        follow(0.5 * sum)
    });
    let c = case("FusedMatMul", &[&a, &b], &[(F, &[150, 70])]).with("alpha", 0.5);
    c.with("steps", texts(&steps)).gives(want, 1e-5);
    let (x, w, r) = (noise(F, &[2, 6, 24, 31], 1), noise(F, &[10, 6, 1, 1], 2), noise(F, &[2, 10, 24, 31], 3));
    let points = 24 * 31;
    let want = (0..2 * 10 * points).map(|i| {
        let (n, o, p) = (i / (10 * points), i / points % 10, i % points);
        let sum: f64 = (0..6).map(|c| x.data[(n * 6 + c) * points + p] * w.data[o * 6 + c]).sum();
        follow((sum + r.data[i]).max(0.0))
    });
    let c = case("FusedConv", &[&x, &w, &r], &[(F, &[2, 10, 24, 31])]).absent(2).with("pads", vec![0i64; 4]);
    c.with("activation", "relu").with("steps", texts(&steps)).gives(want, 1e-5);
    let half = noise(DType::F16, &[4, 4], 1);
    let c = case("FusedMatMul", &[&half, &half], &[(DType::F16, &[4, 4])]).with("steps", texts(&steps));
    assert!(c.refusal(&Nn::ai_core()).starts_with("steps follow an output of f16"));
}

#[test]
fn clusters_that_are_none_are_refused_in_words() {
    let ai = Nn::ai_core();
    let (x, row) = (noise(F, &[2, 3], 1), noise(F, &[3], 2));
    let said = |steps: &[&str], gives: Vec<i64>, out: &[u64]| {
        let c = case("FusedCluster", &[&x, &row], &[(F, out)]);
        c.with("steps", texts(steps)).with("gives", gives).refusal(&ai)
    };
    assert_eq!(said(&["Neg %0"], vec![0], &[2, 3]), "`gives` names no step");
    assert_eq!(said(&["Neg %0"], vec![2, 2], &[2, 3]), "1 outputs, `gives` names [2, 2]");
    assert_eq!(said(&["Neg %1", "Add %0 %2"], vec![3], &[2, 3]), "values are not [2, 3] or its columns");
    let two = said(&["ReduceSum %0 1 1", "ReduceSum %0 2 1", "Add %2 %3"], vec![4], &[2, 1]);
    assert_eq!(two, "reductions over other numbers of axes");
    assert_eq!(said(&["ReduceSum %0 1 1", "Add %0 %2"], vec![3], &[3]), "output 0 is f32 [3], the step gives [2, 3]");
    let gone = said(&["ReduceSum %0 1 0", "Add %2 %1"], vec![3], &[2]);
    assert_eq!(gone, "step Add reads rows whose axes are gone beside others");
    assert_eq!(
        said(&["ReduceSum %0 0 1"], vec![2], &[2]),
        "step ReduceSum with [Value(0), Number(0.0), Number(1.0)] is no reduction"
    );
}
