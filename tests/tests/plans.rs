//! Plans of compiled models, judged by the independent checker
//! `tests/reference/checks/plan_check.py`.
use ge_tests::{expect_code, models, root};
use std::process::Command;

fn check(name: &str, flags: &[&str]) {
    let models = models();
    let dir = tempfile::tempdir().expect("a folder");
    let model = models.join(format!("{name}.onnx")).display().to_string();
    let mut args = vec!["compile", &model, "-o", "m.om", "-q"];
    args.extend_from_slice(flags);
    expect_code(dir.path(), 0, &args);
    let document = expect_code(dir.path(), 0, &["inspect", "m.om", "--json"]);
    let file = dir.path().join("plan.json");
    std::fs::write(&file, &document.stdout).expect("written");
    let python = models.parent().map(|t| t.join("venv/bin/python")).expect("beside the models");
    let out = Command::new(python)
        .arg(root().join("tests/reference/checks/plan_check.py"))
        .arg(&file)
        .output()
        .expect("python starts");
    assert!(
        out.status.success(),
        "{name}: {}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn plans_of_networks_hold_by_the_independent_checker() {
    for name in ["lenet", "inception_batch_concat", "mobilenet_v2", "bert_l4_h256_s128"] {
        check(name, &[]);
    }
}

#[test]
fn a_single_stream_and_no_reuse_hold_as_well() {
    check("inception_batch_concat", &["--set", "ge.enableSingleStream=true"]);
    check("resnet_cifar", &["--set", "ge.exec.disableReuseMemory=1"]);
}

#[test]
fn streams_of_a_graphs_own_parallelism_hold_and_give_the_right_numbers() {
    for (name, rtol, atol) in [
        ("inception_batch_concat", "0.001", "0.0001"),
        ("split_relu3_concat", "0", "0"),
        ("gpt_prefill_s64", "0.001", "0.0001"),
    ] {
        for mode in ["ge.x.stream_mode=parallel:2", "ge.x.stream_mode=parallel:8"] {
            check(name, &["--set", mode]);
            let models = models();
            let dir = tempfile::tempdir().expect("a folder");
            let model = models.join(format!("{name}.onnx")).display().to_string();
            expect_code(dir.path(), 0, &["compile", &model, "-o", "m.om", "-q", "--set", mode]);
            let data = models.join(name).join("s0");
            let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
            let run = ["run", "m.om", "--inputs", &inputs, "--expect", &expect, "--rtol", rtol, "--atol", atol, "-q"];
            expect_code(dir.path(), 0, &run);
            let random = ["--device-option", "schedule=random:7", "--device-option", "check_races=true"];
            expect_code(dir.path(), 0, &[run.as_slice(), random.as_slice()].concat());
        }
    }
}

/// The run time of a compiled model by the device's simulated clock, in µs.
fn modelled_us(dir: &std::path::Path, om: &str, inputs: &str) -> f64 {
    let args = ["run", om, "--inputs", inputs, "--device-option", "time=model", "--profile", "profile.json", "-q"];
    expect_code(dir, 0, &args);
    let text = std::fs::read_to_string(dir.join("profile.json")).expect("written");
    let doc: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let events = doc["traceEvents"].as_array().expect("a trace");
    let end = |e: &serde_json::Value| e["ts"].as_f64().unwrap_or(0.0) + e["dur"].as_f64().unwrap_or(0.0);
    events.iter().map(end).fold(0.0, f64::max)
}

#[test]
fn more_streams_are_no_slower_than_one_and_a_profile_is_heard() {
    let models = models();
    let dir = tempfile::tempdir().expect("a folder");
    let model = models.join("inception_batch_concat.onnx").display().to_string();
    let inputs = models.join("inception_batch_concat/s0").display().to_string();
    let four = "ge.x.stream_mode=parallel:4";
    expect_code(dir.path(), 0, &["compile", &model, "-o", "one.om", "-q", "--set", "ge.enableSingleStream=true"]);
    expect_code(dir.path(), 0, &["compile", &model, "-o", "four.om", "-q", "--set", four]);
    let (one, many) = (modelled_us(dir.path(), "one.om", &inputs), modelled_us(dir.path(), "four.om", &inputs));
    assert!(many < 0.9 * one, "{many} us on four streams, {one} us on one");
    let bench = [
        "bench",
        "one.om",
        "--warmup",
        "0",
        "--iterations",
        "1",
        "--per-node",
        "--json",
        "--device-option",
        "time=model",
    ];
    let profile = expect_code(dir.path(), 0, &bench);
    std::fs::write(dir.path().join("nodes.json"), &profile.stdout).expect("written");
    let with = |file: &str| format!("ge.x.stream_profile={file}");
    let compile = |code: i32, file: &str| {
        let set = with(file);
        expect_code(dir.path(), code, &["compile", &model, "-o", "p.om", "--set", four, "--set", &set])
    };
    compile(0, "nodes.json");
    assert!(modelled_us(dir.path(), "p.om", &inputs) < 0.9 * one);
    // If nodes take almost no time, parallel streams are not worth their events.
    let mut doc: serde_json::Value = serde_json::from_slice(&profile.stdout).expect("JSON");
    for n in doc["nodes"].as_array_mut().expect("nodes") {
        n["us"] = 0.001.into();
    }
    std::fs::write(dir.path().join("nothing.json"), doc.to_string()).expect("written");
    compile(0, "nothing.json");
    let said = expect_code(dir.path(), 0, &["inspect", "p.om", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(said["streams"]["main"], 1, "events cost more than nodes that take nothing");
    compile(2, "missing.json");
    std::fs::write(dir.path().join("torn.json"), "{\"nodes\": [").expect("written");
    let torn = compile(4, "torn.json");
    assert!(String::from_utf8_lossy(&torn.stderr).contains("GE-E0317"));
}
