//! The interface for C: vendors' libraries that are built with `cc` and `c++` alone are checked,
//! compile and run as those in Rust do. Bad ones are refused by name, and a header of another minor
//! version works.
use super::{Dir, field, node, npy, number, sample};
use ge_tests::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a source with these headers; returns the library.
fn build(dir: &Path, compiler: &str, source: &Path, headers: &Path, name: &str, strict: bool) -> PathBuf {
    let library = dir.join(format!("libge_{name}.so"));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-I"]).arg(headers).arg("-o").arg(&library);
    command.arg(if compiler == "cc" { "-std=c11" } else { "-std=c++17" });
    if strict {
        command.args(["-Wall", "-Wextra", "-Werror"]);
    } else {
        command.arg("-w");
    }
    let out = command.arg(source).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    library
}

fn headers() -> PathBuf {
    root().join("plugin-c")
}

/// A folder with a `plugins.toml` that lists this repository's plugins and these libraries.
fn folder(libraries: &[(&str, &Path)]) -> Dir {
    let mut text = std::fs::read_to_string(root().join("plugins.toml")).unwrap();
    for (name, path) in libraries {
        text.push_str(&format!("\n[[plugin]]\nname = \"{name}\"\npath = \"{}\"\n", path.display()));
    }
    let dir = Dir(tempfile::tempdir().unwrap());
    dir.write("plugins.toml", text);
    dir
}

/// x f32[2, n] -> HardSwish of com.acme.c (bias 2.5) -> Neg -> Neg -> RowNorm of com.acme.cpp ->
/// Abs -> y f32[2]; without the norm and its Abs, y f32[2, n].
fn onnx(n: u8, norm: bool) -> Vec<u8> {
    let value = |name: &str, sizes: &[u8]| {
        let dims: Vec<u8> = sizes.iter().flat_map(|s| field(1, number(1, *s))).collect();
        [field(1, name), field(2, field(1, [number(1, 1), field(2, dims)].concat()))].concat()
    };
    let op = |op: &str, from: &str, to: &str, domain: &str, attr: &[u8]| {
        let attr = if attr.is_empty() { Vec::new() } else { field(5, attr) };
        field(1, [field(1, from), field(2, to), field(3, to), field(4, op), attr, field(7, domain)].concat())
    };
    let mut bias = [field(1, "bias"), vec![2 << 3 | 5]].concat();
    bias.extend(2.5f32.to_le_bytes());
    bias.extend([20 << 3 & 127 | 128, 1, 1]); // field 20, type: FLOAT
    let mut nodes = [op("HardSwish", "x", "h", "com.acme.c", &bias), op("Neg", "h", "a", "", &[])].concat();
    let out = if norm { value("y", &[2]) } else { value("y", &[2, n]) };
    if norm {
        nodes.extend([op("Neg", "a", "b", "", &[]), op("RowNorm", "b", "r", "com.acme.cpp", &[])].concat());
        nodes.extend(op("Abs", "r", "y", "", &[]));
    } else {
        nodes.extend(op("Neg", "a", "y", "", &[]));
    }
    let graph = [nodes, field(2, "g"), field(11, value("x", &[2, n])), field(12, out)].concat();
    let opset = |domain: &str, version| field(8, [field(1, domain), number(2, version)].concat());
    [number(1, 8), field(7, graph), opset("", 17), opset("com.acme.c", 1), opset("com.acme.cpp", 1)].concat()
}

fn hard_swish(x: f32) -> f32 {
    x * ((x + 2.5).clamp(0.0, 6.0) / 6.0)
}

fn last_floats(bytes: &[u8], n: usize) -> Vec<f32> {
    bytes[bytes.len() - 4 * n..].chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

#[test]
fn libraries_in_c_and_cpp_pass_the_check_and_a_model_with_their_operators_runs() {
    let made = tempfile::tempdir().unwrap();
    let examples = root().join("examples");
    let c = build(made.path(), "cc", &examples.join("vendor-c/acme_c.c"), &headers(), "acme_c", true);
    let cpp = build(made.path(), "c++", &examples.join("vendor-cpp/acme_cpp.cpp"), &headers(), "acme_cpp", true);
    let dir = folder(&[("acme_c", &c), ("acme_cpp", &cpp)]);
    for library in [&c, &cpp] {
        let said = dir.ok(&["plugin", "check", &library.display().to_string()]);
        assert!(
            said.contains("ok   C6   engine Acme") && said.contains(": 5 against") && !said.contains("FAIL"),
            "{said}"
        );
    }
    dir.write("m.onnx", onnx(100, true));
    dir.ok(&["compile", "m.onnx", "-o", "m.om", "-q"]);
    let doc = dir.inspect();
    // The passes of both libraries took out the pair of Neg and the Abs; the kernels are the
    // libraries' own.
    assert_eq!(node(&doc, "h")["engine"], "AcmeCEngine");
    assert_eq!(node(&doc, "r")["engine"], "AcmeCppEngine");
    let text = doc.to_string();
    assert!(!text.contains("\"Neg\"") && !text.contains("\"Abs\""), "{text}");
    let x = sample(200);
    std::fs::create_dir_all(dir.0.path().join("in")).unwrap();
    dir.write("in/input_0.npy", npy(&x));
    let want: Vec<f32> =
        x.chunks(100).map(|row| row.iter().map(|v| hard_swish(*v).powi(2)).sum::<f32>().sqrt()).collect();
    for option in ["check_races=full", "schedule=random:3"] {
        dir.ok(&["run", "m.om", "--inputs", "in", "--outputs", "out", "-q", "--device-option", option]);
        let found = last_floats(&std::fs::read(dir.0.path().join("out/output_0.npy")).unwrap(), 2);
        assert!(found.iter().zip(&want).all(|(f, w)| (f - w).abs() < 1e-4 * w), "{found:?} {want:?}");
    }
}

/// Runs a model with a changed copy of the example in C; returns the exit code and stderr.
fn changed(changes: &[(&str, &str)], header: &[(&str, &str)]) -> (i32, String) {
    changed_of(changes, &headers().join("ge_plugin.h"), header)
}
fn changed_of(changes: &[(&str, &str)], original: &Path, header: &[(&str, &str)]) -> (i32, String) {
    let apply = |mut text: String, changes: &[(&str, &str)]| {
        for (from, to) in changes {
            assert!(text.contains(from), "the source has no `{from}`");
            text = text.replacen(from, to, 1);
        }
        text
    };
    let made = tempfile::tempdir().unwrap();
    let read = |p: PathBuf| std::fs::read_to_string(p).unwrap();
    let source = made.path().join("acme_c.c");
    std::fs::write(&source, apply(read(root().join("examples/vendor-c/acme_c.c")), changes)).unwrap();
    std::fs::write(made.path().join("ge_plugin.h"), apply(read(original.to_owned()), header)).unwrap();
    let library = build(made.path(), "cc", &source, made.path(), "acme_c", false);
    let dir = folder(&[("acme_c", &library)]);
    dir.write("m.onnx", onnx(100, false));
    std::fs::create_dir_all(dir.0.path().join("in")).unwrap();
    let x = sample(200);
    dir.write("in/input_0.npy", npy(&x));
    let out = dir.ge(&["run", "m.onnx", "--inputs", "in", "--outputs", "out", "-q"]);
    if out.status.success() {
        let found = last_floats(&std::fs::read(dir.0.path().join("out/output_0.npy")).unwrap(), 200);
        assert!(found.iter().zip(&x).all(|(f, x)| (f - hard_swish(*x)).abs() < 1e-5), "{found:?}");
    }
    (out.status.code().unwrap_or(-1), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_bad_library_in_c_is_refused_by_name() {
    assert_eq!(changed(&[], &[]).0, 0);
    let engine = ".size = sizeof(ge_engine), .name = \"AcmeCEngine\"";
    let cases: &[(&[(&str, &str)], &[(&str, &str)], &str, &[&str])] = &[
        (&[(".major = GE_C_MAJOR", ".major = 2")], &[], "GE-E0509", &["ge_plugin.h 2"]),
        (&[], &[("#define GE_C_MAJOR 1", "#define GE_C_MAJOR 2")], "GE-E0509", &["interface 2.1.0"]),
        (&[(engine, ".size = 8, .name = \"AcmeCEngine\"")], &[], "GE-E0517", &["`ge_engine` says that it has 8 bytes"]),
        (&[(".tasks = tasks, ", "")], &[], "GE-E0517", &["engine `AcmeCEngine` has no function `tasks`"]),
        (&[(".n_ops = 1", ".n_ops = 99999999")], &[], "GE-E0517", &["list of operators"]),
        (&[(".stage = GE_AFTER_INFER_SHAPE", ".stage = 99")], &[], "GE-E0517", &["a stage that there is not"]),
        (&[("    return &PLUGIN;", "    return NULL;")], &[], "GE-E0516", &["gave NULL"]),
        (&[("const ge_plugin *ge_c_plugin(", "const ge_plugin *other(")], &[], "GE-E0506", &["no ge_c_plugin"]),
        (
            &[(
                "    if (elements(node) >= 0) return 1;\n    host->refuse",
                "    *(volatile int *)0 = 1;\n    host->refuse",
            )],
            &[],
            "GE-E0518",
            &["SIGSEGV", "supports"],
        ),
        (
            &[("product.args = \"{i0*}{ws0*}{o0*}\"", "product.args = \"{i0*}{ws0*}{frobnicate}\"")],
            &[],
            "GE-E0522",
            &["AcmeCEngine", "`h`"],
        ),
        (
            &[(
                "    for (size_t i = from; i < to; i++) y[i] = x[i] * gate[i];",
                "    return host->fail(error, GE_FAULT, \"no luck\");",
            )],
            &[],
            "GE-E0518",
            &["no luck", "AcmeCEngine"],
        ),
    ];
    for (source, header, code, words) in cases {
        let (exit, said) = changed(source, header);
        assert_eq!(exit, 5, "{code}: {said}");
        assert!(said.contains(code) && said.contains("acme_c"), "{code}: {said}");
        assert!(words.iter().all(|w| said.contains(w)), "{words:?}: {said}");
    }
}

#[test]
fn a_library_of_a_newer_header_runs_and_sees_what_its_host_lacks() {
    let newer = [
        ("#define GE_C_MINOR 1", "#define GE_C_MINOR 2"),
        (
            "    const void *(*builder_open)(ge_builder *builder, const char *path, size_t *size);\n",
            "    const void *(*builder_open)(ge_builder *builder, const char *path, size_t *size);\n    int32_t (*future)(void);\n",
        ),
        (
            "ge_kernel *kernel, ge_error *error);\n} ge_engine;",
            "ge_kernel *kernel, ge_error *error);\n    void *future;\n} ge_engine;",
        ),
    ];
    let asks = (
        "    host = given;\n",
        "    host = given;\n    if (GE_HOST_HAS(host, future) || !GE_HOST_HAS(host, builder_open)) return NULL;\n",
    );
    let (exit, said) = changed(&[asks], &newer);
    assert_eq!(exit, 0, "{said}");
}

/// A library that was built with the header of 1.0 runs as it did.
#[test]
fn a_library_of_the_first_header_runs() {
    let first = root().join("tests/fixtures/c/ge_plugin_1_0.h");
    assert!(std::fs::read_to_string(&first).unwrap().contains("#define GE_C_MINOR 0"));
    let (exit, said) = changed_of(&[], &first, &[]);
    assert_eq!(exit, 0, "{said}");
}

/// A library of this header in a host of the first one: it sees what that host lacks, reports it,
/// and does not start.
#[test]
fn a_library_of_this_header_sees_that_a_host_is_of_the_first() {
    let made = tempfile::tempdir().unwrap();
    let source = root().join("examples/vendor-c/acme_aside.c");
    let library = build(made.path(), "cc", &source, &headers(), "acme_aside", true);
    let host = r#"
#include "ge_plugin_1_0.h"
#include <dlfcn.h>
#include <stdio.h>
static void say(uint32_t level, const char *text) { printf("%u %s\n", level, text); }
int main(int argc, char **argv) {
    static ge_host host = {.size = sizeof(ge_host), .major = 1, .minor = 0, .log = say};
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    const ge_plugin *(*entry)(const ge_host *) = NULL;
    if (library) *(void **)&entry = dlsym(library, "ge_c_plugin");
    if (!entry) return 1;
    return entry(&host) ? 2 : 0;
}
"#;
    let (source, program) = (made.path().join("host.c"), made.path().join("host"));
    std::fs::write(&source, host).unwrap();
    let out = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root().join("tests/fixtures/c"))
        .args(["-rdynamic", "-o"])
        .arg(&program)
        .arg(&source)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let out = Command::new(&program).arg(&library).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.code() == Some(0) && said.contains("0 acme_aside needs a ge"), "{:?} {said}", out.status);
}

/// Options, an attached stream, a node's cost and a front end of a vendor in C.
#[test]
fn options_attached_streams_and_a_front_end_in_c() {
    let made = tempfile::tempdir().unwrap();
    let source = root().join("examples/vendor-c/acme_aside.c");
    let library = build(made.path(), "cc", &source, &headers(), "acme_aside", true);
    let dir = folder(&[("acme_aside", &library)]);
    let said = dir.ok(&["plugin", "check", &library.display().to_string()]);
    assert!(said.contains("AcmeAsideC") && !said.contains("FAIL"), "{said}");
    let configured = std::fs::read_to_string(dir.0.path().join("plugins.toml")).unwrap();
    dir.write("plugins.toml", format!("{configured}[plugin.options]\nfactor = 2.0\n"));
    let listed = dir.ok(&["plugin", "options", "--of", "acme_aside"]);
    assert!(listed.contains("factor") && listed.contains("what the squares are multiplied by"), "{listed}");
    // The front end reads a model that names a file beside it.
    let weights: Vec<u8> = (0..64).flat_map(|i| (i as f32).to_le_bytes()).collect();
    dir.write("w.bin", &weights);
    dir.write("m.acme", "acme 1\n64\nAcmeAsideSum\nadd w.bin\n");
    dir.ok(&["compile", "m.acme", "-o", "m.om", "-q"]);
    let doc = dir.inspect();
    assert_eq!(node(&doc, "n0")["engine"], "AcmeAsideC");
    let tasks = doc["tasks"].as_array().unwrap();
    let own: Vec<_> = tasks.iter().filter(|t| t["node"] == "n0" && t["type"] == "KERNEL").collect();
    assert!(own.len() == 2 && own[0]["stream_id"] != own[1]["stream_id"], "two streams: {own:?}");
    // x = 3 gives 2 * 9 + 3, plus the weight.
    std::fs::create_dir_all(dir.0.path().join("in")).unwrap();
    for option in ["check_races=full", "schedule=random:1", "schedule=random:2"] {
        dir.ok(&["run", "m.om", "--input", "x=3", "--outputs", "out", "-q", "--device-option", option]);
        let found = last_floats(&std::fs::read(dir.0.path().join("out/output_0.npy")).unwrap(), 64);
        assert_eq!(found, (0..64).map(|i| 21.0 + i as f32).collect::<Vec<_>>(), "{option}");
    }
    // A small node costs more, but has no other engine to go to.
    dir.write("small.acme", "acme 1\n8\nAcmeAsideSum\n");
    let why: serde_json::Value =
        serde_json::from_str(&dir.ok(&["plugin", "why", "small.acme", "n0", "--json"])).unwrap();
    assert_eq!((why["engines"][0]["cost"].as_u64(), why["chosen"].as_str()), (Some(20), Some("AcmeAsideC")));
    // Wrong models and wrong options are refused with the reason.
    for (file, text, code, words) in [
        ("a.acme", "acme 1\nmany\nAbs\n", 4, "line 2 is no number of elements"),
        ("b.acme", "acme 1\n64\nadd ../w.bin\n", 4, "is not beside it"),
        ("c.acme", "acme 1\n63\nadd w.bin\n", 4, "has another size"),
    ] {
        dir.write(file, text);
        let out = dir.ge(&["compile", file, "-o", "x.om", "-q"]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(code) && said.contains(words), "{file}: {said}");
    }
    for (options, words) in [
        ("factor = \"much\"", "a number"),
        ("little = -1", "from 0 to 1048576"),
        ("factr = 1.0", "did you mean `factor`?"),
    ] {
        dir.write("plugins.toml", format!("{configured}[plugin.options]\n{options}\n"));
        let out = dir.ge(&["compile", "m.acme", "-o", "x.om", "-q"]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("GE-E0513") && said.contains(words), "{options}: {said}");
    }
}
