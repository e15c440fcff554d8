//! Plans of compiled models, judged by the independent checker `tests/reference/checks/plan_check.py`.
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
