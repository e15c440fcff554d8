//! Bundles: one file that holds a compilation, run again elsewhere.
use ge::options::OptionMap;
use ge::session::bundle::{Bundle, Failure, Weights};
use ge::session::{Session, SessionOptions, import};
use ge::{Error, ErrorKind};
use ge_tests::{expect_code, fixtures, models, root, target};
use std::path::{Path, PathBuf};

/// The repository's plugins, found from anywhere, and those of more folders.
fn plugins(more: &[&Path]) -> String {
    let mut search: Vec<PathBuf> = more.iter().map(|p| p.to_path_buf()).collect();
    search.push(target());
    let text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    text.replacen("schema = 1", &format!("schema = 1\nsearch = {search:?}"), 1)
}

/// What a bug of ours leaves: the file that the help names holds the model, and runs.
#[test]
fn an_internal_error_names_the_bundle_that_holds_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let (config, text, path) = (dir.path().join("p.toml"), dir.path().join("m.ge"), dir.path().join("b.json"));
    std::fs::write(&config, plugins(&[])).unwrap();
    std::fs::write(&text, "graph @m(%x: f32[2]) {\n  %a = Relu(%x) : f32[2]\n  return %a\n}\n").unwrap();
    let session = Session::new(SessionOptions { plugins: Some(config), ..SessionOptions::default() }).unwrap();
    let graph = || import::parse_text(&text, &import::map(&text)?);
    let options = OptionMap::default();
    // A stage that does not fail alone is not what is kept.
    let failed = Some(("place", graph().unwrap()));
    let of = Failure { name: "m", failed, options: &options, weights: Weights::Kept, path: Some(&path) };
    let e = of.bundled(Error::new(ErrorKind::INTERNAL, "two and two are five"), &session, &graph);
    assert_eq!((e.kind, ge::render::exit_code(e.kind)), (ErrorKind::INTERNAL, 70));
    let help = e.diagnostics[0].help.to_string();
    assert!(help.contains("bug of ge") && help.contains(&format!("--repro {}", path.display())), "{help}");
    let b = Bundle::read(&path).unwrap();
    assert!(b.stage.is_empty() && b.error.contains("two and two are five") && b.graph.contains("Relu"), "{b:?}");
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
    // Without weights it is small, and compiles all the same.
    let mut small = args.to_vec();
    small[5] = "s.json";
    small.push("--no-weights");
    expect_code(d, 0, &small);
    let size = |name: &str| std::fs::metadata(d.join(name)).unwrap().len();
    assert!(size("s.json") * 20 < size("b.json"), "{} {}", size("s.json"), size("b.json"));
    expect_code(d, 0, &["opt", "--repro", "s.json"]);
    // A bundle of a failure fails as it did: here a stage whose graph has a node that no engine takes.
    let mut bad = read("s.json");
    bad["stage"] = "place".into();
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
    // It comes again where the plugin is as it was, and does not where it is mended or absent.
    let out = expect_code(d, 5, &["--plugins", "bad.toml", "opt", "--repro", "b.json"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("this shall not"), "{out:?}");
    let out = expect_code(d, 0, &["--plugins", "good.toml", "opt", "--repro", "b.json"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("it does not fail here"), "{out:?}");
    let out = expect_code(d, 0, &["opt", "--repro", "b.json"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("plugin bad"), "{out:?}");
}
