//! ONNX models whose control flow is decided at run time: branches of a trained network that an
//! input chooses, loops whose number of turns is an input, groups of rows. The expected outputs are
//! onnxruntime's (`tests/models/make_control.py`).
use super::*;

/// Compiles a model to an OM in a folder.
fn compiled(name: &str, args: &[&str]) -> Compiled {
    let dir = tempfile::tempdir().unwrap();
    let model = models().join(format!("{name}.onnx")).display().to_string();
    expect_code(dir.path(), 0, &[&["compile", &model, "-o", "m.om", "-q"], args].concat());
    Compiled { dir }
}

fn models() -> std::path::PathBuf {
    root().join("tests/models/control")
}

/// Runs the data sets of a model with `ge run` and compares with the outputs beside them.
#[track_caller]
fn right(c: &Compiled, name: &str, sets: std::ops::Range<usize>, tolerance: [&str; 2], device: &[&str]) {
    for s in sets {
        let data = models().join(name).join(format!("s{s}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        let files = [
            "run",
            "m.om",
            "--inputs",
            &inputs,
            "--expect",
            &expect,
            "--rtol",
            tolerance[0],
            "--atol",
            tolerance[1],
            "-q",
        ];
        expect_code(c.path(), 0, &[&files[..], device].concat());
    }
}

fn count(c: &Compiled, kind: &str) -> usize {
    c.document()["tasks"].as_array().unwrap().iter().filter(|t| t["type"] == kind).count()
}

/// How often each node ran.
fn ran(c: &Compiled, name: &str, set: usize) -> BTreeMap<String, u64> {
    let data = models().join(name).join(format!("s{set}"));
    let doc = c.document();
    let types =
        doc["graphs"][0]["inputs"].as_array().unwrap().iter().map(|i| DType::from_name(i["dtype"].as_str().unwrap()));
    let read = |(k, t): (usize, Option<DType>)| {
        let bytes = std::fs::read(data.join(format!("input_{k}.npy"))).unwrap();
        ge_runtime::npy::read(&bytes, t.unwrap()).unwrap()
    };
    let inputs: Vec<HostTensor> = types.enumerate().map(read).collect();
    let r = run(&c.load(&[]), &inputs).unwrap();
    let mut out = BTreeMap::new();
    for t in r.report.tasks.iter() {
        let node = doc["tasks"][t.task as usize]["node"].as_str().unwrap();
        *out.entry(node.to_owned()).or_insert(0) += 1;
    }
    out
}

#[test]
fn an_input_chooses_the_branch_of_a_trained_network() {
    let c = compiled("digits_gate", &[]);
    assert_eq!((count(&c, "STREAM_LABEL_SWITCH_BY_INDEX"), count(&c, "LABEL_SET")), (1, 3));
    for device in [&[][..], &["--device-option", "schedule=random:5", "--device-option", "check_races=true"]] {
        right(&c, "digits_gate", 0..6, ["1e-4", "1e-6"], device);
    }
    // The other branch is not computed.
    for set in 0..2 {
        let ran = ran(&c, "digits_gate", set);
        let of = |branch: &str| ran.keys().filter(|n| n.starts_with(branch)).count();
        let (taken, left) = if set == 0 { ("then/", "else/") } else { ("else/", "then/") };
        assert!(of(taken) > 3 && of(left) == 0, "{ran:?}");
    }
    let c = compiled("digits_gate", &["--soc", "Ascend910B", "--set", "ge.exec.precision_mode=must_keep_origin_dtype"]);
    right(&c, "digits_gate", 0..6, ["1e-4", "1e-6"], &[]);
}

#[test]
fn a_loop_of_as_many_turns_as_an_input_says_with_a_branch_in_each() {
    let c = compiled("digits_loop", &[]);
    assert_eq!(count(&c, "STREAM_LABEL_SWITCH_BY_INDEX"), 2);
    // No turn, one, two, seventeen.
    right(&c, "digits_loop", 0..4, ["1e-3", "1e-5"], &[]);
    right(
        &c,
        "digits_loop",
        0..4,
        ["1e-3", "1e-5"],
        &["--device-option", "schedule=random:8", "--device-option", "check_races=true"],
    );
    // A loop that stops by what it computes, and one of a thousand turns, whose roundings add up.
    right(&c, "digits_loop", 4..6, ["2e-2", "2e-3"], &[]);
    for (set, least, most) in [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 17, 17), (4, 41, 999), (5, 1000, 1000)] {
        let ran = ran(&c, "digits_loop", set);
        let turns = ran.iter().filter(|(n, _)| n.starts_with("turn/")).map(|(_, k)| *k).max().unwrap_or(0);
        assert!((least..=most).contains(&turns), "set {set}: {turns} turns");
    }
}

#[test]
fn groups_whose_rows_are_an_input() {
    for sink in ["0", "1"] {
        let c = compiled("grouped", &["--set", &format!("ge.tiling_schedule_optimize={sink}")]);
        assert_eq!(count(&c, "UPDATE").to_string(), sink);
        right(&c, "grouped", 0..4, ["1e-5", "1e-6"], &[]);
    }
}
