//! `FusionPassExecutor`: runs the passes of plugins at a stage (003, 3.3; facts 4.2): before and
//! after shape inference, where the engines optimise the original graph, after the built-in
//! fusions, after precision, and after the original graph is optimised. Passes on engines'
//! subgraphs (`OptimizeFusedGraph`) run in the stage `subgraph`, or here if a model has no
//! subgraphs.
//!
//! Fusions of engines (`OptimizeOriginalGraph`, `AfterPrecisionRefine`) serve the kernels of their
//! own library. They are skipped if every engine of that library is excluded. They run again as
//! long as they change the graph, since one fusion may create what another looks for.
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

/// Maximum number of rounds of an engine's fusions.
const MOST_ROUNDS: usize = 4;

/// In models with fewer nodes than this, passes run one after the other.
const SMALL: usize = 256;

/// Runs the passes of plugins.
pub struct FusionPassExecutor<'m, 'a> {
    manager: &'m PassManager<'a>,
}

impl<'m, 'a> FusionPassExecutor<'m, 'a> {
    /// An executor that uses the levels and switches of a compilation.
    pub fn new(manager: &'m PassManager<'a>) -> Self {
        FusionPassExecutor { manager }
    }

    /// Runs the enabled passes of a stage, in plugin order.
    ///
    /// # Errors
    /// Fails if a pass fails or records edits that cannot be applied; the error names the pass.
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

    /// Runs each pass once and returns whether any pass changed the model.
    ///
    /// Most passes find nothing. So several passes look at the model in parallel, and their
    /// findings are applied in pass order. The passes after the first one that changes the model
    /// have looked in vain and look again. The result is the same as if the passes had run one
    /// after the other.
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
            // Index of the first pass that is known to end this look.
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
            // Findings that will not be used are dropped before any edit is applied.
            looks.truncate(last.into_inner().saturating_add(1));
            for (p, look) in ahead.iter().zip(looks.into_iter().flatten()) {
                left = &left[1..];
                let apply = || self.apply(p, look?, model, indexes, records);
                changed |= self.manager.blamed("custom", p.name(), None, apply)?;
            }
        }
        Ok(changed)
    }

    /// The enabled passes of a stage, in plugin order.
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

    /// Whether a plugin has no engines, or at least one of its engines takes part.
    fn takes_part(&self, plugin: &str) -> bool {
        let mut engines = self.manager.toolbox().engines.iter().filter(|e| e.plugin == plugin).peekable();
        engines.peek().is_none() || engines.any(|e| e.excluded.is_none())
    }

    /// Runs one pass on each graph and returns whether it changed any.
    ///
    /// # Errors
    /// Fails as [`FusionPassExecutor::stage`] does.
    pub fn pass(&self, p: &PassHandle, model: &mut Model, records: &mut Records) -> Result<bool> {
        let run = || {
            let mut indexes = Indexes::default();
            let look = self.look(p, model, indexes.of(model), 0)?;
            self.apply(p, look, model, &mut indexes, records)
        };
        self.manager.blamed("custom", p.name(), None, run)
    }

    /// Shows a pass the graphs from index `from` on, up to the first one that it changes.
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

    /// Applies what a pass has found, and then shows it the remaining graphs. Returns whether it
    /// changed any graph.
    fn apply(
        &self,
        p: &PassHandle,
        mut look: Look,
        model: &mut Model,
        indexes: &mut Indexes,
        records: &mut Records,
    ) -> Result<bool> {
        let who = format!("pass {} of plugin {}", p.name(), p.owner().name);
        // Before shape inference there are no shapes to check an edit against.
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

/// Number of passes that look at a model at once: enough to keep all threads busy when some passes
/// take longer than others. On a small graph a look takes less time than waking a thread.
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
    /// The reports about each graph that the pass has seen.
    told: Vec<report::Told>,
    /// The first graph that the pass changes, and the edits; `None` if it changes nothing.
    edits: Option<(usize, Vec<Edit>)>,
}

/// Indexes of nodes by operator type for each graph; valid until a pass changes the model.
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
