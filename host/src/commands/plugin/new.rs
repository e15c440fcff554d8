//! `ge plugin new NAME`: a plugin's crate that builds, passes its own tests and `ge plugin check`
//! as it is. The sources are the texts in `kit/`, in which `@NAME@` and others stand for what the
//! user says.
use crate::commands::flags::Global;
use crate::commands::talk::{print_json, say};
use crate::{Diagnostic, Error, Result};
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub struct NewArgs {
    /// The plugin's name: lower-case letters, digits and `_`; its library is libge_NAME.so
    name: String,
    /// An engine with an op store, a kernel in blocks and its tasks
    #[arg(long)]
    engine: bool,
    /// An operator: prototype, ONNX mapping, plain kernel
    #[arg(long)]
    ops: bool,
    /// A pass
    #[arg(long)]
    pass: bool,
    /// A front end for a file form of its own
    #[arg(long)]
    frontend: bool,
    /// The folder that is made [default: NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The crate ge-plugin-api [default: share/ge/plugin-api of the installation]
    #[arg(long, value_name = "DIR")]
    api: Option<PathBuf>,
}

/// The parts of a crate: flag, module, text, what the README says, kind.
struct Part {
    module: &'static str,
    text: &'static str,
    what: &'static str,
    kinds: &'static [&'static str],
}
const ENGINE: Part =
    Part { module: "engine", text: include_str!("kit/engine.rs.txt"), what: "an engine", kinds: &["engine"] };
const OPS: Part = Part {
    module: "op",
    text: include_str!("kit/op.rs.txt"),
    what: "an operator with its ONNX mapping",
    kinds: &["engine", "ops", "frontend"],
};
const PASS: Part = Part { module: "pass", text: include_str!("kit/pass.rs.txt"), what: "a pass", kinds: &["pass"] };
const FRONTEND: Part =
    Part { module: "reader", text: include_str!("kit/frontend.rs.txt"), what: "a front end", kinds: &["frontend"] };

/// Makes the folder.
pub fn run(global: &Global, a: &NewArgs) -> Result<u8> {
    let letters = a.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !letters || !a.name.bytes().next().is_some_and(|b| b.is_ascii_lowercase()) || a.name.len() > 40 {
        return Err(Error::usage(format!(
            "`{}` is no name of a plugin: lower-case letters, digits and `_`, a letter first, at most 40",
            a.name
        )));
    }
    let api = api(a.api.as_deref())?;
    let to = a.dir.clone().unwrap_or_else(|| PathBuf::from(&a.name));
    if to.exists() {
        return Err(Diagnostic::error(format!("`{}` exists already", to.display()))
            .help("take another name, or another folder by `--dir`")
            .raise(ge_codes::UNWRITABLE));
    }
    let all = !(a.engine || a.ops || a.pass || a.frontend);
    let asked = [(a.engine || all, ENGINE), (a.ops || all, OPS), (a.pass || all, PASS), (a.frontend, FRONTEND)];
    let parts: Vec<Part> = asked.into_iter().filter(|(yes, _)| *yes).map(|(_, p)| p).collect();
    let files = files(&a.name, &api, &parts);
    for (path, text) in &files {
        let path = to.join(path);
        let failed = |e: std::io::Error| {
            Diagnostic::error(format!("cannot write `{}`: {e}", path.display())).raise(ge_codes::UNWRITABLE)
        };
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        std::fs::write(&path, text).map_err(failed)?;
    }
    if global.json {
        let names: Vec<&str> = files.iter().map(|f| f.0.as_str()).collect();
        print_json(
            &serde_json::json!({"schema": 1, "folder": to.display().to_string(), "api": api.display().to_string(), "files": names}),
        )?;
    } else {
        let (dir, name) = (to.display(), &a.name);
        say(
            global,
            &format!(
                "made `{dir}`; now:\n  cd {dir} && cargo test && cargo build --release\n  ge plugin check target/release/libge_{name}.so\n  \
                 ge plugin add target/release/libge_{name}.so"
            ),
        );
    }
    Ok(0)
}

/// The folder of the crate ge-plugin-api: the given one, else what an installation ships, else the
/// repository's that built this program.
fn api(given: Option<&Path>) -> Result<PathBuf> {
    let mut looked = Vec::new();
    let mut found = |p: PathBuf| {
        looked.push(p.display().to_string());
        p.join("src/author").is_dir().then(|| std::fs::canonicalize(&p).unwrap_or(p))
    };
    let exe = std::env::current_exe().ok().and_then(|e| e.parent().map(Path::to_owned));
    let here = match given {
        Some(p) => found(p.to_owned()),
        None => exe.and_then(|e| found(e.join("../share/ge/plugin-api")).or_else(|| found(e.join("../../plugin-api")))),
    };
    here.ok_or_else(|| {
        looked
            .iter()
            .fold(Diagnostic::error("cannot find the crate ge-plugin-api"), |d, p| d.note(format!("looked at {p}")))
            .help("name its folder by `--api DIR`")
            .raise(ge_codes::UNREADABLE)
    })
}

/// All files of the crate.
fn files(name: &str, api: &Path, parts: &[Part]) -> Vec<(String, String)> {
    let has = |module: &str| parts.iter().any(|p| p.module == module);
    let (ops, pass, engine) = (has("op"), has("pass"), has("engine"));
    let kind_of: String = name
        .split('_')
        .flat_map(|w| w[..w.len().min(1)].to_uppercase().chars().chain(w.chars().skip(1)).collect::<Vec<_>>())
        .collect();
    let domain = format!("com.{name}");
    let api = serde_json::Value::from(api.display().to_string()).to_string();
    let (op, compute, what) = match ops {
        true => (format!("{kind_of}Scale"), "factor * x", "Each number times the attribute `factor`."),
        false => ("Relu".to_owned(), "factor * x.max(0.0)", "Negative numbers become zero; `factor` is 1."),
    };
    let said: Vec<&str> = parts.iter().map(|p| p.what).collect();
    // The model: two Abs for the pass, then the operator that the plugin computes.
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
    let opset = if ops { format!(r#", helper.make_opsetid("{domain}", 1)"#) } else { String::new() };
    let fill = |text: &str| {
        let pairs: [(&str, &str); 11] = [
            ("@NAME@", name),
            ("@TYPE@", &kind_of),
            ("@DOMAIN@", &domain),
            ("@API@", &api),
            ("@OP@", &op),
            ("@COMPUTE@", compute),
            ("@WHAT@", what),
            ("@PARTS@", &said.join(", ")),
            ("@NODES@", &nodes.join("\n")),
            ("@OPSET@", &opset),
            ("@NUMPY@", &right),
        ];
        pairs.iter().fold(text.to_owned(), |t, (from, to)| t.replace(from, to))
    };
    let mut kinds: Vec<&str> = Vec::new();
    parts.iter().flat_map(|p| p.kinds).for_each(|k| {
        if !kinds.contains(k) {
            kinds.push(k)
        }
    });
    let mut provides = Vec::new();
    provides.extend(engine.then(|| format!("{kind_of}Engine")));
    provides.extend(ops.then(|| format!("{kind_of}Plain")));
    provides.extend(has("reader").then(|| name.to_owned()));
    let quoted = |list: &[String]| list.iter().map(|v| format!("\"{v}\"")).collect::<Vec<_>>().join(", ");
    let kinds: Vec<String> = kinds.into_iter().map(str::to_owned).collect();
    let modules: String = parts.iter().map(|p| format!("mod {};\n", p.module)).collect();
    let lib = format!(
        "//! The plugin `{name}`: {}.\n#![forbid(unsafe_code)]\n\n{modules}\nge_plugin_api::ge_plugin! {{\n    name: \"{name}\", kinds: [{}], provides: [{}]\n}}\n",
        said.join(", "),
        quoted(&kinds),
        quoted(&provides)
    );
    let mut out = vec![
        ("Cargo.toml".to_owned(), fill(include_str!("kit/Cargo.toml.txt"))),
        ("LICENSE".to_owned(), include_str!("../../../../LICENSE").to_owned()),
        ("README.md".to_owned(), fill(include_str!("kit/README.md.txt"))),
        ("plugin.toml".to_owned(), fill(include_str!("kit/plugin.toml.txt"))),
        (".gitignore".to_owned(), "/target\n/reference/in\n/reference/want\n/reference/model.onnx\n".to_owned()),
        (".github/workflows/ci.yml".to_owned(), fill(include_str!("kit/ci.yml.txt"))),
        ("reference/make.py".to_owned(), fill(include_str!("kit/make.py.txt"))),
        ("src/lib.rs".to_owned(), lib),
    ];
    out.extend(parts.iter().map(|p| (format!("src/{}.rs", p.module), fill(p.text))));
    out
}
