//! Trained models of public packages through `ge compile` and `ge run` on the OM, compared with
//! onnxruntime's numbers.
use ge_tests::{expect_code, ge, trained, trained_all};
use std::path::{Path, PathBuf};

/// A line of `models.txt`.
struct Entry {
    name: String,
    shape: Vec<String>,
    tolerance: [String; 2],
    sets: usize,
    how: String,
    model: String,
    folder: PathBuf,
}

fn entries(models: &Path) -> Vec<Entry> {
    let list = std::fs::read_to_string(models.join("models.txt")).expect("made with the models");
    let one = |line: &str| {
        let f: Vec<&str> = line.split(' ').collect();
        let own = |k: usize| f[k].to_owned();
        Entry {
            name: own(0),
            shape: if f[1] == "-" { vec![] } else { vec!["--input-shape".into(), own(1)] },
            tolerance: [own(2), own(3)],
            sets: f[4].parse().expect("a count"),
            how: own(5),
            // Several sizes of one model share its file.
            model: models.join(format!("{}.onnx", f.get(6).unwrap_or(&f[0]))).display().to_string(),
            folder: models.join(f[0]),
        }
    };
    list.lines().map(one).collect()
}

impl Entry {
    /// Compiles the model, unless it is run directly. Returns the words of the command that runs
    /// it.
    fn subject(&self, dir: &Path, options: &[&str]) -> Vec<String> {
        let shape: Vec<&str> = self.shape.iter().map(String::as_str).collect();
        if self.how != "run" {
            let compile = ["compile", &self.model, "-o", "m.om", "-q"];
            expect_code(dir, 0, &[&compile[..], &shape, options].concat());
            return vec!["run".into(), "m.om".into()];
        }
        [&["run", self.model.as_str()], &shape[..], options].concat().into_iter().map(str::to_owned).collect()
    }
    fn set(&self, k: usize) -> (String, String) {
        let data = self.folder.join(format!("s{k}"));
        (data.display().to_string(), data.join("expect").display().to_string())
    }
    /// Checks that the numbers in the model's own types are onnxruntime's.
    fn check(&self) {
        let dir = tempfile::tempdir().expect("a folder");
        let subject = self.subject(dir.path(), &[]);
        let subject: Vec<&str> = subject.iter().map(String::as_str).collect();
        for k in 0..self.sets {
            let (inputs, expect) = self.set(k);
            let [rtol, atol] = &self.tolerance;
            let files = ["--inputs", &inputs, "--expect", &expect, "--rtol", rtol, "--atol", atol, "-q"];
            expect_code(dir.path(), 0, &[&subject[..], &files].concat());
        }
    }
    /// Checks a model on an Ascend SoC, which by default computes in half precision where the
    /// numbers allow it: all numbers are finite and within three hundredths of the output's
    /// greatest one, and no row has another class.
    fn check_half(&self) {
        let dir = tempfile::tempdir().expect("a folder");
        let subject = self.subject(dir.path(), &["--soc", "Ascend910B"]);
        let subject: Vec<&str> = subject.iter().map(String::as_str).collect();
        for k in 0..self.sets {
            let (inputs, expect) = self.set(k);
            let out = dir.path().join(format!("o{k}")).display().to_string();
            expect_code(dir.path(), 0, &[&subject[..], &["--inputs", &inputs, "--outputs", &out, "-q"]].concat());
            let mut j = 0;
            while let Ok(want) = std::fs::read(Path::new(&expect).join(format!("output_{j}.npy"))) {
                let got = std::fs::read(Path::new(&out).join(format!("output_{j}.npy"))).expect("an output");
                if let (Some((want, width)), Some((got, _))) = (floats(&want), floats(&got)) {
                    close(&format!("{} set {k} output {j}", self.name), &got, &want, width);
                }
                j += 1;
            }
            assert!(j > 0);
        }
    }
}

/// The numbers of a `.npy` file of f32, and the length of a row of classes (1 in a map of pixels).
/// `None`: the file is of another type.
fn floats(b: &[u8]) -> Option<(Vec<f32>, usize)> {
    let at = 10 + usize::from(u16::from_le_bytes([b[8], b[9]]));
    let head = String::from_utf8_lossy(&b[10..at]).into_owned();
    let shape = head.split_once("'shape': (")?.1.split_once(')')?.0.to_owned();
    let dims: Vec<usize> = shape.split(',').filter_map(|d| d.trim().parse().ok()).collect();
    let width = dims.last().copied().filter(|_| dims.len() < 4).unwrap_or(1);
    let numbers = || b[at..].chunks_exact(4).filter_map(|c| Some(f32::from_le_bytes(c.try_into().ok()?))).collect();
    head.contains("'<f4'").then(|| (numbers(), width))
}

fn close(what: &str, got: &[f32], want: &[f32], width: usize) {
    let most = want.iter().fold(0f32, |m, v| m.max(v.abs()));
    assert_eq!(got.len(), want.len(), "{what}");
    assert!(got.iter().all(|g| g.is_finite()), "{what}");
    let off = |x: &(&f32, &f32)| (x.0 - x.1).abs() > 3e-2 * most.max(1e-2);
    let count = got.iter().zip(want).filter(off).count();
    // A sigmoid makes little errors of large numbers greater: in a map of pixels, three in a
    // thousand may be further off (docs/benchmarks.md says how many are, and what `--calibrate`
    // leaves). Numbers that are quantised in each run are rounded differently here and there:
    // elsewhere, one in a thousand may be off.
    assert!(count <= want.len() * if width == 1 { 3 } else { 1 } / 1000, "{what}: {count} of {} are off", want.len());
    let best = |r: &[f32]| r.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|m| m.0);
    // Rows of classes; a lead of less than a hundredth is a tie.
    for (r, (g, w)) in got.chunks(width.max(1)).zip(want.chunks(width.max(1))).enumerate() {
        let lead = best(w)
            .map_or(0.0, |k| w.iter().enumerate().filter(|x| x.0 != k).map(|x| w[k] - x.1).fold(f32::MAX, f32::min));
        assert!(
            lead < 1e-2 * most.max(1e-2) || best(g) == best(w),
            "{what} row {r}: class {:?}, expected {:?}",
            best(g),
            best(w)
        );
    }
}

fn check(name: &str) {
    let all = entries(&trained());
    let found = all.iter().find(|e| e.name == name);
    found.unwrap_or_else(|| panic!("no model {name}: run `cargo xtask fetch-models` again")).check();
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

/// In the types that an Ascend SoC computes in, none of these models has other classes or a NaN.
#[test]
fn half_precision_by_default_changes_no_class() {
    for e in entries(&trained()) {
        e.check_half();
    }
}

/// With `GE_LONG`, every known model is right at all its sizes, in both types. Models with an
/// operator that no plugin may have are right, or refused by its name.
#[test]
fn every_known_model_is_right_in_both_types() {
    if std::env::var_os("GE_LONG").is_none() {
        return;
    }
    for e in entries(&trained_all()) {
        if e.how == "refused" {
            let dir = tempfile::tempdir().expect("a folder");
            let shape: Vec<&str> = e.shape.iter().map(String::as_str).collect();
            let out = ge(dir.path(), &[&["compile", &e.model, "-o", "m.om", "-q"][..], &shape].concat());
            if out.status.code() == Some(3) {
                let err = String::from_utf8_lossy(&out.stderr).into_owned();
                assert!(err.contains("DynamicQuantizeLSTM"), "{}: {err}", e.name);
                continue;
            }
        }
        e.check();
        e.check_half();
    }
}

/// A model with a branch for each of two rates, compiled for the sizes of one: a warning names the
/// other branch, a run at the first rate is right, and a run that takes the other branch is
/// refused. If the model is also compiled for the value of the rate, the other branch is left out.
#[test]
fn a_branch_for_another_rate_is_refused_when_it_is_taken_or_left_out() {
    let models = trained();
    let (model, data) = (models.join("voice_rates.onnx").display().to_string(), models.join("voice_rates/s0"));
    let dir = tempfile::tempdir().expect("a folder");
    let d = dir.path();
    let compile = ["compile", &model, "-o", "m.om", "--input-shape", "input:1,576;state:2,1,128"];
    let said = |words: &[&str], out: &std::process::Output| {
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        words.iter().for_each(|w| assert!(text.contains(w), "{w}: {text}"));
    };
    said(&["warning", "in `else_branch` of `If_0`", "decoder/rnn/LSTM"], &expect_code(d, 0, &compile));
    let compile = [&compile[..], &["-q"]].concat();
    let of = |set: &str, k: usize| models.join(set).join(format!("s0/input_{k}.npy")).display().to_string();
    let rate = format!("sr={}", of("voice_rates", 2));
    let expect = data.join("expect").display().to_string();
    let tail = ["--expect", &expect, "--rtol", "0.001", "--atol", "1e-5", "-q"];
    let inputs = data.display().to_string();
    let whole = [&["run", "m.om", "--inputs", &inputs][..], &tail].concat();
    expect_code(d, 0, &whole);
    let (input, state) = (format!("input={}", of("voice_rates", 0)), format!("state={}", of("voice_rates", 1)));
    let other = format!("sr={}", of("voice_rates_8k", 2));
    let taken = expect_code(d, 3, &["run", "m.om", "--input", &input, "--input", &state, "--input", &other, "-q"]);
    said(&["GE-E0351", "`else_branch` of `If_0`", "decoder/rnn/LSTM"], &taken);
    expect_code(d, 0, &[&compile[..], &["--input", &rate]].concat());
    expect_code(d, 0, &whole);
    // The value that the model was compiled for need not be given again, and no other value is
    // accepted.
    let named = ["run", "m.om", "--input", &input, "--input", &state];
    expect_code(d, 0, &[&named[..], &tail].concat());
    let err = expect_code(d, 2, &[&named[..], &["--input", &other]].concat()).stderr;
    assert!(String::from_utf8_lossy(&err).contains("compiled for, [16000]"), "{}", String::from_utf8_lossy(&err));
}

/// At a length that both branches accept, the rate stays an input and the device decides: one OM
/// serves both rates (`voice_both_rates` has their numbers; at lengths of 192 to 351 each branch
/// comes to one frame).
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
