//! Sources other than inputs and constants of the model's own file: constants whose bytes are in
//! another file, and inputs for prepared images, of known and of open sizes.
use ge_tests::expect_code;
use std::path::Path;

fn says(dir: &Path, code: i32, args: &[&str]) -> String {
    let out = expect_code(dir, code, args);
    String::from_utf8(if code == 0 { out.stdout } else { out.stderr }).unwrap()
}

/// Adds a row, the second half of the file, to each row of the input.
fn model(n: &str, attrs: &str) -> String {
    format!(
        "graph @main(%x: f32[{n},3]) {{
  %c = FileConstant() {{{attrs}}} : f32[3]
  %y = Add(%x, %c) : f32[{n},3]
  return %y
}}
"
    )
}

#[test]
fn a_constant_of_a_file_has_the_bytes_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let bytes: Vec<u8> = [1f32, 2.0, 3.0, 10.0, 20.0, 30.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::create_dir(d.join("weights")).unwrap();
    std::fs::write(d.join("weights/w.bin"), bytes).unwrap();
    let attrs = "length = 12, location = \"weights/w.bin\", offset = 12";
    for n in ["2", "n"] {
        std::fs::write(d.join("m.ge"), model(n, attrs)).unwrap();
        expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
        let said = says(d, 0, &["run", "m.om", "--input", "x=[[0,1,2],[3,4,5]]", "-q"]);
        assert_eq!(said, "y: f32[2,3] = 10 21 32 13 24 35\n");
    }
    let beyond = model("2", &attrs.replace("offset = 12", "offset = 16"));
    let longer = model("2", &attrs.replace("length = 12", "length = 8"));
    let missing = model("2", "location = \"none.bin\"");
    let nowhere = model("2", "offset = 0");
    let outside = model("2", "location = \"../w.bin\"");
    let open = model("2", attrs).replace(": f32[3]\n  %y", ": f32[k]\n  %y");
    for (text, code, what) in [
        (beyond, 2, "24 bytes in the file; offset 16, length 12"),
        (longer, 2, "12 bytes for f32[3]"),
        (missing, 2, "`none.bin`, which cannot be read"),
        (nowhere, 2, "names no file"),
        (outside, 4, "leaves the model's folder"),
        (open, 4, "a type or a shape that is open"),
    ] {
        std::fs::write(d.join("m.ge"), text).unwrap();
        let said = says(d, code, &["compile", "m.ge", "-o", "m.om", "-q"]);
        let named = said.contains("`c`") || said.contains("(FileConstant)");
        assert!(said.contains(what) && named, "{what}: {said}");
    }
}

#[test]
fn prepared_images_may_have_any_size() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main() {
  %a = AippData() {index = 0} : f32[n,2]
  %r = Relu(%a) : f32[n,2]
  return %r
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    assert_eq!(says(d, 0, &["run", "m.om", "--input", "a=[[1,-2]]", "-q"]), "r: f32[1,2] = 1 0\n");
    assert_eq!(says(d, 0, &["run", "m.om", "--input", "a=[[1,-2],[-3,4]]", "-q"]), "r: f32[2,2] = 1 0 0 4\n");
}
