//! Other programs read our OM files: Netron's own reader under Node.js shows the nodes, types and
//! shapes that `ge inspect` shows.
use ge_tests::{expect_code, root, target};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of the reader, beside a `package.json` that makes its files modules for every Node.js.
fn reader() -> PathBuf {
    let venv = target().join("../venv/lib");
    let mut packages =
        std::fs::read_dir(&venv).into_iter().flatten().flatten().map(|e| e.path().join("site-packages/netron"));
    let from = packages.find(|p| p.is_dir());
    let from = from.unwrap_or_else(|| panic!("no netron in {}: run `cargo xtask models`", venv.display()));
    let to = target().join("../netron/reader");
    std::fs::create_dir_all(&to).unwrap();
    std::fs::write(to.join("../package.json"), "{\"type\": \"module\"}\n").unwrap();
    for e in std::fs::read_dir(from).unwrap() {
        let p = e.unwrap().path();
        if p.extension().is_some_and(|x| x == "js" || x == "json") {
            std::fs::copy(&p, to.join(p.file_name().unwrap())).unwrap();
        }
    }
    to
}

fn shown(reader: &Path, om: &Path) -> Value {
    let out = Command::new("node")
        .arg(root().join("tests/reference/netron/open.mjs"))
        .arg(reader)
        .arg(om)
        .output()
        .expect("Node.js is installed");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The type of an output as Netron writes it.
fn type_of(output: &Value) -> String {
    let names = [("f32", "float32"), ("f16", "float16"), ("i64", "int64"), ("i32", "int32"), ("bool", "boolean")];
    let ours = output["dtype"].as_str().unwrap();
    let name = names.iter().find(|n| n.0 == ours).unwrap_or_else(|| panic!("{ours}")).1;
    let dims: Vec<String> = output["shape"].as_array().unwrap().iter().map(Value::to_string).collect();
    if dims.is_empty() { name.to_owned() } else { format!("{name}[{}]", dims.join(",")) }
}

#[test]
fn netron_opens_what_we_write() {
    let dir = tempfile::tempdir().unwrap();
    let digits = root().join("tests/models/digits/digits.onnx").display().to_string();
    expect_code(dir.path(), 0, &["compile", &digits, "-o", "m.om", "-q"]);
    let out = expect_code(dir.path(), 0, &["inspect", "m.om", "--json"]);
    let ours: Value = serde_json::from_slice(&out.stdout).unwrap();
    let theirs = shown(&reader(), &dir.path().join("m.om"));
    assert_eq!(theirs["format"], "DaVinci OM");
    let (ours, theirs) = (&ours["graphs"][0], &theirs["graphs"][0]);
    let theirs = theirs["nodes"].as_array().unwrap();
    let mut compared = 0;
    for n in ours["nodes"].as_array().unwrap() {
        // Netron shows constants as values of their readers.
        let Some(t) = theirs.iter().find(|t| t["name"] == n["name"]) else {
            assert_eq!(n["type"], "Const", "Netron does not show {n}");
            continue;
        };
        assert_eq!(t["type"], n["type"]);
        let (mine, shown) = (n["outputs"].as_array().unwrap(), t["outputs"].as_array().unwrap());
        for (m, s) in mine.iter().zip(shown) {
            assert_eq!(s["type"], type_of(m).as_str(), "output of {}", n["name"]);
            compared += 1;
        }
        assert_eq!(t["inputs"].as_array().unwrap().len(), n["inputs"].as_array().unwrap().len(), "{t}");
    }
    assert!(compared > 5, "{theirs:?}");
}
