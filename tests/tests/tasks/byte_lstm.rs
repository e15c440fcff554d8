//! LSTMs whose weights are bytes: the fast kernel compared with the plain one of `ort_contrib`, for
//! weights that are constants, which come packed, and for weights that only a run gives.
use super::*;

/// A graph with random bytes as weights, in the order of the operator's inputs; `all`: with every
/// optional input.
fn text(constant: bool, [s, b, i, h]: [usize; 4], kind: &str, all: bool) -> String {
    let middle: i64 = if kind == "u8" { 128 } else { 0 };
    let byte = |n: usize, seed: usize| ((n + seed * 7919) * 2_654_435_761 % 65_521 % 255) as i64 - 127 + middle;
    let given = |name: &str, k: usize, seed: usize| {
        let list: Vec<String> = (0..2 * k * 4 * h).map(|n| byte(n, seed).to_string()).collect();
        let (shape, list) = (format!("{kind}[2,{k},{}]", 4 * h), list.join(" "));
        (format!("  %{name} = Const() {{value = dense<{shape}: {list}>}} : {shape}\n"), format!(", %{name}: {shape}"))
    };
    let (w, r) = (given("w", i, 1), given("r", h, 2));
    let (consts, inputs) = if constant { (w.0 + &r.0, String::new()) } else { (String::new(), w.1 + &r.1) };
    let (more, states) = if all {
        (", %lens, %h, %c, %p".to_owned(), format!(", %h: f32[2,{b},{h}], %c: f32[2,{b},{h}], %p: f32[2,{}]", 3 * h))
    } else {
        (", _, _, _, _".to_owned(), String::new())
    };
    let lens: Vec<String> = (0..b).map(|n| (s - n.min(s)).to_string()).collect();
    format!(
        "graph @main(%x: f32[{s},{b},{i}]{inputs}, %b: f32[2,{}]{states}) {{\n{consts}\
         \x20 %s = Const() {{value = dense<f32[2]: 0.006 0.004>}} : f32[2]\n\
         \x20 %z = Const() {{value = dense<{kind}[2]: {} {middle}>}} : {kind}[2]\n\
         \x20 %lens = Const() {{value = dense<i32[{b}]: {}>}} : i32[{b}]\n\
         \x20 %y = DynamicQuantizeLSTM(%x, %w, %r, %b{more}, %s, %z, %s, %z) {{direction = \"bidirectional\"}} : \
         f32[{s},2,{b},{h}], f32[2,{b},{h}], f32[2,{b},{h}]\n  return %y, %y#1, %y#2\n}}\n",
        8 * h,
        middle + 3,
        lens.join(" ")
    )
}

#[test]
fn an_lstm_of_bytes_agrees_with_the_plain_kernel() {
    for (kind, size) in [("i8", [3, 2, 5, 19]), ("u8", [3, 1, 7, 16]), ("i8", [2, 6, 3, 4])] {
        for (constant, all) in [(true, true), (false, true), (true, false)] {
            let text = text(constant, size, kind, all);
            let fast = Compiled::new(&text, &[]);
            assert!(fast.tasks().iter().any(|t| t.contains("nn_DynamicQuantizeLSTM")), "{:#?}", fast.tasks());
            let plain = Compiled::new(&text, &["--set", "ge.exec.exclude_engines=AiCore"]);
            assert!(!plain.tasks().iter().any(|t| t.contains("nn_DynamicQuantizeLSTM")));
            let (a, b) = (fast.load(&[("check_races", "true")]), plain.load(&[]));
            for seed in 0..3 {
                let (x, y) = (a.run_random(seed).unwrap(), b.run_random(seed).unwrap());
                for (k, (x, y)) in x.iter().zip(&y).enumerate() {
                    for (i, (x, y)) in to_f32(x).iter().zip(&to_f32(y)).enumerate() {
                        let what = format!("{kind} {size:?} constant {constant}, output {k} [{i}]");
                        assert!((x - y).abs() < 1e-5, "{what}: {x}, expected {y}");
                    }
                }
            }
        }
    }
}
