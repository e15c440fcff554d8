//! Task lists as hardware sees them, and their results on the simulator.
use ge::session::{Session, SessionOptions};
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::{RunOptions, RunOutcome};
use ge_tests::{expect_code, ge, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Tiling sink: tiling that reads values is computed on the device.
mod tiling_sink;
/// Tiling sink at run time.
mod sink_run_time;
/// Tiling sink of kernels that FFTS+ tasks launch.
mod sink_ffts_plus;
/// ONNX models whose control flow is decided at run time.
mod onnx;
/// Other operators whose tiling reads values.
mod values;
/// LSTMs whose weights are bytes.
mod byte_lstm;
/// FFTS+: chains of kernels that run slice by slice.
mod ffts_plus;
/// Super kernels: chains of kernels as one task.
mod super_kernel;
/// Where an engine's work on a stream begins and ends.
mod marks;
/// Loops and branches on the device.
mod control_flow;
/// Loops and branches by `Switch`, `Merge` and streams.
mod switch_merge;
/// Ids of events, and errors about them.
mod event_ids;
/// Plans broken on purpose.
mod mutants;
/// Attached work under control flow.
mod regions;
/// Runs: side by side, and with faults.
mod executor;
/// Changed task lists.
mod fuzz;

/// Index of the first task of this kind that belongs to the node `g`.
fn task_of_g(m: &ge_model::CompiledModel, kind: ge_plugin_api::task::TaskType) -> usize {
    let own = |t: &ge_model::TaskInfo| t.kind == kind.code() && m.node(t.graph, t.node).is_some_and(|n| n.name == "g");
    m.tasks.iter().position(own).unwrap()
}

/// A folder with a model as text, and the OM compiled from it with these arguments.
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
    /// Expects the compilation to fail with this exit code; returns its stderr.
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
    /// One line for each task: type, node, stream, event, blocks, arguments, kernel, library,
    /// kernel type, and the nodes that it covers if they are listed. The digest in a kernel's name
    /// is left out. For Send and Recv nodes the line names the node that they serve.
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
    /// The recorded reasons why passes and engines left a node alone.
    fn refusals(&self, node: &str) -> Value {
        let doc = self.document();
        let nodes = doc["graphs"][0]["nodes"].as_array().unwrap();
        nodes.iter().find(|n| n["name"] == node).unwrap_or_else(|| panic!("no `{node}`"))["refusals"].clone()
    }
    /// Loads the OM on a device of this process.
    fn load(&self, device: &[(&str, &str)]) -> ge::session::Model {
        session(device).load_om(self.path().join("m.om")).unwrap()
    }
    /// Runs `ge run` on random inputs; returns its exit code and stderr.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let out = ge(self.path(), &[&["run", "m.om", "--random", "1"], args].concat());
        (out.status.code().unwrap(), String::from_utf8(out.stderr).unwrap())
    }
    /// Changes the compiled model of the OM and writes the file with a correct checksum.
    fn change(&self, f: impl FnOnce(&mut ge_model::CompiledModel)) {
        let path = self.path().join("m.om");
        let file = ge_om::OmFile::open(&path).unwrap();
        let mut m = ge_model::decode(&file).unwrap();
        f(&mut m);
        ge::session::write_om(&m, &path).unwrap();
    }
}

/// A session with this repository's plugins and these device options.
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

/// Makes one run with profiling; the outcome contains the report.
fn run(model: &ge::session::Model, inputs: &[HostTensor]) -> Result<RunOutcome, String> {
    let views: Vec<_> = inputs.iter().map(HostTensor::view).collect();
    model.run_views(&views, RunOptions { profile: true }).map_err(|e| format!("{e}"))
}
fn counter(r: &RunOutcome, name: &str) -> u64 {
    r.report.counters.iter().find(|c| c.name.as_str() == name).unwrap_or_else(|| panic!("no counter {name}")).value
}

/// A random number generator (splitmix64).
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
