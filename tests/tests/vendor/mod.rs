//! A vendor's library, the crate of `docs/plugins.md`, built outside the workspace: its engines and
//! its operators are used.
mod c_door;
mod fusion;
mod hooks;

use ge_tests::{root, target};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Builds a package in a target folder of its own and returns its library.
fn build(manifest: &Path, name: &str) -> PathBuf {
    let to = target().join("../vendor").join(name);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .args(["build", "--quiet", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&to)
        .env_remove("CARGO_TARGET_DIR")
        .env("RUSTFLAGS", "")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    std::fs::canonicalize(to.join("debug/libge_acme.so")).unwrap()
}

fn vendor() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build(&root().join("examples/vendor/Cargo.toml"), "good"))
}

/// A folder with a `plugins.toml` that lists this repository's plugins and the vendor's library.
struct Dir(tempfile::TempDir);
impl Dir {
    fn new(library: &Path, more: &str) -> Dir {
        let dir = tempfile::tempdir().unwrap();
        let ours = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
        let entry =
            format!("\n[[plugin]]\nname = \"acme\"\npath = \"{}\"\nversion = \"^1.2\"\n{more}", library.display());
        std::fs::write(dir.path().join("plugins.toml"), ours + &entry).unwrap();
        Dir(dir)
    }
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.0.path().join(name), bytes).unwrap();
    }
    fn ge(&self, args: &[&str]) -> Output {
        Command::new(target().join("ge"))
            .args(args)
            .args(["--plugins", "plugins.toml"])
            .current_dir(self.0.path())
            .env_remove("GE_PLUGINS")
            .env_remove("GE_OPTIONS")
            .output()
            .unwrap()
    }
    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let out = self.ge(args);
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
    fn inspect(&self) -> Value {
        serde_json::from_str(&self.ok(&["inspect", "m.om", "--json"])).unwrap()
    }
    /// Runs the OM on these values and returns its output.
    fn run(&self, values: &[f32]) -> Vec<f32> {
        std::fs::create_dir_all(self.0.path().join("in")).unwrap();
        self.write("in/input_0.npy", npy(values));
        self.ok(&["run", "m.om", "--inputs", "in", "--outputs", "out"]);
        let bytes = std::fs::read(self.0.path().join("out/output_0.npy")).unwrap();
        let data = bytes.len() - values.len() * 4;
        bytes[data..].chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
    }
}

fn npy(values: &[f32]) -> Vec<u8> {
    let mut head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': (2, {}), }}", values.len() / 2);
    while (head.len() + 11) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(u16::try_from(head.len()).unwrap().to_le_bytes());
    out.extend(head.bytes());
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    out
}

/// A length-delimited field of a protobuf message.
fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    assert!(bytes.len() < 1 << 14);
    let mut out = vec![number << 3 | 2];
    if bytes.len() < 128 {
        out.push(bytes.len() as u8);
    } else {
        out.extend([bytes.len() as u8 & 127 | 128, (bytes.len() >> 7) as u8]);
    }
    out.extend(bytes);
    out
}
/// A varint field of a protobuf message; the value is below 128.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// An ONNX model: `y = com.acme.Gelu(x, scale = 2)` on f32[2, n].
fn onnx(n: u8) -> Vec<u8> {
    let dims = [field(1, number(1, 2)), field(1, number(1, n))].concat();
    let value = |name: &str| [field(1, name), field(2, field(1, [number(1, 1), field(2, &dims)].concat()))].concat();
    let mut scale = [field(1, "scale"), vec![2 << 3 | 5]].concat();
    scale.extend(2f32.to_le_bytes());
    scale.extend([20 << 3 & 127 | 128, 1, 1]); // field 20, type: FLOAT
    let node =
        [field(1, "x"), field(2, "y"), field(3, "gelu"), field(4, "Gelu"), field(5, scale), field(7, "com.acme")]
            .concat();
    let graph = [field(1, node), field(2, "g"), field(11, value("x")), field(12, value("y"))].concat();
    let opset = |domain: &str, version| [field(1, domain), number(2, version)].concat();
    [number(1, 8), field(7, graph), field(8, opset("", 17)), field(8, opset("com.acme", 1))].concat()
}

fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x * x * x)).tanh())) as f32
}

fn sample(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 - n as f32 / 2.0) * 7.0 / n as f32).collect()
}

#[track_caller]
fn near(found: &[f32], expected: impl Iterator<Item = f32>) {
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= 1e-5 + 1e-5 * e.abs(), "element {i}: {f}, expected {e}");
    }
}

/// The node of the OM with this name.
fn node(doc: &Value, name: &str) -> Value {
    let nodes = doc["graphs"][0]["nodes"].as_array().unwrap();
    nodes.iter().find(|n| n["name"] == name).unwrap_or_else(|| panic!("no node {name}: {nodes:?}")).clone()
}

#[test]
fn the_page_shows_the_crate() {
    let page = std::fs::read_to_string(root().join("docs/plugins.md")).unwrap();
    for f in ["Cargo.toml", "src/lib.rs", "src/pass.rs", "src/fusion.rs", "src/gelu.rs", "src/engine.rs"] {
        let text = std::fs::read_to_string(root().join("examples/vendor").join(f)).unwrap();
        assert!(page.contains(&format!("\n{text}```\n")), "docs/plugins.md does not show {f} as it is");
    }
    let page = std::fs::read_to_string(root().join("docs/plugins-reference.md")).unwrap();
    let text = std::fs::read_to_string(root().join("examples/vendor/src/aside.rs")).unwrap();
    assert!(page.contains(&format!("\n{text}```\n")), "docs/plugins-reference.md does not show aside.rs as it is");
}

/// Work on an attached stream is done before the node's own work, whatever the order of the
/// streams.
#[test]
fn an_attached_stream_of_a_vendor_is_waited_for() {
    let dir = Dir::new(vendor(), "");
    dir.write(
        "m.ge",
        "graph @main(%x: f32[64]) {\n  %y = AcmeSquareSum(%x) : f32[64]\n  %z = Relu(%y) : f32[64]\n  return %z\n}\n",
    );
    dir.ok(&["compile", "m.ge", "-o", "m.om", "-q"]);
    let doc = dir.inspect();
    let of: Vec<_> =
        doc["tasks"].as_array().unwrap().iter().filter(|t| t["node"] == "y" && t["type"] == "KERNEL").collect();
    assert!(of.len() == 2 && of[0]["stream_id"] != of[1]["stream_id"], "two streams: {of:?}");
    let first = dir.ok(&["run", "m.om", "--input", "x=3"]);
    for seed in ["1", "2", "3"] {
        let schedule = format!("schedule=random:{seed}");
        let checked =
            ["run", "m.om", "--input", "x=3", "--device-option", &schedule, "--device-option", "check_races=true"];
        assert_eq!(dir.ok(&checked), first);
    }
    assert!(first.contains("12"), "3 * 3 + 3: {first}");
}

#[test]
fn a_vendor_brings_an_engine_and_an_operator() {
    let dir = Dir::new(vendor(), "");
    dir.write("m.onnx", onnx(100));
    dir.ok(&["compile", "m.onnx", "-o", "m.om", "-q"]);
    let doc = dir.inspect();
    let gelu_node = node(&doc, "gelu");
    assert_eq!((&gelu_node["type"], &gelu_node["engine"]), (&"AcmeGelu".into(), &"AcmeEngine".into()));
    let tasks = doc["tasks"].as_array().unwrap();
    let own: Vec<_> = tasks.iter().filter(|t| t["node"] == "gelu" && t["type"] == "KERNEL").collect();
    assert_eq!(own.len(), 2, "{tasks:?}");
    assert_eq!(own[1]["args_format"], "{i0*}{ws0*}{o0*}");
    let x = sample(200);
    near(&dir.run(&x), x.iter().map(|x| 2.0 * gelu(*x)));
}

/// Loads the OM in a session of its own, so that one loaded model can run several times.
fn loaded(dir: &Dir, device: &[(&str, &str)]) -> ge::session::Model {
    use ge::session::{Session, SessionOptions};
    let device_options = device.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let plugins = dir.0.path().join("plugins.toml");
    let text = std::fs::read_to_string(&plugins).unwrap();
    if !text.contains("search") {
        let search = format!("schema = 1\nsearch = [{:?}]", target());
        std::fs::write(&plugins, text.replacen("schema = 1", &search, 1)).unwrap();
    }
    let options = SessionOptions { plugins: Some(plugins), device_options, ..SessionOptions::default() };
    Session::new(options).unwrap().load_om(dir.0.path().join("m.om")).unwrap()
}

#[test]
fn a_workspace_that_must_be_zero_is_zero_on_every_run() {
    let dir = Dir::new(vendor(), "");
    dir.write(
        "m.ge",
        "graph @main(%x: f32[2,50]) {
  %r = Relu(%x) : f32[2,50]
  %q = MatMul(%r, %x) {transpose_x2 = true} : f32[2,2]
  %a = AcmeTally(%r) : f32[2,50]
  %b = AcmeTally(%a) : f32[2,50]
  return %b, %q
}
",
    );
    for policy in ["0", "1"] {
        let set = format!("ge.exec.atomicCleanPolicy={policy}");
        dir.ok(&["compile", "m.ge", "-o", "m.om", "-q", "--set", &set]);
        let clears = dir.inspect()["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|t| t["node"].as_str().is_some_and(|n| n.ends_with("_AtomicAddrClean")))
            .count();
        assert_eq!(clears, if policy == "0" { 1 } else { 2 });
        let x = sample(100);
        let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
        let x_in =
            [ge_plugin_api::kernel::HostTensor::from_bytes(ge_plugin_api::types::DType::F32, &[2, 50], &bytes)
                .unwrap()];
        let model = loaded(&dir, &[("check_races", "true")]);
        for run in 0..3 {
            let out = model.run(&x_in).unwrap();
            let found: Vec<f32> =
                out[0].bytes().chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
            assert_eq!(found, x.iter().map(|v| v.max(0.0)).collect::<Vec<_>>(), "policy {policy}, run {run}");
        }
    }
}

#[test]
fn a_vendors_stream_pass_moves_nodes_and_the_numbers_stay() {
    let dir = Dir::new(vendor(), "");
    let text = "graph @main(%x: f32[2,50]) {
  %a = Relu(%x) : f32[2,50]
  %b = Neg(%a) {acme_stream = 1} : f32[2,50]
  %c = Neg(%b) {acme_stream = 1} : f32[2,50]
  %d = Abs(%a) {acme_stream = 2} : f32[2,50]
  %e = Add(%c, %d) : f32[2,50]
  return %e
}
";
    dir.write("m.ge", text);
    dir.ok(&["compile", "m.ge", "-o", "m.om", "-q", "--set", "ge.x.auto_fusion=false"]);
    let doc = dir.inspect();
    assert_eq!(doc["streams"]["assigned_by_stream_pass"], true);
    assert_eq!(doc["streams"]["logical"], 3);
    let stream = |name: &str| node(&doc, name)["logical_stream_id"].as_u64().unwrap();
    assert_eq!((stream("b"), stream("c")), (stream("c"), stream("b")));
    assert!(stream("a") == stream("e") && stream("a") != stream("b") && stream("b") != stream("d"));
    assert!(doc["event_num"].as_u64().unwrap() >= 3, "{}", doc["events"]);
    let x = sample(100);
    let want: Vec<f32> = x.iter().map(|v| 2.0 * v.max(0.0)).collect();
    assert_eq!(dir.run(&x), want);
    let first = loaded(&dir, &[]).run_random(3).unwrap();
    for seed in 0..8 {
        let schedule = format!("random:{seed}");
        let model = loaded(&dir, &[("schedule", &schedule), ("check_races", "true")]);
        assert_eq!(model.run_random(3).unwrap()[0].bytes(), first[0].bytes(), "schedule {seed}");
    }
    // With the pass switched off, everything is on one stream.
    let off = "ge.optimizationSwitch=AcmeStreamPass:off";
    dir.ok(&["compile", "m.ge", "-o", "m.om", "-q", "--set", "ge.x.auto_fusion=false", "--set", off]);
    assert_eq!(dir.inspect()["streams"]["logical"], 1);
}

/// `Support::YesAt`: a node goes to the engine where it costs least. An engine that asks a higher
/// cost for this node than usual gets it only if no other engine takes it.
#[test]
fn a_node_goes_where_it_costs_least() {
    let dir = Dir::new(vendor(), "");
    let graph = |columns: u32| {
        format!("graph @main(%x: f32[2,{columns}]) {{\n  %g = AcmeGelu(%x) : f32[2,{columns}]\n  return %g\n}}\n")
    };
    for (columns, engine) in [(31, "AcmeLight"), (32, "AcmeEngine")] {
        dir.write("m.ge", graph(columns));
        dir.ok(&["compile", "m.ge", "-o", "m.om", "-q"]);
        assert_eq!(node(&dir.inspect(), "g")["engine"], engine);
        let x = sample(2 * columns as usize);
        near(&dir.run(&x), x.iter().map(|x| gelu(*x)));
    }
    dir.write("m.ge", graph(31));
    let why: Value = serde_json::from_str(&dir.ok(&["plugin", "why", "m.ge", "g", "--json"])).unwrap();
    let costs: Vec<_> = why["engines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["engine"].as_str().unwrap(), e["cost"].as_u64()))
        .collect();
    assert_eq!(costs, [("AcmeEngine", Some(9)), ("AcmeLight", Some(5))]);
    assert_eq!(why["chosen"], "AcmeLight");
    // Without the light engine of the vendor's library, the first engine takes the node at its
    // cost.
    let dir = Dir::new(vendor(), "exclude_engines = [\"AcmeLight\"]\n");
    dir.write("m.ge", graph(31));
    dir.ok(&["compile", "m.ge", "-o", "m.om", "-q"]);
    assert_eq!(node(&dir.inspect(), "g")["engine"], "AcmeEngine");
}

#[test]
fn a_text_graph_runs_on_the_light_engine_where_the_other_is_excluded() {
    let dir = Dir::new(vendor(), "exclude_engines = [\"AcmeEngine\"]\n");
    dir.write("m.ge", "graph @main(%x: f32[2,50]) {\n  %g = AcmeGelu(%x) : f32[2,50]\n  return %g\n}\n");
    dir.ok(&["compile", "m.ge", "-o", "m.om", "-q"]);
    assert_eq!(node(&dir.inspect(), "g")["engine"], "AcmeLight");
    let x = sample(100);
    near(&dir.run(&x), x.iter().map(|x| gelu(*x)));
}

/// A graph with `AcmeRowScale` on rows in three groups.
const ROWS: &str = "graph @main(%x: f32[6,5], %factor: f32[3], %counts: i64[3]) {
  %y = AcmeRowScale(%x, %factor, %counts) : f32[6,5]
  return %y
}
";

#[test]
fn a_custom_operator_is_tiled_on_the_device() {
    let dir = Dir::new(vendor(), "");
    dir.write("m.ge", ROWS);
    let compile = ["compile", "m.ge", "-o", "m.om", "-q", "--soc", "Ascend910B", "--set"];
    // With the gate closed no engine takes the node, and the error gives the reason of the vendor's
    // engine.
    let out = dir.ge(&[&compile[..], &["ge.tiling_schedule_optimize=0"]].concat());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(3) && said.contains("runs on the device alone"), "{said}");
    dir.ok(&[&compile[..], &["ge.tiling_schedule_optimize=1"]].concat());
    let doc = dir.inspect();
    let y = node(&doc, "y");
    assert_eq!(y["engine"], "AcmeTiled");
    let sizes: Vec<u64> = y["workspaces"].as_array().unwrap().iter().map(|w| w["size"].as_u64().unwrap()).collect();
    // The log of a custom tiling needs 20,480 bytes in addition to the operator's own workspace.
    assert!(sizes.len() == 2 && sizes[0] >= 24 && sizes[1] >= 20_480 && sizes[1] <= 20_480 + 512, "{sizes:?}");
    let list: Vec<String> = doc["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| {
            let of = |k: &str| t[k].as_str().map_or_else(|| t[k].to_string(), str::to_owned);
            ["type", "stream_id", "block_dim", "args_format", "kernel_name", "so_name", "kernel_type"].map(of).join(" ")
        })
        .collect();
    let mut expected = vec![
        "PREPROCESS_KERNEL 1 1 {tiling_context}{*op_type}{}{ws1*} RunAicpuRpcSrvLaunch libcust_opmaster.so 7"
            .to_owned(),
        "EVENT_WAIT 0 0    0".into(),
    ];
    expected.extend((0..8).map(|_| "NOP 0 0    0".to_owned()));
    expected.extend([
        "KERNEL 0 4294967295 {i0*}{i1*}{i2*}{o0*}{ws0*}{tiling_context.tiling_data} acme_rows  2".to_owned(),
        "UPDATE 1 0 {tiling_context.tiling_key}{tiling_context.block_dim}   0".into(),
        "EVENT_RECORD 1 0    0".into(),
        "END_GRAPH 0 0    0".into(),
    ]);
    assert_eq!(list, expected);
    let context = loaded(&dir, &[]).tiling_context("y").unwrap().unwrap();
    assert!(context.platform.custom && context.workspaces.len() == 2, "{context:?}");
    let run = |counts: [i64; 3], code: i32| {
        let i64s: Vec<u8> = counts.iter().flat_map(|v| v.to_le_bytes()).collect();
        let tensor = |descr: &str, shape: &str, bytes: Vec<u8>| {
            let mut head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
            while (head.len() + 11) % 64 != 0 {
                head.push(' ');
            }
            head.push('\n');
            [&b"\x93NUMPY\x01\x00"[..], &u16::try_from(head.len()).unwrap().to_le_bytes()[..], head.as_bytes(), &bytes]
                .concat()
        };
        let f32s = |v: &[f32]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        std::fs::create_dir_all(dir.0.path().join("in")).unwrap();
        dir.write("in/input_0.npy", tensor("<f4", "6, 5", f32s(&sample(30))));
        dir.write("in/input_1.npy", tensor("<f4", "3,", f32s(&[2.0, -1.0, 10.0])));
        dir.write("in/input_2.npy", tensor("<i8", "3,", i64s));
        let args = ["run", "m.om", "--inputs", "in", "--outputs", "out", "-q", "--device-option", "check_races=true"];
        let out = dir.ge(&args);
        assert_eq!(out.status.code(), Some(code), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stderr).unwrap()
    };
    for counts in [[1, 2, 3], [6, 0, 0], [0, 3, 3]] {
        run(counts, 0);
        let bytes = std::fs::read(dir.0.path().join("out/output_0.npy")).unwrap();
        let y = bytes[bytes.len() - 120..].chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap()));
        let factors =
            [2.0f32, -1.0, 10.0].into_iter().zip(counts).flat_map(|(f, n)| std::iter::repeat_n(f, n as usize * 5));
        near(&y.collect::<Vec<_>>(), sample(30).into_iter().zip(factors).map(|(x, f)| x * f));
    }
    let said = run([1, 1, 1], 1);
    assert!(said.contains("are not 6 rows") && said.contains("`y`"), "{said}");
}

/// Only the prototype of an operator says that it is element-wise. Passes and engines that use this
/// treat a vendor's operator like our own, although none of their sources names it.
#[test]
fn a_vendors_element_wise_operator_is_treated_as_our_own() {
    let graph = |op: &str| {
        format!(
            "graph @main(%x: f32[4,6]) {{\n  %a = Reshape(%x) {{shape = [2,12]}} : f32[2,12]\n  %b = {op}(%a) : f32[2,12]\n  \
             %y = Reshape(%b) {{shape = [4,6]}} : f32[4,6]\n  return %y\n}}\n"
        )
    };
    let d = Dir::new(vendor(), "");
    let views = |op: &str| {
        d.write("g.ge", graph(op));
        let text = d.ok(&["opt", "g.ge", "--until", "prepare"]);
        assert!(text.contains(&format!("{op}(")), "{text}");
        text.matches("Reshape(").count()
    };
    assert_eq!(views("Mish"), 0, "our own operator moves before the view");
    assert_eq!(views("AcmeGelu"), 0, "a vendor's does too");
    assert_eq!(views("SoftmaxV2"), 2, "what is not element-wise stays");
}
