//! Models of open sizes on several streams: the streams that the compiler assigns and the events of
//! rounds; every schedule gives the bits of one stream.
use crate::executors::{Writer, chance, given, loaded, opened, seen};
use ge::options::OptionMap;
use ge::session::{Model, Session, SessionOptions};
use ge_model::CompiledModel;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_runtime::{Part, RunOptions};
use ge_tests::{expect_code, long, root, target};
use std::collections::BTreeSet;
use std::path::Path;

pub const SEVERAL: (&str, &str) = ("ge.x.dynamic_multi_stream", "1");
pub const PARALLEL: (&str, &str) = ("ac_parallel_enable", "1");
/// Nodes are not fused, and branches stay branches.
const APART: [(&str, &str); 2] = [("ge.x.auto_fusion", "false"), ("ge.optimizationSwitch", "BranchToSelectPass:off")];

pub fn compiled(s: &Session, text: &str, more: &[(&str, &str)]) -> CompiledModel {
    let dir = tempfile::tempdir().unwrap();
    let (source, om) = (dir.path().join("m.ge"), dir.path().join("m.om"));
    std::fs::write(&source, text).unwrap();
    let graph = s.import(&source, "").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut options = OptionMap::default();
    for (name, value) in APART.iter().chain(more) {
        options.set(name, value, "test").unwrap();
    }
    let made = s.compile("m", graph, &options, &ge::session::Quiet).unwrap_or_else(|e| panic!("{e}\n{text}"));
    made.write_om(&om).unwrap();
    // The model as the file has it.
    let read = ge::session::read_om(&om).unwrap();
    assert!(read.is_dynamic() && read.streams == made.model.streams, "{text}");
    read
}

/// Puts random nodes of a text on streams by labels, or on the AI CPU.
pub fn spread(text: &str, next: &mut dyn FnMut(u64) -> u64) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let plain = ["Add(", "Sub(", "Maximum(", "Neg(", "Relu(", "Exp(", "Mul(", "Cast("];
        let at = line.rfind(") : f32").filter(|_| plain.iter().any(|op| line.contains(op)) && !line.contains('{'));
        match (at, next(8)) {
            (Some(at), k @ 0..4) => {
                out.push_str(&format!("{}) {{_stream_label = \"s{k}\"}}{}", &line[..at], &line[at + 1..]));
            }
            (Some(at), 4) => {
                out.push_str(&format!("{}) {{_engine = \"DNN_VM_AICPU_ASCEND\"}}{}", &line[..at], &line[at + 1..]));
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Outputs of a run, and its launches.
fn ran(m: &Model, inputs: &[HostTensor]) -> (Vec<Vec<u8>>, Vec<Part>) {
    let views: Vec<_> = inputs.iter().map(HostTensor::view).collect();
    let ran = m.run_views(&views, RunOptions { profile: true }).unwrap();
    (ran.outputs.iter().map(|t| t.bytes().to_vec()).collect(), ran.parts)
}
/// Streams on which the tasks of a launch ran, by its profile.
fn streams(p: &Part) -> BTreeSet<u32> {
    p.report.tasks.iter().map(|t| p.model().tasks[t.task as usize].stream).collect()
}

#[test]
fn several_streams_give_the_bits_of_one_in_every_schedule() {
    let plain = opened(&[]);
    let wild: Vec<Session> = ["random:5", "random:11", "random:23"]
        .iter()
        .map(|s| opened(&[("schedule", s), ("check_races", "true")]))
        .collect();
    let (mut widest, mut events) = (0, 0);
    for seed in 0..if long() { 400 } else { 12 } {
        let mut next = chance(seed + 1000);
        let text = Writer { next: &mut next, graphs: String::new(), count: 0 }.model();
        let text = spread(&text, &mut next);
        let limit = ("ge.exec.static_model_ops_lower_limit", if seed % 2 == 0 { "1" } else { "-1" });
        let one = compiled(&plain, &text, &[limit]);
        let several = compiled(&plain, &text, &[limit, SEVERAL, PARALLEL]);
        assert!(one.streams.logical.is_empty() && several.streams.logical.len() > 1, "{text}");
        let capture = seed % 4 == 3;
        let of_one = loaded(&plain, &one, 0, capture);
        let mut all = vec![loaded(&plain, &several, 0, capture), loaded(&plain, &several, 3, capture)];
        all.extend(wild.iter().map(|s| loaded(s, &several, 0, capture)));
        all.push(loaded(&wild[0], &several, 4, capture));
        for rows in [3, 1, 3, 6] {
            let inputs = given(rows, &mut next);
            let want = seen(&of_one, &inputs, true);
            let first = seen(&all[0], &inputs, true);
            for m in &all {
                let found = seen(m, &inputs, true);
                assert_eq!((&found.0, &found.3), (&want.0, &want.3), "seed {seed}\n{text}");
                assert_eq!(found, first, "seed {seed}\n{text}");
            }
            for p in ran(&all[0], &inputs).1 {
                let m = p.model();
                assert_eq!(streams(&p).len(), m.streams.physical.len());
                widest = widest.max(m.streams.physical.len());
                events += m.event_num;
            }
        }
    }
    assert!(widest > 3 && events > 100, "{widest} {events}");
}

/// The AI CPU beside the AI core, with and without the option that asks for it, and stream labels.
#[test]
fn engines_and_labels_have_streams_of_their_own() {
    let s = opened(&[]);
    let text = |label: &str| {
        format!(
            "graph @main(%x: f32[n,4], %y: f32[n,4]) {{
               %a = Exp(%x) {{_engine = \"DNN_VM_AICPU_ASCEND\"}} : f32[n,4]
               %b = Relu(%y) {{{label}}} : f32[n,4]
               %c = Neg(%b) {{{label}}} : f32[n,4]
               %d = Add(%a, %c) : f32[n,4]
               %e = Sub(%d, %b) : f32[n,4]
               return %e, %c }}"
        )
    };
    let inputs = given(3, &mut chance(3))[..2].to_vec();
    let want = ran(&loaded(&s, &compiled(&s, &text(""), &[]), 0, false), &inputs).0;
    let check = |label: &str, more: &[(&str, &str)], want_streams: usize, want_events: usize| {
        let m = compiled(&s, &text(label), more);
        let exec = s.exec_of(&m).unwrap();
        let round = &exec.main[0].rounds[0];
        assert_eq!((round.streams.len(), round.events), (want_streams, want_events), "{more:?} {round:?}");
        let (outputs, parts) = ran(&loaded(&s, &m, 0, false), &inputs);
        assert_eq!(outputs, want);
        // A run does what was reported, and its profile shows the tasks on the streams where they
        // ran.
        let [p] = parts.as_slice() else { panic!("{} launches", parts.len()) };
        assert_eq!((streams(p).len(), p.model().event_num as usize), (want_streams, want_events));
        let logical = |n: &ge_model::NodeInfo| p.model().streams.physical[n.stream.unwrap() as usize].logical;
        for step in &round.device {
            let node = p.model().graphs[0].nodes.iter().find(|n| n.name == step.node).unwrap();
            assert_eq!((node.logical_stream, Some(logical(node))), (step.stream, step.stream), "{}", step.node);
        }
        exec.streams
    };
    assert_eq!(check("", &[], 1, 0).len(), 1);
    assert_eq!(check("", &[SEVERAL, ("ac_parallel_enable", "0")], 1, 0).len(), 1);
    // The AI CPU's node has no predecessor: it waits for nothing, and the sum waits for it.
    let who = check("", &[SEVERAL, PARALLEL], 2, 1);
    assert_eq!(who[1], ["DNN_VM_AICPU_ASCEND"]);
    let who = check("_stream_label = \"side\"", &[SEVERAL, PARALLEL], 3, 2);
    assert_eq!((who.len(), who[2].as_slice()), (3, ["label side".to_owned()].as_slice()));
}

#[test]
fn threads_run_one_executor_of_several_streams_at_once() {
    let s = opened(&[]);
    let mut next = chance(77);
    let text = Writer { next: &mut next, graphs: String::new(), count: 0 }.model();
    let text = spread(&text, &mut next);
    let given: Vec<_> = (1..7).map(|rows| given(rows, &mut next)).collect();
    let of_one = loaded(&s, &compiled(&s, &text, &[]), 0, false);
    let want: Vec<_> = given.iter().map(|g| ran(&of_one, g).0).collect();
    for cores in [0, 2] {
        let m = loaded(&s, &compiled(&s, &text, &[SEVERAL, PARALLEL]), cores, false);
        std::thread::scope(|scope| {
            for t in 0..4 {
                let (m, given, want) = (&m, &given, &want);
                scope.spawn(move || {
                    for k in 0..if long() { 200 } else { 12 } {
                        let k = (k + t) % given.len();
                        assert_eq!(ran(m, &given[k]).0, want[k]);
                    }
                });
            }
        });
    }
}

/// On a SoC with short streams or few events, rounds end earlier, and logical streams share a
/// physical one.
#[test]
fn rounds_are_as_long_as_streams_and_events_suffice_for() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let plugins = d.join("plugins.toml");
    let list = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    std::fs::write(&plugins, list.replacen("schema = 1", &format!("schema = 1\nsearch = [{:?}]", target()), 1))
        .unwrap();
    let mut next = chance(5);
    let mut text = String::from("graph @main(%p: f32[n,4], %q: f32[n,4]) {\n");
    let mut values = vec!["p".to_owned(), "q".to_owned()];
    for k in 0..60 {
        let [a, b] = [0, 1].map(|_| &values[values.len() - 1 - next(values.len().min(6) as u64) as usize]);
        text += &format!("%v{k} = Sub(%{a}, %{b}) {{_stream_label = \"s{}\"}} : f32[n,4]\n", next(5));
        values.push(format!("v{k}"));
    }
    text += "return %v59, %v58, %v57 }";
    let mut want = None;
    for (name, more, most) in [
        ("wide", "", (5, usize::MAX, usize::MAX)),
        ("short", "tasks_normal = 14\ntasks_huge = 14\n", (5, 14, usize::MAX)),
        ("eventless", "max_events = 3\n", (4, usize::MAX, 3)),
        ("narrow", "streams_normal = 2\n", (2, usize::MAX, usize::MAX)),
        ("none", "max_events = 0\n", (1, usize::MAX, 0)),
    ] {
        let soc = d.join(format!("{name}.toml"));
        std::fs::write(&soc, format!("name = \"{name}\"\nbase = \"sim\"\n{more}")).unwrap();
        let s = Session::new(SessionOptions {
            plugins: Some(plugins.clone()),
            soc: Some(soc.display().to_string()),
            device_options: vec![("schedule".into(), "random:9".into()), ("check_races".into(), "true".into())],
            ..SessionOptions::default()
        })
        .unwrap();
        let m = compiled(&s, &text, &[SEVERAL]);
        let told = s.exec_of(&m).unwrap();
        let inputs = given(3, &mut chance(8))[..2].to_vec();
        let (outputs, parts) = ran(&loaded(&s, &m, 0, false), &inputs);
        assert_eq!(*want.get_or_insert(outputs.clone()), outputs, "{name}");
        let shapes: Vec<(usize, usize)> =
            parts.iter().map(|p| (p.model().streams.physical.len(), p.model().event_num as usize)).collect();
        let rounds = told.main[0].rounds.iter().filter(|r| !r.device.is_empty());
        assert_eq!(rounds.map(|r| (r.streams.len(), r.events)).collect::<Vec<_>>(), shapes, "{name}");
        assert!(shapes.iter().all(|s| s.0 <= most.0 && s.1 <= most.2), "{name}: {shapes:?}");
        assert_eq!(shapes.len() > 1, matches!(name, "short" | "eventless"), "{name}: {shapes:?}");
        for p in &parts {
            let m = p.model();
            let tasks = |s: usize| m.tasks.iter().filter(|t| t.stream as usize == s).count();
            assert!((0..m.streams.physical.len()).all(|s| tasks(s) <= most.1), "{name}");
        }
    }
}

fn npy(path: &Path, dims: &[u64], next: &mut dyn FnMut(u64) -> u64) {
    let bytes: Vec<u8> =
        (0..dims.iter().product()).flat_map(|_| ((next(64) as f32 - 32.0) / 16.0).to_le_bytes()).collect();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let t = HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap();
    std::fs::write(path, ge_runtime::npy::write(&t).unwrap()).unwrap();
}

/// A cache that grows in place, written on one stream and read on others.
#[test]
fn a_state_that_grows_is_written_and_read_on_streams_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%q: f32[2,3,n,4], %k: f32[2,3,n,4], %past: f32[2,3,s,4]) {
  %h = Neg(%k) {_stream_label = \"a\"} : f32[2,3,n,4]
  %all = ConcatD(%past, %h) {N = 2, concat_dim = 2, _stream_label = \"b\"} : f32[2,3,?,4]
  %t = TransposeD(%all) {perm = [0, 1, 3, 2]} : f32[2,3,4,?]
  %g = Abs(%q) {_stream_label = \"c\"} : f32[2,3,n,4]
  %w = BatchMatMulV2(%g, %t) {_stream_label = \"a\"} : f32[2,3,n,?]
  %u = BatchMatMulV2(%q, %t) {_stream_label = \"c\"} : f32[2,3,n,?]
  %v = Add(%w, %u) : f32[2,3,n,?]
  %y = BatchMatMulV2(%v, %all) {_stream_label = \"b\"} : f32[2,3,n,4]
  return %y, %all
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let mut next = chance(9);
    for k in 0..12 {
        let rows = if k == 0 { 5 } else { 1 };
        (0..2).for_each(|i| npy(&d.join(format!("in/step{k}/input_{i}.npy")), &[2, 3, rows, 4], &mut next));
    }
    let state = ["-q", "--state", "all:past"];
    expect_code(d, 0, &[&["compile", "m.ge", "-o", "one.om"][..], &state].concat());
    let set = format!("{}={}", SEVERAL.0, SEVERAL.1);
    expect_code(d, 0, &[&["compile", "m.ge", "-o", "several.om", "--set", &set][..], &state].concat());
    let run = |om: &str, to: &str, more: &[&str]| {
        let all = ["run", om, "--inputs", "in", "--steps", "12", "--outputs", to, "--json"];
        let out = expect_code(d, 0, &[&all[..], more].concat()).stdout;
        serde_json::from_slice::<serde_json::Value>(&out).unwrap()["copied_state_bytes"].clone()
    };
    assert_eq!(run("one.om", "one", &[]), 0);
    for seed in 0..3 {
        let schedule = format!("schedule=random:{seed}");
        let wild = ["--device-option", &schedule, "--device-option", "check_races=true"];
        assert_eq!(run("several.om", "several", &wild), 0);
        for file in (0..12).flat_map(|k| [0, 1].map(|i| format!("step{k}/output_{i}.npy"))) {
            let bytes = |of: &str| std::fs::read(d.join(of).join(&file)).unwrap();
            assert_eq!(bytes("several"), bytes("one"), "{file}");
        }
    }
}

/// The model beside gears has several streams only if the option asks for them.
#[test]
fn the_model_beside_gears_has_several_streams_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[b,2]) {
  %r = Relu(%x) {_stream_label = \"a\"} : f32[b,2]
  %n = Neg(%x) {_stream_label = \"b\"} : f32[b,2]
  %y = Sub(%n, %r) : f32[b,2]
  return %y
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let compile = |om: &str, more: &[&str]| {
        let all = ["compile", "m.ge", "-o", om, "-q", "--dim", "b=1,4", "--set", "compileHybridMode=1"];
        expect_code(d, 0, &[&all[..], &["--set", "ge.x.auto_fusion=false"], more].concat());
    };
    let exec = |om: &str| String::from_utf8(expect_code(d, 0, &["inspect", om, "--what", "exec"]).stdout).unwrap();
    let set = format!("{}={}", SEVERAL.0, SEVERAL.1);
    compile("several.om", &["--set", &set]);
    compile("one.om", &[]);
    let told = exec("several.om");
    assert!(told.contains("streams: 3, by engine") && told.contains("  stream 1: label a\n"), "{told}");
    assert!(told.contains(": 3 streams, 2 events\n") && told.contains(", stream 2\n"), "{told}");
    assert!(!exec("one.om").contains("stream"));
    for om in ["one.om", "several.om"] {
        for (x, y) in [("[[1,-2]]", "y: f32[1,2] = -2 2"), ("[[1,-2],[3,-4]]", "y: f32[2,2] = -2 2 -6 4")] {
            let wild = ["--device-option", "schedule=random:3", "--device-option", "check_races=true"];
            let given = format!("x={x}");
            let out = expect_code(d, 0, &[&["run", om, "--input", &given, "-q"][..], &wild].concat()).stdout;
            assert!(String::from_utf8_lossy(&out).contains(y), "{om} {x}: {}", String::from_utf8_lossy(&out));
        }
    }
}

/// The user stops a run that would go on for ever on several streams.
#[test]
fn a_run_on_several_streams_is_stopped_by_the_user() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[n]) { %y = While(%x) {cond = @go, body = @turn} : f32[?] return %y }
       graph @go(%x: f32[?]) { %c = Const() {value = dense<bool[]: true>} : bool[] return %c }
       graph @turn(%x: f32[?]) {
         %a = Exp(%x) {_stream_label = \"one\"} : f32[?]
         %b = Neg(%x) {_stream_label = \"two\"} : f32[?]
         %y = Add(%a, %b) {_stream_label = \"one\"} : f32[?]
         return %y }";
    std::fs::write(d.join("m.ge"), text).unwrap();
    let several = format!("{}={}", SEVERAL.0, SEVERAL.1);
    let apart = format!("{}={}", APART[0].0, APART[0].1);
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--set", &several, "--set", &apart]);
    let read = ge::session::read_om(&d.join("m.om")).unwrap();
    assert!(read.streams.logical.len() > 1);
    let mut child = std::process::Command::new(target().join("ge"))
        .args(["run", "m.om", "--input", "x=[1,2]", "--device-option", "max_tasks=1000000000000", "-q"])
        .args(["--plugins", &root().join("plugins.toml").display().to_string()])
        .current_dir(d)
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(600));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
