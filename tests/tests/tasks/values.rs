//! Further operators whose tiling reads values: TopKV2 with `k` as an input, PromptFlashAttention
//! with sequence lengths as inputs.
use super::*;

const ON: &str = "ge.tiling_schedule_optimize=1";

#[test]
fn the_k_greatest_with_k_by_value() {
    let text = "graph @main(%x: f32[3,40], %k: i64[1]) {
  %y = TopKV2(%x, %k) : f32[3,8], i32[3,8]
  return %y, %y#1
}
";
    let c = Compiled::new(
        text,
        &["--set", ON, "--soc", "Ascend910B", "--set", "ge.exec.precision_mode=must_keep_origin_dtype"],
    );
    let tasks = c.tasks();
    assert!(
        tasks
            .iter()
            .any(|t| t
                .starts_with("KERNEL y s0 e- b4294967295 {i0*}{i1*}{o0*}{o1*}{tiling_context.tiling_data} nn_TopKV2")),
        "{tasks:#?}"
    );
    assert_eq!(tasks.iter().filter(|t| t.starts_with("NOP y s0")).count(), 8);
    let mut random = Random(21);
    for mode in [vec![], vec![("schedule", "random:6"), ("check_races", "true")]] {
        let m = c.load(&mode);
        for k in [8i64, 0, 1, 5, 3] {
            let x = random.reals(120);
            let r = run(&m, &[f32s(&[3, 40], &x), i64s(&[1], &[k])]).unwrap();
            let (values, indices) = (to_f32(&r.outputs[0]), r.outputs[1].bytes());
            for row in 0..3 {
                let line = &x[row * 40..row * 40 + 40];
                let mut order: Vec<usize> = (0..40).collect();
                order.sort_by(|a, b| line[*b].total_cmp(&line[*a]).then(a.cmp(b)));
                for (p, best) in order.iter().enumerate().take(8) {
                    let at = row * 8 + p;
                    let index = i32::from_le_bytes(indices[at * 4..at * 4 + 4].try_into().unwrap());
                    let (v, i) = if (p as i64) < k { (line[*best], *best as i32) } else { (0.0, -1) };
                    assert_eq!((values[at], index), (v, i), "row {row}, place {p}, k {k}");
                }
            }
            assert_eq!((counter(&r, "device_tiling"), counter(&r, "host_tiling")), (1, 0));
        }
        let said = run(&m, &[f32s(&[3, 40], &[0.0; 120]), i64s(&[1], &[9])]).err().unwrap();
        assert!(said.contains("expected one number from 0 to 8"), "{said}");
    }
}

/// Attention of one head in double precision, by its definition.
fn attention(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    [batch, s, t, d]: [usize; 4],
    lens: (&[i64], &[i64]),
    scale: f64,
) -> Vec<f32> {
    let mut out = vec![0f32; batch * s * d];
    for b in 0..batch {
        for i in 0..lens.0[b] as usize {
            let row = &q[(b * s + i) * d..][..d];
            let scores: Vec<f64> = (0..lens.1[b] as usize)
                .map(|j| (0..d).map(|x| f64::from(row[x]) * f64::from(k[(b * t + j) * d + x])).sum::<f64>() * scale)
                .map(f64::exp)
                .collect();
            let total: f64 = scores.iter().sum();
            for x in 0..d {
                let sum: f64 = scores.iter().enumerate().map(|(j, p)| p * f64::from(v[(b * t + j) * d + x])).sum();
                out[(b * s + i) * d + x] = if total > 0.0 { (sum / total) as f32 } else { 0.0 };
            }
        }
    }
    out
}

#[track_caller]
pub fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() < 1e-5, "element {i}: {f}, expected {e}");
    }
}

/// Random inputs for queries of `[2,6,8]` and keys of `[2,9,8]` with sequence lengths as inputs,
/// and the expected output at a scale of 0.25.
pub fn attention_of_random_lengths(random: &mut Random) -> ([HostTensor; 5], Vec<f32>) {
    let (q, k, v) = (random.reals(96), random.reals(144), random.reals(144));
    let ql = [random.below(7) as i64, random.below(7) as i64];
    let kl = [random.below(10) as i64, random.below(10) as i64];
    let given = [f32s(&[2, 6, 8], &q), f32s(&[2, 9, 8], &k), f32s(&[2, 9, 8], &v), i64s(&[2], &ql), i64s(&[2], &kl)];
    (given, attention(&q, &k, &v, [2, 6, 9, 8], (&ql, &kl), 0.25))
}

#[test]
fn attention_with_sequence_lengths_by_value() {
    let text = "graph @main(%q: f32[2,6,8], %k: f32[2,9,8], %v: f32[2,9,8], %ql: i64[2], %kl: i64[2]) {
  %y = PromptFlashAttention(%q, %k, %v, _, _, %ql, %kl) {num_heads = 1, scale_value = 0.25} : f32[2,6,8]
  return %y
}
";
    let c = Compiled::new(text, &["--set", ON]);
    let tasks = c.tasks();
    assert!(
        tasks.iter().any(|t| t.starts_with("UPDATE y s1"))
            && tasks.iter().any(|t| t.contains("nn_PromptFlashAttention")),
        "{tasks:#?}"
    );
    let mut random = Random(33);
    for mode in [vec![], vec![("schedule", "random:2"), ("check_races", "true")]] {
        let m = c.load(&mode);
        for _ in 0..10 {
            let (given, expected) = attention_of_random_lengths(&mut random);
            let r = run(&m, &given).unwrap();
            near(&to_f32(&r.outputs[0]), &expected);
        }
        let given = [
            f32s(&[2, 6, 8], &[0.0; 96]),
            f32s(&[2, 9, 8], &[0.0; 144]),
            f32s(&[2, 9, 8], &[0.0; 144]),
            i64s(&[2], &[7, 0]),
            i64s(&[2], &[1, 1]),
        ];
        let said = run(&m, &given).err().unwrap();
        assert!(said.contains("a sequence has length 7, expected 0 to 6"), "{said}");
    }
}

#[test]
fn heads_masks_and_constant_lengths_agree_with_the_cpu_engine() {
    let text = "graph @main(%q: f32[2,4,5,8], %k: f32[2,2,7,8], %v: f32[2,2,7,8], %shift: f32[1,4,5,7], %mask: bool[2,1,5,7]) {
  %l = Const() {value = dense<i64[2]: 3 5>} : i64[2]
  %y = PromptFlashAttention(%q, %k, %v, %shift, %mask, _, %l) {num_heads = 4, num_key_value_heads = 2, input_layout = \"BNSD\", scale_value = 0.5} : f32[2,4,5,8]
  return %y
}
";
    let fast = Compiled::new(text, &[]);
    assert!(fast.tasks().iter().any(|t| t.contains("nn_PromptFlashAttention")));
    let plain = Compiled::new(text, &["--set", "ge.exec.exclude_engines=AiCore"]);
    assert!(!plain.tasks().iter().any(|t| t.contains("nn_PromptFlashAttention")));
    let (a, b) = (fast.load(&[("check_races", "true")]), plain.load(&[]));
    for seed in 0..4 {
        let (x, y) = (to_f32(&a.run_random(seed).unwrap()[0]), to_f32(&b.run_random(seed).unwrap()[0]));
        for (i, (x, y)) in x.iter().zip(&y).enumerate() {
            assert!((x - y).abs() < 1e-5, "element {i}: {x}, expected {y}");
        }
    }
}
