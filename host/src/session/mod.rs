//! Sessions: the plugins and devices of one configuration, and the models compiled and loaded with
//! them.
mod beside;
pub mod bundle;
pub mod cache;
pub mod calibrate;
mod constants;
mod device;
pub mod dump;
pub mod external;
mod file_constants;
pub(crate) mod fresh;
pub mod gears;
mod group;
mod safetensors;
pub mod import;
mod kinds;
pub mod model;
mod origins;
pub mod steps;
pub mod survey;
pub mod symbols;
pub mod tuned;
pub mod tuning;
mod variables;
pub mod weights;

pub use ge_compiler::pass::KernelCounts;
pub use ge_compiler::pipeline::Silent as Quiet;
pub use ge_ir::Model as GraphModel;
pub use model::Model;
pub use origins::Origins;

use crate::options::OptionMap;
use crate::render::Progress;
use crate::{Diagnostic, Result};
use cache::{Cache, CacheKey};
use ge_compiler::feature::kernel_cache::KernelTimes;
use ge_compiler::options::{BuildMode, CoreType};
use ge_compiler::pipeline::{Observer, Outcome};
use ge_compiler::{Options, PORTION, Toolbox};
use ge_om::OmFile;
use ge_plugin::{LoadRequest, OpenDevice, PluginSet, Registry, Want};
use ge_plugin_api::engine::{EngineInfo, Target, flags};
use ge_runtime::{DynamicModel, Engines, LoadOptions, LoadedModel, StreamPool, Tools, Variables};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Configuration of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Path of `plugins.toml`; `None`: it is searched as DESIGN 3.3 says.
    pub plugins: Option<PathBuf>,
    /// Options that hold for the whole session.
    pub options: OptionMap,
    /// SoC by name or file; `None`: the device's default.
    pub soc: Option<String>,
    /// Name and number of the device.
    pub device: Option<(String, u32)>,
    /// Options of the device, as names and values.
    pub device_options: Vec<(String, String)>,
    /// Which plugins to load.
    pub want: Want,
    /// Whether compilations ask the device for its capabilities (as `ge run MODEL` does). If false,
    /// only the options and the SoC file count (as for `ge compile`).
    pub online: bool,
}

/// Loaded plugins, with the streams and variables that the session's models share.
pub struct Session {
    registry: Registry,
    options: SessionOptions,
    streams: Arc<StreamPool>,
    variables: Arc<Variables>,
    /// Name and digest of each library; computed when a model cache first needs them.
    libraries: std::sync::OnceLock<Vec<(String, String)>>,
}

impl Session {
    /// Creates a session and loads its plugins.
    pub fn new(options: SessionOptions) -> Result<Session> {
        let registry = PluginSet::load(&LoadRequest { config: options.plugins.clone(), want: options.want.clone() })?;
        Ok(Session::with(registry, options))
    }
    /// Creates a session with plugins that are already loaded.
    pub(crate) fn with(registry: Registry, options: SessionOptions) -> Session {
        Session {
            registry,
            options,
            streams: Arc::default(),
            variables: Arc::default(),
            libraries: std::sync::OnceLock::new(),
        }
    }
    /// The loaded plugins.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
    /// The options of the session.
    pub fn options(&self) -> &OptionMap {
        &self.options.options
    }

    /// The requested SoC, by name or file; `None` if none was requested.
    pub fn soc_name(&self) -> Option<&str> {
        self.options.soc.as_deref()
    }

    /// Collects what the plugins offer for one compilation.
    pub fn toolbox(&self, options: &OptionMap, online: bool) -> Result<Toolbox> {
        let soc = self.soc()?;
        let typed = options.resolved()?;
        let target = Target { soc, deterministic: typed.deterministic, online, rank_size: 1 };
        let vector = typed.core_type == CoreType::VectorCore;
        let named = self.engines_named(&typed.exclude_engines, "ge.exec.exclude_engines", &|_| true)?;
        let asked = self
            .engines_named(&typed.composite_engines, "ge.x.composite_engines", &|e| e.flags & flags::COMPOSITE != 0)?;
        let is_of = |names: &[String], e: &EngineInfo| {
            names.iter().any(|n| *n == e.user_name.as_str() || *n == e.name.as_str())
        };
        let excluded = move |e: &EngineInfo| -> Option<String> {
            if is_of(&named, e) {
                return Some("excluded by ge.exec.exclude_engines".into());
            }
            if e.flags & flags::ON_DEMAND != 0 && !is_of(&asked, e) {
                return Some("not asked for by ge.x.composite_engines".into());
            }
            if vector && e.flags & flags::AI_CORE != 0 {
                return Some("excluded by ge.x.core_type=VectorCore".into());
            }
            None
        };
        Ok(Toolbox::new(&self.registry, target, &excluded))
    }

    /// Checks an option that lists engines, by user name or by engine name.
    fn engines_named(&self, named: &[String], option: &str, of: &dyn Fn(&EngineInfo) -> bool) -> Result<Vec<String>> {
        let engines = || self.registry.engines().iter().map(|e| &e.info).filter(|e| of(e));
        for n in named {
            if !engines().any(|e| e.user_name.as_str() == n || e.name.as_str() == n) {
                let known: Vec<String> = engines().map(|e| e.user_name.to_string()).filter(|n| !n.is_empty()).collect();
                let what = format!("engine in {option}");
                return Err(crate::options::unknown_name(&what, n, known.iter().map(String::as_str)));
            }
        }
        Ok(named.to_vec())
    }

    /// Imports a model file: ge's text form or any format that an enabled front end knows. `shapes`
    /// has the form of `--input-shape`.
    pub fn import(&self, path: impl AsRef<Path>, shapes: &str) -> Result<GraphModel> {
        let path = path.as_ref();
        let bytes = import::map(path)?;
        let asked = import::parse_input_shapes(shapes)?;
        let mut graph = match import::kind_of(&bytes) {
            import::FileKind::Om => return Err(import::compiled_already(path)),
            import::FileKind::Text => {
                let mut graph = import::parse_text(path, &bytes)?;
                import::give_shapes(&mut graph, &asked)?;
                graph
            }
            import::FileKind::Foreign => import::import(&self.registry, path, bytes, &asked)?,
        };
        symbols::apply(&mut graph, shapes)?;
        Ok(graph)
    }

    /// Collects what the plugins offer while a model of unknown shapes runs, using the options that
    /// it was compiled with.
    fn tools(&self, compiled: &ge_model::CompiledModel) -> Result<Arc<Tools>> {
        let mut options = OptionMap::default();
        for (name, value) in &compiled.options {
            options.set(name, value, "the OM's options")?;
        }
        let toolbox = self.toolbox(&options, true)?;
        let target = Target { soc: compiled.soc.clone(), ..toolbox.target.clone() };
        let out = |e: &EngineInfo| toolbox.engines.iter().any(|t| t.info.name == e.name && t.excluded.is_some());
        Tools::new(&self.registry, target, &out).map(Arc::new).map_err(|e| e.into_error())
    }

    /// What the executor decides about a model of unknown shapes before any size is known.
    ///
    /// # Errors
    /// Fails if the model is inconsistent or if it needs plugins that are not loaded.
    pub fn exec_of(&self, compiled: &ge_model::CompiledModel) -> Result<ge_runtime::v2::describe::Exec> {
        let mut compiled = compiled.clone();
        weights::in_one(&mut compiled)?;
        let cores = crate::options::runtime_cores()?;
        ge_runtime::v2::describe::describe(&compiled, &*self.tools(&compiled)?, cores).map_err(|e| e.into_error())
    }

    /// Compiles a graph for a file. The device is asked only if `SessionOptions::online` is set.
    pub fn compile(
        &self,
        name: &str,
        graph: ge_ir::Model,
        options: &OptionMap,
        observer: &dyn Observer,
    ) -> Result<Compiled> {
        self.compile_for(name, graph, options, observer, self.toolbox(options, self.options.online)?)
    }

    /// Compiles a graph to run on this session's device.
    pub fn compile_online(
        &self,
        name: &str,
        graph: ge_ir::Model,
        options: &OptionMap,
        observer: &dyn Observer,
    ) -> Result<Compiled> {
        self.compile_for(name, graph, options, observer, self.toolbox(options, true)?)
    }

    fn compile_for(
        &self,
        name: &str,
        graph: ge_ir::Model,
        options: &OptionMap,
        observer: &dyn Observer,
        toolbox: Toolbox,
    ) -> Result<Compiled> {
        let typed = options.resolved()?;
        let folder = typed.cache_dir.as_str();
        if folder.is_empty() || !observer.cached() || typed.build_mode == BuildMode::Tuning {
            return self.build(name, graph, options, &toolbox, observer);
        }
        // Cache keys do not contain facts that only a queried device knows.
        if toolbox.target.online && !toolbox.target.soc.model_task_update {
            let why =
                format!("{} cannot update tasks of a loaded model, which only a run asks", toolbox.target.soc.name);
            let built = self.build(name, graph, options, &toolbox, observer)?;
            return Ok(Compiled { cache: Some(cache::Outcome::Miss { why }), ..built });
        }
        // Querying any other device adds nothing, so a model that is run gets the same key as one
        // that is compiled to a file.
        let toolbox = if toolbox.target.online { self.toolbox(options, false)? } else { toolbox };
        let cache = Cache::open(Path::new(folder))?;
        let key = CacheKey::new(&graph, options, &toolbox.target, &self.registry, self.libraries(&cache)?)?;
        let miss = match cache.find(&key, name, graph.root().name()) {
            Ok(model) => {
                let hit = cache::Outcome::Hit { key: key.digest().to_owned() };
                return Ok(Compiled { model, cache: Some(hit), ..Compiled::default() });
            }
            Err(miss) => miss,
        };
        let built = self.build(name, graph, options, &toolbox, observer)?;
        // Failing to write the cache is only a warning: the model itself is complete.
        let warning = cache.put(&key, &built.model).err().map(|e| e.to_string());
        Ok(Compiled { cache: Some(miss), warning, ..built })
    }

    /// Compiles a graph. A graph with gears is compiled twice if it must also run with sizes
    /// outside its gears (facts 8.7).
    fn build(
        &self,
        name: &str,
        graph: ge_ir::Model,
        options: &OptionMap,
        toolbox: &Toolbox,
        observer: &dyn Observer,
    ) -> Result<Compiled> {
        let gears = ge_model::gears::wanted(graph.root().attrs()).is_some();
        let mut graph = graph;
        if !options.resolved()?.hybrid {
            if gears {
                gears::leave_ranges(&mut graph);
            }
            return self.build_once(name, graph, options, toolbox, observer);
        }
        if !gears {
            return Err(Diagnostic::error("ge.compileHybridMode=1 says what runs beside gears, and no gear is given")
                .help("name sizes: `--dim b=1,4,8`; without gears one OM runs any sizes by itself")
                .raise(ge_codes::GEARS));
        }
        let mut open = graph.clone();
        gears::leave_ranges(&mut graph);
        ge_model::gears::unwant(open.root_mut().attrs_mut());
        let mut built = self.build_once(name, graph, options, toolbox, observer)?;
        if built.stopped.is_some() {
            return Ok(built);
        }
        let outside =
            self.build_once(&ge_model::gears::outside_name(name), open, options, toolbox, &Beside(observer))?;
        if !outside.model.is_dynamic() {
            return Err(crate::Error::internal("sizes that gears set are open, and the model without gears is static"));
        }
        built.kernels.add(&outside.kernels);
        built.warnings.extend(outside.warnings);
        built.model.set_outside(outside.model);
        Ok(built)
    }

    fn build_once(
        &self,
        name: &str,
        graph: ge_ir::Model,
        options: &OptionMap,
        toolbox: &Toolbox,
        observer: &dyn Observer,
    ) -> Result<Compiled> {
        let resolved: Options = options.resolved()?;
        let tuned = match resolved.tuning_file.as_str() {
            "" => None,
            path => Some(tuned::Tuning::read(Path::new(path))?),
        };
        let outcome =
            ge_compiler::pipeline::compile(name, graph, toolbox, &resolved, observer).map_err(|e| e.into_error())?;
        let keep = |model: &mut ge_model::CompiledModel| {
            if let Some(t) = &tuned {
                t.apply(model);
            }
            model.options = options.given().clone();
            // These options do not describe the model: they say where a cache or a tuning stop is
            // and what to report during compilation.
            let apart = [
                "ge.graph_compiler_cache_dir",
                "ge.buildMode",
                "ge.buildStep",
                "ge.tuningPath",
                "ge.x.plugin_call_warn_s",
            ];
            for o in apart {
                model.options.remove(o);
            }
        };
        let root = match outcome {
            Outcome::Built(root) => root,
            Outcome::Dynamic(mut model, parts, mut warnings) => {
                keep(&mut model);
                let mut kernels = KernelCounts::default();
                for root in parts {
                    let part = self.planned(root, toolbox)?;
                    kernels.add(&part.kernels);
                    warnings.extend(part.warnings);
                    model.parts.push(part.model);
                }
                model.parts.iter_mut().for_each(keep);
                model.share_with_parts();
                return Ok(Compiled { model: *model, kernels, warnings, ..Compiled::default() });
            }
            Outcome::Stopped(step, graph) => {
                let path = tuning::write(Path::new(&resolved.tuning_path), name, &graph)?;
                let stopped = Stopped { step: step.name(), path };
                return Ok(Compiled { stopped: Some(stopped), ..Compiled::default() });
            }
        };
        let mut built = self.planned(*root, toolbox)?;
        keep(&mut built.model);
        Ok(built)
    }

    /// Turns a planned model into plain data and checks it with `ge_proof`.
    fn planned(&self, root: ge_compiler::model::GeRootModel, toolbox: &Toolbox) -> Result<Compiled> {
        let times = node_times(&root, toolbox);
        let kernels = root.records.kernels;
        let warnings = root.records.warnings.clone();
        let model = ge_compiler::model::assemble(root, &|k| {
            times.get(k.graph as usize).and_then(|g| g.get(k.node.index())).copied().unwrap_or(0)
        });
        // Always checked: a plan that fails is never written and never run.
        ge_proof::check(&model)
            .map_err(|e| ge_compiler::CompileError::internal("model", e.to_string()).into_error())?;
        Ok(Compiled { model, kernels, warnings, ..Compiled::default() })
    }

    /// Name and digest of each library that takes part; ge itself comes first.
    fn libraries(&self, cache: &Cache) -> Result<&[(String, String)]> {
        if let Some(l) = self.libraries.get() {
            return Ok(l);
        }
        let own = std::env::current_exe().map_err(|e| {
            Diagnostic::error(format!("cannot find ge itself for the key of the model cache: {e}"))
                .raise(ge_codes::UNREADABLE)
        })?;
        let usable: Vec<_> = self.registry.plugins().iter().filter(|p| p.usable()).collect();
        let mut files = vec![("ge itself".to_owned(), own)];
        files.extend(usable.iter().map(|p| (format!("plugin {}", p.name), p.path.clone())));
        let names = std::iter::once("ge").chain(usable.iter().map(|p| p.name.as_str()));
        let digests = cache::digests(cache.dir(), &files)?;
        let all = names.map(str::to_owned).zip(digests).collect();
        Ok(self.libraries.get_or_init(|| all))
    }

    /// The stream pool of the session. Models loaded on the same device share its streams.
    pub fn stream_pool(&self) -> &StreamPool {
        &self.streams
    }

    /// The variables that all models of the session share.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The engines by name, as the loader needs them.
    pub fn engines(&self) -> Engines {
        let runtime_tasks = self
            .registry
            .engines()
            .iter()
            .find(|e| e.has(flags::RUNTIME_TASKS))
            .map_or_else(|| "DNN_VM_RTS".to_owned(), |e| e.info.name.to_string());
        Engines {
            by_name: self.registry.engines().iter().map(|e| (e.info.name.to_string(), e.clone())).collect(),
            runtime_tasks,
        }
    }

    /// Reads an OM file and the weights stored beside it, and loads the model onto the device.
    pub fn load_om(&self, path: impl AsRef<Path>) -> Result<Model> {
        self.load(read_om(path.as_ref())?)
    }

    /// Loads a compiled model onto the device.
    pub fn load(&self, compiled: ge_model::CompiledModel) -> Result<Model> {
        let context = self.open_device(&compiled.soc.clone())?;
        self.load_on(compiled, context, &LoadOptions { rank_size: 1, ..LoadOptions::default() })
    }

    /// Loads a compiled model onto an open device, as one rank of a group.
    pub fn load_on(
        &self,
        compiled: ge_model::CompiledModel,
        context: Arc<OpenDevice>,
        options: &LoadOptions,
    ) -> Result<Model> {
        fits_group(&compiled, options.rank_size.max(1))?;
        fresh::check(&compiled, &self.registry)?;
        let device = self.device_options().as_slice().into();
        let (streams, variables) = (self.streams.clone(), self.variables.clone());
        let cores = if options.cores > 0 { options.cores } else { crate::options::runtime_cores()? };
        let options = LoadOptions { streams, variables, device, cores, ..options.clone() };
        let mut compiled = compiled;
        weights::in_one(&mut compiled)?;
        for part in &mut compiled.parts {
            if part.shares_weights {
                part.weights.clone_from(&compiled.weights);
            } else {
                weights::in_one(part)?;
            }
        }
        let outside = compiled.take_outside();
        if compiled.is_dynamic() {
            let load = |m| {
                let tools = self.tools(&m)?;
                let loaded = DynamicModel::load(m, tools, self.engines(), context.clone(), &options);
                loaded.map_err(|e| e.into_error())
            };
            return Ok(Model::dynamic(load(compiled)?, outside.map(load).transpose()?));
        }
        let gears = LoadedModel::load(compiled, &self.engines(), context.clone(), &options);
        let gears = gears.map_err(|e| e.into_error())?;
        let Some(outside) = outside else { return Ok(Model::new(gears)) };
        let tools = self.tools(&outside)?;
        let outside = DynamicModel::load(outside, tools, self.engines(), context, &options);
        Ok(Model::hybrid(gears, outside.map_err(|e| e.into_error())?))
    }
}

/// Checks that a model can run in a group of `ranks` ranks. A model that states no rank size runs
/// in any group.
///
/// # Errors
/// `usage` if the model was made for another number of ranks.
pub fn fits_group(compiled: &ge_model::CompiledModel, ranks: u32) -> Result<()> {
    let made = compiled.rank_size;
    if made == 0 || made == ranks {
        return Ok(());
    }
    Err(Diagnostic::error(format!("the model is made for {made} rank(s), {ranks} were asked for"))
        .found(format!("--ranks {ranks}"), format!("--ranks {made}"))
        .raise(ge_codes::RANKS))
}

/// Observer of the compilation of an additional model: it passes on only failures (and asks whether
/// the user cancelled).
struct Beside<'o>(&'o dyn Observer);
impl Observer for Beside<'_> {
    fn failed(&self, name: &'static str, pass: Option<&ge_compiler::pass::Blamed>, graph: &ge_ir::Model) {
        self.0.failed(name, pass, graph);
    }
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

/// Result of a compilation.
#[derive(Default)]
pub struct Compiled {
    /// The model as plain data, ready for an OM file or a device.
    pub model: ge_model::CompiledModel,
    /// Result of the look-up in the model cache; `None` without a cache.
    pub cache: Option<cache::Outcome>,
    /// Why the model could not be stored in the model cache.
    pub warning: Option<String>,
    /// Where a tuning build stopped; in that case there is no model.
    pub stopped: Option<Stopped>,
    /// Time per stage, if the observer of the compilation recorded it.
    pub times: Vec<dump::StageTime>,
    /// What the source model says about its nodes.
    pub origins: Origins,
    /// Number of kernels compiled; zero for a model from the cache.
    pub kernels: KernelCounts,
    /// Warnings for the user; empty for a model from the cache.
    pub warnings: Vec<String>,
    /// Result of the calibration, if there was one.
    pub calibration: Option<calibrate::Calibration>,
}

/// The point where a tuning build stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The step, as named by `ge.buildStep`.
    pub step: &'static str,
    /// File with the graph's text.
    pub path: PathBuf,
}

impl Compiled {
    /// Summary of the model's streams (004 §3.1).
    pub fn stream_allocation_summary(&self) -> ge_model::StreamAllocationSummary {
        ge_model::StreamAllocationSummary::of(&self.model)
    }
    /// Writes the OM file, and its weights beside it if `ge.externalWeight` asks for that.
    pub fn write_om(&self, path: &Path) -> Result<ge_om::WriteReport> {
        let mode = external::Mode::of(self.model.options.get("ge.externalWeight").map_or("", String::as_str));
        if mode == external::Mode::Inside {
            return write_om(&self.model, path);
        }
        let mut model = self.model.clone();
        model.external = external::write(&model, path, mode, "")?;
        for part in model.parts.iter_mut().filter(|p| !p.shares_weights) {
            let name = part.name.clone();
            part.external = external::write(part, path, mode, &name)?;
        }
        write_om(&model, path)
    }
}

/// Writes a compiled model as an OM file, completely or not at all.
pub fn write_om(model: &ge_model::CompiledModel, path: &Path) -> Result<ge_om::WriteReport> {
    let mut writer = ge_om::OmWriter::new(&model.name);
    if !model.parts.is_empty() {
        writer = writer.unknown_shapes();
    }
    ge_model::encode_all(model)
        .into_iter()
        .fold(writer, ge_om::OmWriter::model)
        .write_atomic(path)
        .map_err(|e| Diagnostic::error(format!("cannot write `{}`: {e}", path.display())).raise(ge_codes::UNWRITABLE))
}

/// Reads an OM file and its weights, wherever they are stored.
pub fn read_om(path: &Path) -> Result<ge_model::CompiledModel> {
    let file = open_om(path)?;
    let mut model = decode_om(path, &file)?;
    external::fetch(&mut model, path)?;
    for part in &mut model.parts {
        if part.shares_weights {
            part.weights.clone_from(&model.weights);
        } else {
            external::fetch(part, path)?;
        }
    }
    Ok(model)
}

/// Opens an OM file. The error tells whether the file is missing, damaged or of another version.
pub fn open_om(path: &Path) -> Result<OmFile> {
    let shown = path.display().to_string();
    OmFile::open(path).map_err(|e| {
        let again = "compile the model again with this version of ge";
        let (code, help) = match &e {
            ge_om::OmError::Read { .. } => (ge_codes::UNREADABLE, "check the path"),
            e if e.is_damage() => (ge_codes::DAMAGED_OM, again),
            _ => (ge_codes::OTHER_VERSION, again),
        };
        Diagnostic::error(format!("cannot open `{shown}`: {e}")).at(shown.clone(), 0, 0).help(help).raise(code)
    })
}

/// Decodes the model of an OM file.
pub fn decode_om(path: &Path, file: &OmFile) -> Result<ge_model::CompiledModel> {
    let shown = path.display().to_string();
    ge_model::decode(file).map_err(|e| match e {
        ge_model::ModelError::Foreign => {
            Diagnostic::error(format!("`{shown}` was not written by ge, so it cannot be run"))
                .help(
                    "`ge inspect` shows what is in it; to run the model, compile it from its source with `ge compile`",
                )
                .raise(ge_codes::FOREIGN_OM)
        }
        e => Diagnostic::error(format!("`{shown}` is damaged: {e}"))
            .help("compile the model again")
            .raise(ge_codes::DAMAGED_OM),
    })
}

/// Execution time of each node, indexed by graph and node id.
fn node_times(root: &ge_compiler::model::GeRootModel, toolbox: &Toolbox) -> Vec<Vec<u64>> {
    let alike = KernelTimes::default();
    let graph = |(gi, g): (usize, &ge_ir::Graph)| {
        let mut times = vec![0; g.id_bound()];
        times.par_chunks_mut(PORTION).enumerate().for_each(|(c, part)| {
            let context = toolbox.lend(&root.model, gi);
            let view = context.graph();
            for (i, time) in part.iter_mut().enumerate() {
                let id = ge_ir::NodeId((c * PORTION + i) as u32);
                if let Some(n) = view.find(id) {
                    let engine = root.placement.engine[ge_compiler::NodeKey::new(gi, id)];
                    *time = alike.of(toolbox, engine, &n);
                }
            }
        });
        times
    };
    root.model.graphs().iter().enumerate().map(graph).collect()
}

/// An observer that shows progress and stops the compilation on Ctrl-C.
pub struct ShowProgress<'a>(pub &'a Progress);
impl Observer for ShowProgress<'_> {
    fn stage(&self, name: &'static str, nodes: usize) {
        self.0.stage(name, nodes);
    }
    fn cancelled(&self) -> bool {
        ge_plugin::services::is_cancelled()
    }
}
