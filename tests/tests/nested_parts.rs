//! Parts of known shape in loop bodies and in branches that executor v2 runs: they are sealed when
//! the model is compiled, loaded once, and launched in every turn.
use crate::dynamic::session;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::expect_code;
use serde_json::Value;
use std::path::Path;

/// A loop whose state `y` is of open size. Its body has a chain of known sizes, and a branch that
/// depends on the turn; each of the branches reads `y`, so that neither is known as a whole. The
/// chain of `@odd` calls a graph of known sizes, which becomes part of the same sealed part.
const LOOP: &str = "graph @main(%n: i64[], %v: f32[2,3], %y: f32[m]) {
   %zero = Const() {value = dense<i64[]: 0>} : i64[]
   %w = While(%zero, %n, %v, %y) {cond = @go, body = @turn} : i64[], i64[], f32[2,3], f32[m]
   return %w#2, %w#3 }
 graph @go(%i: i64[], %n: i64[], %v: f32[2,3], %y: f32[m]) { %l = Less(%i, %n) : bool[] return %l }
 graph @turn(%i: i64[], %n: i64[], %v: f32[2,3], %y: f32[m]) {
   %one = Const() {value = dense<i64[]: 1>} : i64[]
   %two = Const() {value = dense<i64[]: 2>} : i64[]
   %half = Const() {value = dense<f32[3]: 0.5, 0.25, 0.125>} : f32[3]
   %j = Add(%i, %one) : i64[]
   %rem = Mod(%i, %two) : i64[]
   %odd = Equal(%rem, %one) : bool[]
   %a = Mul(%v, %half) : f32[2,3]
   %b = Neg(%a) : f32[2,3]
   %c = Exp(%b) : f32[2,3]
   %d = Add(%c, %half) : f32[2,3]
   %u = Sub(%d, %a) : f32[2,3]
   %f = If(%odd, %u, %y) {then_branch = @odd, else_branch = @even} : f32[2,3], f32[m]
   return %j, %n, %f, %f#1 }
 graph @odd(%p: f32[2,3], %q: f32[m]) {
   %a = Abs(%p) : f32[2,3]
   %b = Sqrt(%a) : f32[2,3]
   %k = PartitionedCall(%b) {f = @inner} : f32[2,3]
   %c = Neg(%k) : f32[2,3]
   %d = Exp(%c) : f32[2,3]
   %s = ReduceSumD(%d) {axes = [0, 1], keep_dims = false} : f32[]
   %r = Mul(%q, %s) : f32[m]
   %t = Tanh(%r) : f32[m]
   return %d, %t }
 graph @inner(%p: f32[2,3]) { %a = Abs(%p) : f32[2,3] %b = Sqrt(%a) : f32[2,3] return %b }
 graph @even(%p: f32[2,3], %q: f32[m]) {
   %r = Neg(%q) : f32[m]
   return %p, %r }";

fn npy(path: &Path, t: &HostTensor) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, ge_runtime::npy::write(t).unwrap()).unwrap();
}
fn f32s(dims: &[u64], v: &[f32]) -> HostTensor {
    let bytes: Vec<u8> = v.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap()
}
fn i64s(v: i64) -> HostTensor {
    HostTensor::from_bytes(DType::I64, &[], &v.to_le_bytes()).unwrap()
}
fn json(d: &Path, args: &[&str]) -> Value {
    serde_json::from_slice(&expect_code(d, 0, args).stdout).unwrap()
}
fn inputs(n: i64, m: usize) -> [HostTensor; 3] {
    let y: Vec<f32> = (0..m).map(|i| i as f32 * 0.25 - 0.5).collect();
    [i64s(n), f32s(&[2, 3], &[1.0, -0.5, 0.25, 2.0, -1.0, 0.0]), f32s(&[m as u64], &y)]
}

/// The result of the loop in plain arithmetic.
fn expected(n: i64, m: usize) -> (Vec<f32>, Vec<f32>) {
    let [_, v, y] = inputs(n, m);
    let reals = |t: &HostTensor| t.view().values::<f32>().unwrap().to_vec();
    let (mut v, mut y) = (reals(&v), reals(&y));
    for i in 0..n {
        let of = |(k, v): (usize, &f32)| {
            let half = [0.5f32, 0.25, 0.125][k % 3];
            (-(v * half)).exp() + half - v * half
        };
        v = v.iter().enumerate().map(of).collect();
        if i % 2 == 1 {
            v = v.iter().map(|v| (-v.abs().sqrt().abs().sqrt()).exp()).collect();
            let sum: f32 = v.iter().sum();
            y = y.iter().map(|y| (y * sum).tanh()).collect();
        } else {
            y = y.iter().map(|y| -y).collect();
        }
    }
    (v, y)
}

#[test]
fn known_parts_of_bodies_and_branches_are_loaded_once_and_run_in_every_turn() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), LOOP).unwrap();
    let compile = |om: &str, limit: &str| {
        let limit = format!("ge.exec.static_model_ops_lower_limit={limit}");
        expect_code(d, 0, &["compile", "m.ge", "-o", om, "-q", "--set", "ge.x.auto_fusion=false", "--set", &limit]);
    };
    compile("parted.om", "3");
    compile("whole.om", "-1");
    let doc = json(d, &["inspect", "parted.om", "--json"]);
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect()
    };
    // The part of the body and that of a branch, each of known shape, are called where their nodes
    // were.
    let parts = names(&doc["parts"]);
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts[0].starts_with("turn_sub_") && parts[1].starts_with("odd_sub_"), "{parts:?}");
    for p in doc["parts"].as_array().unwrap() {
        assert!(p["graphs"].as_array().unwrap().iter().all(|g| g["shape"] == "known"), "{p}");
    }
    let exec = json(d, &["inspect", "parted.om", "--what", "exec", "--json"])["exec"].take();
    assert_eq!(names(&exec["init"]["parts"]), parts);
    let hosts = |graph: &str| -> Vec<String> {
        let main = exec["main"].as_array().unwrap().iter().find(|g| g["graph"] == graph).unwrap();
        let steps = main["rounds"].as_array().unwrap().iter().flat_map(|r| r["host"].as_array().unwrap());
        steps.filter(|s| s["by"] == "launches a sealed part").map(|s| s["node"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((hosts("turn"), hosts("odd")), (vec![parts[0].clone()], vec![parts[1].clone()]));
    assert!(json(d, &["inspect", "whole.om", "--json"])["parts"].as_array().unwrap().is_empty());
    for (n, m) in [(0, 4), (1, 4), (7, 1), (1000, 5)] {
        for (k, t) in inputs(n, m).iter().enumerate() {
            npy(&d.join(format!("in/input_{k}.npy")), t);
        }
        let want = expected(n, m);
        let run = |om: &str, to: &str, more: &[&str]| {
            expect_code(d, 0, &[&["run", om, "--inputs", "in", "--outputs", to, "-q"][..], more].concat());
            let read = |k: usize| {
                let bytes = std::fs::read(d.join(format!("{to}/output_{k}.npy"))).unwrap();
                ge_runtime::npy::read(&bytes, DType::F32).unwrap().view().values::<f32>().unwrap().to_vec()
            };
            let got = (read(0), read(1));
            for (g, w) in got.0.iter().chain(&got.1).zip(want.0.iter().chain(&want.1)) {
                assert!((g - w).abs() <= 1e-4 * w.abs().max(1.0), "{om}, {n} turns: {g} for {w}");
            }
            got
        };
        let parted = run("parted.om", "parted", &["--profile", "p.json"]);
        assert_eq!(parted, run("whole.om", "whole", &[]), "{n} turns");
        // The profile shows that the parts ran in every turn, each time with their own tasks.
        let trace: Value = serde_json::from_slice(&std::fs::read(d.join("p.json")).unwrap()).unwrap();
        let ran = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").collect::<Vec<_>>();
        let times = |node: &str| ran.iter().filter(|e| e["args"]["node"] == node).count() as i64;
        // Both the body and the branch have a node `c`.
        assert_eq!((times("c"), times("s")), (n + n / 2, n / 2), "of {n} turns");
        for seed in ["schedule=random:1", "schedule=random:5"] {
            let more = ["--device-option", seed, "--device-option", "check_races=full"];
            assert_eq!(parted, run("parted.om", "again", &more), "{seed}, {n} turns");
        }
    }
}

#[test]
fn a_loop_that_launches_sealed_parts_makes_no_plan_behind_its_first_turns() {
    let s = session();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("m.ge");
    std::fs::write(&source, LOOP).unwrap();
    let mut options = ge::options::OptionMap::default();
    options.set("ge.x.auto_fusion", "false", "test").unwrap();
    let compiled = s.compile("m", s.import(&source, "").unwrap(), &options, &ge::session::Quiet).unwrap();
    assert_eq!(compiled.model.parts.len(), 2);
    let m = s.load(compiled.model).unwrap();
    m.run(&inputs(2, 3)).unwrap();
    let plans = m.plans();
    m.run(&inputs(1000, 3)).unwrap();
    assert_eq!(m.plans(), plans);
}
