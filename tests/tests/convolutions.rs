//! Convolutions in single precision whose filters are laid out when a model is compiled, and fused
//! pairs of convolutions, in which the second reads the first. The results are compared with those
//! of the kernels alone and of the AI CPU.
use ge_tests::expect_code;
use serde_json::Value;

/// Both pairs of [`MODEL`] as one operator each, as a vendor's model may have them.
const PAIRS: &str = "graph @main(%x: f32[1,8,112,112]) {
  %k = Const() {value = dense<f32[32,8,3,3]: @K>} : f32[32,8,3,3]
  %d = Const() {value = dense<f32[32,1,3,3]: @D>} : f32[32,1,3,3]
  %p = Const() {value = dense<f32[24,32,1,1]: @P>} : f32[24,32,1,1]
  %q = Const() {value = dense<f32[96,24,1,1]: @Q>} : f32[96,24,1,1]
  %e = Const() {value = dense<f32[96,1,5,5]: @E>} : f32[96,1,5,5]
  %a = FusedConv(%x, %k) {activation = \"relu\", pads = [1, 1, 1, 1]} : f32[1,32,112,112]
  %c = FusedConvPair(%a, %d, _, %p) {first_activation = \"clip\", first_activation_params = [0.0, 6.0], pads = [1, 1, 1, 1]} : f32[1,24,112,112]
  %y = FusedConvPair(%c, %q, _, %e) {depthwise = \"second\", first_activation = \"hard_swish\", pads = [1, 2, 1, 2], strides = [1, 1, 2, 2]} : f32[1,96,56,56]
  return %y
}
";

/// Five convolutions: one with a small window, two depthwise ones, and two of one point (1 × 1).
const MODEL: &str = "graph @main(%x: f32[1,8,112,112]) {
  %k = Const() {value = dense<f32[32,8,3,3]: @K>} : f32[32,8,3,3]
  %d = Const() {value = dense<f32[32,1,3,3]: @D>} : f32[32,1,3,3]
  %p = Const() {value = dense<f32[24,32,1,1]: @P>} : f32[24,32,1,1]
  %q = Const() {value = dense<f32[96,24,1,1]: @Q>} : f32[96,24,1,1]
  %e = Const() {value = dense<f32[96,1,5,5]: @E>} : f32[96,1,5,5]
  %a = FusedConv(%x, %k) {activation = \"relu\", pads = [1, 1, 1, 1]} : f32[1,32,112,112]
  %b = FusedConv(%a, %d) {activation = \"clip\", activation_params = [0.0, 6.0], groups = 32, pads = [1, 1, 1, 1]} : f32[1,32,112,112]
  %c = Conv2D(%b, %p) : f32[1,24,112,112]
  %f = FusedConv(%c, %q) {activation = \"hard_swish\"} : f32[1,96,112,112]
  %y = DepthwiseConv2D(%f, %e) {auto_pad = \"SAME_UPPER\", strides = [1, 1, 2, 2]} : f32[1,96,56,56]
  return %y
}
";

fn list(n: usize) -> String {
    (0..n).map(|i| format!("{}", ((i * 37 % 61) as f64 - 30.0) / 256.0)).collect::<Vec<_>>().join(" ")
}

#[test]
fn filters_changed_ahead_and_pairs_give_the_numbers_of_the_kernels_alone() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let sizes = [("@K", 32 * 8 * 9), ("@D", 32 * 9), ("@P", 24 * 32), ("@Q", 96 * 24), ("@E", 96 * 25)];
    for (file, text) in [("m.ge", MODEL), ("pairs.ge", PAIRS)] {
        let text = sizes.iter().fold(text.to_owned(), |t, (name, n)| t.replace(name, &list(*n)));
        std::fs::write(d.join(file), text).unwrap();
    }
    let compile = |file: &str, om: &str, set: &[&str]| {
        expect_code(d, 0, &[&["compile", file, "-o", om, "-q"][..], set].concat());
        let said: Value = serde_json::from_slice(&expect_code(d, 0, &["inspect", om, "--json"]).stdout).unwrap();
        let graphs = said["graphs"].as_array().unwrap().clone();
        let nodes = graphs.into_iter().flat_map(|g| g["nodes"].as_array().unwrap().clone());
        nodes
            .map(|n| n["type"].as_str().unwrap_or_default().to_owned())
            .filter(|o| o.contains("Conv"))
            .collect::<Vec<_>>()
    };
    let all = compile("m.ge", "all.om", &[]);
    let off = "ge.optimizationSwitch=ConvFiltersPass:off;ConvPairFusionPass:off";
    let alone = compile("m.ge", "alone.om", &["--set", off]);
    let on_cpu = ["--set", "ge.exec.exclude_engines=AiCore|AiVector"];
    assert_eq!((compile("m.ge", "cpu.om", &on_cpu).len(), alone.len()), (5, 5));
    assert_eq!(all, ["FusedConv", "FusedConvPair", "FusedConvPair"]);
    assert_eq!(compile("pairs.ge", "pairs.om", &on_cpu), all);
    expect_code(d, 0, &["run", "cpu.om", "--random", "3", "--outputs", "o", "-q"]);
    for (om, threads) in [("all.om", "1"), ("all.om", "2"), ("alone.om", "2"), ("pairs.om", "1")] {
        let near = ["--expect", "o", "--rtol", "1e-4", "--atol", "1e-4", "-q", "--threads", threads];
        expect_code(d, 0, &[&["run", om, "--random", "3"][..], &near].concat());
    }
}

/// A window of 3 × 3, one with few output places, and a long one over a batch of lines; each is
/// followed by element-wise steps.
const FOLLOWED: &str = "graph @main(%x: f32[2,48,24,24], %l: f32[9,1,1,260]) {
  %k = Const() {value = dense<f32[48,48,3,3]: @K>} : f32[48,48,3,3]
  %f = Const() {value = dense<f32[40,48,3,3]: @F>} : f32[40,48,3,3]
  %g = Const() {value = dense<f32[34,1,1,128]: @G>} : f32[34,1,1,128]
  %a = Conv2D(%x, %k) {pads = [1, 1, 1, 1]} : f32[2,48,24,24]
  %b = Sin(%a) : f32[2,48,24,24]
  %c = Abs(%b) : f32[2,48,24,24]
  %y = Exp(%c) : f32[2,48,24,24]
  %d = Conv2D(%x, %f) {pads = [0, 0, 0, 0], strides = [1, 1, 9, 9]} : f32[2,40,3,3]
  %e = Sin(%d) : f32[2,40,3,3]
  %h = Abs(%e) : f32[2,40,3,3]
  %z = Exp(%h) : f32[2,40,3,3]
  %i = Conv2D(%l, %g) {strides = [1, 1, 1, 64]} : f32[9,34,1,3]
  %j = Sin(%i) : f32[9,34,1,3]
  %m = Abs(%j) : f32[9,34,1,3]
  %w = Exp(%m) : f32[9,34,1,3]
  return %y, %z, %w
}
";

#[test]
fn steps_behind_a_convolution_are_computed_in_whatever_form_its_filter_comes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let sizes = [("@K", 48 * 48 * 9), ("@F", 40 * 48 * 9), ("@G", 34 * 128)];
    let text = sizes.iter().fold(FOLLOWED.to_owned(), |t, (name, n)| t.replace(name, &list(*n)));
    std::fs::write(d.join("m.ge"), &text).unwrap();
    // The same graph with open batch sizes.
    let open = ["2,48", "2,40", "9,34", "9,1,1,260"].iter().fold(text, |t, size| {
        let (batch, rest) = size.split_once(',').unwrap();
        let name = if batch == "2" { "N" } else { "M" };
        t.replace(&format!("f32[{size}"), &format!("f32[{name},{rest}"))
    });
    std::fs::write(d.join("open.ge"), open).unwrap();
    let on_cpu = ["--set", "ge.exec.exclude_engines=AiCore|AiVector"];
    expect_code(d, 0, &[&["compile", "m.ge", "-o", "cpu.om", "-q"][..], &on_cpu].concat());
    expect_code(d, 0, &["run", "cpu.om", "--random", "3", "--outputs", "o", "-q"]);
    for file in ["m.ge", "open.ge"] {
        expect_code(d, 0, &["compile", file, "-o", "all.om", "-q"]);
        let said: Value = serde_json::from_slice(&expect_code(d, 0, &["inspect", "all.om", "--json"]).stdout).unwrap();
        let nodes: Vec<&Value> =
            said["graphs"].as_array().unwrap().iter().flat_map(|g| g["nodes"].as_array().unwrap()).collect();
        let of = |t: &str| nodes.iter().filter(|n| n["type"] == t).count();
        assert_eq!((of("FusedConv"), of("Conv2D"), of("Exp")), (3, 0, 0), "{file}");
        let shapes = ["--input-shape", "x:2,48,24,24;l:9,1,1,260"];
        let given: &[&str] = if file == "m.ge" { &[] } else { &shapes };
        let near = ["--random", "3", "--expect", "o", "--rtol", "1e-4", "--atol", "1e-4", "-q"];
        expect_code(d, 0, &[&["run", "all.om"][..], given, &near].concat());
    }
}
