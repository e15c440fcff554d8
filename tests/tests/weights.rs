//! Products by constant integers of eight and four bits, as quantisers leave them: the fused kernel,
//! the parts that it replaces, and a product in double precision give the same numbers.
//! `GE_LONG=500 cargo test -p ge-tests --test suite weights` runs that many models.
use ge_tests::{Chance, expect_code, long_of};
use std::path::Path;

/// A model and what it gives.
struct Case {
    text: String,
    x: String,
    want: Vec<f64>,
}

fn dense<T: ToString>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(" ")
}

/// `y = x · DequantizeLinear(q, scale, zero?)`, with blocks along the rows of the matrix or one scale
/// a column.
fn case(seed: u64) -> Case {
    let mut c = Chance(seed);
    let (m, n, k): (usize, usize, usize) =
        (c.pick(&[1, 2, 3, 5, 17, 40]), c.pick(&[1, 3, 16, 33]), c.pick(&[1, 2, 7, 32, 48, 130]));
    let (kind, low, count) = c.pick(&[("i8", -128i64, 256), ("u8", 0, 256), ("i4", -8, 16), ("u4", 0, 16)]);
    let block: usize = c.pick(&[0, 0, 2, 16, 32, 64]);
    let (turned, zeros) = (c.below(2) == 0, c.below(2) == 0);
    let groups = if block == 0 { 1 } else { k.div_ceil(block) };
    let integers = |c: &mut Chance, len: usize| (0..len).map(|_| low + c.below(count) as i64).collect::<Vec<_>>();
    let (q, z) = (integers(&mut c, n * k), integers(&mut c, groups * n));
    let scale: Vec<f32> = (0..groups * n).map(|_| (1 + c.below(15)) as f32 / 256.0).collect();
    let x: Vec<f32> = (0..m * k).map(|_| c.below(65) as f32 / 16.0 - 2.0).collect();
    // Where element (row, column) of a matrix of `rows` rows lies.
    let at = |rows: usize, i: usize, j: usize| if turned { j * rows + i } else { i * n + j };
    let weight = |l: usize, j: usize| {
        let s = at(groups, l.checked_div(block).unwrap_or(0), j);
        (q[at(k, l, j)] - if zeros { z[s] } else { 0 }) as f64 * f64::from(scale[s])
    };
    let want = (0..m * n).map(|y| (0..k).map(|l| f64::from(x[y / n * k + l]) * weight(l, y % n)).sum()).collect();
    let dims = |rows: usize| if turned { format!("{n},{rows}") } else { format!("{rows},{n}") };
    let scales = if block == 0 { n.to_string() } else { dims(groups) };
    let axis = usize::from(turned != (block == 0));
    let constant = |name: &str, ty: String, values: String| {
        format!("  %{name} = Const() {{value = dense<{ty}: {values}>}} : {ty}\n")
    };
    let text = [
        format!("graph @main(%x: f32[{m},{k}]) {{\n"),
        constant("q", format!("{kind}[{}]", dims(k)), dense(&q)),
        constant("s", format!("f32[{scales}]"), dense(&scale)),
        if zeros { constant("z", format!("{kind}[{scales}]"), dense(&z)) } else { String::new() },
        format!(
            "  %w = DequantizeLinear(%q, %s{}) {{axis = {axis}, block_size = {block}}} : f32[{}]\n",
            if zeros { ", %z" } else { "" },
            dims(k)
        ),
        format!("  %y = MatMulV2(%x, %w) {{transpose_x2 = {turned}}} : f32[{m},{n}]\n  return %y\n}}\n"),
    ];
    let rows: Vec<String> =
        x.chunks(k).map(|row| format!("[{}]", row.iter().map(f32::to_string).collect::<Vec<_>>().join(","))).collect();
    Case { text: text.concat(), x: format!("x=[{}]", rows.join(",")), want }
}

fn output(d: &Path, om: &str, x: &str) -> Vec<f64> {
    let to = format!("{om}.out");
    let _ = std::fs::remove_dir_all(d.join(&to));
    expect_code(d, 0, &["run", om, "--input", x, "--outputs", &to, "-q"]);
    let file = std::fs::read(d.join(&to).join("output_0.npy")).unwrap();
    let header = usize::from(u16::from_le_bytes([file[8], file[9]]));
    file[10 + header..].as_chunks::<4>().0.iter().map(|v| f64::from(f32::from_le_bytes(*v))).collect()
}

#[test]
fn integers_as_weights_give_the_numbers_of_their_parts() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let (mut fused, rounds) = (0, long_of(500).unwrap_or(40));
    for seed in 0..rounds {
        let Case { text, x, want } = case(seed);
        std::fs::write(d.join("m.ge"), &text).unwrap();
        for switch in ["on", "off"] {
            let pass = format!("ge.optimizationSwitch=ByteProductFusionPass:{switch}");
            let folding = "ge.oo.constantFolding=false";
            expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--set", &pass, "--set", folding]);
            let shown = expect_code(d, 0, &["inspect", "m.om", "--what", "graph"]).stdout;
            let is_fused = String::from_utf8_lossy(&shown).contains("FusedWeightMatMul");
            assert!(!is_fused || switch == "on", "seed {seed}: the pass is off\n{text}");
            fused += u64::from(is_fused);
            let got = output(d, "m.om", &x);
            assert_eq!(got.len(), want.len(), "seed {seed}\n{text}");
            for (g, w) in got.iter().zip(&want) {
                assert!((g - w).abs() <= 1e-4 * w.abs().max(1.0), "seed {seed}, {switch}: {g} for {w}\n{text}");
            }
        }
    }
    assert!(fused * 10 >= rounds * 9, "{fused} of {rounds} products read their integers");
}
