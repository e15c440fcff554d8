//! Runs that are one launch: where the plan of the root graph is launches alone, a run of sizes that
//! were seen before goes from the caller's memory to the device as in a static model. No frame of
//! values is made, and what was checked before the plan was made is not checked again.
use super::DynamicModel;
use super::build::Round;
use super::describe;
use super::graph::{Graph, Kind, Node};
use super::key;
use super::run::Frame;
use super::sequence;
use super::tools::Tools;
use super::value::{Store, Tensor};
use crate::error::RuntimeError;
use crate::executor::{Arg, RunOptions, RunOutcome};
use ge_plugin::services::is_cancelled;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::types::DType;
use std::sync::{Arc, PoisonError};

/// How a round reads the inputs of the model, and gives its outputs.
pub(crate) struct Direct {
    /// Bytes of each input of the model for these sizes.
    bytes: Vec<usize>,
    /// What the launches read.
    ins: Vec<Source>,
    outs: Vec<Target>,
    /// Whether the outputs of the launches are those of the model, one by one.
    as_they_are: bool,
}

/// Where the launches find what they read.
enum Source {
    /// In an input of the model.
    Input(usize),
    /// The plan has it.
    Known(Tensor<'static>),
}

/// An output of the model.
struct Target {
    /// The output of the launches.
    of: usize,
    /// Type and sizes that it is shown under, where it is a view.
    shown: Option<(DType, Vec<u64>)>,
}

/// Types and sizes of the inputs of the last run that was one launch, and its plan: most runs have the
/// sizes of the one before, and need no key then.
pub(crate) struct Recent {
    inputs: Vec<(DType, Vec<u64>)>,
    round: Arc<Round>,
}

impl Recent {
    /// That of a run; None: its plan hangs on values of its inputs.
    fn of(graph: &Graph, given: &[TensorView<'_>], round: &Arc<Round>) -> Option<Recent> {
        let by_value = graph.inputs.iter().flatten().any(|v| graph.wanted[*v as usize]);
        let inputs = || given.iter().map(|t| (t.dtype, t.dims.to_vec())).collect();
        (!by_value && round.direct.is_some()).then(|| Recent { inputs: inputs(), round: round.clone() })
    }
    fn fits(&self, given: &[TensorView<'_>]) -> bool {
        let mut pairs = self.inputs.iter().zip(given);
        self.inputs.len() == given.len() && pairs.all(|((dtype, dims), t)| *dtype == t.dtype && dims == t.dims)
    }
}

/// Whether a graph may be one round of launches. False: some node of it is the host's whatever the
/// sizes, so that nobody need look.
pub(crate) fn may_be(graphs: &[Graph], at: usize, tools: &Tools) -> bool {
    let Some(graph) = graphs.get(at) else { return false };
    let launched = |n: &Node| match n.kind {
        Kind::Data | Kind::Constant | Kind::Output => true,
        Kind::Operator => !sequence::handles(n.op.as_str()),
        Kind::Choice => n.graphs.iter().all(|g| describe::is_plain(graphs, *g, tools)),
        _ => false,
    };
    graph.inputs.iter().all(Option::is_some) && graph.nodes.iter().all(launched)
}

impl Direct {
    /// The way through the first round of a graph; None: it is not all that a run does.
    pub(crate) fn of(f: &Frame<'_, '_>, round: &Round) -> Option<Direct> {
        let graph = f.graph;
        if round.device.is_none() || !round.host.is_empty() || !round.grown.is_empty() || !round.over.is_empty() {
            return None;
        }
        let inputs: Vec<u32> = graph.inputs.iter().copied().collect::<Option<_>>()?;
        let bytes = |v: &u32| {
            let t = f.vals[*v as usize].as_ref()?.tensor()?;
            let plain = t.dtype != DType::STRING && !matches!(t.store, Store::State(_));
            plain.then(|| t.bytes().len())
        };
        let bytes = inputs.iter().map(bytes).collect::<Option<_>>()?;
        let source = |v: &u32| match inputs.iter().position(|i| i == v) {
            Some(k) => Some(Source::Input(k)),
            None => round.known.iter().find(|k| k.0 == *v).map(|k| Source::Known(k.1.clone())),
        };
        let ins = round.ins.iter().map(source).collect::<Option<_>>()?;
        let target = |v: &u32| {
            let view = round.views.iter().find(|w| w.0 == *v);
            let of = view.map_or(*v, |w| w.1);
            Some(Target { of: round.outs.iter().position(|o| *o == of)?, shown: view.map(|w| (w.2, w.3.clone())) })
        };
        let outs: Vec<Target> = graph.outputs.iter().map(target).collect::<Option<_>>()?;
        // Two outputs in one memory are copies of it.
        if outs.iter().enumerate().any(|(k, o)| outs[..k].iter().any(|b| b.of == o.of)) {
            return None;
        }
        let as_they_are = outs.len() == round.outs.len() && outs.iter().enumerate().all(|(k, o)| k == o.of);
        Some(Direct { bytes, ins, outs, as_they_are })
    }
}

impl DynamicModel {
    /// Runs the model where it is one launch for sizes that were seen before; None: it is not, or
    /// they were not.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn direct(
        &self,
        given: &[TensorView<'_>],
        options: RunOptions,
    ) -> Result<Option<RunOutcome>, RuntimeError> {
        let Some(at) = self.direct.filter(|_| !options.profile) else { return Ok(None) };
        let graph = &self.graphs[at];
        if given.len() != graph.inputs.len() {
            return Ok(None);
        }
        let Some(round) = self.planned_for(at, given) else { return Ok(None) };
        let (Some(direct), Some(device)) = (&round.direct, &round.device) else { return Ok(None) };
        if given.iter().zip(&direct.bytes).any(|(t, bytes)| t.bytes.len() != *bytes) {
            return Ok(None);
        }
        if is_cancelled() {
            return Err(Error::cancelled().into());
        }
        let args = direct.ins.iter().map(|s| match s {
            Source::Input(k) => Arg::Lent(given[*k]),
            Source::Known(t) => Arg::Lent(t.view()),
        });
        let mut outcome = device.run_args(args, options)?;
        if !direct.as_they_are {
            let mut made: Vec<_> = std::mem::take(&mut outcome.outputs).into_iter().map(Some).collect();
            let lost = || Error::internal("a launch gives fewer outputs than its plan has");
            for o in &direct.outs {
                outcome.outputs.push(made.get_mut(o.of).and_then(Option::take).ok_or_else(lost)?);
            }
        }
        for (t, o) in outcome.outputs.iter_mut().zip(&direct.outs) {
            if let Some((dtype, dims)) = &o.shown {
                t.dtype = *dtype;
                t.dims = dims.as_slice().into();
            }
        }
        Ok(Some(outcome))
    }

    /// The plan of a graph for inputs of such sizes, if there is one.
    fn planned_for(&self, at: usize, given: &[TensorView<'_>]) -> Option<Arc<Round>> {
        let graph = &self.graphs[at];
        {
            let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(r) = recent.as_ref().filter(|r| r.fits(given)) {
                return Some(r.round.clone());
            }
        }
        let round = key::with(0, |key| {
            for (v, t) in graph.inputs.iter().zip(given) {
                let Some(v) = v else { continue };
                key::tensor(graph, key, *v, (t.dtype, t.dims), || t.bytes);
            }
            self.caches[at].lock().unwrap_or_else(PoisonError::into_inner).get(key)
        })?;
        if let Some(now) = Recent::of(graph, given, &round) {
            *self.recent.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        Some(round)
    }
}
