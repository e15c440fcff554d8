//! Each option of the table: some output changes by it, or it is refused, or a note says that it
//! has no effect.
use ge::options::{FOREIGN, TABLE};
use ge_tests::{ge, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

/// How the results for two values of an option are compared.
#[derive(Clone, Copy)]
enum By {
    /// What `ge inspect` shows of the OM, without the options themselves.
    Om,
    /// What the command prints.
    Stdout,
    /// The files that exist afterwards, with their contents if these are text.
    Files,
    /// The exit code and the message, which contains these words for the second value.
    Refusal(&'static str),
    /// Whether the OM can be run in steps.
    Steps,
}

/// One option with two values of it.
struct Case {
    option: &'static str,
    /// An empty text leaves the option out.
    values: [&'static str; 2],
    /// The graph as text, or the path of a golden file whose graph is taken.
    model: &'static str,
    with: &'static [&'static str],
    command: &'static [&'static str],
    by: By,
}

const fn case(option: &'static str, values: [&'static str; 2], model: &'static str, by: By) -> Case {
    Case { option, values, model, with: &[], command: COMPILE, by }
}
impl Case {
    /// Adds further options, the same for both values.
    const fn with(self, with: &'static [&'static str]) -> Case {
        Case { with, ..self }
    }
    /// Takes another command than `ge compile`.
    const fn command(self, command: &'static [&'static str]) -> Case {
        Case { command, ..self }
    }
}

const COMPILE: &[&str] = &["compile", "m.ge", "-o", "m.om", "-q"];
const GEARED: &[&str] = &["compile", "m.ge", "-o", "m.om", "-q", "--dim", "b=1,4"];
const STREAMS: &[&str] = &["opt", "m.ge", "--from", "streams", "--until", "streams"];

/// Values of which some live at the same time and some do not.
const LINE: &str = "graph @main(%x: f32[64,64], %y: f32[64,64]) {
  %a = MatMul(%x, %y) : f32[64,64]
  %b = MatMul(%a, %y) : f32[64,64]
  %c = MatMul(%b, %y) : f32[64,64]
  %d = MatMul(%c, %y) : f32[64,64]
  return %d
}
";
/// Two branches that meet.
const FORK: &str = "graph @main(%x: f32[64,64], %y: f32[64,64]) {
  %p = MatMul(%x, %y) : f32[64,64]
  %u = SoftmaxV2(%p) : f32[64,64]
  %q = MatMul(%y, %x) : f32[64,64]
  %r = Exp(%q) : f32[64,64]
  %s = SoftmaxV2(%r) : f32[64,64]
  %t = MatMul(%p, %s) : f32[64,64]
  return %t, %u
}
";
/// Two engines, hence two streams.
const ENGINES: &str = "graph @main(%x: f32[64,64], %y: f32[64,64]) {
  %a = HcomAllReduce(%x) {group = \"g\", reduction = \"sum\", rank_size = 1} : f32[64,64]
  %b = MatMul(%a, %y) : f32[64,64]
  %c = SoftmaxV2(%b) : f32[64,64]
  return %c
}
";
/// A constant that can be folded, a node that no output needs, a product with an activation.
const FOLD: &str = "graph @main(%x: f32[4,8]) {
  %w = Const() {value = dense<f32[8,8]: splat 0.5>} : f32[8,8]
  %n = Neg(%w) : f32[8,8]
  %m = MatMul(%x, %n) : f32[4,8]
  %r = Relu(%m) : f32[4,8]
  %d = Abs(%x) : f32[4,8]
  %e = Exp(%r) : f32[4,8]
  return %e
}
";
/// A chain of element-wise nodes.
const ROW: &str = "graph @main(%x: f32[64,64]) {
  %a = Exp(%x) : f32[64,64]
  %b = Abs(%a) : f32[64,64]
  %c = Sqrt(%b) : f32[64,64]
  return %c
}
";
/// A size that is open.
const OPEN: &str = "graph @main(%x: f32[b,16]) {
  %p = Exp(%x) : f32[b,16]
  return %p
}
";
/// A node of known shape apart from the unknown ones, and one between two of them.
const PLACES: &str = "graph @main(%x: f32[4], %w: f32[4]) {
  %z = NonZero(%x) : i64[1,?]
  %f = Cast(%z) {dst_type = f32} : f32[1,?]
  %m = ReduceSumD(%f) {axes = [1], keep_dims = false} : f32[1]
  %c = Mul(%w, %m) : f32[4]
  %y = NonZero(%c) : i64[1,?]
  %o = ConcatD(%y, %z) {concat_dim = 1, N = 2} : i64[1,?]
  %n = Neg(%w) : f32[4]
  return %o, %n
}
";
/// A kernel whose tiling reads a value.
const GROUPS: &str = "graph @main(%x: f32[12,16], %w: f32[3,16,8], %list: i64[3]) {
  %a = Relu(%x) : f32[12,16]
  %g = GroupedMatmul(%a, %w, %list) {group_list_type = 1} : f32[12,8]
  return %g
}
";
/// A chain that FFTS+ runs slice by slice.
const ATTENTION: &str =
    "graph @main(%q: f32[1,8,128,32], %k: f32[1,8,128,32], %v: f32[1,8,128,32], %m: f32[1,1,1,128]) {
  %s = BatchMatMulV2(%q, %k) {adj_x2 = true} : f32[1,8,128,128]
  %t = Muls(%s) {value = 0.2} : f32[1,8,128,128]
  %e = Add(%t, %m) : f32[1,8,128,128]
  %p = SoftmaxV2(%e) {axes = [-1]} : f32[1,8,128,128]
  %o = BatchMatMulV2(%p, %v) : f32[1,8,128,32]
  return %o
}
";
/// Events that follow one another on two streams.
const TURNS: &str = "graph @main(%x: f32[64]) {
  %a = Exp(%x) {_stream_label = \"one\"} : f32[64]
  %b = Abs(%a) {_stream_label = \"two\"} : f32[64]
  %c = Neg(%b) {_stream_label = \"one\"} : f32[64]
  %d = Relu(%c) {_stream_label = \"two\"} : f32[64]
  %e = Exp(%d) {_stream_label = \"one\"} : f32[64]
  return %e
}
";
/// A variable whose readers want another layout.
const VARIABLE: &str = "graph @main(%n: f32[2,3]) {
  %v = Variable() : f32[2,3]
  %t = TransposeD(%v) {perm = [1, 0]} : f32[3,2]
  %r = Relu(%t) : f32[3,2]
  %a = Assign(%v, %n) after(%r) : f32[2,3]
  return %r
}
";
/// Values of many sizes, in an order that first fit packs badly.
const CROWD: &str = "graph @main(%x1: f32[128], %x5: f32[640], %x8: f32[1024], %x9: f32[1152], %x12: f32[1536], %x16: f32[2048], %x20: f32[2560], %x24: f32[3072], %x27: f32[3456], %x28: f32[3584]) {
  %v0 = Relu(%x20) : f32[2560]
  %v1 = Relu(%x9) : f32[1152]
  %v2 = Relu(%x24) : f32[3072]
  %v3 = Relu(%x12) : f32[1536]
  %r0 = ReduceSumD(%v0) {axes = [0]} : f32[]
  %v4 = Relu(%x27) : f32[3456]
  %v5 = Relu(%x8) : f32[1024]
  %r2 = ReduceSumD(%v2) {axes = [0]} : f32[]
  %v6 = Relu(%x16) : f32[2048]
  %r5 = ReduceSumD(%v5) {axes = [0]} : f32[]
  %r3 = ReduceSumD(%v3) {axes = [0]} : f32[]
  %v7 = Relu(%x1) : f32[128]
  %r7 = ReduceSumD(%v7) {axes = [0]} : f32[]
  %v8 = Relu(%x9) : f32[1152]
  %v9 = Relu(%x28) : f32[3584]
  %r4 = ReduceSumD(%v4) {axes = [0]} : f32[]
  %r1 = ReduceSumD(%v1) {axes = [0]} : f32[]
  %v10 = Relu(%x5) : f32[640]
  %r10 = ReduceSumD(%v10) {axes = [0]} : f32[]
  %v11 = Relu(%x5) : f32[640]
  %r8 = ReduceSumD(%v8) {axes = [0]} : f32[]
  %r6 = ReduceSumD(%v6) {axes = [0]} : f32[]
  %r9 = ReduceSumD(%v9) {axes = [0]} : f32[]
  %r11 = ReduceSumD(%v11) {axes = [0]} : f32[]
  return %r0, %r2, %r5, %r3, %r7, %r4, %r1, %r10, %r8, %r6, %r9, %r11
}
";
/// A step whose output is the input of the next one.
const STEP: &str = "graph @main(%n: f32[4], %s: f32[4]) {
  %t = Add(%s, %n) : f32[4]
  return %t
}
";

/// Files that options name, with their contents.
const FILES: &[(&str, &str)] = &[
    ("keep.txt", "a\n"),
    ("types.cfg", "a::InputDtype:float16,float16\n"),
    (
        "mix.json",
        r#"{"white-list": {"to-remove": ["MatMulV2", "MatMul"]}, "black-list": {"to-add": ["MatMul", "MatMulV2", "FusedMatMul"]}}"#,
    ),
    ("switch.cfg", "MatMulEpilogueFusionPass:off\n"),
    (
        "profile.json",
        r#"{"nodes": [{"name": "p", "us": 1}, {"name": "q", "us": 1e5}, {"name": "r", "us": 1}, {"name": "s", "us": 1}, {"name": "t", "us": 1}, {"name": "u", "us": 1e5}]}"#,
    ),
];

const CASES: &[Case] = &[
    case("ac_parallel_enable", ["0", "1"], "streams/dynamic/assign_aicpu_can_parallel.ge", By::Stdout)
        .with(&["ge.x.dynamic_multi_stream=1"])
        .command(STREAMS),
    case("ge.buildMode", ["tuning", "normal"], FOLD, By::Refusal("outside of tuning mode"))
        .with(&["ge.buildStep=after_ub_match", "ge.tuningPath=t"]),
    case("ge.buildStep", ["before_ub_match", "after_builder"], FOLD, By::Files)
        .with(&["ge.buildMode=tuning", "ge.tuningPath=t"]),
    case("ge.dynamicDims", ["", "2;4"], OPEN, By::Om),
    case("ge.enableSingleStream", ["false", "true"], ENGINES, By::Om),
    case("ge.event", ["", "notify"], ENGINES, By::Om),
    case("ge.exec.atomicCleanPolicy", ["0", "1"], "memory/atomic_clean/one_for_each.ge", By::Stdout)
        .with(&["ge.x.memory_effort=fast", "ge.enableSingleStream=true"])
        .command(&["opt", "m.ge", "--from", "conflict", "--until", "memory"]),
    case("ge.exec.disableReuseMemory", ["0", "1"], LINE, By::Om),
    case("ge.exec.exclude_engines", ["", "AiCore"], LINE, By::Om),
    case("ge.exec.inputReuseMemIndexes", ["", "0"], LINE, By::Om),
    case(
        "ge.exec.memoryOptimizationPolicy",
        ["", "MemoryPriority"],
        "streams/assign_by_dependency_pass/memory_priority.ge",
        By::Stdout,
    )
    .command(STREAMS),
    case("ge.exec.outputReuseInputMemIndexes", ["", "0,0"], LINE, By::Om),
    case("ge.exec.outputReuseMemIndexes", ["", "0"], LINE, By::Om),
    case("ge.exec.precision_mode", ["must_keep_origin_dtype", "force_fp16"], LINE, By::Om),
    case("ge.exec.precision_mode_v2", ["origin", "mixed_float16"], LINE, By::Om),
    case("ge.exec.keep_dtype", ["", "keep.txt"], LINE, By::Om).with(&["ge.exec.precision_mode=force_fp16"]),
    case("ge.x.keep_dtype", ["", "[\"a\"]"], LINE, By::Om).with(&["ge.exec.precision_mode=force_fp16"]),
    case("ge.customizeDtypes", ["", "types.cfg"], LINE, By::Om),
    case("ge.exec.modify_mixlist", ["", "mix.json"], LINE, By::Om)
        .with(&["ge.exec.precision_mode=allow_mix_precision"]),
    case("ge.exec.static_model_ops_lower_limit", ["1", "4"], "partition/dynamic_shape/limit.ge", By::Stdout)
        .command(&["opt", "m.ge", "--from", "partition", "--until", "merge"]),
    case("ge.exec.static_model_ops_lower_limit", ["", "1"], PLACES, By::Om),
    case("ge.compileHybridMode", ["0", "1"], OPEN, By::Om).command(GEARED),
    case("ge.exec.hostSchedulingMaxThreshold", ["0", "20"], FOLD, By::Om),
    case("ge.externalWeight", ["0", "1"], FOLD, By::Files),
    case("ge.featureBaseRefreshable", ["0", "1"], "conflict/mem_conflict_proc/refresh.ge", By::Stdout)
        .command(&["opt", "m.ge", "--from", "conflict", "--until", "conflict"]),
    case("ge.fusionSwitchFile", ["", "switch.cfg"], FOLD, By::Om),
    case("ge.graph_compiler_cache_dir", ["", "cache"], FOLD, By::Files),
    case("ge.hcomParallel", ["false", "true"], "streams/all_reduce_parallel_pass/successors.ge", By::Stdout)
        .command(STREAMS),
    case("ge.inputShape", ["", "x:2,16"], OPEN, By::Om),
    case("ge.oo.constantFolding", ["true", "false"], FOLD, By::Stdout)
        .command(&["opt", "m.ge", "--from", "import", "--until", "stage1"]),
    case("ge.oo.deadCodeElimination", ["true", "false"], FOLD, By::Om),
    case("ge.oo.level", ["O1", "O3"], FOLD, By::Om),
    case("ge.optimizationSwitch", ["", "ConstantFoldingPass:off"], FOLD, By::Om),
    case(
        "ge.streamMaxParallelNum",
        ["", "VectorEngine:2"],
        "streams/assign_by_dependency_pass/stream_max_parallel_num.ge",
        By::Stdout,
    )
    .command(STREAMS),
    case("ge.tiling_schedule_optimize", ["0", "1"], GROUPS, By::Om),
    case("ge.topoSortingMode", ["3", "0"], FORK, By::Om),
    case("ge.topoSortingMode", ["3", "1"], FORK, By::Om),
    case("ge.topoSortingMode", ["0", "2"], FORK, By::Om),
    case("ge.tuningPath", ["t", "u"], FOLD, By::Files).with(&["ge.buildMode=tuning", "ge.buildStep=after_builder"]),
    case("ge.exec.variable_acc", ["true", "false"], VARIABLE, By::Stdout)
        .command(&["opt", "m.ge", "--from", "stage1", "--until", "stage1"]),
    case("ge.x.auto_fusion", ["true", "false"], ROW, By::Om),
    case("ge.x.composite_engines", ["", "FftsPlus"], ATTENTION, By::Om),
    case("ge.x.core_type", ["AiCore", "VectorCore"], LINE, By::Om),
    case("ge.x.dynamic_multi_stream", ["0", "1"], "streams/dynamic/assign_aicpu_can_parallel.ge", By::Stdout)
        .command(STREAMS),
    case("ge.x.event_reuse", ["off", "always"], TURNS, By::Om).with(&["ge.x.auto_fusion=false"]),
    case("ge.x.known_first", ["0", "1"], PLACES, By::Om).with(&["ge.exec.static_model_ops_lower_limit=1"]),
    case("ge.x.memory_effort", ["fast", "max"], CROWD, By::Stdout)
        .with(&["ge.x.auto_fusion=false"])
        .command(&["opt", "m.ge", "--from", "import", "--until", "memory"]),
    case("ge.x.no_reuse_ops", ["", "a"], LINE, By::Om),
    case("ge.x.plan", ["speed", "memory"], FORK, By::Om).with(&["ge.x.stream_mode=parallel:4"]),
    case("ge.x.state", ["", "t:s"], STEP, By::Steps),
    case("ge.x.stream_mode", ["engine", "parallel:2"], FORK, By::Om),
    case("ge.x.stream_profile", ["", "profile.json"], FORK, By::Om).with(&["ge.x.stream_mode=parallel:2"]),
];

/// Options whose effect another test shows, with the name of that test and the reason.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    (
        "ge.deterministic",
        "options_and_attributes_reach_the_context",
        "kernels read it in the tiling context of a loaded model",
    ),
    (
        "ge.x.tuning_file",
        "a_tuning_file_goes_into_the_om_and_the_numbers_stay",
        "its entries name kernels by engine, operator and sizes",
    ),
    ("ge.x.plugin_call_warn_s", "a_slow_call_is_told_while_it_lasts", "only a plugin that is slow shows it"),
];

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Collects all files below a folder, with their contents if these are text. An OM is not text; it
/// names its options, so its bytes would say nothing here.
fn files(dir: &Path, below: &str, out: &mut BTreeMap<String, String>) {
    for e in std::fs::read_dir(dir.join(below)).unwrap() {
        let e = e.unwrap();
        let name = format!("{below}/{}", e.file_name().display());
        if e.path().is_dir() {
            files(dir, &name, out);
        } else {
            let text = std::fs::read(e.path()).ok().and_then(|b| String::from_utf8(b).ok());
            out.insert(name, text.unwrap_or_default());
        }
    }
}

/// What a case shows with one value.
fn seen(c: &Case, value: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for (name, text) in FILES {
        std::fs::write(d.join(name), text).unwrap();
    }
    for folder in ["t", "u"] {
        std::fs::create_dir(d.join(folder)).unwrap();
    }
    let golden = root().join("tests/golden").join(c.model);
    let text = if c.model.ends_with(".ge") { std::fs::read_to_string(golden).unwrap() } else { c.model.to_owned() };
    std::fs::write(d.join("m.ge"), text.split("# ----").next().unwrap()).unwrap();
    let set = (!value.is_empty()).then(|| format!("{}={value}", c.option));
    let sets = c.with.iter().copied().chain(set.as_deref()).flat_map(|s| ["--set", s]);
    let out = ge(d, &c.command.iter().copied().chain(sets).collect::<Vec<_>>());
    if let By::Refusal(_) = c.by {
        return format!("{:?}\n{}", out.status.code(), said(&out));
    }
    assert_eq!(out.status.code(), Some(0), "{}={value}: {}", c.option, said(&out));
    match c.by {
        By::Om => {
            let shown = ge(d, &["inspect", "m.om", "--json"]);
            let mut doc: Value = serde_json::from_slice(&shown.stdout).unwrap();
            assert!(doc.as_object_mut().unwrap().remove("options").is_some());
            doc.to_string()
        }
        By::Files => {
            let mut all = BTreeMap::new();
            files(d, ".", &mut all);
            format!("{all:?}")
        }
        By::Steps => {
            let out = ge(d, &["run", "m.om", "--steps", "2", "--random", "1", "-q"]);
            format!("{:?}", out.status.code())
        }
        By::Stdout | By::Refusal(_) => String::from_utf8(out.stdout).unwrap(),
    }
}

#[test]
fn each_option_changes_some_output_or_is_refused() {
    let mut faults = String::new();
    for c in CASES {
        let [a, b] = c.values.map(|v| seen(c, v));
        if seen(c, c.values[0]) != a {
            faults.push_str(&format!("\n{}: two runs with the same value differ", c.option));
        }
        let acts = match c.by {
            By::Refusal(words) => a.starts_with("Some(0)") && b.starts_with("Some(2)") && b.contains(words),
            _ => a != b,
        };
        if !acts {
            faults.push_str(&format!(
                "\n{} {:?}: {}",
                c.option,
                c.values,
                if a == b { "nothing changes" } else { b.as_str() }
            ));
        }
    }
    assert!(faults.is_empty(), "{faults}");
    let sources = sources(&root().join("tests/tests"));
    for (option, test, why) in ELSEWHERE {
        assert!(!why.is_empty() && sources.contains(&format!("fn {test}()")), "{option}: no test `{test}`");
    }
    let is_shown = |name: &str| CASES.iter().any(|c| c.option == name) || ELSEWHERE.iter().any(|e| e.0 == name);
    let left: Vec<&str> = TABLE.iter().map(|d| d.name).filter(|n| !is_shown(n)).collect();
    assert!(left.is_empty(), "no case for {left:?}");
}

fn sources(dir: &Path) -> String {
    let each = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    each.map(|p| if p.is_dir() { sources(&p) } else { std::fs::read_to_string(&p).unwrap_or_default() }).collect()
}

#[test]
fn names_of_cann_that_mean_nothing_here_are_noted_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), FOLD).unwrap();
    let compile = |om: &str, sets: &[String]| {
        let sets = sets.iter().flat_map(|s| ["--set", s]);
        let out = ge(d, &["compile", "m.ge", "-o", om].into_iter().chain(sets).collect::<Vec<_>>());
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        (said(&out), std::fs::read(d.join(om)).unwrap())
    };
    let (plain, om) = compile("a.om", &[]);
    assert!(!plain.contains("note: option"), "{plain}");
    let all: Vec<String> = FOREIGN.iter().map(|(name, _)| format!("{name}=1")).collect();
    let (noted, same) = compile("a.om", &all);
    for (name, why) in FOREIGN {
        assert!(noted.contains(&format!("note: option `{name}` has no effect: {why}")), "{noted}");
    }
    assert!(om == same, "an option that means nothing has changed the OM");
}
