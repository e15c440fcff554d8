//! `ge.externalWeight`: weights in the OM, in one file each, or in one file for all; shared, moved,
//! changed and missing files.
use ge_tests::{expect_code, ge, models};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn weights(dir: &Path) -> Vec<PathBuf> {
    let Ok(list) = std::fs::read_dir(dir.join("weight")) else { return Vec::new() };
    let mut v: Vec<_> = list.map(|e| e.unwrap().path()).collect();
    v.sort();
    v
}

/// Bytes of weights that `ge inspect` counts, without reading the files.
fn counted(dir: &Path, om: &str) -> u64 {
    let out = expect_code(dir, 0, &["inspect", om, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    json["memory"]["weights"].as_u64().unwrap()
}

fn output(dir: &Path, om: &str) -> Vec<u8> {
    let _ = std::fs::remove_dir_all(dir.join("out"));
    expect_code(dir, 0, &["run", om, "--random", "7", "--outputs", "out"]);
    std::fs::read(dir.join("out/output_0.npy")).unwrap()
}

#[test]
fn weights_lie_where_the_option_says_and_the_numbers_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let model = models().join("mlp.onnx");
    let model = model.to_str().unwrap();
    expect_code(d, 0, &["compile", model, "-o", "in.om"]);
    assert!(weights(d).is_empty());
    let right = output(d, "in.om");
    let inside = std::fs::metadata(d.join("in.om")).unwrap().len();
    for (value, names) in [("1", "weight_"), ("2", "ext.om_weight_combined")] {
        let set = format!("ge.externalWeight={value}");
        expect_code(d, 0, &["compile", model, "-o", "ext.om", "--set", &set]);
        let files = weights(d);
        assert!(!files.is_empty());
        let name = |p: &PathBuf| p.file_name().unwrap().to_string_lossy().into_owned();
        assert!(files.iter().all(|f| name(f).starts_with(names)), "{files:?}");
        // Whoever can read the model can read its weights.
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode();
        assert!(files.iter().all(|f| mode(f) == mode(&d.join("ext.om"))), "{files:?}");
        assert!(std::fs::metadata(d.join("ext.om")).unwrap().len() < inside / 4);
        assert!(output(d, "ext.om") == right, "{value}");
        assert_eq!(counted(d, "ext.om"), counted(d, "in.om"));
        expect_code(d, 0, &["check", "ext.om"]);
        // Paths are relative: the whole folder can be moved, and the caller can be elsewhere.
        let moved = d.join(format!("moved{value}"));
        std::fs::create_dir(&moved).unwrap();
        std::fs::rename(d.join("ext.om"), moved.join("ext.om")).unwrap();
        std::fs::rename(d.join("weight"), moved.join("weight")).unwrap();
        let om = format!("moved{value}/ext.om");
        assert!(output(d, &om) == right, "{value}");
        // One changed byte is reported as damage, whichever file it is in; a missing file is named.
        for f in weights(&moved) {
            let good = std::fs::read(&f).unwrap();
            let mut bad = good.clone();
            bad[good.len() / 2] ^= 4;
            std::fs::write(&f, &bad).unwrap();
            let out = expect_code(d, 4, &["run", &om, "--random", "7"]);
            assert!(String::from_utf8_lossy(&out.stderr).contains(&name(&f)), "{out:?}");
            expect_code(d, 4, &["check", &om]);
            std::fs::write(&f, &good[..good.len() - 1]).unwrap();
            expect_code(d, 4, &["run", &om, "--random", "7"]);
            std::fs::remove_file(&f).unwrap();
            let out = expect_code(d, 2, &["run", &om, "--random", "7"]);
            assert!(String::from_utf8_lossy(&out.stderr).contains(&name(&f)), "{out:?}");
            // The graph can be inspected all the same.
            expect_code(d, 0, &["inspect", &om]);
            std::fs::write(&f, &good).unwrap();
        }
        assert!(output(d, &om) == right, "{value}");
    }
}

#[test]
fn models_of_a_folder_share_equal_weights() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = |op: &str| {
        format!(
            "graph @main(%x: f32[4,8]) {{\n  %w = Const() {{value = dense<f32[8,8]: splat 0.5>}} : f32[8,8]\n  %v = Const() {{value = dense<f32[8,8]: splat 0.5>}} : f32[8,8]\n  %m = MatMul(%x, %w) : f32[4,8]\n  %n = MatMul(%m, %v) : f32[4,8]\n  %y = {op}(%n) : f32[4,8]\n  return %y\n}}\n"
        )
    };
    std::fs::write(d.join("a.ge"), text("Relu")).unwrap();
    std::fs::write(d.join("b.ge"), text("Neg")).unwrap();
    let set = ["--set", "ge.externalWeight=1"];
    expect_code(d, 0, &["compile", "a.ge", "-o", "a.om", set[0], set[1]]);
    let first = weights(d);
    assert_eq!(first.len(), 1, "equal weights once: {first:?}");
    let when = std::fs::metadata(&first[0]).unwrap().modified().unwrap();
    expect_code(d, 0, &["compile", "b.ge", "-o", "b.om", set[0], set[1]]);
    assert_eq!(weights(d), first);
    assert_eq!(std::fs::metadata(&first[0]).unwrap().modified().unwrap(), when, "a whole file is not written again");
    // A torn file is written again.
    std::fs::write(&first[0], b"torn").unwrap();
    expect_code(d, 4, &["run", "a.om", "--random", "1"]);
    expect_code(d, 0, &["compile", "b.ge", "-o", "b.om", set[0], set[1]]);
    expect_code(d, 0, &["run", "a.om", "--random", "1"]);
    // With a model cache, the files are the same.
    std::fs::remove_dir_all(d.join("weight")).unwrap();
    let cached = ["--set", "ge.graph_compiler_cache_dir=cache"];
    for _ in 0..2 {
        expect_code(d, 0, &["compile", "a.ge", "-o", "c.om", set[0], set[1], cached[0], cached[1]]);
        assert_eq!(weights(d), first);
        assert!(std::fs::read(d.join("a.om")).unwrap().len() == std::fs::read(d.join("c.om")).unwrap().len());
        std::fs::remove_dir_all(d.join("weight")).unwrap();
    }
    let out = ge(d, &["run", "c.om", "--random", "1"]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
}

/// Files of one folder that differ only in their ending have weights of their own.
#[test]
fn each_model_of_a_folder_has_its_own_combined_weights() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let outputs = ["m.om", "m.bin", "m"].map(|om| {
        let value = om.len();
        let text = format!(
            "graph @main(%x: f32[4,64]) {{\n  %w = Const() {{value = dense<f32[64,64]: splat {value}>}} : f32[64,64]\n  %m = MatMul(%x, %w) : f32[4,64]\n  return %m\n}}\n"
        );
        std::fs::write(d.join("m.ge"), text).unwrap();
        expect_code(d, 0, &["compile", "m.ge", "-o", om, "--set", "ge.externalWeight=2"]);
        (om, output(d, om))
    });
    assert_eq!(weights(d).len(), 3);
    for (om, right) in outputs {
        assert!(output(d, om) == right, "{om}");
    }
}
