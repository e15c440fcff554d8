//! Bundles: one file that holds a compilation, which can be run again elsewhere.
use ge::options::OptionMap;
use ge::session::bundle::{Alone, Bundle, Failed, Failure, Weights};
use ge::session::{Session, SessionOptions, import};
use ge::{Error, ErrorKind};
use ge_tests::{expect_code, fixtures, models, root, target};
use std::path::{Path, PathBuf};

/// The repository's `plugins.toml`, which finds the plugins from anywhere and searches the folders
/// `more` too.
fn plugins(more: &[&Path]) -> String {
    let mut search: Vec<PathBuf> = more.iter().map(|p| p.to_path_buf()).collect();
    search.push(target());
    let text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    text.replacen("schema = 1", &format!("schema = 1\nsearch = {search:?}"), 1)
}

/// After an internal error, the file that the help names holds the model and can be run.
#[test]
fn an_internal_error_names_the_bundle_that_holds_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let (config, text, path) = (dir.path().join("p.toml"), dir.path().join("m.ge"), dir.path().join("b.json"));
    std::fs::write(&config, plugins(&[])).unwrap();
    std::fs::write(&text, "graph @m(%x: f32[2]) {\n  %a = Relu(%x) : f32[2]\n  return %a\n}\n").unwrap();
    let session = Session::new(SessionOptions { plugins: Some(config), ..SessionOptions::default() }).unwrap();
    let graph = || import::parse_text(&text, &import::map(&text)?);
    let options = OptionMap::default();
    // The stage does not fail on its own, so the bundle does not keep it alone.
    let failed = Some(Failed { stage: "place", pass: None, graph: graph().unwrap() });
    let of = Failure { name: "m", failed, options: &options, weights: Weights::Kept, path: Some(&path) };
    let e = of.bundled(Error::new(ErrorKind::INTERNAL, "two and two are five"), &session, &graph);
    assert_eq!((e.kind, ge::render::exit_code(e.kind)), (ErrorKind::INTERNAL, 70));
    let help = e.diagnostics[0].help.to_string();
    assert!(help.contains("bug of ge") && help.contains(&format!("--repro {}", path.display())), "{help}");
    let b = Bundle::read(&path).unwrap();
    assert!(
        b.alone == Alone::Whole
            && b.stage == "place"
            && b.error.contains("two and two are five")
            && b.graph.contains("Relu"),
        "{b:?}"
    );
    let out = expect_code(dir.path(), 0, &["opt", "--repro", "b.json"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("it does not fail here"), "{out:?}");
}

#[test]
fn a_bundle_holds_a_compilation_and_runs_again() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let model = models().join("mlp.onnx");
    let args = ["compile", model.to_str().unwrap(), "-o", "m.om", "--bundle", "b.json", "--set", "ge.oo.level=O1"];
    expect_code(d, 0, &args);
    let read =
        |name: &str| -> serde_json::Value { serde_json::from_slice(&std::fs::read(d.join(name)).unwrap()).unwrap() };
    let b = read("b.json");
    assert_eq!((b["schema"].as_u64(), b["options"]["ge.oo.level"].as_str()), (Some(1), Some("O1")));
    assert!(b["plugins"].as_array().unwrap().len() > 5 && b["graph"].as_str().unwrap().starts_with("graph @"));
    let out = expect_code(d, 0, &["opt", "--repro", "b.json"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("the bundle compiles"), "{out:?}");
    // Without weights the bundle is small, and compiles all the same.
    let mut small = args.to_vec();
    small[5] = "s.json";
    small.push("--no-weights");
    expect_code(d, 0, &small);
    let size = |name: &str| std::fs::metadata(d.join(name)).unwrap().len();
    assert!(size("s.json") * 20 < size("b.json"), "{} {}", size("s.json"), size("b.json"));
    expect_code(d, 0, &["opt", "--repro", "s.json"]);
    // A bundle of a failure fails as the compilation did. Here it is a stage whose graph has a node
    // that no engine takes.
    let mut bad = read("s.json");
    bad["stage"] = "place".into();
    bad["alone"] = "stage".into();
    bad["error"] = "as before".into();
    bad["graph"] = "graph @m(%x: f32[2]) {\n  %a = NoSuchOperator(%x) : f32[2]\n  return %a\n}\n".into();
    std::fs::write(d.join("bad.json"), bad.to_string()).unwrap();
    let out = expect_code(d, 3, &["opt", "--repro", "bad.json"]);
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(err.contains("the bundle's error: as before") && err.contains("NoSuchOperator"), "{err}");
    std::fs::write(d.join("none.json"), "{}").unwrap();
    expect_code(d, 4, &["opt", "--repro", "none.json"]);
    expect_code(d, 2, &["opt", "--repro", "missing.json"]);
}

/// A pass of ours that panics gives exit code 70, and a bundle of that pass with the graph that it
/// was given. Only debug builds can be made to fail in this way.
#[cfg(debug_assertions)]
#[test]
fn a_pass_of_ours_that_fails_is_named_and_runs_alone() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let body = "graph @m(%x: f32[2]) {\n  %t = Identity(%x) : f32[2]\n  %a = Relu(%t) : f32[2]\n  return %a\n}\n";
    std::fs::write(d.join("m.ge"), body).unwrap();
    let ge = |args: &[&str], fault: &str| {
        let mut c = std::process::Command::new(target().join("ge"));
        c.args(args).current_dir(d).env("GE_PLUGINS", root().join("plugins.toml")).env_remove("GE_OPTIONS");
        c.env("GE_FAULT_PASS", fault).output().unwrap()
    };
    for (pass, stage, node) in
        [("NetOutputPass", "prepare", ""), ("IdentityPass", "prepare", "t"), ("ParallelGroupPass", "stage2", "")]
    {
        let out = ge(&["compile", "m.ge", "-o", "m.om", "--bundle", "b.json"], pass);
        let err = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(70), "{err}");
        assert!(
            err.contains("GE-E0900") && err.contains(&format!("panic in pass {pass}: a fault on purpose")),
            "{err}"
        );
        assert!(!err.contains("stack backtrace"), "{err}");
        assert!(err.contains("`ge opt --repro b.json` runs it") && !d.join("m.om").exists(), "{err}");
        let b = Bundle::read(&d.join("b.json")).unwrap();
        assert_eq!((b.alone, b.stage.as_str(), b.pass.as_str()), (Alone::Pass, stage, pass), "{b:?}");
        assert!(node.is_empty() == b.node.is_empty(), "{b:?}");
        let again = ge(&["opt", "--repro", "b.json"], pass);
        let err = String::from_utf8_lossy(&again.stderr);
        assert_eq!(again.status.code(), Some(70), "{err}");
        assert!(err.contains(&format!("pass {pass} of stage {stage}")), "{err}");
        let cured = ge(&["opt", "--repro", "b.json"], "");
        assert_eq!(cured.status.code(), Some(0), "{}", String::from_utf8_lossy(&cured.stderr));
    }
}

#[test]
fn a_failure_of_a_plugin_is_bundled_and_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::copy(fixtures::bad_plugin(), d.join("libge_bad.so")).unwrap();
    let toml = plugins(&[d]);
    let with = |mode: &str| format!("{toml}\n[[plugin]]\nname = \"bad\"\n[plugin.options]\nmode = \"{mode}\"\n");
    std::fs::write(d.join("good.toml"), with("good")).unwrap();
    std::fs::write(d.join("bad.toml"), with("panic_pass")).unwrap();
    let model = models().join("mlp.onnx");
    let m = model.to_str().unwrap();
    let args = ["--plugins", "bad.toml", "compile", m, "-o", "m.om", "--bundle", "b.json", "--no-weights"];
    let out = expect_code(d, 5, &args);
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(err.contains("this shall not") && err.contains("ge opt --repro b.json"), "{err}");
    assert!(!d.join("m.om").exists());
    let b: serde_json::Value = serde_json::from_slice(&std::fs::read(d.join("b.json")).unwrap()).unwrap();
    assert!(b["error"].as_str().unwrap().contains("this shall not"), "{}", b["error"]);
    assert!(b["plugins"].to_string().contains("\"bad\""), "{}", b["plugins"]);
    assert!(!b["pass"].as_str().unwrap().is_empty() && b["alone"] == "pass", "{} {}", b["pass"], b["alone"]);
    // The failure comes again with the plugin as it was, and does not with a repaired plugin or
    // without it.
    let out = expect_code(d, 5, &["--plugins", "bad.toml", "opt", "--repro", "b.json"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("this shall not"), "{out:?}");
    let out = expect_code(d, 0, &["--plugins", "good.toml", "opt", "--repro", "b.json"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("it does not fail here"), "{out:?}");
    let out = expect_code(d, 0, &["opt", "--repro", "b.json"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("plugin bad"), "{out:?}");
}

/// A file that is no bundle, or not a whole one, is reported with what was found. Files that the
/// command reads are never overwritten.
#[test]
fn a_damaged_bundle_is_told_by_what_is_wrong_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @m(%x: f32[2]) {\n  %a = Relu(%x) : f32[2]\n  return %a\n}\n";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--bundle", "b.json"]);
    let good = std::fs::read_to_string(d.join("b.json")).unwrap();
    let whole: serde_json::Value = serde_json::from_str(&good).unwrap();
    let with = |changes: &[(&str, serde_json::Value)]| {
        let mut b = whole.clone();
        changes.iter().for_each(|(k, v)| b[*k] = v.clone());
        b.to_string()
    };
    let cases: &[(String, i32, &[&str])] = &[
        (String::new(), 4, &["an empty file"]),
        (good[..good.len() / 2].to_owned(), 4, &["JSON that ends too early"]),
        (text.to_owned(), 4, &["a text that is no JSON"]),
        ("{}".into(), 4, &["without a schema", "schema 1"]),
        (with(&[("schema", 9.into())]), 4, &["schema 9", "schema 1"]),
        (with(&[("alone", "some".into())]), 4, &["unknown variant `some`"]),
        (with(&[("graph", "graph @m(%x".into())]), 4, &["odd.json (its graph)"]),
        (
            with(&[("alone", "pass".into()), ("stage", "stage1".into()), ("pass", "NoPass".into())]),
            4,
            &["`NoPass`", "ge opt --list"],
        ),
        (with(&[("alone", "stage".into()), ("stage", "nowhere".into())]), 2, &["`nowhere`"]),
        (with(&[("options", serde_json::json!({"ge.nope": "1"}))]), 2, &["ge.nope", "the bundle"]),
    ];
    for (bytes, code, words) in cases {
        std::fs::write(d.join("odd.json"), bytes).unwrap();
        let said = String::from_utf8(expect_code(d, *code, &["opt", "--repro", "odd.json"]).stderr).unwrap();
        for w in *words {
            assert!(said.contains(w), "no `{w}` in {said}");
        }
        assert!(*code != 4 || said.contains("odd.json"), "{said}");
    }
    expect_code(d, 2, &["opt", "--repro", "missing.json"]);
    // A graph given beside the bundle would be ignored, so it is refused.
    expect_code(d, 2, &["opt", "--repro", "b.json", "m.ge"]);
    std::fs::create_dir(d.join("sub")).unwrap();
    for args in [
        ["compile", "m.ge", "-o", "n.om", "--bundle", "sub/../m.ge"],
        ["compile", "m.ge", "-o", "n.om", "--bundle", "./n.om"],
        ["compile", "m.ge", "-o", "./m.ge", "--bundle", "c.json"],
    ] {
        let said = String::from_utf8(expect_code(d, 2, &args).stderr).unwrap();
        assert!(said.contains("would be written over") && said.contains("a file of its own"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(d.join("m.ge")).unwrap(), text);
    assert!(!d.join("n.om").exists() && !d.join("c.json").exists());
}

/// Dumps are written into a folder of their own, for a model whose constants come from a file
/// beside it. Each dump can be read back from where it is.
#[test]
fn dumps_hold_their_constants_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let weights: Vec<u8> = (0..8192u32).flat_map(|i| ((i % 7) as f32).to_le_bytes()).collect();
    std::fs::write(d.join("w.bin"), &weights).unwrap();
    let body = "graph @m(%x: f32[4,64]) {\n  %w = Const() {value = dense<f32[64,128]: file \"w.bin\" 0 32768>} : f32[64,128]\n  %y = MatMulV2(%x, %w) : f32[4,128]\n  %z = Relu(%y) : f32[4,128]\n  return %z\n}\n";
    std::fs::write(d.join("m.ge"), body).unwrap();
    expect_code(
        d,
        0,
        &["compile", "m.ge", "-o", "m.om", "-q", "--dump", "import,prepare,merge", "--dump-dir", "dumps"],
    );
    let mut texts: Vec<_> = std::fs::read_dir(d.join("dumps")).unwrap().map(|e| e.unwrap().path()).collect();
    texts.retain(|p| p.extension().is_some_and(|e| e == "ge"));
    texts.sort();
    assert_eq!(texts.len(), 3, "{texts:?}");
    // Equal bytes are there only once.
    assert_eq!(std::fs::metadata(d.join("dumps/dump.weights")).unwrap().len(), 32768);
    for t in &texts {
        expect_code(d, 0, &["opt", t.to_str().unwrap(), "-o", "again.ge"]);
    }
    expect_code(d, 0, &["compile", texts[0].to_str().unwrap(), "-o", "n.om", "-q"]);
    expect_code(d, 0, &["run", "m.om", "--random", "1", "--outputs", "out", "-q"]);
    expect_code(d, 0, &["run", "n.om", "--random", "1", "--expect", "out", "-q"]);
    // A bundle is one file: it holds the constants itself.
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--bundle", "b.json"]);
    std::fs::remove_file(d.join("w.bin")).unwrap();
    expect_code(d, 0, &["opt", "--repro", "b.json"]);
}
