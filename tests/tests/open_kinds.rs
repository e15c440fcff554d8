//! Kinds of models that run with another size each time, from one OM, compared with onnxruntime: a
//! detector, tagged sequences, a decoder block, attention in windows, a U-Net, sound in chunks,
//! pictures that are scaled, and more models as exporters write them.
use crate::models::small;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use ge_tests::{expect_code, root};

#[test]
fn kinds_that_run_with_another_size_each_time_are_right_at_all() {
    for name in ["detection", "lengths", "block", "windows", "unet", "speech", "scaled"] {
        small("open", name, ["1e-4", "1e-5"], &[]);
    }
}

/// Loops that gather and grow, scans, sizes computed by chains of shape operators, sequences, sizes
/// of 0 and 1, and very thin tensors; some also with each operator of known shape as a model of its
/// own.
#[test]
fn models_as_exporters_write_them_are_right_at_all_sizes() {
    let kinds = [
        "chosen",
        "scanned",
        "shifted",
        "conformer",
        "decoder",
        "written",
        "experts",
        "spoken",
        "queries",
        "ragged",
        "nearest",
        "lasting",
    ];
    for name in kinds {
        small("kinds", name, ["1e-4", "1e-5"], &[]);
    }
    for name in ["chosen", "scanned", "written", "ragged", "lasting"] {
        small("kinds", name, ["1e-4", "1e-5"], &["--set", "ge.exec.static_model_ops_lower_limit=1"]);
    }
}

/// What a run leaves as state is what the next one takes: five runs, each of another size, give the
/// same numbers as runs that got the state as inputs.
#[test]
fn state_that_is_carried_on_gives_the_numbers_of_state_that_is_given() {
    let states = [
        ("block", "present_k:past_k,present_v:past_v"),
        ("speech", "new_tail:tail,new_state:state,new_context:context"),
    ];
    for (name, state) in states {
        let (model, dir) = (root().join("tests/models/open").join(name), tempfile::tempdir().unwrap());
        let d = dir.path();
        let onnx = model.join("model.onnx").display().to_string();
        expect_code(d, 0, &["compile", &onnx, "-o", "m.om", "-q", "--state", state]);
        // Only input 0 is given: the state begins empty and shares its batch size with input 0.
        for k in 0..5 {
            let to = d.join(format!("in/step{k}"));
            std::fs::create_dir_all(&to).unwrap();
            std::fs::copy(model.join(format!("s{k}/input_0.npy")), to.join("input_0.npy")).unwrap();
        }
        expect_code(d, 0, &["run", "m.om", "--inputs", "in", "--steps", "5", "--outputs", "out", "-q"]);
        for k in 0..5 {
            let (ours, right) = (d.join(format!("out/step{k}")), model.join(format!("s{k}/expect")));
            let mut compared = 0;
            for file in std::fs::read_dir(&ours).unwrap().flatten().map(|e| e.path()) {
                let of = |p: &std::path::Path| {
                    let bytes = std::fs::read(p).unwrap();
                    let t = ge_runtime::npy::read(&bytes, DType::F32).unwrap();
                    (t.view().dims.to_vec(), t.view().values::<f32>().unwrap().to_vec())
                };
                let (a, b) = (of(&file), of(&right.join(file.file_name().unwrap())));
                assert_eq!(a.0, b.0, "{name}, step {k}, {}", file.display());
                for (x, y) in a.1.iter().zip(&b.1) {
                    assert!((x - y).abs() <= 1e-5 + 1e-4 * y.abs(), "{name}, step {k}: {x} for {y}");
                }
                compared += 1;
            }
            assert!(compared > 1, "{name}, step {k}");
        }
    }
}

/// Weights of products with an open number of rows are packed once, not in each run. The numbers
/// are those of unpacked weights, also without any rows.
#[test]
fn packed_weights_of_products_of_open_rows_give_the_same_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let list =
        |n: usize| (0..n).map(|i| (i * 37 % 23) as i64 - 11).map(|v| v.to_string()).collect::<Vec<_>>().join(" ");
    // Sixteen columns are one panel, which looks like a matrix with a leading axis of one.
    for n in [40, 16] {
        let text = format!(
            "graph @main(%x: f32[n,24]) {{
  %w = Const() {{value = dense<f32[24,{n}]: {}>}} : f32[24,{n}]
  %b = Const() {{value = dense<i8[{n},32]: {}>}} : i8[{n},32]
  %s = Const() {{value = dense<f32[]: splat 0.25>}} : f32[]
  %y = MatMulV2(%x, %w) : f32[n,{n}]
  %z = FusedQuantMatMul(%y, _, _, %b, %s) : f32[n,32]
  return %y, %z
}}
",
            list(24 * n),
            list(n * 32)
        );
        std::fs::write(d.join("m.ge"), text).unwrap();
        expect_code(d, 0, &["compile", "m.ge", "-o", "packed.om", "-q"]);
        expect_code(
            d,
            0,
            &["compile", "m.ge", "-o", "plain.om", "-q", "--set", "ge.optimizationSwitch=OpenWeightsPass:off"],
        );
        for rows in [0u64, 1, 5, 33] {
            let bytes: Vec<u8> = (0..rows * 24).flat_map(|i| ((i % 17) as f32 - 8.0).to_le_bytes()).collect();
            let x = HostTensor::from_bytes(DType::F32, &[rows, 24], &bytes).unwrap();
            std::fs::create_dir_all(d.join("in")).unwrap();
            std::fs::write(d.join("in/input_0.npy"), ge_runtime::npy::write(&x).unwrap()).unwrap();
            let out = format!("plain{rows}");
            expect_code(d, 0, &["run", "plain.om", "--inputs", "in", "--outputs", &out, "-q"]);
            expect_code(
                d,
                0,
                &["run", "packed.om", "--inputs", "in", "--expect", &out, "--rtol", "0", "--atol", "0", "-q"],
            );
        }
    }
    let told = expect_code(d, 0, &["inspect", "packed.om", "--json"]).stdout;
    assert!(String::from_utf8(told).unwrap().contains("OpenWeightsPass"));
}

/// A model whose input sizes have no names is fused like one with names: the nodes and the numbers
/// are the same. Two sizes without names are not taken for equal: rows of `y` are broadcast.
#[test]
fn sizes_without_a_name_are_fused_as_named_ones_are() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let list = |n: usize| (0..n).map(|i| ((i * 37 % 23) as i64 - 11).to_string()).collect::<Vec<_>>().join(" ");
    let model = |x: &str, y: &str| {
        format!(
            "graph @main(%x: f32[{x},24], %y: f32[{y},40]) {{
  %w = Const() {{value = dense<f32[24,40]: {}>}} : f32[24,40]
  %b = Const() {{value = dense<f32[40]: {}>}} : f32[40]
  %p = MatMulV2(%x, %w) : f32[?,40]
  %q = Add(%p, %b) : f32[?,40]
  %r = Relu(%q) : f32[?,40]
  %s = Add(%r, %y) : f32[?,40]
  %e = Exp(%x) : f32[?,24]
  %t = Tanh(%e) : f32[?,24]
  return %s, %t
}}
",
            list(960),
            list(40)
        )
    };
    let ops = |om: &str| -> Vec<String> {
        let told = expect_code(d, 0, &["inspect", om, "--json"]).stdout;
        let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
        let nodes = told["graphs"][0]["nodes"].as_array().unwrap().iter();
        nodes.map(|n| n["type"].as_str().unwrap().to_owned()).collect()
    };
    for (name, x, y) in [("named", "n", "m"), ("open", "?", "?")] {
        std::fs::write(d.join(format!("{name}.ge")), model(x, y)).unwrap();
        expect_code(d, 0, &["compile", &format!("{name}.ge"), "-o", &format!("{name}.om"), "-q"]);
    }
    assert_eq!(ops("open.om"), ops("named.om"));
    assert!(!ops("open.om").iter().any(|t| ["Relu", "Tanh"].contains(&t.as_str())), "{:?}", ops("open.om"));
    let told = expect_code(d, 0, &["inspect", "open.om", "--what", "exec"]).stdout;
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("symbol x_0: any size in x:0\nsymbol y_0: any size in y:0\n"), "{told}");

    for (rows, of_y) in [(4u64, 4u64), (4, 1), (1, 3), (7, 7), (0, 1)] {
        std::fs::create_dir_all(d.join("in")).unwrap();
        for (k, dims) in [[rows, 24], [of_y, 40]].iter().enumerate() {
            let bytes: Vec<u8> = (0..dims[0] * dims[1]).flat_map(|i| ((i % 17) as f32 / 8.0).to_le_bytes()).collect();
            let t = HostTensor::from_bytes(DType::F32, dims, &bytes).unwrap();
            std::fs::write(d.join(format!("in/input_{k}.npy")), ge_runtime::npy::write(&t).unwrap()).unwrap();
        }
        expect_code(d, 0, &["run", "named.om", "--inputs", "in", "--outputs", "out", "-q"]);
        let exact = ["--rtol", "0", "--atol", "0", "-q"];
        expect_code(d, 0, &[&["run", "open.om", "--inputs", "in", "--expect", "out"], &exact[..]].concat());
    }
}

/// A range belongs to its size, whether or not the model names that size.
#[test]
fn a_range_of_a_size_without_a_name_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[?,3]) {\n  %y = Relu(%x) : f32[?,3]\n  return %y\n}\n";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--input-shape", "x:2..5,3"]);
    let told = expect_code(d, 0, &["inspect", "m.om", "--what", "exec"]).stdout;
    assert!(String::from_utf8(told).unwrap().contains("symbol x_0: 2 to 5 in x:0"));
    let x = HostTensor::from_bytes(DType::F32, &[6, 3], &[0; 72]).unwrap();
    std::fs::create_dir_all(d.join("in")).unwrap();
    std::fs::write(d.join("in/input_0.npy"), ge_runtime::npy::write(&x).unwrap()).unwrap();
    let refused = expect_code(d, 2, &["run", "m.om", "--inputs", "in"]).stderr;
    let refused = String::from_utf8(refused).unwrap();
    assert!(refused.contains("6 for dimension 0 (`x_0`)") && refused.contains("2 to 5"), "{refused}");
}

/// A model of open sizes has the same kernels as one of known sizes: rows of a table by the number
/// that is asked for, reshapes to computed sizes, a convolution along one axis. It gives the same
/// bits, and refuses more rows than the table has.
#[test]
fn a_model_of_open_sizes_has_the_kernels_of_a_static_one() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let list = |n: usize| (0..n).map(|i| ((i * 37 % 23) as i64 - 11).to_string()).collect::<Vec<_>>().join(" ");
    let text = format!(
        "graph @main(%x: f32[batch,seq,8]) {{
  %t = Const() {{value = dense<f32[16,8]: {}>}} : f32[16,8]
  %w = Const() {{value = dense<f32[6,8,1,5]: {}>}} : f32[6,8,1,5]
  %zero = Const() {{value = dense<i64[1]: 0>}} : i64[1]
  %one = Const() {{value = dense<i64[1]: 1>}} : i64[1]
  %two = Const() {{value = dense<i64[1]: 2>}} : i64[1]
  %k = Const() {{value = dense<i64[2]: 2 4>}} : i64[2]
  %s = Shape(%x) : i64[3]
  %b = StridedSliceV2(%s, %zero, %one) : i64[1]
  %n = StridedSliceV2(%s, %one, %two) : i64[1]
  %p = StridedSliceV2(%t, %zero, %n) : f32[?,8]
  %a = Add(%x, %p) : f32[batch,?,8]
  %e = Tanh(%a) : f32[batch,?,8]
  %c = ConcatD(%b, %n, %k) {{N = 3, concat_dim = 0}} : i64[4]
  %r = Reshape(%e, %c) : f32[?,?,2,4]
  %q = TransposeD(%r) {{perm = [0,2,1,3]}} : f32[?,2,?,4]
  %y = SoftmaxV2(%q) : f32[?,2,?,4]
  %u = TransposeD(%e) {{perm = [0,2,1]}} : f32[batch,8,?]
  %v = Unsqueeze(%u) {{axes = [2]}} : f32[batch,8,1,?]
  %f = Conv2D(%v, %w) {{strides = [1,1,1,4]}} : f32[batch,6,1,?]
  %g = Squeeze(%f) {{axis = [2]}} : f32[batch,6,?]
  %h = Relu(%g) : f32[batch,6,?]
  return %y, %h
}}
",
        list(128),
        list(240)
    );
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "open.om", "-q"]);
    let kernels = |om: &str| -> Vec<String> {
        let told = expect_code(d, 0, &["inspect", om, "--json"]).stdout;
        let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
        let nodes = told["graphs"][0]["nodes"].as_array().unwrap().iter();
        // Views, and the rows of the table, which are a constant if their number is known.
        let views = ["Const", "Data", "NetOutput", "Reshape", "Shape", "Squeeze", "StridedSliceV2", "Unsqueeze"];
        let mut ops: Vec<String> = nodes.map(|n| n["type"].as_str().unwrap().to_owned()).collect();
        ops.retain(|t| !views.contains(&t.as_str()));
        ops.sort_unstable();
        ops
    };
    let given = |batch: u64, seq: u64| {
        let bytes: Vec<u8> = (0..batch * seq * 8).flat_map(|i| ((i % 19) as f32 / 8.0 - 1.0).to_le_bytes()).collect();
        let x = HostTensor::from_bytes(DType::F32, &[batch, seq, 8], &bytes).unwrap();
        std::fs::create_dir_all(d.join("in")).unwrap();
        std::fs::write(d.join("in/input_0.npy"), ge_runtime::npy::write(&x).unwrap()).unwrap();
    };
    for (batch, seq) in [(2, 5), (3, 13), (2, 16)] {
        given(batch, seq);
        let (om, out) = (format!("{batch}x{seq}.om"), format!("out{batch}x{seq}"));
        expect_code(d, 0, &["compile", "m.ge", "-o", &om, "-q", "--input-shape", &format!("x:{batch},{seq},8")]);
        assert_eq!(kernels("open.om"), kernels(&om), "{batch} by {seq}");
        expect_code(d, 0, &["run", &om, "--inputs", "in", "--outputs", &out, "-q"]);
        let same = ["--rtol", "0", "--atol", "0", "-q"];
        expect_code(d, 0, &[&["run", "open.om", "--inputs", "in", "--expect", &out][..], &same].concat());
    }
    assert!(kernels("open.om").contains(&"FusedConv".to_owned()), "{:?}", kernels("open.om"));
    given(2, 17);
    let told = expect_code(d, 1, &["run", "open.om", "--inputs", "in", "--outputs", "out", "-q"]).stderr;
    assert!(String::from_utf8(told).unwrap().contains("broadcast"));
}
