//! `ge compare`: two models node by node, and a model against reference files.
use ge_tests::{expect_code, ge};
use std::path::Path;

const TEXT: &str = "graph @main(%x: f32[4,8]) {
  %c = Const() {value = dense<f32[8]: 1 2 3 4 5 6 7 8>} : f32[8]
  %a = Add(%x, %c) : f32[4,8]
  %v = Reshape(%a) {shape = [8, 4]} : f32[8,4]
  %r = Relu(%v) : f32[8,4]
  return %r
}
";

fn compiled(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(format!("{name}.ge")), text).expect("written");
    expect_code(dir, 0, &["compile", &format!("{name}.ge"), "-o", &format!("{name}.om"), "-q"]);
}

fn json(dir: &Path, code: i32, args: &[&str]) -> serde_json::Value {
    let out = expect_code(dir, code, &[args, &["--json", "-q"]].concat());
    serde_json::from_slice(&out.stdout).expect("one document")
}

#[test]
fn the_first_tensor_that_differs_is_named_with_its_measure() {
    let dir = tempfile::tempdir().expect("a folder");
    let d = dir.path();
    compiled(d, "a", TEXT);
    compiled(d, "b", &TEXT.replace("1 2 3", "1 2.5 3"));
    let same = json(d, 0, &["compare", "a.om", "a.ge", "--random", "3"]);
    assert_eq!(same["same"], true);
    assert!(same["compared"].as_u64().expect("a count") >= 4, "{same}");
    let other = json(d, 1, &["compare", "a.om", "b.om", "--random", "3"]);
    let first = &other["first"];
    assert_eq!((first["node"].as_str(), first["type"].as_str()), (Some("a"), Some("Add")), "{other}");
    assert_eq!(first["element"], 1);
    assert!((first["max_abs"].as_f64().expect("a number") - 0.5).abs() < 1e-6, "{first}");
    assert_eq!((first["elements"].as_u64(), first["of"].as_u64()), (Some(4), Some(32)));
    // The node without a task is compared with its counterpart as well.
    let nodes = other["nodes"].as_array().expect("a list");
    let view = nodes.iter().find(|n| n["node"] == "v").expect("the reshape is compared");
    assert_eq!((view["no_task"].as_bool(), view["same"].as_bool()), (Some(true), Some(false)));
    let said = ge(d, &["compare", "a.om", "b.om", "--random", "3"]);
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.starts_with("first difference: `a` (Add, ") && text.contains("element 1:"), "{text}");
    // A tolerance that covers the difference.
    expect_code(d, 0, &["compare", "a.om", "b.om", "--random", "3", "--atol", "0.6", "-q"]);
}

/// A node of a loop computes once in each turn: each turn is compared with the same turn of the
/// other model.
#[test]
fn turns_of_loops_are_compared_one_by_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let d = dir.path();
    let model = ge_tests::root().join("tests/models/kinds/written");
    let (onnx, inputs) = (model.join("model.onnx").display().to_string(), model.join("s0").display().to_string());
    expect_code(d, 0, &["compile", &onnx, "-o", "m.om", "-q"]);
    let told = json(d, 0, &["compare", "m.om", &onnx, "--inputs", &inputs]);
    let turns = |n: &&serde_json::Value| n["node"].as_str().is_some_and(|n| n.ends_with("_cond/Less"));
    let nodes = told["nodes"].as_array().expect("a list");
    assert!(nodes.iter().filter(turns).count() > 2, "{told}");
    assert_eq!(told["same"], true, "{told}");
    for side in ["only_a", "only_b"] {
        let names = told[side].as_array().expect("a list").iter().filter_map(serde_json::Value::as_str);
        assert_eq!(names.filter(|n| n.ends_with("_cond/Less")).count(), 0, "{told}");
    }
}

#[test]
fn reference_files_are_paired_by_node_and_by_position() {
    let dir = tempfile::tempdir().expect("a folder");
    let d = dir.path();
    compiled(d, "a", TEXT);
    compiled(d, "b", &TEXT.replace("7 8>", "7 9>"));
    expect_code(d, 0, &["run", "b.om", "--random", "3", "--dump-tensors", "ref", "--outputs", "ref", "-q"]);
    let folder = json(d, 1, &["compare", "a.om", "ref", "--random", "3"]);
    assert_eq!(folder["first"]["node"], "a", "{folder}");
    assert_eq!(json(d, 0, &["compare", "b.om", "ref", "--random", "3"])["same"], true);
    // One file stands for the only output.
    assert_eq!(json(d, 0, &["compare", "b.om", "ref/output_0.npy", "--random", "3"])["compared"], 1);
    assert_eq!(json(d, 1, &["compare", "a.om", "ref/output_0.npy", "--random", "3"])["first"]["type"], "NetOutput");
    // Files that name nothing of the model, and a file that is no archive.
    std::fs::create_dir(d.join("other")).expect("made");
    std::fs::copy(d.join("ref/a_0.npy"), d.join("other/z_0.npy")).expect("copied");
    let e = expect_code(d, 2, &["compare", "a.om", "other", "--random", "3", "-q"]);
    assert!(String::from_utf8_lossy(&e.stderr).contains("GE-E0804"));
    std::fs::write(d.join("bad.npz"), b"PK\x03\x04 and no more").expect("written");
    expect_code(d, 4, &["compare", "a.om", "bad.npz", "--random", "3", "-q"]);
    expect_code(d, 2, &["compare", "a.om", "missing.npz", "--random", "3", "-q"]);
}
