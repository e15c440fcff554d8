//! Precision and formats end to end: the reference models in the types that a mode asks for, against references in f32.
use ge_tests::{expect_code, models};
use serde_json::Value;
use std::path::Path;

/// Compiles a reference model with options, runs every set of inputs within a tolerance for half types, gives the document.
#[track_caller]
fn compiled(dir: &Path, name: &str, args: &[&str], tolerance: &str) -> Value {
    let model = models().join(format!("{name}.onnx")).display().to_string();
    let om = format!("{name}.om");
    expect_code(dir, 0, &[&["compile", &model, "-o", &om, "-q"], args].concat());
    let sets = std::fs::read_dir(models().join(name)).unwrap().filter_map(|e| {
        let path = e.unwrap().path();
        path.file_name().unwrap().to_string_lossy().starts_with('s').then_some(path)
    });
    let mut runs = 0;
    for set in sets {
        let (inputs, expect) = (set.display().to_string(), set.join("expect").display().to_string());
        let run =
            ["run", &om, "--inputs", &inputs, "--expect", &expect, "--rtol", tolerance, "--atol", tolerance, "-q"];
        expect_code(dir, 0, &run);
        runs += 1;
    }
    assert!(runs > 0);
    serde_json::from_slice(&expect_code(dir, 0, &["inspect", &om, "--json"]).stdout).unwrap()
}

/// Names and types of output 0 of the nodes of some operator types.
fn types(document: &Value, ops: &[&str]) -> Vec<(String, String)> {
    let nodes = document["graphs"].as_array().unwrap().iter().flat_map(|g| g["nodes"].as_array().unwrap());
    nodes
        .filter(|n| ops.contains(&n["type"].as_str().unwrap()))
        .map(|n| (n["name"].as_str().unwrap().to_owned(), n["outputs"][0]["dtype"].as_str().unwrap().to_owned()))
        .collect()
}

const PRODUCTS: &[&str] = &["MatMulV2", "BatchMatMulV2", "FusedMatMul", "Conv2D", "FusedConv", "DepthwiseConv2D"];

#[test]
fn force_fp16_gives_right_results_with_casts_at_the_ends_alone() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["mlp", "lenet", "resnet_cifar"] {
        let d = compiled(dir.path(), name, &["--set", "ge.exec.precision_mode=force_fp16"], "1e-2");
        let products = types(&d, PRODUCTS);
        assert!(!products.is_empty() && products.iter().all(|(_, t)| t == "f16"), "{name}: {products:?}");
        assert_eq!(types(&d, &["Cast"]).len(), 2, "{name}: {:?}", types(&d, &["Cast"]));
        let io = [&d["graphs"][0]["inputs"], &d["graphs"][0]["outputs"]];
        assert!(io.iter().all(|l| l.as_array().unwrap().iter().all(|v| v["dtype"] == "f32")), "{name}: {io:?}");
    }
}

#[test]
fn mixed_precision_keeps_what_is_black() {
    let dir = tempfile::tempdir().unwrap();
    let d = compiled(dir.path(), "bert_l4_h256_s128", &["--set", "ge.exec.precision_mode_v2=mixed_float16"], "1e-2");
    let (white, black) = (types(&d, PRODUCTS), types(&d, &["ScaledMaskedSoftmax", "SoftmaxV2"]));
    assert!(!white.is_empty() && white.iter().all(|(_, t)| t == "f16"), "{white:?}");
    assert!(black.iter().all(|(_, t)| t == "f32"), "{black:?}");
    let d = compiled(dir.path(), "mlp", &["--set", "ge.exec.precision_mode=allow_mix_precision_bf16"], "5e-2");
    assert!(types(&d, PRODUCTS).iter().all(|(_, t)| t == "bf16"));
}

#[test]
fn files_change_colours_and_keep_nodes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("mix.json"),
        r#"{"white-list": {"to-remove": ["MatMulV2"]}, "black-list": {"to-add": ["MatMulV2", "FusedMatMul"]}}"#,
    )
    .unwrap();
    let mixed = ["--set", "ge.exec.precision_mode=allow_mix_precision", "--set", "ge.exec.modify_mixlist=mix.json"];
    let d = compiled(dir.path(), "mlp", &mixed, "1e-3");
    assert!(types(&d, PRODUCTS).iter().all(|(_, t)| t == "f32"));
    let first = types(&d, PRODUCTS)[0].0.clone();
    std::fs::write(dir.path().join("keep.txt"), format!("# these stay\n{first}\n")).unwrap();
    let keep = ["--set", "ge.exec.precision_mode=force_fp16", "--set", "ge.exec.keep_dtype=keep.txt"];
    let d = compiled(dir.path(), "mlp", &keep, "1e-2");
    for (name, t) in types(&d, PRODUCTS) {
        assert_eq!(t, if name == first { "f32" } else { "f16" }, "{name}");
    }
    // Names that the model has not are told, whatever the mode is.
    std::fs::write(dir.path().join("typo.txt"), format!("{first}\nMatMul_typo\nalso_not\n")).unwrap();
    let model = models().join("mlp.onnx").display().to_string();
    let keep = ["compile", &model, "-o", "t.om", "--set", "ge.exec.keep_dtype=typo.txt"];
    let said = String::from_utf8(expect_code(dir.path(), 2, &keep).stderr).unwrap();
    assert!(
        said.contains("ge.exec.keep_dtype `typo.txt` names what the model has not: `MatMul_typo`, `also_not`"),
        "{said}"
    );
    assert!(!dir.path().join("t.om").exists());
    std::fs::write(dir.path().join("bad.json"), r#"{"blacklist": {}}"#).unwrap();
    let model = models().join("mlp.onnx").display().to_string();
    let bad = ["--set", "ge.exec.precision_mode=allow_mix_precision", "--set", "ge.exec.modify_mixlist=bad.json"];
    let out = expect_code(dir.path(), 2, &[&["compile", &model, "-o", "b.om"], &bad[..]].concat());
    assert!(String::from_utf8_lossy(&out.stderr).contains("`blacklist` is no list"));
}

#[test]
fn the_default_follows_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let keep = ["--soc", "Ascend910B", "--set", "ge.exec.precision_mode=must_keep_origin_dtype"];
    for own in [compiled(dir.path(), "mlp", &[], "1e-4"), compiled(dir.path(), "mlp", &keep, "1e-4")] {
        assert!(types(&own, PRODUCTS).iter().all(|(_, t)| t == "f32"));
        assert_eq!(types(&own, &["Cast", "TransData"]), []);
    }
    let half = compiled(dir.path(), "mlp", &["--soc", "Ascend910B"], "1e-2");
    assert!(types(&half, PRODUCTS).iter().all(|(_, t)| t == "f16"));
    let model = models().join("mlp.onnx").display().to_string();
    for (set, said) in [(&["--soc", "Ascend910B"][..], true), (&keep, false), (&[], false)] {
        let out = expect_code(dir.path(), 0, &[&["compile", &model, "-o", "said.om"], set].concat());
        assert_eq!(
            String::from_utf8_lossy(&out.stderr).contains("f32 as f16, for force_fp16 is the default on Ascend910B"),
            said,
            "{set:?}"
        );
    }
}

#[test]
fn weights_of_half_products_are_laid_out_at_compile_time() {
    let dir = tempfile::tempdir().unwrap();
    let half = ["--set", "ge.exec.precision_mode=force_fp16"];
    let d = compiled(dir.path(), "bert_l4_h256_s128", &half, "1e-2");
    let nodes = d["graphs"][0]["nodes"].as_array().unwrap();
    let laid: Vec<&Value> = nodes.iter().filter(|n| n["outputs"][0]["format"] == "FRACTAL_NZ").collect();
    assert!(laid.len() > 20 && laid.iter().all(|n| n["type"] == "Const"), "{laid:?}");
    assert!(laid.iter().all(|n| n["outputs"][0]["origin_format"] == "ND"));
    assert_eq!(types(&d, &["TransData"]), []);
    // A layout is no other number: the same bits without it.
    let model = models().join("bert_l4_h256_s128.onnx").display().to_string();
    let off = ["compile", &model, "-o", "nd.om", "-q", "--set", "ge.optimizationSwitch=RefineRunningFormat:off"];
    expect_code(dir.path(), 0, &[&off[..], &half].concat());
    let inputs = models().join("bert_l4_h256_s128/s0").display().to_string();
    for (om, out) in [("bert_l4_h256_s128.om", "nz"), ("nd.om", "nd")] {
        expect_code(dir.path(), 0, &["run", om, "--inputs", &inputs, "--outputs", out, "-q"]);
    }
    for file in std::fs::read_dir(dir.path().join("nz")).unwrap() {
        let name = file.unwrap().file_name();
        let read = |of: &str| std::fs::read(dir.path().join(of).join(&name)).unwrap();
        assert_eq!(read("nz"), read("nd"), "{name:?}");
    }
}

#[test]
fn nodes_and_operators_have_the_types_that_a_file_gives_them() {
    let dir = tempfile::tempdir().unwrap();
    let own = compiled(dir.path(), "mlp", &[], "1e-4");
    let products = types(&own, PRODUCTS);
    let (first, last) = (&products[0].0, &products[products.len() - 1].0);
    // In the model's types but for one node; in half but for one node; an operator whatever the mode says.
    std::fs::write(dir.path().join("one.cfg"), format!("{last}::InputDtype:float16,float16\n")).unwrap();
    std::fs::write(dir.path().join("not.cfg"), format!("{first}::InputDtype:float,float,OutputDtype:float\n")).unwrap();
    std::fs::write(dir.path().join("op.cfg"), "OpType::SoftmaxV2:InputDtype:bfloat16,OutputDtype:bfloat16\n").unwrap();
    let d = compiled(dir.path(), "mlp", &["--set", "ge.customizeDtypes=one.cfg"], "1e-2");
    for (name, t) in types(&d, PRODUCTS) {
        assert_eq!(t, if name == *last { "f16" } else { "f32" }, "{name}");
    }
    let half = ["--set", "ge.exec.precision_mode=force_fp16", "--set", "ge.customizeDtypes=not.cfg"];
    for (name, t) in types(&compiled(dir.path(), "mlp", &half, "1e-2"), PRODUCTS) {
        assert_eq!(t, if name == *first { "f32" } else { "f16" }, "{name}");
    }
    let d = compiled(dir.path(), "mlp", &["--set", "ge.customizeDtypes=op.cfg"], "5e-2");
    assert!(types(&d, &["SoftmaxV2"]).iter().all(|(_, t)| t == "bf16"), "{:?}", types(&d, &["SoftmaxV2"]));
    std::fs::write(dir.path().join("bad.cfg"), "OpType::SoftmaxV2:InputDtype:int8,OutputDtype:int8\n").unwrap();
    let model = models().join("mlp.onnx").display().to_string();
    let bad = ["compile", &model, "-o", "b.om", "--set", "ge.customizeDtypes=bad.cfg"];
    let said = String::from_utf8(expect_code(dir.path(), 2, &bad).stderr).unwrap();
    assert!(said.contains("(SoftmaxV2): input 0 is f32"), "{said}");
}

/// The nearest number of `bits` bits of fraction, ties to even.
fn round(x: f64, bits: i32) -> f64 {
    let unit = 2f64.powi(x.abs().log2().floor() as i32 - bits);
    (x / unit).round_ties_even() * unit
}

/// The numbers of a `.npy` file of f32.
fn floats(path: &Path) -> Vec<f32> {
    let b = std::fs::read(path).unwrap();
    let at = 10 + usize::from(u16::from_le_bytes([b[8], b[9]]));
    b[at..].chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// What half types cost a product is what they must: inputs rounded once, summed without loss, rounded once. Other numbers than those are
/// at most one unit of the type beside them, where the sum in f32 lies near the middle of two.
#[test]
fn products_in_half_types_are_rounded_where_they_must_be_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    let data = models().join("gemm_1024/s0");
    let (model, inputs) = (models().join("gemm_1024.onnx").display().to_string(), data.display().to_string());
    let (a, b) = (floats(&data.join("input_0.npy")), floats(&data.join("input_1.npy")));
    for (mode, bits) in [("force_fp16", 10), ("allow_mix_precision_bf16", 7)] {
        let set = format!("ge.exec.precision_mode={mode}");
        expect_code(dir.path(), 0, &["compile", &model, "-o", "m.om", "-q", "--set", &set]);
        expect_code(dir.path(), 0, &["run", "m.om", "--inputs", &inputs, "--outputs", mode, "-q"]);
        let y = floats(&dir.path().join(mode).join("output_0.npy"));
        let low = |v: &[f32]| v.iter().map(|x| round(f64::from(*x), bits)).collect::<Vec<f64>>();
        let (a, b) = (low(&a), low(&b));
        let mut beside = 0;
        for (i, j) in (0..1000).map(|k| (k * 37 % 1024, k * 71 % 1024)) {
            let exact: f64 = (0..1024).map(|k| a[i * 1024 + k] * b[k * 1024 + j]).sum();
            let (want, got) = (round(exact, bits), f64::from(y[i * 1024 + j]));
            let unit = 2f64.powi(exact.abs().log2().floor() as i32 - bits);
            // The sum itself is f32's: what it loses counts where terms cancel.
            assert!((got - exact).abs() <= unit * 0.5 + 2e-4, "{mode} at {i},{j}: {got}, exactly {exact}");
            beside += usize::from(got != want);
        }
        assert!(beside <= 20, "{mode}: {beside} of 1000 lie beside");
    }
}
