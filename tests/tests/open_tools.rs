//! What `ge` does around a run is the same for an OM of open sizes as for a static one.
use crate::dynamic::BLOCK;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::npy;
use ge_tests::{expect_code, root, target};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The graph of [`BLOCK`] for two sequences of length five.
fn closed() -> String {
    BLOCK.replace("[n,", "[2,").replace(",s,", ",5,").replace(",s]", ",5]")
}

fn save(path: &Path, dims: &[u64], value: impl Fn(usize) -> f32) {
    let count: u64 = dims.iter().product();
    let bytes: Vec<u8> = (0..count as usize).flat_map(|i| value(i).to_le_bytes()).collect();
    let t = HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap();
    std::fs::write(path, npy::write(&t).unwrap()).unwrap();
}

/// Compiles a text to `NAME.om`.
fn compile(d: &Path, name: &str, text: &str) {
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", &format!("{name}.om"), "-q"]);
}

#[test]
fn profiles_dumps_and_comparisons_are_those_of_a_static_model() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    compile(d, "open", BLOCK);
    compile(d, "static", &closed());
    std::fs::create_dir(d.join("in")).unwrap();
    save(&d.join("in/input_0.npy"), &[2, 5, 4], |i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0);
    save(&d.join("in/input_1.npy"), &[2, 1, 1, 5], |_| 0.0);
    let mut seen: Vec<(Vec<String>, Vec<(String, Vec<u8>)>)> = Vec::new();
    for name in ["open", "static"] {
        let (om, dump, profile) = (format!("{name}.om"), format!("dump_{name}"), format!("{name}.json"));
        let run =
            ["run", &om, "--inputs", "in", "--dump-tensors", &dump, "--profile", &profile, "--outputs", &dump, "-q"];
        expect_code(d, 0, &run);
        let events: Value = serde_json::from_slice(&std::fs::read(d.join(profile)).unwrap()).unwrap();
        let kernel = |e: &Value| Some(format!("{} {}", e["name"].as_str()?, e["args"]["kernel"].as_str()?));
        let kernels: Vec<String> = events["traceEvents"].as_array().unwrap().iter().filter_map(kernel).collect();
        assert!(kernels.len() > 4, "{events}");
        let files = std::fs::read_dir(d.join(dump)).unwrap().map(|f| f.unwrap());
        let arrays = files.filter(|f| f.path().extension().is_some_and(|e| e == "npy"));
        let mut arrays: Vec<(String, Vec<u8>)> =
            arrays.map(|f| (f.file_name().into_string().unwrap(), std::fs::read(f.path()).unwrap())).collect();
        arrays.sort();
        seen.push((kernels, arrays));
    }
    // The same kernels, and the same bits for each node.
    assert_eq!(seen[0], seen[1]);
    expect_code(d, 0, &["compare", "open.om", "static.om", "--inputs", "in", "-q"]);
    compile(d, "other", &BLOCK.replace("dense<f32[]: 0.5>", "dense<f32[]: 0.25>"));
    let said =
        String::from_utf8(expect_code(d, 1, &["compare", "open.om", "other.om", "--inputs", "in"]).stdout).unwrap();
    assert!(said.contains("PromptFlashAttention"), "{said}");
}

/// Strings have no device kernels: the profile and the table of nodes show what the host did, in
/// the order in which it did it.
#[test]
fn profiles_tell_what_the_host_executes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let of = root().join("tests/models/texts/split");
    let (onnx, inputs) = (of.join("model.onnx").display().to_string(), of.join("s0").display().to_string());
    expect_code(d, 0, &["compile", &onnx, "-o", "m.om", "-q"]);
    expect_code(d, 0, &["run", "m.om", "--inputs", &inputs, "--profile", "p.json", "--outputs", "out", "-q"]);
    let trace: Value = serde_json::from_slice(&std::fs::read(d.join("p.json")).unwrap()).unwrap();
    let events: Vec<&Value> = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").collect();
    let splits = events.iter().filter(|e| e["args"]["op"] == "StringSplit" && e["cat"] == "host").count();
    assert_eq!((splits, events.len()), (4, 4), "{trace}");
    let times: Vec<f64> = events.iter().map(|e| e["ts"].as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(trace["otherData"]["elapsed_ns"].as_f64().unwrap() >= times[3] * 1e3, "{trace}");
    let bench = ["bench", "m.om", "--inputs", &inputs, "--iterations", "1", "--per-node", "--json"];
    let doc: Value = serde_json::from_slice(&expect_code(d, 0, &bench).stdout).unwrap();
    let nodes = doc["nodes"].as_array().unwrap();
    assert!(nodes.len() == 4 && nodes.iter().all(|n| n["engine"] == "host" && n["op"] == "StringSplit"), "{doc}");
}

/// Damaged models: a parameter of a loop's body that occurs twice, and one to which no turn gives a
/// value.
#[test]
fn parameters_that_do_not_fit_their_call_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let onnx = root().join("tests/models/texts/named/model.onnx").display().to_string();
    expect_code(d, 0, &["compile", &onnx, "-o", "m.om", "-q"]);
    let model = ge::session::read_om(&d.join("m.om")).unwrap();
    for (index, says) in [(0i64, "is the parameter that another node is"), (7, "takes 8 values")] {
        let mut m = model.clone();
        let body = m.graphs.iter_mut().find(|g| g.name == "long_body").unwrap();
        let last = body.nodes.iter_mut().rfind(|n| n.op == "Data").unwrap();
        last.attrs.set("index", index);
        ge::session::write_om(&m, &d.join("x.om")).unwrap();
        let inputs = root().join("tests/models/texts/named/s0").display().to_string();
        let out = expect_code(d, 4, &["run", "x.om", "--inputs", &inputs, "-q"]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn the_first_node_without_finite_numbers_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    save(&d.join("x.npy"), &[2, 3], |i| i as f32 - 2.5);
    for (name, rows) in [("open", "n"), ("static", "2")] {
        let text = "graph @main(%x: f32[n,3]) {
           %s = SoftmaxV2(%x) {axes = [-1]} : f32[n,3]
           %l = Log(%x) : f32[n,3]
           %m = ReduceSumD(%l) {axes = [0], keep_dims = false} : f32[3]
           return %m, %s }";
        compile(d, name, &text.replace("[n", &format!("[{rows}")));
        let said = expect_code(d, 1, &["run", &format!("{name}.om"), "--input", "x=x.npy", "--check-numerics"]);
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(text.contains("GE-E0803") && text.contains("`l`"), "{name}: {text}");
    }
}

/// A loop without an end.
const ENDLESS: &str = "graph @main(%x: f32[n]) { %y = While(%x) {cond = @go, body = @turn} : f32[?] return %y }
   graph @go(%x: f32[?]) { %c = Const() {value = dense<bool[]: true>} : bool[] return %c }
   graph @turn(%x: f32[?]) { %y = Neg(%x) : f32[?] return %y }";

#[test]
fn a_loop_without_an_end_is_told_and_one_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    compile(d, "m", ENDLESS);
    let run = ["run", "m.om", "--input", "x=[1,2]", "--device-option", "max_tasks=5000"];
    let text = String::from_utf8(expect_code(d, 6, &run).stderr).unwrap();
    assert!(text.contains("did not end within 1000 turns") && text.contains("`y` (While)"), "{text}");
    // A loop may make exactly as many turns as the limit allows.
    let counted = "graph @main(%i: i64[], %x: f32[n]) { %w = While(%i, %x) {cond = @go, body = @turn} : i64[], f32[?] return %w#1 }
       graph @go(%i: i64[], %x: f32[?]) {
         %z = Const() {value = dense<i64[]: 0>} : i64[]
         %g = Greater(%i, %z) : bool[]
         return %g }
       graph @turn(%i: i64[], %x: f32[?]) {
         %one = Const() {value = dense<i64[]: 1>} : i64[]
         %j = Sub(%i, %one) : i64[]
         %y = Neg(%x) : f32[?]
         return %j, %y }";
    compile(d, "counted", counted);
    let turns = |n: &str, code: i32| {
        let i = format!("i={n}");
        expect_code(
            d,
            code,
            &["run", "counted.om", "--input", &i, "--input", "x=[1,2]", "--device-option", "max_tasks=5000", "-q"],
        );
    };
    turns("1000", 0);
    turns("1001", 6);
    let mut child = Command::new(target().join("ge"))
        .args(["run", "m.om", "--input", "x=[1,2]", "--device-option", "max_tasks=1000000000000", "-q"])
        .args(["--plugins", &root().join("plugins.toml").display().to_string()])
        .current_dir(d)
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(600));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
