//! `FusionPassExecutor`: the passes that plugins bring, at a stage (003, 3.3; facts 4.2): before
//! and after shapes are inferred, where the engines optimise the original graph, after the built-in
//! fusions, after precision, after the original graph is optimised. Those of engines' subgraphs
//! (`OptimizeFusedGraph`) run in the stage `subgraph`, and here where a model has none.
//!
//! Fusions of engines (`OptimizeOriginalGraph`, `AfterPrecisionRefine`) are for kernels of their
//! own library: they stay away where every engine of that library is excluded, and run again while
//! they change the graph, since one makes what another looks for.
use super::report;
use crate::error::Result;
use crate::options::Switch;
use crate::pass::{PassManager, PassRecord, Records};
use ge_ir::Model;
use ge_ir::view::OpIndex;
use ge_plugin::PassHandle;
use ge_plugin_api::pass::PassStage;
use std::rc::Rc;
use std::time::Instant;

/// Rounds of an engine's fusions at most.
const MOST_ROUNDS: usize = 4;

/// Runs the passes of plugins.
pub struct FusionPassExecutor<'m, 'a> {
    manager: &'m PassManager<'a>,
}

impl<'m, 'a> FusionPassExecutor<'m, 'a> {
    /// With the levels and switches of a compilation.
    pub fn new(manager: &'m PassManager<'a>) -> Self {
        FusionPassExecutor { manager }
    }

    /// Runs what is enabled of a stage, in plugin order.
    ///
    /// # Errors
    /// A pass fails or records what cannot be applied; it is named.
    pub fn stage(&self, stage: PassStage, model: &mut Model, records: &mut Records) -> Result<()> {
        let again = stage == PassStage::OPTIMIZE_ORIGINAL_GRAPH || stage == PassStage::AFTER_PRECISION_REFINE;
        let passes = self.enabled(stage);
        // Of each graph, until a pass changes the model.
        let mut indexes: Vec<Rc<OpIndex>> = Vec::new();
        for _ in 0..if again { MOST_ROUNDS } else { 1 } {
            let mut changed = false;
            for p in &passes {
                let run = || self.run(p, model, &mut indexes, records);
                changed |= self.manager.blamed("custom", p.name(), None, run)?;
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }

    /// What is enabled of a stage, in plugin order.
    pub fn enabled(&self, stage: PassStage) -> Vec<&'a PassHandle> {
        const OF_ENGINES: [PassStage; 4] = [
            PassStage::OPTIMIZE_ORIGINAL_GRAPH,
            PassStage::AFTER_PRECISION_REFINE,
            PassStage::OPTIMIZE_FUSED_GRAPH,
            PassStage::OPTIMIZE_WHOLE_GRAPH,
        ];
        let bound = matches!(stage, PassStage::AFTER_PRECISION_REFINE | PassStage::OPTIMIZE_FUSED_GRAPH)
            .then_some(Switch { name: "ge.x.auto_fusion", is_on: |o| o.auto_fusion });
        let all = &self.manager.toolbox().passes;
        all.iter()
            .filter(|p| p.info.stage == stage && self.manager.enabled(p.name(), p.info.level, bound))
            .filter(|p| !OF_ENGINES.contains(&stage) || self.takes_part(&p.owner().name))
            .collect()
    }

    /// Whether a library has no engines, or one of them takes part.
    fn takes_part(&self, plugin: &str) -> bool {
        let mut engines = self.manager.toolbox().engines.iter().filter(|e| e.plugin == plugin).peekable();
        engines.peek().is_none() || engines.any(|e| e.excluded.is_none())
    }

    /// Runs one pass on each graph; whether it changed one.
    ///
    /// # Errors
    /// As [`FusionPassExecutor::stage`].
    pub fn pass(&self, p: &PassHandle, model: &mut Model, records: &mut Records) -> Result<bool> {
        self.manager.blamed("custom", p.name(), None, || self.run(p, model, &mut Vec::new(), records))
    }

    fn run(
        &self,
        p: &PassHandle,
        model: &mut Model,
        indexes: &mut Vec<Rc<OpIndex>>,
        records: &mut Records,
    ) -> Result<bool> {
        let start = Instant::now();
        let who = format!("pass {} of plugin {}", p.name(), p.owner().name);
        let (mut visits, mut changes, mut gi) = (0, 0, 0);
        while gi < model.graphs().len() {
            visits += model.graphs()[gi].len() as u64;
            if indexes.len() <= gi {
                indexes.resize_with(gi + 1, Rc::default);
            }
            let mut edits = p.run(&self.manager.toolbox().lend(model, gi).indexed(&indexes[gi]).graph())?;
            let told = report::take(&mut edits);
            if !edits.is_empty() {
                indexes.clear();
            }
            // Before shapes are inferred there is nothing to hold a shape against.
            let shapes = p.info.stage != PassStage::BEFORE_INFER_SHAPE;
            let applied = self.manager.apply_foreign(&who, gi, edits, shapes, model)?;
            changes += if told.fused.is_empty() { applied } else { told.fused.len() as u64 };
            told.keep(records);
            gi += 1;
        }
        let micros = start.elapsed().as_micros() as u64;
        records.runs.push(PassRecord { stage: "custom", pass: p.name().to_owned(), micros, visits, changes });
        self.manager.tell(records.runs.len() - 1, records, model);
        Ok(changes > 0)
    }
}
