//! `cargo xtask bench-peers [NAME...]`: compares the times of models with other runtimes, using
//! `tests/reference/bench_peers.py`.
use crate::models;
use crate::process::{Result, cargo, root, run, target};

/// The models that are compared if none are named.
const MODELS: [&str; 14] = [
    "bert_l4_h256_s128",
    "encoder_l6_h384_s128",
    "gpt_prefill_s64",
    "gpt_decode_p128",
    "gemm_1024",
    "conv3x3_64_56",
    "depthwise_separable",
    "mobilenet_v2",
    "resnet_cifar",
    "elementwise_chain",
    "softmax_layernorm",
    "int8_cnn_qdq",
    "int8_cnn_qlinear",
    "lstm_l2_h256_s64",
];

/// Builds in release mode, makes the models and prints the table; `args` are names of models and
/// options of the script.
pub(crate) fn measure(args: &[&str]) -> Result<()> {
    cargo(&["build", "--workspace", "--release"])?;
    let folder = models::make()?;
    let reference = root().join("tests/reference");
    let python = models::python(&reference)?;
    if let Err(why) = models::peers(&python, &reference) {
        eprintln!("OpenVINO is not measured: {why}");
    }
    let text = |p: std::path::PathBuf| p.display().to_string();
    let (script, ge) = (text(root().join("tests/reference/bench_peers.py")), text(target().join("release/ge")));
    let (plugins, folder) = (text(root().join("plugins.toml")), text(folder));
    let mut all = vec![script.as_str(), &ge, &plugins, &folder];
    all.extend(args);
    // Each option is followed by its value; everything else is a name.
    let (mut words, mut named) = (args.iter(), false);
    while let Some(word) = words.next() {
        if word.starts_with("--") {
            words.next();
        } else {
            named = true;
        }
    }
    if !named {
        all.extend(MODELS);
    }
    run(&python, &all)
}
