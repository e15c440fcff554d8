//! Two of the fusions on small graphs in the text form: what they produce, and what they leave
//! unchanged.
#![allow(clippy::unwrap_used)]
use ge_fusion::conv::ConvBatchNormActivation;
use ge_fusion::gelu::GeluFusion;
use ge_ir::text::{NoFiles, parse, to_string};
use ge_ir::view::GraphContext;
use ge_plugin_api::pass::Pass;
use ge_plugin_api::patch::Patch;

fn run(pass: &dyn Pass, text: &str) -> String {
    let mut model = parse(text, "t.ge", &NoFiles).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
    let edits = {
        let context = GraphContext::new(&model, 0, &());
        let graph = context.graph();
        let mut patch = Patch::new(&graph);
        pass.run(&graph, &mut patch).unwrap();
        Vec::from(patch.into_edits())
    };
    model.apply(0, edits).unwrap();
    to_string(&model).unwrap()
}

fn unchanged(pass: &dyn Pass, text: &str) {
    let model = parse(text, "t.ge", &NoFiles).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
    assert_eq!(run(pass, text), to_string(&model).unwrap());
}

const ERF: &str = r#"graph @main(%x: f32[2,3]) {
  %s = Const() {value = dense<f32[]: 1.4142135>} : f32[]
  %one = Const() {value = dense<f32[]: 1.0>} : f32[]
  %half = Const() {value = dense<f32[]: 0.5>} : f32[]
  %d = Div(%x, %s) : f32[2,3]
  %e = Erf(%d) : f32[2,3]
  %a = Add(%e, %one) : f32[2,3]
  %m = Mul(%x, %a) : f32[2,3]
  %y = Mul(%m, %half) : f32[2,3]
  return %y
}
"#;

#[test]
fn erf_form_becomes_one_gelu() {
    let out = run(&GeluFusion, ERF);
    assert!(out.contains("%y = Gelu(%x)") && out.contains("approximate = \"none\""), "{out}");
    assert!(!out.contains("Erf") && !out.contains("Const") && !out.contains("Mul"), "{out}");
    for name in ["\"d\"", "\"e\"", "\"a\"", "\"m\"", "\"y\""] {
        assert!(out.contains(name), "{name} is lost: {out}");
    }
}

#[test]
fn other_orders_of_the_same_arithmetic_fuse_too() {
    let out = run(
        &GeluFusion,
        r#"graph @main(%x: f32[2,3]) {
  %s = Const() {value = dense<f32[]: 0.70710677>} : f32[]
  %half = Const() {value = dense<f32[]: 0.5>} : f32[]
  %d = Mul(%s, %x) : f32[2,3]
  %e = Erf(%d) : f32[2,3]
  %h = Mul(%half, %e) : f32[2,3]
  %a = Add(%half, %h) : f32[2,3]
  %y = Mul(%a, %x) : f32[2,3]
  return %y
}
"#,
    );
    assert!(out.contains("%y = Gelu(%x)") && !out.contains("Erf"), "{out}");
}

#[test]
fn tanh_form_becomes_one_gelu_after_an_add() {
    let out = run(
        &GeluFusion,
        r#"graph @main(%p: f32[2,3], %q: f32[2,3]) {
  %k = Const() {value = dense<f32[]: 0.7978846>} : f32[]
  %c = Const() {value = dense<f32[]: 0.044715>} : f32[]
  %three = Const() {value = dense<f32[]: 3.0>} : f32[]
  %one = Const() {value = dense<f32[]: 1.0>} : f32[]
  %half = Const() {value = dense<f32[]: 0.5>} : f32[]
  %x = Add(%p, %q) : f32[2,3]
  %x3 = Pow(%x, %three) : f32[2,3]
  %cx = Mul(%x3, %c) : f32[2,3]
  %sum = Add(%x, %cx) : f32[2,3]
  %arg = Mul(%sum, %k) : f32[2,3]
  %t = Tanh(%arg) : f32[2,3]
  %a = Add(%t, %one) : f32[2,3]
  %h = Mul(%x, %half) : f32[2,3]
  %y = Mul(%h, %a) : f32[2,3]
  return %y
}
"#,
    );
    assert!(out.contains("%x = Add(%p, %q)"), "{out}");
    assert!(out.contains("%y = Gelu(%x)") && out.contains("approximate = \"tanh\"") && !out.contains("Tanh("), "{out}");
}

#[test]
fn what_is_no_gelu_stays() {
    unchanged(&GeluFusion, &ERF.replace("1.4142135", "1.5"));
    unchanged(&GeluFusion, &ERF.replace("dense<f32[]: 0.5>", "dense<f32[]: 0.25>"));
    unchanged(&GeluFusion, &ERF.replace("return %y", "return %y, %e"));
}

/// A constant of few digits stays the model's own: `x/2·(1 + erf(x/1.4142))` is `Gelu(k·x)/k` with
/// k = sqrt(2)/1.4142. What the type cannot tell apart needs no factor.
#[test]
fn a_constant_of_few_digits_stays_as_a_factor() {
    let out = run(&GeluFusion, &ERF.replace("1.4142135", "1.4142"));
    let order =
        ["Muls(%x)", "Gelu(", "%y = Muls("].map(|part| out.find(part).unwrap_or_else(|| panic!("{part}: {out}")));
    assert!(order.is_sorted() && out.contains("value = 1.0000096"), "{out}");
    let f64s = ERF.replace("f32", "f64").replace("1.4142135", "1.4142135623730951");
    assert!(!run(&GeluFusion, &f64s).contains("Muls"));
    assert!(run(&GeluFusion, &f64s.replace("1.4142135623730951", "1.41421356")).contains("Muls"));
    let f16s = ERF.replace("f32", "f16").replace("1.4142135", "1.414");
    assert!(!run(&GeluFusion, &f16s).contains("Muls"));
}

const CONV: &str = r#"graph @main(%x: f32[1,1,2,2]) {
  %w = Const() {value = dense<f32[2,1,1,1]: 1.0 2.0>} : f32[2,1,1,1]
  %b = Const() {value = dense<f32[2]: 0.5 1.0>} : f32[2]
  %scale = Const() {value = dense<f32[2]: 2.0 3.0>} : f32[2]
  %offset = Const() {value = dense<f32[2]: 0.25 -1.0>} : f32[2]
  %mean = Const() {value = dense<f32[2]: 1.0 2.0>} : f32[2]
  %variance = Const() {value = dense<f32[2]: 3.0 0.0>} : f32[2]
  %c = Conv2D(%x, %w, %b) {pads = [0, 0, 0, 0], strides = [1, 1, 1, 1]} : f32[1,2,2,2]
  %n = BNInfer(%c, %scale, %offset, %mean, %variance) {epsilon = 1.0} : f32[1,2,2,2]
  %y = Relu(%n) : f32[1,2,2,2]
  return %y
}
"#;

#[test]
fn a_batch_norm_goes_into_the_convolution() {
    let out = run(&ConvBatchNormActivation, CONV);
    // k = (2 / 2, 3 / 1); w·k = (1, 6); (b - mean)·k + offset = (-0.25, -4).
    assert!(out.contains("%n = Conv2D(%x, %n_filter, %n_bias)"), "{out}");
    assert!(out.contains(": 1 6>") && out.contains(": -0.25 -4>"), "{out}");
    assert!(!out.contains("BNInfer") && !out.contains("epsilon") && !out.contains("%scale"), "{out}");
    assert!(out.contains("%y = Relu(%n)") && out.contains("strides = [1, 1, 1, 1]"), "{out}");
}

#[test]
fn a_convolution_that_others_read_stays() {
    unchanged(&ConvBatchNormActivation, &CONV.replace("return %y", "return %y, %c"));
    unchanged(&ConvBatchNormActivation, &CONV.replace("3.0 0.0", "3.0 -1.0"));
}

#[test]
fn a_norm_that_takes_the_filter_out_of_its_type_stays() {
    let half = CONV.replace("f32[", "f16[");
    // k of the second channel, whose weight is 2.
    let scaled = |text: &str, k: &str| text.replace("2.0 3.0>", &format!("2.0 {k}>"));
    for (text, k) in [(&*half, "30000.0"), (&*half, "0.0001"), (&*half, "0.0"), (CONV, "1e38"), (CONV, "1e-20")] {
        let out = run(&ConvBatchNormActivation, &scaled(text, k));
        assert!(out.contains("%n = Conv2D(%x, %n_filter, %n_bias)"), "{k}: {out}");
    }
    for (text, k) in [(&*half, "60000.0"), (&*half, "0.00001"), (CONV, "3e38")] {
        unchanged(&ConvBatchNormActivation, &scaled(text, k));
    }
    let small = scaled(CONV, "1e-20").replace("1.0 2.0>} : f32[2,1,1,1]", "1.0 1e-20>} : f32[2,1,1,1]");
    unchanged(&ConvBatchNormActivation, &small);
}
