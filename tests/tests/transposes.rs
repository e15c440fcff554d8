//! `TransposeMotionFusionPass` on random graphs: each output has the same numbers as without the
//! pass. `GE_LONG=2000 cargo test -p ge-tests --test suite transposes` runs that many graphs.
use ge_tests::{Chance, expect_code, long_of};
use std::fmt::Write;
use std::path::Path;

fn text(kind: &str, sizes: &[usize]) -> String {
    format!("{kind}[{}]", sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

/// A random graph of transposes, element-wise operators and sums, with vectors, single numbers,
/// reductions, paddings and concatenations between them.
fn graph(seed: u64) -> String {
    let mut c = Chance(seed);
    // Sizes that are equal, that are one, and that are prime.
    let sizes: Vec<usize> = (0..2 + c.below(3)).map(|_| [1, 2, 2, 3, 5, 7][c.below(6)]).collect();
    // Name, sizes, and for each axis the axis of the inputs that it stands for.
    let axes: Vec<usize> = (0..sizes.len()).collect();
    let mut values: Vec<(String, Vec<usize>, Vec<usize>)> =
        ["x0", "x1"].map(|x| (x.to_owned(), sizes.clone(), axes.clone())).into();
    let kind = if c.below(4) == 0 { "f16" } else { "f32" };
    let mut out = format!("graph @main(%x0: {0}, %x1: {0}, %s: {kind}[]) {{\n", text(kind, &sizes));
    let mut used = std::collections::BTreeSet::new();
    for k in 0..6 + c.below(14) {
        let (of, shape, from) = values[values.len() - 1 - c.below(values.len().min(3))].clone();
        let mut inputs = vec![of.clone()];
        let (mut to, mut axes_to) = (shape.clone(), from.clone());
        let (op, attrs) = match c.below(12) {
            turn @ 0..4 => {
                let mut perm: Vec<usize> = (0..shape.len()).collect();
                if turn < 2 && from.is_sorted() {
                    perm.rotate_left(1);
                } else if turn < 2 {
                    // Back to the order of the inputs.
                    perm.sort_by_key(|p| from[*p]);
                } else if turn == 2 {
                    (0..shape.len()).for_each(|i| perm.swap(i, c.below(shape.len())));
                } else {
                    perm.rotate_left(1);
                }
                to = perm.iter().map(|p| shape[*p]).collect();
                axes_to = perm.iter().map(|p| from[*p]).collect();
                ("TransposeD", format!(" {{perm = {perm:?}}}"))
            }
            4 => (["Tanh", "Neg", "Relu", "Abs"][c.below(4)], String::new()),
            5 => {
                inputs.push("s".into());
                ("Mul", String::new())
            }
            6 => {
                let last = shape[shape.len() - 1];
                // Its numbers all differ, so that a vector on a wrong axis is detected.
                let numbers: Vec<String> = (0..last).map(|i| format!("{}.5", i + k)).collect();
                let of = format!("{kind}[{last}]");
                writeln!(out, "  %k{k} = Const() {{value = dense<{of}: {}>}} : {of}", numbers.join(" ")).unwrap();
                inputs.push(format!("k{k}"));
                ("Sub", String::new())
            }
            // Subtracts the maximum along some axes; these axes stay, with length one.
            8 => {
                let axes: Vec<usize> = (0..shape.len()).filter(|_| c.below(2) == 0).collect();
                let axes = if axes.is_empty() { vec![shape.len() - 1] } else { axes };
                let most: Vec<usize> = (0..shape.len()).map(|i| if axes.contains(&i) { 1 } else { shape[i] }).collect();
                let of = text(kind, &most);
                writeln!(out, "  %k{k} = ReduceMaxD(%{}) {{axes = {axes:?}, keep_dims = true}} : {of}", inputs[0])
                    .unwrap();
                inputs.push(format!("k{k}"));
                ("Sub", String::new())
            }
            9 => {
                let ends: Vec<usize> = (0..2 * shape.len()).map(|_| [0, 0, 0, 1, 2][c.below(5)]).collect();
                let pairs = c.below(2) == 0;
                let rank = shape.len();
                let end = |axis: usize, e: usize| if pairs { ends[2 * axis + e] } else { ends[axis + e * rank] };
                to = (0..rank).map(|a| shape[a] + end(a, 0) + end(a, 1)).collect();
                let list: Vec<String> = ends.iter().map(usize::to_string).collect();
                let of = format!("i64[{}]", 2 * rank);
                writeln!(out, "  %k{k} = Const() {{value = dense<{of}: {}>}} : {of}", list.join(" ")).unwrap();
                inputs.push(format!("k{k}"));
                ("PadV3", format!(" {{paddings_contiguous = {pairs}}}"))
            }
            10 => {
                let alike: Vec<&String> = values.iter().filter(|v| v.1 == shape).map(|v| &v.0).collect();
                inputs.push(alike[c.below(alike.len())].clone());
                let axis = c.below(shape.len());
                to[axis] *= 2;
                ("ConcatD", format!(" {{N = 2, concat_dim = {axis}}}"))
            }
            11 if shape.iter().any(|n| n % 2 == 0) => {
                let axis = (0..shape.len()).find(|a| shape[*a] % 2 == 0).unwrap();
                to[axis] /= 2;
                let of = text(kind, &to);
                let attrs = format!("num_split = 2, split_dim = {axis}");
                writeln!(out, "  %k{k} = SplitD(%{}) {{{attrs}}} : {of}, {of}", inputs[0]).unwrap();
                inputs = vec![format!("k{k}"), format!("k{k}#1")];
                ("Add", String::new())
            }
            _ => {
                let alike: Vec<&String> = values.iter().filter(|v| v.1 == shape).map(|v| &v.0).collect();
                inputs.push(alike[c.below(alike.len())].clone());
                ("Add", String::new())
            }
        };
        used.extend(inputs.iter().cloned());
        let reads: Vec<String> = inputs.iter().map(|i| format!("%{i}")).collect();
        writeln!(out, "  %v{k} = {op}({}){attrs} : {}", reads.join(", "), text(kind, &to)).unwrap();
        values.push((format!("v{k}"), to, axes_to));
    }
    let mut results: Vec<String> =
        values.iter().skip(2).filter(|v| !used.contains(&v.0)).map(|v| format!("%{}", v.0)).collect();
    // Also return a value that may be read inside the graph.
    let inner = format!("%{}", values[2 + c.below(values.len() - 2)].0);
    if !results.contains(&inner) {
        results.push(inner);
    }
    format!("{out}  return {}\n}}\n", results.join(", "))
}

fn outputs(d: &Path, om: &str) -> Vec<Vec<u8>> {
    let to = format!("{om}.out");
    let _ = std::fs::remove_dir_all(d.join(&to));
    expect_code(d, 0, &["run", om, "--random", "7", "--outputs", &to, "-q"]);
    let read = |k: usize| std::fs::read(d.join(&to).join(format!("output_{k}.npy"))).ok();
    (0..).map_while(read).collect()
}

#[test]
fn transposes_that_move_leave_every_number_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let (mut moved, mut more) = (0, 0);
    let rounds = long_of(2000).unwrap_or(60);
    for seed in 0..rounds {
        let text = graph(seed);
        std::fs::write(d.join("m.ge"), &text).unwrap();

        let compile = |om: &str, switch: &str| {
            let switch = format!("ge.optimizationSwitch=TransposeMotionFusionPass:{switch}");
            // A fused chain of f16 rounds once, so its numbers would depend on where it begins and
            // ends.
            let chains = format!("ge.x.auto_fusion={}", !text.contains("f16"));
            expect_code(d, 0, &["compile", "m.ge", "-o", om, "-q", "--set", &switch, "--set", &chains]);
        };
        compile("on.om", "on");
        compile("off.om", "off");
        let (on, off) = (outputs(d, "on.om"), outputs(d, "off.om"));
        assert!(!on.is_empty() && on == off, "seed {seed}: other numbers\n{text}");
        let shown = |om: &str| expect_code(d, 0, &["inspect", om, "--what", "graph"]).stdout;
        let count = |om: &str| String::from_utf8_lossy(&shown(om)).matches(" TransposeD ").count();
        let (with, without) = (count("on.om"), count("off.om"));
        moved += usize::from(with < without);
        // Two transposes directly behind each other count as two, although they can be made one.
        more += usize::from(with > without);
    }
    assert!(more as u64 * 8 <= rounds, "{more} of {rounds} graphs have more transposes");
    assert!(moved as u64 * 10 >= rounds, "{moved} of {rounds} graphs have fewer transposes");
}
