//! Executor v2 (facts 8.8 to 8.11): models whose shapes are settled by each run.
//!
//! A graph is lowered once, at load. A run goes in rounds: everything whose sizes are known is
//! inferred, tiled and bound as one sealed model of the device, and launched as a whole; what hangs
//! on values that are computed by then (sizes of a `NonZero`, branches, turns of a loop) is the
//! host's, and the next round begins. Rounds are kept by the shapes that they were made for, so
//! that a shape seen before costs a look-up and its launches.

/// A plan from the one before.
mod amend;
/// Memory of a round.
mod arena;
/// Branches that are computed both.
mod both;
/// From a draft to a round.
pub(crate) mod build;
/// Rounds by what they depend on.
mod cache;
/// What lies in one piece.
mod contiguous;
/// What planning finds of a node.
mod decide;
/// What is decided before any size is known.
pub mod describe;
/// In which order steps are taken, and by how many threads.
pub mod executor;
/// From runs to ways.
mod follow;
/// Graphs as the executor walks them.
mod graph;
/// Tiling at run time.
mod launch;
/// What grows in place.
mod growth;
/// States that a run brings.
mod held;
/// What fits an input.
mod inputs;
/// Variables of a run.
mod kept;
/// What plans are known by.
mod key;
/// Launches that are left out.
mod no_task;
/// Loops that make no turn.
mod no_turn;
/// Nodes that run piece by piece.
mod pieces;
/// What can be launched with the sizes that are known.
mod plan;
/// One round.
mod round;
/// Runs.
mod run;
/// Plans of runs before.
mod recent;
/// Sequences and optionals.
mod sequence;
/// Branches that plans take.
mod settle;
/// State in memory with room.
mod state;
/// Streams and events of a round.
mod streams;
/// Tiling by shape.
mod tiling;
/// What plugins offer.
mod tools;
/// What a run has done.
mod trail;
/// Values of a run.
mod value;
/// One node as plugins see it.
pub(crate) mod view;
/// Runs of sizes that were seen before.
mod way;

pub use state::State;
pub use tools::Tools;

use crate::error::RuntimeError;
use crate::executor::{RunOptions, RunOutcome};
use crate::gears;
use crate::load::{LoadedModel, device_number, most_streams};
use crate::map_pool::MapPool;
use crate::request::{Engines, LoadOptions};
use crate::stream_allocator::StreamAllocator;
use crate::variables::Bound;
use bytes::Bytes;
use cache::{Cache, Lasts};
use executor::Executor;
use ge_model::{CompiledModel, Gears};
use ge_plugin::OpenDevice;
use ge_plugin_api::device::RunReport;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use growth::Growing;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tiling::Tilings;
use value::{List, Tensor, Value};

/// A model of unknown shapes, loaded: `Send + Sync`, runs of several threads go side by side.
pub struct DynamicModel {
    compiled: CompiledModel,
    graphs: Vec<graph::Graph>,
    /// The engine that the compiler named for each node, by graph.
    preferred: Vec<Vec<String>>,
    tools: Arc<Tools>,
    engines: Engines,
    context: Arc<OpenDevice>,
    options: LoadOptions,
    /// How its rounds are loaded: they share the streams of the executor.
    of_round: LoadOptions,
    weights: Bytes,
    /// Parts of known shape, sealed.
    parts: Vec<Arc<LoadedModel>>,
    caches: Vec<Mutex<Cache>>,
    /// What their last plans were made of.
    lasts: Vec<Lasts>,
    /// What its inputs have to be.
    checks: inputs::Checks,
    /// Twins of graphs, by graph.
    twins: Vec<Option<both::Twin>>,
    /// The graphs that a run may begin with whose runs may have a way.
    ways: Vec<usize>,
    /// The plans of runs before that had one.
    recent: recent::Recent,
    /// What nodes ran as, by graph.
    tilings: Vec<Tilings>,
    /// Which graphs are branches, and of what.
    branches: Vec<Option<String>>,
    /// Who takes the steps of rounds.
    executor: Executor,
    /// The seed of legal orders by chance, where the device is opened for them.
    chance: Option<u64>,
    /// Turns of loops in one run, at most.
    most_turns: u64,
    /// Inputs that can be state which grows in place, by graph: those of the model, and what bodies of
    /// loops carry.
    growing: Vec<Vec<Growing>>,
    /// Whether they can, for all that read them, by graph.
    grows: Vec<AtomicBool>,
    /// Its variables, by name.
    variables: Vec<Bound>,
}

impl DynamicModel {
    /// Takes outputs of earlier runs that nobody reads any more: later ones write to their memory.
    pub fn give_back(&self, outputs: Vec<HostTensor>) {
        self.options.spare.put(outputs);
    }

    /// Lowers the graphs of a model.
    ///
    /// # Errors
    /// `damaged`: what the OM says does not fit together; `unsupported`: an operator that no plugin
    /// has.
    pub fn load(
        compiled: CompiledModel,
        tools: Arc<Tools>,
        engines: Engines,
        context: Arc<OpenDevice>,
        options: &LoadOptions,
    ) -> Result<DynamicModel, RuntimeError> {
        let weights = compiled.weights.first().map(|(_, b)| b.clone()).unwrap_or_default();
        let mut graphs = graph::lower(&compiled, &weights, &tools)?;
        let most_turns = most_turns(&options.device);
        let executor = Executor::choose(&graphs, &tools, options.cores);
        let chance = chance(&options.device);
        let engine_of = |g: &ge_model::GraphInfo| g.nodes.iter().map(|n| n.engine.clone()).collect();
        let mut preferred: Vec<Vec<String>> = compiled.graphs.iter().map(engine_of).collect();
        let maps = Some(Arc::new(MapPool::new(context.clone())));
        let options = LoadOptions { maps, ..options.clone() };
        let seal = |p: &CompiledModel| LoadedModel::load(p.clone(), &engines, context.clone(), &options).map(Arc::new);
        let parts = compiled.parts.iter().map(seal).collect::<Result<Vec<_>, _>>()?;
        // A run holds the variables: a part that took one again would wait for ever.
        if parts.iter().any(|p| !p.variables.is_empty()) {
            return Err(RuntimeError::Damaged { what: "a part of known shape has variables of its own".into() });
        }
        let streams =
            StreamAllocator::new(options.streams.clone(), device_number(&context), most_streams(&compiled.soc));
        let of_round = LoadOptions { run_streams: Some(Arc::new(streams)), ..options.clone() };
        // What tensors hold is gathered whole.
        let growing = if options.capture { vec![Vec::new(); graphs.len()] } else { growth::of_all(&graphs) };
        let mut branches = graph::branches(&graphs);
        // Who gathers what nodes write wants the branch that is taken; states grow in the graph alone.
        let mut twins = Vec::with_capacity(graphs.len());
        for at in 0..compiled.graphs.len() {
            let may = !options.capture && growing[at].is_empty();
            let made = may.then(|| both::twin(&graphs, at, &preferred, graphs.len(), &tools)).flatten();
            twins.push(made.map(|(twin, graph, engines)| {
                graphs.push(graph);
                preferred.push(engines);
                branches.push(branches[at].clone());
                twin
            }));
        }
        let grows = graphs.iter().map(|_| AtomicBool::new(true)).collect();
        let mut turned = graph::turned(&graphs);
        for (at, twin) in twins.iter().enumerate().filter_map(|(at, t)| Some((at, t.as_ref()?.at))) {
            turned[twin] |= turned[at];
        }
        let caches = turned.into_iter().map(|turned| Mutex::new(Cache::new(turned))).collect();
        let lasts = graphs.iter().map(|_| Lasts::default()).collect();
        let tilings = graphs.iter().zip(&preferred).map(|(g, engines)| Tilings::new(g, engines)).collect();
        let checks = inputs::Checks::new(&compiled);
        let twin = twins.first().and_then(|t| Some(t.as_ref()?.at));
        let ways = [twin, Some(0)].into_iter().flatten();
        let ways = ways.filter(|at| !options.capture && way::may_be(&graphs, *at)).collect();
        let variables = options.variables.bind(&compiled, options.rank)?;
        let named = graphs.first().map_or(&[][..], |g| &g.variables);
        if !variables.iter().map(|b| &b.info().name).eq(named) {
            return Err(RuntimeError::Damaged { what: "variables of the model have no place".into() });
        }
        Ok(DynamicModel {
            compiled,
            graphs,
            preferred,
            tools,
            engines,
            context,
            options,
            of_round,
            weights,
            parts,
            caches,
            lasts,
            checks,
            twins,
            ways,
            recent: recent::Recent::default(),
            tilings,
            branches,
            executor,
            chance,
            most_turns,
            growing,
            grows,
            variables,
        })
    }

    /// What it is.
    pub fn compiled(&self) -> &CompiledModel {
        &self.compiled
    }

    /// Who takes the steps of its rounds.
    pub fn executor(&self) -> Executor {
        self.executor
    }

    /// How many plans are kept, of all graphs.
    pub fn plans(&self) -> usize {
        self.caches.iter().map(|c| c.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// How many sizes that were seen run by launches and choices alone.
    pub fn ways(&self) -> usize {
        self.ways.iter().map(|at| self.cache(*at).ways()).sum()
    }

    /// How many plans were made of the one before, which differed in its sizes alone.
    pub fn plans_amended(&self) -> u64 {
        self.lasts.iter().map(Lasts::used).sum()
    }

    /// States that may grow in place in a graph; none where somebody who reads one has refused it.
    pub(crate) fn growing(&self, gi: usize) -> &[Growing] {
        let grows = self.grows.get(gi).is_some_and(|g| g.load(Ordering::Relaxed));
        self.growing.get(gi).filter(|_| grows).map_or(&[], Vec::as_slice)
    }

    /// The axis along which an input of these sizes can grow in place where it is an output of the
    /// step before.
    pub fn grows_along(&self, output: usize, input: usize, dims: &[u64]) -> Option<usize> {
        let g = self.growing(0).iter().find(|g| (g.output, g.input) == (output, input))?;
        g.fits(dims).then_some(g.axis)
    }

    /// Runs once on inputs in graph order.
    ///
    /// # Errors
    /// Inputs that do not fit what the model declares; what a node cannot compute for these sizes,
    /// named.
    pub fn run(&self, given: &[TensorView<'_>], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        let Some(gears) = &self.compiled.gears else { return self.run_sized(given, options) };
        let gear = self.gear(gears, &given.iter().map(|t| Given::Tensor(*t)).collect::<Vec<_>>())?;
        let selector = gears::selector(gears, gear)?;
        let all: Vec<TensorView<'_>> = given.iter().copied().chain([selector.view()]).collect();
        Ok(RunOutcome { gear: Some(gear), ..self.run_sized(&all, options)? })
    }

    /// The gear of these inputs.
    fn gear(&self, gears: &Gears, given: &[Given<'_>]) -> Result<usize, RuntimeError> {
        self.checks.check(&self.compiled, given)?;
        let inputs = self.compiled.inputs.iter().zip(given).filter_map(|(i, g)| match g {
            Given::Tensor(t) => Some((i, t.dims)),
            Given::State(s) => Some((i, s.dims())),
            Given::Sequence(_) | Given::Nothing => None,
        });
        gears::of_sizes(gears, inputs)
    }

    /// Whether a gear has the sizes of these inputs; what no gear can have either is left to those
    /// who name it.
    pub fn has_gear_of(&self, given: &[Given<'_>]) -> bool {
        let Some(gears) = &self.compiled.gears else { return true };
        !matches!(self.gear(gears, given), Err(RuntimeError::NoGear { .. }))
    }

    /// Runs once on inputs in graph order; with gears, behind them the one that says which.
    fn run_sized(&self, given: &[TensorView<'_>], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        if self.graphs.first().is_some_and(|g| !g.variables.is_empty() || !g.keeps.is_empty()) {
            if let Some(outcome) = self.launch_with_variables(given, options)? {
                return Ok(outcome);
            }
        } else if let Some(round) = self.way_of(given, options) {
            let Some(way) = round.way.get() else { return Err(ge_plugin_api::Error::internal("a way is lost").into()) };
            if let Some(ran) = way.launch(given, options) {
                return ran;
            }
            if let Some(outcome) = way.go(given, options)? {
                return Ok(outcome);
            }
        }
        // Inputs that have a gear fit.
        if self.compiled.gears.is_none() {
            let tensors: Vec<Given<'_>> = given.iter().map(|t| Given::Tensor(*t)).collect();
            self.checks.check(&self.compiled, &tensors)?;
        }
        let mut run = run::Run::new(options, self.executor.threads());
        run.trail = self.tells_way(options).then(trail::Trail::default);
        let args = given.iter().map(|t| Value::Tensor(Tensor::lent(t))).collect();
        let (values, mut outcome, _) = self.values(args, &mut run)?;
        self.keep_way(&mut run, given);
        let made = values.into_iter().map(made_of).collect::<Result<_, _>>()?;
        self.tensors(made, &mut outcome)?;
        Ok(outcome)
    }

    /// Runs once on inputs that the caller keeps: a `RefData` has afterwards what the model wrote to
    /// it.
    ///
    /// # Errors
    /// As [`run`](Self::run); all inputs are then as they were.
    pub fn run_mut(&self, given: &mut [HostTensor], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        let lends = |g: &graph::Graph| g.keeps.iter().any(|k| matches!(k, graph::Keeps::Input(_)));
        if !self.graphs.first().is_some_and(lends) {
            let views: Vec<TensorView<'_>> = given.iter().map(HostTensor::view).collect();
            return self.run(&views, options);
        }
        let views: Vec<Given<'_>> = given.iter().map(|t| Given::Tensor(t.view())).collect();
        self.checks.check(&self.compiled, &views)?;
        let args = given.iter().map(|t| Value::Tensor(Tensor::lent(&t.view()))).collect();
        let (values, mut outcome, written) = self.values(args, &mut run::Run::new(options, self.executor.threads()))?;
        let made = values.into_iter().map(made_of).collect::<Result<_, _>>()?;
        self.tensors(made, &mut outcome)?;
        let written = written.into_iter().map(|(k, t)| Ok((k, t.into_host()?)));
        for (k, t) in written.collect::<Result<Vec<_>, RuntimeError>>()? {
            given[k].bytes_mut().copy_from_slice(t.bytes());
        }
        Ok(outcome)
    }

    /// Outputs that have to be tensors.
    fn tensors(&self, made: Vec<Made>, outcome: &mut RunOutcome) -> Result<(), RuntimeError> {
        for (k, v) in made.into_iter().enumerate() {
            outcome.outputs.push(match v {
                Made::Tensor(t) => t,
                Made::State(s) => s.to_host()?,
                Made::Sequence(_) | Made::Nothing => {
                    let name = self.compiled.outputs.get(k).map_or("", |o| o.name.as_str());
                    return Err(ge_plugin_api::Error::unsupported(format!("output `{name}` is no tensor")).into());
                }
            });
        }
        Ok(())
    }

    /// The run of a model with variables where it is one launch; None: it is more, or its sizes are new.
    fn launch_with_variables(
        &self,
        given: &[TensorView<'_>],
        options: RunOptions,
    ) -> Result<Option<RunOutcome>, RuntimeError> {
        let held = kept::Held::take(&self.variables)?;
        let all: Vec<TensorView<'_>> = given.iter().copied().chain(held.values().iter().map(|t| t.view())).collect();
        let round = self.way_of(&all, options);
        let ran = round.as_ref().and_then(|r| r.way.get()?.launch(&all, options));
        let Some(mut outcome) = ran.transpose()? else { return Ok(None) };
        let graph = &self.graphs[0];
        let left = outcome.outputs.split_off(outcome.outputs.len().saturating_sub(graph.keeps.len()));
        held.keep(graph, left.into_iter().map(|t| Value::Tensor(Tensor::made(t))).collect())?;
        Ok(Some(outcome))
    }

    /// Runs once on inputs of which some are state, sequences or nothing. The outputs are in its
    /// second part, none in the outcome.
    ///
    /// # Errors
    /// As [`run`](Self::run); all states are then as they were.
    pub fn step(&self, given: &[Given<'_>], options: RunOptions) -> Result<(RunOutcome, Vec<Made>), RuntimeError> {
        let gear = match &self.compiled.gears {
            Some(gears) => Some((self.gear(gears, given)?, gears)),
            None => self.checks.check(&self.compiled, given).map(|()| None)?,
        };
        let selector = gear.map(|(gear, gears)| gears::selector(gears, gear)).transpose()?;
        let mut args = Vec::with_capacity(given.len() + 1);
        for (g, want) in given.iter().zip(&self.compiled.inputs) {
            args.push(match g {
                Given::Tensor(t) => Value::Tensor(Tensor::lent(t)),
                Given::State(s) => Value::Tensor(Tensor::state((*s).clone())),
                Given::Sequence(l) => {
                    let items = l.iter().map(Tensor::lent).collect::<Vec<_>>();
                    Value::List(List { items: Arc::new(items), dtype: want.desc.dtype, ..List::default() })
                }
                Given::Nothing => Value::Nothing,
            });
        }
        args.extend(selector.as_ref().map(|t| Value::Tensor(Tensor::lent(&t.view()))));
        let (values, outcome, _) = self.values(args, &mut run::Run::new(options, self.executor.threads()))?;
        let outcome = RunOutcome { gear: gear.map(|g| g.0), ..outcome };
        let made = values.into_iter().map(made_of).collect::<Result<_, _>>()?;
        Ok((outcome, made))
    }

    /// Runs the root graph, and keeps what it leaves in variables; what it leaves in inputs comes
    /// last.
    fn values<'a>(
        &self,
        args: Vec<Value<'a>>,
        run: &mut run::Run,
    ) -> Result<(Vec<Value<'a>>, RunOutcome, kept::Written<'a>), RuntimeError> {
        let held = kept::Held::take(&self.variables)?;
        let mut args = args;
        args.extend(held.values().iter().map(|t| Value::Tensor(Tensor::shared(t))));
        let mut values = self.graph(0, args, run)?;
        let graph = &self.graphs[0];
        let left = values.split_off(values.len().saturating_sub(graph.keeps.len()));
        let written = held.keep(graph, left)?;
        let report = RunReport { launches: run.launches, ..RunReport::default() };
        let (captured, parts) = (std::mem::take(&mut run.captured), std::mem::take(&mut run.parts));
        let hosted = std::mem::take(&mut run.hosted);
        let outcome = RunOutcome { outputs: Vec::new(), report, copied_inputs: 0, captured, gear: None, parts, hosted };
        Ok((values, outcome, written))
    }
}

/// A value as the caller gets it.
fn made_of(v: Value<'_>) -> Result<Made, RuntimeError> {
    match v {
        Value::Nothing => Ok(Made::Nothing),
        Value::List(l) => {
            let all = l.items.iter().map(|t| t.clone().into_host()).collect::<Result<_, _>>()?;
            Ok(Made::Sequence(all))
        }
        Value::Tensor(t) => match t.store {
            value::Store::State(s) if s.dims() == &t.dims[..] => Ok(Made::State(s)),
            _ => t.into_host().map(Made::Tensor),
        },
    }
}

/// Turns of loops after which a run is taken to go on for ever: as many as the tasks make that its
/// device allows in one (`max_tasks`), of which a turn of a planned loop has five at least.
fn most_turns(device: &[(String, String)]) -> u64 {
    let tasks = device.iter().find(|(k, _)| k == "max_tasks").and_then(|(_, v)| v.parse().ok());
    tasks.unwrap_or(50_000_000u64).div_ceil(5)
}

/// The seed of a device whose schedule is left to chance (`schedule=random:SEED`): steps of the host
/// are, too.
fn chance(device: &[(String, String)]) -> Option<u64> {
    let schedule = device.iter().find(|(k, _)| k == "schedule").map(|(_, v)| v.as_str())?;
    schedule.strip_prefix("random:")?.parse().ok()
}

/// An input of a step.
pub enum Given<'a> {
    /// A tensor.
    Tensor(TensorView<'a>),
    /// A state.
    State(&'a State),
    /// A sequence.
    Sequence(Vec<TensorView<'a>>),
    /// An optional that holds nothing.
    Nothing,
}

/// An output of a step.
pub enum Made {
    /// A tensor.
    Tensor(HostTensor),
    /// A state, in the memory of what it was before.
    State(State),
    /// A sequence.
    Sequence(Vec<HostTensor>),
    /// An optional that holds nothing.
    Nothing,
}
