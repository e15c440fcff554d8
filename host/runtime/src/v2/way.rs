//! Fast runs for sizes that were seen before: a sequence of launches with choices between them,
//! from the caller's memory to the device as in a static model. No table of values is made, nothing
//! is looked up between two launches, and checks made before planning are not repeated.
//!
//! A way is the record of a run in which each value is replaced by its source. It is valid for all
//! inputs that have the key of its first plan, provided that the later plans depend only on sizes.
use super::DynamicModel;
use super::build::Round;
use super::follow::follow;
use super::graph::{Graph, Kind, Node};
use super::key;
use super::positions;
use super::recent::Found;
use super::run::Run;
use super::sequence;
use super::trail::Trail;
use super::value::Tensor;
use crate::error::RuntimeError;
use crate::executor::{Arg, RunOptions, RunOutcome};
use crate::load::LoadedModel;
use crate::spare::Spare;
use ge_plugin::services::is_cancelled;
use ge_plugin_api::Error;
use ge_plugin_api::device::RunReport;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use ge_plugin_api::ops::flags;
use ge_plugin_api::types::{ConstTensor, DType};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// Flags that a node must not have if a run may be restarted after it.
const ONCE: u64 = flags::RANDOM | flags::STATEFUL | flags::REFERENCE | flags::COMMUNICATION;

/// A run from the inputs of the model to its outputs.
pub(crate) struct Way {
    /// Size of each input in bytes.
    bytes: Vec<usize>,
    body: Body,
    /// Set if the way is a single launch whose outputs are the results in order. Then: whether some
    /// results have another type or shape than the launch gives.
    alone: Option<bool>,
}

/// What is done with the arguments of a graph.
pub(super) struct Body {
    pub(super) steps: Vec<Step>,
    pub(super) outs: Vec<Target>,
    /// Number of values that the steps make.
    pub(super) made: usize,
}

pub(super) enum Step {
    /// A launch of a round or of a part of known shape.
    Launch { device: Arc<LoadedModel>, ins: Vec<Place>, outs: usize },
    /// A choice between the branches that runs have taken so far.
    Choice {
        cond: Target,
        by_truth: bool,
        args: Vec<Place>,
        branches: Vec<OnceLock<Body>>,
        /// Type and sizes of each result. All branches give the same ones: the steps that follow
        /// were planned for them.
        shown: Vec<(DType, Arc<[u64]>)>,
    },
}

/// Where a value is.
#[derive(Clone)]
pub(super) enum Place {
    /// An argument of the graph.
    Arg(usize),
    /// A value made by a step, by number.
    Made(usize),
    /// A value that the plan contains.
    Known(Tensor<'static>),
}

/// A result of a graph.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) place: Place,
    /// Type and sizes of the result, if it is a view.
    pub(super) shown: Option<(DType, Arc<[u64]>)>,
}

/// A value made by a step.
pub(super) enum Reg {
    Own(HostTensor),
    /// The value is another value.
    Is(Place),
    /// The value was moved out as a result.
    Taken,
}

/// Whether runs of a graph may have a way: it only launches, and chooses between graphs that do so.
pub(crate) fn may_be(graphs: &[Graph], at: usize) -> bool {
    let Some(graph) = graphs.get(at) else { return false };
    graph.inputs.iter().all(Option::is_some) && goes(graphs, graph, false)
}

/// Whether a graph only launches and chooses. `again`: a run may be restarted after any of its
/// nodes.
fn goes(graphs: &[Graph], graph: &Graph, again: bool) -> bool {
    let again = again || graph.nodes.iter().any(|n| n.kind == Kind::Choice);
    let own = graph.variables.is_empty() && graph.keeps.is_empty();
    let fits = |n: &Node| match n.kind {
        Kind::Data | Kind::Constant | Kind::Output | Kind::Part => true,
        Kind::Operator => !sequence::handles(n.op.as_str()) && (!again || n.flags & ONCE == 0),
        Kind::Choice => n.graphs.iter().all(|g| goes(graphs, &graphs[*g], true)),
        _ => false,
    };
    (own || !again) && graph.nodes.iter().all(fits)
}

impl Way {
    /// The way of a finished run, for inputs of these sizes in bytes. `None` if it has no way, or
    /// none that is valid for all inputs with the key of its first plan.
    pub(crate) fn of(model: &DynamicModel, trail: &Trail, bytes: Vec<usize>) -> Option<Way> {
        let body = follow(model, trail, &bytes)?;
        let is_one = matches!(body.steps[..], [Step::Launch { .. }]) && body.gives_what_it_makes();
        let alone = is_one.then(|| body.outs.iter().any(|o| o.shown.is_some()));
        Some(Way { bytes, body, alone })
    }

    /// Adds the branches that another way of the same plan has and this one lacks. Returns `false`
    /// if the two ways differ in more than their branches.
    pub(crate) fn joins(&self, other: Way) -> bool {
        let like = self.body.is_like(&other.body);
        if like {
            self.body.joins(other.body);
        }
        like
    }

    /// Whether the inputs have the sizes of this way.
    pub(crate) fn fits(&self, given: &[TensorView<'_>]) -> bool {
        given.len() == self.bytes.len() && given.iter().zip(&self.bytes).all(|(t, bytes)| t.bytes.len() == *bytes)
    }

    /// Runs the model if its way is a single launch; otherwise `None`.
    pub(crate) fn launch(
        &self,
        given: &[TensorView<'_>],
        options: RunOptions,
    ) -> Option<Result<RunOutcome, RuntimeError>> {
        let ([Step::Launch { device, ins, .. }], Some(shows)) = (&self.body.steps[..], self.alone) else { return None };
        if is_cancelled() {
            return Some(Err(Error::cancelled().into()));
        }
        let ran = device.run_args(ins.iter().map(|p| Arg::Lent(p.view(given, &[]))), options);
        if !shows {
            return Some(ran);
        }
        Some(ran.map(|mut outcome| {
            outcome.outputs.iter_mut().zip(&self.body.outs).for_each(|(t, o)| o.show(t));
            outcome
        }))
    }

    /// Runs the model. `None` if it reaches a branch that no run has taken before; the caller then
    /// starts again without a way.
    ///
    /// # Errors
    /// Fails if the device fails or the run is cancelled.
    pub(crate) fn go(
        &self,
        given: &[TensorView<'_>],
        options: RunOptions,
        spare: &Spare,
    ) -> Result<Option<RunOutcome>, RuntimeError> {
        let (mut made, mut launches) = (Vec::new(), 0);
        if !self.body.go(given, options, &mut made, &mut launches)? {
            return Ok(None);
        }
        let mut outputs = Vec::with_capacity(self.body.outs.len());
        for (k, o) in self.body.outs.iter().enumerate() {
            outputs.push(match self.body.result(k, &mut made)? {
                Reg::Own(t) => t,
                Reg::Taken => return Err(Error::internal("a result is given twice").into()),
                Reg::Is(place) => {
                    let mut t = place.view(given, &[]);
                    if let Some((dtype, dims)) = &o.shown {
                        (t.dtype, t.dims) = (*dtype, dims);
                    }
                    spare.copy_of(&t)?
                }
            });
        }
        let report = RunReport { launches, ..RunReport::default() };
        let (captured, parts, hosted) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Some(RunOutcome { outputs, report, copied_inputs: 0, captured, gear: None, parts, hosted }))
    }
}

impl Body {
    /// Whether the results are the outputs of the launch, in order.
    fn gives_what_it_makes(&self) -> bool {
        let is = |(k, o): (usize, &Target)| matches!(o.place, Place::Made(r) if r == k);
        self.outs.len() == self.made && self.outs.iter().enumerate().all(is)
    }

    /// Takes the steps and collects their values in `made`. Returns `false` if a branch has no way.
    pub(super) fn go(
        &self,
        args: &[TensorView<'_>],
        options: RunOptions,
        made: &mut Vec<Reg>,
        launches: &mut u64,
    ) -> Result<bool, RuntimeError> {
        made.reserve(self.made);
        for step in &self.steps {
            if is_cancelled() {
                return Err(Error::cancelled().into());
            }
            let want = made.len() + step.outs();
            match step {
                Step::Launch { device, ins, .. } => {
                    let outcome = device.run_args(ins.iter().map(|p| Arg::Lent(p.view(args, made))), options)?;
                    *launches += outcome.report.launches;
                    made.extend(outcome.outputs.into_iter().map(Reg::Own));
                }
                Step::Choice { cond, by_truth, args: of, branches, .. } => {
                    let way = taken(&cond.view(args, made), *by_truth, branches.len());
                    let Some(way) = way.and_then(|at| branches[at].get()) else { return Ok(false) };
                    let mut own = Vec::new();
                    {
                        let views: SmallVec<[TensorView<'_>; 6]> = of.iter().map(|p| p.view(args, made)).collect();
                        if !way.go(&views, options, &mut own, launches)? {
                            return Ok(false);
                        }
                    }
                    for k in 0..way.outs.len() {
                        made.push(match way.result(k, &mut own)? {
                            // What a branch returns unchanged is what it was given.
                            Reg::Is(Place::Arg(k)) => Reg::Is(of[k].root(made).clone()),
                            other => other,
                        });
                    }
                }
            }
            if made.len() != want {
                return Err(Error::internal("a step gives another number of values than its plan has").into());
            }
        }
        Ok(true)
    }

    /// Moves result `k` out of `made`. Results must be taken in order.
    fn result(&self, k: usize, made: &mut [Reg]) -> Result<Reg, RuntimeError> {
        let o = &self.outs[k];
        let Place::Made(r) = *o.place.root(made) else { return Ok(Reg::Is(o.place.root(made).clone())) };
        let again = self.outs[k + 1..].iter().any(|o| matches!(o.place.root(made), Place::Made(other) if *other == r));
        let reg = match &made[r] {
            // Two results in the same memory each need their own copy.
            Reg::Own(t) if again => Reg::Own(HostTensor::from_bytes(t.dtype, &t.dims, t.bytes())?),
            _ => std::mem::replace(&mut made[r], Reg::Taken),
        };
        Ok(match reg {
            Reg::Own(mut t) => {
                o.show(&mut t);
                Reg::Own(t)
            }
            other => other,
        })
    }

    /// Whether another body has the same steps, apart from the branches that each knows.
    fn is_like(&self, other: &Body) -> bool {
        let outs = self.outs.iter().zip(&other.outs);
        let steps = self.steps.iter().zip(&other.steps);
        self.made == other.made
            && self.outs.len() == other.outs.len()
            && self.steps.len() == other.steps.len()
            && outs.into_iter().all(|(a, b)| a.is_like(b))
            && steps.into_iter().all(|(a, b)| a.is_like(b))
    }

    fn joins(&self, other: Body) {
        for (step, other) in self.steps.iter().zip(other.steps) {
            let (Step::Choice { branches, .. }, Step::Choice { branches: others, .. }) = (step, other) else {
                continue;
            };
            for (own, other) in branches.iter().zip(others) {
                match (own.get(), other.into_inner()) {
                    (Some(own), Some(other)) => own.joins(other),
                    // Another thread may have set the branch first.
                    (None, Some(other)) => drop(own.set(other)),
                    _ => {}
                }
            }
        }
    }
}

impl Step {
    /// Number of values that it makes.
    fn outs(&self) -> usize {
        match self {
            Step::Launch { outs, .. } => *outs,
            Step::Choice { shown, .. } => shown.len(),
        }
    }
    fn is_like(&self, other: &Step) -> bool {
        let all = |a: &[Place], b: &[Place]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b));
        match (self, other) {
            (Step::Launch { device, ins, .. }, Step::Launch { device: to, ins: from, .. }) => {
                Arc::ptr_eq(device, to) && all(ins, from)
            }
            (
                Step::Choice { cond, args, branches, shown, .. },
                Step::Choice { cond: by, args: of, branches: others, shown: shows, .. },
            ) => {
                let both = branches.iter().zip(others).filter_map(|(a, b)| a.get().zip(b.get()));
                cond.is_like(by)
                    && all(args, of)
                    && (branches.len(), shown) == (others.len(), shows)
                    && both.into_iter().all(|(a, b)| a.is_like(b))
            }
            _ => false,
        }
    }
}

impl Place {
    /// The place of the value itself: what a step made may refer to another value.
    fn root<'p>(&'p self, made: &'p [Reg]) -> &'p Place {
        let mut at = self;
        while let Place::Made(r) = at {
            match &made[*r] {
                Reg::Is(place) => at = place,
                Reg::Own(_) | Reg::Taken => break,
            }
        }
        at
    }
    fn view<'v>(&'v self, args: &[TensorView<'v>], made: &'v [Reg]) -> TensorView<'v> {
        match self.root(made) {
            Place::Arg(k) => args[*k],
            Place::Known(t) => t.view(),
            Place::Made(r) => match &made[*r] {
                Reg::Own(t) => t.view(),
                // Unreachable: the root of a value that is still read is neither of these.
                Reg::Is(_) | Reg::Taken => TensorView { dtype: DType::UNKNOWN, dims: &[], bytes: &[] },
            },
        }
    }
    fn is_like(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Arg(a), Place::Arg(b)) | (Place::Made(a), Place::Made(b)) => a == b,
            (Place::Known(a), Place::Known(b)) => a.dtype == b.dtype && a.dims == b.dims && a.bytes() == b.bytes(),
            _ => false,
        }
    }
}

impl Target {
    fn view<'v>(&'v self, args: &[TensorView<'v>], made: &'v [Reg]) -> TensorView<'v> {
        let t = self.place.view(args, made);
        self.shown.as_ref().map_or(t, |(dtype, dims)| TensorView { dtype: *dtype, dims, bytes: t.bytes })
    }
    fn is_like(&self, other: &Target) -> bool {
        self.place.is_like(&other.place) && self.shown == other.shown
    }
    /// Gives a tensor the type and shape of this result.
    fn show(&self, t: &mut HostTensor) {
        if let Some((dtype, dims)) = &self.shown {
            t.dtype = *dtype;
            t.dims = dims[..].into();
        }
    }
}

/// The branch that a choice takes; `None` if the condition is invalid.
fn taken(cond: &TensorView<'_>, by_truth: bool, branches: usize) -> Option<usize> {
    if by_truth {
        return (cond.count() == 1).then(|| usize::from(cond.bytes.iter().all(|b| *b == 0)));
    }
    // An index beyond the branches selects the last one.
    let last = branches.checked_sub(1)?;
    let at = ConstTensor::new(cond.dtype, cond.dims, ge_plugin_api::types::Blob::copy_of(cond.bytes))?;
    let at = at.to_i64(1).and_then(|all| all.first().copied()).and_then(|k| usize::try_from(k).ok());
    Some(at.map_or(last, |k| k.min(last)))
}

impl DynamicModel {
    /// The plan with a way for these inputs; `None` if there is none yet.
    pub(crate) fn way_of(&self, given: &[TensorView<'_>], options: RunOptions) -> Option<Found<'_>> {
        if self.ways.is_empty() || options.profile {
            return None;
        }
        let fits = |round: &Round| round.way.get().is_some_and(|w| w.fits(given));
        if let Some(round) = self.recent.of(given).filter(|r| fits(r)) {
            return Some(round);
        }
        for at in &self.ways {
            let graph = &self.graphs[*at];
            if given.len() != graph.inputs.len() {
                return None;
            }
            let round = key::with(0, |key| {
                for (v, t) in graph.inputs.iter().zip(given) {
                    let Some(v) = v else { continue };
                    key::tensor(graph, key, *v, (t.dtype, t.dims), || t.bytes);
                }
                positions::add_to_key(&positions::lengths(graph, |k| given.get(k).copied()), key);
                self.cache(*at).get(key)
            })?;
            if round.refused {
                continue;
            }
            if !fits(&round) {
                return None;
            }
            if graph.positions.is_empty() && !graph.inputs.iter().flatten().any(|v| graph.wanted[*v as usize]) {
                self.recent.is(given, &round);
            }
            return Some(Found::Now(round));
        }
        None
    }

    /// Whether a run should record its way.
    pub(crate) fn tells_way(&self, options: RunOptions) -> bool {
        let own = self.graphs.first().is_some_and(|g| g.variables.is_empty() && g.keeps.is_empty());
        let alone = self.executor.threads() == 1 && self.chance.is_none();
        !self.ways.is_empty() && own && alone && !options.profile && self.recent.may_tell()
    }

    /// Keeps the way of a run on these inputs.
    pub(crate) fn keep_way(&self, run: &mut Run, given: &[TensorView<'_>]) {
        let Some(trail) = run.trail.take().and_then(|t| t.calls.into_iter().next()).map(|c| c.trail) else { return };
        if given.iter().any(|t| t.dtype == DType::STRING) {
            return;
        }
        let Some(round) = trail.rounds.first() else { return };
        let way = Way::of(self, &trail, given.iter().map(|t| t.bytes.len()).collect());
        let kept = way.is_some_and(|way| match round.way.get() {
            Some(known) => known.joins(way),
            None => round.way.set(way).is_ok(),
        });
        if !kept {
            self.recent.tells_nothing();
        }
    }
}
