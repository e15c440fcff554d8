//! Trained models of public packages through `ge compile` and `ge run` on the OM, against onnxruntime's numbers.
use ge_tests::{expect_code, trained};

fn check(name: &str) {
    let models = trained();
    let list = std::fs::read_to_string(models.join("models.txt")).expect("made with the models");
    let line = list.lines().find(|l| l.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("no model {name}"));
    let f: Vec<&str> = line.split(' ').collect();
    let (shape, rtol, atol, sets) = (f[1], f[2], f[3], f[4].parse::<usize>().expect("a count"));
    let dir = tempfile::tempdir().expect("a folder");
    let model = models.join(format!("{name}.onnx")).display().to_string();
    let shapes = if shape == "-" { vec![] } else { vec!["--input-shape", shape] };
    let subject = if f[5] == "om" {
        expect_code(dir.path(), 0, &[&["compile", &model, "-o", "m.om", "-q"][..], &shapes].concat());
        vec!["run", "m.om"]
    } else {
        [vec!["run", &model], shapes].concat()
    };
    for s in 0..sets {
        let data = models.join(name).join(format!("s{s}"));
        let (inputs, expect) = (data.display().to_string(), data.join("expect").display().to_string());
        let files = ["--inputs", &inputs, "--expect", &expect, "--rtol", rtol, "--atol", atol, "-q"];
        expect_code(dir.path(), 0, &[subject.as_slice(), &files].concat());
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
    text_direction,
    text_detection,
    text_recognition,
    voice_16k,
    voice_rates_8k,
    voice_ifless,
    voice_op15,
    voice_half,
    voice_sequence,
    file_type,
);
