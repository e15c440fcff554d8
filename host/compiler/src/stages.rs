//! The list of stages, in order, and the driver that runs them.
//!
//! `import` is the front end's; the rest stand here. Each stage is one module with one entry function; what it decides is a type
//! of its own, read by those after it.
use crate::error::{CompileError, Result};
use crate::feature::kernel_cache::KernelCache;
use crate::feature::tuning::{self, Resume, Step};
use crate::feature::{atomic_clean, control_flow, ffts_plus, super_kernel, tiling_sink};
use crate::memory::graph_planner;
use crate::model::{GeRootModel, weights};
use crate::options::Options;
use crate::partition::Round;
use crate::pass::blame::guarded;
use crate::pass::{Blame, Blamed, PassManager, Records};
use crate::place::{EnginePlacer, Placement, hostcpu_engine_update_pass};
use crate::tasks::{TaskGenerator, TaskList};
use crate::toolbox::Toolbox;
use crate::{
    conflict, merge, original, params, partition, place, prepare, split, stage1, stage2, streams, subgraph, sync,
};
use ge_ir::Model;
use ge_plugin::heap;
use ge_plugin_api::engine::Hook;
use std::borrow::Cow;
use std::time::Instant;

/// Names of the stages in order (DESIGN 2).
pub const STAGES: &[&str] = &[
    "import",
    "prepare",
    "original",
    "stage1",
    "place",
    "partition",
    "subgraph",
    "merge",
    "stage2",
    "conflict",
    "streams",
    "memory",
    "sync",
    "tasks",
    "split",
    "model",
];

/// What the host wants to know while a compilation runs.
pub trait Observer: Sync {
    /// A stage begins.
    fn stage(&self, name: &'static str, nodes: usize) {
        let _ = (name, nodes);
    }
    /// A stage has ended, or the part of it that was run; `graph` gives the graph that it leaves, made when it is asked for.
    fn done<'m>(&self, name: &'static str, part: &'static str, graph: &dyn Fn() -> Cow<'m, Model>, micros: u64) {
        let _ = (name, part, graph, micros);
    }
    /// A stage has failed on this graph, in a pass of it if one is known: what the failing pass was given.
    fn failed(&self, name: &'static str, pass: Option<&Blamed>, graph: &Model) {
        let _ = (name, pass, graph);
    }
    /// Whether a model that was built before will do: false where what the stages leave is to be seen.
    fn cached(&self) -> bool {
        true
    }
    /// Whether the user wants to stop.
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer that looks away.
pub struct Silent;
impl Observer for Silent {}

/// What came of a compilation.
pub enum Outcome {
    /// The model.
    Built(Box<GeRootModel>),
    /// The graph of a tuning stop.
    Stopped(Step, Model),
}

/// Compiles a model through all stages, or up to a tuning stop; the graph of one goes on where it stopped.
pub fn compile(
    name: &str,
    mut model: Model,
    toolbox: &Toolbox,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Outcome> {
    let mut records = Records::default();
    let run = Run { observer, start: Instant::now(), blame: Blame::default() };
    let stop = Step::of(options)?;
    let mut passes = PassManager::new(toolbox, options)?.blaming(&run.blame);
    let is_view = |n: &ge_ir::Node| toolbox.op_flags(n.op_key()) & ge_plugin_api::ops::flags::VIEW != 0;
    let resume = tuning::take(&mut model, &mut records)?;
    let mut set: Vec<(String, String)> = Vec::new();
    let (mut lowered, mut staged) = (false, false);
    let kernels = KernelCache::default();
    match &resume {
        Some(r) => {
            set.clone_from(&r.options);
            lowered = r.lowered;
        }
        None => {
            passes.verify_input(&model)?;
            original::precision::names::check(&model, options)?;
            run.stage("prepare", &mut model, |m| prepare::run(m, &passes, &mut records))?;
            run.stage("original", &mut model, |m| original::run(m, &passes, &mut records))?;
            run.stage("stage1", &mut model, |m| stage1::run(m, &passes, &mut records))?;
            if let Some(refusal) = partition::dynamic::unknown::refusal(&model, toolbox) {
                return Err(refusal);
            }
            let control_flow = model.graphs().len() > 1;
            // Before control flow becomes labels and jumps, which have no level; these then also take the stages in turn.
            let whole = |pieces| Ok(merge::run(pieces, toolbox)?.model);
            staged = partition::dynamic::stage_partition::run(&mut model, &whole)?;
            if control_flow {
                staged = false;
                // Bodies of control flow need outputs of their own before they become labels and jumps.
                conflict::run(&mut model, toolbox, options)?;
                lowered = control_flow::lower(&mut model, &is_view)?;
            }
        }
    }
    if lowered {
        // Labels, jumps and copies into a branch's output are no operators of a prototype.
        passes = passes.without_verifier();
    }
    let mut options = options.clone();
    set.iter().for_each(|(k, v)| options.set(k, v));
    let options = &options;
    let stopped = |step: Step, mut model: Model, records: &Records| {
        tuning::put(&mut model, &Resume { step, options: set.clone(), lowered }, records);
        Outcome::Stopped(step, model)
    };
    let resumed_at = resume.map(|r| r.step);
    let bound = if resumed_at.is_none() { place::reassign::bound(&model) } else { Default::default() };
    match resumed_at {
        None => {
            tiling_sink::mark(&mut model, toolbox, options, &mut records)?;
            let placement = run.stage("place", &mut model, |m| place(m, toolbox, &mut records))?;
            note_refusals(&placement, &model, &mut records);
            if let Some((step, cut)) = subgraphs(&run, &mut model, placement, &passes, &mut records, stop, &kernels)? {
                return Ok(stopped(step, cut, &records));
            }
        }
        Some(Step::AfterBuilder) => {}
        Some(step) => {
            let mut pieces = partition::Pieces::from_attrs(std::mem::take(&mut model), toolbox)?;
            if step == Step::BeforeUbMatch {
                subgraph::run(&mut pieces, &passes, &mut records, Some(&kernels))?;
                if stop == Some(Step::AfterUbMatch) {
                    return Ok(stopped(Step::AfterUbMatch, pieces.to_attrs(toolbox), &records));
                }
            }
            join(pieces, &mut model, &passes)?;
            if !lowered {
                passes.verify_input(&model)?;
            }
        }
    }
    // A subgraph in slices is one node for all that follows.
    let bodies = ffts_plus::take(&mut model)?;
    if staged || resumed_at.is_some() {
        // Engines have looked at each stage on its own; with all sizes known one list of tasks runs them in turn.
        control_flow::lower(&mut model, &is_view)?;
    }
    let mut placement = if resumed_at == Some(Step::AfterBuilder) {
        EnginePlacer::new(toolbox, true)?.run(&mut model)?
    } else {
        run.stage("stage2", &mut model, |m| stage2::run(m, &passes, &mut records))?;
        // Nodes that stage 2 and the conflicts have added get their engines; those placed before stay where they are.
        run.stage("conflict", &mut model, |m| {
            conflict::run(m, toolbox, options)?;
            passes.stage("conflict", m, &mut records)?;
            EnginePlacer::new(toolbox, true)?.run(m)
        })?
    };
    note_refusals(&placement, &model, &mut records);
    let for_tuning = (stop == Some(Step::AfterBuilder)).then(|| (model.clone(), records.clone()));
    let rank_size = rank_size(&model);
    let calls = ffts_plus::calls(&model, &bodies, toolbox, rank_size)?;
    let mut rounds = 0;
    // Once, as a rule; again where a switch needs a StreamActive to wake more than one stream, or a body one to wake its own, or where
    // an engine cannot compile a node that it took.
    let (weights, stream_plan, order, memory, sync, stored, physical) = loop {
        let mut params = params::run(&model, &placement, toolbox)?;
        if atomic_clean::insert(&mut model, &params, options)? {
            placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
            params = params::run(&model, &placement, toolbox)?;
        }
        ffts_plus::task::workspaces(&model, &calls, &mut params);
        tiling_sink::ask(&mut model, &params);
        let weights = weights::merge(&model)?;
        let (stream_plan, order) = run.stage("streams", &mut model, |m| {
            let (mut plan, mut order) = streams::run(m, &placement, toolbox, options)?;
            if plan.drop_idle(m) {
                order = streams::ExecutionOrder::new(m, &plan);
            }
            Ok((plan, order))
        })?;
        let bodies = stream_plan.flow.as_ref().map(|f| f.without_active(&model, &stream_plan)).unwrap_or_default();
        let mut crowded = streams::activation::crowded_switches(&model, &stream_plan);
        if crowded.is_empty() && bodies.is_empty() {
            stream_plan.active_to_attrs(&mut model);
            let memory = run
                .stage("memory", &mut model, |m| graph_planner::plan(m, toolbox, &params, &order, &weights, options))?;
            let (mut sync, chains) = run.stage("sync", &mut model, |m| {
                let mut plan = sync::run(m, &stream_plan, &order, options, &toolbox.target.soc)?;
                sync::resources::assign(&mut plan, &params, &stream_plan, &order);
                // What a super kernel orders by itself needs no events.
                let plans = super_kernel::chains::Plans {
                    model: m,
                    toolbox,
                    placement: &placement,
                    params: &params,
                    streams: &stream_plan,
                    order: &order,
                };
                let chains = super_kernel::form(&plans, &mut plan, &mut records);
                let last = [Hook::STREAMED_WHOLE_GRAPH, Hook::STREAM_GRAPH];
                sync::streamed::run(&last, m, &stream_plan, &plan, &passes, &mut records)?;
                Ok((plan, chains))
            })?;
            let tasks = run.stage("tasks", &mut model, |m| {
                let generator = TaskGenerator::new(toolbox, &placement, rank_size, &chains, &calls, &kernels);
                match generator.run(m, &stream_plan, &order, &sync) {
                    Ok(tasks) => Ok(Ok(tasks)),
                    Err(e) => {
                        let refused = generator.refused();
                        if refused.is_empty() { Err(e) } else { Ok(Err(refused)) }
                    }
                }
            })?;
            let tasks = match tasks {
                Ok(tasks) => tasks,
                // Each node leaves an engine behind: the list of engines ends.
                Err(refused) => {
                    place::reassign::run(&mut model, &placement, toolbox, refused, &bound, &mut records)?;
                    placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
                    continue;
                }
            };
            let input = split::Input { streams: &stream_plan, order: &order, soc: &toolbox.target.soc, options };
            let TaskList { tasks, kernels: stored } = tasks;
            match run.stage("split", &mut model, |m| split::run(m, &input, tasks, &mut sync))? {
                split::Split::Done(physical) => {
                    break (weights, stream_plan, order, memory, sync, stored, physical);
                }
                split::Split::NeedsActive(switches) => crowded = switches,
                split::Split::Crowded(nodes) => {
                    let limit = u64::from(toolbox.target.soc.tasks_normal);
                    split::gather::insert(&mut model, &nodes, limit)?;
                    placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
                    continue;
                }
            }
        }
        rounds += 1;
        if rounds > 8 {
            return Err(CompileError::internal(
                "split",
                "a switch or a body still lacks the node that wakes its streams",
            ));
        }
        // Ids change with each of them.
        if crowded.is_empty() {
            streams::flow::insert_actives(&mut model, &bodies)?;
        } else {
            streams::activation::insert_stream_actives(&mut model, &crowded)?;
        }
        placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
    };
    if let Some((mut graph, records)) = for_tuning {
        ffts_plus::give_back(&mut graph, &bodies)?;
        return Ok(stopped(Step::AfterBuilder, graph, &records));
    }
    records.kernels = kernels.counts();
    crate::tasks::mark_first_and_last_ops::mark(&mut model, &placement, &stream_plan, &order);
    Ok(Outcome::Built(Box::new(GeRootModel {
        name: name.to_owned(),
        engines: toolbox.engines.iter().map(|e| e.info.name.to_string()).collect(),
        runtime_engine: crate::model::sync_nodes::runtime_engine(toolbox),
        model,
        calls,
        placement,
        streams: stream_plan,
        memory,
        sync,
        physical,
        kernels: stored,
        weights,
        records,
        options: options.clone(),
        plugins: toolbox.plugins.clone(),
        soc: toolbox.target.soc.clone(),
        rank_size,
    })))
}

/// Runs the stages `from` to `until`, both included, on a graph that may carry the decisions of earlier stages as attributes,
/// and writes what is decided back as attributes (DESIGN 7, "Names of decisions"). Stages after `sync` leave nothing that text
/// can hold: `until` beyond it is refused.
pub fn run_range(
    mut model: Model,
    toolbox: &Toolbox,
    options: &Options,
    from: usize,
    until: usize,
    records: &mut Records,
) -> Result<Model> {
    let at = |name: &str| STAGES.iter().position(|s| *s == name).unwrap_or(usize::MAX);
    let within = |name: &str| (from..=until).contains(&at(name));
    if until > at("sync") {
        return Err(CompileError::Option {
            message: format!("stage `{}` leaves no text", STAGES.get(until).copied().unwrap_or("?")),
            help: "use `ge compile`, or `--until sync`".into(),
        });
    }
    let passes = PassManager::new(toolbox, options)?;
    if within("prepare") || within("original") {
        original::precision::names::check(&model, options)?;
    }
    if within("prepare") {
        prepare::run(&mut model, &passes, records)?;
    }
    if within("original") {
        original::run(&mut model, &passes, records)?;
    }
    if within("stage1") {
        stage1::run(&mut model, &passes, records)?;
    }
    let whole = |pieces| Ok(merge::run(pieces, toolbox)?.model);
    if within("place") {
        partition::dynamic::stage_partition::run(&mut model, &whole)?;
        tiling_sink::mark(&mut model, toolbox, options, records)?;
        let placement = place(&mut model, toolbox, records)?;
        note_refusals(&placement, &model, records);
    }
    if within("partition") || within("subgraph") || within("merge") {
        if within("partition") {
            let placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
            partition::dynamic::dynamic_shape_partition::run(&mut model, &placement, toolbox, options, &whole)?;
        }
        model = partition_range(model, &passes, (from, until), records)?;
    }
    // A subgraph in slices is one node for all that follows, with one task and one workspace.
    let bodies = if until >= at("stage2") { ffts_plus::take(&mut model)? } else { Vec::new() };
    if within("stage2") {
        stage2::run(&mut model, &passes, records)?;
    }
    if within("conflict") {
        conflict::run(&mut model, toolbox, options)?;
        passes.stage("conflict", &mut model, records)?;
    }
    if until < at("streams") {
        ffts_plus::give_back(&mut model, &bodies)?;
        return Ok(model);
    }
    // An engine given in a text that enters at `streams` or later binds without asking.
    let mut placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
    note_refusals(&placement, &model, records);
    let given = if from > at("streams") { streams::StreamPlan::from_attrs(&model) } else { None };
    if given.is_none() && until >= at("memory") {
        let asked = params::run(&model, &placement, toolbox)?;
        if atomic_clean::insert(&mut model, &asked, options)? {
            placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
        }
    }
    let (plan, order) = match given {
        Some(mut plan) => {
            plan.mark_taskless(&model, &placement, toolbox);
            let order = streams::ExecutionOrder::new(&model, &plan);
            (plan, order)
        }
        None => {
            let mut last = streams::run(&mut model, &placement, toolbox, options)?;
            for _ in 0..8 {
                let bodies = last.0.flow.as_ref().map(|f| f.without_active(&model, &last.0)).unwrap_or_default();
                let crowded = streams::activation::crowded_switches(&model, &last.0);
                if crowded.is_empty() && bodies.is_empty() {
                    break;
                }
                if crowded.is_empty() {
                    streams::flow::insert_actives(&mut model, &bodies)?;
                } else {
                    streams::activation::insert_stream_actives(&mut model, &crowded)?;
                }
                placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
                last = streams::run(&mut model, &placement, toolbox, options)?;
            }
            last
        }
    };
    if within("streams") {
        plan.to_attrs(&mut model);
        plan.active_to_attrs(&mut model);
    }
    if within("memory") {
        let mut params = params::run(&model, &placement, toolbox)?;
        let calls = ffts_plus::calls(&model, &bodies, toolbox, rank_size(&model))?;
        ffts_plus::task::workspaces(&model, &calls, &mut params);
        let weights = weights::merge(&model)?;
        let memory = graph_planner::plan(&model, toolbox, &params, &order, &weights, options)?;
        memory.to_attrs(&mut model);
    }
    if within("sync") {
        let sync = sync::run(&model, &plan, &order, options, &toolbox.target.soc)?;
        sync.to_attrs(&mut model);
        plan.logic_to_attrs(&mut model);
        sync::streamed::run(&[Hook::STREAMED_WHOLE_GRAPH], &mut model, &plan, &sync, &passes, records)?;
    }
    ffts_plus::give_back(&mut model, &bodies)?;
    Ok(model)
}

/// Gives each node an engine; where shapes are known only at run, sizes go to the host.
fn place(model: &mut Model, toolbox: &Toolbox, records: &mut Records) -> Result<Placement> {
    let bound = hostcpu_engine_update_pass::bound(model);
    let mut placement = EnginePlacer::new(toolbox, false)?.run(model)?;
    hostcpu_engine_update_pass::run(model, &mut placement, &bound, toolbox, records)?;
    Ok(placement)
}

fn note_refusals(placement: &Placement, model: &Model, records: &mut Records) {
    for (key, asked) in &placement.asked {
        for c in asked {
            if let Some(why) = &c.refusal {
                records.refuse(&key.name(model), &format!("EnginePlacer/{}", c.engine), why.clone());
            }
        }
    }
}

struct Run<'o> {
    observer: &'o dyn Observer,
    start: Instant,
    blame: Blame,
}

impl Run<'_> {
    fn stage<T>(&self, name: &'static str, model: &mut Model, f: impl FnOnce(&mut Model) -> Result<T>) -> Result<T> {
        if self.observer.cancelled() {
            return Err(CompileError::Cancelled);
        }
        let before = self.start.elapsed();
        self.observer.stage(name, model.node_count());
        let out = guarded(name, model, f);
        heap::trim_after(model.node_count());
        if out.as_ref().is_err_and(CompileError::is_a_fault) {
            self.observer.failed(name, self.blame.get().as_ref(), model);
        }
        self.observer.done(name, "", &|| Cow::Borrowed(model), (self.start.elapsed() - before).as_micros() as u64);
        out
    }
}

/// Partition, the engines on their subgraphs, and merge: for composite engines where one takes anything, then for atomic ones.
fn subgraphs(
    run: &Run<'_>,
    model: &mut Model,
    mut placement: Placement,
    passes: &PassManager<'_>,
    records: &mut Records,
    stop: Option<Step>,
    kernels: &KernelCache,
) -> Result<Option<(Step, Model)>> {
    let toolbox = passes.toolbox();
    let at = |name: &'static str, part: &'static str, nodes: usize| {
        if run.observer.cancelled() {
            return Err(CompileError::Cancelled);
        }
        if part == Round::Atomic.name() {
            run.observer.stage(name, nodes);
        }
        Ok(Instant::now())
    };
    for round in [Round::Composite, Round::Atomic] {
        let part = if round == Round::Composite { round.name() } else { "" };
        let start = at("partition", round.name(), model.node_count())?;
        let Some(mut pieces) = partition::run(model, &placement, toolbox, round)? else { continue };
        let micros = |start: Instant| start.elapsed().as_micros() as u64;
        run.observer.done("partition", part, &|| Cow::Owned(pieces.to_attrs(toolbox)), micros(start));
        if stop == Some(Step::BeforeUbMatch) && round == Round::Atomic {
            return Ok(Some((Step::BeforeUbMatch, pieces.to_attrs(toolbox))));
        }
        let start = at("subgraph", round.name(), pieces.node_count())?;
        let out = subgraph::run(&mut pieces, passes, records, Some(kernels));
        run.observer.done("subgraph", part, &|| Cow::Owned(pieces.to_attrs(toolbox)), micros(start));
        out?;
        if stop == Some(Step::AfterUbMatch) && round == Round::Atomic {
            return Ok(Some((Step::AfterUbMatch, pieces.to_attrs(toolbox))));
        }
        let start = at("merge", round.name(), pieces.node_count())?;
        let changed = join(pieces, model, passes)?;
        run.observer.done("merge", part, &|| Cow::Borrowed(model), micros(start));
        if changed && round == Round::Composite {
            placement = EnginePlacer::new(toolbox, true)?.run(model)?;
        }
    }
    Ok(None)
}

/// Merges, and looks at what the engines have changed. Whether they have.
fn join(pieces: partition::Pieces, model: &mut Model, passes: &PassManager<'_>) -> Result<bool> {
    let merged = merge::run(pieces, passes.toolbox())?;
    *model = merged.model;
    for (engine, key) in &merged.touched {
        let e = passes.toolbox().engine(*engine);
        let who = format!("engine {} of plugin {} in its subgraph", e.info.name, e.plugin);
        passes.hold(&who, &[(key.graph as usize, key.node)], model)?;
    }
    passes.check("merge", model)?;
    Ok(!merged.touched.is_empty() || merged.folded)
}

/// The part of `run_range` between placement and stage 2. A text that enters behind `partition` says which round it is of.
fn partition_range(
    mut model: Model,
    passes: &PassManager<'_>,
    (from, until): (usize, usize),
    records: &mut Records,
) -> Result<Model> {
    let toolbox = passes.toolbox();
    let at = |name: &str| STAGES.iter().position(|s| *s == name).unwrap_or(usize::MAX);
    let mut given = None;
    if from > at("partition") {
        given = Some(partition::Pieces::from_attrs(std::mem::take(&mut model), toolbox)?);
    }
    let rounds: &[Round] = match given.as_ref().map(|p| p.round) {
        Some(Round::Atomic) => &[Round::Atomic],
        _ => &[Round::Composite, Round::Atomic],
    };
    for round in rounds {
        let entered = given.is_some();
        let mut pieces = match given.take() {
            Some(pieces) => pieces,
            None => {
                let placement = EnginePlacer::new(toolbox, true)?.run(&mut model)?;
                match partition::run(&mut model, &placement, toolbox, *round)? {
                    Some(pieces) => pieces,
                    None => continue,
                }
            }
        };
        if until == at("partition") {
            return Ok(pieces.to_attrs(toolbox));
        }
        if !entered || from <= at("subgraph") {
            subgraph::run(&mut pieces, passes, records, None)?;
        }
        if until == at("subgraph") {
            return Ok(pieces.to_attrs(toolbox));
        }
        join(pieces, &mut model, passes)?;
    }
    Ok(model)
}

/// Ranks that the model's communication nodes are made for: the greatest `rank_size` of any node; 0, as many as run it, where no
/// node states one.
pub fn rank_size(model: &Model) -> u32 {
    model
        .graphs()
        .iter()
        .flat_map(|g| g.nodes())
        .filter_map(|n| n.attrs().int("rank_size"))
        .filter_map(|r| u32::try_from(r).ok())
        .max()
        .unwrap_or(0)
}
