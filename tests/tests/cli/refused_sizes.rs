//! Runs whose sizes do not fit: the message names the node, the sizes and what to check.
use super::made::{bytes, f32s, model, node, number, value};
use ge_tests::expect_code;
use std::path::Path;

/// A graph's input (11) or output (12): a tensor of this element type with named sizes; `None` is a
/// tensor of unknown rank.
fn open(field: u64, name: &str, elem: u64, dims: Option<&[&str]>) -> Vec<u8> {
    let shape = dims.map(|d| bytes(2, d.iter().flat_map(|s| bytes(1, bytes(2, s))).collect::<Vec<u8>>()));
    let tensor = [number(1, elem), shape.unwrap_or_default()].concat();
    bytes(field, [bytes(1, name), bytes(2, bytes(1, tensor))].concat())
}
/// An attribute with a whole number.
fn int(name: &str, v: u64) -> Vec<u8> {
    bytes(5, [bytes(1, name), number(3, v), number(20, 2)].concat())
}
/// An attribute with a subgraph.
fn graph(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let graph = [bytes(2, "b"), parts.concat()].concat();
    bytes(5, [bytes(1, name), bytes(6, graph), number(20, 5)].concat())
}
/// A node with several outputs and with attributes, named like its first output.
fn with(op: &str, inputs: &[&str], outputs: &[&str], attrs: &[Vec<u8>]) -> Vec<u8> {
    let ins = inputs.iter().flat_map(|i| bytes(1, i)).collect::<Vec<u8>>();
    let outs = outputs.iter().flat_map(|o| bytes(2, o)).collect::<Vec<u8>>();
    bytes(1, [ins, outs, bytes(3, outputs[0]), bytes(4, op), attrs.concat()].concat())
}
fn compiled(d: &Path, parts: &[Vec<u8>], also: &[&str]) {
    std::fs::write(d.join("m.onnx"), model(21, parts)).unwrap();
    expect_code(d, 0, &[&["compile", "m.onnx", "-o", "m.om", "-q"], also].concat());
}
fn said(d: &Path, code: i32, args: &[&str]) -> String {
    let out = expect_code(d, code, args);
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// A scan over `x` and `y` that adds up `x * y` of each slice.
fn scan(x: &[&str], y: &[&str]) -> Vec<Vec<u8>> {
    let body = [
        node("Mul", &["p", "q"], "pq"),
        node("Add", &["s", "pq"], "t"),
        node("Identity", &["t"], "u"),
        open(11, "s", 1, None),
        open(11, "p", 1, None),
        open(11, "q", 1, None),
        open(12, "t", 1, None),
        open(12, "u", 1, None),
    ];
    let zero = bytes(5, [number(2, 1), bytes(8, "zero"), bytes(9, f32s(&[0.0]))].concat());
    vec![
        // Their lengths are not known from the inputs.
        node("Relu", &["x"], "xr"),
        with("Scan", &["zero", "xr", "y"], &["sum", "all"], &[graph("body", &body), int("num_scan_inputs", 2)]),
        zero,
        open(11, "x", 1, Some(x)),
        open(11, "y", 1, Some(y)),
        open(12, "sum", 1, None),
        open(12, "all", 1, None),
    ]
}

#[test]
fn scanned_inputs_of_different_lengths_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    compiled(d, &scan(&["a"], &["b"]), &[]);
    let run = |code: i32, x: &str, y: &str| said(d, code, &["run", "m.om", "--input", x, "--input", y, "-q"]);
    let right = run(0, "x=[1,2,3]", "y=[4,5,6]");
    assert!(right.contains("32") && right.contains("4 14 32"), "{right}");
    for (x, y, found) in [("x=[1,2]", "y=[4,5,6]", "found 3"), ("x=[1,2,3]", "y=[4,5]", "found 2")] {
        let text = run(1, x, y);
        assert!(text.contains("length of `y`") && text.contains("`sum` scans with `xr`"), "{text}");
        assert!(text.contains(found) && text.contains("help: check the sizes"), "{text}");
    }
    // Lengths that are known differ when the model is compiled.
    let mut known = scan(&["a"], &["b"]);
    known[3] = value(11, "x", &[2]);
    known[4] = value(11, "y", &[3]);
    std::fs::write(d.join("k.onnx"), model(21, &known)).unwrap();
    let out = ge_tests::ge(d, &["compile", "k.onnx", "-o", "k.om", "-q"]);
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && text.contains("`y`") && text.contains('3') && text.contains('2'), "{text}");
}

#[test]
fn refusals_of_a_run_say_what_its_inputs_are() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let (x, y) = (open(11, "x", 1, Some(&["a", "b"])), open(11, "y", 1, Some(&["c", "d"])));
    compiled(d, &[node("MatMul", &["x", "y"], "z"), x, y, open(12, "z", 1, None)], &[]);
    let text = said(d, 1, &["run", "m.om", "--input", "x=[[1,2,3]]", "--input", "y=[[1,2]]", "-q"]);
    assert!(text.contains("at node `z` (MatMulV2)") && text.contains("found 3 and 1"), "{text}");
    assert!(
        text.contains("help: check the sizes and values") && text.contains("`x` f32[1, 3], `y` f32[1, 2]"),
        "{text}"
    );
    // A size that no machine has memory for.
    compiled(d, &[node("ConstantOfShape", &["s"], "z"), open(11, "s", 7, Some(&["k"])), open(12, "z", 1, None)], &[]);
    let text = said(d, 1, &["run", "m.om", "--input", "s=[100000000000000]", "-q"]);
    assert!(text.contains("no memory for `z`, f32[100000000000000] (400000000000000 bytes)"), "{text}");
    assert!(text.contains("help: give smaller inputs"), "{text}");
    // Parts without elements, and a number of turns that is no single number.
    let parts = [
        node("SplitToSequence", &["x", "s"], "q"),
        node("SequenceLength", &["q"], "z"),
        open(11, "x", 1, Some(&["a"])),
        open(11, "s", 7, Some(&[])),
        open(12, "z", 7, None),
    ];
    compiled(d, &parts, &[]);
    let text = said(d, 1, &["run", "m.om", "--input", "x=[1,2]", "--input", "s=0", "-q"]);
    assert!(text.contains("at node `q`") && text.contains("parts of 0; a part has at least one"), "{text}");
    let body = [
        node("Neg", &["v"], "w"),
        node("Identity", &["go"], "on"),
        open(11, "i", 7, Some(&[])),
        open(11, "go", 9, Some(&[])),
        open(11, "v", 1, None),
        open(12, "on", 9, Some(&[])),
        open(12, "w", 1, None),
    ];
    let parts = [
        with("Loop", &["n", "", "x"], &["z"], &[graph("body", &body)]),
        open(11, "x", 1, Some(&["a"])),
        open(11, "n", 7, Some(&["k"])),
        open(12, "z", 1, None),
    ];
    compiled(d, &parts, &[]);
    let text = said(d, 1, &["run", "m.om", "--input", "x=[1,2]", "--input", "n=[2,3]", "-q"]);
    assert!(text.contains("number of turns of `z`") && text.contains("found 2 elements (i64[2])"), "{text}");
}

/// The type of an optional's value is known only in the run, so no model of known sizes takes it.
#[test]
fn values_of_unknown_type_stay_outside_of_models_of_known_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let branch = |what: &str, node: Vec<u8>, out: &str| graph(what, &[node, open(12, out, 1, Some(&["d"]))]);
    let chosen = [
        branch("then_branch", node("OptionalGetElement", &["o"], "e"), "e"),
        branch("else_branch", node("Identity", &["x"], "f"), "f"),
    ];
    let none = Some(&[][..]);
    let keep = int("keepdims", 0);
    let then = [
        with("ReduceSum", &["v"], &["s"], &[keep]),
        node("Tanh", &["s"], "t"),
        node("Identity", &["n"], "n2"),
        open(12, "t", 1, none),
        open(12, "n2", 7, none),
    ];
    let otherwise = [
        node("Identity", &["k"], "u"),
        node("Identity", &["n"], "n3"),
        open(12, "u", 1, none),
        open(12, "n3", 7, none),
    ];
    let parts = [
        node("Optional", &["y"], "o"),
        node("OptionalHasElement", &["o"], "h"),
        with("If", &["h"], &["v"], &chosen),
        with("If", &["c"], &["z", "w"], &[graph("then_branch", &then), graph("else_branch", &otherwise)]),
        bytes(5, [number(2, 1), bytes(8, "k"), bytes(9, f32s(&[0.5]))].concat()),
        open(11, "x", 1, Some(&["l"])),
        open(11, "y", 1, Some(&["a"])),
        open(11, "c", 9, none),
        open(11, "n", 7, none),
        open(12, "z", 1, none),
    ];
    compiled(d, &parts, &["--set", "exec.static_model_ops_lower_limit=1"]);
    // tanh(0.25 + 0.5) of numpy.
    for (c, z) in [("c=true", "0.63514"), ("c=false", "0.5")] {
        let args = ["run", "m.om", "--input", "x=[1]", "--input", "y=[0.25,0.5]", "--input", c, "--input", "n=3", "-q"];
        let text = said(d, 0, &args);
        assert!(text.contains(z), "{text}");
    }
}
