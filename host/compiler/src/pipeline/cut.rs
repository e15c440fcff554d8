//! The work of the stages from `place` to `conflict`: lowering control flow for the device,
//! choosing engines, running each engine on its subgraphs, and then the passes on the whole graph.
use super::compilation::decided;
use super::{Compilation, Goal, Stage};
use crate::error::{CompileError, Result};
use crate::feature::{control_flow, ffts_plus, tiling_sink};
use crate::partition::dynamic::{dynamic_shape_partition, stage_partition, unknown};
use crate::partition::{self, Round};
use crate::place::{EnginePlacer, hostcpu_engine_update_pass, reassign};
use crate::toolbox::Toolbox;
use crate::{conflict, merge, stage2, subgraph};
use ge_ir::{Model, Node};

impl Compilation<'_> {
    /// Cuts the model by user-given levels, lowers control flow to labels and jumps, decides where
    /// tiling runs, and then chooses an engine for each node.
    pub(super) fn place(&mut self) -> Result<()> {
        let open = unknown::refusal(&self.model, self.toolbox);
        self.is_static = open.is_none();
        if let (Some(refusal), Goal::Model) = (open, self.goal) {
            return Err(refusal);
        }
        let has_control_flow = self.model.graphs().len() > 1;
        // This comes before control flow becomes labels and jumps, because these have no level;
        // lowering then also covers the calls of the levels.
        stage_partition::run(&mut self.model, &|pieces| Ok(merge::run(pieces, self.toolbox)?.model))?;
        if self.is_static && has_control_flow {
            // Bodies of control flow need outputs of their own before they are lowered.
            conflict::run(&mut self.model, self.toolbox, self.options)?;
            if lower(&mut self.model, self.toolbox)? {
                // Labels, jumps and copies into a branch's output have no operator prototype.
                self.passes.leave_unverified();
            }
        }
        self.bound = reassign::bound(&self.model);
        tiling_sink::mark(&mut self.model, self.toolbox, self.options, &mut self.records)?;
        let bound = hostcpu_engine_update_pass::bound(&self.model);
        let first = self.records.runs.len();
        let mut placement = EnginePlacer::new(self.toolbox, false)?.run(&mut self.model)?;
        hostcpu_engine_update_pass::run(&mut self.model, &mut placement, &bound, self.toolbox, &mut self.records)?;
        self.passes.tell(first, &self.records, &self.model);
        self.placement = Some(placement);
        self.is_placed = true;
        self.note_refusals();
        Ok(())
    }

    /// Cuts the model for the composite engines first, if any of them takes nodes, and otherwise
    /// for the atomic engines. The atomic round follows the composite one.
    pub(super) fn partition(&mut self) -> Result<()> {
        if self.placement.is_none() {
            self.place_again()?;
        }
        self.is_placed = false;
        if self.round == Round::Composite && (!self.is_static || self.reads_marks) {
            let toolbox = self.toolbox;
            let whole = |pieces| Ok(merge::run(pieces, toolbox)?.model);
            let placement = decided(&self.placement, Stage::Partition)?;
            if dynamic_shape_partition::run(&mut self.model, placement, toolbox, self.options, &whole)? {
                self.place_again()?;
            }
        }
        loop {
            let placement = decided(&self.placement, Stage::Partition)?;
            self.pieces = partition::run(&mut self.model, placement, self.toolbox, self.round)?;
            if self.pieces.is_some() || self.round == Round::Atomic {
                return Ok(());
            }
            self.round = Round::Atomic;
        }
    }

    /// Lets each engine change its subgraphs; kernels for AI cores are compiled with them.
    pub(super) fn subgraph(&mut self) -> Result<()> {
        match &mut self.pieces {
            Some(pieces) => subgraph::run(pieces, &self.passes, &mut self.records, Some(&self.kernels)),
            None => Ok(()),
        }
    }

    /// Merges the subgraphs and checks what the engines have changed. The round of the atomic
    /// engines follows that of the composite ones.
    pub(super) fn merge(&mut self) -> Result<Stage> {
        let Some(pieces) = self.pieces.take() else { return Ok(Stage::Stage2) };
        let merged = merge::run(pieces, self.toolbox)?;
        self.model = merged.model;
        for (engine, key) in &merged.touched {
            let e = self.toolbox.engine(*engine);
            let who = format!("engine {} of plugin {} in its subgraph", e.info.name, e.plugin);
            self.passes.hold(&who, &[(key.graph as usize, key.node)], &mut self.model)?;
        }
        self.passes.check("merge", &self.model)?;
        if matches!(self.entered, Stage::Subgraph | Stage::Merge) && !control_flow::is_lowered(&self.model) {
            // A model that entered in pieces is verified as a whole here for the first time.
            self.passes.verify_input(&self.model)?;
        }
        if self.round == Round::Atomic {
            return Ok(Stage::Stage2);
        }
        if self.placement.is_none() || !merged.touched.is_empty() || merged.folded {
            self.place_again()?;
        }
        self.round = Round::Atomic;
        Ok(Stage::Partition)
    }

    /// Runs engines and passes on the whole graph.
    pub(super) fn stage2(&mut self) -> Result<()> {
        self.take_bodies()?;
        if self.is_static && !self.is_parted() && control_flow::has_calls_alone(&self.model) {
            // Branches and loops were lowered at `place`. Engines have handled each level on its
            // own; since all sizes are known, one list of tasks can run the levels in turn.
            lower(&mut self.model, self.toolbox)?;
        }
        stage2::run(&mut self.model, &self.passes, &mut self.records)
    }

    /// Resolves conflicts between memory rules that apply to one value. Nodes added here and in
    /// stage 2 get their engines.
    pub(super) fn conflict(&mut self) -> Result<()> {
        self.take_bodies()?;
        conflict::run(&mut self.model, self.toolbox, self.options)?;
        self.passes.stage("conflict", &mut self.model, &mut self.records)?;
        self.place_again()?;
        self.note_refusals();
        Ok(())
    }

    /// Takes out each subgraph that runs in slices; for all later stages it is one node with one
    /// task and one workspace.
    pub(super) fn take_bodies(&mut self) -> Result<()> {
        if self.bodies.is_none() {
            self.bodies = Some(ffts_plus::take(&mut self.model)?);
        }
        Ok(())
    }
}

/// Lowers calls, branches and loops to labels and jumps. Returns whether the model has labels now.
fn lower(model: &mut Model, toolbox: &Toolbox) -> Result<bool, CompileError> {
    control_flow::lower(model, &|n: &Node| toolbox.op_flags(n.op_key()))
}
