//! State that grows in place: the key and value cache of a decoder, which the next step finds where
//! the last one left it.
use super::gears::{f32s, json, npy, reals, session};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::RunOptions;
use ge_tests::expect_code;
use serde_json::Value;

/// Attention without a softmax over a cache: products read the cache transposed and as it is. The
/// operator `also` reads it too; empty: no other reader.
fn cache(also: &str) -> String {
    let (read, returned) =
        if also.is_empty() { (String::new(), "") } else { (format!("  %z = {also}(%all) : f32[2,3,?,4]\n"), ", %z") };
    format!(
        "graph @main(%q: f32[2,3,n,4], %k: f32[2,3,n,4], %past: f32[2,3,s,4]) {{
  %all = ConcatD(%past, %k) {{N = 2, concat_dim = 2}} : f32[2,3,?,4]
  %t = TransposeD(%all) {{perm = [0, 1, 3, 2]}} : f32[2,3,4,?]
  %w = BatchMatMulV2(%q, %t) : f32[2,3,n,?]
  %y = BatchMatMulV2(%w, %all) : f32[2,3,n,4]
{read}  return %y, %all{returned}
}}
"
    )
}

#[test]
fn a_cache_that_products_read_grows_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let mut random = 7u32;
    let mut next = |dims: &[u64]| {
        let v: Vec<f32> = (0..dims.iter().product())
            .map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 8) as f32 / (1u32 << 24) as f32 - 0.5
            })
            .collect();
        f32s(dims, &v)
    };
    let given: Vec<[HostTensor; 2]> =
        (0..70).map(|k| [0, 1].map(|_| next(&[2, 3, if k == 0 { 5 } else { 1 }, 4]))).collect();
    for (k, [q, key]) in given.iter().enumerate() {
        npy(&d.join(format!("in/step{k}/input_0.npy")), q);
        npy(&d.join(format!("in/step{k}/input_1.npy")), key);
    }
    let run = |also: &str, steps: &str, shapes: &[&str], out: &str| {
        std::fs::write(d.join("m.ge"), cache(also)).unwrap();
        let compile = ["compile", "m.ge", "-o", "m.om", "-q", "--state", "all:past"];
        expect_code(d, 0, &[&compile[..], shapes].concat());
        json(d, &["run", "m.om", "--json", "--inputs", "in", "--steps", steps, "--outputs", out])
    };
    let read = |out: &str, step: usize, k: usize| {
        let bytes = std::fs::read(d.join(format!("{out}/step{step}/output_{k}.npy"))).unwrap();
        reals(&ge_runtime::npy::read(&bytes, DType::F32).unwrap())
    };
    // 60 steps make 64 positions: the room of the first step holds them, and no byte is copied.
    let said = run("", "60", &[], "grown");
    let state = &said["state"][0];
    assert_eq!(
        (&state["shape"], &state["room"]),
        (&serde_json::json!([2, 3, 64, 4]), &serde_json::json!([2, 3, 64, 4]))
    );
    assert_eq!((&said["copied_state_bytes"], &said["copied_inputs"]), (&0.into(), &0.into()), "{said}");
    // Position 65 moves the cache: the 64 before it are read whole, and 65 go into a room for 130.
    let said = run("", "70", &[], "grown");
    assert_eq!(said["state"][0]["room"], serde_json::json!([2, 3, 130, 4]), "{said}");
    assert_eq!(said["copied_state_bytes"], (64 + 65) * 6 * 16, "{said}");
    // A range bounds the room, which never becomes larger than the end of the range.
    let said = run("", "60", &["--input-shape", "past:2,3,s=0..100,4"], "ranged");
    assert_eq!(said["state"][0]["room"], serde_json::json!([2, 3, 64, 4]), "{said}");
    let said = run("", "69", &["--input-shape", "past:2,3,s=0..100,4"], "ranged");
    assert_eq!(said["state"][0]["room"], serde_json::json!([2, 3, 100, 4]), "{said}");
    // An operator that reads the cache in another way takes it whole: the cache is handed on from
    // step to step, and the numbers are the same.
    let said = run("Neg", "70", &[], "whole");
    assert_eq!((&said["state"][0]["room"], &said["copied_state_bytes"]), (&Value::Null, &0.into()), "{said}");
    for step in 0..70 {
        assert_eq!(read("grown", step, 1), read("whole", step, 1), "step {step}");
        let (a, b) = (read("grown", step, 0), read("whole", step, 0));
        let worst = a.iter().zip(&b).fold(0f32, |w, (a, b)| w.max((a - b).abs()));
        assert!(a.len() == b.len() && worst < 1e-5, "step {step}: {worst}");
    }

    // The results are the same in any order of tasks. A step that fails leaves the state as it was.
    std::fs::write(d.join("m.ge"), cache("")).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--state", "all:past"]);
    for schedule in ["random:5", "random:6", "fifo"] {
        let s = session(&[("schedule", schedule), ("check_races", "true")]);
        let model = s.load_om(d.join("m.om")).unwrap();
        let mut steps = ge::session::steps::Steps::new(&model).unwrap();
        let copy = |t: &HostTensor| HostTensor::from_bytes(t.dtype, &t.dims, t.bytes()).unwrap();
        for (k, [q, key]) in given.iter().enumerate().take(8) {
            let wide = f32s(&[2, 3, 1, 5], &[0.0; 30]);
            assert!(steps.step(vec![copy(q), wide], RunOptions::default()).is_err());
            let (out, _) = steps.step(vec![copy(q), copy(key)], RunOptions::default()).unwrap();
            assert_eq!(reals(out[0].as_ref().unwrap()), read("grown", k, 0), "{schedule}, step {k}");
            assert_eq!(reals(&steps.state().unwrap()[0]), read("grown", k, 1), "{schedule}, step {k}");
        }
        assert_eq!((steps.taken(), steps.copied_state_bytes()), (8, 0));
    }
}

/// A graph that computes an attention of a query and two caches. `None`: by one attention operator
/// with two query heads for each head of the caches. Otherwise step by step with a mask of these
/// sizes (`?`: all positions).
fn attention(mask: Option<&str>) -> String {
    let heads = if mask.is_some() { 3 } else { 6 };
    let (input, body) = match mask {
        None => (
            String::new(),
            "  %y = PromptFlashAttention(%q, %ks, %vs) {num_heads = 6, num_key_value_heads = 3, scale_value = 0.5, \
             input_layout = \"BNSD\"} : f32[2,6,n,4]\n"
                .to_owned(),
        ),
        Some(m) => (
            format!(", %m: f32[{}]", m.replace('?', "\"n+s\"")),
            "  %half = Const() {value = dense<f32[]: 0.5>} : f32[]
  %t = TransposeD(%ks) {perm = [0, 1, 3, 2]} : f32[2,3,4,?]
  %w = BatchMatMulV2(%q, %t) : f32[2,3,n,?]
  %c = Mul(%w, %half) : f32[2,3,n,?]
  %a = Add(%c, %m) : f32[2,3,n,?]
  %p = SoftmaxV2(%a) {axes = [-1]} : f32[2,3,n,?]
  %y = BatchMatMulV2(%p, %vs) : f32[2,3,n,4]\n"
                .to_owned(),
        ),
    };
    format!(
        "graph @main(%q: f32[2,{heads},n,4], %k: f32[2,3,n,4], %v: f32[2,3,n,4], %pk: f32[2,3,s,4], %pv: f32[2,3,s,4]{input}) {{
  %ks = ConcatD(%pk, %k) {{N = 2, concat_dim = 2}} : f32[2,3,?,4]
  %vs = ConcatD(%pv, %v) {{N = 2, concat_dim = 2}} : f32[2,3,?,4]
{body}  return %y, %ks, %vs
}}
"
    )
}

/// softmax(q·kᵀ / 2 + m)·v of 2 images with heads of 4 numbers, in double precision.
fn plainly(
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    heads: usize,
    new: usize,
    mask: &dyn Fn(usize, usize, usize) -> f32,
) -> Vec<f64> {
    let all = keys.len() / 24;
    let mut out = Vec::new();
    for (image, head, row) in (0..2).flat_map(|b| (0..heads).flat_map(move |h| (0..new).map(move |r| (b, h, r)))) {
        let own = &q[((image * heads + head) * new + row) * 4..][..4];
        let from = (image * 3 + head * 3 / heads) * all * 4;
        let dot = |k: usize| (0..4).map(|d| f64::from(own[d]) * f64::from(keys[from + k * 4 + d])).sum::<f64>();
        let weights: Vec<f64> = (0..all).map(|k| (dot(k) / 2.0 + f64::from(mask(image, row, k))).exp()).collect();
        let sum: f64 = weights.iter().sum();
        out.extend(
            (0..4).map(|d| (0..all).map(|k| weights[k] * f64::from(values[from + k * 4 + d])).sum::<f64>() / sum),
        );
    }
    out
}

#[test]
fn an_attention_reads_caches_that_grow_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let mut random = 3u32;
    let mut next = |dims: &[u64]| {
        let one = |_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as f32 / (1u32 << 23) as f32 - 1.0
        };
        f32s(dims, &(0..dims.iter().product()).map(one).collect::<Vec<f32>>())
    };
    // Without a mask, with a mask that all heads and images read, and with a mask for each image;
    // in one case the keys are also the values.
    let (all, own) = ([Some("n,?"), Some("1,1,n,?")], Some("2,1,n,?"));
    let cases =
        [(None, true, false), (None, true, true), (all[0], true, false), (all[1], true, false), (own, false, false)];
    for (mask, fused, one) in cases {
        let text = attention(mask);
        let text = if one { text.replace("%ks, %vs) {num", "%ks, %ks) {num") } else { text };
        std::fs::write(d.join("m.ge"), text).unwrap();
        expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--state", "ks:pk,vs:pv"]);
        let s = session(&[("check_races", "true"), ("schedule", "random:3")]);
        let model = s.load_om(d.join("m.om")).unwrap();
        let doc = json(d, &["inspect", "m.om", "--json"]);
        assert_eq!(doc.to_string().contains("PromptFlashAttention"), fused, "{mask:?}");
        let mut steps = ge::session::steps::Steps::new(&model).unwrap();
        let heads = if mask.is_some() { 3usize } else { 6 };
        let mut seen = 0u64;
        for new in [5u64, 1, 1, 2, 1, 3, 1] {
            seen += new;
            let q = next(&[2, heads as u64, new, 4]);
            let mut given = vec![q, next(&[2, 3, new, 4]), next(&[2, 3, new, 4])];
            let q = reals(&given[0]);
            let sizes = mask.map(|m| m.replace('n', &new.to_string()).replace('?', &seen.to_string()));
            let sizes: Vec<u64> = sizes.iter().flat_map(|m| m.split(',')).map(|n| n.parse().unwrap()).collect();
            given.extend((!sizes.is_empty()).then(|| next(&sizes)));
            let added = given.get(3).map(reals).unwrap_or_default();
            let (out, _) = steps.step(given, RunOptions::default()).unwrap();
            let state = steps.state().unwrap();
            let of = |image: usize, row: usize, k: usize| {
                let image = if sizes.len() == 4 && sizes[0] == 2 { image } else { 0 };
                added.get((image * new as usize + row) * seen as usize + k).copied().unwrap_or(0.0)
            };
            let values = &state[usize::from(!one)];
            let want = plainly(&q, &reals(&state[0]), &reals(values), heads, new as usize, &of);
            let got = reals(out[0].as_ref().unwrap());
            let worst = got.iter().zip(&want).fold(0f64, |w, (g, x)| w.max((f64::from(*g) - x).abs()));
            assert!(got.len() == want.len() && worst < 1e-5, "{mask:?} after {seen}: {worst}");
        }
        assert_eq!(steps.copied_state_bytes(), 0, "{mask:?}");
        assert!(steps.info().iter().all(|t| t.room.is_some()), "{mask:?}");
    }
}

/// ONNX's own attention with a past: a decoder gives position by position what it gives for all
/// positions at once, and no byte of the past is copied.
#[test]
fn a_decoder_by_onnx_attention_grows_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let onnx = ge_tests::root().join("tests/models/operators/attention_cached/model.onnx").display().to_string();
    expect_code(d, 0, &["compile", &onnx, "-o", "steps.om", "-q", "--state", "k2:pk,v2:pv"]);
    expect_code(d, 0, &["compile", &onnx, "-o", "whole.om", "-q"]);
    let s = session(&[("check_races", "true"), ("schedule", "random:5")]);
    let model = s.load_om(d.join("steps.om")).unwrap();
    let mut steps = ge::session::steps::Steps::new(&model).unwrap();
    // Heads of 4 numbers: 4 of queries, 2 of keys and 2 of values, each with 9 positions.
    let number = |i: usize| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0;
    let all = [4, 2, 2].map(|n| (0..n * 9 * 4).map(|i| number(i + n)).collect::<Vec<f32>>());
    let part = |k: usize, from: usize, to: usize| {
        let heads = all[k].chunks_exact(9 * 4);
        let rows: Vec<f32> = heads.clone().flat_map(|h| h[from * 4..to * 4].to_vec()).collect();
        f32s(&[1, heads.len() as u64, (to - from) as u64, 4], &rows)
    };
    for input in [3, 4] {
        assert!(steps.set(input, f32s(&[1, 2, 0, 4], &[])).unwrap());
    }
    let (mut at, mut got) = (0, vec![Vec::new(); 4]);
    for new in [4, 1, 1, 2, 1] {
        let given = (0..3).map(|k| part(k, at, at + new)).collect();
        let (out, _) = steps.step(given, RunOptions::default()).unwrap();
        let y = reals(out[0].as_ref().unwrap());
        got.iter_mut().zip(y.chunks_exact(new * 4)).for_each(|(rows, y)| rows.extend_from_slice(y));
        at += new;
    }
    assert_eq!((steps.copied_state_bytes(), steps.taken()), (0, 5));
    let whole = s.load_om(d.join("whole.om")).unwrap();
    let mut given: Vec<HostTensor> = (0..3).map(|k| part(k, 0, 9)).collect();
    given.extend([f32s(&[1, 2, 0, 4], &[]), f32s(&[1, 2, 0, 4], &[])]);
    let want = reals(&whole.run(&given).unwrap()[0]);
    let worst = got.concat().iter().zip(&want).fold(0f32, |w, (a, b)| w.max((a - b).abs()));
    assert!(want.len() == 4 * 9 * 4 && worst < 1e-6, "{worst}");
}

/// State that is given may have a type without a fixed width and an unknown rank. State that is not
/// given starts empty.
#[test]
fn state_of_strings_and_of_unknown_rank_is_carried_on() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let s = session(&[]);
    let load = |text: &str| {
        std::fs::write(d.join("m.ge"), text).unwrap();
        expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--state", "c:a"]);
        s.load_om(d.join("m.om")).unwrap()
    };
    let words = |words: &[&str]| {
        let bytes = ge_plugin_api::types::bytes_of_strings(words);
        HostTensor::from_bytes(DType::STRING, &[words.len() as u64], &bytes).unwrap()
    };
    let two = [words(&["a", "b"]), words(&["x"])];
    let model = load(
        "graph @main(%a: string[k], %x: string[1]) {
           %c = ConcatD(%a, %x) {N = 2, concat_dim = 0} : string[?]
           return %c }",
    );
    for (first, want) in [(Some(&two[0]), words(&["a", "b", "x", "x"])), (None, words(&["x", "x"]))] {
        let mut steps = ge::session::steps::Steps::new(&model).unwrap();
        first.into_iter().for_each(|t| assert!(steps.set(0, t.clone()).unwrap()));
        for _ in 0..2 {
            steps.step(vec![two[1].clone()], RunOptions::default()).unwrap();
        }
        let state = steps.state().unwrap().remove(0);
        assert_eq!((&state.dims, state.bytes()), (&want.dims, want.bytes()));
    }
    npy(&d.join("in/input_0.npy"), &two[0]);
    npy(&d.join("in/input_1.npy"), &two[1]);
    expect_code(d, 0, &["run", "m.om", "--inputs", "in", "--steps", "2", "--outputs", "out", "-q"]);
    let last = std::fs::read(d.join("out/step1/output_0.npy")).unwrap();
    let last = ge_runtime::npy::read(&last, DType::STRING).unwrap();
    assert_eq!(last.bytes(), words(&["a", "b", "x", "x"]).bytes());

    let model = load(
        "graph @main(%a: string[2], %x: i64[2]) {
           %axis = Const() {value = dense<i64[]: 0>} : i64[]
           %c = GatherV2(%a, %x, %axis) : string[2]
           return %c }",
    );
    let mut steps = ge::session::steps::Steps::new(&model).unwrap();
    assert!(steps.set(0, words(&["a", "b"])).unwrap());
    let order: Vec<u8> = [1i64, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
    for _ in 0..3 {
        let order = HostTensor::from_bytes(DType::I64, &[2], &order).unwrap();
        steps.step(vec![order], RunOptions::default()).unwrap();
    }
    assert_eq!(steps.state().unwrap()[0].bytes(), words(&["b", "a"]).bytes());

    let model = load(
        "graph @main(%a: f32[...], %x: f32[1]) {
           %c = Add(%a, %x) : f32[...]
           return %c }",
    );
    let mut steps = ge::session::steps::Steps::new(&model).unwrap();
    let said = steps.step(vec![f32s(&[1], &[1.0])], RunOptions::default()).err().unwrap().to_string();
    assert!(said.contains("`a` is of unknown rank"), "{said}");
    assert!(steps.set(0, f32s(&[2], &[2.0, 3.0])).unwrap());
    for _ in 0..3 {
        steps.step(vec![f32s(&[1], &[1.0])], RunOptions::default()).unwrap();
    }
    assert_eq!(reals(&steps.state().unwrap()[0]), [5.0, 6.0]);
}

/// Also in a model of known sizes, a step that fails leaves the state as it was: if its inputs do
/// not fit, and if a task fails on the device.
#[test]
fn a_step_of_known_sizes_that_fails_keeps_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @sum(%x: f32[2], %s: f32[2]) {
       %n = Add(%x, %s) : f32[2]
       %y = Neg(%n) : f32[2]
       return %n, %y }";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--state", "n:s"]);
    for task in 0..6 {
        let s = session(&[("fault", &format!("fail:{task}"))]);
        let model = s.load_om(d.join("m.om")).unwrap();
        let mut steps = ge::session::steps::Steps::new(&model).unwrap();
        let mut sum = 0.0;
        let mut failed = 0;
        for _ in 0..6 {
            assert!(steps.step(vec![f32s(&[3], &[1.0; 3])], RunOptions::default()).is_err());
            match steps.step(vec![f32s(&[2], &[1.0, 1.0])], RunOptions::default()) {
                Ok(_) => sum += 1.0,
                Err(_) => failed += 1,
            }
            assert_eq!(reals(&steps.state().unwrap()[0]), [sum; 2], "task {task}");
        }
        assert_eq!(failed, 1, "task {task}");
    }
}

/// Each step writes its rows into the room of the state, and the rest of the room stays as it is.
/// Every byte that a launch writes is checked all the same.
#[test]
fn a_state_that_grows_in_place_passes_the_full_check_of_races() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), cache("")).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--state", "all:past"]);
    let steps = |out: &str, more: &[&str]| {
        expect_code(d, 0, &[&["run", "m.om", "--random", "1", "--steps", "3", "--outputs", out][..], more].concat());
        ["step0", "step1", "step2"].map(|s| std::fs::read(d.join(out).join(s).join("output_0.npy")).unwrap())
    };
    assert_eq!(steps("checked", &["--device-option", "check_races=full"]), steps("plain", &[]));
}
