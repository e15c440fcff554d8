//! Precision and formats end to end: the reference models in the types that a mode asks for,
//! compared with references in f32.
use ge_tests::{expect_code, models};
use serde_json::Value;
use std::path::Path;

/// Compiles a reference model with options, runs it on every set of inputs within a tolerance for
/// half types, and returns the document of `ge inspect`.
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

/// Names of the nodes of these operator types, with the type of output 0.
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
    // Names that the model does not have are reported, whatever the mode is.
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
            String::from_utf8_lossy(&out.stderr).contains(
                "f32 as f16 where its numbers allow it, for allow_mix_precision is the default on Ascend910B"
            ),
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
    // A layout does not change numbers: the bits are the same without it.
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
    // First the model's types except for one node, then half types except for one node, then one
    // operator with its own types whatever the mode says.
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

/// The nearest number with `bits` bits of fraction, ties to even.
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

/// Half types cost a product only what they must: inputs are rounded once, summed without loss, and
/// the sum is rounded once. Other results are at most one unit of the type away, where the sum in
/// f32 lies near the middle between two numbers.
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
            // The sum itself is in f32; its loss counts where terms cancel.
            assert!((got - exact).abs() <= unit * 0.5 + 2e-4, "{mode} at {i},{j}: {got}, exactly {exact}");
            beside += usize::from(got != want);
        }
        assert!(beside <= 20, "{mode}: {beside} of 1000 lie beside");
    }
}

fn write_floats(path: &Path, dims: &str, v: &[f32]) {
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({dims}), }}");
    let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
    let size = u16::try_from(head.len()).unwrap().to_le_bytes();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, [&b"\x93NUMPY\x01\x00"[..], &size, head.as_bytes(), &bytes].concat()).unwrap();
}

/// What a spectrogram does: sums of 512 samples of the input, squared, added up by bands, in
/// logarithms.
const SPECTROGRAM: &str = "graph @main(%sound: f32[1,512]) {
  %w = Const() {value = dense<f32[512,8]: splat 1>} : f32[512,8]
  %frame = MatMulV2(%sound, %w) : f32[1,8]
  %power = Square(%frame) : f32[1,8]
  %bands = Const() {value = dense<f32[8,4]: splat 0.25>} : f32[8,4]
  %mel = MatMulV2(%power, %bands) : f32[1,4]
  %level = Log(%mel) : f32[1,4]
  return %level
}
";

#[test]
fn a_spectrogram_is_right_by_default_and_told_where_half_precision_is_forced() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), SPECTROGRAM).unwrap();
    // Samples of 16 bits: their sums reach 1.6e7.
    write_floats(&d.join("in/input_0.npy"), "1, 512", &[32000.0; 512]);
    let compile = ["compile", "m.ge", "-o", "m.om", "--soc", "Ascend910B"];
    let run = ["run", "m.om", "--inputs", "in", "--outputs", "out"];
    let said = |out: std::process::Output| String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!said(expect_code(d, 0, &compile)).contains("warning"));
    assert!(!said(expect_code(d, 0, &run)).contains("warning"));
    // The square of 512 · 32000, eight times, each weighted by a quarter.
    let level = (512.0f64 * 32000.0).powi(2) * 2.0;
    assert!(floats(&d.join("out/output_0.npy")).iter().all(|v| (f64::from(*v) - level.ln()).abs() < 1e-3));
    let doc: Value = serde_json::from_slice(&expect_code(d, 0, &["inspect", "m.om", "--json"]).stdout).unwrap();
    assert!(types(&doc, PRODUCTS).iter().all(|(_, t)| t == "f32"), "{:?}", types(&doc, PRODUCTS));
    assert!(doc.to_string().contains("may have numbers up to 5.2e5, beyond 65504, the greatest of f16"));
    // If half precision is forced, the compiler warns, and the run names the node.
    let forced = ["--set", "ge.exec.precision_mode=force_fp16"];
    let text = said(expect_code(d, 0, &[&compile[..], &forced].concat()));
    assert!(
        text.contains("warning: ") && text.contains("`frame` (MatMulV2): its output 0 may have numbers up to 5.2e5"),
        "{text}"
    );
    let text = said(expect_code(d, 0, &run));
    for words in [
        "has numbers that are not finite though the inputs are; nodes compute in",
        "f16, as ge.exec.precision_mode=force_fp16 says",
        "`frame` (MatMulV2) is the first node that computes no finite number",
        "--calibrate DIR",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let doc: Value = serde_json::from_slice(&expect_code(d, 0, &[&run[..], &["--json"]].concat()).stdout).unwrap();
    assert_eq!(doc["warnings"].as_array().unwrap().len(), 1);
    // There is no warning if the input is not finite and the model runs in half types or in its own
    // types: the numbers are the user's own.
    write_floats(&d.join("nan/input_0.npy"), "1, 512", &[f32::INFINITY; 512]);
    assert!(!said(expect_code(d, 0, &["run", "m.om", "--inputs", "nan", "--outputs", "out"])).contains("warning"));
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om"]);
    assert!(!said(expect_code(d, 0, &["run", "m.om", "--inputs", "nan", "--outputs", "out"])).contains("warning"));
}

/// What a logarithm reads keeps its digits: a difference of a ten-thousandth of its terms, squared,
/// is zero in half precision.
#[test]
fn a_logarithm_of_small_differences_is_right_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[1,2]) {
      %w = Const() {value = dense<f32[2,2]: 1 0.5 -1 -0.25>} : f32[2,2]
      %a = MatMulV2(%x, %w) : f32[1,2]
      %b = Mul(%a, %a) : f32[1,2]
      %c = Log(%b) : f32[1,2]
      return %c
    }";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let x = [1.000_1f32, 1.0];
    write_floats(&d.join("in/input_0.npy"), "1, 2", &x);
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "--soc", "Ascend910B", "-q"]);
    expect_code(d, 0, &["run", "m.om", "--inputs", "in", "--outputs", "out", "-q"]);
    let [p, q] = x.map(f64::from);
    let want = [p - q, p * 0.5 - q * 0.25].map(|v| (v * v).ln());
    let got = floats(&d.join("out/output_0.npy"));
    assert!(got.iter().zip(want).all(|(g, w)| (f64::from(*g) - w).abs() < 1e-3), "{got:?}, expected {want:?}");
}

/// The second run, which looks for the node, starts with the values that the variables had before
/// the first run.
#[test]
fn the_run_that_looks_for_the_node_starts_with_the_variables_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    // The variable grows with each run; from the grown value, another node would leave half
    // precision.
    let text = "graph @main(%x: f32[4]) {
  %v = Variable() {init_value = dense<f32[4]: splat 1>} : f32[4]
  %grown = Muls(%v) {value = 40000} : f32[4]
  %set = Assign(%v, %grown) : f32[4]
  %early = Mul(%x, %v) : f32[4]
  %late = Muls(%early) {value = 60000} : f32[4]
  return %late, %set
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    write_floats(&d.join("in/input_0.npy"), "4,", &[2.0; 4]);
    let compile =
        ["compile", "m.ge", "-o", "m.om", "-q", "--soc", "Ascend910B", "--set", "ge.exec.precision_mode=force_fp16"];
    expect_code(d, 0, &compile);
    let out = expect_code(d, 0, &["run", "m.om", "--inputs", "in", "--outputs", "out"]);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        text.contains("`late` (")
            && !text.contains("`grown`")
            && text.contains("is the first node that computes no finite number"),
        "{text}"
    );
}

#[test]
fn calibration_keeps_in_f32_what_given_inputs_need_and_reports() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    // By what is known when it is compiled, the first product fits half precision; with these
    // inputs it does not.
    let text = "graph @main(%x: f32[4,16], %y: f32[4,8]) {
  %w = Const() {value = dense<f32[16,8]: splat 3>} : f32[16,8]
  %great = MatMulV2(%x, %w) : f32[4,8]
  %u = Const() {value = dense<f32[8,8]: splat 0.01>} : f32[8,8]
  %small = MatMulV2(%y, %u) : f32[4,8]
  %a = Abs(%great) : f32[4,8]
  return %a, %small
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    for (set, x) in [("one", 1.0f32), ("two", 3000.0)] {
        write_floats(&d.join(format!("sets/{set}/input_0.npy")), "4, 16", &[x; 64]);
        write_floats(&d.join(format!("sets/{set}/input_1.npy")), "4, 8", &[0.37; 32]);
    }
    let compile = ["compile", "m.ge", "-o", "m.om", "--soc", "Ascend910B", "--json"];
    let json = |args: &[&str]| -> Value { serde_json::from_slice(&expect_code(d, 0, args).stdout).unwrap() };
    let run = ["run", "m.om", "--inputs", "sets/two", "--outputs", "out", "-q"];
    assert!(json(&compile)["calibration"].is_null());
    expect_code(d, 0, &run);
    assert!(floats(&d.join("out/output_0.npy")).iter().all(|v| v.is_infinite()));
    let out = expect_code(d, 0, &[&compile[..], &["--calibrate", "sets"]].concat());
    let found = &serde_json::from_slice::<Value>(&out.stdout).unwrap()["calibration"];
    let kept: Vec<&str> = found["nodes_f32"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    assert!(kept.contains(&"great") && !kept.contains(&"small"), "{found}");
    assert!(found["max_rel"].as_f64().unwrap() < 1e-2 && found["max_abs"].is_number(), "{found}");
    assert!(found["before"]["max_abs"].is_null() && found["sets"] == 2, "an infinity before: {found}");
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        text.contains("calibration on 2 set(s) of inputs: ") && text.contains("outputs differ from f32 by at most"),
        "{text}"
    );
    expect_code(d, 0, &run);
    assert!(floats(&d.join("out/output_0.npy")).iter().all(|v| *v == 144_000.0));
    let doc: Value = serde_json::from_slice(&expect_code(d, 0, &["inspect", "m.om", "--json"]).stdout).unwrap();
    let of = types(&doc, PRODUCTS);
    assert!(of.iter().any(|(n, t)| n == "small" && t == "f16"), "{of:?}");
    // The option stored in the model is enough to make the same model again.
    let option = doc["options"]["ge.x.keep_dtype"].as_str().unwrap().to_owned();
    let again = std::fs::read(d.join("m.om")).unwrap();
    expect_code(d, 0, &[&compile[..], &["--set", &format!("ge.x.keep_dtype={option}")]].concat());
    assert_eq!(again, std::fs::read(d.join("m.om")).unwrap());
    // Folders without usable inputs are refused.
    std::fs::create_dir(d.join("empty")).unwrap();
    for folder in ["empty", "nowhere"] {
        let err = expect_code(d, 2, &[&compile[..], &["--calibrate", folder]].concat()).stderr;
        assert!(String::from_utf8_lossy(&err).contains(&format!("--calibrate {folder}")));
    }
}

/// An f32 mask of attention, far beyond half precision, beside half-precision queries: the result
/// is as good as in f32, even if the mask hides a whole row.
#[test]
fn attention_goes_to_half_precision_though_its_mask_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[1,8,32], %m: f32[1,1,8,8]) {
  %wq = Const() {value = dense<f32[32,32]: splat 0.05>} : f32[32,32]
  %q = BatchMatMulV2(%x, %wq) : f32[1,8,32]
  %great = Muls(%m) {value = 1e9} : f32[1,1,8,8]
  %a = PromptFlashAttention(%q, %x, %x, %great) {num_heads = 2, scale_value = 0.25, input_layout = \"BSH\"} : f32[1,8,32]
  return %a
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let x: Vec<f32> = (0..256).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    // The last row sees nothing; each other row sees the positions up to its own.
    let mask: Vec<f32> = (0..64).map(|i| if i / 8 == 7 || i % 8 > i / 8 { -1.0 } else { 0.0 }).collect();
    write_floats(&d.join("in/input_0.npy"), "1, 8, 32", &x);
    write_floats(&d.join("in/input_1.npy"), "1, 1, 8, 8", &mask);
    expect_code(d, 0, &["compile", "m.ge", "-o", "wide.om", "-q"]);
    expect_code(d, 0, &["run", "wide.om", "--inputs", "in", "--outputs", "wide", "-q"]);
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--soc", "Ascend910B"]);
    let run = ["run", "m.om", "--inputs", "in", "--expect", "wide", "--rtol", "1e-2", "--atol", "1e-2"];
    let said = expect_code(d, 0, &run).stderr;
    assert!(!String::from_utf8_lossy(&said).contains("warning"));
    let doc: Value = serde_json::from_slice(&expect_code(d, 0, &["inspect", "m.om", "--json"]).stdout).unwrap();
    assert_eq!(types(&doc, &["PromptFlashAttention"]), [("a".to_owned(), "f16".to_owned())]);
}

/// Whole numbers above 2048 do not all exist in half precision.
#[test]
fn a_cast_of_the_model_reads_the_model_s_numbers_though_half_precision_is_forced() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[1,4]) {
  %k = Cast(%x) {dst_type = i64} : i64[1,4]
  %w = Const() {value = dense<f32[4,4]: splat 0.001>} : f32[4,4]
  %y = MatMulV2(%x, %w) : f32[1,4]
  return %k, %y
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    write_floats(&d.join("in/input_0.npy"), "1, 4", &[2049.0, 3001.0, 16777.0, 100_000.0]);
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--set", "ge.exec.precision_mode=force_fp16"]);
    expect_code(d, 0, &["run", "m.om", "--inputs", "in", "--outputs", "out", "-q"]);
    let bytes = std::fs::read(d.join("out/output_0.npy")).unwrap();
    let got: Vec<i64> =
        bytes[bytes.len() - 32..].chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(got, [2049, 3001, 16777, 100_000]);
}

#[test]
fn a_list_of_colours_names_operators() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[4,8], %w: f32[8,8]) {
  %a = MatMulV2(%x, %w) : f32[4,8]
  %b = Exp(%a) : f32[4,8]
  return %b
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let compile = ["compile", "m.ge", "-o", "m.om", "--soc", "Ascend910B", "--set", "ge.exec.modify_mixlist=mix.json"];
    std::fs::write(d.join("mix.json"), r#"{"white-list": {"to-add": ["Expp"]}}"#).unwrap();
    let said = String::from_utf8(expect_code(d, 2, &compile).stderr).unwrap();
    assert!(said.contains("`mix.json` names operators that no plugin has: `Expp`"), "{said}");
    assert!(said.contains("did you mean `Exp` for `Expp`?"), "{said}");
    std::fs::write(d.join("mix.json"), r#"{"white-list": {"to-add": ["Exp", "Tanh"]}}"#).unwrap();
    let said = String::from_utf8(expect_code(d, 0, &compile).stderr).unwrap();
    assert!(said.contains("of which the model has none where types are chosen: `Tanh`"), "{said}");
    assert!(!said.contains("`Exp`"), "{said}");
}

/// A mask that the caller gives is read in f32 in every mode, so a row that it hides gives the mean
/// of the values.
#[test]
fn a_given_mask_of_attention_is_never_rounded() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[1,8,32], %m: f32[1,1,8,8]) {
  %a = PromptFlashAttention(%x, %x, %x, %m) {num_heads = 2, scale_value = 0.25, input_layout = \"BSH\"} : f32[1,8,32]
  return %a
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let x: Vec<f32> = (0..256).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    write_floats(&d.join("in/input_0.npy"), "1, 8, 32", &x);
    let mean: Vec<f32> = (0..32).map(|k| (0..8).map(|s| x[s * 32 + k]).sum::<f32>() / 8.0).collect();
    expect_code(d, 0, &["compile", "m.ge", "-o", "wide.om", "-q"]);
    let (mixed, forced) = ("allow_mix_precision", "force_fp16");
    for (fill, mode) in [(-1e9, mixed), (f32::MIN, mixed), (-65504.0, mixed), (-1e9, forced)] {
        // Row 2 sees nothing.
        let mask: Vec<f32> = (0..64).map(|i| if i / 8 == 2 || i % 8 > 5 { fill } else { 0.0 }).collect();
        write_floats(&d.join("in/input_1.npy"), "1, 1, 8, 8", &mask);
        let mode = format!("ge.exec.precision_mode={mode}");
        expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--soc", "Ascend910B", "--set", &mode]);
        expect_code(d, 0, &["run", "wide.om", "--inputs", "in", "--outputs", "wide", "-q"]);
        let run = ["run", "m.om", "--inputs", "in", "--outputs", "out", "-q"];
        expect_code(d, 0, &[&run[..], &["--expect", "wide", "--rtol", "5e-3", "--atol", "5e-3"]].concat());
        // Next to a lesser number, the scores still count.
        if fill > -1e8 {
            continue;
        }
        let got = floats(&d.join("out/output_0.npy"));
        assert!(got[64..96].iter().zip(&mean).all(|(g, w)| (g - w).abs() < 2e-3), "{fill} {mode}: {:?}", &got[64..96]);
    }
}

/// The positions of a rotary embedding reach hundreds of turns.
#[test]
fn sines_of_large_numbers_are_right_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%t: f32[4,1]) {
  %f = Const() {value = dense<f32[1,4]: 1 0.3 0.1 0.03>} : f32[1,4]
  %a = MatMulV2(%t, %f) : f32[4,4]
  %s = Sin(%a) : f32[4,4]
  %w = Const() {value = dense<f32[4,4]: 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1>} : f32[4,4]
  %y = MatMulV2(%s, %w) : f32[4,4]
  return %y
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let t = [7.3f32, 501.7, 777.1, 999.9];
    write_floats(&d.join("in/input_0.npy"), "4, 1", &t);
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "--soc", "Ascend910B", "-q"]);
    expect_code(d, 0, &["run", "m.om", "--inputs", "in", "--outputs", "out", "-q"]);
    let want = t.iter().flat_map(|t| [1f32, 0.3, 0.1, 0.03].map(|f| (f64::from(*t) * f64::from(f)).sin()));
    let got = floats(&d.join("out/output_0.npy"));
    assert!(got.iter().zip(want).all(|(g, w)| (f64::from(*g) - w).abs() < 1e-3), "{got:?}");
    let doc: Value = serde_json::from_slice(&expect_code(d, 0, &["inspect", "m.om", "--json"]).stdout).unwrap();
    assert!(types(&doc, PRODUCTS).iter().any(|(_, t)| t == "f16"), "the layer behind the sine is in half precision");
}

/// Coordinates of a picture of 1024 pixels.
#[test]
fn places_in_pictures_are_right_by_default() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[1,1,1,1024], %g: f32[1,1,64,2]) {
  %w = Const() {value = dense<f32[1,1,1,1]: 1>} : f32[1,1,1,1]
  %a = Conv2D(%x, %w) {strides = [1,1,1,1], pads = [0,0,0,0], dilations = [1,1,1,1]} : f32[1,1,1,1024]
  %b = GridSample(%a, %g) {align_corners = true} : f32[1,1,1,64]
  %c = Conv2D(%b, %w) {strides = [1,1,1,1], pads = [0,0,0,0], dilations = [1,1,1,1]} : f32[1,1,1,64]
  return %c
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    // A wave of 8 pixels, read at places between pixels.
    let wave: Vec<f32> = (0..1024).map(|i| (i as f32 * std::f32::consts::FRAC_PI_4).sin()).collect();
    let places: Vec<f32> = (0..64).map(|i| i as f32 * 15.3 + 20.4).collect();
    let grid: Vec<f32> = places.iter().flat_map(|p| [p / 511.5 - 1.0, 0.0]).collect();
    write_floats(&d.join("in/input_0.npy"), "1, 1, 1, 1024", &wave);
    write_floats(&d.join("in/input_1.npy"), "1, 1, 64, 2", &grid);
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "--soc", "Ascend910B", "-q"]);
    expect_code(d, 0, &["run", "m.om", "--inputs", "in", "--outputs", "out", "-q"]);
    let want = places.iter().map(|p| {
        let (low, part) = (p.floor() as usize, p - p.floor());
        wave[low] * (1.0 - part) + wave[low + 1] * part
    });
    let got = floats(&d.join("out/output_0.npy"));
    assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 4e-3), "{got:?}");
}
