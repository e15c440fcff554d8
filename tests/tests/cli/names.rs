//! Tensors by the names that the model gives them: through fusions, in dumps and in comparisons.
use super::made::{f32s, model, named_node, npy, npz, typed};
use ge_tests::{expect_code, models};
use serde_json::Value;
use std::path::Path;

fn json(dir: &Path, code: i32, args: &[&str]) -> Value {
    let out = expect_code(dir, code, &[args, &["--json", "-q"]].concat());
    serde_json::from_slice(&out.stdout).expect("one document")
}
fn names(v: &Value) -> Vec<String> {
    v.as_array().expect("a list").iter().filter_map(|n| n.as_str().map(str::to_owned)).collect()
}

/// Reference models with and without most passes: a tensor that both still compute has the same
/// numbers under its name, whichever node gives it.
#[test]
fn a_name_means_the_same_tensor_with_fusions_and_without() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for name in [
        "lenet",
        "mobilenet_v2",
        "resnet_cifar",
        "bert_l4_h256_s128",
        "gpt_prefill_s64",
        "qdq_mlp",
        "elementwise_chain",
    ] {
        let model = models().join(format!("{name}.onnx")).display().to_string();
        expect_code(d, 0, &["compile", &model, "-o", "o3.om", "-q"]);
        expect_code(d, 0, &["compile", &model, "-o", "o1.om", "-q", "--set", "ge.oo.level=O1"]);
        let v = json(d, 0, &["compare", "o1.om", "o3.om", "--random", "1", "--rtol", "1e-2", "--atol", "1e-3"]);
        let pairs = v["nodes"].as_array().unwrap();
        // Further outputs, such as the statistics of a norm, have a name only if the model reads
        // them.
        let first: Vec<_> = pairs.iter().filter(|p| p["output"] == 0).collect();
        let by_model = first.iter().filter(|p| !p["names"].as_array().unwrap().is_empty()).count();
        assert!(by_model >= 2 && by_model * 10 >= first.len() * 9, "{name}: {by_model} of {}", first.len());
        // Fusions leave fewer tensors: those that are gone are listed as unmatched.
        let all = v["compared"].as_u64().unwrap() as usize + names(&v["unmatched_model"]).len();
        assert!(all >= pairs.len(), "{name}: {v}");
    }
}

/// Compiles a model with two nodes whose names could be taken for each other's outputs, tensors
/// with names of their own, and one tensor that a pass takes away.
fn small(d: &Path) {
    let bytes = model(
        17,
        &[
            named_node("norm", "", "Relu", &["x"], "/a/first"),
            named_node("norm_1", "", "Neg", &["/a/first"], "second"),
            named_node("copy", "", "Identity", &["second"], "copied"),
            named_node("last", "", "Abs", &["copied"], "r"),
            typed(11, "x", 1, &[2, 3]),
            typed(12, "r", 1, &[2, 3]),
        ],
    );
    std::fs::write(d.join("m.onnx"), bytes).unwrap();
    expect_code(d, 0, &["compile", "m.onnx", "-o", "m.om", "-q", "--set", "ge.x.auto_fusion=false"]);
}
fn array(v: [f32; 6]) -> Vec<u8> {
    npy("<f4", "(2, 3)", &f32s(&v))
}

#[test]
fn references_under_the_models_names_are_met_and_the_rest_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    small(d);
    let x = [-1.0, 2.0, -3.0, 4.0, -5.0, 6.0];
    let first = x.map(|v: f32| v.max(0.0));
    let second = first.map(|v| -v);
    std::fs::write(d.join("x.npy"), array(x)).unwrap();
    let reference = npz(&[
        ("x", array(x)),
        ("/a/first", array(first)),
        ("second", array(second)),
        ("copied", array(second)),
        ("r", array(first)),
        ("nothing_of_it", array(x)),
    ]);
    std::fs::write(d.join("ref.npz"), reference).unwrap();
    let run = ["compare", "m.om", "ref.npz", "--input", "x=x.npy"];
    let v = json(d, 0, &run);
    assert_eq!(v["same"], true, "{v}");
    assert_eq!(names(&v["unmatched_reference"]), ["nothing_of_it"]);
    assert_eq!(v["first_difference"], Value::Null);
    // What the Identity gave is now its input: both names are found.
    let met: Vec<&str> = v["nodes"].as_array().unwrap().iter().filter_map(|p| p["tensor"].as_str()).collect();
    assert!(met.contains(&"/a/first") && met.contains(&"r") && v["compared"].as_u64() >= Some(3), "{v}");
    let text = String::from_utf8_lossy(&expect_code(d, 0, &run).stdout).into_owned();
    assert!(text.contains("nothing_of_it") && text.contains("1 of the second without a counterpart"), "{text}");
    // A difference is reported with the model's name and ours.
    let wrong = npz(&[("second", array(first))]);
    std::fs::write(d.join("wrong.npz"), wrong).unwrap();
    let v = json(d, 1, &["compare", "m.om", "wrong.npz", "--input", "x=x.npy"]);
    assert_eq!(v["first_difference"]["node"], "norm_1", "{v}");
    assert!(v["first_difference"]["names"].as_array().unwrap().iter().any(|n| n == "second"), "{v}");
    assert!(names(&v["unmatched_model"]).contains(&"/a/first".to_owned()), "{v}");
    // `norm_1` is a node of the model, not output 1 of `norm`.
    std::fs::write(d.join("node.npz"), npz(&[("norm_1", array(second))])).unwrap();
    assert_eq!(json(d, 0, &["compare", "m.om", "node.npz", "--input", "x=x.npy"])["compared"], 1);
}

#[test]
fn a_name_that_may_mean_two_tensors_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let text = "graph @main(%x: f32[2,3]) {
  %\"p/q\" = Relu(%x) : f32[2,3]
  %\"p:q\" = Neg(%\"p/q\") : f32[2,3]
  %s = Abs(%\"p:q\") : f32[2,3]
  return %s
}
";
    std::fs::write(d.join("m.ge"), text).unwrap();
    expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q", "--set", "ge.x.auto_fusion=false"]);
    std::fs::create_dir(d.join("ref")).unwrap();
    std::fs::write(d.join("ref/p_q.npy"), array([1.0; 6])).unwrap();
    let out = expect_code(d, 2, &["compare", "m.om", "ref", "--random", "1", "-q"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("GE-E0804") && said.contains("may mean several") && said.contains("`p/q`"), "{said}");
}

#[test]
fn dumps_are_files_by_the_models_names_with_a_list_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    small(d);
    expect_code(d, 0, &["run", "m.om", "--random", "1", "--dump-tensors", "t", "-q"]);
    for file in ["_a_first.npy", "second.npy", "copied.npy", "r.npy", "tensors.json"] {
        assert!(d.join("t").join(file).is_file(), "{file}");
    }
    let list: Value = serde_json::from_slice(&std::fs::read(d.join("t/tensors.json")).unwrap()).unwrap();
    let rows = list["tensors"].as_array().unwrap();
    let row = rows.iter().find(|r| r["tensor"] == "/a/first").expect("listed");
    assert_eq!((row["file"].as_str(), row["node"].as_str()), (Some("_a_first.npy"), Some("norm")));
    let v = json(d, 0, &["compare", "m.om", "t", "--random", "1"]);
    assert_eq!((v["same"].as_bool(), names(&v["unmatched_reference"]).len()), (Some(true), 0), "{v}");
}

/// Outputs are named after the nodes of the model, whatever passes make of these; two outputs of
/// one value have two names.
#[test]
fn outputs_of_a_graph_in_text_form_have_the_same_names_in_every_plan() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let half = ["--soc", "Ascend910B", "--set", "ge.exec.precision_mode=force_fp16"];
    for (size, shape) in [("2", "x=[1,2]"), ("n", "x=[1,2]")] {
        for (returned, want) in [("%y, %z", ["y", "z"]), ("%y, %y", ["y", "y_1"])] {
            let text = format!(
                "graph @main(%x: f32[{size}], %s: f32[{size}]) {{
                   %y = Add(%x, %s) : f32[{size}]
                   %z = Neg(%y) : f32[{size}]
                   return {returned} }}"
            );
            std::fs::write(d.join("m.ge"), text).unwrap();
            for flags in [&[][..], &half] {
                expect_code(d, 0, &[&["compile", "m.ge", "-o", "m.om", "-q", "--state", "y:s"], flags].concat());
                let doc = json(d, 0, &["run", "m.om", "--input", shape, "--input", "s=[3,4]"]);
                let found: Vec<&str> =
                    doc["outputs"].as_array().unwrap().iter().map(|o| o["name"].as_str().unwrap()).collect();
                assert_eq!(found, want, "{size} {flags:?}");
            }
        }
    }
}

/// What a model passes on, and what it holds, is in a dump under the names of the outputs.
#[test]
fn outputs_that_no_node_computes_are_in_a_dump() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    for size in ["2", "n"] {
        let text = format!(
            "graph @main(%x: f32[{size}]) {{
               %k = Const() {{value = dense<f32[3]: 1 2 3>}} : f32[3]
               %y = Relu(%x) : f32[{size}]
               return %x, %k, %y }}"
        );
        std::fs::write(d.join("m.ge"), text).unwrap();
        expect_code(d, 0, &["compile", "m.ge", "-o", "m.om", "-q"]);
        let dump = format!("dump_{size}");
        expect_code(d, 0, &["run", "m.om", "--input", "x=[1,2]", "--dump-tensors", &dump, "-q"]);
        let list: Value = serde_json::from_slice(&std::fs::read(d.join(&dump).join("tensors.json")).unwrap()).unwrap();
        let rows = list["tensors"].as_array().unwrap();
        for name in ["x", "k", "y"] {
            assert!(rows.iter().any(|r| r["tensor"] == name), "{name}: {list}");
        }
        let v = json(d, 0, &["compare", "m.om", &dump, "--input", "x=[1,2]"]);
        assert_eq!((v["same"].as_bool(), names(&v["unmatched_model"]).len()), (Some(true), 0), "{v}");
    }
}
