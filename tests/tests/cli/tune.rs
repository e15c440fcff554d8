//! `ge tune` and the file that it writes.
use ge::session::read_om;
use ge::session::tuned::{Entry, Tuning, kernel};
use ge_plugin_api::types::AttrValue;
use ge_runtime::request::TUNING;
use ge_runtime::{machine, work};
use ge_tests::{expect_code, ge};
use std::path::Path;

/// A convolution, a depthwise one, and a product, large enough to be divided.
const MODEL: &str = "graph @main(%x: f32[2,24,20,20], %a: f32[100,90]) {
  %w = Const() {value = dense<f32[36,24,3,3]: splat 0.01>} : f32[36,24,3,3]
  %d = Const() {value = dense<f32[36,1,3,3]: splat 0.1>} : f32[36,1,3,3]
  %b = Const() {value = dense<f32[90,130]: splat 0.02>} : f32[90,130]
  %c = Conv2D(%x, %w) {strides = [1, 1, 1, 1], pads = [1, 1, 1, 1]} : f32[2,36,20,20]
  %e = DepthwiseConv2D(%c, %d) {strides = [1, 1, 1, 1], pads = [1, 1, 1, 1]} : f32[2,36,20,20]
  %m = MatMulV2(%a, %b) : f32[100,130]
  return %e, %m
}
";

fn outputs(d: &Path, om: &str) -> Vec<Vec<u8>> {
    let to = format!("{om}.out");
    expect_code(d, 0, &["run", om, "--random", "5", "--outputs", &to, "-q"]);
    (0..2).map(|k| std::fs::read(d.join(&to).join(format!("output_{k}.npy"))).unwrap()).collect()
}

/// Every schedule that an engine offers gives the bits of the engine's own. It is really used,
/// since the entry names this processor, and the loader hands a schedule to the engine on its
/// processor alone.
#[test]
fn every_schedule_gives_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let session = crate::dynamic::session();
    let m = read_om(&d.join("m.om")).unwrap();
    let inputs = ge::session::model::random_inputs(&m, 3).unwrap();
    let bits = |m: &ge_model::CompiledModel| {
        let made = session.load(m.clone()).unwrap().run(&inputs).unwrap();
        made.iter().map(|t| t.bytes().to_vec()).collect::<Vec<_>>()
    };
    let want = bits(&m);
    let mut tried = 0;
    for (i, n) in m.graphs[0].nodes.iter().enumerate() {
        let Some(engine) = session.registry().engine(&n.engine) else { continue };
        for schedule in work::schedules(engine, &m, 0, i as u32) {
            let mut other = m.clone();
            let list = vec![machine::name().to_owned(), schedule.clone()];
            other.graphs[0].nodes[i].attrs.set(TUNING, AttrValue::from(list));
            assert!(bits(&other) == want, "{}: other bits by {schedule}", n.name);
            tried += 1;
        }
    }
    assert!(tried >= 6, "{tried} ways");
}

/// The file's entries for all processors go into the OM, whose bytes depend on nothing else. A
/// schedule that no engine offers changes nothing.
#[test]
fn a_tuning_file_goes_into_the_om_and_the_numbers_stay() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    let m = read_om(&d.join("m.om")).unwrap();
    let nodes = &m.graphs[0].nodes;
    let entry = |cpu: &str, key: &str, schedule: &str| {
        let (cpu, kernel, schedule) = (cpu.to_owned(), key.to_owned(), schedule.to_owned());
        Entry { cpu, kernel, schedule, us: 1.0, default_us: 2.0 }
    };
    let mut file = Tuning::default();
    let keys: Vec<String> =
        nodes.iter().filter(|n| n.engine == "AIcoreEngine").map(|n| kernel(nodes, n).unwrap()).collect();
    assert!(keys.len() >= 3, "{keys:?}");
    for key in &keys {
        file.entries.push(entry("Another-1-2+avx9", key, "tile=1x2"));
        file.entries.push(entry(machine::name(), key, "nonsense"));
    }
    std::fs::write(d.join("tuned.json"), serde_json::to_string(&file).unwrap()).unwrap();
    let compile =
        |om: &str| expect_code(d, 0, &["compile", "m.ge", "-o", om, "-q", "--set", "ge.x.tuning_file=tuned.json"]);
    compile("a.om");
    compile("b.om");
    assert!(std::fs::read(d.join("a.om")).unwrap() == std::fs::read(d.join("b.om")).unwrap());
    assert_eq!(outputs(d, "a.om"), outputs(d, "m.om"));
    let tuned = read_om(&d.join("a.om")).unwrap();
    let lists: Vec<_> = tuned.graphs[0].nodes.iter().filter_map(|n| n.attrs.strs(TUNING)).collect();
    assert_eq!(lists.len(), keys.len());
    assert_eq!(lists[0], ["Another-1-2+avx9", "tile=1x2", machine::name(), "nonsense"]);
}

/// What a user types, and what can go wrong.
#[test]
fn tune_writes_a_file_that_a_compilation_reads() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    let tune = ["tune", "m.ge", "-o", "tuned.json", "--budget", "0.3", "--json"];
    let said: serde_json::Value = serde_json::from_slice(&expect_code(d, 0, &tune).stdout).unwrap();
    assert_eq!((said["cpu"].as_str(), said["kernels"].as_u64()), (Some(machine::name()), Some(3)), "{said}");
    let other = Entry { cpu: "Another".into(), kernel: "k".into(), schedule: "s".into(), us: 1.0, default_us: 2.0 };
    let mut file = Tuning::read(&d.join("tuned.json")).unwrap();
    assert!(file.entries.len() <= 3);
    file.entries.push(other.clone());
    std::fs::write(d.join("tuned.json"), serde_json::to_string(&file).unwrap()).unwrap();
    expect_code(d, 0, &tune);
    assert!(Tuning::read(&d.join("tuned.json")).unwrap().entries.contains(&other), "another processor's entry is gone");
    expect_code(d, 0, &["compile", "m.ge", "-o", "t.om", "-q", "--set", "ge.x.tuning_file=tuned.json"]);
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
    assert_eq!(outputs(d, "t.om"), outputs(d, "m.om"));

    std::fs::write(d.join("open.ge"), "graph @main(%x: f32[n,8]) {\n  %y = Tanh(%x) : f32[n,8]\n  return %y\n}\n")
        .unwrap();
    std::fs::write(d.join("other.json"), "{\"mine\": 1}").unwrap();
    for (code, args, why) in [
        (
            4,
            &["compile", "m.ge", "-o", "u.om", "--set", "ge.x.tuning_file=other.json"][..],
            "error[GE-E0353]: the tuning file `other.json`",
        ),
        (4, &["tune", "m.ge", "-o", "other.json"], "error[GE-E0353]: the tuning file `other.json`"),
        (2, &["tune", "open.ge", "-o", "o.json"], "--input-shape"),
        (2, &["tune", "m.ge", "-o", "o.json", "--budget", "0"], "--budget"),
    ] {
        let out = ge(d, args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
    assert_eq!(std::fs::read_to_string(d.join("other.json")).unwrap(), "{\"mine\": 1}");
}

/// Nothing is measured for a file that cannot be written.
#[test]
fn a_file_that_cannot_be_written_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), MODEL).unwrap();
    let start = std::time::Instant::now();
    let out = expect_code(d, 1, &["tune", "m.ge", "-o", "missing/t.json", "--budget", "600"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("cannot write `missing/t.json`"));
    assert!(start.elapsed().as_secs() < 500);
}
