//! What the product promises as a whole: the same bytes for any number of threads, a host that
//! works without engines, and errors that name what is missing.
use ge_tests::{expect_code, root, target};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TEXT: &str = "graph @main(%x: f32[6,16]) {
  %w = Const() {value = dense<f32[16,16]: splat 0.125>} : f32[16,16]
  %a = MatMulV2(%x, %w) : f32[6,16]
  %b = Relu(%a) : f32[6,16]
  %c = SoftmaxV2(%b) {axes = [-1]} : f32[6,16]
  %d = Mul(%c, %b) : f32[6,16]
  return %d, %a
}
";

/// Runs `ge` with the `plugins.toml` of the folder.
fn ge(dir: &Path, args: &[&str]) -> Output {
    Command::new(target().join("ge"))
        .args(args)
        .current_dir(dir)
        .env("GE_PLUGINS", dir.join("plugins.toml"))
        .env_remove("GE_OPTIONS")
        .output()
        .unwrap()
}
#[track_caller]
fn code(dir: &Path, expected: i32, args: &[&str]) -> String {
    let out = ge(dir, args);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(expected), "{args:?}: {said}");
    said
}
/// A folder with the graph and our `plugins.toml`, changed by `change`.
fn dir(change: impl Fn(String) -> String) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let ours = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    std::fs::write(dir.path().join("plugins.toml"), change(ours)).unwrap();
    std::fs::write(dir.path().join("m.ge"), TEXT).unwrap();
    dir
}
fn without(plugin: &'static str) -> impl Fn(String) -> String {
    move |t| {
        let entry = format!("name = \"{plugin}\"\n");
        assert!(t.contains(&entry));
        t.replace(&entry, &format!("{entry}enabled = false\n"))
    }
}
fn engines(dir: &Path) -> Vec<(String, String)> {
    let out = ge(dir, &["inspect", "m.om", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let nodes = doc["graphs"][0]["nodes"].as_array().unwrap().clone();
    let text = |v: &serde_json::Value| v.as_str().unwrap_or("").to_owned();
    nodes.iter().map(|n| (text(&n["type"]), text(&n["engine"]))).collect()
}

#[test]
fn compiles_give_the_same_bytes_for_any_number_of_jobs() {
    let dir = dir(|t| t);
    let digits = root().join("tests/models/digits/digits.onnx").display().to_string();
    for model in ["m.ge", digits.as_str()] {
        let mut files = Vec::new();
        for (name, jobs) in [("a.om", "1"), ("b.om", "4"), ("c.om", "4"), ("d.om", "1")] {
            code(dir.path(), 0, &["compile", model, "-o", name, "-q", "--jobs", jobs]);
            files.push(std::fs::read(dir.path().join(name)).unwrap());
        }
        assert!(files.windows(2).all(|w| w[0] == w[1]), "{model}: the files differ");
    }
}

#[test]
fn the_binary_links_no_engine() {
    let out = Command::new("ldd").arg(target().join("ge")).output().unwrap();
    let list = String::from_utf8_lossy(&out.stdout);
    assert!(list.contains("libc.so") && !list.contains("libge_"), "{list}");
}

#[test]
fn without_its_engine_an_operator_is_refused_by_node_and_an_om_by_the_engines_name() {
    let all = dir(|t| t);
    code(all.path(), 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    assert!(engines(all.path()).contains(&("MatMulV2".into(), "AIcoreEngine".into())));
    // The libraries are missing: the entries point into an empty folder.
    let away = dir(|t| {
        let entry = |n: &str| format!("name = \"{n}\"\n");
        let gone = |t: String, n: &str| t.replace(&entry(n), &format!("{}path = \"gone/libge_{n}.so\"\n", entry(n)));
        gone(gone(t, "nn"), "cpu")
    });
    let said = code(away.path(), 3, &["compile", "m.ge", "-o", "m.om"]);
    assert!(said.contains("`a` (MatMulV2)") && said.contains("`b` (Relu)"), "{said}");
    assert!(!away.path().join("m.om").exists());
    std::fs::copy(all.path().join("m.om"), away.path().join("m.om")).unwrap();
    let out = ge(away.path(), &["run", "m.om", "--random", "1"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(matches!(out.status.code(), Some(3 | 5)), "{said}");
    assert!(said.contains("AIcoreEngine"), "{said}");
    // A model that needs none of them works.
    let text = "graph @main(%x: f32[2,3]) {\n  %s = Const() {value = dense<i64[2]: 3 2>} : i64[2]\n  %r = Reshape(%x, %s) : f32[3,2]\n  return %r\n}\n";
    std::fs::write(away.path().join("m.ge"), text).unwrap();
    code(away.path(), 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
}

#[test]
fn without_nn_the_nodes_go_to_cpu_and_the_numbers_stay() {
    let (all, cpu) = (dir(|t| t), dir(without("nn")));
    for d in [&all, &cpu] {
        code(d.path(), 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    }
    assert!(engines(cpu.path()).iter().any(|(op, e)| op == "MatMulV2" && e.starts_with("DNN_VM_AICPU")));
    code(all.path(), 0, &["run", "m.om", "--random", "7", "--outputs", "out", "-q"]);
    let expected: PathBuf = all.path().join("out");
    let expected = expected.display().to_string();
    let args = ["run", "m.om", "--random", "7", "--expect", &expected, "--rtol", "1e-4", "--atol", "1e-5", "-q"];
    code(cpu.path(), 0, &args);
}

#[test]
fn equal_nodes_are_compiled_once() {
    let dir = tempfile::tempdir().unwrap();
    // Three equal nodes, one of another type, two that differ in an attribute, one on the AI CPU.
    let text = "graph @main(%x: f32[3,5], %y: f32[5,5]) {
  %a = Exp(%x) : f32[3,5]
  %b = Exp(%a) : f32[3,5]
  %c = Exp(%b) : f32[3,5]
  %d = Abs(%c) : f32[3,5]
  %e = Muls(%d) {value = 2.0} : f32[3,5]
  %f = Muls(%e) {value = 3.0} : f32[3,5]
  %g = MatrixDeterminant(%y) : f32[]
  return %f, %g
}
";
    std::fs::write(dir.path().join("m.ge"), text).unwrap();
    let args = ["compile", "m.ge", "-o", "m.om", "--json", "--set", "ge.x.auto_fusion=false"];
    let out = expect_code(dir.path(), 0, &args);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // Exp, Abs and two Muls are compiled with their subgraph, where Exp is asked for three times;
    // all six are asked for again for their tasks.
    assert_eq!(doc["kernels"], serde_json::json!({"fused_graph": 4, "single_op": 1, "hits": 8}));
}

#[test]
fn what_reads_a_long_constant_is_compiled_once() {
    let dir = tempfile::tempdir().unwrap();
    let weights: Vec<String> = (0..64 * 64).map(|i| format!("{}", f64::from(i % 97) * 0.125)).collect();
    let text = format!(
        "graph @main(%x: f32[8,64]) {{
  %w = Const() {{value = dense<f32[64,64]: {}>}} : f32[64,64]
  %y = MatMul(%x, %w) : f32[8,64]
  %s = Const() {{value = dense<f32[64,64]: splat 0.5>}} : f32[64,64]
  %z = MatMul(%y, %s) : f32[8,64]
  return %z
}}
",
        weights.join(" ")
    );
    std::fs::write(dir.path().join("m.ge"), text).unwrap();
    // Weights that engine nn packs after the merge would be different ones for the tasks.
    let as_it_is = "ge.optimizationSwitch=MatMulPanelsPass:off";
    let out = expect_code(dir.path(), 0, &["compile", "m.ge", "-o", "m.om", "--json", "--set", as_it_is]);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // Both are compiled with their subgraph, and asked for again for their tasks, with the
    // attributes of their prototype.
    assert_eq!(doc["kernels"], serde_json::json!({"fused_graph": 2, "single_op": 0, "hits": 2}));
}

#[test]
fn a_drawing_has_the_parts_that_are_asked_for() {
    let dir = dir(|t| t);
    let two = |name: &str| format!("  %{name} = MatMulV2(%x, %w) {{_stream_label = \"{name}\"}} : f32[6,16]\n");
    let text = [
        "graph @main(%x: f32[6,16]) {\n  %w = Const() {value = dense<f32[16,16]: splat 0.125>} : f32[16,16]\n",
        &two("a"),
        &two("b"),
        "  %c = MatMulV2(%a, %b) {transpose_x2 = true} : f32[6,6]\n  return %c\n}\n",
    ];
    std::fs::write(dir.path().join("d.ge"), text.concat()).unwrap();
    code(dir.path(), 0, &["compile", "d.ge", "-o", "d.om", "-q"]);
    let drawn = |what: &[&str]| {
        code(dir.path(), 0, &[&["inspect", "d.om", "--svg", "d.svg"], what].concat());
        let text = std::fs::read_to_string(dir.path().join("d.svg")).unwrap();
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
        (text.matches("marker-end").count(), text.matches(" bytes").count() > 1)
    };
    let out = ge(dir.path(), &["inspect", "d.om", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let events = doc["events"].as_array().unwrap().len();
    assert!(events >= 2, "{events}");
    assert_eq!(drawn(&[]), (events, true));
    assert_eq!(drawn(&["--what", "streams"]), (events, false));
    assert_eq!(drawn(&["--what", "memory"]), (0, true));
}

#[test]
fn a_drawing_of_open_sizes_has_every_step_of_every_round() {
    let dir = dir(|t| t);
    let text = "graph @main(%x: f32[n,16], %k: i64[]) {
      %w = Const() {value = dense<f32[16,16]: splat 0.125>} : f32[16,16]
      %a = MatMulV2(%x, %w) : f32[n,16]
      %zero = Const() {value = dense<i64[]: 0>} : i64[]
      %l = While(%zero, %k, %a) {cond = @go, body = @turn} : i64[], i64[], f32[n,16]
      return %l#2 }
    graph @go(%i: i64[], %k: i64[], %a: f32[n,16]) { %c = Less(%i, %k) : bool[] return %c }
    graph @turn(%i: i64[], %k: i64[], %a: f32[n,16]) {
      %one = Const() {value = dense<i64[]: 1>} : i64[]
      %j = Add(%i, %one) : i64[]
      %b = Tanh(%a) : f32[n,16]
      return %j, %k, %b }";
    std::fs::write(dir.path().join("o.ge"), text).unwrap();
    code(dir.path(), 0, &["compile", "o.ge", "-o", "o.om", "-q"]);
    let out = ge(dir.path(), &["inspect", "o.om", "--what", "exec", "--json"]);
    let doc: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let mut steps: Vec<String> = Vec::new();
    for round in doc["exec"]["main"].as_array().unwrap().iter().flat_map(|g| g["rounds"].as_array().unwrap()) {
        for kind in ["planned", "views", "device", "host"] {
            steps.extend(round[kind].as_array().unwrap().iter().map(|s| s["node"].as_str().unwrap().to_owned()));
        }
    }
    assert!(steps.len() >= 4 && steps.contains(&"b".to_owned()), "{doc}");
    for what in [&["--what", "exec"][..], &[]] {
        code(dir.path(), 0, &[&["inspect", "o.om", "--svg", "o.svg"], what].concat());
        let text = std::fs::read_to_string(dir.path().join("o.svg")).unwrap();
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
        assert_eq!(text.matches("<rect ").count(), steps.len(), "{text}");
        assert!(steps.iter().all(|n| text.contains(&format!(" {n}: "))), "{steps:?}\n{text}");
    }
}
