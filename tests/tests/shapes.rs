//! Stages that a user marks are compiled apart and run in turn.
use ge_tests::{expect_code, ge};
use std::path::Path;

fn compile(dir: &Path, text: &str, code: i32, more: &[&str]) -> String {
    std::fs::write(dir.join("m.ge"), text).unwrap();
    let args = [&["compile", "m.ge", "-o", "m.om", "-q"], more].concat();
    String::from_utf8(expect_code(dir, code, &args).stderr).unwrap()
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
        // Nothing is fused across stages; without levels everything is one kernel.
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
