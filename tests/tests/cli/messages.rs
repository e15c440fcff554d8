//! Messages to a user who made a mistake: what is wrong, and a line that shows how to go on.
use super::made::{model, named_node, typed};
use ge_tests::{expect_code, ge, models, root, target};
use serde_json::Value;
use std::path::Path;

fn said(d: &Path, code: i32, args: &[&str]) -> String {
    String::from_utf8_lossy(&expect_code(d, code, args).stderr).into_owned()
}
fn shown(d: &Path, args: &[&str]) -> String {
    String::from_utf8_lossy(&expect_code(d, 0, args).stdout).into_owned()
}
const TEXT: &str = "graph @main(%x: f32[4,8]) {\n  %r = Relu(%x) : f32[4,8]\n  return %r\n}\n";

#[test]
fn files_that_are_no_model_are_told_with_the_way_to_one() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let json = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let safe = [&(json.len() as u64).to_le_bytes()[..], json, &[0; 4]].concat();
    let files: [(&str, &[u8], &[&str]); 4] = [
        ("m.tflite", b"\x1c\0\0\0TFL3\0\0", &["TensorFlow Lite", "tf2onnx"]),
        ("m.safetensors", &safe, &["safetensors", "torch.onnx.export"]),
        ("m.pt", b"PK\x03\x04 archive/data.pkl", &["PyTorch", "torch.onnx.export"]),
        ("saved_model.pb", b"\x08\x01\x12\x05abcde", &["TensorFlow graph", "tf2onnx"]),
    ];
    for (name, bytes, words) in files {
        std::fs::write(d.join(name), bytes).unwrap();
        let text = said(d, 4, &["compile", name, "-o", "m.om", "-q"]);
        assert!(words.iter().all(|w| text.contains(w)) && text.contains("help: "), "{name}: {text}");
    }
    let onnx = models().join("lenet.onnx").display().to_string();
    let text = said(d, 2, &["check", &onnx]);
    assert!(text.contains("is an ONNX model: it is not compiled yet") && text.contains("ge compile"), "{text}");
    let text = said(d, 4, &["opt", &onnx]);
    assert!(text.contains("--dump prepare"), "{text}");
}

#[test]
fn a_broken_library_is_told_by_its_own_fault_in_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), TEXT).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let library = std::fs::read(target().join("libge_nn.so")).unwrap();
    std::fs::write(d.join("libge_nn.so"), &library[..library.len() / 2]).unwrap();
    let plugins = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    let plugins = plugins.replacen("schema = 1", &format!("schema = 1\nsearch = [{d:?}, {:?}]", target()), 1);
    std::fs::write(d.join("p.toml"), plugins).unwrap();
    let run = said(d, 5, &["run", "m.om", "--random", "1", "--plugins", "p.toml"]);
    let check = shown_any(d, &["check", "m.om", "--plugins", "p.toml"]);
    assert!(run.contains("libge_nn.so") && run.contains("GE-E0504"), "{run}");
    assert!(check.starts_with("no: ") && check.contains("libge_nn.so"), "{check}");
}
fn shown_any(d: &Path, args: &[&str]) -> String {
    String::from_utf8_lossy(&ge(d, args).stdout).into_owned()
}

#[test]
fn a_window_that_does_not_fit_names_the_input_whose_size_is_too_small() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%image: f32[1,1,3,3]) {
  %a = Relu(%image) : f32[1,1,3,3]
  %w = Const() {value = dense<f32[1,1,5,5]: splat 0.5>} : f32[1,1,5,5]
  %y = Conv2D(%a, %w) {pads = [0, 0, 0, 0], strides = [1, 1, 1, 1]} : f32[...]
  return %y
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let text = said(d, 3, &["compile", "m.ge", "-o", "m.om", "-q"]);
    for what in ["`y` (Conv2D)", "kernel 5", "input `image` f32[1,1,3,3]", "--input-shape \"image:"] {
        assert!(text.contains(what), "no {what} in {text}");
    }
}

#[test]
fn two_builds_of_one_model_are_compared_by_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), TEXT).unwrap();
    for om in ["a.om", "b.om"] {
        expect_code(d, 0, &["compile", "m.ge", "-o", om, "-q"]);
    }
    let text = shown(d, &["bench", "a.om", "--compare", "b.om", "--iterations", "5"]);
    let last = text.lines().last().unwrap();
    assert!(text.contains("(a.om)") && text.contains("(b.om)"), "{text}");
    assert!(last.contains("as fast as") || last.contains("equally fast"), "{text}");
}

#[test]
fn codes_of_atc_are_explained_and_short_names_of_options_work() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    assert!(shown(d, &["explain", "E10001"]).starts_with("GE-E0304"));
    std::fs::write(d.join("m.ge"), TEXT).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--set", "oo.level=O1"]);
    assert!(shown(d, &["inspect", "m.om", "--what", "options"]).contains("ge.oo.level = O1"));
    let text = said(d, 2, &["compile", "m.ge", "-o", "m.om", "--set", "precison_mode=force_fp16"]);
    assert!(text.contains("did you mean `ge.exec.precision_mode`"), "{text}");
    let all: Value =
        serde_json::from_slice(&expect_code(d, 0, &["compile", "--help-options", "--json"]).stdout).unwrap();
    let level = all["options"].as_array().unwrap().iter().find(|o| o["name"] == "ge.oo.level").unwrap();
    assert_eq!(level["values"], serde_json::json!(["O1", "O3"]));
}

#[test]
fn small_things_are_as_one_expects_them() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), TEXT).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-q"]);
    assert!(shown(d, &["inspect", "m.om", "--what", "options"]).contains("every option has its default"));
    let script = shown(d, &["completions", "bash"]);
    assert!(!script.contains("__probe") && script.contains("summary"), "values of --what, no hidden command");
    assert!(said(d, 2, &["inspect", "m.om", "--what", "summry"]).contains("summary"));
    // Names beyond those that are shown are counted.
    let text = said(d, 2, &["explain", "GE-E9999"]);
    assert!(text.contains("… and "), "{text}");
    // Numbers are printed with as many digits as f32 needs.
    let text = "graph @main(%x: f32[1]) {\n  %r = Mul(%x, %x) : f32[1]\n  return %r\n}\n";
    std::fs::write(d.join("n.ge"), text).unwrap();
    assert_eq!(shown(d, &["run", "n.ge", "--input", "x=9.5367431640625e-07", "-q"]), "r: f32[1] = 9.094947e-13\n");
    // Open sizes.
    std::fs::write(d.join("o.ge"), TEXT.replace("f32[4,8]", "f32[?,8]")).unwrap();
    assert!(shown(d, &["inspect", "o.ge"]).contains("f32[?,8]"));
    // An operator set that is newer than the known ones.
    let parts = [named_node("n", "", "Relu", &["x"], "r"), typed(11, "x", 1, &[2]), typed(12, "r", 1, &[2])];
    std::fs::write(d.join("future.onnx"), model(99, &parts)).unwrap();
    let text = said(d, 0, &["compile", "future.onnx", "-o", "f.om"]);
    assert!(text.contains("warning: ") && text.contains("opset 99"), "{text}");
}
