//! Passes as a whole: every set of passes computes the same numbers as no pass (compared on the
//! simulator), and the page that lists the passes agrees with the code.
use ge_tests::{root, target};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

fn ge(dir: &Path, args: &[&str]) -> Output {
    Command::new(target().join("ge"))
        .args(args)
        .current_dir(dir)
        .env("GE_PLUGINS", dir.join("plugins.toml"))
        .env_remove("GE_OPTIONS")
        .output()
        .unwrap()
}

/// Passes of plugins are in the list, at the stage in which they run, with their plugin.
#[test]
fn passes_of_plugins_are_listed_with_their_plugin() {
    let list = |plugins: &Path| {
        let args = ["opt", "--list", "--json"];
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(plugins, dir.path().join("plugins.toml")).unwrap();
        let out = ge(dir.path(), &args);
        assert!(out.status.success(), "{out:?}");
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap()
    };
    let all = list(&root().join("plugins.toml"));
    let of = |stage: &str, pass: &str| {
        let stages = all["stages"].as_array().unwrap().iter().filter(|s| s["stage"] == stage);
        let found = stages.flat_map(|s| s["passes"].as_array().unwrap()).find(|p| p["name"] == pass);
        found.map(|p| (p["plugin"].as_str().map(str::to_owned), p["level"].as_str().unwrap().to_owned()))
    };
    assert_eq!(of("prepare", "GeluFusionPass"), Some((Some("fusion".into()), "O3".into())));
    assert_eq!(of("original", "MatMulEpilogueFusionPass"), Some((Some("nn".into()), "O3".into())));
    assert_eq!(of("stage2", "ConcatNotaskPass"), Some((None, "O3".into())));
    // Without plugins, our own passes are still listed.
    let none = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(none.path(), "schema = 1\n").unwrap();
    let text = list(none.path()).to_string();
    assert!(text.contains("ConcatNotaskPass") && !text.contains("GeluFusionPass"), "{text}");
}

#[test]
fn the_page_of_passes_is_what_the_code_says() {
    let page = std::fs::read_to_string(root().join("docs/passes.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(root().join("plugins.toml"), dir.path().join("plugins.toml")).unwrap();
    let made = ge(dir.path(), &["opt", "--list", "--markdown"]);
    assert!(made.status.success(), "{made:?}");
    assert!(page.as_bytes() == made.stdout, "docs/passes.md is stale: `ge opt --list --markdown > docs/passes.md`");
}

#[test]
fn every_pass_says_what_it_needs_and_keeps_and_has_golden_tests() {
    let mut poor = Vec::new();
    for p in ge_compiler::pipeline::passes::PASSES {
        let k = p.pass;
        if k.effect().is_empty() || k.needs().is_empty() || k.keeps().is_empty() || p.why.is_empty() {
            poor.push(format!("{}: effect, needs, keeps or reason is empty", k.name()));
        }
    }
    let mut texts = String::new();
    for f in ge::commands::golden::files(&root().join("tests/golden")).unwrap() {
        for l in std::fs::read_to_string(f).unwrap().lines().filter(|l| l.starts_with("# RUN:")) {
            texts.push_str(l);
            texts.push('\n');
        }
    }
    for p in ge_compiler::pipeline::passes::PASSES {
        if !texts.contains(p.pass.name()) {
            poor.push(format!("{}: no golden file runs it", p.pass.name()));
        }
    }
    assert!(poor.is_empty(), "{poor:#?}");
}

/// For each pass, over the golden cases that run it: how many it changes, and how many it leaves as
/// they are.
fn fired_and_not() -> BTreeMap<String, (usize, usize)> {
    use ge_ir::text::golden::{Golden, cases};
    use ge_ir::text::{NoFiles, parse, to_string};
    let texts = |text: &str, file: &Path| -> BTreeMap<String, String> {
        let model = parse(text, "golden", &NoFiles).unwrap_or_else(|d| panic!("{}: {d:?}", file.display()));
        cases(&model).iter().map(|c| (c.root().name().to_owned(), to_string(c).unwrap())).collect()
    };
    let mut out: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for f in ge::commands::golden::files(&root().join("tests/golden")).unwrap() {
        let text = std::fs::read_to_string(&f).unwrap();
        let g = Golden::read(&text, "golden").unwrap();
        let words = g.run.iter().flat_map(|l| l.split_whitespace().skip_while(|w| *w != "--passes").nth(1));
        let passes: BTreeSet<&str> = words.flat_map(|w| w.split(',')).collect();
        if passes.is_empty() || !g.errors.is_empty() {
            continue;
        }
        let before = texts(g.input, &f);
        let after = g.expected.map_or_else(|| before.clone(), |e| texts(e, &f));
        let same = before.iter().filter(|(name, text)| after.get(*name) == Some(text)).count();
        for p in passes {
            let (fires, not) = out.entry(p.to_owned()).or_default();
            *fires += before.len() - same;
            *not += same;
        }
    }
    out
}

#[test]
fn every_pass_fires_in_one_golden_case_and_leaves_another_as_it_is() {
    let found = fired_and_not();
    let mut poor = Vec::new();
    for p in ge_compiler::pipeline::passes::PASSES {
        let name = p.pass.name();
        let (fires, not) = found.get(name).copied().unwrap_or_default();
        if fires == 0 || not == 0 {
            poor.push(format!("{name}: {fires} cases that it changes, {not} that it leaves"));
        }
    }
    assert!(poor.is_empty(), "{poor:#?}");
}

/// The ordered pass lists of the compiler that `ge` follows, with the stage in which they stand
/// here: normalisation, inference, PrepareOptimize, the three parts of stage 1, stage 2.
const DOCUMENTED: &[(&str, &str)] = &[
    ("prepare", "ForPass SavePass NetOutputPass DataPass InnerIdentityAddPass SplitVariableIntoSubgraphPass"),
    (
        "prepare",
        "AssertPass SwitchDeadBranchElimination CondRemovePass MergePass InferShapePass ReplaceWithEmptyConstPass SplitShapeNPass \
         DimensionComputePass ConstantClipPass ConstantFoldingPass InferValueRangePass",
    ),
    (
        "prepare",
        "MarkForceUnknownForCondPass ShapeOperateOpRemovePass ReplaceTransShapePass MarkAgnosticPass EnterPass CondPass PrintOpPass \
         NoUseReshapeRemovePass DropOutPass AssertPass UnchangedTransposeRemovePass UnusedConstPass StopGradientPass PreventGradientPass \
         PlaceholderWithDefaultPass SnapshotPass GuaranteeConstPass VarIsInitializedOpPass ParallelConcatStartOpPass IdentityPass \
         PrunePass HcclMemcpyPass RecomputePass",
    ),
    (
        "stage1",
        "MergeInputMemcpyPass SwitchDataEdgesBypass ConstantFuseSamePass CommonSubexpressionEliminationPass \
         FuseDataNodesWithCommonInputPass CommonSubexpressionEliminationPass PermutePass SameTransdataBreadthFusionPass VariableOpPass \
         TransOpWithoutReshapeFusionPass TransOpBreadthFusionPass DataFlowPreparePass MergeUnknownShapeNPass",
    ),
    (
        "stage1",
        "EnterPass AddNPass SwitchDeadBranchElimination SwitchLogicRemovePass MergePass CastRemovePass TransposeTransDataPass \
         ReshapeRemovePass TransOpSymmetryEliminationPass TransOpNearbyAllreduceFusionPass ReplaceWithEmptyConstPass \
         DimensionComputePass ConstantClipPass ConstantFoldingPass DimensionAdjustPass UselessControlOutRemovePass \
         Dim1TransposeToSqueezePass",
    ),
    (
        "stage1",
        "SubgraphConstMigrationPass UnusedArgsCleanPass PrunePass NextIterationPass ControlTriggerPass MergeToStreamMergePass \
         SwitchToStreamSwitchPass AttachStreamLabelPass MultiBatchPass SubgraphMultiDimsPass IteratorOpPass \
         VariableRefUselessControlOutDeletePass ReshapeRecoveryPass RemoveSameConstPass HcclMemcpyPass HcclSequenceAdjustPass \
         GlobalStepInsertPass HcclTailingOptimizationPass AttachedResourcePass IdentityPass",
    ),
    (
        "stage2",
        "InnerIdentityDeletePass LinkGenMaskNodesPass HcclContinuousMemcpyPass ConstantFoldingPass ReshapeRemovePass CondRemovePass \
         AssignRemovePass DimensionAdjustPass InplaceSupportCheckPass FlowCtrlPass MultiBatchPass RefIdentityDeleteOpPass \
         VariableRefDeleteOpPass CompileNodesPass SwapSpacePass InputOutputConnectionIdentifyPass RecomputePass AtomicAddrCleanPass \
         EndOfSequenceAddControlPass StartOfSequencePass SubgraphPass AttachStreamLabelPass LabelAllocator MemcpyAddrAsyncPass \
         BufferPoolMemoryPass ParallelGroupPass ConcatNotaskPass PackNotaskPass TensorMoveDeletePass SetFftsPlusAttrPass",
    ),
    ("original", "TransOpWithoutReshapeFusionPass"),
];
/// Documented passes that are in no ordered list.
const BESIDE: &str = "HcclGroupPass HostcpuEngineUpdatePass DynamicDataFlowEngineReassignPass UnusedArgsCleanPass CtrlEdgeTransferPass \
                      VariablePrepareOpPass SwapSpacePass";

/// Each pass of the documents is either in our list or among those that are left out, never in
/// both. In the list it is at its stage and in the document's order, unless its reason says that it
/// stands earlier.
#[test]
fn the_lists_of_the_documents_are_here_in_their_order() {
    let passes = ge_compiler::pipeline::passes::PASSES;
    let left: BTreeSet<&str> =
        ge_compiler::pipeline::passes::LEFT_OUT.iter().flat_map(|(names, _)| names.split(", ")).collect();
    let mut wrong = Vec::new();
    for (stage, list) in DOCUMENTED {
        let here: Vec<&ge_compiler::pass::Listed> = passes.iter().filter(|p| p.stage == *stage).collect();
        let mut at = 0;
        for name in list.split_whitespace() {
            let all: Vec<usize> = (0..here.len()).filter(|i| here[*i].pass.name() == name).collect();
            match (all.iter().find(|i| **i >= at), all.first()) {
                (Some(i), _) => at = i + 1,
                (None, Some(i)) if here[*i].why.contains("earlier than in") => {}
                (None, Some(_)) => {
                    wrong.push(format!("{stage}: {name} stands before those that the document has before it"))
                }
                (None, None) if left.contains(name) => {}
                (None, None) => wrong.push(format!("{stage}: {name} is neither in the list nor left out")),
            }
        }
    }
    let anywhere = |name: &str| passes.iter().any(|p| p.pass.name() == name);
    for name in BESIDE.split_whitespace().filter(|n| !anywhere(n) && !left.contains(n)) {
        wrong.push(format!("{name} is neither in the list nor left out"));
    }
    for name in left.iter().filter(|n| anywhere(n)) {
        wrong.push(format!("{name} is in the list and left out"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A small random number generator: a seed gives the same numbers everywhere.
struct Chance(u64);
impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A graph under construction: its lines, and its values so far with their shapes (all f32).
struct Random {
    chance: Chance,
    text: String,
    subgraphs: String,
    values: Vec<(String, Vec<usize>)>,
    next: usize,
}

fn shape(s: &[usize]) -> String {
    s.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

impl Random {
    fn name(&mut self) -> String {
        self.next += 1;
        format!("%n{}", self.next)
    }
    fn line(&mut self, op: &str, inputs: &str, attrs: &str, dims: &[usize], dtype: &str) -> String {
        let n = self.name();
        let after = if self.chance.below(12) == 0 {
            let v = self.chance.pick(&self.values).0;
            if v.contains('#') || inputs.split(", ").any(|i| i == v) { String::new() } else { format!(" after({v})") }
        } else {
            String::new()
        };
        writeln!(self.text, "  {n} = {op}({inputs}) {{{attrs}}}{after} : {dtype}[{}]", shape(dims)).unwrap();
        n
    }
    fn constant(&mut self, dims: &[usize]) -> String {
        let n = self.name();
        let (value, s) = (self.chance.pick(&["0.5", "1", "-2", "0.25"]), shape(dims));
        writeln!(self.text, "  {n} = Const() {{value = dense<f32[{s}]: splat {value}>}} : f32[{s}]").unwrap();
        n
    }
    fn integer(&mut self, dims: &[usize], values: &[i64], dtype: &str) -> String {
        let n = self.name();
        let (v, s) = (values.iter().map(i64::to_string).collect::<Vec<_>>().join(" "), shape(dims));
        writeln!(self.text, "  {n} = Const() {{value = dense<{dtype}[{s}]: {v}>}} : {dtype}[{s}]").unwrap();
        n
    }
    fn keep(&mut self, name: String, dims: Vec<usize>) {
        self.values.push((name, dims));
    }
    fn step(&mut self) {
        let (x, d) = self.chance.pick(&self.values);
        match self.chance.below(22) {
            0 | 1 => {
                let op = self.chance.pick(&["Relu", "Neg", "Tanh", "Sigmoid", "Abs"]);
                let n = self.line(op, &x, "", &d, "f32");
                self.keep(n, d);
            }
            2 | 3 => {
                let op = self.chance.pick(&["Add", "Mul", "Sub", "Maximum"]);
                let same: Vec<String> = self.values.iter().filter(|(_, s)| *s == d).map(|(n, _)| n.clone()).collect();
                let y = if self.chance.below(3) == 0 { self.constant(&d) } else { self.chance.pick(&same) };
                let n = self.line(op, &format!("{x}, {y}"), "", &d, "f32");
                // Keep the numbers small.
                let t = self.line("Tanh", &n, "", &d, "f32");
                self.keep(t, d);
            }
            4 | 5 => {
                let mut p: Vec<usize> = (0..d.len()).collect();
                for i in (1..p.len()).rev() {
                    let j = self.chance.below(i + 1);
                    p.swap(i, j);
                }
                let out: Vec<usize> = p.iter().map(|a| d[*a]).collect();
                let n = self.line("TransposeD", &x, &format!("perm = [{}]", shape(&p)), &out, "f32");
                self.keep(n, out);
            }
            6 => {
                let flat = vec![d.iter().product::<usize>()];
                let n = self.line("Reshape", &x, &format!("shape = [{}]", shape(&flat)), &flat, "f32");
                let back = self.line("Reshape", &n, &format!("shape = [{}]", shape(&d)), &d, "f32");
                self.keep(back, d);
            }
            7 => {
                let n = self.line("Identity", &x, "", &d, "f32");
                self.keep(n, d);
            }
            8 => {
                let n = self.line("AddN", &x, "N = 1", &d, "f32");
                self.keep(n, d);
            }
            9 => {
                let t = self.chance.pick(&["f16", "f64"]);
                let n = self.line("Cast", &x, &format!("dst_type = {t}"), &d, t);
                let back = self.line("Cast", &n, "dst_type = f32", &d, "f32");
                self.keep(back, d);
            }
            10 => {
                // Shape -> Gather -> Reshape, which reverses the order of the sizes.
                let r = d.len();
                let s = self.line("Shape", &x, "", &[r], "i64");
                let turned: Vec<i64> = (0..r as i64).rev().collect();
                let k = self.integer(&[r], &turned, "i64");
                let g = self.line("Gather", &format!("{s}, {k}"), "axis = 0", &[r], "i64");
                let out: Vec<usize> = d.iter().rev().copied().collect();
                let n = self.line("Reshape", &format!("{x}, {g}"), "", &out, "f32");
                self.keep(n, out);
            }
            11 => {
                let at = self.chance.below(d.len() + 1);
                let k = self.integer(&[], &[at as i64], "i32");
                let mut out = d.clone();
                out.insert(at, 1);
                let n = self.line("ExpandDims", &format!("{x}, {k}"), "", &out, "f32");
                let back = self.line("Squeeze", &n, &format!("axis = [{at}]"), &d, "f32");
                self.keep(back, d);
            }
            12 => {
                let mut out = d.clone();
                out[0] *= 2;
                let n = self.line("ConcatD", &format!("{x}, {x}"), "N = 2, concat_dim = 0", &out, "f32");
                let s = self.name();
                let half = format!("f32[{}]", shape(&d));
                writeln!(self.text, "  {s} = SplitD({n}) {{num_split = 2, split_dim = 0}} : {half}, {half}").unwrap();
                self.keep(format!("{s}#1"), d);
            }
            13 => {
                let n = self.name();
                let (a, b) = (self.integer_name(), shape(&d));
                writeln!(self.text, "  {n} = PartitionedCall({x}) {{f = @f{a}}} : f32[{b}]").unwrap();
                writeln!(
                    self.subgraphs,
                    "graph @f{a}(%p{a}: f32[{b}]) {{\n  %q{a} = Neg(%p{a}) : f32[{b}]\n  %r{a} = Relu(%q{a}) : f32[{b}]\n  return %r{a}\n}}"
                )
                .unwrap();
                self.keep(n, d);
            }
            14 => {
                let n = self.name();
                let (a, b) = (self.integer_name(), shape(&d));
                let truth = self.chance.pick(&["true", "false"]);
                writeln!(
                    self.text,
                    "  %c{a} = Const() {{value = dense<bool[]: {truth}>}} : bool[]\n  {n} = If(%c{a}, {x}, {x}) {{else_branch = @e{a}, then_branch = @t{a}}} : f32[{b}]"
                )
                .unwrap();
                writeln!(
                    self.subgraphs,
                    "graph @t{a}(%u{a}: f32[{b}], %v{a}: f32[{b}]) {{\n  %w{a} = Add(%u{a}, %v{a}) : f32[{b}]\n  return %w{a}\n}}\ngraph @e{a}(%y{a}: f32[{b}]) {{\n  %z{a} = Neg(%y{a}) : f32[{b}]\n  return %z{a}\n}}"
                )
                .unwrap();
                let t = self.line("Tanh", &n, "", &d, "f32");
                self.keep(t, d);
            }
            15 => {
                let (a, b) = (self.constant(&d), self.constant(&d));
                let n = self.line("Add", &format!("{a}, {b}"), "", &d, "f32");
                self.keep(n, d);
            }
            16 => {
                let n = self.line("StopGradient", &x, "", &d, "f32");
                self.keep(n, d);
            }
            17 => {
                // The same node twice.
                let a = self.line("Tanh", &x, "", &d, "f32");
                let b = self.line("Tanh", &x, "", &d, "f32");
                let n = self.line("Sub", &format!("{a}, {b}"), "", &d, "f32");
                self.keep(n, d);
            }
            18 => {
                let last = d.len() as i64 - 1;
                let n = self.line("SoftmaxV2", &x, &format!("axes = [{last}]"), &d, "f32");
                self.keep(n, d);
            }
            19 => {
                // A branch whose condition is known only at run time.
                let (a, b) = (self.integer_name(), shape(&d));
                let axes: Vec<usize> = (0..d.len()).collect();
                let sum =
                    self.line("ReduceSumD", &x, &format!("axes = [{}], keep_dims = false", shape(&axes)), &[], "f32");
                let c = self.name();
                writeln!(
                    self.text,
                    "  %k{a} = Const() {{value = dense<f32[]: 0.25>}} : f32[]\n  {c} = Greater({sum}, %k{a}) : bool[]\n  %n{a} = If({c}, {x}, {x}) {{else_branch = @e{a}, then_branch = @t{a}}} : f32[{b}]"
                )
                .unwrap();
                writeln!(
                    self.subgraphs,
                    "graph @t{a}(%u{a}: f32[{b}], %v{a}: f32[{b}]) {{\n  %w{a} = Add(%u{a}, %v{a}) : f32[{b}]\n  return %w{a}\n}}\ngraph @e{a}(%y{a}: f32[{b}]) {{\n  %z{a} = Neg(%y{a}) : f32[{b}]\n  return %z{a}\n}}"
                )
                .unwrap();
                let t = self.line("Tanh", &format!("%n{a}"), "", &d, "f32");
                self.keep(t, d);
            }
            20 => {
                let (a, b) = (self.integer_name(), shape(&d));
                let (from, to, by) = self.chance.pick(&[(0, 3, 1), (5, 0, -2), (0, 0, 1)]);
                writeln!(
                    self.text,
                    "  %l{a} = Const() {{value = dense<i32[]: {from}>}} : i32[]\n  %m{a} = Const() {{value = dense<i32[]: {to}>}} : i32[]\n  %o{a} = Const() {{value = dense<i32[]: {by}>}} : i32[]\n  %n{a} = For(%l{a}, %m{a}, %o{a}, {x}) {{body = @b{a}}} : f32[{b}]"
                )
                .unwrap();
                writeln!(
                    self.subgraphs,
                    "graph @b{a}(%i{a}: i32[], %d{a}: f32[{b}]) {{\n  %j{a} = Cast(%i{a}) {{dst_type = f32}} : f32[]\n  %q{a} = Add(%d{a}, %j{a}) : f32[{b}]\n  %r{a} = Tanh(%q{a}) : f32[{b}]\n  return %r{a}\n}}"
                )
                .unwrap();
                self.keep(format!("%n{a}"), d);
            }
            _ => {
                let out = vec![d.iter().product::<usize>()];
                let k = self.integer(&[1], &[-1], "i64");
                let n = self.line("Reshape", &format!("{x}, {k}"), "", &out, "f32");
                self.keep(n, out);
            }
        }
    }
    fn integer_name(&mut self) -> usize {
        self.next += 1;
        self.next
    }
    fn graph(seed: u64) -> String {
        let mut r = Random {
            chance: Chance(seed),
            text: String::new(),
            subgraphs: String::new(),
            values: vec![("%x".into(), vec![2, 3, 5]), ("%z".into(), vec![1, 7])],
            next: 0,
        };
        for _ in 0..14 + r.chance.below(12) {
            r.step();
        }
        let mut outs: Vec<String> = r.values[2..].iter().map(|(n, _)| n.clone()).collect();
        while outs.len() > 4 {
            let i = r.chance.below(outs.len());
            outs.remove(i);
        }
        format!(
            "graph @main(%x: f32[2,3,5], %z: f32[1,7]) {{\n{}  return {}\n}}\n{}",
            r.text,
            outs.join(", "),
            r.subgraphs
        )
    }
}

fn outputs(dir: &Path, folder: &str) -> Vec<Vec<u8>> {
    (0..).map_while(|i| std::fs::read(dir.join(folder).join(format!("output_{i}.npy"))).ok()).collect()
}

/// The numbers of a `.npy` file of little-endian f32.
fn numbers(npy: &[u8]) -> Vec<f32> {
    let header = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    npy[header..].chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// Writes our `plugins.toml` into a folder, so that it finds the libraries where they are built.
fn our_plugins(dir: &std::path::Path) {
    let plugins = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    let here = format!("schema = 1\nsearch = [{:?}]", target());
    std::fs::write(dir.join("plugins.toml"), plugins.replacen("schema = 1", &here, 1)).unwrap();
}

#[test]
fn any_set_of_passes_computes_the_same_numbers_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    our_plugins(dir);
    let mut switchable: Vec<&str> = ge_compiler::pipeline::passes::PASSES
        .iter()
        .filter(|p| p.pass.level() != ge_compiler::pass::PassLevel::O0)
        .map(|p| p.pass.name())
        .collect();
    switchable.sort_unstable();
    switchable.dedup();
    let graphs = if std::env::var_os("GE_LONG").is_some_and(|v| v == "1") { 200 } else { 5 };
    let mut failed = Vec::new();
    for seed in 1..=graphs {
        let text = Random::graph(seed);
        std::fs::write(dir.join("m.ge"), &text).unwrap();
        let mut chance = Chance(seed ^ 0x5eed);
        let all_off: String = switchable.iter().map(|p| format!("{p}:off;")).collect();
        let some: String =
            switchable.iter().map(|p| format!("{p}:{};", if chance.below(2) == 0 { "on" } else { "off" })).collect();
        let ways = [("off", all_off.as_str(), "O1"), ("some", some.as_str(), "O3"), ("o1", "", "O1"), ("o3", "", "O3")];
        let mut base: Option<Vec<Vec<u8>>> = None;
        for (way, switch, level) in ways {
            let (s, l) = (format!("ge.optimizationSwitch={switch}"), format!("ge.oo.level={level}"));
            let seed = seed.to_string();
            let om = format!("{way}.om");
            let mut out = ge(dir, &["compile", "m.ge", "-o", &om, "--set", &s, "--set", &l]);
            if out.status.success() {
                out = ge(dir, &["run", &om, "--random", &seed, "--outputs", way]);
            }
            if !out.status.success() {
                failed.push(format!("seed {seed}, {way}: {}\n{switch}\n{text}", String::from_utf8_lossy(&out.stderr)));
                break;
            }
            let got = outputs(dir, way);
            let Some(base) = &base else {
                assert!(!got.is_empty(), "seed {seed}: no outputs");
                base = Some(got);
                continue;
            };
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * a.abs().max(1.0);
            let same = base.len() == got.len()
                && base.iter().zip(&got).all(|(a, b)| {
                    let (a, b) = (numbers(a), numbers(b));
                    a.len() == b.len() && a.iter().zip(&b).all(near)
                });
            if !same {
                failed.push(format!("seed {seed}, {way}: other numbers than with all passes off\n{switch}\n{text}"));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {graphs} graphs failed, the first:\n{}", failed.len(), failed[0]);
}

/// What the page says about passes that are left out is true.
#[test]
fn what_stands_for_passes_that_are_left_out_holds() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    our_plugins(dir);
    let said = |args: &[&str], code: i32| {
        let out = ge(dir, args);
        let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.status.code(), Some(code), "{args:?}: {text}");
        text
    };
    // SubgraphConstMigrationPass: equal constants of all graphs are stored once.
    let body = |name: &str, op: &str, of: &str| {
        format!(
            "graph @{name}(%x: f32[64,64]) {{\n  %w = Const() {{value = dense<f32[64,64]: splat {of}>}} : f32[64,64]\n  %m = MatMulV2(%x, %w) : f32[64,64]\n  \
             %y = {op}(%m) : f32[64,64]\n  return %y\n}}\n"
        )
    };
    let root_graph = "graph @main(%p: bool[], %x: f32[64,64]) {\n  \
         %y = If(%p, %x) {else_branch = @b, then_branch = @a} : f32[64,64]\n  return %y\n}\n";
    let bytes = |of: [&str; 2]| {
        std::fs::write(
            dir.join("m.ge"),
            format!("{root_graph}{}{}", body("a", "Sinh", of[0]), body("b", "Cosh", of[1])),
        )
        .unwrap();
        said(&["compile", "m.ge", "-o", "m.om", "-q"], 0);
        std::fs::metadata(dir.join("m.om")).unwrap().len()
    };
    let (one, two) = (bytes(["0.5", "0.5"]), bytes(["0.5", "0.25"]));
    let constant = 64 * 64 * 4;
    assert!(two - one >= constant - 512 && one < 3 * constant, "{one} bytes with equal constants, {two} with others");
    // InferShapePass cannot be switched off.
    let off = said(&["compile", "m.ge", "-o", "m.om", "--set", "ge.optimizationSwitch=InferShapePass:off"], 2);
    assert!(off.contains("InferShapePass"), "{off}");
    // DataPass: the index of an input in the text form is its position.
    let text = "graph @main(%b: f32[2], %a: f32[2]) {\n  %y = Sub(%b, %a) : f32[2]\n  return %y\n}\n";
    std::fs::write(dir.join("m.ge"), text).unwrap();
    let shown = said(&["opt", "--passes", "PrunePass", "m.ge"], 0);
    assert!(shown.contains("@main(%b: f32[2], %a: f32[2])"), "{shown}");
    // MarkForceUnknownForCondPass: a `Merge` of an unknown shape is refused by name.
    let merge = "graph @main(%x: f32[?], %p: bool[]) {\n  %s = Switch(%x, %p) : f32[?], f32[?]\n  %a = Neg(%s) : f32[?]\n  \
                 %m = Merge(%a, %s#1) : f32[?], i32[]\n  return %m\n}\n";
    std::fs::write(dir.join("m.ge"), merge).unwrap();
    let refused = said(&["opt", "--from", "prepare", "--until", "stage1", "m.ge"], 3);
    assert!(refused.contains("`m`") && refused.contains("shapes are not static"), "{refused}");
    // MergeUnknownShapeNPass: no engine has a `ShapeN`.
    let sizes =
        "graph @main(%x: f32[2]) {\n  %s = ShapeN(%x) {_engine = \"DNN_VM_AICPU_ASCEND\"} : i64[1]\n  return %s\n}\n";
    std::fs::write(dir.join("m.ge"), sizes).unwrap();
    let refused = said(&["opt", "--from", "place", "--until", "place", "m.ge"], 3);
    assert!(refused.contains("ShapeN"), "{refused}");
    // DataFlowPreparePass: no operator has resources that are named by handles.
    let table = std::fs::read_to_string(root().join("plugins/ops/README.md")).unwrap();
    for line in table.lines().filter(|l| l.starts_with("| ")) {
        let inputs = line.split('|').nth(2).unwrap();
        assert!(!inputs.split(',').any(|i| i.trim() == "handle"), "{line}");
    }
}
