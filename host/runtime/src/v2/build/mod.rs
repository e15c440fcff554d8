//! Builds a round from a draft: memory, arguments and tasks of one sealed model of the device.
mod layout;
mod writer;

use self::layout::Layout;
use self::writer::Written;
use super::executor::Steps;
use super::graph::{Graph, Kind};
use super::held::Held;
use super::no_task::NoTask;
use super::plan::{Draft, Home};
use super::value::Tensor;
use super::way::Way;
use crate::again::Again;
use crate::error::RuntimeError;
use crate::load::{LoadedModel, Planned};
use crate::request::{Engines, LoadOptions};
use bytes::Bytes;
use ge_model::{LogicalInfo, SlotInfo};
use ge_plugin::OpenDevice;
use ge_plugin_api::device::SocSpec;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::DType;
use std::sync::{Arc, OnceLock};

/// A round of a graph, ready to run any number of times.
#[derive(Default)]
pub(crate) struct Round {
    /// Id of the round within its graph; the key of the next round begins with it.
    pub(crate) id: u64,
    /// The model with the launches, if there are any.
    pub(crate) device: Option<Arc<LoadedModel>>,
    /// Values that the device reads.
    pub(crate) ins: Vec<u32>,
    /// Values that the device produces.
    pub(crate) outs: Vec<u32>,
    /// Values that were computed while planning and that are still read.
    pub(crate) known: Vec<(u32, Tensor<'static>)>,
    /// Values that are views: value, viewed value, type and dimensions.
    pub(crate) views: Vec<(u32, u32, DType, Vec<u64>)>,
    /// Nodes that the host executes, in order.
    pub(crate) host: Vec<u32>,
    /// The launches and the host nodes as steps.
    pub(crate) steps: Steps,
    /// Nodes that are done after the launches.
    pub(crate) done: Vec<u32>,
    /// Values whose types and shapes select the next round.
    pub(crate) keys: Vec<u32>,
    /// Values that nobody reads after this round.
    pub(crate) release: Vec<u32>,
    /// Node of the graph, by its position in the device's model.
    pub(crate) nodes: Vec<u32>,
    /// States that the launches extend: value before, value after, and dimensions after.
    pub(crate) grown: Vec<(u32, u32, Vec<u64>)>,
    /// Values that the launches overwrite, and the values that replace them.
    pub(crate) over: Vec<(u32, u32)>,
    /// The rest of a run from this round to the model's outputs, if it is the first round of a way.
    pub(crate) way: OnceLock<Way>,
    /// Number of nodes that it launches.
    pub(crate) launches: usize,
    /// Whether it was made from another round. Its device model then describes only the differences
    /// and cannot be used for a profile.
    pub(crate) amended: bool,
    /// The round is empty: for these sizes, run the graph instead of its twin.
    pub(crate) refused: bool,
}

/// What a round was made from, kept to make a round for other sizes.
pub(crate) struct Last {
    pub(crate) draft: Draft,
    pub(crate) parts: Parts,
    pub(crate) round: Arc<Round>,
}

/// What remains after a round is written.
#[derive(Default)]
pub(crate) struct Parts {
    /// Values whose memory leaves the round.
    leaves: Vec<bool>,
    /// Launches that are left out.
    no_task: NoTask,
    slots: Vec<Option<SlotInfo>>,
    workspaces: Vec<Vec<SlotInfo>>,
    /// The launch of each device task; `None` for tasks that keep order or end the round.
    of: Vec<Option<u32>>,
    /// The device tasks that can be bound again.
    tasks: Vec<Again>,
    events: u32,
}

impl Parts {
    /// Whether a round for other sizes can be made from them.
    pub(crate) fn are_whole(&self) -> bool {
        self.tasks.len() == self.of.len()
    }
}

/// What rounds are loaded with.
pub(crate) struct Loader<'l> {
    pub(crate) name: &'l str,
    pub(crate) soc: &'l SocSpec,
    /// The logical streams of the model.
    pub(crate) logical: &'l [LogicalInfo],
    pub(crate) weights: &'l Bytes,
    pub(crate) engines: &'l Engines,
    pub(crate) context: &'l Arc<OpenDevice>,
    pub(crate) options: &'l LoadOptions,
}

/// Makes a round from a draft, and returns what it was made from.
///
/// # Errors
/// Fails if sizes overflow, or if an engine or the device fails while binding tasks.
pub(crate) fn round(
    id: u64,
    graph: &Graph,
    draft: Draft,
    done: &[bool],
    load: &Loader<'_>,
) -> Result<(Round, Draft, Parts), RuntimeError> {
    let after = done_after(&draft, done);
    let read_later = read_later(graph, &draft, &after);
    let mut out = Round {
        id,
        host: draft.host.clone(),
        steps: steps(graph, &draft),
        done: draft.done.clone(),
        launches: draft.launches.len(),
        over: draft.over.clone(),
        ..Round::default()
    };
    out.grown = grown(&draft);
    let root = |v: u32| if let Home::ViewOf(r) = draft.home[v as usize] { r } else { v };
    // What leaves the round is an output of the device's model, or it is known.
    let mut leaves = vec![false; graph.values()];
    for v in (0..graph.values() as u32).filter(|v| read_later[*v as usize]) {
        match draft.home[v as usize] {
            Home::Nowhere | Home::Before | Home::InPlace(_) => {}
            Home::Known => out.known.extend(known(&draft, graph, v)),
            Home::Made => leaves[v as usize] = true,
            Home::ViewOf(r) => {
                let d = draft.desc(graph, v);
                let dims = d.and_then(|d| d.shape.sizes()).unwrap_or_default();
                out.views.push((v, r, d.map_or(DType::UNKNOWN, |d| d.dtype), dims));
                match draft.home[r as usize] {
                    Home::Made => leaves[r as usize] = true,
                    Home::Known => out.known.extend(known(&draft, graph, r)),
                    _ => {}
                }
            }
        }
    }
    out.known.sort_by_key(|k| k.0);
    out.known.dedup_by_key(|k| k.0);
    let mut parts = Parts::default();
    if !draft.launches.is_empty() {
        parts.no_task = no_task(graph, &draft, &leaves, load);
        let mut layout = Layout::of(graph, &draft, &leaves, &parts.no_task)?;
        let Written { m, nodes, made, of } = writer::write(&mut layout, load, None);
        let there = marks(graph.values(), out.known.iter().map(|k| k.0));
        let folded = layout.ins.iter().filter(|v| draft.home[**v as usize] == Home::Known && !there[**v as usize]);
        let folded = folded.filter_map(|v| Some((*v, aligned(draft.known[*v as usize].as_ref()?)?)));
        out.known.extend(folded);
        (out.ins, out.outs, out.nodes) = (layout.ins, layout.outs, nodes);
        (parts.slots, parts.workspaces, parts.of, parts.events) = (layout.slots, layout.workspaces, of, m.event_num);
        let kept = Some(&mut parts.tasks);
        let planned = Planned { made: &made, kept, others: None };
        let device = LoadedModel::load_made(m, load.engines, load.context.clone(), load.options, planned)?;
        out.device = Some(Arc::new(device));
    }
    // The next round's key: values that the host produces, and values of the device that determine
    // shapes.
    let host = draft.host.iter().flat_map(|n| graph.nodes[*n as usize].outputs.iter().copied());
    let decide = out.outs.iter().chain(out.views.iter().map(|v| &v.0)).copied();
    out.keys = host.chain(decide.filter(|v| graph.wanted[*v as usize] || draft.asked.contains(v))).collect();
    let is_output = marks(graph.values(), graph.outputs.iter().copied());
    let is_known = marks(graph.values(), out.known.iter().map(|k| k.0));
    let unread = |v: &u32| graph.readers[*v as usize].iter().all(|n| after[*n as usize]) && !is_output[*v as usize];
    let held = |v: &u32| draft.home[*v as usize] == Home::Before || leaves[root(*v) as usize];
    let host_made = draft.host.iter().flat_map(|n| graph.nodes[*n as usize].outputs.iter().copied());
    let all = (0..graph.values() as u32).filter(|v| held(v) || is_known[*v as usize]).chain(host_made);
    out.release = all.filter(unread).collect();
    parts.leaves = leaves;
    Ok((out, draft, parts))
}

/// Makes the round of `draft` from the round of `last`. Tasks of launches that are unchanged and
/// whose memory has not moved are bound again as they were. `None` if the rounds differ in more
/// than sizes.
///
/// # Errors
/// Fails like [`round`].
pub(crate) fn amended(
    id: u64,
    graph: &Graph,
    (draft, mut others): (Draft, Vec<bool>),
    (last, mut parts): (&Round, Parts),
    load: &Loader<'_>,
) -> Result<Option<(Round, Draft, Parts)>, RuntimeError> {
    let mut device = None;
    if !draft.launches.is_empty() {
        let no_task = no_task(graph, &draft, &parts.leaves, load);
        if no_task.silent != parts.no_task.silent {
            return Ok(None);
        }
        let mut layout = Layout::of(graph, &draft, &parts.leaves, &no_task)?;
        if layout.ins != last.ins || layout.outs != last.outs {
            return Ok(None);
        }
        for (k, other) in others.iter_mut().enumerate() {
            *other |= layout.moved(k, (&parts.slots, &parts.workspaces, &parts.no_task));
        }
        let tasks: Vec<bool> = parts.of.iter().map(|l| l.is_some_and(|l| others[l as usize])).collect();
        let Written { mut m, made, .. } = writer::write(&mut layout, load, Some(&others));
        m.event_num = parts.events;
        (parts.slots, parts.workspaces) = (layout.slots, layout.workspaces);
        let planned = Planned { made: &made, kept: Some(&mut parts.tasks), others: Some(&tasks) };
        let made = LoadedModel::load_made(m, load.engines, load.context.clone(), load.options, planned)?;
        device = Some(Arc::new(made));
        parts.no_task = no_task;
    }
    let known = last.known.iter().map(|(v, t)| {
        let now = draft.known[*v as usize].as_ref()?;
        let same = t.dims[..] == now.dims[..] && now.bytes().is_some_and(|b| b.as_slice() == t.bytes());
        Some((*v, if same { t.clone() } else { aligned(now)? }))
    });
    let Some(known) = known.collect() else { return Ok(None) };
    let view = |(v, of, dtype, _): &(u32, u32, DType, Vec<u64>)| {
        let dims = draft.desc(graph, *v).and_then(|d| d.shape.sizes()).unwrap_or_default();
        (*v, *of, *dtype, dims)
    };
    let round = Round {
        id,
        device,
        ins: last.ins.clone(),
        outs: last.outs.clone(),
        known,
        views: last.views.iter().map(view).collect(),
        host: last.host.clone(),
        steps: last.steps.clone(),
        done: last.done.clone(),
        keys: last.keys.clone(),
        release: last.release.clone(),
        grown: grown(&draft),
        over: last.over.clone(),
        launches: last.launches,
        amended: true,
        ..Round::default()
    };
    Ok(Some((round, draft, parts)))
}

/// The value that owns the memory of `v`.
pub(crate) fn root_of(draft: &Draft, v: u32) -> u32 {
    if let Home::ViewOf(root) = draft.home[v as usize] { root } else { v }
}

/// The launches of a round that can be left out. Capture needs all of them.
fn no_task(graph: &Graph, draft: &Draft, leaves: &[bool], load: &Loader<'_>) -> NoTask {
    if load.options.capture { NoTask::none(graph, draft) } else { NoTask::find(graph, draft, leaves) }
}

/// States that the launches extend: value before, value after, and dimensions after.
fn grown(draft: &Draft) -> Vec<(u32, u32, Vec<u64>)> {
    let one = |h: &Held| {
        let dims = draft.desc[h.of.result as usize].as_ref().and_then(|d| d.shape.sizes());
        (h.of.value, h.of.result, dims.unwrap_or_default())
    };
    draft.held.iter().map(one).collect()
}

/// The steps of a round. A host node waits for the launches if it reads what they produce, is
/// ordered after one of them, or might read a state that they write to.
fn steps(graph: &Graph, draft: &Draft) -> Steps {
    let made = |v: u32| matches!(draft.home[v as usize], Home::Made | Home::InPlace(_));
    let reads = |v: &u32| match draft.home[*v as usize] {
        Home::ViewOf(root) => made(root),
        _ => made(*v),
    };
    let launched = marks(graph.nodes.len(), draft.launches.iter().map(|l| l.node));
    let waits = |n: u32| {
        let n = &graph.nodes[n as usize];
        let behind = |c: &u32| launched[*c as usize];
        !draft.held.is_empty() || n.inputs.iter().flatten().any(reads) || n.controls.iter().any(behind)
    };
    Steps::new(graph, draft.launches.iter().map(|l| l.node).min(), &draft.host, waits)
}

/// Marks `these` among `count` items.
fn marks(count: usize, these: impl IntoIterator<Item = u32>) -> Vec<bool> {
    let mut out = vec![false; count];
    these.into_iter().for_each(|k| out[k as usize] = true);
    out
}

/// Nodes that are done when the round is over.
fn done_after(draft: &Draft, done: &[bool]) -> Vec<bool> {
    let mut after = done.to_vec();
    draft.done.iter().chain(&draft.host).for_each(|n| after[*n as usize] = true);
    after
}

/// Values that are read by something other than a launch of this round.
fn read_later(graph: &Graph, draft: &Draft, after: &[bool]) -> Vec<bool> {
    let mut out = vec![false; graph.values()];
    let host = marks(graph.nodes.len(), draft.host.iter().copied());
    for (i, n) in graph.nodes.iter().enumerate() {
        if n.kind != Kind::Output && (!after[i] || host[i]) {
            n.inputs.iter().flatten().for_each(|v| out[*v as usize] = true);
        }
    }
    graph.outputs.iter().for_each(|v| out[*v as usize] = true);
    draft.asked.iter().for_each(|v| out[*v as usize] = true);
    out
}

/// A value that the plan itself has computed; `None` for constants of the graph, which are
/// available anyway.
fn known(draft: &Draft, graph: &Graph, v: u32) -> Option<(u32, Tensor<'static>)> {
    if graph.constants[v as usize].is_some() {
        return None;
    }
    Some((v, aligned(draft.known[v as usize].as_ref()?)?))
}

/// A small constant in its own memory, because kernels need it aligned.
fn aligned(t: &ge_plugin_api::types::ConstTensor) -> Option<Tensor<'static>> {
    Some(Tensor::made(HostTensor::from_bytes(t.dtype, &t.dims, &t.bytes()?).ok()?))
}
