//! Right results: the reference models through `ge compile` and `ge run` on the OM, compared with
//! references that others computed.
use ge::session::{Session, SessionOptions};
use ge_tests::{expect_code, ge, models};

fn check(name: &str) {
    let models = models();
    let tolerances = std::fs::read_to_string(models.join("tolerances.txt")).expect("made with the models");
    let line = tolerances
        .lines()
        .find(|l| l.split(' ').next() == Some(name))
        .unwrap_or_else(|| panic!("{name} is no reference model"));
    let f: Vec<&str> = line.split(' ').collect();
    let (rtol, atol, sets) = (f[1], f[2], f[3].parse::<usize>().expect("a count"));
    let dir = tempfile::tempdir().expect("a folder");
    let model = models.join(format!("{name}.onnx"));
    expect_code(dir.path(), 0, &["compile", &model.display().to_string(), "-o", "m.om", "-q"]);
    for s in 0..sets {
        let data = models.join(name).join(format!("s{s}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        expect_code(
            dir.path(),
            0,
            &["run", "m.om", "--inputs", &inputs, "--expect", &expect, "--rtol", rtol, "--atol", atol, "-q"],
        );
    }
}

/// Names of all reference models.
fn names() -> Vec<String> {
    let tolerances = std::fs::read_to_string(models().join("tolerances.txt")).expect("made with the models");
    tolerances.lines().filter_map(|l| l.split(' ').next()).map(str::to_owned).collect()
}

/// Compiles a model to `m.om` with this stream mode.
fn compiles(dir: &std::path::Path, name: &str, mode: &str) {
    let model = models().join(format!("{name}.onnx")).display().to_string();
    expect_code(dir, 0, &["compile", &model, "-o", "m.om", "-q", "--set", &format!("ge.x.stream_mode={mode}")]);
}

#[test]
fn every_model_compiles_on_one_stream_an_engine_and_on_four() {
    let dir = tempfile::tempdir().expect("a folder");
    let all = names();
    assert!(all.len() >= 29, "{all:?}");
    for name in &all {
        for mode in ["engine", "parallel:4"] {
            compiles(dir.path(), name, mode);
        }
    }
}

/// Each model, on one stream for each engine and on four streams, under random schedules with every
/// access watched: there is no race, and the bits are the same. `GE_LONG=1` runs all models under
/// 50 schedules; `GE_ONLY=a,b` runs only these models.
#[test]
fn no_model_has_a_race_under_any_schedule() {
    let long = std::env::var("GE_LONG").is_ok_and(|v| v == "1");
    let only = std::env::var("GE_ONLY").unwrap_or_default();
    let few = [
        "mlp",
        "dynamic_batch",
        "lenet",
        "if_else",
        "shards_concat",
        "split_relu3_concat",
        "lstm",
        "elementwise_chain",
    ];
    let chosen: Vec<String> = names()
        .into_iter()
        .filter(|n| match only.as_str() {
            "" => long || few.contains(&n.as_str()),
            list => list.split(',').any(|o| o == n),
        })
        .collect();
    let dir = tempfile::tempdir().expect("a folder");
    let session = |pairs: &[(&str, &str)]| {
        let device_options = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let plugins = Some(ge_tests::root().join("plugins.toml"));
        Session::new(SessionOptions { plugins, device_options, ..SessionOptions::default() }).expect("our plugins")
    };
    let plain = session(&[]);
    let schedules: Vec<Session> = (0..if long { 50 } else { 2 })
        .map(|k| session(&[("check_races", "true"), ("schedule", &format!("random:{k}"))]))
        .collect();
    for name in chosen {
        for mode in ["engine", "parallel:4"] {
            compiles(dir.path(), &name, mode);
            let om = dir.path().join("m.om");
            let bytes = |s: &Session| {
                let run = s.load_om(&om).and_then(|m| m.run_random(11));
                let run = run.unwrap_or_else(|e| panic!("{name}, {mode}: {e}"));
                run.iter().map(|t| t.bytes().to_vec()).collect::<Vec<_>>()
            };
            let want = bytes(&plain);
            for (k, s) in schedules.iter().enumerate() {
                assert!(bytes(s) == want, "{name}, {mode}: other bits under schedule {k}");
            }
        }
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
    mlp,
    if_else,
    lenet,
    resnet_cifar,
    inception_batch_concat,
    shards_concat,
    split_relu3_concat,
    mobilenet_v2,
    bert_l4_h256_s128,
    gpt_prefill_s64,
    depthwise_separable,
    elementwise_chain,
    softmax_layernorm,
    gemm_1024,
    conv3x3_64_56,
    dynamic_batch,
    loop_carried,
);

/// Threads that compute a recurrence together, or one block at a time on copies, give the bits of
/// one thread, which match the reference within its tolerance.
#[test]
fn a_recurrence_has_the_bits_of_one_thread_whoever_does_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let name = "lstm_l2_h256_s64";
    let model = models().join(format!("{name}.onnx")).display().to_string();
    expect_code(dir.path(), 0, &["compile", &model, "-o", "m.om", "-q"]);
    let sample = models().join(name).join("s0");
    let (inputs, expect) = (sample.display().to_string(), sample.join("expect").display().to_string());
    let first = ["run", "m.om", "--inputs", &inputs, "--outputs", "one", "-q", "--threads", "1"];
    expect_code(dir.path(), 0, &[&first[..], &["--expect", &expect, "--rtol", "1e-4", "--atol", "1e-5"]].concat());
    let options = ["check_races=full", "schedule=random:3", "schedule=random:8"];
    for (threads, k) in ["2", "3", "7"].into_iter().flat_map(|t| (0..12).map(move |k| (t, k))) {
        let mut run = vec!["run", "m.om", "--inputs", &inputs, "--expect", "one", "--rtol", "0", "--atol", "0", "-q"];
        run.extend(["--threads", threads]);
        run.extend(options.get(k).into_iter().flat_map(|o| ["--device-option", *o]));
        expect_code(dir.path(), 0, &run);
    }
}

/// `isa` limits kernels to fewer instructions, `threads` limits runs to fewer threads. The bits are
/// the same with every instruction set of the machine and with any number of threads; a set that
/// the machine lacks is refused.
#[test]
fn every_instruction_set_gives_the_same_bits_and_others_are_refused() {
    for name in ["lenet", "mobilenet_v2", "softmax_layernorm", "int8_cnn_qlinear"] {
        let dir = tempfile::tempdir().expect("a folder");
        let model = models().join(format!("{name}.onnx")).display().to_string();
        expect_code(dir.path(), 0, &["compile", &model, "-o", "m.om", "-q"]);
        let inputs = models().join(name).join("s0").display().to_string();
        let run = |isa: &str, to: &str| {
            let option = format!("isa={isa}");
            let run = ["run", "m.om", "--inputs", &inputs, "--outputs", to, "-q", "--device-option", &option];
            let out = ge(dir.path(), &run);
            (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
        };
        let bytes = |to: &str| std::fs::read(dir.path().join(to).join("output_0.npy")).expect("an output");
        let (code, said) = run("plain", "plain");
        assert_eq!(code, Some(0), "{said}");
        for threads in ["1", "2", "7"] {
            let to = format!("threads_{threads}");
            let option = format!("threads={threads}");
            let run = ["run", "m.om", "--inputs", &inputs, "--outputs", &to, "-q", "--device-option", &option];
            expect_code(dir.path(), 0, &run);
            assert!(bytes(&to) == bytes("plain"), "{name}: other bits with {threads} threads");
        }
        for isa in ["avx2", "avx512", "vnni", "bf16", "amx"] {
            match run(isa, isa) {
                (Some(0), _) => assert!(bytes(isa) == bytes("plain"), "{name}: other bits with {isa}"),
                (code, said) => {
                    assert_eq!(code, Some(2), "{said}");
                    assert!(said.contains(&format!("this machine has no instruction set `{isa}`")), "{said}");
                }
            }
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let model = models().join("lenet.onnx").display().to_string();
    expect_code(dir.path(), 0, &["compile", &model, "-o", "m.om", "-q"]);
    let out = expect_code(dir.path(), 2, &["run", "m.om", "--device-option", "isa=sse9"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("device option `isa` cannot be `sse9`"), "{said}");
}

/// Compiles a small model of this repository, runs it on each of its inputs and compares with the
/// expected outputs.
#[track_caller]
pub fn small(folder: &str, name: &str, tolerances: [&str; 2], more: &[&str]) {
    let model = ge_tests::root().join("tests/models").join(folder).join(name);
    let dir = tempfile::tempdir().expect("a folder");
    let onnx = model.join("model.onnx").display().to_string();
    expect_code(dir.path(), 0, &[&["compile", &onnx, "-o", "m.om", "-q"], more].concat());
    let runs =
        std::fs::read_dir(&model).expect("a folder").filter_map(|e| e.ok().map(|e| e.path())).filter(|p| p.is_dir());
    let mut count = 0;
    for data in runs {
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        let [rtol, atol] = tolerances;
        let checks = ["-q", "--device-option", "check_races=true", "--rtol", rtol, "--atol", atol];
        expect_code(dir.path(), 0, &[&["run", "m.om", "--inputs", &inputs, "--expect", &expect], &checks[..]].concat());
        count += 1;
    }
    assert!(count > 0, "{} has no runs", model.display());
}

/// Loops whose count and end are known only at run time, compared with onnxruntime: an early end,
/// no turn at all, values that change places, loops and branches within a loop.
#[test]
fn loops_of_a_model_run_as_often_as_its_values_say() {
    for name in ["counted", "exchanged", "until", "rows"] {
        small("loops", name, ["1e-5", "1e-6"], &[]);
        small("loops", name, ["1e-5", "1e-6"], &["--set", "ge.x.stream_mode=parallel:4"]);
    }
}

/// Models of scikit-learn, as skl2onnx exports them, compared with onnxruntime: trees, linear
/// models, support vectors, encoders, pipelines. Their batch is open: one OM takes any number of
/// rows.
#[test]
fn models_of_scikit_learn_run() {
    let all = std::fs::read_dir(ge_tests::root().join("tests/models/learned")).expect("a folder");
    let names: Vec<String> = all.map(|e| e.expect("an entry").file_name().display().to_string()).collect();
    assert!(names.len() >= 30, "{names:?}");
    for name in &names {
        small("learned", name, ["1e-4", "1e-5"], &[]);
    }
    small("learned", "pipeline", ["1e-4", "1e-5"], &["--input-shape", "X:20,4"]);
}

/// Operators of ONNX's newest opsets and of its preview and training domains: one OM of each for
/// every size, including one and none, compared with onnx's reference evaluator and onnxruntime.
#[test]
fn operators_of_the_newest_sets_run_at_any_size() {
    let all = std::fs::read_dir(ge_tests::root().join("tests/models/operators")).expect("a folder");
    let names: Vec<String> = all.map(|e| e.expect("an entry").file_name().display().to_string()).collect();
    assert!(names.len() >= 23, "{names:?}");
    for name in &names {
        small("operators", name, ["1e-4", "1e-5"], &[]);
    }
    small("operators", "flex_attention_both", ["1e-4", "1e-5"], &["--set", "ge.x.stream_mode=parallel:4"]);
}

/// Operators on strings, compared with onnxruntime: one OM of each for every size.
#[test]
fn operators_of_strings_run_at_any_size() {
    for name in ["concat", "split", "normalized", "matched", "moved", "named", "written", "counted", "tokens"] {
        small("texts", name, ["0", "0"], &[]);
    }
    small("texts", "concat", ["0", "0"], &["--input-shape", "x:?,?;y:?,1"]);
}

/// Models that onnxruntime's optimiser has saved, with its own operators in place of what it fused.
#[test]
fn models_that_onnxruntime_has_optimised_run_at_any_size() {
    for name in ["reals", "bytes"] {
        small("saved", name, ["1e-4", "1e-5"], &[]);
    }
}

/// Operators of com.microsoft in forms that are easily computed otherwise than by onnxruntime.
#[test]
fn operators_of_onnxruntime_give_what_it_gives() {
    for name in ["grouped", "masks", "norms", "products", "standard", "ranks"] {
        small("contrib", name, ["1e-3", "1e-4"], &[]);
    }
    small("contrib", "merged", ["0", "1"], &[]);
    small("contrib", "half", ["1e-2", "2e-2"], &[]);
}

/// A symbolic batch gets the size that `--input-shape` gives; without that it stays open.
#[test]
fn a_symbolic_batch_stays_open_or_is_compiled_for_the_size_that_is_given() {
    let model = models().join("dynamic_batch.onnx").display().to_string();
    let dir = tempfile::tempdir().expect("a folder");
    expect_code(dir.path(), 0, &["compile", &model, "-o", "open.om", "-q"]);
    for (set, batch) in [1, 3, 8].into_iter().enumerate() {
        let shape = format!("x:{batch},3,32,32");
        expect_code(dir.path(), 0, &["compile", &model, "-o", "m.om", "-q", "--input-shape", &shape]);
        let data = models().join("dynamic_batch").join(format!("s{set}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        for om in ["m.om", "open.om"] {
            let run = ["run", om, "--inputs", &inputs, "--expect", &expect, "--rtol", "1e-3", "--atol", "1e-5", "-q"];
            expect_code(dir.path(), 0, &run);
        }
    }
}
