//! Task lists as hardware sees them, and what becomes of them on the simulator.
use ge::session::{Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::{RunOptions, RunOutcome};
use ge_tests::{expect_code, ge, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Tiling that reads values, on the device.
mod tiling_sink;
/// The same at run time.
mod sink_run_time;
/// The same by FFTS+ tasks.
mod sink_ffts_plus;
/// Models of ONNX that decide when they run.
mod onnx;
/// Other operators that are tiled by value.
mod values;
/// LSTMs of bytes.
mod byte_lstm;
/// Chains of kernels slice by slice.
mod ffts_plus;
/// Chains of kernels as one task.
mod super_kernel;
/// Where work on a stream begins and ends.
mod marks;
/// Loops and branches.
mod control_flow;
/// Loops and branches of streams.
mod switch_merge;
/// Ids of events, and what is said of them.
mod event_ids;
/// Plans broken on purpose.
mod mutants;
/// Attached work under control flow.
mod regions;
/// Runs.
mod executor;
/// Changed task lists.
mod fuzz;

/// Where the first task of a kind of the node `g` stands.
fn task_of_g(m: &ge_model::CompiledModel, kind: ge_plugin_api::task::TaskType) -> usize {
    let own = |t: &ge_model::TaskInfo| t.kind == kind.code() && m.node(t.graph, t.node).is_some_and(|n| n.name == "g");
    m.tasks.iter().position(own).unwrap()
}

/// A folder with a model as text, compiled with these arguments.
struct Compiled {
    dir: tempfile::TempDir,
}

impl Compiled {
    #[track_caller]
    fn new(text: &str, args: &[&str]) -> Compiled {
        let c = Compiled::source(text);
        c.compile(args);
        c
    }
    fn source(text: &str) -> Compiled {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("m.ge"), text).unwrap();
        Compiled { dir }
    }
    #[track_caller]
    fn compile(&self, args: &[&str]) {
        expect_code(self.path(), 0, &[&["compile", "m.ge", "-o", "m.om", "-q"], args].concat());
    }
    /// What a compile that fails says.
    #[track_caller]
    fn refusal(&self, code: i32, args: &[&str]) -> String {
        let out = expect_code(self.path(), code, &[&["compile", "m.ge", "-o", "x.om", "-q"], args].concat());
        assert!(!self.path().join("x.om").exists());
        String::from_utf8(out.stderr).unwrap()
    }
    fn path(&self) -> &Path {
        self.dir.path()
    }
    fn document(&self) -> Value {
        let out = expect_code(self.path(), 0, &["inspect", "m.om", "--json"]);
        serde_json::from_slice(&out.stdout).unwrap()
    }
    /// Every task in a line: index, type, node, stream, event, blocks, arguments, kernel, library,
    /// kernel type; the digest of a kernel's name is left out. Send and Recv nodes stand for the
    /// node that they serve.
    fn tasks(&self) -> Vec<String> {
        let doc = self.document();
        let events = doc["events"].as_array().unwrap();
        let served = |t: &Value| {
            let name = t["node"].as_str().unwrap().to_owned();
            let end = if name.contains("_Send_") { "send" } else { "recv" };
            let pair = events.iter().find(|e| e["id"] == t["event_id"]);
            match pair.filter(|_| name.contains("_Send_") || name.contains("_Recv_")) {
                Some(pair) => pair[end].as_str().unwrap().to_owned(),
                None => name,
            }
        };
        let n = |v: &Value| v.as_u64().map_or("-".to_owned(), |v| v.to_string());
        let line = |(i, t): (usize, &Value)| {
            assert_eq!(t["index"], i);
            let kernel = t["kernel_name"].as_str().unwrap();
            let digest = kernel.rfind('_').filter(|at| kernel.len() - at == 17).unwrap_or(kernel.len());
            let nodes: Vec<&str> = t["nodes"].as_array().into_iter().flatten().map(|v| v.as_str().unwrap()).collect();
            let more = if nodes.is_empty() { String::new() } else { format!(" of {}", nodes.join("+")) };
            format!(
                "{} {} s{} e{} b{} {} {} {} {}{more}",
                t["type"].as_str().unwrap(),
                served(t),
                n(&t["stream_id"]),
                n(&t["event_id"]),
                n(&t["block_dim"]),
                t["args_format"].as_str().unwrap(),
                &kernel[..digest],
                t["so_name"].as_str().unwrap(),
                n(&t["kernel_type"]),
            )
        };
        doc["tasks"].as_array().unwrap().iter().enumerate().map(line).collect()
    }
    /// Why passes and engines left a node alone.
    fn refusals(&self, node: &str) -> Value {
        let doc = self.document();
        let nodes = doc["graphs"][0]["nodes"].as_array().unwrap();
        nodes.iter().find(|n| n["name"] == node).unwrap_or_else(|| panic!("no `{node}`"))["refusals"].clone()
    }
    /// The OM on a device of this process.
    fn load(&self, device: &[(&str, &str)]) -> ge::session::Model {
        session(device).load_om(self.path().join("m.om")).unwrap()
    }
    /// What `ge run` on inputs of a seed says: exit code and stderr.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let out = ge(self.path(), &[&["run", "m.om", "--random", "1"], args].concat());
        (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
    }
    /// Changes the tasks of the OM, its checksum made right again.
    fn change(&self, f: impl FnOnce(&mut ge_model::CompiledModel)) {
        let path = self.path().join("m.om");
        let file = ge_om::OmFile::open(&path).unwrap();
        let mut m = ge_model::decode(&file).unwrap();
        f(&mut m);
        ge::session::write_om(&m, &path).unwrap();
    }
}

/// A session with this repository's plugins and options of the device.
fn session(device: &[(&str, &str)]) -> Session {
    let device_options = device.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let plugins = Some(root().join("plugins.toml"));
    Session::new(SessionOptions { plugins, device_options, ..SessionOptions::default() }).unwrap()
}

fn f32s(dims: &[u64], values: &[f32]) -> HostTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}
fn i64s(dims: &[u64], values: &[i64]) -> HostTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::I64, dims, &bytes).unwrap()
}
fn to_f32(t: &HostTensor) -> Vec<f32> {
    t.bytes().chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// One run with its report.
fn run(model: &ge::session::Model, inputs: &[HostTensor]) -> Result<RunOutcome, String> {
    let views: Vec<_> = inputs.iter().map(HostTensor::view).collect();
    model.run_views(&views, RunOptions { profile: true }).map_err(|e| format!("{e}"))
}
fn counter(r: &RunOutcome, name: &str) -> u64 {
    r.report.counters.iter().find(|c| c.name.as_str() == name).unwrap_or_else(|| panic!("no counter {name}")).value
}

/// Numbers of a seed (splitmix64).
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
    fn reals(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.real()).collect()
    }
}
