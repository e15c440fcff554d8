//! `ge plugin list`: which plugins are loaded, and why others are not. `ge plugin check LIB`: runs
//! the conformance suite on one library. `ge plugin trust FILE`: trusts a configuration in the
//! working folder. `ge plugin new`, `add`, `ops`, `why` and others have files of their own.
mod add;
mod contents;
mod kit;
mod new;
mod why;

use crate::commands::flags::Global;
use crate::commands::talk::{print, print_json};
use crate::render::print_error;
use crate::{Error, ErrorKind, Result};
use clap::Subcommand;
use ge_plugin::conformance;
use ge_plugin::{LoadRequest, PluginSet, Status, Want};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub enum PluginCommand {
    /// Lists every entry of plugins.toml and what became of it
    #[command(after_help = "Example:\n  ge plugin list --json")]
    List,
    /// Makes a plugin's crate: manifest, sources with unit tests, a reference model, CI file,
    /// licence
    #[command(after_help = "Example:\n  ge plugin new acme --engine --ops && cd acme && cargo test")]
    New(new::NewArgs),
    /// Writes a library's entry, with its digest, to a plugins.toml
    #[command(after_help = "Example:\n  ge plugin add target/release/libge_acme.so")]
    Add(add::AddArgs),
    /// Lists the operators of all plugins
    #[command(after_help = "Example:\n  ge plugin ops --of onnx_ml")]
    Ops(contents::OpsArgs),
    /// Lists the options that plugins take in plugins.toml
    #[command(after_help = "Example:\n  ge plugin options --json")]
    Options(contents::ListArgs),
    /// Lists the passes of all plugins
    #[command(after_help = "Example:\n  ge plugin passes")]
    Passes(contents::ListArgs),
    /// Lists the engines of all plugins by cost
    #[command(after_help = "Example:\n  ge plugin engines")]
    Engines(contents::ListArgs),
    /// Says which engines take a node of a model, at what cost, and why others do not
    #[command(after_help = "Example:\n  ge plugin why model.onnx conv1")]
    Why(why::WhyArgs),
    /// Trusts a plugins.toml as it is now, so that it is taken where it lies in the working folder
    #[command(after_help = "Example:\n  ge plugin trust plugins.toml")]
    Trust {
        /// The configuration
        file: PathBuf,
    },
    /// Runs the conformance suite on a plugin's library, in a process of its own
    #[command(after_help = "Example:\n  ge plugin check target/release/libge_nn.so")]
    Check {
        /// The library (libge_NAME.so)
        library: PathBuf,
        /// Compiles and runs nothing: rules C11 and C12 are left out
        #[arg(long)]
        no_run: bool,
    },
}

/// Runs the command.
pub fn run(global: &Global, command: &PluginCommand) -> Result<u8> {
    match command {
        PluginCommand::List => list(global),
        PluginCommand::Check { library, no_run } => check(global, library, *no_run),
        PluginCommand::Trust { file } => trust(global, file),
        PluginCommand::New(a) => new::run(global, a),
        PluginCommand::Add(a) => add::run(global, a),
        PluginCommand::Ops(a) => contents::ops(global, a),
        PluginCommand::Options(a) => contents::options(global, a),
        PluginCommand::Passes(a) => contents::passes(global, a),
        PluginCommand::Engines(a) => contents::engines(global, a),
        PluginCommand::Why(a) => why::run(global, a),
    }
}

fn trust(global: &Global, file: &Path) -> Result<u8> {
    let path = ge_plugin::trust::trust(file)?.display().to_string();
    if global.json {
        print_json(&serde_json::json!({"schema": 1, "trusted": path}))?;
    } else {
        crate::commands::talk::say(global, &format!("`{path}` is trusted as it is now"));
    }
    Ok(0)
}

fn check(global: &Global, library: &Path, no_run: bool) -> Result<u8> {
    let program = std::env::current_exe().map_err(|e| Error::failed(format!("cannot find the own executable: {e}")))?;
    // The probe runs in another folder, so the path must be absolute.
    let config = ge_plugin::config::find(global.plugins.as_deref()).and_then(|c| {
        std::fs::canonicalize(&c).map_err(|e| Error::failed(format!("cannot read `{}`: {e}", c.display())))
    });
    let config = match (config, &global.plugins) {
        (Err(e), Some(_)) => return Err(e),
        _ if no_run => PathBuf::from(super::NO_RUN),
        (found, _) => found.unwrap_or_default(),
    };
    let report = conformance::check(library, &program, &[OsStr::new(super::PROBE), config.as_os_str()])?;
    let passed = report.passed();
    if global.json {
        let items: Vec<serde_json::Value> = report
            .items
            .iter()
            .map(|i| serde_json::json!({"name": i.name, "passed": i.failure.is_none(), "failure": i.failure}))
            .collect();
        let rules: Vec<serde_json::Value> = report
            .items
            .iter()
            .map(|i| {
                let detail = i.failure.as_ref().unwrap_or(&i.detail);
                serde_json::json!({"id": i.rule.id(), "rule": i.rule.title(), "subject": i.name, "ok": i.failure.is_none(), "detail": detail})
            })
            .collect();
        print_json(
            &serde_json::json!({"schema": 1, "library": report.path.display().to_string(), "passed": passed, "items": items, "rules": rules}),
        )?;
    } else {
        let mut text = String::new();
        for i in &report.items {
            match &i.failure {
                None if i.detail.is_empty() => text.push_str(&format!("ok   {:<4} {}\n", i.rule.id(), i.name)),
                None => text.push_str(&format!("ok   {:<4} {}: {}\n", i.rule.id(), i.name, i.detail)),
                Some(why) => text.push_str(&format!("FAIL {:<4} {}: {why}\n", i.rule.id(), i.name)),
            }
        }
        print(&text)?;
    }
    if let Some(e) = report.error() {
        print_error(&e, false);
    }
    Ok(if passed { 0 } else { 5 })
}

fn list(global: &Global) -> Result<u8> {
    let registry = PluginSet::load_lenient(&LoadRequest { config: global.plugins.clone(), want: Want::All })?;
    let mut failed = false;
    let mut rows = Vec::new();
    let mut text = format!("plugins of {}\n", registry.config().display());
    for p in registry.plugins() {
        let refusal = if let Status::Refused(e) = &p.status { Some(e) } else { None };
        failed |= refusal.is_some() && !p.optional;
        let engines: Vec<serde_json::Value> = registry
            .engines()
            .iter()
            .filter(|e| e.owner().name == p.name)
            .map(|e| {
                let tilings: serde_json::Map<String, serde_json::Value> =
                    e.tilings().unwrap_or_default().into_iter().map(|(op, place)| (op, place.into())).collect();
                serde_json::json!({"name": e.name(), "cost": e.info.cost, "excluded": e.excluded, "ops": e.op_types().map(|o| o.len()).unwrap_or(0), "tiling": tilings})
            })
            .collect();
        rows.push(serde_json::json!({
            "name": p.name, "version": p.version, "kinds": p.kinds, "path": p.file_name(), "status": p.status.name(), "optional": p.optional,
            "api": p.api, "provides": p.provides, "engines": engines, "error": refusal.map(|e| e.message().to_owned()),
        }));
        text.push_str(&format!(
            "{:<10} {:<8} {:<9} {:<22} {}\n",
            p.name,
            p.version,
            p.status.name(),
            p.kinds.join(","),
            p.provides.join(" ")
        ));
        if let Some(e) = refusal {
            for d in &e.diagnostics {
                text.push_str(&format!("    {}: {}\n", p.name, d.message));
            }
        }
    }
    if global.json {
        print_json(
            &serde_json::json!({"schema": 1, "config": registry.config().display().to_string(), "plugins": rows}),
        )?;
    } else {
        print(&text)?;
    }
    if failed {
        let all: Vec<_> = registry
            .plugins()
            .iter()
            .filter(|p| !p.optional)
            .filter_map(|p| if let Status::Refused(e) = &p.status { Some(e.diagnostics.to_vec()) } else { None })
            .flatten()
            .collect();
        print_error(&Error::all(ErrorKind::PLUGIN, all), false);
        return Ok(5);
    }
    Ok(0)
}
