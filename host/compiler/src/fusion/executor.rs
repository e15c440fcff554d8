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
use ge_plugin_api::patch::Edit;
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Rounds of an engine's fusions at most.
const MOST_ROUNDS: usize = 4;

/// Nodes of a model that passes look at one after the other.
const SMALL: usize = 256;

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
        let mut indexes = Indexes::default();
        for _ in 0..if again { MOST_ROUNDS } else { 1 } {
            if !self.round(&passes, model, &mut indexes, records)? {
                break;
            }
        }
        Ok(())
    }

    /// Runs each pass once; whether one changed the model.
    ///
    /// Most passes find nothing. So several look at the model at once, and what they find is applied
    /// in their order: those behind the first that changes it have looked in vain, and look again.
    /// What is applied is what one pass after the other would have found.
    fn round(
        &self,
        passes: &[&PassHandle],
        model: &mut Model,
        indexes: &mut Indexes,
        records: &mut Records,
    ) -> Result<bool> {
        let (mut changed, mut left) = (false, passes);
        while !left.is_empty() {
            let ahead = &left[..ahead(model).min(left.len())];
            let seen = indexes.of(model);
            // The first of them that is known to end this look.
            let last = AtomicUsize::new(usize::MAX);
            let look = |(i, p): (usize, &&PassHandle)| {
                if last.load(Ordering::Relaxed) < i {
                    return None;
                }
                let look = self.look(p, model, seen, 0);
                if !look.as_ref().is_ok_and(|l| l.edits.is_none()) {
                    last.fetch_min(i, Ordering::Relaxed);
                }
                Some(look)
            };
            let mut looks: Vec<Option<Result<Look>>> = match ahead {
                [one] => vec![look((0, one))],
                _ => ahead.par_iter().enumerate().map(look).collect(),
            };
            // What was found in vain is not kept while something is applied.
            looks.truncate(last.into_inner().saturating_add(1));
            for (p, look) in ahead.iter().zip(looks.into_iter().flatten()) {
                left = &left[1..];
                let apply = || self.apply(p, look?, model, indexes, records);
                changed |= self.manager.blamed("custom", p.name(), None, apply)?;
            }
        }
        Ok(changed)
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
        let run = || {
            let mut indexes = Indexes::default();
            let look = self.look(p, model, indexes.of(model), 0)?;
            self.apply(p, look, model, &mut indexes, records)
        };
        self.manager.blamed("custom", p.name(), None, run)
    }

    /// Shows a pass the graphs from `from` on, up to one that it changes.
    fn look(&self, p: &PassHandle, model: &Model, indexes: &[OpIndex], from: usize) -> Result<Look> {
        let start = Instant::now();
        let mut look = Look::default();
        for gi in from..model.graphs().len() {
            look.visits += model.graphs()[gi].len() as u64;
            let context = self.manager.toolbox().lend(model, gi);
            let mut edits = match indexes.get(gi) {
                Some(index) => p.run(&context.indexed(index).graph())?,
                None => p.run(&context.graph())?,
            };
            look.told.push(report::take(&mut edits));
            if !edits.is_empty() {
                look.edits = Some((gi, edits));
                break;
            }
        }
        look.micros = start.elapsed().as_micros() as u64;
        Ok(look)
    }

    /// Applies what a pass has found, and shows it the graphs behind those that it has seen; whether
    /// it changed one.
    fn apply(
        &self,
        p: &PassHandle,
        mut look: Look,
        model: &mut Model,
        indexes: &mut Indexes,
        records: &mut Records,
    ) -> Result<bool> {
        let who = format!("pass {} of plugin {}", p.name(), p.owner().name);
        // Before shapes are inferred there is nothing to hold a shape against.
        let shapes = p.info.stage != PassStage::BEFORE_INFER_SHAPE;
        let (mut micros, mut visits, mut changes) = (0, 0, 0);
        loop {
            micros += look.micros;
            visits += look.visits;
            let (start, at) = (Instant::now(), look.edits.as_ref().map(|(gi, _)| *gi));
            let applied = match look.edits {
                Some((gi, edits)) => {
                    indexes.forget();
                    self.manager.apply_foreign(&who, gi, edits, shapes, model)?
                }
                None => 0,
            };
            let fused: usize = look.told.iter().map(|t| t.fused.len()).sum();
            changes += if fused == 0 { applied } else { fused as u64 };
            look.told.into_iter().for_each(|t| t.keep(records));
            micros += start.elapsed().as_micros() as u64;
            let Some(at) = at else { break };
            look = self.look(p, model, indexes.of(model), at + 1)?;
        }
        records.runs.push(PassRecord { stage: "custom", pass: p.name().to_owned(), micros, visits, changes });
        self.manager.tell(records.runs.len() - 1, records, model);
        Ok(changes > 0)
    }
}

/// How many passes look at a model at once: enough for all threads to have something to do when
/// some passes take longer than others. A small graph is looked at sooner than a thread wakes up.
fn ahead(model: &Model) -> usize {
    match rayon::current_num_threads() {
        2.. if model.node_count() >= SMALL => 2 * rayon::current_num_threads(),
        _ => 1,
    }
}

/// What a pass has found in a model.
#[derive(Default)]
struct Look {
    micros: u64,
    visits: u64,
    /// What it tells of each graph that it has seen.
    told: Vec<report::Told>,
    /// The first graph that it changes, and how; None: it changes nothing.
    edits: Option<(usize, Vec<Edit>)>,
}

/// Nodes by operator type of each graph, until a pass changes the model.
#[derive(Default)]
struct Indexes(Vec<OpIndex>);

impl Indexes {
    fn of(&mut self, model: &Model) -> &[OpIndex] {
        self.0.resize_with(model.graphs().len(), OpIndex::default);
        &self.0
    }
    fn forget(&mut self) {
        self.0.clear();
    }
}
