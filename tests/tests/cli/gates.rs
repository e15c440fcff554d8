//! Commands whose answer can be no: each of them says no when it must, and none passes because
//! nothing was asked.
use super::made::{model, named_node, typed};
use ge_tests::{expect_code, models};

fn said(out: &std::process::Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn fallbacks_are_named_by_the_model_or_by_cann_and_unknown_names_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let node = named_node("det", "", "Det", &["x"], "y");
    std::fs::write(d.join("det.onnx"), model(17, &[node, typed(11, "x", 1, &[3, 3]), typed(12, "y", 1, &[])])).unwrap();
    let gate = |code: i32, ops: &str| {
        said(&expect_code(d, code, &["compile", "det.onnx", "-o", "m.om", "-q", &format!("--fail-on-fallback={ops}")]))
    };
    for ops in ["Det", "MatrixDeterminant", "Relu,Det"] {
        let text = gate(1, ops);
        assert!(text.contains("GE-E0209") && text.contains("MatrixDeterminant, Det in the model"), "{ops}: {text}");
        assert!(!d.join("m.om").exists());
    }
    let text = gate(2, "LSTN");
    assert!(text.contains("GE-E0303") && text.contains("did you mean `LSTM`"), "{text}");
    gate(0, "Conv,Softmax");
}

#[test]
fn flags_without_effect_on_an_om_are_told_and_wrong_ones_refused() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), "graph @main(%x: f32[4,8]) {\n  %r = Relu(%x) : f32[4,8]\n  return %r\n}\n")
        .unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--set", "ge.oo.level=O1"]);
    let commands: [&[&str]; 3] =
        [&["run", "m.om", "--random", "1"], &["bench", "m.om", "--iterations", "1"], &["inspect", "m.om"]];
    for command in commands {
        for wrong in
            [["--soc", "Nope"], ["--set", "foo=bar"], ["--set", "ge.oo.level=O7"], ["--input-shape", "nosuch:9"]]
        {
            let text = said(&expect_code(d, 2, &[command, &wrong].concat()));
            assert!(text.contains("error[GE-E03"), "{command:?} {wrong:?}: {text}");
        }
        let text = said(&expect_code(d, 2, &[command, &["--input-shape", "x:5,8"]].concat()));
        assert!(text.contains("input `x`") && text.contains("compiled already"), "{text}");
        let text = said(&expect_code(d, 0, &[command, &["--soc", "Ascend910B", "--set", "ge.oo.level=O3"]].concat()));
        assert!(text.contains("note: `ge.oo.level=O3`, `--soc Ascend910B` has no effect"), "{command:?}: {text}");
        // Values that the model was compiled with anyway need no note.
        let same = ["--set", "ge.oo.level=O1", "--soc", "sim", "--input-shape", "x:4,8"];
        let text = said(&expect_code(d, 0, &[command, &same].concat()));
        assert!(!text.contains("note:"), "{text}");
    }
}

/// A model that is run directly is compiled with the flags that `ge compile` has for it.
#[test]
fn a_model_that_is_run_takes_the_flags_of_its_compilation() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let net = models().join("lenet.onnx").display().to_string();
    let run = |code: i32, flags: &[&str]| {
        said(&expect_code(d, code, &[&["run", &net, "--random", "1", "-q", "--jobs", "2"], flags].concat()))
    };
    run(0, &["--dump", "import,streams", "--dump-dir", "dumps", "--bundle", "lenet.bundle", "--no-weights"]);
    assert!(d.join("lenet.bundle").exists());
    for dump in ["dumps/000_import.ge", "dumps/010_streams.ge"] {
        assert!(d.join(dump).exists(), "no {dump}");
    }
    run(0, &["--dump-passes", "--dump-dir", "passes"]);
    assert!(std::fs::read_dir(d.join("passes")).unwrap().count() > 0);
    let text = run(2, &["--fail-on-fallback=Convv"]);
    assert!(text.contains("did you mean `Conv`"), "{text}");
    run(0, &["--fail-on-fallback=Conv"]);
    // An OM is compiled already: a note says that the same flags have no effect, and a wrong name
    // is refused.
    expect_code(d, 0, &["compile", &net, "-o", "m.om", "-q"]);
    let om = |code: i32, flag: &str| said(&expect_code(d, code, &["run", "m.om", "--random", "1", flag]));
    assert!(om(0, "--dump=streams").contains("note: `--dump streams` has no effect"));
    assert!(om(0, "--fail-on-fallback=Conv").contains("`--fail-on-fallback=Conv` has no effect"));
    assert!(om(2, "--fail-on-fallback=Convv").contains("did you mean `Conv`"));
}

#[test]
fn an_empty_folder_of_golden_files_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let text = said(&expect_code(dir.path(), 2, &["opt", "--check", "empty"]));
    assert!(text.contains("no golden file"), "{text}");
}

/// Two operators that no plugin maps, and between them one that no engine has for its type.
#[test]
fn everything_that_is_not_supported_is_told_in_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let bytes = model(
        17,
        &[
            named_node("acme", "ai.acme", "Frobnicate", &["x"], "a"),
            named_node("waves", "", "Softmax", &["z"], "b"),
            named_node("odd", "", "NoSuchOperator", &["a"], "c"),
            named_node("fine", "", "Relu", &["x"], "e"),
            typed(11, "x", 1, &[2, 3]),
            typed(11, "z", 14, &[2, 3]),
            typed(12, "b", 14, &[2, 3]),
            typed(12, "c", 1, &[2, 3]),
            typed(12, "e", 1, &[2, 3]),
        ],
    );
    std::fs::write(d.join("m.onnx"), bytes).unwrap();
    let text = said(&expect_code(d, 3, &["compile", "m.onnx", "-o", "m.om", "-q"]));
    for what in [
        "`acme` (Frobnicate, ai.acme 3)",
        "`odd` (NoSuchOperator, ai.onnx 17)",
        "`waves` (Softmax",
        "Softmax of ai.onnx 17",
        "complex64",
        "in m.onnx",
    ] {
        assert!(text.contains(what), "no {what} in\n{text}");
    }
    assert!(!text.contains("`fine`"), "{text}");
    let at = |what: &str| text.find(what).unwrap_or(usize::MAX);
    assert!(at("`acme`") < at("`waves`") && at("`waves`") < at("`odd`"), "in the model's order\n{text}");
    // `inspect --support` gives the same list, and its answer is no.
    let out = expect_code(d, 1, &["inspect", "m.onnx", "--support", "--json"]);
    let v: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let nodes: Vec<&str> = v["refused"].as_array().unwrap().iter().filter_map(|r| r["node"].as_str()).collect();
    assert_eq!((v["supported"].as_bool(), nodes), (Some(false), vec!["acme", "waves", "odd"]), "{v}");
    let fine = models().join("lenet.onnx").display().to_string();
    expect_code(d, 0, &["inspect", &fine, "--support"]);
}
