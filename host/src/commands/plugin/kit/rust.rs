//! A plugin's crate in Rust with the requested parts.
use super::{File, camel, common, fill};
use std::path::Path;

/// Which parts the crate has.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// An engine.
    pub engine: bool,
    /// An operator.
    pub ops: bool,
    /// A pass.
    pub pass: bool,
    /// A front end.
    pub frontend: bool,
    /// A device.
    pub device: bool,
}

/// One part: its modules with their texts, what the README says about it, and its kinds in the
/// manifest.
struct Part {
    modules: &'static [(&'static str, &'static str)],
    what: &'static str,
    kinds: &'static [&'static str],
}
const ENGINE: Part =
    Part { modules: &[("engine", include_str!("engine.rs.txt"))], what: "an engine", kinds: &["engine"] };
const OPS: Part = Part {
    modules: &[("op", include_str!("op.rs.txt"))],
    what: "an operator with its ONNX mapping",
    kinds: &["engine", "ops", "frontend"],
};
const PASS: Part = Part { modules: &[("pass", include_str!("pass.rs.txt"))], what: "a pass", kinds: &["pass"] };
const FRONTEND: Part =
    Part { modules: &[("reader", include_str!("frontend.rs.txt"))], what: "a front end", kinds: &["frontend"] };
const DEVICE: Part = Part {
    modules: &[
        ("device", include_str!("device.rs.txt")),
        ("memory", include_str!("memory.rs.txt")),
        ("model", include_str!("model.rs.txt")),
    ],
    what: "a device",
    kinds: &["device"],
};

impl Parts {
    fn list(self) -> Vec<Part> {
        let Parts { engine, ops, pass, frontend, device } = self;
        let all = !(engine || ops || pass || frontend || device);
        let asked =
            [(engine || all, ENGINE), (ops || all, OPS), (pass || all, PASS), (frontend, FRONTEND), (device, DEVICE)];
        asked.into_iter().filter(|(yes, _)| *yes).map(|(_, p)| p).collect()
    }
}

/// The nodes of the reference model as Python, and what NumPy computes for them: two `Abs` for the
/// pass, then the operator that the plugin computes.
fn reference(domain: &str, ops: bool, pass: bool, engine: bool) -> (String, String) {
    let mut nodes = Vec::new();
    let (mut value, mut numpy) = ("x", "x");
    if pass {
        nodes.push(r#"    helper.make_node("Abs", ["x"], ["a"], name="first"),"#.to_owned());
        nodes.push(r#"    helper.make_node("Abs", ["a"], ["b"], name="second"),"#.to_owned());
        (value, numpy) = ("b", "np.abs(x)");
    }
    let (last, right) = match (ops, engine) {
        (true, _) => (
            format!(
                r#"    helper.make_node("Scale", ["{value}"], ["y"], name="scale", domain="{domain}", factor=2.5),"#
            ),
            format!("np.float32(2.5) * {numpy}"),
        ),
        (_, true) => (
            format!(r#"    helper.make_node("Relu", ["{value}"], ["y"], name="relu"),"#),
            format!("np.maximum({numpy}, 0)"),
        ),
        _ => (format!(r#"    helper.make_node("Neg", ["{value}"], ["y"], name="neg"),"#), format!("-{numpy}")),
    };
    nodes.push(last);
    (nodes.join("\n"), right)
}

/// All files of the crate.
pub fn files(name: &str, api: &Path, asked: Parts) -> Vec<File> {
    let parts = asked.list();
    let modules: Vec<_> = parts.iter().flat_map(|p| p.modules).collect();
    let has = |module: &str| modules.iter().any(|m| m.0 == module);
    let (ops, pass, engine, device) = (has("op"), has("pass"), has("engine"), has("device"));
    let kind_of = camel(name);
    let domain = format!("com.{name}");
    let api = serde_json::Value::from(api.display().to_string()).to_string();
    let (op, compute, what) = match ops {
        true => (format!("{kind_of}Scale"), "factor * x", "Each number times the attribute `factor`."),
        false => ("Relu".to_owned(), "factor * x.max(0.0)", "Negative numbers become zero; `factor` is 1."),
    };
    let said = parts.iter().map(|p| p.what).collect::<Vec<_>>().join(", ");
    let (nodes, right) = reference(&domain, ops, pass, engine);
    let opset = if ops { format!(r#", helper.make_opsetid("{domain}", 1)"#) } else { String::new() };
    let library = format!("target/release/libge_{name}.so");
    let on = if device { format!(" --device {name}_board") } else { String::new() };
    let pairs: [(&str, &str); 15] = [
        ("@NAME@", name),
        ("@TYPE@", &kind_of),
        ("@DOMAIN@", &domain),
        ("@API@", &api),
        ("@OP@", &op),
        ("@COMPUTE@", compute),
        ("@WHAT@", what),
        ("@PARTS@", &said),
        ("@NODES@", &nodes),
        ("@OPSET@", &opset),
        ("@NUMPY@", &right),
        ("@LIBRARY@", &library),
        ("@VERSION@", "^0.1"),
        ("@BUILD@", "      - run: cargo test\n      - run: cargo build --release"),
        ("@ON@", &on),
    ];
    let mut out = common(&pairs);
    out.extend([
        ("Cargo.toml".to_owned(), fill(include_str!("Cargo.toml.txt"), &pairs)),
        ("README.md".to_owned(), fill(include_str!("README.md.txt"), &pairs)),
        (".gitignore".to_owned(), "/target\n/reference/in\n/reference/want\n/reference/model.onnx\n".to_owned()),
        ("src/lib.rs".to_owned(), root(name, &kind_of, &parts, &said)),
    ]);
    out.extend(modules.iter().map(|(module, text)| (format!("src/{module}.rs"), fill(text, &pairs))));
    out
}

/// The text of `src/lib.rs`: the modules and the manifest.
fn root(name: &str, kind_of: &str, parts: &[Part], said: &str) -> String {
    let modules: Vec<&str> = parts.iter().flat_map(|p| p.modules).map(|m| m.0).collect();
    let mut kinds: Vec<String> = Vec::new();
    for k in parts.iter().flat_map(|p| p.kinds) {
        if !kinds.iter().any(|known| known == k) {
            kinds.push((*k).to_owned());
        }
    }
    let provided = [
        ("engine", format!("{kind_of}Engine")),
        ("op", format!("{kind_of}Plain")),
        ("reader", name.to_owned()),
        ("device", format!("{name}_board")),
    ];
    let provides: Vec<String> = provided.into_iter().filter(|(m, _)| modules.contains(m)).map(|(_, n)| n).collect();
    let quoted = |list: &[String]| list.iter().map(|v| format!("\"{v}\"")).collect::<Vec<_>>().join(", ");
    // Addresses and kernels need `unsafe`; a device has both, in one file.
    let (rule, memory) = match modules.contains(&"memory") {
        true => ("#![deny(unsafe_code)]", "#[allow(unsafe_code)]\nmod memory;\n"),
        false => ("#![forbid(unsafe_code)]", ""),
    };
    let listed: String = modules.iter().filter(|m| **m != "memory").map(|m| format!("mod {m};\n")).collect();
    format!(
        "//! The plugin `{name}`: {said}.\n{rule}\n\n{listed}{memory}\nge_plugin_api::ge_plugin! {{\n    name: \"{name}\", kinds: [{}], provides: [{}]\n}}\n",
        quoted(&kinds),
        quoted(&provides)
    )
}
