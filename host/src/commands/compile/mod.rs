//! `ge compile MODEL -o OUT.om`: compiles a model, writes the OM and reports on the result.
mod build;
mod fallback;
mod summary;

use super::inputs::NamedInputs;
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{print_json, say};
use crate::session::import;
use crate::{ErrorKind, Result};
use build::Wishes;
pub use build::{BuildFlags, compile_to_run, import_model};
use clap::Args;
pub use fallback::known_operators;
use std::path::{Path, PathBuf};
use std::time::Instant;
pub use summary::peak_bytes;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ge compile model.onnx -o model.om --input-shape \"x:1,3,224,224\"")]
pub struct CompileArgs {
    /// The model: ONNX, or ge's text form; `-` reads it from stdin
    #[arg(required_unless_present = "help_options")]
    model: Option<PathBuf>,
    /// The OM file to write [default: the model's name with .om, in the working folder]
    #[arg(short, long, value_name = "OUT.om")]
    output: Option<PathBuf>,
    #[command(flatten)]
    flags: CompileFlags,
    /// The model is compiled for values of inputs, which are then constants
    #[command(flatten)]
    input: NamedInputs,
    /// Outputs that are inputs of the next step; `ge run --steps` hands them on in memory
    #[arg(long, value_name = "OUT:IN,…")]
    state: Option<String>,
    /// Runs these inputs (a folder as `ge run --inputs` takes it, or one of such folders) in the
    /// model's types and in the reduced ones, and keeps in f32 what differs too much
    #[arg(long, value_name = "DIR")]
    calibrate: Option<PathBuf>,
    #[command(flatten)]
    build: BuildFlags,
    /// Threads [default: cores, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Lists every option with its values and default
    #[arg(long)]
    help_options: bool,
}

/// Runs the command.
pub fn run(global: &Global, a: &CompileArgs) -> Result<u8> {
    if a.help_options {
        if global.json {
            print_json(&options_json())?;
        } else {
            crate::commands::talk::print(&help_options())?;
        }
        return Ok(0);
    }
    let Some(model) = &a.model else { return Err(crate::Error::usage("a model is needed")) };
    super::stdin::with(model, |model| compile(global, a, model))
}

fn compile(global: &Global, a: &CompileArgs, model: &Path) -> Result<u8> {
    // As with other compilers, the result goes to the working folder and is named after its source.
    let beside = model.file_stem().map_or_else(|| "main".into(), |s| PathBuf::from(s).with_extension("om"));
    let output = a.output.as_ref().unwrap_or(&beside);
    apart(model, output, a.build.bundle.as_deref())?;
    let start = Instant::now();
    if let Some(j) = a.jobs {
        ge_plugin::services::set_jobs(usize::from(j));
    }
    let fixed = a.input.given(global);
    let calibrate = a.calibrate.as_deref();
    let wishes = Wishes { fixed: Some(&fixed), calibrate, state: a.state.as_deref(), ..Wishes::of(&a.build)? };
    let (session, compiled) = build::compile(global, model, &a.flags, &wishes).map_err(|e| import::placed(model, e))?;
    if let Some(stop) = &compiled.stopped {
        say(global, &format!("stopped at {}: the graph is in {}", stop.step, stop.path.display()));
        if global.json {
            print_json(
                &serde_json::json!({"schema": 1, "stopped": stop.step, "graph": stop.path.display().to_string()}),
            )?;
        }
        return Ok(0);
    }
    let fallbacks = fallback::gate(a.build.fail_on_fallback.as_deref(), &session, &compiled)?;
    let report = compiled.write_om(output)?;
    let summary = summary::of(&compiled, &fallbacks, output, report.file_len, start);
    say(global, &summary.0);
    if global.json {
        print_json(&summary.1)?;
    }
    // The process ends here, so freeing the model node by node would only cost time.
    std::mem::forget(compiled);
    Ok(0)
}

/// Checks that the files to be written differ from each other and from the model.
fn apart(model: &Path, output: &Path, bundle: Option<&Path>) -> Result<()> {
    // A file that does not exist yet is identified by its folder and name.
    let at = |p: &Path| match (p.canonicalize(), p.parent(), p.file_name()) {
        (Ok(p), ..) => Some(p),
        (_, Some(dir), Some(name)) => {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            Some(dir.canonicalize().ok()?.join(name))
        }
        _ => None,
    };
    let same = |a: &Path, b: &Path| a == b || at(a).is_some_and(|a| at(b) == Some(a));
    let pairs = [
        (Some(output), model, "-o", "is the model itself"),
        (bundle, model, "--bundle", "is the model itself"),
        (bundle, output, "--bundle", "is where the OM goes"),
    ];
    for (written, other, flag, what) in pairs {
        if let Some(w) = written.filter(|w| same(w, other)) {
            return Err(crate::Diagnostic::error(format!("`{flag} {}` {what}: it would be written over", w.display()))
                .code(ge_codes::USAGE)
                .help(format!("give `{flag}` a file of its own"))
                .of(ErrorKind::USAGE));
        }
    }
    Ok(())
}

fn options_json() -> serde_json::Value {
    let one = |d: &crate::options::Decl| {
        let mut v = serde_json::json!({"name": d.name, "default": d.default, "help": d.help});
        if let crate::options::Kind::OneOf(list) = d.kind {
            v["values"] = serde_json::json!(list);
        }
        v["expected"] = serde_json::json!(d.kind.refuse("\u{1}").unwrap_or_else(|| "text".into()));
        v
    };
    serde_json::json!({"schema": 1, "options": crate::options::TABLE.iter().map(one).collect::<Vec<_>>()})
}

fn help_options() -> String {
    let mut out = String::new();
    for d in crate::options::TABLE {
        let values = d.kind.refuse("\u{1}").unwrap_or_else(|| "text".into());
        let default = if d.default.is_empty() { "\"\"" } else { d.default };
        out.push_str(&format!("{}\n    {}\n    {values} [default: {default}]\n", d.name, d.help));
    }
    out
}
