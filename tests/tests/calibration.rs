//! `ge compile --calibrate` on models whose outputs, variables, loops, parts and gears need care: the
//! calibrated model gives what the model in f32 gives, and the summary tells the truth.
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::npy;
use ge_tests::expect_code;
use serde_json::Value;
use std::path::Path;

const HALF: [&str; 4] = ["--soc", "Ascend910B", "--set", "ge.exec.precision_mode=force_fp16"];
const HYBRID: [&str; 4] = ["--dim", "b=2,4", "--set", "ge.compileHybridMode=1"];

/// Makes `%s` of `%x`, by way of numbers that half precision does not hold.
fn overflow(s: &str, x: &str, rows: &str) -> String {
    "%big = Const() {value = dense<f32[2,2]: 40000 10000 10000 40000>} : f32[2,2]
     %small = Const() {value = dense<f32[2,2]: 0.0001 0 0 0.0001>} : f32[2,2]
     %grown = MatMulV2(GIVEN, %big) : f32[ROWS,2]
     %tanh = Tanh(GIVEN) : f32[ROWS,2]
     %sum = Add(%grown, %tanh) : f32[ROWS,2]
     RESULT = MatMulV2(%sum, %small) : f32[ROWS,2]"
        .replace("RESULT", s)
        .replace("GIVEN", x)
        .replace("ROWS", rows)
}

fn save(path: &Path, dims: &[u64], values: &[f32]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(path, npy::write(&HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()).unwrap()).unwrap();
}

/// Compiles `m.ge` three times: in f32, in half precision, and calibrated on the folder `in`. Checks
/// that the outputs of half precision are wrong and those of the calibrated model are right, and
/// returns the calibration.
fn calibrated(d: &Path, text: &str, more: &[&str]) -> Value {
    std::fs::write(d.join("m.ge"), text).unwrap();
    let compile = |om: &str, flags: &[&str]| {
        expect_code(d, 0, &[&["compile", "m.ge", "-o", om, "--json"], more, flags].concat()).stdout
    };
    compile("wide.om", &[]);
    compile("half.om", &HALF);
    let doc = compile("m.om", &[&HALF[..], &["--calibrate", "in"]].concat());
    expect_code(d, 0, &["run", "wide.om", "--inputs", "in", "--outputs", "wide", "-q"]);
    let expect = |om: &str, code| {
        let tolerances = ["--rtol", "1e-2", "--atol", "1e-2"];
        expect_code(d, code, &[&["run", om, "--inputs", "in", "--expect", "wide", "-q"][..], &tolerances].concat());
    };
    expect("half.om", 1);
    expect("m.om", 0);
    let found = serde_json::from_slice::<Value>(&doc).unwrap()["calibration"].take();
    assert!(found["max_rel"].as_f64().unwrap() < 1e-2, "{found}");
    for kind in ["classes_changed", "values_changed", "sizes_changed"] {
        assert_eq!(found[kind], 0, "{found}");
    }
    assert_ne!(found["nodes_f32"], serde_json::json!([]), "{found}");
    found
}

#[test]
fn integers_must_be_those_of_f32() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = format!(
        "graph @main(%x: f32[2,2]) {{
           {}
           %y = ArgMaxD(%s) {{dimension = 1}} : i32[2]
           return %y }}",
        overflow("%s", "%x", "2")
    );
    save(&d.join("in/input_0.npy"), &[2, 2], &[2.0, 3.0, 1.0, 2.5]);
    let found = calibrated(d, &text, &[]);
    assert_ne!(found["before"]["values_changed"], 0, "{found}");
}

#[test]
fn sizes_must_be_those_of_f32() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    // In half precision, the products are zero.
    let text = "graph @main(%x: f32[2,2]) {
      %w = Const() {value = dense<f32[2,2]: splat 1e-9>} : f32[2,2]
      %tiny = MatMulV2(%x, %w) : f32[2,2]
      %t = Tanh(%tiny) : f32[2,2]
      %y = NonZero(%t) : i64[2,?]
      return %y }";
    save(&d.join("in/input_0.npy"), &[2, 2], &[2.0, 3.0, 1.0, 2.5]);
    let found = calibrated(d, text, &[]);
    assert_eq!(found["before"]["sizes_changed"], 1, "{found}");
}

#[test]
fn every_run_begins_with_the_same_variables() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[2,2]) {
      %v = Variable() {init_value = dense<f32[2,2]: splat 0.5>} : f32[2,2]
      %m = MatMulV2(%x, %v) : f32[2,2]
      %a = AssignAdd(%v, %m) : f32[2,2]
      %y = Relu(%a) : f32[2,2]
      return %y }";
    std::fs::write(d.join("m.ge"), text).unwrap();
    save(&d.join("in/a/input_0.npy"), &[2, 2], &[2.0, 3.0, 1.0, 2.5]);
    save(&d.join("in/b/input_0.npy"), &[2, 2], &[1.0, -3.0, 0.5, 2.0]);
    let compile = ["compile", "m.ge", "-o", "m.om", "--json", "--calibrate", "in"];
    let doc: Value = serde_json::from_slice(&expect_code(d, 0, &[&compile[..], &HALF].concat()).stdout).unwrap();
    let found = &doc["calibration"];
    assert!(found["before"]["max_rel"].as_f64().unwrap() < 1e-2, "{found}");
    assert_eq!(found["nodes_f32"], serde_json::json!([]), "{found}");
}

/// The layout of the variable is changed by the compiler; each model of the calibration has its own.
#[test]
fn a_variable_in_another_layout_is_calibrated_and_run_with() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[3,2], %w: f32[2,2]) {
      %v = Variable() : f32[2,3]
      %t = TransposeD(%v) {perm = [1, 0]} : f32[3,2]
      %m = Add(%x, %t) : f32[3,2]
      %p = MatMul(%m, %w) : f32[3,2]
      return %p }";
    std::fs::write(d.join("m.ge"), text).unwrap();
    save(&d.join("in/input_0.npy"), &[3, 2], &[1.0; 6]);
    save(&d.join("in/input_1.npy"), &[2, 2], &[1.0; 4]);
    let compile = ["compile", "m.ge", "-o", "m.om", "-q"];
    expect_code(d, 0, &[&compile[..], &HALF].concat());
    expect_code(d, 0, &["run", "m.om", "--inputs", "in"]);
    // The run that looks for the node to blame has the variable, too.
    save(&d.join("great/input_0.npy"), &[3, 2], &[60000.0; 6]);
    save(&d.join("great/input_1.npy"), &[2, 2], &[1.0; 4]);
    let out = expect_code(d, 0, &["run", "m.om", "--inputs", "great"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("`p` (") && said.contains("is the first node that computes no finite number"), "{said}");
    expect_code(d, 0, &[&compile[..], &HALF, &["--calibrate", "in"]].concat());
}

#[test]
fn nodes_of_parts_of_known_shape_are_told_and_blamed() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = format!(
        "graph @main(%x: f32[n], %z: f32[2,2]) {{
           {}
           %total = ReduceSumD(%x) {{axes = [0]}} : f32[]
           %y = Add(%s, %total) : f32[2,2]
           return %y }}",
        overflow("%s", "%z", "2")
    );
    save(&d.join("in/input_0.npy"), &[3], &[1.0, 2.0, 3.0]);
    save(&d.join("in/input_1.npy"), &[2, 2], &[2.0, 3.0, 1.0, 2.5]);
    let known = ["--set", "ge.x.known_first=1", "--set", "ge.exec.static_model_ops_lower_limit=1"];
    calibrated(d, &text, &known);
    let out = expect_code(d, 0, &["run", "half.om", "--inputs", "in"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("has numbers that are not finite") && said.contains("`sum` ("), "{said}");
}

#[test]
fn loops_are_calibrated_turn_by_turn() {
    for rows in ["2", "n"] {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path();
        let text = format!(
            "graph @main(%i: f32[], %x: f32[{rows},2]) {{
               %w = While(%i, %x) {{body = @turn, cond = @go}} : f32[], f32[{rows},2]
               return %w#1 }}
             graph @go(%i1: f32[], %x1: f32[{rows},2]) {{
               %three = Const() {{value = dense<f32[]: 3>}} : f32[]
               %c = Less(%i1, %three) : bool[]
               return %c }}
             graph @turn(%i2: f32[], %x2: f32[{rows},2]) {{
               %one = Const() {{value = dense<f32[]: 1>}} : f32[]
               %k = Add(%i2, %one) : f32[]
               {}
               %half = Muls(%s) {{value = 0.2}} : f32[{rows},2]
               return %k, %half }}",
            overflow("%s", "%x2", rows)
        );
        save(&d.join("in/input_0.npy"), &[], &[0.0]);
        save(&d.join("in/input_1.npy"), &[2, 2], &[2.0, 3.0, 1.0, 2.5]);
        calibrated(d, &text, &[]);
    }
}

/// With sizes of no gear, another model runs. What it computes has its own nodes' names.
#[test]
fn sizes_of_no_gear_are_calibrated_compared_and_told_by_the_nodes_that_ran() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = format!("graph @main(%x: f32[b,2]) {{ {} return %s }}", overflow("%s", "%x", "b"));
    save(&d.join("in/input_0.npy"), &[3, 2], &[2.0, 3.0, 1.0, 2.5, -1.0, 2.0]);
    calibrated(d, &text, &HYBRID);
    let out = expect_code(d, 0, &["run", "half.om", "--inputs", "in"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("`sum` (") && !said.contains("MapIndex"), "{said}");
    let open = ["compile", "m.ge", "-o", "open.om", "-q"];
    expect_code(d, 0, &open);
    let out = expect_code(d, 0, &["compare", "wide.om", "open.om", "--inputs", "in", "--json"]).stdout;
    let told: Value = serde_json::from_slice(&out).unwrap();
    assert!(told["nodes"].as_array().unwrap().iter().any(|n| n["node"] == "sum"), "{told}");
    assert_eq!(told["only_a"], serde_json::json!([]), "{told}");
}
