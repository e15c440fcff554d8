//! Executor v2 (facts 8.8 to 8.11): runs models whose shapes are known only when a run begins.
//!
//! Each graph is lowered once, at load. A run proceeds in rounds. In each round, every node whose
//! sizes are known is inferred, tiled and bound into one sealed model of the device, which is
//! launched as a whole. Nodes that depend on values computed there (sizes of a `NonZero`, branches,
//! loop iterations) are executed by the host; then the next round begins. Rounds are cached by the
//! shapes that they were made for, so a shape seen before costs only a look-up and the launches.

/// Makes a plan from the previous one when only sizes have changed.
mod amend;
/// Memory layout of a round.
mod arena;
/// Choices whose small branches are both computed.
mod both;
/// Builds a round from a draft.
pub(crate) mod build;
/// Caches rounds by what they depend on.
mod cache;
/// Finds splits and slices that take contiguous memory.
mod contiguous;
/// Decides how one node is executed.
mod decide;
/// Describes the decisions that need no sizes.
pub mod describe;
/// The order of a round's steps, and the number of threads that take them.
pub mod executor;
/// Converts the record of a run into a way.
mod follow;
/// Graphs in the form that the executor walks.
mod graph;
/// Tiling at run time.
mod launch;
/// Finds inputs that can grow in place.
mod growth;
/// Growing states in a plan.
mod held;
/// Checks the inputs of a run.
mod inputs;
/// Variables during a run.
mod kept;
/// Cache keys of plans.
mod key;
/// Finds launches that can be left out.
mod no_task;
/// Loops without any iteration.
mod no_turn;
/// Nodes that run piece by piece.
mod pieces;
/// Plans what can be launched with the sizes that are known.
mod plan;
/// Executes one round.
mod round;
/// Runs of graphs.
mod run;
/// Plans of recent runs, by input sizes.
mod recent;
/// Sequences and optionals.
mod sequence;
/// Branches that a plan can choose itself.
mod settle;
/// What a refused run says of the sizes of its inputs.
mod sizes;
/// State in memory with spare room.
mod state;
/// Slices at positions that are values of the run.
mod positions;
/// Small programs on whole numbers.
mod scalars;
/// Streams and events of a round.
mod streams;
/// Caches tilings by shape.
mod tiling;
/// What plugins offer to dynamic models.
mod tools;
/// The record of a run.
mod trail;
/// Iterations of loops whose sizes do not change.
mod turns;
/// Values of a run.
mod value;
/// The view of one node that plugins receive.
pub(crate) mod view;
/// Fast runs for sizes that were seen before.
mod way;

pub use state::State;
pub use tools::Tools;

use crate::capture::choice;
use crate::error::RuntimeError;
use crate::executor::{RunOptions, RunOutcome};
use crate::gears;
use crate::load::{LoadedModel, device_number, most_streams};
use crate::map_pool::MapPool;
use crate::request::{Engines, LoadOptions};
use crate::stream_allocator::StreamAllocator;
use crate::variables::Bound;
use crate::weights::Weights;
use cache::{Cache, Lasts};
use executor::Executor;
use ge_model::{CompiledModel, Gears};
use ge_plugin::OpenDevice;
use ge_plugin_api::device::RunReport;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::types::DType;
use growth::Growing;
use scalars::Program;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tiling::Tilings;
use value::{List, Tensor, Value};

/// A loaded model of unknown shapes. It is `Send + Sync`; runs from several threads execute in
/// parallel.
pub struct DynamicModel {
    compiled: CompiledModel,
    graphs: Vec<graph::Graph>,
    /// The engine that the compiler chose for each node, by graph.
    preferred: Vec<Vec<String>>,
    tools: Arc<Tools>,
    engines: Engines,
    context: Arc<OpenDevice>,
    options: LoadOptions,
    /// Load options of the rounds, which share the executor's streams.
    of_round: LoadOptions,
    weights: Weights,
    /// Parts of known shape, each a sealed model.
    parts: Vec<Arc<LoadedModel>>,
    caches: Vec<Mutex<Cache>>,
    /// The conditions of loops that small programs can tell, by their graphs.
    conditions: Vec<Option<Program>>,
    /// What the latest plans of each graph were made of.
    lasts: Vec<Lasts>,
    /// Requirements on the model's inputs.
    checks: inputs::Checks,
    /// The twin of each graph, if it has one.
    twins: Vec<Option<both::Twin>>,
    /// The possible root graphs (the root or its twin) whose runs may have a way.
    ways: Vec<usize>,
    /// The plans of recent runs that had a way.
    recent: recent::Recent,
    /// Number of iterations of loops that repeated an earlier one.
    repeated: AtomicU64,
    /// Tilings that nodes used, by graph.
    tilings: Vec<Tilings>,
    /// For each graph that is a branch: a description of the branch and its node.
    branches: Vec<Option<String>>,
    /// How the steps of rounds are executed.
    executor: Executor,
    /// Seed for random legal orders, if the device was opened with such a schedule.
    chance: Option<u64>,
    /// Maximum number of loop iterations in one run.
    most_turns: u64,
    /// Inputs that can be states that grow in place, by graph: inputs of the model and values that
    /// loop bodies carry.
    growing: Vec<Vec<Growing>>,
    /// For each graph, whether states may still grow in place; `false` once a reader has refused.
    grows: Vec<AtomicBool>,
    /// Variables of the model, by name.
    variables: Vec<Bound>,
}

impl DynamicModel {
    /// Takes back outputs of earlier runs that nobody reads any more; later runs reuse their
    /// memory.
    pub fn give_back(&self, outputs: Vec<HostTensor>) {
        self.options.spare.put(outputs);
    }

    /// Loads a model: lowers its graphs and seals its parts of known shape.
    ///
    /// # Errors
    /// Returns `damaged` if the OM is inconsistent, and `unsupported` if no plugin has an operator.
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
        // A run holds its variables: a part that took one again would deadlock.
        if parts.iter().any(|p| !p.variables.is_empty()) {
            return Err(RuntimeError::Damaged { what: "a part of known shape has variables of its own".into() });
        }
        let streams =
            StreamAllocator::new(options.streams.clone(), device_number(&context), most_streams(&compiled.soc));
        let of_round = LoadOptions { run_streams: Some(Arc::new(streams)), ..options.clone() };
        // Capture needs whole tensors, so states do not grow in place then.
        let growing = if options.capture { vec![Vec::new(); graphs.len()] } else { growth::of_all(&graphs) };
        let mut branches = graph::branches(&graphs);
        // With capture only the taken branch may run, so there are no twins. States grow only in
        // the graph itself, so a graph with growing states has no twin either.
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
        let conditions = scalars::conditions(&graphs);
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
            context: context.clone(),
            options,
            of_round,
            weights: Weights::shared(weights, context)?,
            parts,
            caches,
            conditions,
            lasts,
            checks,
            twins,
            ways,
            recent: recent::Recent::default(),
            repeated: AtomicU64::new(0),
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

    /// The compiled model.
    pub fn compiled(&self) -> &CompiledModel {
        &self.compiled
    }

    /// How the steps of its rounds are executed.
    pub fn executor(&self) -> Executor {
        self.executor
    }

    /// Number of plans in the caches of all graphs.
    pub fn plans(&self) -> usize {
        self.caches.iter().map(|c| c.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// Number of plans from which later runs need only launches and choices (see `way.rs`).
    pub fn ways(&self) -> usize {
        self.ways.iter().map(|at| self.cache(*at).ways()).sum()
    }

    /// Number of iterations of loops that took the steps of an earlier one (see `turns.rs`).
    pub fn turns_repeated(&self) -> u64 {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Number of plans that were made from a previous plan that differed only in its sizes.
    pub fn plans_amended(&self) -> u64 {
        self.lasts.iter().map(Lasts::used).sum()
    }

    /// States that may grow in place in a graph. Empty once a reader of one has refused.
    pub(crate) fn growing(&self, gi: usize) -> &[Growing] {
        let grows = self.grows.get(gi).is_some_and(|g| g.load(Ordering::Relaxed));
        self.growing.get(gi).filter(|_| grows).map_or(&[], Vec::as_slice)
    }

    /// The axis along which `input` can grow in place if it is `output` of the previous step, for
    /// this type and these sizes; `None` if it cannot.
    pub fn grows_along(&self, output: usize, input: usize, dtype: DType, dims: &[u64]) -> Option<usize> {
        let g = self.growing(0).iter().find(|g| (g.output, g.input) == (output, input))?;
        g.fits(dtype, dims).then_some(g.axis)
    }

    /// Runs once. Inputs are in graph order.
    ///
    /// # Errors
    /// Fails if the inputs do not fit the model, or if a node (which is named) cannot compute these
    /// sizes.
    pub fn run(&self, given: &[TensorView<'_>], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        let Some(gears) = &self.compiled.gears else {
            if !self.checks.fixed_values_hold(given) {
                self.check(given)?;
            }
            return self.run_sized(given, options).map_err(|e| self.by_sizes(e, &|k| Some(given.get(k)?.dims)));
        };
        let gear = self.gear(gears, &given.iter().map(|t| Given::Tensor(*t)).collect::<Vec<_>>())?;
        let selector = gears::selector(gears, gear)?;
        let all: Vec<TensorView<'_>> = given.iter().copied().chain([selector.view()]).collect();
        Ok(RunOutcome {
            gear: Some(gear),
            ..self.run_sized(&all, options).map_err(|e| self.by_sizes(e, &|k| Some(given.get(k)?.dims)))?
        })
    }

    /// Checks inputs that are all tensors.
    fn check(&self, given: &[TensorView<'_>]) -> Result<(), RuntimeError> {
        let tensors: Vec<Given<'_>> = given.iter().map(|t| Given::Tensor(*t)).collect();
        self.checks.check(&self.compiled, &tensors)
    }

    /// The gear that matches these inputs.
    fn gear(&self, gears: &Gears, given: &[Given<'_>]) -> Result<usize, RuntimeError> {
        self.checks.check(&self.compiled, given)?;
        let inputs = self.compiled.inputs.iter().zip(given).filter_map(|(i, g)| match g {
            Given::Tensor(t) => Some((i, t.dims)),
            Given::State(s) => Some((i, s.dims())),
            Given::Sequence(_) | Given::Nothing => None,
        });
        gears::of_sizes(gears, inputs)
    }

    /// Whether a gear has the sizes of these inputs. Inputs that are wrong for every gear also give
    /// `true`, so that the run reports the precise error.
    pub fn has_gear_of(&self, given: &[Given<'_>]) -> bool {
        let Some(gears) = &self.compiled.gears else { return true };
        !matches!(self.gear(gears, given), Err(RuntimeError::NoGear { .. }))
    }

    /// Runs once on inputs in graph order; with gears, the last input selects the gear.
    fn run_sized(&self, given: &[TensorView<'_>], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        self.weights.run();
        if self.graphs.first().is_some_and(|g| !g.variables.is_empty() || !g.keeps.is_empty()) {
            if let Some(outcome) = self.launch_with_variables(given, options)? {
                return Ok(outcome);
            }
        } else if let Some(round) = self.way_of(given, options) {
            let Some(way) = round.way.get() else { return Err(ge_plugin_api::Error::internal("a way is lost").into()) };
            if let Some(ran) = way.launch(given, options) {
                return ran;
            }
            if let Some(outcome) = way.go(given, options, &self.options.spare)? {
                return Ok(outcome);
            }
        }
        // Inputs that match a gear are already checked.
        if self.compiled.gears.is_none() {
            self.check(given)?;
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

    /// Runs once on inputs that the caller keeps. After the run, a `RefData` input holds what the
    /// model wrote to it.
    ///
    /// # Errors
    /// Fails like [`run`](Self::run); all inputs are then unchanged.
    pub fn run_mut(&self, given: &mut [HostTensor], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        // A model with gears has no `RefData`, so it is one that lends nothing.
        let lends = |g: &graph::Graph| g.keeps.iter().any(|k| matches!(k, graph::Keeps::Input(_)));
        if !self.graphs.first().is_some_and(lends) {
            let views: Vec<TensorView<'_>> = given.iter().map(HostTensor::view).collect();
            return self.run(&views, options);
        }
        let views: Vec<Given<'_>> = given.iter().map(|t| Given::Tensor(t.view())).collect();
        self.checks.check(&self.compiled, &views)?;
        self.weights.run();
        let args = given.iter().map(|t| Value::Tensor(Tensor::lent(&t.view()))).collect();
        let ran = self.values(args, &mut run::Run::new(options, self.executor.threads()));
        let (values, mut outcome, written) = ran.map_err(|e| self.by_sizes(e, &|k| Some(&given.get(k)?.dims[..])))?;
        let made = values.into_iter().map(made_of).collect::<Result<_, _>>()?;
        self.tensors(made, &mut outcome)?;
        let written = written.into_iter().map(|(k, t)| Ok((k, t.into_host()?)));
        for (k, t) in written.collect::<Result<Vec<_>, RuntimeError>>()? {
            given[k].bytes_mut().copy_from_slice(t.bytes());
        }
        Ok(outcome)
    }

    /// Stores outputs in the outcome; fails if one of them is not a tensor.
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

    /// Runs a model with variables if its way is a single launch. `None` if it needs more, or if
    /// these sizes are new.
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

    /// Runs once on inputs that may also be states, sequences or empty optionals. Returns the
    /// outputs separately; those of the outcome are empty.
    ///
    /// # Errors
    /// Fails like [`run`](Self::run); all states are then unchanged.
    pub fn step(&self, given: &[Given<'_>], options: RunOptions) -> Result<(RunOutcome, Vec<Made>), RuntimeError> {
        let gear = match &self.compiled.gears {
            Some(gears) => Some((self.gear(gears, given)?, gears)),
            None => self.checks.check(&self.compiled, given).map(|()| None)?,
        };
        self.weights.run();
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
        let ran = self.values(args, &mut run::Run::new(options, self.executor.threads()));
        let dims = |k: usize| match given.get(k)? {
            Given::Tensor(t) => Some(t.dims),
            Given::State(s) => Some(s.dims()),
            Given::Sequence(_) | Given::Nothing => None,
        };
        let (values, outcome, _) = ran.map_err(|e| self.by_sizes(e, &dims))?;
        let outcome = RunOutcome { gear: gear.map(|g| g.0), ..outcome };
        let made = values.into_iter().map(made_of).collect::<Result<_, _>>()?;
        Ok((outcome, made))
    }

    /// Runs the root graph and stores what it leaves in variables. The last part of the result is
    /// what it leaves in inputs.
    fn values<'a>(
        &self,
        args: Vec<Value<'a>>,
        run: &mut run::Run,
    ) -> Result<(Vec<Value<'a>>, RunOutcome, kept::Written<'a>), RuntimeError> {
        let held = kept::Held::take(&self.variables)?;
        let mut args = args;
        let condition = |v: &Value<'_>| choice::condition(v.tensor()?.view().bytes);
        let conditions: Vec<Option<bool>> =
            if self.options.capture { args.iter().map(condition).collect() } else { Vec::new() };
        args.extend(held.values().iter().map(|t| Value::Tensor(Tensor::shared(t))));
        let mut values = self.graph(0, args, run)?;
        let graph = &self.graphs[0];
        let left = values.split_off(values.len().saturating_sub(graph.keeps.len()));
        let written = held.keep(graph, left)?;
        let report = RunReport { launches: run.launches, ..RunReport::default() };
        let (mut captured, parts) = (std::mem::take(&mut run.captured), std::mem::take(&mut run.parts));
        if self.options.capture {
            choice::leave_out(&self.compiled, &mut captured, |k| *conditions.get(k)?);
        }
        let hosted = std::mem::take(&mut run.hosted);
        let outcome = RunOutcome { outputs: Vec::new(), report, copied_inputs: 0, captured, gear: None, parts, hosted };
        Ok((values, outcome, written))
    }
}

/// Converts a value into the form that the caller receives.
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

/// Loop iterations after which a run is taken to be endless. Derived from the number of tasks that
/// the device allows in one run (`max_tasks`): an iteration of a planned loop has at least five
/// tasks.
fn most_turns(device: &[(String, String)]) -> u64 {
    let tasks = device.iter().find(|(k, _)| k == "max_tasks").and_then(|(_, v)| v.parse().ok());
    tasks.unwrap_or(50_000_000u64).div_ceil(5)
}

/// The seed of a device with a random schedule (`schedule=random:SEED`). The host then takes its
/// steps in random order too.
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
    /// A sequence of tensors.
    Sequence(Vec<TensorView<'a>>),
    /// An empty optional.
    Nothing,
}

/// An output of a step.
pub enum Made {
    /// A tensor.
    Tensor(HostTensor),
    /// A state in the memory of the state that it grew from.
    State(State),
    /// A sequence of tensors.
    Sequence(Vec<HostTensor>),
    /// An empty optional.
    Nothing,
}
