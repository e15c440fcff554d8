//! Streams of graphs with unknown shapes (002, 004 §4.2, facts 1.13). There is one stream; if the
//! user asks for several (`ENABLE_DYNAMIC_SHAPE_MULTI_STREAM=1`, `ge.x.dynamic_multi_stream`),
//! there is one for each engine that owns a stream, shared by the root and all subgraphs of unknown
//! shapes. A subgraph of known shapes is allocated like a static graph of its own.
//!
//! The flags of an engine say whether it owns a stream, is AI CPU, is independent, attaches, or has
//! no task.

/// What the steps read and write.
pub mod context;
/// Streams of engines that own one.
pub mod assign_engines_owning_stream;
/// Streams of AI CPU nodes that may run in parallel.
pub mod assign_aicpu_can_parallel;
/// Streams of AI CPU nodes that always run in parallel.
pub mod assign_independent_aicpu_node;
/// Reuse of the streams of neighbours.
pub mod assign_with_reuse;
/// Streams of all remaining nodes.
pub mod assign_remain_subgraph;
/// Streams by stream label.
pub mod reassign_stream_by_stream_label;

use super::logical::{self, attached};
use super::order::parents_of;
use super::{LogicalStream, StreamPlan};
use crate::error::Result;
use crate::ids::{NodeKey, StreamId};
use crate::options::Options;
use crate::place::Placement;
use crate::streams::unknown::is_dynamic;
use crate::toolbox::Toolbox;
use context::{Dynamic, Owner};
use ge_ir::{Model, Node};
use std::collections::BTreeMap;

/// Assigns streams to a model whose root is dynamic.
///
/// # Errors
/// Fails if attached streams cannot be assigned.
pub fn assign(model: &Model, placement: &Placement, toolbox: &Toolbox, options: &Options) -> Result<StreamPlan> {
    let mut plan = StreamPlan::empty(model);
    let parents = parents_of(model);
    // The root is always treated as dynamic, other graphs according to their own shapes.
    let mut dynamic: Vec<bool> = Vec::with_capacity(parents.len());
    for (gi, g) in model.graphs().iter().enumerate() {
        dynamic.push(gi == 0 || is_dynamic(g));
    }
    plan.single = !options.dynamic_multi_stream;
    let mut count = 1;
    if plan.single {
        for gi in (0..dynamic.len()).filter(|g| dynamic[*g]) {
            for n in model.graphs()[gi].nodes() {
                plan.of[NodeKey::new(gi, n.id())] = Some(StreamId(0));
            }
        }
    } else {
        count = by_engine(model, placement, toolbox, options, &dynamic, &mut plan);
    }
    plan.streams = vec![LogicalStream::default(); count];
    label_streams(model, &dynamic, &mut plan);
    static_subgraphs(model, placement, toolbox, options, &dynamic, &mut plan)?;
    attached::assign(model, &mut plan, None)?;
    Ok(plan)
}

/// Streams of graphs that executor v2 runs, if the user asks for several. All graphs of the model
/// are treated alike, those of known shapes too. `None` means one stream for everything.
pub fn of_executor(model: &Model, placement: &Placement, toolbox: &Toolbox, options: &Options) -> Option<StreamPlan> {
    if !options.dynamic_multi_stream {
        return None;
    }
    let mut plan = StreamPlan::empty(model);
    let all = vec![true; model.graphs().len()];
    let count = by_engine(model, placement, toolbox, options, &all, &mut plan);
    plan.streams = vec![LogicalStream::default(); count];
    label_streams(model, &all, &mut plan);
    Some(plan)
}

/// Assigns streams by engine and label. Returns their number.
fn by_engine(
    model: &Model,
    placement: &Placement,
    toolbox: &Toolbox,
    options: &Options,
    dynamic: &[bool],
    plan: &mut StreamPlan,
) -> usize {
    let mut cx = Dynamic::new(model, placement, toolbox, options, dynamic);
    assign_engines_owning_stream::run(&mut cx);
    if options.ac_parallel_enable {
        assign_aicpu_can_parallel::run(&mut cx);
    } else {
        assign_independent_aicpu_node::run(&mut cx);
    }
    assign_with_reuse::run(&mut cx);
    assign_remain_subgraph::run(&mut cx);
    let owners = reassign_stream_by_stream_label::run(&cx);
    numbered(model, toolbox, dynamic, &owners, plan)
}

/// Whether a node is always on stream 0: nodes with subgraphs, nodes that only provide a value, and
/// graph outputs.
fn on_main_stream(n: &Node) -> bool {
    let there = ["Data", "RefData", "Variable", "Const", "Constant", "ConstPlaceHolder", "FileConstant", "NetOutput"];
    !n.subgraphs().is_empty() || there.contains(&n.op())
}

/// Numbers streams from 0 without gaps: first engines that still own nodes, by compute cost and
/// name, then labels by name. Returns the number of streams.
fn numbered(
    model: &Model,
    toolbox: &Toolbox,
    dynamic: &[bool],
    owners: &BTreeMap<NodeKey, Owner>,
    plan: &mut StreamPlan,
) -> usize {
    let mut used: BTreeMap<(bool, u32, String), u32> = BTreeMap::new();
    let rank = |o: &Owner| match o {
        Owner::Engine(e) => {
            let info = &toolbox.engine(*e).info;
            (false, info.cost, info.name.to_string())
        }
        Owner::Label(l) => (true, 0, l.clone()),
    };
    let stays = |k: &NodeKey| k.get(model).is_some_and(|n| !on_main_stream(n));
    for (_, o) in owners.iter().filter(|(k, _)| stays(k)) {
        used.insert(rank(o), 0);
    }
    for (k, v) in used.values_mut().enumerate() {
        *v = k as u32;
    }
    for gi in (0..dynamic.len()).filter(|g| dynamic[*g]) {
        for n in model.graphs()[gi].nodes() {
            let key = NodeKey::new(gi, n.id());
            let own = owners.get(&key).filter(|_| stays(&key)).and_then(|o| used.get(&rank(o)));
            plan.of[key] = Some(StreamId(own.copied().unwrap_or(0)));
        }
    }
    used.len().max(1)
}

/// Records the labels of streams.
fn label_streams(model: &Model, dynamic: &[bool], plan: &mut StreamPlan) {
    if plan.single {
        return;
    }
    for gi in (0..dynamic.len()).filter(|g| dynamic[*g]) {
        for n in model.graphs()[gi].nodes().filter(|n| !on_main_stream(n)) {
            let label = logical::context::label_of(n);
            let (Some(label), Some(s)) = (label, plan.of[NodeKey::new(gi, n.id())]) else { continue };
            if let Some(s) = plan.streams.get_mut(s.0 as usize) {
                s.label = label;
                if let Some(user) = n.attrs().str("_user_stream_label") {
                    s.user_label = user.to_owned();
                }
            }
        }
    }
}

/// Assigns streams to subgraphs of known shapes, each as a static graph with ids from 0.
fn static_subgraphs(
    model: &Model,
    placement: &Placement,
    toolbox: &Toolbox,
    options: &Options,
    dynamic: &[bool],
    plan: &mut StreamPlan,
) -> Result<()> {
    if dynamic.iter().all(|d| *d) {
        return Ok(());
    }
    let only: Vec<usize> = (0..dynamic.len()).filter(|g| !dynamic[*g]).collect();
    for gi in only {
        let own = logical::assign_graphs(model, &[gi], placement, toolbox, options)?;
        for n in model.graphs()[gi].nodes() {
            let key = NodeKey::new(gi, n.id());
            plan.of[key] = own.of[key];
        }
        for (k, s) in own.streams.into_iter().enumerate() {
            match plan.streams.get_mut(k) {
                Some(_) => {}
                None => plan.streams.push(s),
            }
        }
    }
    Ok(())
}
