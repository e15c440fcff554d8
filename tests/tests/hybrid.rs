//! Gears and a model of open sizes in one file: what they share, and how such a file can be stored.
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::{expect_code, models};
use serde_json::Value;
use std::path::Path;

const HYBRID: [&str; 2] = ["--set", "compileHybridMode=1"];

/// Runs a model on data of `dynamic_batch`, inside and outside the gears 1 and 8.
fn check(d: &Path, om: &str) {
    for (s, gear) in [(0, true), (1, false), (2, true), (1, false)] {
        let data = models().join(format!("dynamic_batch/s{s}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        let doc = expect_code(d, 0, &["run", om, "--inputs", &inputs, "--expect", &expect, "--json"]).stdout;
        let doc: Value = serde_json::from_slice(&doc).unwrap();
        assert_eq!(doc["gear"]["outside"].is_null(), gear, "{doc}");
    }
}

#[test]
fn weights_of_both_stand_in_the_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let model = models().join("dynamic_batch.onnx").display().to_string();
    let compile = |om: &str, more: &[&str]| {
        expect_code(d, 0, &[&["compile", &model, "-o", om, "--dim", "N=1,8"][..], more].concat());
        std::fs::metadata(d.join(om)).unwrap().len()
    };
    let gears = compile("gears.om", &[]);
    let both = compile("both.om", &HYBRID);
    let open = {
        expect_code(d, 0, &["compile", &model, "-o", "open.om"]);
        std::fs::metadata(d.join("open.om")).unwrap().len()
    };
    // Most of each file is weights, which are the same in both.
    assert!(both < gears + open / 4, "{both} bytes, gears {gears}, open sizes {open}");
    check(d, "both.om");
    // With weights in files beside the OM: one file each, or one for all.
    for (folder, mode) in [("each", "1"), ("one", "2")] {
        let om = format!("{folder}/m.om");
        std::fs::create_dir(d.join(folder)).unwrap();
        let option = format!("ge.externalWeight={mode}");
        assert!(compile(&om, &[&HYBRID[..], &["--set", &option]].concat()) < both / 2);
        check(d, &om);
        let first = std::fs::read_dir(d.join(folder).join("weight")).unwrap().next().unwrap().unwrap().path();
        std::fs::remove_file(first).unwrap();
        let data = models().join("dynamic_batch/s1").display().to_string();
        expect_code(d, 2, &["run", &om, "--inputs", &data]);
    }
    // The model cache gives the same file.
    let cache = ["--set", "ge.graph_compiler_cache_dir=cache"];
    for _ in 0..2 {
        compile("kept.om", &[&HYBRID[..], &cache].concat());
        assert_eq!(std::fs::read(d.join("kept.om")).unwrap(), std::fs::read(d.join("both.om")).unwrap());
    }
    assert!(d.join("cache").read_dir().unwrap().next().is_some());
    // Also under another name, which the model for sizes of no gear follows.
    std::fs::copy(&model, d.join("other.onnx")).unwrap();
    let other = ["compile", "other.onnx", "-o", "found.om", "--dim", "N=1,8"];
    let said = expect_code(d, 0, &[&other[..], &HYBRID, &cache].concat()).stderr;
    assert!(String::from_utf8_lossy(&said).contains("cache hit"), "{said:?}");
    let data = models().join("dynamic_batch/s1").display().to_string();
    let doc = expect_code(d, 0, &["run", "found.om", "--inputs", &data, "--json"]).stdout;
    let doc: Value = serde_json::from_slice(&doc).unwrap();
    assert_eq!(doc["gear"]["outside"], "other_outside", "{doc}");
    check(d, "kept.om");
}

#[test]
fn steps_go_on_from_gears_to_other_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    // Outputs that a fusion makes in one node keep their names in both models.
    let text = "graph @main(%x: f32[1,2], %past: f32[n,2]) {
       %all = ConcatD(%past, %x) {N = 2, concat_dim = 0} : f32[?,2]
       %e = Exp(%all) : f32[?,2]
       %t = ReduceSumD(%e) {axes = [0]} : f32[2]
       return %t, %all }";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let state = ["--state", "all:past", "-q"];
    let gears = ["--dim", "n=1,2"];
    expect_code(d, 0, &[&["compile", "m.ge", "-o", "both.om"][..], &gears, &HYBRID, &state].concat());
    expect_code(d, 0, &[&["compile", "m.ge", "-o", "open.om"][..], &state].concat());
    let x = HostTensor::from_bytes(DType::F32, &[1, 2], &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xbf]).unwrap();
    let past = HostTensor::zeroed(DType::F32, &[1, 2]).unwrap();
    std::fs::create_dir(d.join("in")).unwrap();
    std::fs::write(d.join("in/input_0.npy"), ge_runtime::npy::write(&x).unwrap()).unwrap();
    std::fs::write(d.join("in/input_1.npy"), ge_runtime::npy::write(&past).unwrap()).unwrap();
    for om in ["both", "open"] {
        let (file, out) = (format!("{om}.om"), format!("out_{om}"));
        expect_code(d, 0, &["run", &file, "--inputs", "in", "--steps", "6", "--outputs", &out, "-q"]);
    }
    for (step, k) in (0..6).flat_map(|step| [(step, 0), (step, 1)]) {
        let read = |om: &str| {
            let file = std::fs::read(d.join(format!("out_{om}/step{step}/output_{k}.npy"))).unwrap();
            ge_runtime::npy::read(&file, DType::F32).unwrap()
        };
        let (a, b) = (read("both"), read("open"));
        assert_eq!((a.dims.as_slice(), a.bytes()), (b.dims.as_slice(), b.bytes()), "step {step}, output {k}");
    }
    let pair = "graph @main(%x: f32[n,2], %s: f32[n,2]) {
       %t = Add(%x, %s) : f32[n,2]
       %u = Exp(%t) : f32[n,2]
       return %u, %t }";
    std::fs::write(d.join("p.ge"), pair).unwrap();
    expect_code(d, 0, &[&["compile", "p.ge", "-o", "p.om", "-q"][..], &["--dim", "n=1,4"], &HYBRID].concat());
    for x in ["x=[[1,2]]", "x=[[1,2],[3,4]]"] {
        expect_code(d, 0, &["run", "p.om", "--input", x, "--input", &x.replace('x', "s"), "-q"]);
    }
}
