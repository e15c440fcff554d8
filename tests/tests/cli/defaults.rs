//! Inputs with an initializer are constants unless they are asked for as inputs. The results are
//! those of onnxruntime for the same model and arrays.
use super::made::{bytes, f32s, model, node, npy, number, read_f32s, value};
use ge_tests::expect_code;
use std::path::Path;

/// `y = x * w + k`, with initializers for the inputs `w` and `k`; the inputs are w, x, k.
fn onnx() -> Vec<u8> {
    let constant = |name: &str, dims: Vec<u8>, v: &[f32]| {
        bytes(5, [dims, number(2, 1), bytes(8, name), bytes(9, f32s(v))].concat())
    };
    let dims = [bytes(1, bytes(2, "b")), bytes(1, number(1, 4))].concat();
    let open = |field: u64, name: &str| {
        bytes(field, [bytes(1, name), bytes(2, bytes(1, [number(1, 1), bytes(2, &dims)].concat()))].concat())
    };
    let parts = [
        node("Mul", &["x", "w"], "m"),
        node("Add", &["m", "k"], "y"),
        constant("w", number(1, 4), &[1.0, 2.0, 3.0, 4.0]),
        constant("k", Vec::new(), &[10.0]),
        value(11, "w", &[4]),
        open(11, "x"),
        value(11, "k", &[]),
        open(12, "y"),
    ];
    model(13, &parts)
}

/// Results of onnxruntime 1.31.1 for `x` alone, for `x` and `w`, and for all three.
const PLAIN: [f32; 8] = [10.0, 12.0, 16.0, 22.0, 14.0, 20.0, 28.0, 38.0];
const WITH_W: [f32; 8] = [10.0, 15.0, 11.0, 16.0, 6.0, 35.0, 13.0, 24.0];
const WITH_ALL: [f32; 8] = [3.0, 8.0, 4.0, 9.0, -1.0, 28.0, 6.0, 17.0];

fn files(d: &Path) {
    std::fs::write(d.join("m.onnx"), onnx()).unwrap();
    let x = npy("<f4", "(2, 4)", &f32s(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]));
    let w = npy("<f4", "(4,)", &f32s(&[-1.0, 5.0, 0.5, 2.0]));
    let k = npy("<f4", "()", &f32s(&[3.0]));
    for (folder, list) in [("one", vec![&x]), ("two", vec![&x, &x]), ("all", vec![&w, &x, &k])] {
        std::fs::create_dir(d.join(folder)).unwrap();
        for (i, array) in list.into_iter().enumerate() {
            std::fs::write(d.join(format!("{folder}/input_{i}.npy")), array).unwrap();
        }
    }
    std::fs::write(d.join("w.npy"), w).unwrap();
}

fn gives(d: &Path, args: &[&str], want: &[f32]) {
    expect_code(d, 0, &[&["run"], args, &["--outputs", "out", "-q"]].concat());
    let y = read_f32s(&std::fs::read(d.join("out/output_0.npy")).unwrap());
    assert_eq!(y, want, "{args:?}");
}

#[test]
fn inputs_with_an_initializer_are_taken_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    files(d);
    // With open sizes, with known sizes, and (below) the model itself.
    for x in ["", "x:2,4;"] {
        expect_code(d, 0, &["compile", "m.onnx", "-o", "m.om", "-q", "--input-shape", &format!("{x}w:4;k:")]);
        gives(d, &["m.om", "--inputs", "one"], &PLAIN);
        gives(d, &["m.om", "--inputs", "one", "--input", "w=w.npy"], &WITH_W);
        gives(d, &["m.om", "--inputs", "all"], &WITH_ALL);
    }
    let said = expect_code(d, 2, &["run", "m.om", "--inputs", "two"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("found input_1.npy, and no input_2.npy, expected 1 or 3 files"), "{said}");
    gives(d, &["m.onnx", "--inputs", "one"], &PLAIN);
    gives(d, &["m.onnx", "--inputs", "one", "--input", "w=w.npy"], &WITH_W);
    gives(d, &["m.onnx", "--inputs", "all"], &WITH_ALL);
    // An input with an initializer that becomes a constant of another value.
    expect_code(d, 0, &["compile", "m.onnx", "-o", "k.om", "-q", "--input", "k=3", "--input-shape", "w:4"]);
    gives(d, &["k.om", "--inputs", "one", "--input", "w=w.npy"], &WITH_ALL);
}

#[test]
fn an_array_for_a_constant_is_refused_with_the_option_that_makes_it_an_input() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    files(d);
    expect_code(d, 0, &["compile", "m.onnx", "-o", "m.om", "-q"]);
    gives(d, &["m.om", "--inputs", "one"], &PLAIN);
    for (given, entries) in [(&["one", "--input", "w=w.npy"][..], "w:4"), (&["all"], "w:4;k:")] {
        let out = expect_code(d, 2, &[&["run", "m.om", "--inputs"], given].concat());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains(&format!("compile the model with `--input-shape \"{entries}\"`")), "{said}");
    }
    let said = expect_code(d, 2, &["run", "m.om", "--inputs", "one", "--input-shape", "w:4"]).stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("a shape is given for `w`: a constant of the compiled model"), "{said}");
    assert!(said.contains("compile the model with `--input-shape \"w:4\"`"), "{said}");
}

/// A constant cannot be a state.
#[test]
fn a_state_that_is_a_constant_is_refused_with_the_option_that_makes_it_an_input() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    files(d);
    let out = expect_code(d, 2, &["compile", "m.onnx", "-o", "m.om", "-q", "--state", "y:w"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("a state is given for `w`: a constant of the compiled model"), "{said}");
    assert!(said.contains("compile the model with `--input-shape \"w:4\"`"), "{said}");
}

/// Of `w`, `x` and `k`, the first is an input that was asked for, the last one is a constant.
#[test]
fn inspect_tells_which_inputs_have_a_default_and_which_constants_could_be_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    files(d);
    expect_code(d, 0, &["compile", "m.onnx", "-o", "m.om", "-q", "--input-shape", "w:4"]);
    let doc: serde_json::Value =
        serde_json::from_slice(&expect_code(d, 0, &["inspect", "m.om", "--json"]).stdout).unwrap();
    let inputs = doc["graphs"][0]["inputs"].as_array().unwrap();
    let told: Vec<_> = inputs.iter().map(|i| (i["name"].as_str().unwrap(), i.get("default").cloned())).collect();
    assert_eq!(told, [("w", Some(serde_json::json!({"shape": [4]}))), ("x", None)]);
    assert_eq!(doc["constant_inputs"], serde_json::json!([{"name": "k", "shape": ""}]));
    let text = String::from_utf8(expect_code(d, 0, &["inspect", "m.om"]).stdout).unwrap();
    assert!(text.contains("input  w: f32[4], default [4]\n") && text.contains("input  x: f32[b,4]\n"), "{text}");
    assert!(text.contains("const  k: an input with `ge compile --input-shape \"k:\"`"), "{text}");
    let model = ["inspect", "m.onnx", "--input-shape", "w:4"];
    let text = String::from_utf8(expect_code(d, 0, &model).stdout).unwrap();
    assert!(text.contains("input  w: f32[4], default [4]\n") && text.contains("input  x: f32[?,4]\n"), "{text}");
}
