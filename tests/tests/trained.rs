//! Trained models of public packages through `ge compile` and `ge run` on the OM, against onnxruntime's numbers.
use ge_tests::{expect_code, trained};

fn check(name: &str) {
    let models = trained();
    let list = std::fs::read_to_string(models.join("models.txt")).expect("made with the models");
    let line = list
        .lines()
        .find(|l| l.split(' ').next() == Some(name))
        .unwrap_or_else(|| panic!("no model {name}: run `cargo xtask fetch-models` again"));
    let f: Vec<&str> = line.split(' ').collect();
    let (shape, rtol, atol, sets) = (f[1], f[2], f[3], f[4].parse::<usize>().expect("a count"));
    let dir = tempfile::tempdir().expect("a folder");
    let model = models.join(format!("{name}.onnx")).display().to_string();
    let shapes = if shape == "-" { vec![] } else { vec!["--input-shape", shape] };
    let subject = if f[5] == "om" {
        expect_code(dir.path(), 0, &[&["compile", &model, "-o", "m.om", "-q"][..], &shapes].concat());
        vec!["run", "m.om"]
    } else {
        [vec!["run", &model], shapes].concat()
    };
    for s in 0..sets {
        let data = models.join(name).join(format!("s{s}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        let files = ["--inputs", &inputs, "--expect", &expect, "--rtol", rtol, "--atol", atol, "-q"];
        expect_code(dir.path(), 0, &[subject.as_slice(), &files].concat());
    }
}

macro_rules! models {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )+};
}

models!(
    text_direction,
    text_detection,
    text_recognition,
    voice_16k,
    voice_rates,
    voice_rates_8k,
    voice_both_rates,
    voice_ifless,
    voice_op15,
    voice_half,
    voice_sequence,
    file_type,
);

/// A model that holds a branch for each of two rates, compiled for the value of one: the branch of the other is left out, and a
/// run with the other value is refused. Without the value the branch that fails is named, with what helps.
#[test]
fn a_branch_for_another_rate_is_left_out() {
    let models = trained();
    let (model, data) = (models.join("voice_rates.onnx").display().to_string(), models.join("voice_rates/s0"));
    let dir = tempfile::tempdir().expect("a folder");
    let d = dir.path();
    let compile = ["compile", &model, "-o", "m.om", "-q", "--input-shape", "input:1,576;state:2,1,128"];
    let err = String::from_utf8_lossy(&expect_code(d, 3, &compile).stderr).into_owned();
    for words in ["GE-E0351", "in `else_branch` of `If_0`", "decoder/rnn/LSTM", "--input sr=FILE.npy"] {
        assert!(err.contains(words), "{words}: {err}");
    }
    let of = |set: &str, k: usize| models.join(set).join(format!("s0/input_{k}.npy")).display().to_string();
    let rate = format!("sr={}", of("voice_rates", 2));
    expect_code(d, 0, &[&compile[..], &["--input", &rate]].concat());
    let expect = data.join("expect").display().to_string();
    let tail = ["--expect", &expect, "--rtol", "0.001", "--atol", "1e-5", "-q"];
    expect_code(d, 0, &[&["run", "m.om", "--inputs", &data.display().to_string()][..], &tail].concat());
    // The value that the model was compiled for need not be given again, and no other is taken.
    let (input, state) = (format!("input={}", of("voice_rates", 0)), format!("state={}", of("voice_rates", 1)));
    let named = ["run", "m.om", "--input", &input, "--input", &state];
    expect_code(d, 0, &[&named[..], &tail].concat());
    let other = format!("sr={}", of("voice_rates_8k", 2));
    let err = expect_code(d, 2, &[&named[..], &["--input", &other]].concat()).stderr;
    assert!(String::from_utf8_lossy(&err).contains("compiled for, [16000]"), "{}", String::from_utf8_lossy(&err));
}

/// At a length that both branches take, the rate stays an input and the device decides: one OM, both rates (`voice_both_rates` has their
/// numbers, at lengths of 192 to 351 each branch comes to one frame).
#[test]
fn the_device_takes_the_branch_of_the_rate() {
    let model = trained().join("voice_both_rates.onnx").display().to_string();
    let dir = tempfile::tempdir().expect("a folder");
    let d = dir.path();
    expect_code(d, 0, &["compile", &model, "-o", "m.om", "-q", "--input-shape", "input:1,288;state:2,1,128"]);
    let text = expect_code(d, 0, &["inspect", "m.om", "--what", "tasks", "--json"]).stdout;
    let doc: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let count = |kind: &str| doc["tasks"].as_array().into_iter().flatten().filter(|t| t["type"] == kind).count();
    assert_eq!((count("STREAM_LABEL_SWITCH_BY_INDEX"), count("STREAM_LABEL_GOTO"), count("LABEL_SET")), (1, 1, 3));
    assert!(count("KERNEL") > 24, "both branches are there");
}
