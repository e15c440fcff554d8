//! The pipeline: `ge compile` and `ge opt` run the same one, so that the text after any stage leads
//! to the plan of the whole compilation. Dumps show what stages and passes have done.
use ge::options::OptionMap;
use ge::session::{Session, SessionOptions, import};
use ge_compiler::pass::Records;
use ge_compiler::pipeline::{Stage, run_range};
use ge_ir::Model;
use ge_tests::{expect_code, ge, models, root};
use std::path::{Path, PathBuf};

/// Small models that together take every path through the stages: branches, loops, streams, views,
/// whole numbers.
const FEW: &[&str] =
    &["mlp", "if_else", "lstm", "shards_concat", "split_relu3_concat", "elementwise_chain", "allgather_fn"];

fn session() -> Session {
    let plugins = Some(root().join("plugins.toml"));
    Session::new(SessionOptions { plugins, ..SessionOptions::default() }).expect("our plugins")
}

/// The graphs as text, with each large constant replaced by its sizes and a checksum of its bytes.
fn plan(mut model: Model) -> String {
    for g in model.graphs_mut() {
        for id in g.order().to_vec() {
            let Some(t) = g.get(id).and_then(|n| n.attrs().tensor("value")) else { continue };
            let Some(bytes) = t.bytes().filter(|b| b.len() > 64) else { continue };
            let sum = bytes.iter().fold(0u64, |h, b| h.rotate_left(5) ^ u64::from(*b).wrapping_mul(0x9E37_79B9));
            let told = format!("{:?} {} bytes, {sum:x}", t.dims, bytes.len());
            g.set_attr(id, "value", told.as_str());
        }
    }
    ge_ir::text::to_string(&model).expect("prints")
}

fn read(path: &Path) -> Model {
    import::parse_text(path, &std::fs::read(path).expect("a dump")).expect("a dump reads back")
}

/// The dumps of a folder in their order: stage, part, path.
fn dumps(dir: &Path) -> Vec<(Stage, String, PathBuf)> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "ge"));
    all.sort();
    let split = |p: PathBuf| {
        let stem = p.file_stem().unwrap().to_string_lossy()[4..].to_owned();
        let (stage, part) = stem.split_once('_').unwrap_or((&stem, ""));
        (Stage::named(stage).expect("a stage"), part.to_owned(), p)
    };
    all.into_iter().map(split).collect()
}

/// The first three lines that differ.
fn difference(a: &str, b: &str) -> String {
    let lines = a.lines().zip(b.lines()).filter(|(a, b)| a != b).take(3);
    lines.map(|(a, b)| format!("\n  whole:   {a}\n  entered: {b}")).collect()
}

/// The dump after any stage up to `memory`, entered again at the next stage, leads to the plan of
/// the whole compilation. `GE_LONG=1` takes all reference models, `GE_ONLY=a,b` only these.
#[test]
fn a_dump_of_any_stage_goes_on_to_the_plan_of_the_whole_compilation() {
    let long = std::env::var("GE_LONG").is_ok_and(|v| v == "1");
    let only = std::env::var("GE_ONLY").unwrap_or_default();
    let tolerances = std::fs::read_to_string(models().join("tolerances.txt")).expect("made with the models");
    let all = tolerances.lines().filter_map(|l| l.split(' ').next());
    let chosen = all.filter(|n| match only.as_str() {
        "" => long || FEW.contains(n),
        list => list.split(',').any(|o| o == *n),
    });
    let s = session();
    let (mut compared, mut faults) = (0, String::new());
    for name in chosen {
        for mode in ["engine", "parallel:4"] {
            let dir = tempfile::tempdir().expect("a folder");
            let model = models().join(format!("{name}.onnx")).display().to_string();
            let mode = format!("ge.x.stream_mode={mode}");
            let args = ["compile", &model, "-o", "m.om", "-q", "--set", &mode, "--dump", "all", "--dump-dir", "d"];
            expect_code(dir.path(), 0, &args);
            let mut options = OptionMap::default();
            let (key, value) = mode.split_once('=').unwrap();
            options.set(key, value, "the test").unwrap();
            let toolbox = s.toolbox(&options, false).expect("a toolbox");
            let texts = dumps(&dir.path().join("d"));
            // A model of open sizes is planned by each run.
            let Some(whole) = texts.iter().rfind(|(s, ..)| *s == Stage::Sync) else { continue };
            let whole = plan(read(&whole.2));
            for (stage, part, path) in texts.iter().filter(|(s, ..)| *s < Stage::Sync) {
                // After the composite engines, the next stage is the same one for the atomic
                // engines.
                if *stage == Stage::Merge && !part.is_empty() {
                    continue;
                }
                let model = read(path);
                let mut records = Records::default();
                let ended =
                    run_range(model, &toolbox, &options.resolved().unwrap(), stage.next(), Stage::Sync, &mut records);
                compared += 1;
                match ended {
                    Err(e) => faults.push_str(&format!("\n{name}, {mode}, behind {}: {e}", stage.name())),
                    Ok(m) => {
                        let ended = plan(m);
                        if ended != whole {
                            let lines = difference(&whole, &ended);
                            faults.push_str(&format!("\n{name}, {mode}, behind {}{part}:{lines}", stage.name()));
                        }
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "another plan:{faults}");
    assert!(compared >= 12, "{compared} dumps were entered again");
}

/// A collective before nodes of another engine, hence two streams.
const STREAMS: &str = "graph @main(%x: f32[64,64], %y: f32[64,64]) {
  %a = HcomAllReduce(%x) {group = \"g\", reduction = \"sum\", rank_size = 1} : f32[64,64]
  %b = MatMul(%a, %y) : f32[64,64]
  %c = SoftmaxV2(%b) : f32[64,64]
  return %c
}
";

#[test]
fn dumps_show_what_each_stage_has_decided() {
    let dir = tempfile::tempdir().expect("a folder");
    let d = dir.path();
    std::fs::write(d.join("m.ge"), STREAMS).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--dump", "all", "--dump-dir", "d"]);
    let texts = dumps(&d.join("d"));
    let text = |stage: Stage| {
        let found = texts.iter().rfind(|(s, ..)| *s == stage).unwrap_or_else(|| panic!("no dump of {}", stage.name()));
        std::fs::read_to_string(&found.2).unwrap()
    };
    // What is new in each stage and occurs in none before it.
    let news: &[(Stage, &[&str])] = &[
        (Stage::Place, &["_engine = "]),
        (Stage::Partition, &["_partition_of = "]),
        (Stage::Streams, &["_stream_id = 1"]),
        (Stage::Memory, &["offset = ", "memory = \"HBM\""]),
        (Stage::Sync, &["_send_event_ids = ", "_recv_event_ids = ", "_logic_stream_id = "]),
        (Stage::Tasks, &["_tasks = [\"", "KERNEL stream=", "HCCL stream=", "END_GRAPH stream="]),
        (Stage::Model, &["= Send() {", "= Recv() {", "event_id = 0"]),
    ];
    for (stage, words) in news {
        for word in *words {
            assert!(text(*stage).contains(word), "{}: no `{word}` in\n{}", stage.name(), text(*stage));
            let before = texts.iter().filter(|(s, ..)| s < stage).map(|(.., p)| std::fs::read_to_string(p).unwrap());
            for t in before {
                assert!(!t.contains(word), "`{word}` before {}:\n{t}", stage.name());
            }
        }
    }
    // Each dump can be read back.
    texts.iter().for_each(|(.., p)| drop(read(p)));
    assert!(texts.iter().map(|t| t.0).collect::<std::collections::BTreeSet<_>>().len() == Stage::ALL.len());
}

/// An identity and a sum that can be folded.
const PASSES: &str = "graph @main(%x: f32[4,4]) {
  %a = Const() {value = dense<f32[4]: 1 2 3 4>} : f32[4]
  %b = Const() {value = dense<f32[4]: 1 2 3 4>} : f32[4]
  %s = Add(%a, %b) : f32[4]
  %y = Add(%x, %s) : f32[4,4]
  %i = Identity(%y) : f32[4,4]
  return %i
}
";

#[test]
fn passes_that_change_something_are_dumped_one_by_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let d = dir.path();
    std::fs::write(d.join("m.ge"), PASSES).unwrap();
    let names = |flags: &[&str]| {
        let _ = std::fs::remove_dir_all(d.join("d"));
        let args: Vec<&str> =
            ["compile", "m.ge", "-o", "m.om", "-q", "--dump-dir", "d"].iter().chain(flags).copied().collect();
        expect_code(d, 0, &args);
        let mut all: Vec<String> = std::fs::read_dir(d.join("d"))
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        all.sort();
        all
    };
    let all = names(&["--dump-passes"]);
    assert!(all.iter().any(|n| n.ends_with("_prepare_ConstantFoldingPass.ge")), "{all:?}");
    assert!(!all.iter().any(|n| n.ends_with("_memory.ge")), "{all:?}");
    for n in &all {
        read(&d.join("d").join(n));
    }
    let one = names(&["--dump", "pass:ConstantFoldingPass,stage1"]);
    assert_eq!(one.len(), 2, "{one:?}");
    let folded = std::fs::read_to_string(d.join("d").join(&one[0])).unwrap();
    assert!(folded.contains("2 4 6 8") && !folded.contains("%s = Add"), "{folded}");
    let out = ge(d, &["compile", "m.ge", "-o", "m.om", "-q", "--dump", "pass:ConstantFoldingPas"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(2) && said.contains("ConstantFoldingPass"), "{said}");
}
