//! Subgraph. Input: `Pieces`. Output: the same, each piece changed by its own engine (003 §4.4,
//! facts 3.7).
//!
//! Subgraphs are processed in parallel, each with OptimizeSubgraphPreProc, OptimizeFusedGraph
//! together with the passes that the engine's library has for it, and OptimizeSubgraphPostProc. An
//! engine sees only its own subgraph. Regardless of the threads, records are in the order of the
//! optimizers' priorities, then of the subgraphs; the records of passes follow them, in plugin
//! order.
use crate::error::{CompileError, Result};
use crate::feature::kernel_cache::KernelCache;
use crate::fusion::FusionPassExecutor;
use crate::fusion::report::{self, Told};
use crate::partition::{Piece, Pieces, Round};
use crate::pass::{PassManager, PassRecord, Records};
use ge_ir::Model;
use ge_plugin::PassHandle;
use ge_plugin_api::engine::{Hook, flags};
use ge_plugin_api::pass::PassStage;
use ge_plugin_api::patch::Edit;
use rayon::prelude::*;
use std::time::Instant;

const HOOKS: [Hook; 3] = [Hook::SUBGRAPH_PRE_PROC, Hook::FUSED_GRAPH, Hook::SUBGRAPH_POST_PROC];

/// Calls the engine of every subgraph; in the composite round, only composite engines. Kernels for
/// AI cores are compiled at the same time and stored in `kernels`.
pub fn run(
    pieces: &mut Pieces,
    passes: &PassManager<'_>,
    records: &mut Records,
    kernels: Option<&KernelCache>,
) -> Result<()> {
    let round = pieces.round;
    let fusions = match round {
        Round::Atomic => FusionPassExecutor::new(passes).enabled(PassStage::OPTIMIZE_FUSED_GRAPH),
        Round::Composite => Vec::new(),
    };
    let mut all: Vec<&mut Piece> = pieces.frames.iter_mut().flat_map(|f| f.pieces.iter_mut()).collect();
    let done: Vec<Result<Option<Done>>> =
        all.par_iter_mut().with_max_len(64).map(|p| one(p, round, passes, &fusions, kernels)).collect();
    let pass =
        |p: &&PassHandle| PassRecord { stage: "subgraph", pass: p.name().to_owned(), micros: 0, visits: 0, changes: 0 };
    let mut by_pass: Vec<PassRecord> = fusions.iter().map(pass).collect();
    let mut by_engine: Vec<(u32, PassRecord)> = Vec::new();
    for (d, p) in done.into_iter().zip(&all) {
        let (Some(Done { record, fused }), Some(engine)) = (d?, p.engine) else { continue };
        for (at, own, told) in fused {
            by_pass[at].micros += own.micros;
            by_pass[at].visits += own.visits;
            by_pass[at].changes += own.changes;
            told.keep(records);
        }
        let priority = passes.toolbox().engine(engine).info.optimizer_priority;
        match by_engine.iter_mut().find(|(_, r)| r.pass == record.pass) {
            Some((_, sum)) => {
                sum.micros += record.micros;
                sum.visits += record.visits;
                sum.changes += record.changes;
            }
            None => by_engine.push((priority, record)),
        }
    }
    by_engine.sort_by_key(|(priority, _)| *priority);
    records.runs.extend(by_engine.into_iter().map(|(_, r)| r).filter(|r| r.changes > 0));
    records.runs.extend(by_pass);
    Ok(())
}

/// What was done to a subgraph, by its engine and by each pass of the engine's library. A pass is
/// identified by its index in the list.
struct Done {
    record: PassRecord,
    fused: Vec<(usize, PassRecord, Told)>,
}

fn one(
    p: &mut Piece,
    round: Round,
    passes: &PassManager<'_>,
    fusions: &[&PassHandle],
    kernels: Option<&KernelCache>,
) -> Result<Option<Done>> {
    let Some(id) = p.engine else { return Ok(None) };
    let e = passes.toolbox().engine(id);
    let composite = e.info.flags & flags::COMPOSITE != 0;
    if e.excluded.is_some() || composite != (round == Round::Composite) {
        return Ok(None);
    }
    let start = Instant::now();
    let name = p.graph.name().to_owned();
    let visits = p.graph.len() as u64;
    let Some(mut model) = Model::from_graphs(vec![std::mem::take(&mut p.graph)]) else { return Ok(None) };
    let (mut changes, mut fused) = (0, Vec::new());
    let mut apply = |model: &mut Model, edits: Vec<Edit>, who: &dyn Fn() -> String| -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let done = model.apply(0, edits).map_err(|source| CompileError::Patch { who: who(), source })?;
        // Types and shapes are checked when the whole graph is assembled again; here some constants
        // may be outside the subgraph.
        p.touched.extend(done.added.iter().chain(&done.touched).filter(|(g, _)| *g == 0).map(|(_, id)| *id));
        Ok(())
    };
    for hook in HOOKS {
        let edits = e.object.optimize(hook, &passes.toolbox().lend(&model, 0).graph())?;
        changes += edits.len() as u64;
        let who = || format!("engine {} of plugin {} at {hook} in subgraph `@{name}`", e.info.name, e.plugin);
        apply(&mut model, edits, &who)?;
        let own = fusions.iter().enumerate().filter(|(_, f)| hook == Hook::FUSED_GRAPH && f.owner().name == e.plugin);
        for (at, f) in own {
            let (start, visits) = (Instant::now(), model.root().len() as u64);
            let told = passes.blamed("subgraph", f.name(), None, || {
                let mut edits = f.run(&passes.toolbox().lend(&model, 0).graph())?;
                let told = report::take(&mut edits);
                let who = || format!("pass {} of plugin {} in subgraph `@{name}`", f.name(), e.plugin);
                apply(&mut model, edits, &who)?;
                Ok(told)
            })?;
            let (micros, changes) = (start.elapsed().as_micros() as u64, told.fused.len() as u64);
            let record = PassRecord { stage: "subgraph", pass: f.name().to_owned(), micros, visits, changes };
            fused.push((at, record, told));
        }
    }
    if let Some(kernels) = kernels {
        kernels.fused_graph(passes.toolbox(), id, &passes.toolbox().lend(&model, 0).graph());
    }
    p.touched.sort_unstable();
    p.touched.dedup();
    let mut graphs = model.into_graphs();
    p.graph = graphs.remove(0);
    p.bodies = graphs;
    let micros = start.elapsed().as_micros() as u64;
    let record = PassRecord { stage: "subgraph", pass: format!("{}.subgraphs", e.info.name), micros, visits, changes };
    Ok(Some(Done { record, fused }))
}
