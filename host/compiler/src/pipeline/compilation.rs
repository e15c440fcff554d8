//! `Compilation`: the inputs of the stages, what they have decided so far, and the step from one
//! stage to the next.
//!
//! Each decision is made once and read by later stages. If a text enters at a later stage, the
//! decisions of earlier stages are read from the text's attributes, or made anew if that gives the
//! same result.
use super::passes::PASSES;
use super::{Observer, Stage};
use crate::error::{CompileError, MemoryFault, Result};
use crate::feature::control_flow;
use crate::feature::ffts_plus::{self, Body, Calls};
use crate::feature::kernel_cache::KernelCache;
use crate::feature::shared_memory::stated;
use crate::feature::super_kernel::Chains;
use crate::ids::ModelMap;
use crate::memory::MemoryPlan;
use crate::model::sync_nodes::{self, SyncNodes};
use crate::model::weights::Weights;
use crate::options::Options;
use crate::original::precision;
use crate::partition::dynamic::{dynamic_shape_partition, unknown};
use crate::partition::{Pieces, Round};
use crate::pass::{Blame, PassManager, Records};
use crate::place::{EnginePlacer, Placement};
use crate::split::PhysicalPlan;
use crate::streams::parallel::of_model;
use crate::streams::{ExecutionOrder, StreamPlan};
use crate::sync::SyncPlan;
use crate::tasks::{self, PlacedTask, StoredKernel};
use crate::toolbox::Toolbox;
use crate::{original, prepare, stage1};
use ge_ir::{Key, Model};
use ge_plugin_api::abi::guard::panic_error;
use ge_plugin_api::engine::RunningParams;
use std::borrow::Cow;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// The purpose of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A model that can run.
    Model,
    /// The graph as text after some stage.
    Text,
}

/// The state of one compilation.
pub struct Compilation<'c> {
    pub(super) toolbox: &'c Toolbox,
    pub(super) options: &'c Options,
    pub(super) passes: PassManager<'c>,
    pub(super) goal: Goal,
    pub(super) records: Records,
    pub(super) model: Model,
    /// The stage at which the compilation began.
    pub(super) entered: Stage,
    /// Whether every shape is known, so that one list of tasks runs the model.
    pub(super) is_static: bool,
    /// Names of the nodes that the model itself binds to an engine.
    pub(super) bound: HashSet<String>,
    pub(super) placement: Option<Placement>,
    /// The model while it is cut into subgraphs, with the kind of engines it is cut for.
    pub(super) pieces: Option<Pieces>,
    pub(super) round: Round,
    /// Subgraphs that run in slices, each one node from `stage2` on; `None` until they are taken
    /// out.
    pub(super) bodies: Option<Vec<Body>>,
    pub(super) calls: Option<Calls>,
    pub(super) kernels: KernelCache,
    pub(super) params: Option<ModelMap<RunningParams>>,
    /// Why an engine could not size a node that a text has placed on it.
    pub(super) unsized_node: Option<CompileError>,
    pub(super) weights: Weights,
    pub(super) streams: Option<(StreamPlan, ExecutionOrder)>,
    pub(super) memory: Option<MemoryPlan>,
    pub(super) sync: Option<SyncPlan>,
    pub(super) chains: Chains,
    pub(super) tasks: Vec<PlacedTask>,
    pub(super) stored: Vec<StoredKernel>,
    pub(super) physical: Option<PhysicalPlan>,
    /// How many times streams were planned again because a node that wakes others was missing.
    pub(super) rounds: u32,
    /// Whether a plan without reuse of event ids had too many of them.
    pub(super) scarce_ids: bool,
    /// Whether marks on single nodes decide which shapes are unknown. This is the case for a text
    /// that enters at `partition` without [`KNOWN`].
    pub(super) reads_marks: bool,
    /// A node that the text marks as doing nothing although no other node writes its output. Tasks
    /// cannot be generated for such a graph.
    pub(super) idle: Option<MemoryFault>,
    /// Whether [`Compilation::text`] shows event records and waits as nodes.
    is_modelled: bool,
    /// Whether engines have just been assigned and the model is not cut yet.
    pub(super) is_placed: bool,
    pub(super) observer: &'c dyn Observer,
    start: Instant,
    blame: Blame,
}

/// Attribute of a root graph: every shape is known, and marks on single nodes do not change that.
const KNOWN: &str = "_known_shapes";

impl<'c> Compilation<'c> {
    /// Creates the compilation of a model. `records` holds what earlier stages recorded if the
    /// compilation resumes.
    ///
    /// # Errors
    /// Fails if options that concern passes are invalid.
    pub fn new(
        model: Model,
        toolbox: &'c Toolbox,
        options: &'c Options,
        observer: &'c dyn Observer,
        goal: Goal,
        records: Records,
    ) -> Result<Compilation<'c>> {
        let blame = Blame::default();
        Ok(Compilation {
            toolbox,
            options,
            passes: PassManager::new(PASSES, toolbox, options)?
                .blaming(&blame)
                .telling(Box::new(move |stage, pass, graph| observer.passed(stage, pass, graph))),
            goal,
            records,
            model,
            entered: Stage::Import,
            is_static: true,
            bound: HashSet::new(),
            placement: None,
            pieces: None,
            round: Round::Composite,
            bodies: None,
            calls: None,
            kernels: KernelCache::default(),
            params: None,
            unsized_node: None,
            weights: Weights::default(),
            streams: None,
            memory: None,
            sync: None,
            chains: Chains::default(),
            tasks: Vec::new(),
            stored: Vec::new(),
            physical: None,
            rounds: 0,
            scarce_ids: false,
            reads_marks: false,
            idle: None,
            is_modelled: false,
            is_placed: false,
            observer,
            start: Instant::now(),
            blame,
        })
    }

    /// Begins at a stage: reads what the stages before it have left in a text. Returns the stage to
    /// run next, which is `stage`.
    ///
    /// # Errors
    /// Fails if these attributes are invalid.
    pub fn enter(&mut self, stage: Stage) -> Result<Stage> {
        self.entered = stage;
        self.idle = stated::idle(&self.model, self.toolbox);
        let known = self.model.root_mut().attrs_mut().remove(Key::new(KNOWN)).is_some();
        self.reads_marks = stage == Stage::Partition && !known;
        if stage > Stage::Place {
            self.is_static = unknown::refusal(&self.model, self.toolbox).is_none();
        }
        if control_flow::is_lowered(&self.model) {
            // Labels, jumps and copies into a branch's output have no operator prototype.
            self.passes.leave_unverified();
        }
        if matches!(stage, Stage::Subgraph | Stage::Merge) {
            let pieces = Pieces::from_attrs(std::mem::take(&mut self.model), self.toolbox)?;
            self.round = pieces.round;
            self.pieces = Some(pieces);
        }
        if stage > Stage::Merge {
            self.round = Round::Atomic;
        }
        Ok(stage)
    }

    /// Runs one stage and returns the stage to run next.
    ///
    /// # Errors
    /// Returns the error of the stage; a panic in it becomes an internal error. Returns `Cancelled`
    /// if the user wants to stop.
    pub fn step(&mut self, stage: Stage) -> Result<Stage> {
        if self.observer.cancelled() {
            return Err(CompileError::Cancelled);
        }
        // The front end has already reported `import` to the observer.
        let told = stage != Stage::Import;
        let cut = matches!(stage, Stage::Partition | Stage::Subgraph | Stage::Merge);
        let (before, round) = (self.start.elapsed(), self.round);
        if told {
            self.observer.stage(stage.name(), self.node_count());
        }
        let out = catch_unwind(AssertUnwindSafe(|| self.run(stage)))
            .unwrap_or_else(|p| Err(CompileError::internal(stage.name(), panic_error("the stage", p).message())));
        // If the model is or was cut into pieces, `self.model` is not a graph on which the failed
        // stage can be run again.
        if out.as_ref().is_err_and(CompileError::is_a_fault) && !cut {
            self.observer.failed(stage.name(), self.blame.get().as_ref(), &self.model);
        }
        if told {
            let round = if stage == Stage::Merge { round } else { self.round };
            let part = if cut && round == Round::Composite { round.name() } else { "" };
            let micros = (self.start.elapsed() - before).as_micros() as u64;
            self.observer.done(stage.name(), part, &|| self.shown(), micros);
        }
        out
    }

    fn run(&mut self, stage: Stage) -> Result<Stage> {
        match stage {
            Stage::Import => self.passes.verify_input(&self.model)?,
            Stage::Prepare => {
                precision::names::check(&self.model, self.options, self.toolbox)?;
                // Whether streams are planned by it or not, a file that is named must be readable.
                of_model::profile(self.options)?;
                prepare::run(&mut self.model, &self.passes, &mut self.records)?;
            }
            Stage::Original => {
                if self.entered == Stage::Original {
                    precision::names::check(&self.model, self.options, self.toolbox)?;
                }
                original::run(&mut self.model, &self.passes, &mut self.records)?;
            }
            Stage::Stage1 => stage1::run(&mut self.model, &self.passes, &mut self.records)?,
            Stage::Place => self.place()?,
            Stage::Partition => self.partition()?,
            Stage::Subgraph => self.subgraph()?,
            Stage::Merge => return self.merge(),
            Stage::Stage2 => self.stage2()?,
            Stage::Conflict => self.conflict()?,
            Stage::Streams => self.plan_streams()?,
            Stage::Memory => self.plan_memory()?,
            Stage::Sync => self.plan_sync()?,
            Stage::Tasks => return self.generate_tasks(),
            Stage::Split => return self.split(),
            Stage::Model => self.is_modelled = true,
        }
        Ok(stage.next())
    }

    /// Returns the graph after the stages run so far, with all their decisions as attributes.
    ///
    /// # Errors
    /// Fails if the bodies of subgraphs in slices cannot be put back (a bug).
    pub fn text(&self) -> Result<Model> {
        if let Some(pieces) = &self.pieces {
            return Ok(pieces.to_attrs(self.toolbox));
        }
        let mut model = self.model.clone();
        if self.is_placed && self.is_static && self.has_marks() {
            model.root_mut().attrs_mut().set(KNOWN, true);
        }
        // Streams that came with a text are already attributes of the model.
        if let Some((plan, _)) = self.streams.as_ref().filter(|_| self.entered <= Stage::Streams) {
            plan.to_attrs(&mut model);
            if self.physical.is_none() {
                plan.active_to_attrs(&mut model);
            }
            plan.mode_to_attrs(&mut model);
        }
        if let Some(memory) = &self.memory {
            memory.to_attrs(&mut model);
        }
        if let Some((sync, (plan, _))) = self.sync.as_ref().zip(self.streams.as_ref()) {
            sync.to_attrs(&mut model);
            sync.resources_to_attrs(&mut model);
            plan.logic_to_attrs(&mut model);
            self.chains.to_attrs(&mut model);
        }
        match &self.physical {
            Some(physical) => physical.to_attrs(&mut model),
            None => tasks::to_attrs(&self.tasks, &mut model),
        }
        if self.is_modelled {
            let engine = sync_nodes::runtime_engine(self.toolbox);
            if let Some((sync, physical)) = self.sync.as_ref().zip(self.physical.as_ref()) {
                SyncNodes::generate(&model, sync, &physical.tasks, &engine).insert(&mut model)?;
            }
        }
        ffts_plus::give_back(&mut model, self.bodies.as_deref().unwrap_or_default())?;
        Ok(model)
    }
    /// Whether marks on nodes say that shapes are unknown.
    fn has_marks(&self) -> bool {
        let marks = |p| unknown::nodes(&self.model, 0, p, self.toolbox).contains(&true);
        self.placement.as_ref().is_some_and(marks)
    }
    fn shown(&self) -> Cow<'static, Model> {
        Cow::Owned(self.text().unwrap_or_else(|_| self.model.clone()))
    }
    /// What passes did and refused so far.
    pub fn records(&self) -> &Records {
        &self.records
    }
    /// Like [`Compilation::records`], but ends the compilation.
    pub fn into_records(self) -> Records {
        self.records
    }
    /// Whether the stages from partition to merge run for the atomic engines, which come last.
    pub fn is_last_round(&self) -> bool {
        self.round == Round::Atomic
    }
    fn node_count(&self) -> usize {
        self.pieces.as_ref().map_or_else(|| self.model.node_count(), Pieces::node_count)
    }
    /// Whether the model consists of parts of known and unknown shapes, so that no single list of
    /// tasks runs it.
    pub(super) fn is_parted(&self) -> bool {
        self.model.root().attrs().get(dynamic_shape_partition::DONE).is_some()
    }
    /// Assigns engines to nodes that stages have added and to those whose engine a text gives;
    /// nodes placed before keep their engines.
    pub(super) fn place_again(&mut self) -> Result<()> {
        self.placement = Some(EnginePlacer::new(self.toolbox, true)?.run(&mut self.model)?);
        Ok(())
    }
    /// Records why engines have refused nodes.
    pub(super) fn note_refusals(&mut self) {
        let Some(placement) = &self.placement else { return };
        for (key, asked) in &placement.asked {
            for c in asked {
                if let Some(why) = &c.refusal {
                    let name = key.name(&self.model);
                    self.records.refuse(&name, &format!("EnginePlacer/{}", c.engine), why.clone());
                }
            }
        }
    }
}

/// Returns what an earlier stage has decided.
///
/// # Errors
/// Returns an internal error if that stage has not been run, which is a bug in the loop over the
/// stages.
pub(super) fn decided<T>(what: &Option<T>, stage: Stage) -> Result<&T> {
    what.as_ref().ok_or_else(|| CompileError::internal(stage.name(), "a stage before it has not been run"))
}
