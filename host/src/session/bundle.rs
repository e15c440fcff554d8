//! A bundle that reproduces a failure: the graph as it stood, the stage, options, SoC and versions, in one JSON file.
use crate::options::OptionMap;
use crate::session::Session;
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_compiler::pass::Records;
use ge_compiler::stages::{STAGES, run_range};
use ge_ir::{ConstData, ConstTensor, Model};
use ge_plugin_api::types::Blob;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// Form of the file.
    pub schema: u32,
    /// Version of ge.
    pub version: String,
    /// Name of the model.
    pub model: String,
    /// The stage that failed on the graph; empty: the graph is as it was imported.
    pub stage: String,
    /// What was said, if something failed.
    pub error: String,
    /// Options that were given.
    pub options: BTreeMap<String, String>,
    /// SoC that was asked for.
    pub soc: Option<String>,
    /// Plugins and their versions, in order.
    pub plugins: Vec<(String, String)>,
    /// Whether the constants are the model's own.
    pub weights: bool,
    /// The graph.
    pub graph: String,
}

/// Whether constants travel along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// They do.
    Kept,
    /// Each is all zeros.
    Zeroed,
}

impl Bundle {
    /// Of a graph in a session.
    ///
    /// # Errors
    /// The graph cannot be printed.
    pub fn new(session: &Session, name: &str, graph: &Model, options: &OptionMap, weights: Weights) -> Result<Bundle> {
        let print = |m: &Model| {
            ge_ir::text::to_string(m).map_err(|e| Error::failed(format!("the graph cannot be printed: {e}")))
        };
        let graph = match weights {
            Weights::Kept => print(graph)?,
            Weights::Zeroed => print(&zeroed(graph))?,
        };
        Ok(Bundle {
            schema: 1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: name.to_owned(),
            stage: String::new(),
            error: String::new(),
            options: options.given().clone(),
            soc: session.soc_name().map(str::to_owned),
            plugins: session
                .registry()
                .plugins()
                .iter()
                .filter(|p| p.usable())
                .map(|p| (p.name.clone(), p.version.clone()))
                .collect(),
            weights: weights == Weights::Kept,
            graph,
        })
    }
    /// Writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| Error::internal(e.to_string()))?;
        crate::commands::write_atomic(path, &text)
    }
    /// Writes it under a name of its own, here, or in the system's temporary folder where that cannot be. The path.
    ///
    /// # Errors
    /// Neither can be written.
    pub fn write_somewhere(&self) -> Result<PathBuf> {
        let name = format!("ge-bundle-{}-{}.json", self.model, std::process::id());
        let here = PathBuf::from(&name);
        if self.write(&here).is_ok() {
            return Ok(here);
        }
        let there = std::env::temp_dir().join(name);
        self.write(&there).map(|()| there)
    }
    /// Runs what it holds in a session: its stage on its graph, or the whole compilation.
    ///
    /// # Errors
    /// What fails; a stage that cannot be run alone on a text.
    pub fn run(&self, session: &Session, options: &OptionMap) -> Result<()> {
        let model = super::import::parse_text(Path::new("bundle"), self.graph.as_bytes())?;
        if self.stage.is_empty() {
            return session.compile(&self.model, model, options, &super::Quiet).map(drop);
        }
        let place = |name: &str| STAGES.iter().position(|s| *s == name);
        let at = place(&self.stage).filter(|s| place("sync").is_some_and(|last| *s <= last));
        let Some(at) = at else { return Err(Error::usage(format!("stage `{}` cannot be run alone", self.stage))) };
        // The plans after `streams` are made anew from there.
        let from = at.min(place("streams").unwrap_or(at));
        let toolbox = session.toolbox(options, false)?;
        run_range(model, &toolbox, &options.resolved(), from, at, &mut Records::default())
            .map(drop)
            .map_err(|e| e.into_error())
    }
    /// Reads one.
    ///
    /// # Errors
    /// The file cannot be read, or is no bundle.
    pub fn read(path: &Path) -> Result<Bundle> {
        let shown = path.display().to_string();
        let bytes = super::import::map(path)?;
        serde_json::from_slice::<Bundle>(&bytes).ok().filter(|b| b.schema == 1).ok_or_else(|| {
            Diagnostic::error(format!("`{shown}` is no bundle"))
                .code("GE-E0120")
                .at(shown.clone(), 0, 0)
                .help("give the file that `ge compile --bundle FILE`, or an internal error, has written")
                .of(ErrorKind::DAMAGED)
        })
    }
}

/// A compilation that has failed.
pub struct Failure<'a> {
    /// Name of the model.
    pub name: &'a str,
    /// The stage that failed by a fault of ours, and its graph.
    pub failed: Option<(&'static str, Model)>,
    /// Options that were given.
    pub options: &'a OptionMap,
    /// Whether constants travel along.
    pub weights: Weights,
    /// Where the bundle is written; none: under a name of its own.
    pub path: Option<&'a Path>,
}

impl Failure<'_> {
    /// The error with the bundle that reproduces it, which is written: of the stage that failed where that alone fails in the same
    /// way, else of the whole compilation of what `again` imports.
    pub fn bundled(self, mut e: Error, session: &Session, again: &dyn Fn() -> Result<Model>) -> Error {
        let said = e.to_string();
        let of = |stage: &str, graph: &Model| -> Result<Bundle> {
            let mut b = Bundle::new(session, self.name, graph, self.options, self.weights)?;
            stage.clone_into(&mut b.stage);
            b.error.clone_from(&said);
            Ok(b)
        };
        let same = |b: &Bundle| {
            let run = || b.run(session, self.options);
            let out = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            matches!(out, Ok(Err(e)) if e.to_string() == said)
        };
        let make = || -> Result<PathBuf> {
            let alone = self.failed.as_ref().and_then(|(s, g)| of(s, g).ok()).filter(same);
            let b = alone.map_or_else(|| of("", &again()?), Ok)?;
            match self.path {
                Some(p) => b.write(p).map(|()| p.to_path_buf()),
                None => b.write_somewhere(),
            }
        };
        let ours = e.kind == ErrorKind::INTERNAL;
        let help = match make() {
            Ok(p) if ours => {
                format!("this is a bug of ge: please report it with `{0}`; `ge opt --repro {0}` runs it", p.display())
            }
            Ok(p) => format!("`ge opt --repro {}` runs it again", p.display()),
            Err(why) if ours => format!("this is a bug of ge: please report it; no bundle could be written: {why}"),
            Err(why) => format!("no bundle could be written: {why}"),
        };
        match e.diagnostics.iter_mut().next() {
            Some(d) if ours || d.help.is_empty() => d.help = help.into(),
            Some(d) => d.notes.push(help.into()),
            None => {}
        }
        e
    }
}

/// The same graph with constants of zeros: types and shapes stay.
fn zeroed(m: &Model) -> Model {
    let mut out = m.clone();
    for g in out.graphs_mut() {
        let constants: Vec<_> = g.nodes().filter(|n| n.is_const()).map(|n| n.id()).collect();
        for id in constants {
            let Some(t) = g.get(id).and_then(|n| n.attrs().tensor("value")) else { continue };
            let Some(bits) = t.dtype.bits() else { continue };
            let zero = Blob::from_owner(vec![0u8; (bits as usize).div_ceil(8).max(1)]);
            let zeros = ConstTensor {
                dtype: t.dtype,
                dims: t.dims.clone(),
                data: ConstData::Splat(zero),
                file: Default::default(),
            };
            g.set_attr(id, "value", zeros);
        }
    }
    out
}
