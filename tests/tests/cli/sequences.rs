//! `ge run`, `ge compare` and `ge bench` for models whose inputs and outputs are sequences or
//! strings.
use super::made::{bytes, f32s, model, node, npy, number, typed, value};
use ge_tests::expect_code;
use serde_json::Value;
use std::path::Path;

/// A model with two outputs. `parts`: the rows of `x + 1`, or of `x + x`; `more`: the sequence
/// `given` with that sum appended as one tensor.
fn onnx(plus: &str) -> Vec<u8> {
    let one = bytes(5, [number(2, 1), bytes(8, "one"), bytes(9, f32s(&[1.0]))].concat());
    let seq = |field: u64, name: &str| {
        let tensor = bytes(1, number(1, 1));
        bytes(field, [bytes(1, name), bytes(2, bytes(4, bytes(1, tensor)))].concat())
    };
    let parts = [
        node("Add", &["x", plus], "a"),
        node("SplitToSequence", &["a"], "parts"),
        node("SequenceInsert", &["given", "a"], "more"),
        one,
        value(11, "x", &[3, 2]),
        seq(11, "given"),
        seq(12, "parts"),
        seq(12, "more"),
    ];
    model(13, &parts)
}

fn files(d: &Path) {
    for (name, plus) in [("a", "one"), ("b", "x")] {
        std::fs::write(d.join(format!("{name}.onnx")), onnx(plus)).unwrap();
        expect_code(d, 0, &["compile", &format!("{name}.onnx"), "-o", &format!("{name}.om"), "-q"]);
    }
    std::fs::create_dir_all(d.join("in/input_1")).unwrap();
    // 1 + 1 is the same in both models, so the first row is equal.
    let x = npy("<f4", "(3, 2)", &f32s(&[1.0, 1.0, 2.0, 1.0, 1.0, 9.0]));
    std::fs::write(d.join("in/input_0.npy"), x).unwrap();
    std::fs::write(d.join("in/input_1/0.npy"), npy("<f4", "(1,)", &f32s(&[7.0]))).unwrap();
}

fn compared(d: &Path, code: i32, args: &[&str]) -> (Value, Vec<(String, bool)>) {
    let out = expect_code(d, code, &[&["compare"], args, &["--inputs", "in", "--json", "-q"]].concat());
    let doc: Value = serde_json::from_slice(&out.stdout).expect("one document");
    let outputs = doc["nodes"].as_array().unwrap().iter().filter(|n| n["type"] == "NetOutput");
    let one = |n: &Value| (n["tensor"].as_str().unwrap().to_owned(), n["same"] == true);
    let list = outputs.map(one).collect();
    (doc, list)
}

#[test]
fn sequences_are_compared_element_by_element() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    files(d);
    let names = ["parts", "more", "parts[0]", "parts[1]", "parts[2]", "more[0]", "more[1]"];
    let want = |differ: &[&str]| names.map(|n| (n.to_owned(), !differ.contains(&n))).to_vec();
    assert_eq!(compared(d, 0, &["a.om", "a.onnx"]).1, want(&[]));
    let (doc, list) = compared(d, 1, &["a.om", "b.om"]);
    assert_eq!(list, want(&["parts[1]", "parts[2]", "more[1]"]));
    let differs = doc["nodes"].as_array().unwrap().iter().find(|n| n["tensor"] == "parts[2]").unwrap();
    // 9 + 1 against 9 + 9.
    assert_eq!((&differs["element"], &differs["a"], &differs["b"]), (&1.into(), &10.0.into(), &18.0.into()));
    // Files as `ge run --outputs` writes them, then with one element missing.
    expect_code(d, 0, &["run", "b.om", "--inputs", "in", "--outputs", "out", "-q"]);
    assert_eq!(compared(d, 0, &["b.om", "out"]).1, want(&[]));
    std::fs::remove_file(d.join("out/output_0/2.npy")).unwrap();
    let (doc, list) = compared(d, 1, &["b.om", "out"]);
    assert_eq!(list.iter().filter(|l| !l.1).map(|l| l.0.as_str()).collect::<Vec<_>>(), ["parts"]);
    assert_eq!(doc["first"]["reason"], "a sequence of 3 and a sequence of 2");
}

#[test]
fn models_with_sequences_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    files(d);
    let args = ["bench", "a.om", "--inputs", "in", "--iterations", "3", "--warmup", "1", "--per-node", "--json"];
    let doc: Value = serde_json::from_slice(&expect_code(d, 0, &args).stdout).unwrap();
    assert_eq!(doc["iterations"], 3);
    assert!(doc["latency_ms"]["median"].as_f64().unwrap() > 0.0, "{doc:#}");
    assert!(doc["nodes"].as_array().unwrap().iter().any(|n| n["op"] == "Add"), "{doc:#}");
    let said = expect_code(d, 2, &["bench", "a.om"]).stderr;
    assert!(String::from_utf8_lossy(&said).contains("input `given` is no tensor of numbers: give it with `--inputs`"));
}

#[test]
fn a_damaged_element_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    files(d);
    std::fs::write(d.join("in/input_1/0.npy"), "junk").unwrap();
    expect_code(d, 4, &["run", "a.om", "--inputs", "in", "-q"]);
}

#[test]
fn strings_are_results_also_as_constants_and_are_compared_as_strings() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    // An initializer that is a result itself, beside the same behind an operator and a number.
    let w = bytes(5, [number(1, 1), number(2, 8), bytes(6, "a"), bytes(8, "w")].concat());
    let nodes = [node("StringConcat", &["w", "w"], "y"), node("Relu", &["x"], "z")];
    let outs = [typed(12, "w", 8, &[1]), typed(12, "y", 8, &[1]), value(12, "z", &[2])];
    let m = model(20, &[&nodes[..], &[w, value(11, "x", &[2])], &outs].concat());
    std::fs::write(d.join("m.onnx"), m).unwrap();
    expect_code(d, 0, &["compile", "m.onnx", "-o", "m.om", "-q"]);
    let run = ["run", "m.om", "--input", "x=[-1,2]", "--outputs", "out", "-q"];
    expect_code(d, 0, &run);
    let told = expect_code(d, 0, &["run", "m.om", "--input", "x=[-1,2]", "-q"]);
    assert_eq!(String::from_utf8_lossy(&told.stdout), "w: string[1] = \"a\"\ny: string[1] = \"aa\"\nz: f32[2] = 0 2\n");
    let compare = ["compare", "m.om", "out", "--input", "x=[-1,2]", "--atol", "9", "-q"];
    expect_code(d, 0, &compare);
    std::fs::write(d.join("out/output_1.npy"), npy("<U2", "(1,)", &[b'a', 0, 0, 0, b'b', 0, 0, 0])).unwrap();
    let said = expect_code(d, 1, &compare);
    assert!(String::from_utf8_lossy(&said.stdout).contains("\"aa\" and \"ab\""), "{said:?}");
}
