//! Gears: one OM with several static plans; each run takes the plan for the sizes of its inputs.
//! State: an output of one run that the next run takes as an input.
use ge::options::OptionMap;
use ge::session::{Model, Session, SessionOptions, gears, symbols};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::RunOptions;
use ge_tests::{expect_code, models, root, target};
use serde_json::Value;
use std::path::Path;

/// Two streams within each gear: both halves of the work run side by side, and the node that joins
/// them waits for events.
const FORK: &str = "graph @main(%x: f32[b,16]) {
  %p = Exp(%x) {_stream_label = \"one\"} : f32[b,16]
  %q = Abs(%x) {_stream_label = \"two\"} : f32[b,16]
  %r = Neg(%q) {_stream_label = \"two\"} : f32[b,16]
  %s = Add(%p, %r) {_stream_label = \"one\"} : f32[b,16]
  %t = ReduceSumD(%s) {axes = [1]} : f32[b]
  return %s, %t
}
";
const UNFUSED: &[&str] = &["--set", "ge.x.auto_fusion=false"];

pub(crate) fn session(device_options: &[(&str, &str)]) -> Session {
    let dir = tempfile::tempdir().unwrap();
    let plugins = dir.path().join("plugins.toml");
    let text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    std::fs::write(&plugins, text.replacen("schema = 1", &format!("schema = 1\nsearch = [{:?}]", target()), 1))
        .unwrap();
    let device_options = device_options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Session::new(SessionOptions { plugins: Some(plugins), device_options, ..SessionOptions::default() }).unwrap()
}

pub(crate) fn f32s(dims: &[u64], v: &[f32]) -> HostTensor {
    let bytes: Vec<u8> = v.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}
pub(crate) fn reals(t: &HostTensor) -> Vec<f32> {
    t.view().values::<f32>().unwrap().to_vec()
}
pub(crate) fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_slice(&expect_code(dir, 0, args).stdout).unwrap()
}
pub(crate) fn npy(path: &Path, t: &HostTensor) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, ge_runtime::npy::write(t).unwrap()).unwrap();
}

/// Compiles `FORK` for three gears and loads it.
fn fork(s: &Session) -> Model {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.ge");
    std::fs::write(&path, FORK).unwrap();
    let mut graph = s.import(&path, "").unwrap();
    symbols::apply(&mut graph, "").unwrap();
    let asked = gears::Asked { by_name: vec!["b=1,4,8".into()], ..gears::Asked::default() };
    gears::apply(&mut graph, &asked).unwrap();
    let mut options = OptionMap::default();
    options.set("ge.x.auto_fusion", "false", "the test").unwrap();
    let compiled = s.compile("m", graph, &options, &ge::session::Quiet).unwrap();
    compiled.write_om(&dir.path().join("m.om")).unwrap();
    s.load_om(dir.path().join("m.om")).unwrap()
}

fn input(b: u64) -> HostTensor {
    f32s(&[b, 16], &(0..b * 16).map(|i| (i as f32 * 0.37 + b as f32).sin()).collect::<Vec<_>>())
}
fn check(b: u64, out: &[HostTensor]) {
    let x = reals(&input(b));
    let want: Vec<f32> = x.iter().map(|v| v.exp() - v.abs()).collect();
    assert_eq!((out[0].dims.as_slice(), out[1].dims.as_slice()), (&[b, 16][..], &[b][..]));
    let near = |a: &[f32], b: &[f32]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 + 1e-5 * b.abs())
    };
    assert!(near(&reals(&out[0]), &want), "gear of {b}");
    let sums: Vec<f32> = want.chunks(16).map(|r| r.iter().sum()).collect();
    assert!(reals(&out[1]).iter().zip(&sums).all(|(a, b)| (a - b).abs() < 1e-4), "gear of {b}");
}

#[test]
fn three_gears_give_what_onnxruntime_gives_and_the_nearest_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let model = models().join("dynamic_batch.onnx").display().to_string();
    expect_code(d, 0, &["compile", &model, "-o", "m.om", "-q", "--dim", "N=1,3,8"]);
    let doc = json(d, &["inspect", "m.om", "--json"]);
    let dims: Vec<&Value> = doc["gears"].as_array().unwrap().iter().map(|g| &g["dims"]["N"]).collect();
    assert_eq!(dims, [1, 3, 8]);
    assert_eq!(json(d, &["inspect", "m.om", "--what", "gears", "--json"])["gears"], doc["gears"]);
    let text = String::from_utf8(expect_code(d, 0, &["inspect", "m.om", "--what", "gears"]).stdout).unwrap();
    let shown: Vec<&str> =
        text.lines().filter_map(|l| l.trim_start().strip_prefix("gear   ")?.split(':').next()).collect();
    assert_eq!(shown, ["N=1", "N=3", "N=8"], "{text}");
    assert_eq!(doc["graphs"][0]["shape"], "known");
    assert_eq!(doc["graphs"][0]["inputs"].as_array().unwrap().len(), 1);
    assert_eq!(doc["graphs"][0]["inputs"][0]["shape"], serde_json::json!([-1, 3, 32, 32]));
    // All gears share the memory of the largest one.
    let held: Vec<u64> = doc["gears"].as_array().unwrap().iter().map(|g| g["memory"].as_u64().unwrap()).collect();
    let arena = doc["memory"]["HBM"]["size"].as_u64().unwrap() - doc["memory"]["HBM"]["zero_copy"].as_u64().unwrap();
    assert!(held[0] < held[2] && arena < held[2] + 64 * 1024, "{held:?} in {arena}");
    for (s, n) in [(0, 1), (1, 3), (2, 8)] {
        let data = models().join(format!("dynamic_batch/s{s}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        let run = json(d, &["run", "m.om", "--inputs", &inputs, "--expect", &expect, "--json", "--profile", "p.json"]);
        assert_eq!((&run["gear"]["dims"], &run["gear"]["index"]), (&serde_json::json!({"N": n}), &s.into()));
        let trace: Value = serde_json::from_slice(&std::fs::read(d.join("p.json")).unwrap()).unwrap();
        assert_eq!(trace["otherData"]["gear"]["dims"], serde_json::json!({"N": n}));
    }
    npy(&d.join("in/input_0.npy"), &HostTensor::zeroed(DType::F32, &[6, 3, 32, 32]).unwrap());
    let out = expect_code(d, 2, &["run", "m.om", "--inputs", "in", "-q"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("GE-E0327") && said.contains("no gear for N=6") && said.contains("nearest is N=8"), "{said}");
    assert!(said.contains("--dim N=1,3,6,8"), "{said}");
    // A wrong size in a dimension that no gear sets is another error.
    npy(&d.join("in/input_0.npy"), &HostTensor::zeroed(DType::F32, &[1, 3, 16, 32]).unwrap());
    let said = String::from_utf8(expect_code(d, 2, &["run", "m.om", "--inputs", "in", "-q"]).stderr).unwrap();
    assert!(said.contains("GE-E0302"), "{said}");
}

/// Sizes inside and outside the gears through one OM: which gear each run reports, and the numbers
/// of onnxruntime.
#[test]
fn sizes_of_no_gear_run_beside_the_gears_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let model = models().join("dynamic_batch.onnx").display().to_string();
    let hybrid = ["--set", "compileHybridMode=1"];
    // Gears for the first and the last of the sizes that have references.
    let args = [&["compile", &model, "-o", "m.om", "-q", "--dim", "N=1,8"][..], &hybrid].concat();
    expect_code(d, 0, &args);
    let doc = json(d, &["inspect", "m.om", "--json"]);
    assert_eq!((doc["gears"].as_array().unwrap().len(), &doc["graphs"][0]["shape"]), (2, &"known".into()));
    assert_eq!(
        (&doc["parts"][0]["name"], &doc["parts"][0]["graphs"][0]["shape"]),
        (&"dynamic_batch_outside".into(), &"unknown".into())
    );
    let text = String::from_utf8(expect_code(d, 0, &["inspect", "m.om"]).stdout).unwrap();
    assert!(text.contains("any    dynamic_batch_outside: sizes of no gear"), "{text}");
    let exec = String::from_utf8(expect_code(d, 0, &["inspect", "m.om", "--what", "exec"]).stdout).unwrap();
    assert!(exec.contains("round"), "{exec}");
    for (s, n, gear) in [(0, 1, Some(0)), (1, 3, None), (2, 8, Some(1)), (1, 3, None)] {
        let data = models().join(format!("dynamic_batch/s{s}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        let run = json(d, &["run", "m.om", "--inputs", &inputs, "--expect", &expect, "--json", "--profile", "p.json"]);
        let trace: Value = serde_json::from_slice(&std::fs::read(d.join("p.json")).unwrap()).unwrap();
        assert_eq!(trace["otherData"]["gear"], run["gear"]);
        match gear {
            Some(k) => assert_eq!((&run["gear"]["dims"]["N"], &run["gear"]["index"]), (&n.into(), &Value::from(k))),
            None => assert_eq!(run["gear"], serde_json::json!({"outside": "dynamic_batch_outside"})),
        }
        let ran = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").count();
        assert!(ran > 0, "{trace}");
    }
    // What neither takes is refused by name, and so is the option without any gear.
    npy(&d.join("in/input_0.npy"), &HostTensor::zeroed(DType::F32, &[2, 3, 16, 32]).unwrap());
    let said = String::from_utf8(expect_code(d, 2, &["run", "m.om", "--inputs", "in", "-q"]).stderr).unwrap();
    assert!(said.contains("GE-E0302"), "{said}");
    let none = [&["compile", &model, "-o", "n.om", "-q"][..], &hybrid].concat();
    let said = String::from_utf8(expect_code(d, 2, &none).stderr).unwrap();
    assert!(said.contains("GE-E0326") && said.contains("--dim"), "{said}");
    // In every schedule, in turn with gears, on one loaded model.
    std::fs::write(d.join("m.ge"), FORK).unwrap();
    let args = [&["compile", "m.ge", "-o", "f.om", "-q", "--dim", "b=1,4,8"][..], &hybrid, UNFUSED].concat();
    expect_code(d, 0, &args);
    for seed in 0..4 {
        let s = session(&[("schedule", &format!("random:{seed}")), ("check_races", "true")]);
        let m = s.load_om(d.join("f.om")).unwrap();
        for b in [4, 2, 8, 13, 1, 2, 13] {
            let out = m.run_views(&[input(b).view()], RunOptions::default()).unwrap();
            assert_eq!(out.gear, [1, 4, 8].iter().position(|g| *g == b));
            check(b, &out.outputs);
            check(b, &m.run_owned(vec![input(b)], RunOptions::default()).unwrap().outputs);
        }
        assert_eq!(m.plans(), 2, "a plan for each size of no gear");
    }
}

/// `run_mut` relies on it: no run of a gear has anything to write back.
#[test]
fn memory_that_the_caller_lends_has_no_gears() {
    let text = "graph @main(%x: f32[b,2]) {
  %r = RefData() {index = 1} : f32[2]
  %axes = Const() {value = dense<i64[1]: 0>} : i64[1]
  %s = ReduceSum(%x, %axes) {keep_dims = false} : f32[2]
  %a = AssignAdd(%r, %s) : f32[2]
  %y = Add(%x, %a) : f32[b,2]
  return %y
}";
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), text).unwrap();
    for hybrid in ["0", "1"] {
        let set = format!("compileHybridMode={hybrid}");
        let out = expect_code(d, 3, &["compile", "m.ge", "-o", "m.om", "-q", "--dim", "b=1,4", "--set", &set]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains("GE-E0329") && said.contains("`r` (RefData) cannot have gears"), "{said}");
    }
}

#[test]
fn gears_share_memory_and_event_ids_and_are_right_in_every_schedule() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), FORK).unwrap();
    expect_code(d, 0, &[&["compile", "m.ge", "-o", "m.om", "-q", "--dim", "b=1,4,8"][..], UNFUSED].concat());
    let doc = json(d, &["inspect", "m.om", "--json"]);
    let of = |k: usize, key: &str| doc["gears"][k][key].clone();
    // Each gear alone needs as many event ids as the others, and all use the same ids (004 §4.3.4).
    assert!(!of(0, "events").as_array().unwrap().is_empty());
    assert!(of(0, "events") == of(1, "events") && of(1, "events") == of(2, "events"), "{:?}", doc["gears"]);
    std::fs::write(d.join("one.ge"), FORK.replace("[b", "[8")).unwrap();
    expect_code(d, 0, &[&["compile", "one.ge", "-o", "one.om", "-q"][..], UNFUSED].concat());
    let one = json(d, &["inspect", "one.om", "--json"]);
    let inside = of(0, "events").as_array().unwrap().len() as u64;
    assert!(doc["event_num"].as_u64().unwrap() <= inside + one["event_num"].as_u64().unwrap() + 4, "{doc}");
    let labels: Vec<&str> = doc["graphs"][0]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|n| n["type"] == "Exp")
        .map(|n| n["attrs"]["_batch_label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["Batch_0", "Batch_1", "Batch_2"]);
    for seed in 0..6 {
        let s = session(&[("schedule", &format!("random:{seed}")), ("check_races", "true")]);
        let m = fork(&s);
        for b in [4, 1, 8, 1, 4] {
            let x = input(b);
            let out = m.run_views(&[x.view()], RunOptions::default()).unwrap();
            assert_eq!(out.gear, [1, 4, 8].iter().position(|g| *g == b));
            check(b, &out.outputs);
        }
    }
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_thousand_switches_of_gears_take_no_memory() {
    let s = session(&[]);
    let m = fork(&s);
    let turn = |n: usize| {
        for i in 0..n {
            let b = [1, 4, 8][(i * 7 + i / 5) % 3];
            check(b, &m.run(&[input(b)]).unwrap());
        }
    };
    turn(100);
    let before = resident();
    turn(1000);
    let grown = resident().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes more after 1,000 runs");
}

#[test]
fn names_of_atc_give_the_same_gears() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let image = "graph @main(%x: f32[1,2,?,?]) { %a = Abs(%x) : f32[1,2,?,?] %r = ReduceSumD(%a) {axes = [2]} : f32[1,2,?] return %r }";
    std::fs::write(d.join("i.ge"), image).unwrap();
    let sizes = |args: &[&str]| -> Vec<Value> {
        expect_code(d, 0, &[&["compile", "i.ge", "-o", "i.om", "-q"][..], args].concat());
        json(d, &["inspect", "i.om", "--json"])["gears"]
            .as_array()
            .unwrap()
            .iter()
            .map(|g| g["inputs"].clone())
            .collect()
    };
    let want = [serde_json::json!([[1, 2, 4, 6]]), serde_json::json!([[1, 2, 3, 9]])];
    assert_eq!(sizes(&["--dynamic-image-size", "4,6;3,9"]), want);
    assert_eq!(sizes(&["--dynamic_image_size", "4,6;3,9"]), want);
    assert_eq!(sizes(&["--dynamic-dims", "4,6;3,9"]), want);
    assert_eq!(sizes(&["--set", "ge.dynamicDims=4,6;3,9"]), want);
    let run = |h: u64, w: u64| {
        npy(&d.join("in/input_0.npy"), &f32s(&[1, 2, h, w], &vec![-1.0; (2 * h * w) as usize]));
        json(d, &["run", "i.om", "--inputs", "in", "--outputs", "out", "--json"])["gear"]["dims"].clone()
    };
    // This gear has fewer rows than the other one, but more columns.
    assert_eq!(run(3, 9).as_object().unwrap().values().collect::<Vec<_>>(), [3, 9]);
    let out = ge_runtime::npy::read(&std::fs::read(d.join("out/output_0.npy")).unwrap(), DType::F32).unwrap();
    assert_eq!((out.dims.as_slice(), reals(&out)), (&[1, 2, 9][..], vec![3.0; 18]));
    let batch = ["--input-shape", "x:-1,2,4,6", "--dynamic_batch_size", "1,2"];
    std::fs::write(d.join("i.ge"), image.replace("[1,2,?", "[?,2,?")).unwrap();
    assert_eq!(sizes(&batch), [serde_json::json!([[1, 2, 4, 6]]), serde_json::json!([[2, 2, 4, 6]])]);
    for bad in [
        &["--dim", "b=1,2"][..],
        &["--dynamic-batch-size", "1,2"],
        &["--dynamic-dims", "1;2"],
        &["--dynamic-dims", "1,2,3"],
    ] {
        let said = expect_code(d, 2, &[&["compile", "i.ge", "-o", "n.om", "-q"][..], bad].concat()).stderr;
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("GE-E0326") || said.contains("GE-E0303"), "{said}");
    }
}

/// Scans, one within another and one from the back, and a loop whose count is a size. The expected
/// numbers are those of onnxruntime 1.31.1 (tests/models/make_gear_scans.py).
#[test]
fn scans_and_scan_outputs_of_loops_are_right_in_every_gear() {
    for name in ["scan", "nested", "counted"] {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path();
        let of = root().join("tests/models/gear_scans").join(name);
        let model = of.join("model.onnx").display().to_string();
        expect_code(d, 0, &["compile", &model, "-o", "m.om", "-q", "--dim", "b=1,4,7"]);
        assert_eq!(json(d, &["inspect", "m.om", "--json"])["graphs"][0]["shape"], "known", "{name}");
        for (k, b) in [1, 4, 7].into_iter().enumerate() {
            let data = of.join(format!("s{k}"));
            let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
            for schedule in ["schedule=fifo", "schedule=random:3"] {
                let chance = ["--device-option", schedule, "--device-option", "check_races=true"];
                let run = [&["run", "m.om", "--inputs", &inputs, "--expect", &expect, "--json"][..], &chance].concat();
                assert_eq!(json(d, &run)["gear"]["dims"], serde_json::json!({"b": b}), "{name}");
            }
        }
    }
}

/// What a gear leaves to the run (texts, sequences, sizes that depend on values, loops without a
/// turn) is planned by the run. The gear is chosen all the same, and what is known of it was
/// planned before.
#[test]
fn gears_that_leave_something_to_the_run_are_right_and_no_other_sizes_run() {
    let all = [
        ("open/detection", "8,8;16,24;33,47;64,40;97,128"),
        ("kinds/chosen", "1,5;3,10;2,0;7,60;0,4"),
        ("kinds/experts", "1;2;0;17;80"),
        ("kinds/scanned", "1,1;4,3;30,2;5,0;0,2"),
        ("kinds/ragged", "1,1;5,2;16,4;120,3;12,12"),
        ("texts/moved", "2,3;1,1;3,2"),
        ("texts/named", "2;1;3"),
        ("learned/named_forest_of_three", "20;21"),
    ];
    for (name, gears) in all {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path();
        let of = root().join("tests/models").join(name);
        let model = of.join("model.onnx").display().to_string();
        expect_code(d, 0, &["compile", &model, "-o", "m.om", "-q", "--dynamic-dims", gears]);
        let doc = json(d, &["inspect", "m.om", "--json"]);
        let of_gear = |g: &Value| {
            let sizes = g["dims"].as_object().unwrap().values().cloned().collect::<Vec<_>>();
            (sizes, g["graph"].as_str().unwrap().to_owned())
        };
        let listed: Vec<_> = doc["gears"].as_array().unwrap().iter().map(of_gear).collect();
        assert_eq!((listed.len(), &doc["graphs"][0]["shape"]), (gears.split(';').count(), &"unknown".into()), "{name}");
        let text = String::from_utf8(expect_code(d, 0, &["inspect", "m.om"]).stdout).unwrap();
        let told: Vec<&str> = text.lines().filter(|l| l.trim_start().starts_with("gear")).collect();
        let planned = told.iter().filter(|l| l.ends_with("nodes, planned by each run")).count();
        // A gear for tensors without elements may have no node left.
        assert!(planned == listed.len() && told.iter().any(|l| !l.contains(" 0 nodes")), "{text}");
        for (k, own) in listed.iter().enumerate() {
            let data = of.join(format!("s{k}"));
            if !data.exists() {
                continue;
            }
            let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
            for schedule in ["schedule=fifo", "schedule=random:3"] {
                let chance = ["--device-option", schedule, "--device-option", "check_races=true", "--rtol", "1e-4"];
                let run = ["run", "m.om", "--inputs", &inputs, "--expect", &expect, "--json", "--profile", "p.json"];
                let ran = json(d, &[&run[..], &chance].concat());
                assert_eq!(&of_gear(&ran["gear"]), own, "{name}");
                let trace: Value = serde_json::from_slice(&std::fs::read(d.join("p.json")).unwrap()).unwrap();
                assert_eq!(trace["otherData"]["gear"], ran["gear"], "{name}");
            }
        }
    }
}

/// Sizes outside the gears of such a model are refused with the nearest gear, or the model beside
/// the gears runs them.
#[test]
fn sizes_of_no_gear_of_such_a_model_are_refused_or_run_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(
        d.join("m.ge"),
        "graph @main(%x: f32[b,3]) {
  %w = Const() {value = dense<f32[3,64]: splat 0.5>} : f32[3,64]
  %p = MatMul(%x, %w) : f32[b,64]
  %q = Exp(%p) : f32[b,64]
  %r = Sqrt(%q) : f32[b,64]
  %t = Relu(%x) : f32[b,3]
  %z = NonZero(%t) : i64[2,?]
  return %z, %r
}",
    )
    .unwrap();
    let give = |b: u64| {
        let x: Vec<f32> = (0..b * 3).map(|i| if i % 2 == 0 { i as f32 + 1.0 } else { -1.0 }).collect();
        npy(&d.join("in/input_0.npy"), &f32s(&[b, 3], &x));
        (x.iter().filter(|v| **v > 0.0).count() as u64, b)
    };
    let ran = |om: &str| {
        let run = json(d, &["run", om, "--inputs", "in", "--json"]);
        let count = run["outputs"][0]["shape"][1].as_u64().unwrap();
        ((count, run["outputs"][1]["shape"][0].as_u64().unwrap()), run["gear"].clone())
    };
    let apart = ["--set", "ge.x.auto_fusion=false", "--set", "ge.exec.static_model_ops_lower_limit=1"];
    expect_code(d, 0, &[&["compile", "m.ge", "-o", "m.om", "-q", "--dim", "b=1,4,8"][..], &apart].concat());
    for (k, b) in [1, 4, 8].into_iter().enumerate() {
        let want = give(b);
        let (found, gear) = ran("m.om");
        assert_eq!((found, &gear["index"], &gear["dims"]), (want, &k.into(), &serde_json::json!({"b": b})));
    }
    give(6);
    let said = String::from_utf8(expect_code(d, 2, &["run", "m.om", "--inputs", "in", "-q"]).stderr).unwrap();
    assert!(said.contains("GE-E0327") && said.contains("no gear for b=6") && said.contains("nearest is b=8"), "{said}");
    assert!(said.contains("--dim b=1,4,6,8"), "{said}");
    npy(&d.join("in/input_0.npy"), &f32s(&[4, 2], &[0.0; 8]));
    let said = String::from_utf8(expect_code(d, 2, &["run", "m.om", "--inputs", "in", "-q"]).stderr).unwrap();
    assert!(said.contains("GE-E0302") && said.contains("`x`"), "{said}");
    // What is known of each gear is planned, and the weights of all gears are in the file once.
    let doc = json(d, &["inspect", "m.om", "--json"]);
    let parts: Vec<&str> = doc["parts"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    for k in 0..3 {
        let of = format!("main_ascend_mbatch_batch_{k}_");
        assert_eq!(parts.iter().filter(|p| p.starts_with(&of)).count(), 2, "{parts:?}");
    }
    assert!(doc["memory"]["weights"].as_u64().unwrap() < 2 * 768, "{}", doc["memory"]);
    let hybrid = [&["--dim", "b=1,4,8", "--set", "compileHybridMode=1"][..], &apart].concat();
    expect_code(d, 0, &[&["compile", "m.ge", "-o", "h.om", "-q"][..], &hybrid].concat());
    for (b, gear) in [(4, true), (6, false), (1, true), (6, false)] {
        let want = give(b);
        let (found, ran) = ran("h.om");
        assert_eq!((found, ran.get("outside").is_none()), (want, gear), "{ran}");
    }
}

#[test]
fn state_is_carried_from_step_to_step() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let steps = |text: &str, state: &str, args: &[&str]| -> Value {
        std::fs::write(d.join("m.ge"), text).unwrap();
        expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--state", state]);
        json(d, &[&["run", "m.om", "--json", "--outputs", "out"][..], args].concat())
    };
    let read = |step: usize, k: usize| {
        let bytes = std::fs::read(d.join(format!("out/step{step}/output_{k}.npy"))).unwrap();
        ge_runtime::npy::read(&bytes, DType::F32).unwrap()
    };
    // A state of fixed size, which another node reads too: no input is copied.
    let sum = "graph @main(%x: f32[2], %s: f32[2]) {\n  %n = Add(%x, %s) : f32[2]\n  %y = Neg(%n) : f32[2]\n  return %y, %n\n}\n";
    let said = steps(sum, "n:s", &["--steps", "5", "--input", "x=[1,2]"]);
    assert_eq!((&said["steps"], &said["copied_inputs"]), (&5.into(), &0.into()), "{said}");
    for k in 0..5 {
        let n = (k + 1) as f32;
        assert_eq!((reals(&read(k, 0)), reals(&read(k, 1))), (vec![-n, -2.0 * n], vec![n, 2.0 * n]), "step {k}");
    }
    assert_eq!(json(d, &["inspect", "m.om", "--json"])["options"]["ge.x.state"], "n:s");
    // A state whose size grows from zero.
    let grow = "graph @main(%x: f32[1,2], %past: f32[n,2]) {
  %all = ConcatD(%past, %x) {N = 2, concat_dim = 0} : f32[?,2]
  %t = ReduceSumD(%all) {axes = [0]} : f32[2]
  return %t, %all
}
";
    for k in 0..4 {
        npy(&d.join(format!("in/step{k}/input_0.npy")), &f32s(&[1, 2], &[k as f32, 1.0]));
    }
    let said = steps(grow, "all:past", &["--steps", "4", "--inputs", "in"]);
    assert_eq!((&said["state"][0]["shape"], &said["copied_inputs"]), (&serde_json::json!([4, 2]), &0.into()), "{said}");
    assert_eq!(
        (reals(&read(3, 0)), reals(&read(3, 1))),
        (vec![6.0, 4.0], vec![0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0, 1.0])
    );
    // An input that a step's folder lacks comes from the folder of all steps.
    let two = "graph @main(%x: f32[2], %s: f32[2], %w: f32[2]) {\n  %n = Add(%x, %s) : f32[2]\n  %y = Mul(%n, %w) : f32[2]\n  return %y, %n\n}\n";
    for (at, v) in [("in2/input_0", [1.0, 2.0]), ("in2/input_1", [10.0, 20.0]), ("in2/input_2", [3.0, 4.0])] {
        npy(&d.join(format!("{at}.npy")), &f32s(&[2], &v));
    }
    npy(&d.join("in2/step0/input_2.npy"), &f32s(&[2], &[5.0, 6.0]));
    npy(&d.join("in2/step1/input_0.npy"), &f32s(&[2], &[7.0, 8.0]));
    steps(two, "n:s", &["--steps", "3", "--inputs", "in2"]);
    assert_eq!(reals(&read(0, 0)), vec![55.0, 132.0]);
    assert_eq!(reals(&read(1, 0)), vec![54.0, 120.0]);
    assert_eq!(reals(&read(2, 0)), vec![57.0, 128.0]);
    std::fs::write(d.join("m.ge"), grow).unwrap();
    // An output that cannot be state is reported by name, and a model without state has no steps.
    for (state, says) in [("t:x", "cannot be input `x`"), ("al:past", "did you mean `all`"), ("all", "OUTPUT:INPUT")] {
        let out = expect_code(d, 2, &["compile", "m.ge", "-o", "n.om", "-q", "--state", state]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains(says), "{said}");
    }
    expect_code(d, 0, &["compile", "m.ge", "-o", "n.om", "-q"]);
    expect_code(d, 2, &["run", "n.om", "--inputs", "in", "--steps", "2", "-q"]);
}

/// The first step of a decoder has no past, so 0 must be a size like any other.
#[test]
fn a_gear_may_have_a_size_of_zero() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%past: f32[p,2], %x: f32[1,2]) {
  %keys = ConcatD(%past, %x) {N = 2, concat_dim = 0} : f32[?,2]
  %scores = BatchMatMulV2(%x, %keys) {adj_x2 = true} : f32[1,?]
  return %scores, %keys
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--dim", "p=0,2"]);
    let run = |past: &HostTensor| {
        std::fs::create_dir_all(d.join("in")).unwrap();
        npy(&d.join("in/input_0.npy"), past);
        npy(&d.join("in/input_1.npy"), &f32s(&[1, 2], &[1.0, 2.0]));
        String::from_utf8(expect_code(d, 0, &["run", "m.om", "--inputs", "in", "-q"]).stdout).unwrap()
    };
    assert_eq!(run(&f32s(&[0, 2], &[])), "scores: f32[1,1] = 5\nkeys: f32[1,2] = 1 2\n");
    let two = run(&f32s(&[2, 2], &[3.0, 4.0, 5.0, 6.0]));
    assert_eq!(two, "scores: f32[1,3] = 11 17 5\nkeys: f32[3,2] = 3 4 5 6 1 2\n");
}

/// A mask is as long as past and new rows together: the gears set both parts and not the sum.
#[test]
fn gears_set_the_parts_of_a_size_that_is_made_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[b,s], %p: f32[b,past], %mask: f32[b,\"past+s\"]) {
  %all = ConcatD(%p, %x) {N = 2, concat_dim = 1} : f32[b,\"past+s\"]
  %y = Mul(%all, %mask) : f32[b,\"past+s\"]
  return %y
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let named = ["--dim", "b=1", "--dim", "s=1,2", "--dim", "past=0,1"];
    for gears in [&named[..], &["--dynamic-dims", "1,1,0;1,2,1"]] {
        for hybrid in [&[][..], &["--set", "compileHybridMode=1"]] {
            expect_code(d, 0, &[&["compile", "m.ge", "-o", "m.om", "-q"], gears, hybrid].concat());
            let run = |code: i32, mask: &str| {
                let mask = format!("mask={mask}");
                let out = expect_code(
                    d,
                    code,
                    &["run", "m.om", "-q", "--input", "x=[[1,2]]", "--input", "p=[[3]]", "--input", &mask],
                );
                String::from_utf8_lossy(if code == 0 { &out.stdout } else { &out.stderr }).into_owned()
            };
            assert_eq!(run(0, "[[2,3,4]]"), "y: f32[1,3] = 6 3 8\n");
            let told = run(2, "[[2,3,4,5]]");
            assert!(told.contains("GE-E0302") && told.contains("3, which `past+s` is"), "{told}");
        }
    }
}
