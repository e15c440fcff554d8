//! What the stages from `place` to `conflict` do: control flow on the device, engines, the engines
//! on their subgraphs, and the whole graph behind them.
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
    /// What runs in turn by levels; control flow as labels and jumps; where tiling runs; then an
    /// engine for each node.
    pub(super) fn place(&mut self) -> Result<()> {
        let open = unknown::refusal(&self.model, self.toolbox);
        self.is_static = open.is_none();
        if let (Some(refusal), Goal::Model) = (open, self.goal) {
            return Err(refusal);
        }
        let has_control_flow = self.model.graphs().len() > 1;
        // Before control flow becomes labels and jumps, which have no level; these then also take
        // the stages in turn.
        stage_partition::run(&mut self.model, &|pieces| Ok(merge::run(pieces, self.toolbox)?.model))?;
        if self.is_static && has_control_flow {
            // Bodies of control flow need outputs of their own before they become labels and jumps.
            conflict::run(&mut self.model, self.toolbox, self.options)?;
            if lower(&mut self.model, self.toolbox)? {
                // Labels, jumps and copies into a branch's output are no operators of a prototype.
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

    /// Cuts the model for the composite engines if one takes anything, else and then for the atomic
    /// ones.
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

    /// Each engine changes its subgraphs; kernels of AI cores are compiled with them.
    pub(super) fn subgraph(&mut self) -> Result<()> {
        match &mut self.pieces {
            Some(pieces) => subgraph::run(pieces, &self.passes, &mut self.records, Some(&self.kernels)),
            None => Ok(()),
        }
    }

    /// Merges, and looks at what the engines have changed. The atomic engines follow the composite
    /// ones.
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
            // What was cut when it came in is seen as a whole for the first time.
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

    /// The engines and passes on the whole graph.
    pub(super) fn stage2(&mut self) -> Result<()> {
        self.take_bodies()?;
        if self.is_static && !self.is_parted() && control_flow::has_calls_alone(&self.model) {
            // Branches and loops were lowered at `place`. Engines have looked at each level on its
            // own; with all sizes known one list of tasks runs them in turn.
            lower(&mut self.model, self.toolbox)?;
        }
        stage2::run(&mut self.model, &self.passes, &mut self.records)
    }

    /// Memory rules that meet in one value. Nodes that this and stage 2 have added get their
    /// engines.
    pub(super) fn conflict(&mut self) -> Result<()> {
        self.take_bodies()?;
        conflict::run(&mut self.model, self.toolbox, self.options)?;
        self.passes.stage("conflict", &mut self.model, &mut self.records)?;
        self.place_again()?;
        self.note_refusals();
        Ok(())
    }

    /// A subgraph in slices is one node, with one task and one workspace, for all that follows.
    pub(super) fn take_bodies(&mut self) -> Result<()> {
        if self.bodies.is_none() {
            self.bodies = Some(ffts_plus::take(&mut self.model)?);
        }
        Ok(())
    }
}

/// Calls, branches and loops as labels and jumps. Whether there are labels now.
fn lower(model: &mut Model, toolbox: &Toolbox) -> Result<bool, CompileError> {
    control_flow::lower(model, &|n: &Node| toolbox.op_flags(n.op_key()))
}
