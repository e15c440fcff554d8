//! Static logical streams: the pass chain of documents 002 and 004, one file per pass.
//!
//! The root graph comes first, then each subgraph with its parent's stream as default. The graph is
//! never changed during the allocation: passes see `&Graph` and write only to a `Context`.

/// What passes read and write.
pub mod context;
/// Streams by `NewStreamId`.
pub mod update_for_mde_group_pass;
/// Streams by `_stream_label`.
pub mod assign_by_label_pass;
/// Streams of independent engines.
pub mod independent_stream_pass;
/// Reuse of predecessors' streams, or new ones.
pub mod assign_by_dependency_pass;
/// Transfer of streams from subgraphs to nodes.
pub mod node_stream_update_pass;
/// Streams by `_parallel_group`.
pub mod update_for_parallel_group_pass;
/// Streams for successors of AllReduce that run in parallel to it.
pub mod all_reduce_parallel_pass;
/// Nodes of engines that are skipped by the assignment.
pub mod update_for_skipped_engine_pass;
/// Removal of streams that bring no advantage.
pub mod optimize_ineffective_multi_stream_pass;
/// Assignment of all nodes to one stream.
pub mod single_stream_pass;
/// Stream passes of plugins.
pub mod custom;
/// Attached streams.
pub mod attached;

use super::{LogicalStream, StreamPlan};
use crate::error::Result;
use crate::ids::{NodeKey, StreamId};
use crate::options::Options;
use crate::pass::Switches;
use crate::place::Placement;
use crate::toolbox::Toolbox;
use context::{Context, NONE};
use ge_ir::Model;
use std::collections::BTreeMap;

/// A pass of the chain. It changes only streams.
pub trait LogicalStreamPass {
    /// Name of the pass in the documents.
    const NAME: &'static str;
    /// Runs the pass on one graph.
    fn run(cx: &mut Context<'_>) -> Result<()>;
}

fn run<P: LogicalStreamPass>(cx: &mut Context<'_>) -> Result<()> {
    P::run(cx)
}

/// Assigns logical streams to all graphs: the pass chain, then attached streams. The ids are
/// continuous from 0 at the end.
pub fn assign(model: &Model, placement: &Placement, toolbox: &Toolbox, options: &Options) -> Result<StreamPlan> {
    let mut plan = assign_graphs(model, &graph_order(model), placement, toolbox, options)?;
    attached::assign(model, &mut plan, None)?;
    Ok(plan)
}

/// Assigns main streams to the given graphs, in this order: the pass chain, custom passes, then
/// continuous ids.
///
/// # Errors
/// Returns the error of a pass that fails.
pub fn assign_graphs(
    model: &Model,
    graphs: &[usize],
    placement: &Placement,
    toolbox: &Toolbox,
    options: &Options,
) -> Result<StreamPlan> {
    let mut plan = StreamPlan::empty(model);
    plan.single = options.single_stream;
    let mut next = 0u32;
    let mut streams: Vec<Vec<u32>> = model.graphs().iter().map(|g| vec![NONE; g.id_bound()]).collect();
    let parents = super::order::parents_of(model);
    for &gi in graphs {
        let default = parents[gi].map_or(NONE, |p| streams[p.graph as usize][p.node.index()]);
        let mut cx = Context::new(model, gi, placement, toolbox, options, default, next);
        if plan.single {
            run::<single_stream_pass::SingleStreamPass>(&mut cx)?;
            run::<node_stream_update_pass::NodeStreamUpdatePass>(&mut cx)?;
            run::<update_for_skipped_engine_pass::UpdateForSkippedEnginePass>(&mut cx)?;
        } else {
            run::<update_for_mde_group_pass::UpdateForMdeGroupPass>(&mut cx)?;
            run::<assign_by_label_pass::AssignByLabelPass>(&mut cx)?;
            run::<independent_stream_pass::IndependentStreamPass>(&mut cx)?;
            run::<assign_by_dependency_pass::AssignByDependencyPass>(&mut cx)?;
            run::<node_stream_update_pass::NodeStreamUpdatePass>(&mut cx)?;
            run::<update_for_parallel_group_pass::UpdateForParallelGroupPass>(&mut cx)?;
            run::<all_reduce_parallel_pass::AllReduceParallelPass>(&mut cx)?;
            run::<update_for_skipped_engine_pass::UpdateForSkippedEnginePass>(&mut cx)?;
            run::<optimize_ineffective_multi_stream_pass::OptimizeIneffectiveMultiStreamPass>(&mut cx)?;
        }
        next = cx.next;
        streams[gi] = cx.node_stream;
    }
    if !plan.single {
        plan.assigned_by_stream_pass = custom::run(model, &Switches::of_plugins(toolbox, options)?, &mut streams)?;
    }
    refresh_continuous(model, &mut plan, &streams);
    Ok(plan)
}

/// The root first, then each subgraph after the graph of its parent.
fn graph_order(model: &Model) -> Vec<usize> {
    let mut out = vec![0];
    let mut at = 0;
    while at < out.len() {
        for n in model.graphs()[out[at]].nodes() {
            for s in n.subgraphs() {
                if let Some(i) = model.graph_index(s) {
                    if !out.contains(&i) {
                        out.push(i);
                    }
                }
            }
        }
        at += 1;
    }
    out.extend((0..model.graphs().len()).filter(|i| !out.contains(i)).collect::<Vec<_>>());
    out
}

/// Makes the used ids continuous, in ascending order, and records the labels of streams.
fn refresh_continuous(model: &Model, plan: &mut StreamPlan, streams: &[Vec<u32>]) {
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    for s in streams.iter().flatten().filter(|s| **s != NONE) {
        used.insert(*s, 0);
    }
    for (k, v) in used.values_mut().enumerate() {
        *v = k as u32;
    }
    plan.streams = vec![LogicalStream::default(); used.len().max(1)];
    for (gi, g) in model.graphs().iter().enumerate() {
        for n in g.nodes() {
            let Some(id) = used.get(&streams[gi][n.id().index()]) else { continue };
            plan.of[NodeKey::new(gi, n.id())] = Some(StreamId(*id));
            let s = &mut plan.streams[*id as usize];
            if let Some(l) = n.attrs().str("_user_stream_label").filter(|_| s.user_label.is_empty()) {
                s.user_label = l.to_owned();
            }
            if let Some(l) = context::label_of(n).filter(|_| s.label.is_empty()) {
                s.label = l;
            }
        }
    }
}
