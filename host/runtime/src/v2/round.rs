//! Executes one round: its launches, and the host's work beside and after them.
use super::DynamicModel;
use super::build::Round;
use super::executor::{Executor, Order, take_all};
use super::graph::{Graph, Kind};
use super::run::{Frame, Run};
use super::state::{Claim, State};
use super::value::{Store, Tensor, Value};
use crate::capture::Captured;
use crate::error::RuntimeError;
use crate::executor::{Arg, HostStep, RunOutcome};
use crate::load::LoadedModel;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::{HostTensor, TensorView};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl DynamicModel {
    /// Executes a round.
    pub(crate) fn execute<'a>(
        &self,
        round: &Arc<Round>,
        f: &mut Frame<'_, 'a>,
        run: &mut Run,
    ) -> Result<(), RuntimeError> {
        for (v, t) in &round.known {
            f.vals[*v as usize] = Some(Value::Tensor(t.clone()));
        }
        let helpers = if round.steps.heavy > 1 { run.shared.helpers(round.steps.heavy - 1) } else { 0 };
        // Profiles and captures are reported in the order of the plan.
        let told = run.options.profile || self.options.capture;
        let (order, as_planned) = match self.executor {
            Executor::Sequential => (None, true),
            Executor::PriorityTopological => (Some(&round.steps.graph), false),
            Executor::Topological | Executor::MultiThread(_) => (Some(&round.steps.first), false),
        };
        if round.host.is_empty() || (helpers == 0 && self.chance.is_none() && (as_planned || !told)) {
            self.in_order(round, order.map(Vec::as_slice), f, run)?;
        } else {
            let taken = self.as_ready(round, helpers, f, run);
            run.shared.spare.fetch_add(helpers, Ordering::Relaxed);
            taken?;
        }
        for v in &round.release {
            f.vals[*v as usize] = None;
        }
        Ok(())
    }

    /// Takes the steps of a round on this thread alone, in an order that was computed with the plan
    /// (`None`: the plan's order). Returns the error of the failed step that is first in the plan.
    fn in_order<'a>(
        &self,
        round: &Arc<Round>,
        order: Option<&[usize]>,
        f: &mut Frame<'_, 'a>,
        run: &mut Run,
    ) -> Result<(), RuntimeError> {
        let launches = usize::from(round.device.is_some());
        let at = |k: usize| order.map_or(k, |o| o[k]);
        if launches == 0 || at(0) != 0 {
            f.show(round);
        }
        let mut failed: Option<(usize, RuntimeError)> = None;
        for step in (0..round.steps.at.len()).map(at) {
            if failed.as_ref().is_some_and(|(first, _)| step > *first) {
                continue;
            }
            let done = match (&round.device, step.checked_sub(launches)) {
                (Some(device), None) => Launching::of(round, f).and_then(|l| l.go(device, round, run)).map(|over| {
                    self.launched(device, round, f, over, run);
                    f.show(round);
                }),
                (_, at) => {
                    let i = at.and_then(|k| round.host.get(k)).copied().unwrap_or_default();
                    let n = &f.graph.nodes[i as usize];
                    let outs = f.inputs(i, round).and_then(|given| self.timed(f.graph, i, given, run));
                    if let (Kind::Choice, Some(trail)) = (n.kind, &mut run.trail) {
                        trail.calls.last_mut().into_iter().for_each(|call| call.node = i);
                    }
                    outs.and_then(|outs| self.hosted(i, outs, f, run))
                }
            };
            if let Err(why) = done {
                failed = Some((step, why));
            }
        }
        failed.map_or(Ok(()), |(_, why)| Err(why))
    }

    /// Takes the steps of a round as they become ready, on this thread and `helpers` others. What
    /// they collect is joined in the order of the plan.
    fn as_ready<'a>(
        &self,
        round: &Arc<Round>,
        helpers: usize,
        f: &mut Frame<'_, 'a>,
        run: &mut Run,
    ) -> Result<(), RuntimeError> {
        f.show(round);
        let (start, options, shared) = (run.start, run.options, run.shared.clone());
        let graph = f.graph;
        let frame = Mutex::new(f);
        let frame = || frame.lock().unwrap_or_else(PoisonError::into_inner);
        let gathered: Vec<Mutex<Option<Run>>> = round.steps.at.iter().map(|_| Mutex::new(None)).collect();
        let launches = usize::from(round.device.is_some());
        let step = |k: usize| -> Result<(), RuntimeError> {
            let mut own = Run::of(start, options, shared.clone());
            match (&round.device, k.checked_sub(launches)) {
                (Some(device), None) => {
                    let launch = Launching::of(round, &mut frame())?;
                    let over = launch.go(device, round, &own)?;
                    let mut f = frame();
                    self.launched(device, round, &mut f, over, &mut own);
                    f.show(round);
                }
                (_, at) => {
                    let i = at.and_then(|k| round.host.get(k)).copied().unwrap_or_default();
                    let given = frame().inputs(i, round)?;
                    let outs = self.timed(graph, i, given, &mut own)?;
                    self.hosted(i, outs, &mut frame(), &mut own)?;
                }
            }
            *gathered[k].lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
            Ok(())
        };
        let order = match (self.chance, self.executor) {
            (Some(seed), _) => {
                Order::Random(seed.wrapping_add(shared.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9)))
            }
            (None, Executor::PriorityTopological) => Order::Graph,
            (None, _) => Order::First,
        };
        take_all(&round.steps, launches == 1, order, helpers, &step)?;
        for own in gathered {
            own.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().for_each(|own| run.join(own));
        }
        Ok(())
    }

    /// Stores what the launches of a round gave.
    fn launched<'a>(
        &self,
        device: &Arc<LoadedModel>,
        round: &Round,
        f: &mut Frame<'_, 'a>,
        over: Launched,
        run: &mut Run,
    ) {
        let Launched { outcome, grown, over, begun } = over;
        for (y, t) in over {
            f.vals[y as usize] = Some(Value::Tensor(Tensor::made(t)));
        }
        for (v, s) in grown {
            f.vals[v as usize] = Some(Value::Tensor(Tensor::state(s)));
        }
        for (v, t) in round.outs.iter().zip(outcome.outputs) {
            f.vals[*v as usize] = Some(Value::Tensor(Tensor::made(t)));
        }
        run.launches += outcome.report.launches;
        let of = |c: Captured| {
            let node = *round.nodes.get(c.node as usize).filter(|n| **n != u32::MAX)?;
            Some(Captured { graph: self.number(f.graph), node, ..c })
        };
        run.captured.extend(outcome.captured.into_iter().filter_map(of));
        if run.options.profile {
            run.profiled(device, f.graph.name.clone(), begun, outcome.report);
        }
    }

    /// Executes node `i` on the host; records its times if a profile is requested.
    fn timed<'a>(
        &self,
        graph: &Graph,
        i: u32,
        given: Vec<Option<Value<'a>>>,
        run: &mut Run,
    ) -> Result<Vec<Value<'a>>, RuntimeError> {
        let n = &graph.nodes[i as usize];
        // Branches and loop iterations report their own nodes.
        if !run.options.profile || n.kind != Kind::Operator {
            return self.host(n, given, run);
        }
        let start_ns = run.start.elapsed().as_nanos() as u64;
        let outs = self.host(n, given, run)?;
        let end_ns = run.start.elapsed().as_nanos() as u64;
        let (node, op) = (n.name.clone(), n.op.as_str().to_owned());
        run.hosted.push(HostStep { graph: graph.name.clone(), node, op, start_ns, end_ns });
        Ok(outs)
    }

    /// Stores the results of node `i`, which the host executed.
    fn hosted<'a>(
        &self,
        i: u32,
        outs: Vec<Value<'a>>,
        f: &mut Frame<'_, 'a>,
        run: &mut Run,
    ) -> Result<(), RuntimeError> {
        let n = &f.graph.nodes[i as usize];
        if outs.len() < n.outputs.len() {
            return Err(Error::internal(format!("`{}` gives {} values", n.name, outs.len())).into());
        }
        if self.options.capture && n.kind == Kind::Operator {
            for (k, t) in outs.iter().enumerate().filter_map(|(k, v)| Some((k, v.tensor()?))) {
                let tensor = t.clone().into_host()?;
                let graph = self.number(f.graph);
                let (output, not_finite) = (k as u32, None);
                run.captured.push(Captured { graph, node: i, output, tensor, times: 1, not_finite });
            }
        }
        for (v, value) in n.outputs.iter().zip(outs) {
            f.vals[*v as usize] = Some(value);
        }
        Ok(())
    }

    /// The index of a graph.
    pub(crate) fn number(&self, graph: &Graph) -> u32 {
        self.graphs.iter().position(|g| std::ptr::eq(g, graph)).unwrap_or(0) as u32
    }
}

/// The launches of a round with the values that they read.
struct Launching<'a> {
    ins: Vec<(u32, Value<'a>)>,
    /// The memory of the values that they overwrite.
    over: Vec<(u32, HostTensor)>,
}

/// Finished launches.
struct Launched {
    outcome: RunOutcome,
    /// States that have grown.
    grown: Vec<(u32, State)>,
    /// Overwritten memory, by the values that it holds now.
    over: Vec<(u32, HostTensor)>,
    /// Start time in nanoseconds since the start of the run.
    begun: u64,
}

impl<'a> Launching<'a> {
    /// Takes the values that the launches overwrite out of the frame; they are copied if others
    /// hold them too.
    fn of(round: &Round, f: &mut Frame<'_, 'a>) -> Result<Launching<'a>, RuntimeError> {
        let mut over = Vec::with_capacity(round.over.len());
        for (v, _) in &round.over {
            let Some(Value::Tensor(t)) = f.vals[*v as usize].take() else {
                return Err(Error::internal("a value that is written over is not there").into());
            };
            over.push((*v, t.into_host()?));
        }
        let read = round.ins.iter().filter(|v| round.over.iter().all(|o| o.0 != **v));
        Ok(Launching { ins: read.filter_map(|v| Some((*v, f.value(*v)?))).collect(), over })
    }
    /// Runs the launches. The device writes to the rooms of growing states; after the launch the
    /// states have grown.
    fn go(self, device: &LoadedModel, round: &Round, run: &Run) -> Result<Launched, RuntimeError> {
        let begun = if run.options.profile { run.start.elapsed().as_nanos() as u64 } else { 0 };
        if round.grown.is_empty() && round.over.is_empty() {
            let values = self.ins.iter().filter_map(|(_, value)| value.tensor());
            let views: Vec<TensorView<'_>> = values.map(Tensor::view).collect();
            let outcome = device.run_args(views.into_iter().map(Arg::Lent), run.options)?;
            return Ok(Launched { outcome, grown: Vec::new(), over: Vec::new(), begun });
        }
        let Launching { ins, mut over } = self;
        // The order keeps threads from waiting for each other (see `state.rs`): taking the bytes of
        // a state and claiming a room may wait for a lock, so both come before the first lock is
        // taken. An input that does not grow may lie in the room of one that does.
        let whole = ins.iter().filter(|(v, _)| round.grown.iter().all(|g| g.0 != *v));
        let views: Vec<_> = whole.filter_map(|(v, value)| Some((*v, value.tensor()?.view()))).collect();
        let claims = claim(round, &ins)?;
        let mut rooms: Vec<MutexGuard<'_, HostTensor>> = claims.iter().map(Claim::memory).collect();
        let mut args: Vec<(u32, Arg<'_>)> = views.into_iter().map(|(v, view)| (v, Arg::Lent(view))).collect();
        args.extend(round.grown.iter().zip(&mut rooms).map(|(g, room)| (g.0, Arg::Room(room))));
        args.extend(over.iter_mut().map(|(v, t)| (*v, Arg::Room(t))));
        // In the order in which the device takes them.
        args.sort_by_key(|(v, _)| round.ins.iter().position(|i| i == v));
        let outcome = device.run_args(args.into_iter().map(|(_, a)| a), run.options)?;
        drop(rooms);
        let grown = round.grown.iter().zip(claims).map(|(g, claim)| (g.1, claim.done())).collect();
        let becomes = |v: u32| round.over.iter().find(|o| o.0 == v).map(|o| o.1);
        let over = over.into_iter().filter_map(|(v, t)| Some((becomes(v)?, t))).collect();
        Ok(Launched { outcome, grown, over, begun })
    }
}

/// Claims the rooms of the states that grow, in the order of [`Round::grown`].
fn claim(round: &Round, ins: &[(u32, Value<'_>)]) -> Result<Vec<Claim>, RuntimeError> {
    let one = |(v, _, dims): &(u32, u32, Vec<u64>)| {
        let value = ins.iter().find(|i| i.0 == *v).and_then(|(_, value)| value.tensor());
        match value.map(|t| &t.store) {
            Some(Store::State(s)) => s.claim(dims),
            _ => Err(Error::internal("a state that grows is not there").into()),
        }
    };
    round.grown.iter().map(one).collect()
}
