//! Runs the programs of `examples/`; each ends with an error if its answer is wrong.
use ge_tests::{root, target};
use std::collections::BTreeSet;
use std::process::Command;

fn run(name: &str, args: &[&str]) -> String {
    let program = target().join("examples").join(name);
    let mut command = Command::new(&program);
    command.args(args).current_dir(root()).env_remove("GE_PLUGINS").env("XDG_CONFIG_HOME", "nowhere");
    // Start it as a user does: the repository's configuration is found and needs no trust, except
    // when the folder of build results lies elsewhere.
    if target().parent().and_then(|t| t.parent()) != Some(&root()) {
        command.env("GE_PLUGINS", root().join("plugins.toml"));
    }
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("cannot start {}: {e}; run `cargo build -p ge --examples`", program.display()));
    let (text, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{name}: {text}{errors}");
    text.into_owned()
}

#[test]
fn each_program_gives_the_right_answer() {
    let said = [
        ("compile_and_run", "y = [4.0, 5.0, 0.0, 0.0]"),
        ("several_graphs", "graph 2 with 3 rows: [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]"),
        ("streams", "two: 1 events"),
        ("write_a_pass", "DoubleNegPass: 2 edits"),
        ("serve", "100 of 100 requests answered right by 4 threads"),
    ];
    for (name, words) in said {
        let text = run(name, &[]);
        assert!(text.contains(words), "{name}: {text}");
    }
    let dir = tempfile::tempdir().unwrap();
    let data = root().join("tests/models/digits");
    let om = dir.path().join("digits.om").display().to_string();
    ge_tests::expect_code(
        dir.path(),
        0,
        &["compile", &data.join("digits.onnx").display().to_string(), "-o", &om, "-q"],
    );
    assert!(run("digits", &[&om, &data.display().to_string()]).contains("198 of 200 held-back digits right"));
    let data = root().join("tests/models/generate");
    let om = dir.path().join("decoder.om").display().to_string();
    let model = data.join("decoder.onnx").display().to_string();
    let state: Vec<String> =
        (0..2).flat_map(|i| ["key", "value"].map(|n| format!("present_{n}_{i}:past_{n}_{i}"))).collect();
    ge_tests::expect_code(dir.path(), 0, &["compile", &model, "-o", &om, "-q", "--state", &state.join(",")]);
    let text = run("generate", &[&om, &data.display().to_string()]);
    assert!(
        text.contains("25 tokens in 20 steps, 24 positions kept")
            && text.contains(", 0 inputs copied, 0 bytes of the past copied"),
        "{text}"
    );
    // These are all programs of the folder.
    let there: BTreeSet<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .filter_map(|e| e.unwrap().file_name().into_string().unwrap().strip_suffix(".rs").map(str::to_owned))
        .collect();
    let known: BTreeSet<String> =
        said.iter().map(|s| s.0.to_owned()).chain(["digits".to_owned(), "generate".to_owned()]).collect();
    assert_eq!(there, known);
}
