//! Random graphs with variables, assignments, control edges, calls, stage levels, branches and
//! loops, attached work, tiling sink, collectives, labels, and stream and event options. Every
//! schedule must give the results of a plain interpreter of the imported graph, and the variables
//! must hold the same values afterwards.
//!
//! `GE_LONG=10000 cargo test -p ge-tests --test suite random` runs that many graphs; `GE_SEED=N`
//! runs one. A graph that fails is first reduced, and the reduced graph is written to
//! `target/random/seed_N.ge`. When the cause is fixed, that file belongs in `tests/random`, whose
//! files are judged in the same way.
use crate::random::graph::{Case, Random, SOCS};
use crate::random::interpreter::Interpreter;
use ge::options::OptionMap;
use ge::session::{Session, SessionOptions, import};
use ge_compiler::pipeline::Silent;
use ge_plugin_api::diagnostic::ErrorKind;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::{LoadOptions, RunOptions};
use ge_tests::root;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Generates the random graphs and reduces those that fail.
mod graph;
/// The plain interpreter, which gives the expected results.
mod interpreter;

/// Outcome of a case.
#[derive(Debug)]
enum Verdict {
    /// Every schedule gave the numbers of the interpreter.
    Right,
    /// The compiler refused the graph, with this message.
    Refused(String),
    Wrong(String),
}

/// One session for each SoC.
struct Sessions {
    open: Vec<(&'static str, Session)>,
    /// Keeps the SoC files, which are read at each compilation.
    _files: TempDir,
}

impl Sessions {
    fn new() -> Sessions {
        let files = tempfile::tempdir().expect("a folder");
        let open = |(name, differs): &(&'static str, &str)| {
            let file = files.path().join(format!("{name}.toml"));
            std::fs::write(&file, format!("name = {name:?}\nbase = \"sim\"\n{differs}\n")).expect("a file");
            let soc = (!differs.is_empty()).then(|| file.display().to_string());
            let plugins = Some(root().join("plugins.toml"));
            let session = Session::new(SessionOptions { plugins, soc, ..SessionOptions::default() });
            (*name, session.expect("our plugins load"))
        };
        Sessions { open: SOCS.iter().map(open).collect(), _files: files }
    }

    fn of(&self, soc: &str) -> &Session {
        &self.open.iter().find(|(name, _)| *name == soc).expect("a SoC of the list").1
    }
}

/// A graph to compile, with its options and its SoC.
struct Text<'a> {
    text: &'a str,
    options: Vec<(&'a str, &'a str)>,
    soc: &'a str,
    /// Whether the graph gets one more input, of open size, so that executor v2 runs it.
    open: bool,
}

/// Adds an input of open size to a graph, and returns a value computed from it as the last output.
fn opened(text: &str) -> String {
    let more = text.replacen("%x: f32[4])", "%x: f32[4], %open: f32[M])", 1);
    let (head, tail) = more.split_once("\n  return ").expect("a root graph");
    let (values, rest) = tail.split_once('\n').expect("its end");
    format!("{head}\n  %of_open = Neg(%open) : f32[M]\n  return {values}, %of_open\n{rest}")
}

fn values(t: &HostTensor) -> Vec<f32> {
    match t.dtype {
        DType::F32 => t.bytes().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        _ => panic!("an output of type {}", t.dtype),
    }
}

/// Compiles and runs a case: two runs after each other in each schedule, since variables keep their
/// values between runs.
fn judge(sessions: &Sessions, case: &Case, schedules: u64) -> Verdict {
    let options = case.options.iter().map(|(k, v)| (*k, v.as_str())).collect();
    judge_text(sessions, &Text { text: &case.text(), options, soc: case.soc, open: false }, schedules)
}

/// As [`judge`], with one more input, of open size.
fn judge_open(sessions: &Sessions, case: &Case, schedules: u64) -> Verdict {
    let options = case.options.iter().map(|(k, v)| (*k, v.as_str())).collect();
    judge_text(sessions, &Text { text: &case.text(), options, soc: case.soc, open: true }, schedules)
}

fn judge_text(sessions: &Sessions, case: &Text<'_>, schedules: u64) -> Verdict {
    let s = sessions.of(case.soc);
    let graph = match import::parse_text(Path::new("random.ge"), case.text.as_bytes()) {
        Ok(g) => g,
        Err(e) => return Verdict::Wrong(format!("does not parse: {e}")),
    };
    let mut options = OptionMap::default();
    for (k, v) in &case.options {
        options.set(k, v, "a test").expect("a known option");
    }
    let whole = match case.open {
        true => import::parse_text(Path::new("open.ge"), opened(case.text).as_bytes()).expect("one input more"),
        false => graph.clone(),
    };
    let compiled = match s.compile("random", whole, &options, &Silent) {
        Ok(c) => c.model,
        // A small SoC may have too few streams, events or places for tasks.
        Err(e)
            if matches!(e.kind, ErrorKind::USAGE | ErrorKind::UNSUPPORTED)
                || (case.soc != SOCS[0].0 && e.kind != ErrorKind::INTERNAL) =>
        {
            return Verdict::Refused(e.to_string());
        }
        Err(e) => return Verdict::Wrong(format!("does not compile: {e}")),
    };
    for seed in 0..schedules {
        let schedule = if seed == 0 { "fifo".to_owned() } else { format!("random:{seed}") };
        let device = [("schedule".to_owned(), schedule.clone()), ("check_races".to_owned(), "true".to_owned())];
        let opened = s.device().and_then(|d| d.open(0, &compiled.soc, &device));
        let context = Arc::new(opened.expect("a device"));
        s.variables().clear();
        let load = LoadOptions { rank_size: 1, ..LoadOptions::default() };
        let loaded = match s.load_on(compiled.clone(), context, &load) {
            Ok(m) => m,
            Err(e) => return Verdict::Wrong(format!("does not load: {e}")),
        };
        let mut plain = Interpreter::new(&graph);
        for run in 0..2u32 {
            let (p, k) = ((seed as u32 + run) % 2, (seed as u32 + run / 2) % 2);
            let x: Vec<f32> = (0..4).map(|i| (i as f32 - 1.0) * (run + 1) as f32).collect();
            let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
            let mut inputs = vec![
                HostTensor::from_bytes(DType::BOOL, &[1], &[p as u8]).expect("a tensor"),
                HostTensor::from_bytes(DType::I32, &[1], &k.to_le_bytes()).expect("a tensor"),
                HostTensor::from_bytes(DType::F32, &[4], &bytes).expect("a tensor"),
            ];
            let size = 1 + u64::from(run) + seed % 3;
            if case.open {
                inputs.push(HostTensor::zeroed(DType::F32, &[size]).expect("a tensor"));
            }
            let views: Vec<_> = inputs.iter().map(HostTensor::view).collect();
            let mut found = match loaded.run_views(&views, RunOptions::default()) {
                Ok(r) => r.outputs.iter().map(values).collect::<Vec<_>>(),
                Err(e) => return Verdict::Wrong(format!("{schedule}, run {run}: {e}")),
            };
            if case.open {
                assert_eq!(found.pop().map(|t| t.len() as u64), Some(size));
            }
            let want = plain.run(&graph, &[vec![p as f32], vec![k as f32], x]);
            if found != want {
                return Verdict::Wrong(format!("{schedule}, run {run}: {found:?} for {want:?}"));
            }
            for info in s.variables().list() {
                let held = values(&s.variables().read(&info.name).expect("a value"));
                let want = &plain.variables[&info.name];
                if held != *want {
                    return Verdict::Wrong(format!(
                        "{schedule}, run {run}: `{}` holds {held:?} for {want:?}",
                        info.name
                    ));
                }
            }
        }
    }
    Verdict::Right
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Executor v2 represents effects as values. The numbers, and the values of the variables after a
/// run, must still be those of the interpreter.
#[test]
fn random_graphs_with_state_of_open_sizes_give_what_a_plain_interpreter_gives() {
    let s = Sessions::new();
    let long = number("GE_LONG");
    let (first, count) = number("GE_SEED").map_or((0, long.unwrap_or(200)), |seed| (seed, 1));
    let (start, budget) = (Instant::now(), Duration::from_secs(40));
    let (mut right, mut refused, mut failed) = (0u64, Vec::new(), Vec::new());
    for seed in first..first + count {
        if long.is_none() && start.elapsed() > budget {
            break;
        }
        let case = Case::open(seed);
        match judge_open(&s, &case, 3) {
            Verdict::Right => right += 1,
            Verdict::Refused(why) => refused.push((seed, why)),
            Verdict::Wrong(why) => {
                let small = case.shrunk(&|c| matches!(judge_open(&s, c, 3), Verdict::Wrong(_)));
                failed.push(format!("seed {seed}: {why}\n{:?}\n{}", judge_open(&s, &small, 3), opened(&small.text())));
            }
        }
    }
    println!("open: {right} right, {} refused, {} wrong, {:?}", refused.len(), failed.len(), start.elapsed());
    assert!(failed.is_empty(), "{} of {} wrong:\n{}", failed.len(), right, failed.join("\n"));
    assert!(refused.len() as u64 * 20 <= right, "{refused:?}");
    assert!(count == 1 || right >= 10, "only {right} graphs in the time there is");
}

#[test]
fn random_graphs_with_state_give_what_a_plain_interpreter_gives() {
    let s = Sessions::new();
    let long = number("GE_LONG");
    let (first, count) = number("GE_SEED").map_or((0, long.unwrap_or(500)), |seed| (seed, 1));
    let schedules = if long.is_some() { 30 } else { 4 };
    let (start, budget) = (Instant::now(), Duration::from_secs(60));
    let (mut right, mut refused, mut failed) = (0u64, Vec::new(), Vec::new());
    for seed in first..first + count {
        if long.is_none() && start.elapsed() > budget {
            break;
        }
        let case = Case::random(seed);
        match judge(&s, &case, schedules) {
            Verdict::Right => right += 1,
            Verdict::Refused(why) => refused.push((seed, why)),
            Verdict::Wrong(why) => {
                let fails = |c: &Case| matches!(judge(&s, c, schedules), Verdict::Wrong(_));
                let small = case.shrunk(&fails);
                let now = judge(&s, &small, schedules);
                let file = root().join(format!("target/random/seed_{seed}.ge"));
                std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
                std::fs::write(&file, small.file()).expect("a file");
                failed.push(format!("seed {seed}: {why}\n{now:?}\n{}\n{}", file.display(), small.file()));
            }
        }
    }
    println!(
        "{right} right, {} refused, {} wrong, {:.1} s",
        refused.len(),
        failed.len(),
        start.elapsed().as_secs_f64()
    );
    assert!(failed.is_empty(), "{} of {} wrong:\n{}", failed.len(), right, failed.join("\n"));
    assert!(refused.len() as u64 * 4 <= right, "{refused:?}");
    assert!(count == 1 || right >= 20, "only {right} graphs in the time there is");
}

/// Reduced graphs that once failed: an UPDATE after a collective, a node that writes to what an
/// assignment has left, and a nested call that only reads a variable.
#[test]
fn graphs_that_once_failed_are_right() {
    let s = Sessions::new();
    let files = std::fs::read_dir(root().join("tests/random")).expect("the graphs");
    let mut count = 0;
    for file in files.map(|f| f.expect("a file").path()) {
        let text = std::fs::read_to_string(&file).expect("a text");
        let lines = |of: &'static str| text.lines().filter_map(move |l| l.strip_prefix(of));
        let options = lines("# set: ").map(|l| l.split_once('=').expect("a key and a value")).collect();
        let soc = lines("# soc: ").next().expect("a SoC");
        let verdict = judge_text(&s, &Text { text: &text, options, soc, open: false }, 6);
        assert!(matches!(verdict, Verdict::Right), "{}: {verdict:?}", file.display());
        count += 1;
    }
    assert!(count >= 3, "{count} graphs");
}

#[test]
fn the_numbers_of_a_seed_are_the_same_everywhere() {
    let mut r = Random::new(7);
    let drawn: Vec<usize> = (0..6).map(|_| r.below(100)).collect();
    assert_eq!(drawn, {
        let mut again = Random::new(7);
        (0..6).map(|_| again.below(100)).collect::<Vec<_>>()
    });
    assert_eq!(Case::random(3).text(), Case::random(3).text());
    assert!((0..40).any(|s| Case::random(s).text().contains("While(")));
}
