//! A bundle that reproduces a failure: the graph at that point, the stage, options, SoC and
//! versions, in one JSON file.
use crate::options::OptionMap;
use crate::session::Session;
use crate::{Diagnostic, Error, ErrorKind, Result};
use ge_compiler::pass::{Blamed, PassManager, Records};
use ge_compiler::pipeline::passes::PASSES;
use ge_compiler::pipeline::{Stage, run_range};
use ge_ir::{ConstTensor, Model};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Contents of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// Version of the file format.
    pub schema: u32,
    /// Version of ge.
    pub version: String,
    /// Name of the model.
    pub model: String,
    /// The stage that failed on the graph; empty: the graph is as imported.
    pub stage: String,
    /// The pass of that stage that failed; empty if none did.
    #[serde(default)]
    pub pass: String,
    /// The node that the pass was looking at, for a pass over nodes; empty otherwise.
    #[serde(default)]
    pub node: String,
    /// What to run on `graph`: `pass`, `stage`, or the whole compilation (the graph is then as
    /// imported).
    #[serde(default)]
    pub alone: Alone,
    /// The error message; empty if nothing failed.
    pub error: String,
    /// The options that were given.
    pub options: BTreeMap<String, String>,
    /// The SoC that was requested.
    pub soc: Option<String>,
    /// Names and versions of the plugins, in their order.
    pub plugins: Vec<(String, String)>,
    /// Whether `graph` holds the model's own constants; if false, they are zeros.
    pub weights: bool,
    /// The graph as text.
    pub graph: String,
    /// The file that the graph was read from, for messages.
    #[serde(skip)]
    pub file: String,
}

/// What a bundle runs on its graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alone {
    /// Only the pass.
    Pass,
    /// Only the stage.
    #[default]
    Stage,
    /// The whole compilation.
    Whole,
}

/// How a bundle stores constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// With their values.
    Kept,
    /// As zeros of the same type and shape.
    Zeroed,
}

impl Bundle {
    /// Creates a bundle for a graph in a session.
    ///
    /// # Errors
    /// Fails if the graph cannot be printed.
    pub fn new(session: &Session, name: &str, graph: &Model, options: &OptionMap, weights: Weights) -> Result<Bundle> {
        let print = |m: &Model| {
            // A bundle is a single file, so constants cannot go into a side file.
            ge_ir::text::to_string_whole(m).map_err(|e| Error::failed(format!("the graph cannot be printed: {e}")))
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
            pass: String::new(),
            node: String::new(),
            alone: Alone::Whole,
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
            file: String::new(),
        })
    }
    /// Writes the bundle to a file.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| Error::internal(e.to_string()))?;
        crate::files::write_atomic(path, &text)
    }
    /// Writes the bundle under a generated name into the current folder or, if that fails, into the
    /// system's temporary folder. Returns the path.
    ///
    /// # Errors
    /// Fails if neither folder can be written.
    pub fn write_somewhere(&self) -> Result<PathBuf> {
        let name = format!("ge-bundle-{}-{}.json", self.model, std::process::id());
        let here = PathBuf::from(&name);
        if self.write(&here).is_ok() {
            return Ok(here);
        }
        let there = std::env::temp_dir().join(name);
        self.write(&there).map(|()| there)
    }
    /// Describes what failed and what [`Bundle::run`] runs.
    pub fn what(&self) -> String {
        let at = if self.node.is_empty() { String::new() } else { format!(" at `{}`", self.node) };
        let failed = match (self.pass.as_str(), self.stage.as_str()) {
            ("", "") => "what failed is not known".to_owned(),
            ("", stage) => format!("what failed: stage {stage}"),
            (pass, stage) => format!("what failed: pass {pass} of stage {stage}{at}"),
        };
        let run = match self.alone {
            Alone::Pass => "the pass alone",
            Alone::Stage if !self.stage.is_empty() => "the stage alone",
            _ => "the whole compilation",
        };
        format!("{failed}; run again: {run}")
    }
    /// Runs the contents in a session: the pass or the stage on the graph, or the whole
    /// compilation.
    ///
    /// # Errors
    /// Returns the error of what was run; also fails if the stage cannot be run alone on a text.
    pub fn run(&self, session: &Session, options: &OptionMap) -> Result<()> {
        let file = if self.file.is_empty() { "bundle" } else { &self.file };
        let place = format!("{file} (its graph)");
        let model = super::import::parse_text(Path::new(&place), self.graph.as_bytes())?;
        if self.alone == Alone::Pass {
            let toolbox = session.toolbox(options, false)?;
            let (resolved, mut model) = (options.resolved()?, model);
            let passes = PassManager::new(PASSES, &toolbox, &resolved).map_err(|e| e.into_error())?;
            if !passes.knows(&self.pass) {
                let here = |name: &String| session.registry().plugin(name).is_some();
                if !self.plugins.iter().all(|(name, _)| here(name)) {
                    // The pass belongs to a plugin that is not enabled here, so it cannot fail.
                    return Ok(());
                }
                return Err(Diagnostic::error(format!("the bundle runs pass `{}`, which there is not", self.pass))
                    .at(file, 0, 0)
                    .help("`ge opt --list` shows the passes there are")
                    .raise(ge_codes::TEXT_FORM));
            }
            let done = passes.again(&self.stage, &self.pass, &mut model, &mut Records::default());
            return done.map_err(|e| e.into_error());
        }
        if self.stage.is_empty() || self.alone == Alone::Whole {
            return session.compile(&self.model, model, options, &super::Quiet).map(drop);
        }
        let at = Stage::named(&self.stage).filter(|s| *s <= Stage::LAST_TEXT);
        let Some(at) = at else { return Err(Error::usage(format!("stage `{}` cannot be run alone", self.stage))) };
        // A text does not hold the plans made after `streams`, so those stages are run again.
        let from = at.min(Stage::Streams);
        let toolbox = session.toolbox(options, false)?;
        run_range(model, &toolbox, &options.resolved()?, from, at, &mut Records::default())
            .map(drop)
            .map_err(|e| e.into_error())
    }
    /// Reads a bundle.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a bundle.
    pub fn read(path: &Path) -> Result<Bundle> {
        let shown = path.display().to_string();
        let bytes = super::import::map(path)?;
        let bad = |found: String, expected: &str| {
            Diagnostic::error(format!("`{shown}` is no bundle"))
                .at(shown.clone(), 0, 0)
                .found(found, expected)
                .help("give the file that `ge compile --bundle FILE`, or an internal error, has written")
                .raise(ge_codes::TEXT_FORM)
        };
        if bytes.is_empty() {
            return Err(bad("an empty file".into(), "a JSON document with a graph"));
        }
        let whole: serde_json::Value = serde_json::from_slice(&bytes).map_err(|e| {
            let what = if e.is_eof() { "JSON that ends too early" } else { "a text that is no JSON" };
            bad(format!("{what} ({e})"), "a JSON document with a graph")
        })?;
        match whole.get("schema") {
            Some(s) if *s == 1 => {}
            Some(s) => return Err(bad(format!("schema {s}"), "schema 1")),
            None => return Err(bad("JSON without a schema".into(), "schema 1")),
        }
        let mut b: Bundle = serde_json::from_value(whole).map_err(|e| bad(e.to_string(), "the fields of a bundle"))?;
        b.file = shown;
        Ok(b)
    }
}

/// The stage where a compilation failed.
pub struct Failed {
    /// The failed stage.
    pub stage: &'static str,
    /// The failed pass of that stage, if a pass failed.
    pub pass: Option<Blamed>,
    /// The graph as the stage left it.
    pub graph: Model,
}

/// A failed compilation.
pub struct Failure<'a> {
    /// Name of the model.
    pub name: &'a str,
    /// The stage that failed, and its graph; `None` if no stage failed through a fault.
    pub failed: Option<Failed>,
    /// The options that were given.
    pub options: &'a OptionMap,
    /// How the bundle stores constants.
    pub weights: Weights,
    /// Where to write the bundle; `None`: under a generated name.
    pub path: Option<&'a Path>,
}

impl Failure<'_> {
    /// Writes a bundle that reproduces the error, and returns the error with the bundle's path. The
    /// bundle runs only the failed pass if that alone fails in the same way, else the stage, else
    /// the whole compilation of what `again` imports. It names stage and pass in each case.
    pub fn bundled(self, mut e: Error, session: &Session, again: &dyn Fn() -> Result<Model>) -> Error {
        let said = e.to_string();
        let of = |alone: Alone, graph: &Model| -> Result<Bundle> {
            let mut b = Bundle::new(session, self.name, graph, self.options, self.weights)?;
            if let Some(f) = &self.failed {
                f.stage.clone_into(&mut b.stage);
                if let Some(p) = &f.pass {
                    b.pass.clone_from(&p.pass);
                    b.node = p.node.clone().unwrap_or_default();
                }
            }
            b.alone = alone;
            b.error.clone_from(&said);
            Ok(b)
        };
        let same = |b: &Bundle| {
            let run = || b.run(session, self.options);
            let out = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            matches!(out, Ok(Err(e)) if e.to_string() == said)
        };
        let make = || -> Result<PathBuf> {
            let alone = self.failed.as_ref().and_then(|f| {
                let pass = f.pass.as_ref().and_then(|_| of(Alone::Pass, &f.graph).ok()).filter(same);
                pass.or_else(|| of(Alone::Stage, &f.graph).ok().filter(same))
            });
            let b = alone.map_or_else(|| of(Alone::Whole, &again()?), Ok)?;
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

/// Returns the same graph with all constants zero; types and shapes stay.
fn zeroed(m: &Model) -> Model {
    let mut out = m.clone();
    for g in out.graphs_mut() {
        let constants: Vec<_> = g.nodes().filter(|n| n.is_const()).map(|n| n.id()).collect();
        for id in constants {
            let Some(t) = g.get(id).and_then(|n| n.attrs().tensor("value")) else { continue };
            let Some(bits) = t.dtype.bits() else { continue };
            let zero = vec![0u8; (bits as usize).div_ceil(8).max(1)];
            let Some(zeros) = ConstTensor::splat(t.dtype, &t.dims, &zero) else { continue };
            g.set_attr(id, "value", zeros);
        }
    }
    out
}
