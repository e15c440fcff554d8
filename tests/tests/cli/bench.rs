//! `ge bench`: what it reports about nodes, and the sizes that it accepts.
use ge_tests::{expect_code, ge};
use serde_json::Value;
use std::path::Path;

fn json(d: &Path, args: &[&str]) -> Value {
    serde_json::from_slice(&expect_code(d, 0, args).stdout).expect("one JSON document")
}

/// Bytes and operations are those computed by hand from the shapes.
#[test]
fn bench_tells_operator_bytes_and_operations_of_each_node() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%a: f32[30,50], %b: f32[50,70]) {\n  %m = MatMulV2(%a, %b) : f32[30,70]\n  %t = TransposeD(%m) {perm = [1, 0]} : f32[70,30]\n  return %t\n}\n";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let doc = json(d, &["bench", "m.om", "--iterations", "3", "--per-node", "--json"]);
    let nodes = doc["nodes"].as_array().unwrap();
    let of = |op: &str| nodes.iter().find(|n| n["op"] == op).unwrap_or_else(|| panic!("no {op} in {doc:#}"));
    let product = of("MatMulV2");
    assert_eq!(product["flops"], 2 * 30 * 50 * 70);
    assert_eq!(product["bytes"], 4 * (30 * 50 + 50 * 70 + 30 * 70));
    assert_eq!(product["engine"], "AIcoreEngine");
    assert!(product["share"].as_f64().unwrap() > 0.0 && product["us"].as_f64().unwrap() > 0.0, "{doc:#}");
    let turned = of("TransposeD");
    assert!(turned["flops"].is_null() && turned["bytes"] == 2 * 4 * 30 * 70, "{doc:#}");
    let shares: f64 = nodes.iter().map(|n| n["time_share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{doc:#}");
    for rate in ["flops_per_s", "byte_ops_per_s", "bf16_ops_per_s", "bytes_per_s", "bytes_read_per_s"] {
        assert!(doc["peak"][rate].as_f64().unwrap() > 1e8, "{doc:#}");
    }
    let said = expect_code(d, 0, &["bench", "m.om", "--iterations", "1", "--per-node"]).stdout;
    assert!(String::from_utf8_lossy(&said).contains("% of the roofline"));
}

/// Random inputs for an OM of open sizes have the sizes of `--input-shape`. A named size that
/// inputs share need not be given twice.
#[test]
fn random_inputs_have_the_sizes_that_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[n,4], %y: f32[n,m]) {
  %c = ConcatD(%x, %y) {concat_dim = 1} : f32[n,?]
  return %c
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    for (shapes, want) in [("x:5,4", "(5, 6)"), ("y:3,9", "(3, 13)"), ("x:7,4;y:7,1", "(7, 5)"), ("x:?,4", "(2, 6)")] {
        expect_code(d, 0, &["run", "m.om", "--random", "1", "--input-shape", shapes, "--outputs", "o", "-q"]);
        let head = String::from_utf8_lossy(&std::fs::read(d.join("o/output_0.npy")).unwrap()[..128]).into_owned();
        assert!(head.contains(&format!("'shape': {want}")), "{shapes}: {head}");
    }
    let one = json(d, &["bench", "m.om", "--iterations", "2", "--json", "--per-node", "--input-shape", "x:5,4"]);
    assert_eq!(one["nodes"][0]["bytes"], 4 * 2 * 5 * 6, "{one:#}");
}

/// One OM of open sizes is measured at several sizes, each with its own figures.
#[test]
fn bench_takes_sizes_and_alternates_them() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[n,8]) {\n  %y = Tanh(%x) : f32[n,8]\n  return %y\n}\n";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let bench = ["bench", "m.om", "--iterations", "4", "--json", "--per-node"];
    let one = json(d, &[&bench[..], &["--shape", "x:5,8"]].concat());
    assert_eq!((one["iterations"].clone(), one["nodes"][0]["bytes"].clone()), (4.into(), (2 * 4 * 5 * 8).into()));
    std::fs::write(d.join("shapes.txt"), "# small, then large\nx:3,8\n\nx:700,8\n").unwrap();
    let two = json(d, &[&bench[..], &["--shapes", "shapes.txt"]].concat());
    assert_eq!(two["iterations"], 8);
    let shapes = two["shapes"].as_array().unwrap();
    assert_eq!(shapes.iter().map(|s| s["shape"].clone()).collect::<Vec<_>>(), ["x:3,8", "x:700,8"]);
    for (s, n) in shapes.iter().zip([3, 700]) {
        assert_eq!(s["nodes"][0]["bytes"], 2 * 4 * n * 8, "{two:#}");
        assert!(s["latency_ms"]["median"].as_f64().unwrap() > 0.0);
    }
    for (args, why) in [
        (&["--shape", "x:5,9"][..], "input `x` does not fit"),
        (&["--shape", "z:5,8"], "unknown input `z`"),
        (&["--shape", "x:?,8"], "leaves a size of input `x` open"),
        (&["--shapes", "none.txt"], "none.txt"),
        (&["--shape", "x:1,8", "--inputs", "."], "cannot be used with"),
    ] {
        let out = ge(d, &[&["bench", "m.om", "--iterations", "1"], args].concat());
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}
