//! Sizes at both ends: tensors without elements, tables whose rows are better selected first, more
//! memory than there is; and random inputs that models take.
use ge_tests::{expect_code, ge};
use std::path::Path;

fn compile(d: &Path, text: &str, code: i32, more: &[&str]) -> String {
    std::fs::write(d.join("m.ge"), text).unwrap();
    let args = [&["compile", "m.ge", "-o", "m.om", "-q"], more].concat();
    String::from_utf8(expect_code(d, code, &args).stderr).unwrap()
}

fn inspect(d: &Path) -> serde_json::Value {
    serde_json::from_slice(&expect_code(d, 0, &["inspect", "m.om", "--json"]).stdout).unwrap()
}

fn nodes(doc: &serde_json::Value) -> &Vec<serde_json::Value> {
    doc["graphs"][0]["nodes"].as_array().unwrap()
}

#[test]
fn a_model_whose_inputs_and_outputs_all_are_empty_runs() {
    let dir = tempfile::tempdir().unwrap();
    for body in [
        "%y = Relu(%x) : f32[0,3] return %y",
        "%a = Exp(%x) : f32[0,3] %b = Cast(%a) {dst_type = f16} : f16[0,3] return %b",
        "%a = Relu(%x) : f32[0,3] %y = TransposeD(%a) {perm = [1, 0]} : f32[3,0] return %y, %a",
    ] {
        for soc in ["sim", "Ascend910B"] {
            let exact = ["--soc", soc, "--set", "ge.exec.precision_mode=must_keep_origin_dtype"];
            compile(dir.path(), &format!("graph @main(%x: f32[0,3]) {{ {body} }}"), 0, &exact);
            expect_code(dir.path(), 0, &["run", "m.om", "--random", "1", "--outputs", "out", "-q"]);
            assert!(dir.path().join("out/output_0.npy").exists());
        }
    }
}

/// Petabytes, and more bytes than addresses can count: compilation fails, names the largest holders
/// and writes nothing.
#[test]
fn more_memory_than_the_soc_has_is_refused_with_the_largest_holders() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let said = compile(
        d,
        "graph @main(%x: f32[4294967296,640,48], %s: f32[8]) {
           %big = Exp(%x) : f32[4294967296,640,48] %small = Relu(%s) : f32[8] return %big, %small }",
        1,
        &[],
    );
    for words in ["GE-E0703", "960.0 TiB", "sim has 32.0 GiB", "`big` 480.0 TiB", "`x` 480.0 TiB", "--input-shape"] {
        assert!(said.contains(words), "{words} in: {said}");
    }
    assert!(!d.join("m.om").exists());
    // Values between inputs and outputs count as well, and weights do not hide them.
    let between = "graph @main(%x: f32[1,100000]) { %t = TileD(%x) {multiples = [200000, 1]} : f32[200000,100000]
      %e = Exp(%t) : f32[200000,100000] %y = ReduceSumD(%e) {axes = [0]} : f32[1,100000] return %y }";
    let said = compile(d, between, 1, &["--set", "ge.x.auto_fusion=false"]);
    assert!(said.contains("GE-E0703") && said.contains("`e` 74.5 GiB"), "{said}");
    // A SoC with enough memory takes the model, one with less does not.
    let half = "graph @main(%x: f32[3500000000]) { %y = Relu(%x) : f32[3500000000] return %y }";
    let on = |soc: &'static str| ["--soc", soc, "--set", "ge.exec.precision_mode=must_keep_origin_dtype"];
    compile(d, half, 0, &on("sim"));
    compile(d, half, 0, &on("Ascend910B"));
    let said = compile(d, half, 1, &on("Ascend310P"));
    assert!(said.contains("Ascend310P has 24.0 GiB") && said.contains("`x` 13.0 GiB, `y` 13.0 GiB"), "{said}");
    // Sizes whose number of bytes does not fit in 64 bits are an error in the model, not an
    // internal fault.
    let endless =
        "graph @main(%x: f32[4611686018427387904,64]) { %y = Relu(%x) : f32[4611686018427387904,64] return %y }";
    std::fs::write(d.join("m.ge"), endless).unwrap();
    let code = ge(d, &["compile", "m.ge", "-o", "m.om", "-q"]).status.code();
    assert!(matches!(code, Some(1..=4)), "{code:?}");
}

/// A batch whose list of places would take 34 GB is planned without making that list.
#[test]
fn a_batch_of_billions_reserves_nothing_at_compile() {
    let dir = tempfile::tempdir().unwrap();
    let text = "graph @main(%a: f32[1500000000,1,1], %b: f32[1500000000,1,1]) {
      %y = BatchMatMulV2(%a, %b) : f32[1500000000,1,1] return %y }";
    std::fs::write(dir.path().join("m.ge"), text).unwrap();
    let limited = std::process::Command::new("bash")
        .args(["-c", "ulimit -v 8388608; exec \"$0\" compile m.ge -o m.om -q"])
        .arg(ge_tests::target().join("ge"))
        .current_dir(dir.path())
        .env("GE_PLUGINS", ge_tests::root().join("plugins.toml"))
        .output()
        .unwrap();
    assert_eq!(limited.status.code(), Some(0), "{}", String::from_utf8_lossy(&limited.stderr));
}

/// Whole numbers that are read as indices, masks or lengths: the model knows their range, and
/// `--random` keeps to it.
#[test]
fn random_inputs_keep_to_the_ranges_that_the_graph_implies() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%ids: i64[2,9], %mask: i64[2,9], %kind: i32[2,9], %free: i64[4], %at: i64[5,2]) {
      %table = Const() {value = dense<f32[2,3]: 1 2 3 4 5 6>} : f32[2,3]
      %kinds = Const() {value = dense<f32[1,3]: 7 8 9>} : f32[1,3]
      %axis = Const() {value = dense<i64[]: 0>} : i64[]
      %one = Const() {value = dense<f32[]: 1>} : f32[]
      %flat = Reshape(%ids) {shape = [18]} : i64[18]
      %e = GatherV2(%table, %flat, %axis) : f32[18,3]
      %k = GatherV2(%kinds, %kind, %axis) : f32[2,9,3]
      %m = Cast(%mask) {dst_type = f32} : f32[2,9]
      %s = Sub(%one, %m) : f32[2,9]
      %n = GatherNd(%table, %at) : f32[5]
      %f = Muls(%free) {value = 2.0} : i64[4]
      return %e, %k, %s, %n, %f
    }";
    compile(d, text, 0, &[]);
    let doc = inspect(d);
    let range = |name: &str| {
        let n = nodes(&doc).iter().find(|n| n["name"] == name).unwrap();
        n["attrs"]["_value_range"].clone()
    };
    let expected = [("ids", 0, 1), ("kind", 0, 0), ("mask", 0, 1), ("at", 0, 1)];
    for (name, low, high) in expected {
        assert_eq!(range(name), serde_json::json!([low, high]), "{name}");
    }
    assert!(range("free").is_null());
    for seed in ["1", "2", "3", "4", "5"] {
        expect_code(d, 0, &["run", "m.om", "--random", seed, "-q", "--outputs", "out"]);
    }
}

/// If the graph implies no range and the run fails, the error says which inputs were made up and
/// how to give them.
#[test]
fn a_run_that_fails_on_numbers_that_were_made_up_says_which_to_give() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%i: i64[6], %x: f32[2,3]) {
      %axis = Const() {value = dense<i64[]: 0>} : i64[]
      %two = Const() {value = dense<i64[1]: 2>} : i64[1]
      %j = Mul(%i, %two) : i64[6]
      %y = GatherV2(%x, %j, %axis) : f32[6,3]
      return %y
    }";
    compile(d, text, 0, &[]);
    let out = ge(d, &["run", "m.om", "--random", "1", "-q"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_ne!(out.status.code(), Some(0), "an index of 6 would have to be out of range");
    for words in ["is out of range", "`i` i64[6]", "--input i=FILE.npy"] {
        assert!(said.contains(words), "{words} in: {said}");
    }
}

/// Selecting rows before computing them gives the same bits as afterwards, without the memory of
/// the table.
#[test]
fn rows_are_selected_before_a_large_table_is_computed() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%i: i64[2,5]) {
      %w = Const() {value = dense<u8[4000,300]: splat 201>} : u8[4000,300]
      %s = Const() {value = dense<f32[]: 0.0117>} : f32[]
      %z = Const() {value = dense<f32[300]: splat 117>} : f32[300]
      %axis = Const() {value = dense<i64[]: 0>} : i64[]
      %f = Cast(%w) {dst_type = f32} : f32[4000,300]
      %c = Sub(%f, %z) : f32[4000,300]
      %t = Mul(%c, %s) : f32[4000,300]
      %y = GatherV2(%t, %i, %axis) : f32[2,5,300]
      return %y
    }";
    let off = ["--set", "ge.optimizationSwitch=SelectBeforeMapFusionPass:off"];
    let mut arenas = Vec::new();
    for (more, out) in [(&[][..], "first"), (&off[..], "last")] {
        compile(d, text, 0, more);
        expect_code(d, 0, &["run", "m.om", "--random", "3", "-q", "--outputs", out]);
        arenas.push(inspect(d)["memory"]["HBM"]["size"].as_u64().unwrap());
    }
    let read = |out: &str| std::fs::read(d.join(out).join("output_0.npy")).unwrap();
    assert_eq!(read("first"), read("last"));
    assert!(arenas[0] < 100_000 && arenas[1] > 4_000_000, "{arenas:?}");
}

/// What every run would compute is folded, in the order of the graph, while the file grows by less
/// than a quarter.
#[test]
fn folding_may_let_the_file_grow_by_less_than_a_quarter() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[1,1500], %p: f32[1,600], %q: f32[1,900]) {
      %w = Const() {value = dense<f32[1500,1000]: splat 0.5>} : f32[1500,1000]
      %a = Const() {value = dense<u8[600,600]: splat 3>} : u8[600,600]
      %b = Const() {value = dense<u8[900,900]: splat 5>} : u8[900,900]
      %small = Cast(%a) {dst_type = f32} : f32[600,600]
      %large = Cast(%b) {dst_type = f32} : f32[900,900]
      %y = MatMulV2(%x, %w) : f32[1,1000]
      %r = MatMulV2(%p, %small) : f32[1,600]
      %s = MatMulV2(%q, %large) : f32[1,900]
      return %y, %r, %s
    }";
    compile(d, text, 0, &["--set", "ge.x.auto_fusion=false"]);
    let doc = inspect(d);
    let kind = |name: &str| nodes(&doc).iter().find(|n| n["name"] == name).map(|n| n["type"].clone());
    assert_eq!(kind("large"), Some("Cast".into()), "2.4 MB more of 7.2");
    assert_ne!(kind("small"), Some("Cast".into()), "1.1 MB more of 7.2");
    assert!(std::fs::metadata(d.join("m.om")).unwrap().len() < 7_200_000 * 5 / 4);
}
