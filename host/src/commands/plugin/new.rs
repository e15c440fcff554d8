//! `ge plugin new NAME`: makes a plugin's crate that builds and passes its own tests and `ge plugin
//! check` unchanged. The sources are the templates in `kit/`.
use super::kit::{Parts, files_in_c, files_in_rust};
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
    /// A device that runs models in the memory of this machine
    #[arg(long)]
    device: bool,
    /// A plugin in C instead: operator, mapping, engine and pass in one file, with a Makefile
    #[arg(long, conflicts_with_all = ["engine", "ops", "pass", "frontend", "device", "api"])]
    c: bool,
    /// The folder that is made [default: NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The crate ge-plugin-api [default: share/ge/plugin-api of the installation]
    #[arg(long, value_name = "DIR")]
    api: Option<PathBuf>,
}

/// Runs the command: creates the folder.
pub fn run(global: &Global, a: &NewArgs) -> Result<u8> {
    let letters = a.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !letters || !a.name.bytes().next().is_some_and(|b| b.is_ascii_lowercase()) || a.name.len() > 40 {
        return Err(Error::usage(format!(
            "`{}` is no name of a plugin: lower-case letters, digits and `_`, a letter first, at most 40",
            a.name
        )));
    }
    let api = if a.c { PathBuf::new() } else { api(a.api.as_deref())? };
    let to = a.dir.clone().unwrap_or_else(|| PathBuf::from(&a.name));
    if to.exists() {
        return Err(Diagnostic::error(format!("`{}` exists already", to.display()))
            .help("take another name, or another folder by `--dir`")
            .raise(ge_codes::UNWRITABLE));
    }
    let parts = Parts { engine: a.engine, ops: a.ops, pass: a.pass, frontend: a.frontend, device: a.device };
    let files = if a.c { files_in_c(&a.name) } else { files_in_rust(&a.name, &api, parts) };
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
        let mut made = serde_json::json!({"schema": 1, "folder": to.display().to_string(), "files": names});
        if !a.c {
            made["api"] = api.display().to_string().into();
        }
        print_json(&made)?;
    } else {
        let (dir, name) = (to.display(), &a.name);
        let (build, library) = match a.c {
            true => ("make", format!("libge_{name}.so")),
            false => ("cargo test && cargo build --release", format!("target/release/libge_{name}.so")),
        };
        let next = format!("cd {dir} && {build}\n  ge plugin check {library}\n  ge plugin add {library}");
        say(global, &format!("made `{dir}`; now:\n  {next}"));
    }
    Ok(0)
}

/// The folder of the crate ge-plugin-api: the given one, else the one of the installation, else the
/// one of the repository that built this program.
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
