//! Right results: the reference models through `ge compile` and `ge run` on the OM, against references that others computed.
use ge_tests::{expect_code, models};

fn check(name: &str) {
    let models = models();
    let tolerances = std::fs::read_to_string(models.join("tolerances.txt")).expect("made with the models");
    let line = tolerances
        .lines()
        .find(|l| l.split(' ').next() == Some(name))
        .unwrap_or_else(|| panic!("{name} is no reference model"));
    let f: Vec<&str> = line.split(' ').collect();
    let (rtol, atol, sets) = (f[1], f[2], f[3].parse::<usize>().expect("a count"));
    let dir = tempfile::tempdir().expect("a folder");
    let model = models.join(format!("{name}.onnx"));
    expect_code(dir.path(), 0, &["compile", &model.display().to_string(), "-o", "m.om", "-q"]);
    for s in 0..sets {
        let data = models.join(name).join(format!("s{s}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        expect_code(
            dir.path(),
            0,
            &["run", "m.om", "--inputs", &inputs, "--expect", &expect, "--rtol", rtol, "--atol", atol, "-q"],
        );
    }
}

macro_rules! models {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )+};
}

models!(
    mlp,
    if_else,
    lenet,
    resnet_cifar,
    inception_batch_concat,
    shards_concat,
    split_relu3_concat,
    mobilenet_v2,
    bert_l4_h256_s128,
    gpt_prefill_s64,
    depthwise_separable,
    elementwise_chain,
    softmax_layernorm,
    gemm_1024,
    conv3x3_64_56,
);
