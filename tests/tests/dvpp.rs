//! Pictures through `ge compile` and `ge run` on the OM: resizing, cropping and colour conversion
//! by DNN_VM_DVPP, from text and from ONNX.
use ge_tests::expect_code;
use std::path::Path;

fn npy(shape: &str, data: &[u8]) -> Vec<u8> {
    let mut h = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
    while (11 + h.len()) % 64 != 0 {
        h.push(' ');
    }
    h.push('\n');
    [b"\x93NUMPY\x01\x00".to_vec(), (h.len() as u16).to_le_bytes().to_vec(), h.into_bytes(), data.to_vec()].concat()
}

fn output(dir: &Path) -> Vec<u8> {
    let b = std::fs::read(dir.join("out/output_0.npy")).expect("an output");
    b[10 + usize::from(u16::from_le_bytes([b[8], b[9]]))..].to_vec()
}

/// A picture of 4 by 6 pixels: red depends on the row, green on the column, blue on both.
fn picture() -> Vec<u8> {
    (0..4u8).flat_map(|i| (0..6u8).flat_map(move |j| [i * 40, j * 40, (i + j) * 20])).collect()
}

fn run(dir: &Path, text: &str) -> Vec<u8> {
    std::fs::write(dir.join("m.ge"), text).expect("written");
    std::fs::create_dir_all(dir.join("in")).expect("made");
    std::fs::write(dir.join("in/input_0.npy"), npy("(4, 6, 3)", &picture())).expect("written");
    expect_code(dir, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let engines = expect_code(dir, 0, &["inspect", "m.om", "--what", "graph", "--json"]);
    assert!(String::from_utf8_lossy(&engines.stdout).contains("DNN_VM_DVPP"));
    expect_code(
        dir,
        0,
        &["run", "m.om", "--inputs", "in", "--outputs", "out", "-q", "--device-option", "check_races=true"],
    );
    output(dir)
}

#[test]
fn a_picture_is_cut_turned_and_doubled() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = "graph @main(%x: u8[4,6,3]) {
  %c = CropImage(%x) {top = 1, left = 2, height = 2, width = 3} : u8[2,3,3]
  %b = ConvertImage(%c) {from = \"RGB\", to = \"BGR\"} : u8[2,3,3]
  %r = ResizeImage(%b) {height = 4, width = 6, interpolation = \"nearest\"} : u8[4,6,3]
  return %r
}
";
    let want: Vec<u8> = (0..4usize)
        .flat_map(|i| (0..6usize).map(move |j| ((1 + i / 2) as u8, (2 + j / 2) as u8)))
        .flat_map(|(i, j)| [(i + j) * 20, j * 40, i * 40])
        .collect();
    assert_eq!(run(dir.path(), text), want);
}

#[test]
fn luma_and_linear_resizing_meet_their_definition() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = "graph @main(%x: u8[4,6,3]) {
  %r = ResizeImage(%x) {height = 2, width = 3} : u8[2,3,3]
  %g = ConvertImage(%r) {to = \"Grayscale\"} : u8[2,3,1]
  return %g
}
";
    // Halving takes the mean of four pixels; luma is 0.299 R + 0.587 G + 0.114 B.
    let want: Vec<u8> = (0..2u32)
        .flat_map(|i| (0..3u32).map(move |j| (f64::from(i * 80 + 20), f64::from(j * 80 + 20))))
        .map(|(r, g)| (0.299 * r + 0.587 * g + 0.114 * ((r + g) / 2.0).round()).round() as u8)
        .collect();
    assert_eq!(run(dir.path(), text), want);
}

#[test]
fn what_leaves_the_picture_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("a folder");
    for (attrs, why) in [
        ("CropImage(%x) {top = 3, left = 0, height = 2, width = 2}", "leaves the picture"),
        ("ConvertImage(%x) {from = \"NV12\"}", "no NV12 picture"),
        ("ResizeImage(%x) {height = 0, width = 2}", "without pixels"),
    ] {
        let text = format!("graph @main(%x: u8[4,6,3]) {{\n  %c = {attrs} : u8[2,2,3]\n  return %c\n}}\n");
        std::fs::write(dir.path().join("m.ge"), text).expect("written");
        let out = expect_code(dir.path(), 3, &["compile", "m.ge", "-o", "m.om", "-q"]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(why), "{said}");
        assert!(said.contains("m.ge:2:3"), "the line of the node: {said}");
    }
}

/// ONNX models with nodes of the domain `ge.image` among those of `ai.onnx`; the outputs equal
/// numpy's bit for bit.
#[test]
fn pictures_of_an_onnx_model_are_those_of_numpy() {
    for name in ["classifier_front", "grey"] {
        crate::models::small("pictures", name, ["0", "0"], &[]);
    }
    // A wrong attribute is reported with the node and the file: the width of the crop becomes 40
    // instead of 12.
    let dir = tempfile::tempdir().expect("a folder");
    let model = ge_tests::root().join("tests/models/pictures/classifier_front/model.onnx");
    let mut bytes = std::fs::read(model).expect("the model");
    let key = b"width\x18\x0c";
    let at = bytes.windows(key.len()).position(|w| w == key).expect("the crop's width") + key.len() - 1;
    bytes[at] = 40;
    std::fs::write(dir.path().join("m.onnx"), bytes).expect("written");
    let out = expect_code(dir.path(), 3, &["compile", "m.onnx", "-o", "m.om", "-q"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        said.contains("`c` (CropImage)") && said.contains("m.onnx") && said.contains("leaves the picture"),
        "{said}"
    );
}
