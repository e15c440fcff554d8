//! Subgraph. in: `Pieces`, out: the same, each changed by its own engine (003 §4.4, facts 3.7).
//!
//! In parallel, one task a subgraph: OptimizeSubgraphPreProc, OptimizeFusedGraph,
//! OptimizeSubgraphPostProc. An engine sees its subgraph alone. Records stand in the order of the
//! optimizers' priorities, then of the subgraphs, whatever the threads did.
use crate::error::{CompileError, Result};
use crate::feature::kernel_cache::KernelCache;
use crate::partition::{Piece, Pieces, Round};
use crate::pass::{PassManager, PassRecord, Records};
use ge_ir::Model;
use ge_plugin_api::engine::{Hook, flags};
use rayon::prelude::*;
use std::time::Instant;

const HOOKS: [Hook; 3] = [Hook::SUBGRAPH_PRE_PROC, Hook::FUSED_GRAPH, Hook::SUBGRAPH_POST_PROC];

/// Calls every subgraph's engine; in the composite round composite engines alone. Kernels of AI
/// cores are compiled then, into `kernels`.
pub fn run(
    pieces: &mut Pieces,
    passes: &PassManager<'_>,
    records: &mut Records,
    kernels: Option<&KernelCache>,
) -> Result<()> {
    let round = pieces.round;
    let mut all: Vec<&mut Piece> = pieces.frames.iter_mut().flat_map(|f| f.pieces.iter_mut()).collect();
    let done: Vec<Result<Option<PassRecord>>> =
        all.par_iter_mut().with_max_len(64).map(|p| one(p, round, passes, kernels)).collect();
    let mut by_engine: Vec<(u32, PassRecord)> = Vec::new();
    for (d, p) in done.into_iter().zip(&all) {
        let (Some(record), Some(engine)) = (d?, p.engine) else { continue };
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
    Ok(())
}

fn one(
    p: &mut Piece,
    round: Round,
    passes: &PassManager<'_>,
    kernels: Option<&KernelCache>,
) -> Result<Option<PassRecord>> {
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
    let mut changes = 0;
    for hook in HOOKS {
        let edits = e.object.optimize(hook, &passes.toolbox().lend(&model, 0).graph())?;
        if edits.is_empty() {
            continue;
        }
        changes += edits.len() as u64;
        let done = model.apply(0, edits).map_err(|source| CompileError::Patch {
            who: format!("engine {} of plugin {} at {hook} in subgraph `@{name}`", e.info.name, e.plugin),
            source,
        })?;
        // Types and shapes are looked at when the whole graph is there again: here constants may be
        // out of sight.
        p.touched.extend(done.added.iter().chain(&done.touched).filter(|(g, _)| *g == 0).map(|(_, id)| *id));
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
    Ok(Some(PassRecord { stage: "subgraph", pass: format!("{}.subgraphs", e.info.name), micros, visits, changes }))
}
