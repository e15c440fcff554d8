//! From a model file to the compiled model: import, compilation with everything that the flags ask
//! for, and reports of failures.
use super::super::calibration;
use super::super::inputs::{self, Given, Named};
use super::super::specialise::{self, Input};
use super::fallback;
use crate::commands::flags::{CompileFlags, Global};
use crate::commands::talk::{say, say_warnings};
use crate::options::OptionMap;
use crate::render::Progress;
use crate::session::bundle::{Bundle, Failure, Weights};
use crate::session::dump::{Dumps, Wanted};
use crate::session::import::{self, FileKind, Imported};
use crate::session::{Compiled, Session, SessionOptions, gears, steps, survey, symbols};
use crate::{ErrorKind, Result};
use clap::Args;
use ge_compiler::pipeline::Observer;
use ge_plugin::Want;
use ge_plugin_api::frontend::InputShape;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::tensor::Container;
use ge_plugin_api::types::{DType, TensorDesc};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is written of a compilation beside the model, and what makes it fail; on compile and run.
#[derive(Args, Clone, Debug, Default)]
pub struct BuildFlags {
    /// Fail if a node with a task falls back to an AI CPU engine; with names: only for these
    /// operators
    #[arg(long, value_name = "OP,…", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub fail_on_fallback: Option<String>,
    /// Writes the graph as text after these stages (or `all`) and passes, with what the stages have
    /// decided
    #[arg(long, value_name = "STAGE|pass:NAME,…", value_delimiter = ',')]
    pub dump: Vec<String>,
    /// Writes the graph as text after each pass that has changed it
    #[arg(long)]
    pub dump_passes: bool,
    /// Folder of the dumps
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dump_dir: PathBuf,
    /// Writes what reproduces this compilation into one file
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// With --bundle, and for the bundle of an internal error: constants become zeros
    #[arg(long)]
    pub no_weights: bool,
}

impl BuildFlags {
    /// The flags that were given, as a note names them.
    pub fn given(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.dump.is_empty() {
            out.push(format!("--dump {}", self.dump.join(",")));
        }
        if self.dump_passes {
            out.push("--dump-passes".to_owned());
        }
        if let Some(file) = &self.bundle {
            out.push(format!("--bundle {}", file.display()));
        }
        match self.fail_on_fallback.as_deref() {
            None => {}
            Some("") => out.push("--fail-on-fallback".to_owned()),
            Some(ops) => out.push(format!("--fail-on-fallback={ops}")),
        }
        out
    }
}

/// What a compilation should do beside making the model.
#[derive(Default)]
pub struct Wishes<'a> {
    pub dump: Wanted,
    pub dump_dir: PathBuf,
    pub bundle: Option<&'a Path>,
    pub no_weights: bool,
    /// Whether the model will run at once, on the session's device.
    pub online: bool,
    /// The requested device; its SoC is the target.
    pub device: Named,
    /// Inputs that settle what the model leaves open.
    pub given: Option<&'a Given<'a>>,
    /// Inputs that become constants.
    pub fixed: Option<&'a Given<'a>>,
    /// Value of `--fail-on-fallback`.
    pub gate: Option<&'a str>,
    /// Folder with inputs for the calibration (`--calibrate`).
    pub calibrate: Option<&'a Path>,
    /// Value of `--state`.
    pub state: Option<&'a str>,
}

impl<'a> Wishes<'a> {
    /// Reads the wishes from the flags.
    pub fn of(flags: &'a BuildFlags) -> Result<Self> {
        Ok(Self {
            dump: Wanted::parse(&flags.dump, flags.dump_passes)?,
            dump_dir: flags.dump_dir.clone(),
            bundle: flags.bundle.as_deref(),
            no_weights: flags.no_weights,
            gate: flags.fail_on_fallback.as_deref(),
            ..Self::default()
        })
    }
}

/// Loads plugins, imports the model and compiles it for the device that will run it at once.
/// `given`: inputs that settle what the model leaves open.
pub fn compile_to_run(
    global: &Global,
    model: &Path,
    flags: &CompileFlags,
    build: &BuildFlags,
    device: Named,
    given: Option<&Given<'_>>,
) -> Result<(Session, Compiled)> {
    let wishes = Wishes { online: true, device, given, ..Wishes::of(build)? };
    let (session, compiled) = compile(global, model, flags, &wishes).map_err(|e| import::placed(model, e))?;
    fallback::gate(wishes.gate, &session, &compiled)?;
    Ok((session, compiled))
}

/// Imports the model as its file describes it; nodes without a mapping are returned beside it.
pub fn import_model(session: &Session, model: &Path, flags: &CompileFlags) -> Result<Imported> {
    import_for(session, model, flags, &[])
}

/// Like [`import_model`]; `asked`: inputs with a default that stay inputs because they are given.
fn import_for(session: &Session, model: &Path, flags: &CompileFlags, asked: &[String]) -> Result<Imported> {
    let bytes = import::map(model)?;
    let shapes = &flags.shapes()?;
    let mut imports = import::parse_input_shapes(shapes)?;
    let shape = |name: &String| InputShape { name: name.as_str().into(), dims: Default::default(), unranked: true };
    imports.input_shapes.extend(asked.iter().map(shape));
    let mut imported = match import::kind_of(&bytes) {
        FileKind::Om => Err(import::compiled_already(model)),
        FileKind::Text => {
            let mut graph = import::parse_text(model, &bytes)?;
            import::give_shapes(&mut graph, &imports)?;
            Ok(Imported { model: graph, origins: Default::default(), refused: Vec::new() })
        }
        FileKind::Foreign => import::import_whole(session.registry(), model, bytes, &imports),
    }?;
    symbols::apply(&mut imported.model, shapes)?;
    gears::apply(&mut imported.model, &flags.gears()?)?;
    Ok(imported)
}

/// Compiles a model and checks that the pairs of `--state` name its outputs and inputs.
fn with_state(
    session: &Session,
    name: &str,
    graph: ge_ir::Model,
    options: &OptionMap,
    observer: &dyn Observer,
) -> Result<Compiled> {
    let compiled = session.compile(name, graph, options, observer)?;
    steps::pairs(&compiled.model, &options.resolved()?.state)?;
    Ok(compiled)
}

/// Turns the inputs that `--input` gives into constants.
fn fix(graph: &mut ge_ir::Model, given: Option<&Given<'_>>) -> Result<()> {
    let Some(given) = given.filter(|g| g.any()) else { return Ok(()) };
    let inputs = specialise::inputs(graph);
    let values = given.some(&inputs::defaults::numbered(named(&inputs), &[], given)?)?;
    for (i, t) in inputs.iter().zip(values) {
        if let Some(t) = t {
            import::fix_input(graph, i.1, &t)?;
        }
    }
    Ok(())
}

fn named(list: &[Input]) -> Vec<(&str, &TensorDesc)> {
    list.iter().map(|(name, _, desc)| (name.as_str(), desc)).collect()
}

/// The values given for the inputs of a graph, or their defaults.
fn read(graph: &ge_ir::Model, list: &[Input], given: &Given<'_>) -> Result<Vec<HostTensor>> {
    let value = |k: usize| match graph.root().get(list.get(k)?.1)?.attr(ge_model::DEFAULT_VALUE)? {
        ge_ir::AttrValue::Tensor(value) => Some(value),
        _ => None,
    };
    let defaults: Vec<usize> = (0..list.len()).filter(|k| value(*k).is_some()).collect();
    given.read_or(&inputs::defaults::numbered(named(list), &defaults, given)?, &value)
}

/// Loads plugins, imports the model and compiles it.
pub fn compile(
    global: &Global,
    model: &Path,
    flags: &CompileFlags,
    wishes: &Wishes<'_>,
) -> Result<(Session, Compiled)> {
    let mut options = flags.gather()?;
    if let Some(state) = wishes.state {
        options.set(steps::STATE, state, "--state")?;
    }
    crate::commands::talk::say_foreign(global, &options);
    let sets = wishes.calibrate.map(calibration::folders).transpose()?;
    import::map(model)?;
    import::parse_input_shapes(&flags.shapes()?)?;
    let session = Session::new(SessionOptions {
        plugins: global.plugins.clone(),
        options: options.clone(),
        soc: flags.soc.clone(),
        device: wishes.device.clone(),
        want: Want::All,
        online: wishes.online,
        ..SessionOptions::default()
    })?;
    wishes.dump.check(session.registry())?;
    say_warnings(global, session.registry());
    fallback::known_operators(&session, wishes.gate)?;
    let progress = Progress::new(global.progress, global.quiet, ge_compiler::pipeline::STAGES.len());
    progress.stage("import", 0);
    let whole = || -> Result<Imported> {
        let mut i = import_model(&session, model, flags)?;
        let (root, given) = (i.model.root(), wishes.given.into_iter().chain(wishes.fixed).collect::<Vec<_>>());
        let asked = inputs::defaults::asked(root.attrs(), root.data_nodes().len(), &given)?;
        if !asked.is_empty() {
            i = import_for(&session, model, flags, &asked)?;
        }
        fix(&mut i.model, wishes.fixed)?;
        Ok(i)
    };
    let import = || whole().map(|i| i.model);
    let begin = Instant::now();
    let imported = whole()?;
    if !imported.refused.is_empty() {
        progress.finish();
        let e = crate::Error::all(ErrorKind::UNSUPPORTED, imported.refused.clone());
        return Err(survey::complete(e, imported, &session.toolbox(&options, wishes.online)?));
    }
    let Imported { model: graph, origins, .. } = imported;
    let imported = begin.elapsed().as_micros() as u64;
    let name = model.file_stem().map_or_else(|| "main".to_owned(), |s| s.to_string_lossy().into_owned());
    let weights = if wishes.no_weights { Weights::Zeroed } else { Weights::Kept };
    if let Some(path) = wishes.bundle {
        Bundle::new(&session, &name, &graph, &options, weights)?.write(path)?;
    }
    let calibration = match &sets {
        Some(sets) => Some(calibration::run(&session, &name, &graph, &mut options, sets, &progress)?),
        None => None,
    };
    let dumps = Dumps::new(&progress, wishes.dump.clone(), wishes.dump_dir.clone())?;
    dumps.done("import", "", &|| std::borrow::Cow::Borrowed(&graph), imported);
    let has_gears = ge_model::gears::wanted(graph.root().attrs()).is_some();
    let run = || {
        // Only tensors can settle sizes and values; sequences and optionals get theirs in the run.
        let tensor = |i: &Input| i.2.container == Container::TENSOR && i.2.dtype != DType::UNKNOWN;
        match (wishes.given, specialise::inputs(&graph)) {
            // A model with gears is compiled for its gears, whatever inputs are given.
            (Some(given), inputs) if !has_gears && inputs.iter().all(tensor) => read(&graph, &inputs, given)
                .and_then(|t| specialise::compile(global, &session, &name, graph, &options, &t, &dumps)),
            _ => with_state(&session, &name, graph, &options, &dumps),
        }
    };
    let compiled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let what = ge_plugin_api::abi::guard::panic_error("ge", payload);
        let text = format!("ge has failed in a way it should not: {}", what.message());
        Err(crate::Error::new(ErrorKind::INTERNAL, text))
    });
    progress.finish();
    let failed = dumps.take_failed();
    let times = dumps.finish()?;
    let mut compiled = match compiled {
        Err(e) if e.kind == ErrorKind::INTERNAL || wishes.bundle.is_some() => {
            let of = Failure { name: &name, failed, options: &options, weights, path: wishes.bundle };
            return Err(of.bundled(e, &session, &import));
        }
        // Report everything else in the model that is not supported, too.
        Err(e) if survey::concerns(&e) => {
            let toolbox = session.toolbox(&options, wishes.online)?;
            return Err(match whole() {
                Ok(again) => survey::complete(e, again, &toolbox),
                Err(_) => e,
            });
        }
        other => other?,
    };
    compiled.times = times;
    compiled.calibration = calibration;
    compiled.origins = origins;
    if let Some(path) = wishes.bundle {
        say(global, &format!("wrote the bundle {0}; `ge opt --repro {0}` runs it", path.display()));
    }
    if let Some(outcome) = &compiled.cache {
        say(global, &outcome.to_string());
    }
    if let Some(why) = &compiled.warning {
        say(global, &format!("warning: the model cache did not keep the model: {why}"));
    }
    for w in &compiled.warnings {
        say(global, &format!("warning: {w}"));
    }
    Ok((session, compiled))
}
