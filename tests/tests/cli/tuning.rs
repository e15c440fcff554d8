//! Tuning mode: a build stops at each step, and can go on from there to the same OM, byte for byte.
use ge_tests::{expect_code, models};
use std::path::Path;

const STEPS: [&str; 3] = ["before_ub_match", "after_ub_match", "after_builder"];

fn stop(dir: &Path, model: &str, step: &str, folder: &str) {
    let (step, path) = (format!("ge.buildStep={step}"), format!("ge.tuningPath={folder}"));
    let args = ["compile", model, "-o", "never.om", "--set", "ge.buildMode=tuning", "--set", &step, "--set", &path];
    expect_code(dir, 0, &args);
    assert!(!dir.join("never.om").exists());
}

fn texts(dir: &Path) -> Vec<String> {
    let mut v: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    v.retain(|n| n.ends_with(".ge"));
    v
}

#[test]
fn a_build_that_stopped_goes_on_to_the_same_model() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    // Two engines, a control edge, a refusal that the model keeps.
    let text = "graph @main(%x: f32[4,8], %y: f32[4,8]) {\n  %w = Const() {value = dense<f32[8,8]: splat 0.5>} : f32[8,8]\n  %m = MatMul(%x, %w) : f32[4,8]\n  %r = Relu(%m) {_engine = \"DNN_VM_AICPU_ASCEND\"} after(%m) : f32[4,8]\n  %s = Add(%r, %y) : f32[4,8]\n  %t = Add(%s, %m) : f32[4,8]\n  return %t\n}\n";
    std::fs::write(d.join("two_engines.ge"), text).unwrap();
    // Values and filters in the formats of the cube unit.
    let image = "f16[1,32,224,224]";
    let text = format!(
        "graph @main(%x: {image}) {{\n  %w = Const() {{value = dense<f16[32,32,3,3]: splat 0.5>}} : f16[32,32,3,3]\n  %a = Conv2D(%x, %w) {{pads = [1,1,1,1]}} : {image}\n  %b = Conv2D(%a, %w) {{pads = [1,1,1,1]}} : {image}\n  %c = ConcatD(%a, %b) {{N = 2, concat_dim = -3}} : f16[1,64,224,224]\n  %p = GlobalMaxPool(%c) : f16[1,64,1,1]\n  return %p\n}}\n"
    );
    std::fs::write(d.join("laid_out.ge"), text).unwrap();
    let m = models();
    let mut all = vec![d.join("two_engines.ge"), d.join("laid_out.ge")];
    all.extend(["mlp.onnx", "lenet.onnx", "inception_batch_concat.onnx", "if_else.onnx"].map(|n| m.join(n)));
    for model in all {
        let name = model.file_stem().unwrap().to_string_lossy().into_owned();
        let model = model.to_str().unwrap().to_owned();
        expect_code(d, 0, &["compile", &model, "-o", "plain.om"]);
        let plain = std::fs::read(d.join("plain.om")).unwrap();
        for step in STEPS {
            let folder = format!("{step}_{name}");
            stop(d, &model, step, &folder);
            assert_eq!(texts(&d.join(&folder)), [format!("{name}.ge")]);
            let text = format!("{folder}/{name}.ge");
            expect_code(d, 0, &["compile", &text, "-o", "on.om"]);
            assert!(std::fs::read(d.join("on.om")).unwrap() == plain, "{name} at {step}");
        }
        // From the first stop to the second one.
        let first = format!("before_ub_match_{name}/{name}.ge");
        stop(d, &first, "after_ub_match", "again");
        expect_code(d, 0, &["compile", &format!("again/{name}.ge"), "-o", "on.om"]);
        assert!(std::fs::read(d.join("on.om")).unwrap() == plain, "{name} over two stops");
    }
    let laid = std::fs::read_to_string(d.join("after_ub_match_laid_out/laid_out.ge")).unwrap();
    assert!(laid.contains("@NC1HWC0(") && laid.contains("@FRACTAL_Z("), "{laid}");
    // The text of the first two stops has one graph for each subgraph.
    let cut = std::fs::read_to_string(d.join("before_ub_match_two_engines/two_engines.ge")).unwrap();
    assert!(cut.contains("peerIndex") && cut.matches("graph @").count() >= 4, "{cut}");
}

/// The engine of the AI cores fuses within its subgraph: at the first stop the chain is a node of
/// its own, at the second one it is part of the convolution, and both go on to the OM of the whole
/// build.
#[test]
fn fusions_of_subgraphs_stand_between_the_stops() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[1,4,8,8]) {\n  %w = Const() {value = dense<f32[4,4,1,1]: splat 0.5>} : f32[4,4,1,1]\n  %low = Const() {value = dense<f32[]: -0.125>} : f32[]\n  %c = Conv2D(%x, %w) {pads = [0,0,0,0]} : f32[1,4,8,8]\n  %e = Mish(%c) : f32[1,4,8,8]\n  %y = Maximum(%e, %low) : f32[1,4,8,8]\n  return %y\n}\n";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "plain.om"]);
    let plain = std::fs::read(d.join("plain.om")).unwrap();
    let at = |step: &str| {
        stop(d, "m.ge", step, step);
        let text = format!("{step}/m.ge");
        expect_code(d, 0, &["compile", &text, "-o", "on.om"]);
        assert!(std::fs::read(d.join("on.om")).unwrap() == plain, "{step}");
        std::fs::read_to_string(d.join(text)).unwrap()
    };
    let (before, after) = (at("before_ub_match"), at("after_ub_match"));
    let nodes = |text: &str| [" Conv2D(", " FusedElementwise(", " FusedConv("].map(|op| text.matches(op).count());
    assert_eq!((nodes(&before), nodes(&after)), ([1, 1, 0], [0, 0, 1]), "{before}\n{after}");
    let steps = "steps = [\"Mish %0\", \"Maximum %1 -0.125\"]";
    assert!(after.contains(steps), "{after}");
    // Without auto fusion the OM is another one.
    expect_code(d, 0, &["compile", "m.ge", "-o", "off.om", "--set", "ge.x.auto_fusion=false"]);
    assert!(std::fs::read(d.join("off.om")).unwrap() != plain);
}

#[test]
fn tuning_options_that_do_not_fit_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    std::fs::write(d.join("m.ge"), "graph @m(%x: f32[2]) {\n  %r = Relu(%x) : f32[2]\n  return %r\n}\n").unwrap();
    let tuning = "ge.buildMode=tuning";
    for sets in [
        vec![tuning],
        vec![tuning, "ge.tuningPath=t"],
        vec![tuning, "ge.buildStep=after_builder"],
        vec!["ge.buildStep=after_builder"],
        vec![tuning, "ge.buildStep=after_build", "ge.tuningPath=t"],
    ] {
        let mut args = vec!["compile", "m.ge", "-o", "m.om"];
        sets.iter().for_each(|s| args.extend(["--set", *s]));
        expect_code(d, 2, &args);
        assert!(!d.join("m.om").exists() && !d.join("t").exists());
    }
    let sets = ["--set", tuning, "--set", "ge.buildStep=after_ub_match", "--set", "ge.tuningPath=t"];
    let mut args = vec!["run", "m.ge", "--random", "1"];
    args.extend(sets);
    expect_code(d, 2, &args);
    // Damaged texts of a stop.
    let text = std::fs::read_to_string(d.join("t/m.ge")).unwrap();
    std::fs::write(d.join("t/m.ge"), text.replacen("after_ub_match", "sometime", 1)).unwrap();
    expect_code(d, 4, &["compile", "t/m.ge", "-o", "m.om"]);
    std::fs::write(d.join("t/m.ge"), text.replacen("_partition_order = [0,", "_partition_order = [0, 7,", 1)).unwrap();
    expect_code(d, 4, &["compile", "t/m.ge", "-o", "m.om"]);
}
