//! Shapes that cannot be compiled are refused by node, reason and remedy; stages that a user marks are compiled and run in turn.
use ge_tests::{expect_code, ge};
use std::path::Path;

fn compile(dir: &Path, text: &str, code: i32, more: &[&str]) -> String {
    std::fs::write(dir.join("m.ge"), text).unwrap();
    let args = [&["compile", "m.ge", "-o", "m.om", "-q"], more].concat();
    String::from_utf8(expect_code(dir, code, &args).stderr).unwrap()
}

#[test]
fn unknown_shapes_are_refused_by_node_reason_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let open = "graph @main(%x: f32[n,3]) { %b = Exp(%x) : f32[n,3] %z = NonZero(%b) : i64[2,?] %c = Relu(%z) : i64[2,?] return %c }";
    // An input's sizes are the caller's fault, places of what is not zero are the model's.
    let said = compile(dir.path(), open, 3, &[]);
    for words in [
        "GE-E0342",
        "input `x` leaves its shape open: f32[n,3]",
        "`z` (NonZero) has outputs whose shape depends on values: i64[2,?]",
        "--input-shape \"x:1,3\"",
    ] {
        assert!(said.contains(words), "{words} in: {said}");
    }
    assert!(!said.contains("`b`") && !said.contains("`c`"), "what only hands a shape on is not named: {said}");
    assert!(!dir.path().join("m.om").exists());
    let said = compile(dir.path(), open, 3, &["--input-shape", "x:2,3"]);
    assert!(said.contains("`z` (NonZero)") && !said.contains("input `x`"), "{said}");

    let computed = "graph @main(%x: f32[4], %n: i32[1]) { %k = Const() {value = dense<i32[1]: 2>} : i32[1]
      %m = Mul(%n, %k) : i32[1] %r = Reshape(%x, %m) : f32[?] return %r }";
    let said = compile(dir.path(), computed, 3, &[]);
    assert!(said.contains("`r` (Reshape) takes its sizes from the value of `m` (Mul)"), "{said}");
    assert!(said.contains("`--input n=n.npy`"), "{said}");

    // Within a branch the graph is named too.
    let branch = "graph @main(%x: f32[4], %c: bool[]) { %y = If(%c, %x) {then_branch = @t, else_branch = @e} : f32[?] return %y }
      graph @t(%a: f32[4]) { %n = NonZero(%a) : i64[1,?] %f = Cast(%n) {dst_type = f32} : f32[1,?] %r = ReduceSumD(%f) {axes = [0]} : f32[?] return %r }
      graph @e(%b: f32[4]) { return %b }";
    let said = compile(dir.path(), branch, 3, &[]);
    assert!(said.contains("`t/n` (NonZero)"), "{said}");

    let only_open = "graph @main(%x: f32[n,3]) { %b = Exp(%x) : f32[n,3] return %b }";
    compile(dir.path(), only_open, 2, &[]);
    compile(dir.path(), only_open, 0, &["--input-shape", "x:2,3"]);
}

#[test]
fn a_loop_that_gathers_an_unknown_number_of_slices_says_which_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let model = ge_tests::models().join("loop_carried.onnx");
    let out = expect_code(dir.path(), 3, &["compile", model.to_str().unwrap(), "-o", "m.om", "-q"]);
    let said = String::from_utf8(out.stderr).unwrap();
    for words in [
        "`loop` (Loop, ai.onnx 17)",
        "`steps` is one slice for each turn",
        "its count `n` is known only at run",
        "its condition may end it earlier",
    ] {
        assert!(said.contains(words), "{words} in: {said}");
    }
    assert!(said.contains("without these outputs the loop compiles"), "{said}");
}

#[test]
fn stages_are_looked_at_apart_and_run_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let text = |levels: bool| {
        let l = |k: u32| if levels { format!(" {{_stage_level = {k}}}") } else { String::new() };
        format!(
            "graph @main(%x: f32[2,3]) {{ %a = Abs(%x){0} : f32[2,3] %b = Relu(%a){0} : f32[2,3] %c = Exp(%b){1} : f32[2,3]
             %d = Neg(%c){1} : f32[2,3] %e = Add(%d, %x) : f32[2,3] return %e }}",
            l(0),
            l(2)
        )
    };
    let mut numbers = Vec::new();
    for levels in [false, true] {
        compile(dir.path(), &text(levels), 0, &[]);
        let out = format!("out{levels}");
        assert!(ge(dir.path(), &["run", "m.om", "--random", "7", "--outputs", &out, "-q"]).status.success());
        numbers.push(std::fs::read(dir.path().join(out).join("output_0.npy")).unwrap());
        let doc = ge(dir.path(), &["inspect", "m.om", "--json"]).stdout;
        let doc: serde_json::Value = serde_json::from_slice(&doc).unwrap();
        let graphs = doc["graphs"].as_array().unwrap();
        assert_eq!(graphs.len(), 1, "the stages are one list of tasks");
        let kernels =
            doc["tasks"].as_array().unwrap().iter().filter(|t| t["type"].as_str().unwrap().contains("KERNEL"));
        // Nothing is fused across stages; without levels all is one kernel.
        assert_eq!(kernels.count(), if levels { 3 } else { 1 });
    }
    assert!(numbers[0] == numbers[1]);
    // A stage that needs a later one is refused.
    let wrong = "graph @main(%x: f32[4]) { %a = Relu(%x) {_stage_level = 1} : f32[4] %b = Relu(%a) {_stage_level = 0} : f32[4] return %b }";
    assert!(compile(dir.path(), wrong, 2, &[]).contains("GE-E0343"));
    // Control flow takes the stages in turn as well.
    let looped = "graph @main(%x: f32[4], %c: bool[]) { %a = Abs(%x) {_stage_level = 0} : f32[4]
      %y = If(%c, %a) {then_branch = @t, else_branch = @e, _stage_level = 1} : f32[4] %z = Neg(%y) {_stage_level = 2} : f32[4] return %z }
      graph @t(%p: f32[4]) { %r = Exp(%p) : f32[4] return %r } graph @e(%q: f32[4]) { %s = Relu(%q) : f32[4] return %s }";
    compile(dir.path(), looped, 0, &[]);
    assert!(ge(dir.path(), &["run", "m.om", "--random", "7", "-q"]).status.success());
}
