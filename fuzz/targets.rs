//! The fuzz targets: text form, ONNX, OM, `plugins.toml`, TASK_INFO.
use super::{Target, fuzz};
use crate::api::session;
use ge::options::OptionMap;
use ge::session::{Quiet, Session, import};
use ge_plugin_api::types::Blob;
use ge_tests::root;
use std::path::{Path, PathBuf};

/// Small files below a folder that have this ending, sorted by name.
fn small_files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    fn walk(folder: &Path, ending: &str, out: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, ending, out);
            } else if path.to_string_lossy().ends_with(ending) {
                out.push(path);
            }
        }
    }
    let mut files = Vec::new();
    walk(&root().join(folder), ending, &mut files);
    files.sort();
    let texts = files.iter().map(|f| std::fs::read(f).unwrap());
    texts.filter(|t| (16..8_192).contains(&t.len())).collect()
}

/// Compiled models with constants, a loop of tasks and several streams.
fn compiled(s: &Session) -> Vec<ge_model::CompiledModel> {
    let texts = [
        "graph @main(%x: f32[2,3]) {\n  %w = Const() {value = dense<f32[3,2]: 1 2 3 4 5 6>} : f32[3,2]\n  %m = MatMulV2(%x, %w) : f32[2,2]\n  %r = Relu(%m) : f32[2,2]\n  return %r\n}\n",
        "graph @two(%x: f32[8], %y: f32[8]) {\n  %a = Add(%x, %y) : f32[8]\n  %b = Exp(%y) {_stream_label = \"side\"} : f32[8]\n  %c = Mul(%a, %b) : f32[8]\n  return %c, %a\n}\n",
    ];
    let made = texts.iter().map(|text| {
        let graph = import::parse_text(Path::new("g.ge"), text.as_bytes()).unwrap();
        s.compile("g", graph, &OptionMap::default(), &Quiet).unwrap().model
    });
    made.collect()
}

fn om_of(model: &ge_model::CompiledModel) -> Vec<u8> {
    ge_om::OmWriter::new(&model.name).model(ge_model::encode(model)).to_vec().unwrap()
}

/// An error that reports a panic in a plugin counts as a panic.
#[track_caller]
fn no_panic<T>(answer: Result<T, ge::Error>) {
    if let Err(e) = answer {
        assert!(!format!("{e:?}").contains("panicked"), "{e}");
    }
}

#[test]
fn text() {
    let words: &[&[u8]] = &[b"graph @", b"dense<", b" : f32[", b"?", b"after(", b"{", b"}", b"-9223372036854775808"];
    let read = |input: &[u8]| {
        let Ok(model) = import::parse_text(Path::new("fuzz.ge"), input) else { return };
        // What was read can be printed, and the printed text can be read again.
        let printed = ge_ir::text::to_string_whole(&model).unwrap();
        assert!(import::parse_text(Path::new("fuzz.ge"), printed.as_bytes()).is_ok(), "is printed as:\n{printed}");
    };
    fuzz(&Target { name: "text", seeds: small_files("tests/golden", ".ge"), words, read: &read });
}

#[test]
fn onnx() {
    let s = session(OptionMap::default());
    let words: &[&[u8]] = &[b"Conv", b"Loop", b"If", b"\x08\x01", b"\x1a\x00", b"ai.onnx.ml", b"external"];
    let path = Path::new("fuzz.onnx");
    let options = import::parse_input_shapes("").unwrap();
    let read = |input: &[u8]| {
        no_panic(import::import(s.registry(), path, Blob::copy_of(input), &options));
    };
    fuzz(&Target { name: "onnx", seeds: small_files("tests/models", ".onnx"), words, read: &read });
}

#[test]
fn om() {
    let s = session(OptionMap::default());
    let read = |input: &[u8]| {
        let mut sealed = input.to_vec();
        // Also with a corrected checksum, if the file is intact enough to have one.
        let _ = ge_om::reader::reseal(&mut sealed);
        for file in [input, &sealed] {
            if let Ok(om) = ge_om::OmFile::from_bytes(file.to_vec()) {
                let _ = ge_model::decode(&om);
            }
        }
    };
    let seeds = compiled(&s).iter().map(om_of).collect();
    fuzz(&Target { name: "om", seeds, words: &[b"IMOD", b"ge_rs.", b"\x0a\x00"], read: &read });
}

#[test]
fn plugins_toml() {
    let full = b"schema = 1\nsearch = [\"a\", \"/b\"]\n[[plugin]]\nname = \"nn\"\nversion = \"^0.1\"\noptional = true\nexclude_engines = [\"V\"]\noverrides = [\"P\"]\n[plugin.options]\nwinograd = true\n[[plugin]]\nname = \"x\"\npath = \"p/libx.so\"\nenabled = false\n";
    let seeds = vec![full.to_vec(), std::fs::read(root().join("plugins.toml")).unwrap()];
    let words: &[&[u8]] =
        &[b"[[plugin]]\n", b"version = ", b"\"\"\"", b"\\u0000", b"options.", b"= {", b"1e999", b"\n"];
    let read = |input: &[u8]| {
        if let Ok(text) = std::str::from_utf8(input) {
            no_panic(ge_plugin::config::Config::parse(Path::new("plugins.toml"), text));
        }
    };
    fuzz(&Target { name: "plugins_toml", seeds, words, read: &read });
}

/// Tasks that are valid messages but not those of the model: they are either refused when the model
/// is decoded or loaded, or they load.
#[test]
fn task_info() {
    use prost::Message;
    let s = session(OptionMap::default());
    let models = compiled(&s);
    let kind = ge_om::PartitionType::TaskInfo;
    let tasks_of = |m: &ge_model::CompiledModel| {
        let om = ge_om::OmFile::from_bytes(om_of(m)).unwrap();
        om.models()[0].partition(kind).unwrap().to_vec()
    };
    let seeds: Vec<Vec<u8>> = models.iter().map(tasks_of).collect();
    let read = |input: &[u8]| {
        let Ok(tasks) = ge_om::proto::task::ModelTaskDef::decode(input) else { return };
        for m in &models {
            let mut parts = ge_model::encode(m);
            (parts.tasks, parts.more_tasks) = (tasks.clone(), ge_om::Encoded::default());
            let Ok(bytes) = ge_om::OmWriter::new(&m.name).model(parts).to_vec() else { continue };
            let Ok(om) = ge_om::OmFile::from_bytes(bytes) else { continue };
            if let Ok(changed) = ge_model::decode(&om) {
                no_panic(s.load(changed));
            }
        }
    };
    fuzz(&Target { name: "task_info", seeds, words: &[b"\x08\x00", b"\x52\x00", b"{}", b"{i0}"], read: &read });
}
