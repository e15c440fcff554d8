//! `GraphManager`: several graphs in one session, each added, built, run and removed by its number
//! (003 §1.1).
//!
//! ```no_run
//! use ge::graph_manager::GraphManager;
//! use ge::options::OptionMap;
//! use ge::session::{Session, SessionOptions};
//! # fn main() -> Result<(), ge::Error> {
//! let session = Session::new(SessionOptions::default())?;
//! let model = session.import("model.onnx", "x:1,3,224,224")?;
//! let manager = GraphManager::new(session, OptionMap::default());
//! manager.add_graph(1, model, OptionMap::default())?;
//! manager.build(1)?;
//! let inputs = manager.model(1)?.random_inputs(7)?;
//! std::thread::scope(|s| {
//!     for _ in 0..4 {
//!         s.spawn(|| manager.run(1, &inputs));
//!     }
//! });
//! manager.remove_graph(1)?;
//! # Ok(())
//! # }
//! ```
//!
//! Variables belong to the session: a training graph and an evaluation graph share each weight by
//! its name, even if they are built for different shapes (`tests/models/train` has two such
//! graphs).
//!
//! ```no_run
//! # use ge::graph_manager::GraphManager;
//! # use ge::options::OptionMap;
//! # use ge::session::{Session, SessionOptions};
//! # use ge_plugin_api::kernel::HostTensor;
//! # fn main() -> Result<(), ge::Error> {
//! # let lessons: Vec<[HostTensor; 2]> = Vec::new();
//! # let questions: Vec<HostTensor> = Vec::new();
//! let session = Session::new(SessionOptions::default())?;
//! let (step, evaluate) = (session.import("step.ge", "")?, session.import("evaluate.ge", "")?);
//! let manager = GraphManager::new(session, OptionMap::default());
//! manager.add_graph(1, step, OptionMap::default())?;
//! manager.add_graph(2, evaluate, OptionMap::default())?;
//! for lesson in &lessons {
//!     manager.run(1, lesson)?;
//! }
//! let answers = manager.run(2, &questions)?;
//! manager.session().save_variables("weights.safetensors")?;
//! // Another session goes on from there.
//! let later = Session::new(SessionOptions::default())?;
//! later.restore_variables("weights.safetensors")?;
//! # let _ = answers;
//! # Ok(())
//! # }
//! ```
use crate::options::OptionMap;
use crate::session::{GraphModel, Model, Session};
use crate::{Diagnostic, Error, Result};
use ge_compiler::pipeline::Silent;
use ge_ir::{Shape, TensorDesc, ValueRef};
use ge_plugin_api::kernel::HostTensor;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// Manages several graphs of one session. All methods may be called from any thread.
pub struct GraphManager {
    session: Session,
    global: OptionMap,
    graphs: RwLock<BTreeMap<u32, Arc<Mutex<Entry>>>>,
}

/// A graph with its options and its built model.
struct Entry {
    graph: GraphModel,
    options: OptionMap,
    /// The built model, and the input shapes that it was built for. `None`: it runs all shapes that
    /// the graph takes.
    built: Option<(Arc<Model>, Option<Vec<Vec<u64>>>)>,
}

impl GraphManager {
    /// Creates a manager for a session. `global` options have the lowest precedence, below the
    /// options of the session and of each graph.
    pub fn new(session: Session, global: OptionMap) -> GraphManager {
        GraphManager { session, global, graphs: RwLock::default() }
    }
    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Adds a graph under a number. It is built later, by [`GraphManager::build`] or the first run.
    ///
    /// # Errors
    /// Fails if the number is already in use.
    pub fn add_graph(&self, id: u32, graph: GraphModel, options: OptionMap) -> Result<()> {
        let mut graphs = self.graphs.write().unwrap_or_else(|e| e.into_inner());
        if graphs.contains_key(&id) {
            return Err(Diagnostic::error(format!("there is a graph {id} already"))
                .help("remove it first, or replace it with `replace_graph`")
                .raise(ge_codes::GRAPH_NUMBER));
        }
        graphs.insert(id, Arc::new(Mutex::new(Entry { graph, options, built: None })));
        Ok(())
    }

    /// Replaces a graph by another one, or by a changed version of itself. It is built again when
    /// it is next needed. Runs already in progress finish with the old graph.
    ///
    /// # Errors
    /// Fails if there is no graph with that number.
    pub fn replace_graph(&self, id: u32, graph: GraphModel) -> Result<()> {
        let entry = self.entry(id)?;
        let mut e = lock(&entry);
        e.graph = graph;
        e.built = None;
        Ok(())
    }

    /// Whether the next run must build the graph first.
    ///
    /// # Errors
    /// Fails if there is no graph with that number.
    pub fn needs_build(&self, id: u32) -> Result<bool> {
        let entry = self.entry(id)?;
        let built = lock(&entry).built.is_some();
        Ok(!built)
    }

    /// Compiles a graph and loads it, unless that is already done. A graph with open input shapes
    /// is built for all shapes that it takes; if the first run builds it instead, it is built for
    /// the shapes of that run's inputs.
    ///
    /// # Errors
    /// Fails if the compiler or the device reports an error.
    pub fn build(&self, id: u32) -> Result<()> {
        self.built(id, None).map(|_| ())
    }

    /// Returns the built model of a graph, building it first if needed.
    ///
    /// # Errors
    /// See [`GraphManager::build`].
    pub fn model(&self, id: u32) -> Result<Arc<Model>> {
        self.built(id, None)
    }

    /// Runs a graph; `inputs` are in the graph's input order. May be called from any number of
    /// threads. The graph is built first if it is new or has changed, or if it has open input
    /// shapes and was last built by a run on other shapes.
    ///
    /// # Errors
    /// See [`GraphManager::build`]; also fails if the run itself fails.
    pub fn run(&self, id: u32, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
        let model = self.built(id, Some(inputs))?;
        model.run(inputs)
    }

    /// Removes a graph. Runs already in progress finish normally.
    ///
    /// # Errors
    /// Fails if there is no graph with that number.
    pub fn remove_graph(&self, id: u32) -> Result<()> {
        let mut graphs = self.graphs.write().unwrap_or_else(|e| e.into_inner());
        match graphs.remove(&id) {
            Some(_) => Ok(()),
            None => Err(unknown(id, graphs.keys())),
        }
    }

    /// The numbers of the graphs, in ascending order.
    pub fn graphs(&self) -> Vec<u32> {
        self.graphs.read().unwrap_or_else(|e| e.into_inner()).keys().copied().collect()
    }

    fn entry(&self, id: u32) -> Result<Arc<Mutex<Entry>>> {
        let graphs = self.graphs.read().unwrap_or_else(|e| e.into_inner());
        graphs.get(&id).cloned().ok_or_else(|| unknown(id, graphs.keys()))
    }

    fn built(&self, id: u32, inputs: Option<&[HostTensor]>) -> Result<Arc<Model>> {
        let entry = self.entry(id)?;
        // A second thread that needs the same graph waits here until the first one has built it.
        let mut e = lock(&entry);
        let wanted = inputs.map(|l| l.iter().map(|t| t.dims.to_vec()).collect::<Vec<_>>());
        // A graph with gears is built for its gears, whatever inputs are given.
        let has_gears = ge_model::gears::wanted(e.graph.root().attrs()).is_some();
        let is_open = |d: &TensorDesc| !d.shape.is_static();
        let open = !has_gears && e.graph.root().data_nodes().iter().any(|n| n.outputs().first().is_some_and(is_open));
        if let Some((model, shapes)) = &e.built {
            // A model that was built for no shapes in particular runs all that the graph takes.
            if shapes.is_none() || wanted.is_none() || *shapes == wanted {
                return Ok(model.clone());
            }
        }
        let mut graph = e.graph.clone();
        if let (true, Some(wanted)) = (open, &wanted) {
            give_shapes(&mut graph, wanted)?;
        }
        // Options of the graph override those of the session, which override the global ones.
        let mut options = e.options.clone();
        options.under(self.session.options().clone());
        options.under(self.global.clone());
        let name = graph.root().name().to_owned();
        let compiled = self.session.compile_online(&name, graph, &options, &Silent)?;
        if let Some(stop) = compiled.stopped {
            return Err(Error::usage(format!(
                "`ge.buildMode=tuning` stopped at {}: there is no model to run",
                stop.step
            )));
        }
        let model = Arc::new(self.session.load(compiled.model)?);
        e.built = Some((model.clone(), if open { wanted } else { None }));
        Ok(model)
    }
}

/// Sets the shapes of the inputs that have open shapes.
fn give_shapes(graph: &mut GraphModel, wanted: &[Vec<u64>]) -> Result<()> {
    let nodes: Vec<_> = graph.root().data_nodes().iter().map(|n| (n.id(), n.name().to_owned())).collect();
    if nodes.len() != wanted.len() {
        return Err(Error::usage(format!("the graph has {} inputs, {} were given", nodes.len(), wanted.len())));
    }
    for ((id, name), dims) in nodes.iter().zip(wanted) {
        let Some(d) = graph.root_mut().output_mut(ValueRef::new(*id, 0)) else { continue };
        let known = d.shape.dims().iter().zip(dims).all(|(a, b)| !a.is_known() || a.size() == Some(*b));
        if !d.shape.is_unranked() && (d.shape.rank() != Some(dims.len()) || !known) {
            return Err(Diagnostic::error(format!("input `{name}` does not fit the graph"))
                .found(format!("{dims:?}"), format!("{}", d.shape))
                .raise(ge_codes::INPUT_SHAPE));
        }
        if !d.shape.is_static() {
            d.shape = Shape::of(dims);
        }
    }
    Ok(())
}

fn lock(entry: &Mutex<Entry>) -> MutexGuard<'_, Entry> {
    entry.lock().unwrap_or_else(|e| e.into_inner())
}

fn unknown<'a>(id: u32, known: impl Iterator<Item = &'a u32>) -> Error {
    let known: Vec<String> = known.map(u32::to_string).collect();
    Diagnostic::error(format!("there is no graph {id}"))
        .found(id.to_string(), if known.is_empty() { "no graph was added".into() } else { known.join(", ") })
        .raise(ge_codes::GRAPH_NUMBER)
}
