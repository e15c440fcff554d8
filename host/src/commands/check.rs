//! `ge check OM`: whether this `ge` with these plugins runs the file (yes, rebuild or no), and why.
use crate::commands::flags::Global;
use crate::commands::talk::{print, print_json};
use crate::session::fresh::{changed, compatible};
use crate::session::import::{self, FileKind};
use crate::session::read_om;
use crate::{Diagnostic, Error, ErrorKind, Result};
use clap::Args;
use ge_model::CompiledModel;
use ge_plugin::{LoadRequest, PluginRecord, PluginSet, Registry, Status, Want};
use ge_plugin_api::frontend::FileRef;
use ge_plugin_api::types::Blob;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  ge check model.om")]
pub struct CheckArgs {
    /// An OM file
    model: PathBuf,
}

/// Prints the answer. Returns 0 only for yes.
pub fn run(global: &Global, a: &CheckArgs) -> Result<u8> {
    let bytes = import::map(&a.model)?;
    if import::kind_of(&bytes) != FileKind::Om {
        if let Some(what) = source(global, &a.model, bytes)? {
            return Err(Diagnostic::error(format!("`{}` is {what}: it is not compiled yet", a.model.display()))
                .found(what, "an OM file")
                .help(format!(
                    "`ge compile {0}` makes an OM of it; `ge inspect {0} --support` says whether it can",
                    a.model.display()
                ))
                .raise(ge_codes::NOT_COMPILED));
        }
    }
    let (word, reasons, code) = match read_om(&a.model) {
        Ok(m) => {
            // Manifests list the engines and devices, so no library is loaded.
            let registry =
                PluginSet::load_lenient(&LoadRequest { config: global.plugins.clone(), want: Want::Nothing })?;
            let (word, reasons) = judge(&m, &registry);
            (word, reasons, u8::from(word != "yes"))
        }
        Err(e) if e.kind == ErrorKind::USAGE => return Err(e),
        // Another version of the format: the model must be compiled again. A damaged file: no.
        Err(e) => {
            let foreign = e.diagnostics.iter().any(|d| ge_codes::FOREIGN_OM.is(d));
            let word = if e.kind == ErrorKind::UNSUPPORTED && !foreign { "rebuild" } else { "no" };
            (word, texts(&e), if e.kind == ErrorKind::DAMAGED { 4 } else { 1 })
        }
    };
    if global.json {
        print_json(
            &serde_json::json!({"schema": 1, "model": a.model.display().to_string(), "answer": word, "reasons": reasons}),
        )?;
    } else if reasons.is_empty() {
        print(&format!("{word}: ge {} runs it with the plugins enabled here\n", env!("CARGO_PKG_VERSION")))?;
    } else {
        print(&format!("{word}: {}\n", reasons.join("\n  ")))?;
    }
    Ok(code)
}

/// What the file is, if it is a model but not an OM.
fn source(global: &Global, path: &Path, bytes: Blob) -> Result<Option<String>> {
    if import::kind_of(&bytes) == FileKind::Text {
        return Ok(Some("a graph in text form".into()));
    }
    let want = Want::kinds(&["frontend"]);
    let registry = PluginSet::load_lenient(&LoadRequest { config: global.plugins.clone(), want })?;
    let file = FileRef { path: path.display().to_string().as_str().into(), bytes };
    let front = registry.frontends().iter().find(|f| f.recognises(&file));
    Ok(front.map(|f| format!("an {} model", f.framework.to_uppercase())))
}

fn texts(e: &Error) -> Vec<String> {
    e.diagnostics.iter().map(|d| d.message.to_string()).collect()
}

/// Plugins that are enabled and usable, as far as can be seen without loading them.
fn here(registry: &Registry) -> impl Iterator<Item = &PluginRecord> {
    registry.plugins().iter().filter(|p| p.usable())
}

fn judge(m: &CompiledModel, registry: &Registry) -> (&'static str, Vec<String>) {
    let mut no = Vec::new();
    let mut rebuild = Vec::new();
    let ours = env!("CARGO_PKG_VERSION");
    if m.version != ours && !compatible(&m.version, ours) {
        rebuild.push(format!("it was compiled by ge {}, this is ge {ours}", m.version));
    }
    for engine in m.engines_needed().into_iter().filter(|e| !e.is_empty()) {
        // An excluded engine gets no new nodes, but still runs what it compiled.
        if !here(registry).any(|p| p.provides.iter().any(|e| e == engine)) {
            let node = m.graphs.iter().flat_map(|g| &g.nodes).find(|n| n.engine == engine);
            let who = node.map_or(String::new(), |n| format!(" (`{}`, {})", n.name, n.op));
            no.push(format!("it needs engine {engine}{who}, which no enabled plugin brings"));
        }
    }
    for p in &m.plugins {
        match registry.plugin(&p.name) {
            // A missing plugin that only took part in the compilation does not matter; engines were
            // checked above.
            None => {}
            Some(here) => {
                if let Status::Refused(e) = &here.status {
                    no.push(format!("plugin `{}` is refused: {}", p.name, e.message()));
                }
            }
        }
    }
    rebuild.extend(changed(m, registry));
    for p in registry.plugins().iter().filter(|p| !p.optional && m.plugins.iter().all(|q| q.name != p.name)) {
        if let Status::Refused(e) = &p.status {
            no.push(format!("plugin `{}`, which is not optional, is refused: {}", p.name, e.message()));
        }
    }
    if !here(registry).any(|p| p.kinds.iter().any(|k| k == "device")) {
        no.push("no enabled plugin brings a device".into());
    }
    if !no.is_empty() {
        no.extend(rebuild);
        return ("no", no);
    }
    if rebuild.is_empty() { ("yes", rebuild) } else { ("rebuild", rebuild) }
}
