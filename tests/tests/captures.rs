//! What runs keep of each node (`--dump-tensors`, `--check-numerics`, `ge compare`): of branches
//! that were not taken nothing, of loops every turn.
use crate::api::session;
use crate::executors::loaded;
use ge::options::OptionMap;
use ge::session::read_om;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::{RunOptions, npy};
use ge_tests::expect_code;
use std::path::Path;

fn compile(d: &Path, name: &str, text: &str) {
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", &format!("{name}.om"), "-q"]);
}

fn tensor(dtype: DType, dims: &[u64], bytes: &[u8]) -> HostTensor {
    HostTensor::from_bytes(dtype, dims, bytes).unwrap()
}

fn save(path: &Path, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(path, npy::write(&tensor(DType::F32, &[values.len() as u64], &bytes)).unwrap()).unwrap();
}

/// The rows of the list of dumped tensors that belong to a node, as turns.
fn turns(dump: &Path, node: &str) -> Vec<u64> {
    let list: serde_json::Value = serde_json::from_slice(&std::fs::read(dump.join("tensors.json")).unwrap()).unwrap();
    let rows = list["tensors"].as_array().unwrap().iter().filter(|r| r["node"] == node);
    rows.map(|r| r["turn"].as_u64().unwrap()).collect()
}

/// A choice between `e^-x` and `sqrt(log x)`; one that is computed on the device as it stands, one
/// of which both branches are computed, and one of open size.
fn choice(size: &str) -> String {
    "graph @main(%c: bool[], %x: f32[N]) {
       %y = If(%c, %x) {else_branch = @e, then_branch = @t} : f32[N]
       %z = Neg(%y) : f32[N]
       return %z }
     graph @t(%a: f32[N]) { %m = Neg(%a) : f32[N] %t1 = Exp(%m) : f32[N] return %t1 }
     graph @e(%b: f32[N]) { %l = Log(%b) : f32[N] %e1 = Sqrt(%l) : f32[N] return %e1 }"
        .replace("[N]", &format!("[{size}]"))
}

#[test]
fn a_branch_that_is_not_taken_computes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for (name, size, count) in [("small", "4", 4), ("large", "40000", 40000), ("open", "n", 4)] {
        compile(d, name, &choice(size));
        save(&d.join("x.npy"), &vec![-1.0; count]);
        let (om, dump) = (format!("{name}.om"), d.join(name));
        let run = |c: &str, code: i32| {
            let _ = std::fs::remove_dir_all(&dump);
            let taken = ["--input", c, "--input", "x=x.npy", "--dump-tensors", name, "--check-numerics", "-q"];
            let out = expect_code(d, code, &[&["run", &om][..], &taken].concat());
            (turns(&dump, "t1"), turns(&dump, "e1"), String::from_utf8(out.stderr).unwrap())
        };
        let (t, e, _) = run("c=true", 0);
        assert_eq!((t, e), (vec![1], vec![]), "{name}");
        let (t, e, said) = run("c=false", 1);
        assert_eq!((t, e), (vec![], vec![1]), "{name}");
        assert!(said.contains("GE-E0803") && said.contains("element 0"), "{name}: {said}");
    }
}

/// The memory of the copies is used again by the next run.
#[test]
fn a_second_run_does_not_tell_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "m", &choice("40000"));
    let s = session(OptionMap::default());
    let model = loaded(&s, &read_om(&dir.path().join("m.om")).unwrap(), 0, true);
    let x = tensor(DType::F32, &[40000], &1f32.to_le_bytes().repeat(40000));
    for c in [1u8, 0, 1] {
        let c = tensor(DType::BOOL, &[], &[c]);
        let ran = model.run_views(&[c.view(), x.view()], RunOptions::default()).unwrap();
        let info = model.info();
        let has = |name| ran.captured.iter().any(|k| info.node(k.graph, k.node).is_some_and(|n| n.name == name));
        assert_eq!((has("t1"), has("e1")), (c.bytes()[0] == 1, c.bytes()[0] == 0));
    }
}

/// Each turn takes the logarithm of `s` and then adds two to it.
fn counted(size: &str) -> String {
    "graph @main(%i: f32[], %s: f32[N]) {
       %w = While(%i, %s, %s) {body = @turn, cond = @go} : f32[], f32[N], f32[N]
       return %w#2 }
     graph @go(%i1: f32[], %s1: f32[N], %l1: f32[N]) {
       %three = Const() {value = dense<f32[]: 3>} : f32[]
       %c = Less(%i1, %three) : bool[]
       return %c }
     graph @turn(%i2: f32[], %s2: f32[N], %l2: f32[N]) {
       %one = Const() {value = dense<f32[]: 1>} : f32[]
       %two = Const() {value = dense<f32[]: 2>} : f32[]
       %k = Add(%i2, %one) : f32[]
       %t = Add(%s2, %two) : f32[N]
       %l = Log(%s2) : f32[N]
       return %k, %t, %l }"
        .replace("[N]", &format!("[{size}]"))
}

#[test]
fn every_turn_of_a_loop_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    save(&d.join("s.npy"), &[1.0, -1.0]);
    for (name, size) in [("static", "2"), ("open", "n")] {
        compile(d, name, &counted(size));
        let run = |i: &str, code: i32| {
            let _ = std::fs::remove_dir_all(d.join(name));
            let om = format!("{name}.om");
            let out =
                ["run", &om, "--input", i, "--input", "s=s.npy", "--dump-tensors", name, "--check-numerics", "-q"];
            let said = String::from_utf8(expect_code(d, code, &out).stderr).unwrap();
            (turns(&d.join(name), "l"), said)
        };
        let (_, said) = run("i=0", 1);
        assert!(said.contains("element 1, turn 1 of 3") && said.contains("NaN (1 of 2 elements)"), "{name}: {said}");
        assert_eq!(run("i=2", 1).0, [1], "{name}");
        // Without a turn, nothing of the body is computed.
        assert_eq!(run("i=3", 0), (Vec::new(), String::new()), "{name}");
    }
}

#[test]
fn turns_are_compared_with_the_same_turns() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    save(&d.join("s.npy"), &[1.0, 2.0]);
    for (name, size) in [("static", "2"), ("open", "n")] {
        compile(d, name, &counted(size));
        let om = format!("{name}.om");
        expect_code(d, 0, &["run", &om, "--input", "i=0", "--input", "s=s.npy", "--dump-tensors", name, "-q"]);
    }
    assert_eq!((turns(&d.join("static"), "l"), turns(&d.join("open"), "l")), (vec![3], vec![1, 2, 3]));
    for (a, b, alone) in [
        ("static.om", "open.om", "only_b"),
        ("open.om", "static.om", "only_a"),
        ("static.om", "open", "only_b"),
        ("open.om", "static", "only_a"),
        ("open.om", "open", ""),
        ("static.om", "static", ""),
    ] {
        let out = expect_code(d, 0, &["compare", a, b, "--input", "i=0", "--input", "s=s.npy", "--json", "-q"]);
        let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let pairs: Vec<u64> = told["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|n| n["node"] == "l")
            .map(|n| n["turn"].as_u64().unwrap())
            .collect();
        let only =
            |side: &str| told[side].as_array().unwrap().iter().filter(|n| *n == "l" || *n == "l (turn 2)").count();
        assert_eq!(pairs, if alone.is_empty() && a == "open.om" { vec![1, 2, 3] } else { vec![3] }, "{a} {b}: {told}");
        for side in ["only_a", "only_b"] {
            assert_eq!(only(side), if side == alone { 2 } else { 0 }, "{a} {b}: {told}");
        }
    }
}

#[test]
fn tensors_without_elements_are_kept_and_are_finite() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    compile(d, "m", "graph @main(%x: f32[0,2]) { %y = Neg(%x) : f32[0,2] return %y }");
    expect_code(d, 0, &["run", "m.om", "--random", "1", "--dump-tensors", "t", "--check-numerics", "-q"]);
    let list: serde_json::Value = serde_json::from_slice(&std::fs::read(d.join("t/tensors.json")).unwrap()).unwrap();
    assert_eq!(list["tensors"][0]["shape"], serde_json::json!([0, 2]), "{list}");
    expect_code(d, 0, &["compare", "m.om", "t", "--random", "1", "-q"]);
}
