//! Runs graphs round by round, with what the host executes between launches.
use super::DynamicModel;
use super::amend::amend;
use super::build::{self, Last, Loader, Parts, Round};
use super::cache::Cache;
use super::graph::{Graph, Kind, Node};
use super::key;
use super::plan::{Basis, Draft, draft, infer};
use super::positions::{self, Lengths};
use super::sequence;
use super::trail::{Call, Trail};
use super::turns::Turns;
use super::value::{Store, Tensor, Value};
use super::view::OneNode;
use super::way::Way;
use crate::capture::Captured;
use crate::error::RuntimeError;
use crate::executor::{HostStep, Part, RunOptions};
use crate::load::LoadedModel;
use ge_plugin::services::is_cancelled;
use ge_plugin_api::Error;
use ge_plugin_api::device::RunReport;
use ge_plugin_api::diagnostic::{Diagnostic, ErrorKind};
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::types::{DType, TensorDesc};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

/// What one run collects.
pub(crate) struct Run {
    pub(crate) start: std::time::Instant,
    pub(crate) options: RunOptions,
    pub(crate) parts: Vec<Part>,
    pub(crate) hosted: Vec<HostStep>,
    pub(crate) captured: Vec<Captured>,
    pub(crate) launches: u64,
    pub(crate) shared: Arc<Shared>,
    /// The record of the run so far, if one is wanted.
    pub(crate) trail: Option<Trail>,
}

/// What all threads of a run share.
pub(crate) struct Shared {
    /// Number of loop iterations so far.
    turns: AtomicU64,
    /// Number of threads that may still be started.
    pub(crate) spare: AtomicUsize,
    /// Number of rounds with a random order so far.
    pub(crate) drawn: AtomicU64,
}

impl Run {
    /// A run that starts now, on up to `threads` threads.
    pub(crate) fn new(options: RunOptions, threads: usize) -> Run {
        let spare = AtomicUsize::new(threads.saturating_sub(1));
        let shared = Shared { turns: AtomicU64::new(0), spare, drawn: AtomicU64::new(0) };
        Run::of(std::time::Instant::now(), options, Arc::new(shared))
    }
    /// An empty collection for one step of a run.
    pub(crate) fn of(start: std::time::Instant, options: RunOptions, shared: Arc<Shared>) -> Run {
        let (parts, hosted, captured) = (Vec::new(), Vec::new(), Vec::new());
        Run { start, options, parts, hosted, captured, launches: 0, shared, trail: None }
    }
    /// Adds what a step of this run has collected.
    pub(crate) fn join(&mut self, step: Run) {
        self.parts.extend(step.parts);
        self.hosted.extend(step.hosted);
        self.captured.extend(step.captured);
        self.launches += step.launches;
    }
    /// Counts an iteration of the loop `n`.
    ///
    /// # Errors
    /// Fails if there were more than `most` iterations.
    fn turn(&mut self, n: &Node, most: u64) -> Result<(), RuntimeError> {
        if self.shared.turns.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(());
        }
        let text = format!("the run did not end within {most} turns of its loops: a loop goes on for ever");
        Err(Error::new(ErrorKind::DEVICE, text).at_node(&n.name, n.op.as_str()).into())
    }
    /// Records the profile of a launch that began at `begun` nanoseconds.
    pub(crate) fn profiled(&mut self, model: &Arc<LoadedModel>, graph: String, begun: u64, mut report: RunReport) {
        for t in report.tasks.iter_mut() {
            t.start_ns += begun;
            t.end_ns += begun;
        }
        self.parts.push(Part { model: model.clone(), graph, report });
    }
}

impl Shared {
    /// Reserves up to `wanted` of the threads that may still be started; returns how many.
    pub(crate) fn helpers(&self, wanted: usize) -> usize {
        let take = |spare: usize| (spare > 0 && wanted > 0).then(|| spare - spare.min(wanted));
        let before = self.spare.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.map_or(0, |spare| spare.min(wanted))
    }
}

/// The values of a graph while it runs.
pub(crate) struct Frame<'g, 'a> {
    pub(crate) graph: &'g Graph,
    pub(crate) vals: Vec<Option<Value<'a>>>,
    /// The rounds that are over.
    pub(crate) rounds: Vec<Arc<Round>>,
    /// The lengths of slices whose positions no plan is made for.
    lengths: Lengths,
}

impl<'g, 'a> Frame<'g, 'a> {
    /// The initial values of a graph's run.
    fn of(graph: &'g Graph, args: impl Iterator<Item = Option<Value<'a>>>) -> Frame<'g, 'a> {
        let mut f = Frame { graph, vals: vec![None; graph.values()], rounds: Vec::new(), lengths: Vec::new() };
        for (v, a) in graph.inputs.iter().zip(args) {
            if let Some(v) = v {
                f.vals[*v as usize] = a;
            }
        }
        f.lengths = positions::lengths_of(graph, &f.vals);
        f
    }
    /// Marks the nodes that are done. Only planning needs this; runs of cached plans do not.
    fn done(&self) -> Vec<bool> {
        let mut done = vec![false; self.graph.nodes.len()];
        let all = self.rounds.iter().flat_map(|r| r.done.iter().chain(&r.host));
        all.for_each(|n| done[*n as usize] = true);
        done
    }
    /// A value, constants included.
    pub(crate) fn value(&self, v: u32) -> Option<Value<'a>> {
        let own = self.vals[v as usize].clone();
        own.or_else(|| Some(Value::Tensor(Tensor::constant(&self.graph.constants[v as usize].as_ref()?.0)?)))
    }
    /// The size of each input in bytes; `None` if an input is a state, a string or no tensor.
    fn bytes_of_inputs(&self) -> Option<Vec<usize>> {
        let bytes = |v: &Option<u32>| {
            let t = self.vals[(*v)? as usize].as_ref()?.tensor()?;
            let plain = t.dtype != DType::STRING && !matches!(t.store, Store::State(_));
            plain.then(|| t.bytes().len())
        };
        self.graph.inputs.iter().map(bytes).collect()
    }
    /// Sets the views whose viewed values exist already.
    pub(crate) fn show(&mut self, round: &Round) {
        for (v, of, dtype, dims) in &round.views {
            let from = self.value(*of);
            let t = from.as_ref().and_then(Value::tensor).map(|t| t.viewed(*dtype, dims));
            self.vals[*v as usize] = t.map(Value::Tensor);
        }
    }
    /// The inputs of node `i` of a round, in order; `None` for absent optional inputs. A value that
    /// nobody else reads is moved to the node, so that the node can change it in place.
    ///
    /// # Errors
    /// A missing value is an internal error.
    pub(crate) fn inputs(&mut self, i: u32, round: &Round) -> Result<Vec<Option<Value<'a>>>, RuntimeError> {
        let graph = self.graph;
        let n = &graph.nodes[i as usize];
        let mut one = |v: &Option<u32>| match v {
            None => Ok(None),
            Some(v) if graph.is_read_once(*v, i) && !round.keys.contains(v) => {
                self.vals[*v as usize].take().or_else(|| self.value(*v)).map(Some).ok_or_else(|| lost(n))
            }
            Some(v) => self.value(*v).map(Some).ok_or_else(|| lost(n)),
        };
        n.inputs.iter().map(&mut one).collect()
    }
}

fn lost(n: &Node) -> RuntimeError {
    Error::internal(format!("a value that `{}` reads is not there", n.name)).into()
}

impl DynamicModel {
    /// Runs a graph on its arguments.
    pub(crate) fn graph<'a>(
        &self,
        gi: usize,
        args: Vec<Value<'a>>,
        run: &mut Run,
    ) -> Result<Vec<Value<'a>>, RuntimeError> {
        let told = run.options.profile;
        let outer = run.trail.take();
        run.trail = outer.is_some().then(Trail::default);
        let twin = self.twins.get(gi).and_then(|t| t.as_ref().map(|t| t.at));
        let (gi, mut f, mut first) = match twin {
            None => (gi, Frame::of(&self.graphs[gi], args.into_iter().map(Some)), None),
            Some(at) => {
                let mut f = Frame::of(&self.graphs[at], args.into_iter().map(Some));
                let round = self.round(at, &f, told)?;
                if round.refused {
                    let args = f.graph.inputs.iter().map(|v| f.vals[(*v)? as usize].take());
                    (gi, Frame::of(&self.graphs[gi], args), None)
                } else {
                    (at, f, Some(round))
                }
            }
        };
        let graph = f.graph;
        loop {
            if is_cancelled() {
                return Err(Error::cancelled().into());
            }
            let round = match first.take() {
                Some(round) => round,
                None => self.round(gi, &f, told)?,
            };
            self.execute(&round, &mut f, run)?;
            if graph.outputs.iter().all(|v| f.vals[*v as usize].is_some() || graph.constants[*v as usize].is_some()) {
                f.rounds.push(round);
                break;
            }
            if round.device.is_none() && round.host.is_empty() && round.known.is_empty() && round.done.is_empty() {
                let done = f.done();
                let stuck = graph.nodes.iter().zip(&done).find(|(n, d)| !**d && n.kind != Kind::Output);
                return Err(stuck.map_or_else(|| Error::internal("a graph ends nowhere").into(), |(n, _)| lost(n)));
            }
            f.rounds.push(round);
        }
        if let Some(mut outer) = outer {
            let lengths = std::mem::take(&mut f.lengths);
            let trail = Trail { graph: gi, rounds: f.rounds.clone(), lengths, ..run.trail.take().unwrap_or_default() };
            outer.calls.push(Call { trail, ..Call::default() });
            run.trail = Some(outer);
        }
        graph.outputs.iter().map(|v| f.value(*v).ok_or_else(|| Error::internal("an output is lost").into())).collect()
    }

    /// The next round of a graph, cached or new. `told`: a profile is requested, so the round must
    /// not be an amended one.
    fn round(&self, gi: usize, f: &Frame<'_, '_>, told: bool) -> Result<Arc<Round>, RuntimeError> {
        let last = f.rounds.last();
        key::with(last.map_or(0, |r| r.id), |key| {
            match last {
                Some(r) => r.keys.iter().for_each(|v| key::value(f.graph, key, *v, f.vals[*v as usize].as_ref())),
                None => {
                    let inputs = f.graph.inputs.iter().flatten();
                    inputs.for_each(|v| key::value(f.graph, key, *v, f.vals[*v as usize].as_ref()));
                    positions::add_to_key(&f.lengths, key);
                }
            }
            let known = self.cache(gi).get(key).filter(|r| !(told && r.amended));
            known.map_or_else(|| self.plan(gi, f, key, told), Ok)
        })
    }
    /// What plans of a graph are made with.
    pub(crate) fn basis<'p>(&'p self, gi: usize, lengths: &'p Lengths) -> Basis<'p> {
        // The root's arguments belong to the caller, and capture needs all values unchanged.
        let root = gi == 0 || self.twins.first().is_some_and(|t| t.as_ref().is_some_and(|t| t.at == gi));
        let owns = !root && !self.options.capture;
        Basis {
            tools: &self.tools,
            graphs: &self.graphs,
            engines: &self.preferred,
            tilings: &self.tilings,
            at: gi,
            owns,
            lengths,
        }
    }
    pub(crate) fn cache(&self, gi: usize) -> MutexGuard<'_, Cache> {
        self.caches[gi].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Explains an error of planning in a branch: the run takes a branch that does not fit its
    /// sizes.
    fn in_branch(&self, gi: usize, why: RuntimeError) -> RuntimeError {
        match (why, &self.branches[gi]) {
            (RuntimeError::Border(e), Some(branch)) => {
                let note = |d: Diagnostic| d.note(format!("in {branch}, which this run takes"));
                if e.kind != ErrorKind::FAILED {
                    return e.with(note).into();
                }
                let e = e.with(|d| {
                    let d = note(d);
                    if d.code.is_empty() { d.code(ge_codes::BRANCH) } else { d }
                });
                Error { kind: ErrorKind::UNSUPPORTED, ..e }.into()
            }
            (why, _) => why,
        }
    }

    /// Plans the next round of a graph and caches it. It is made from the latest plan if only sizes
    /// differ, otherwise from scratch.
    fn plan(&self, gi: usize, f: &Frame<'_, '_>, key: &[u8], told: bool) -> Result<Arc<Round>, RuntimeError> {
        let id = self.cache(gi).number();
        let done = f.done();
        let load = Loader {
            name: &self.compiled.name,
            soc: &self.compiled.soc,
            logical: &self.compiled.streams.logical,
            weights: self.weights.bytes(),
            engines: &self.engines,
            context: &self.context,
            options: &self.of_round,
        };
        let last = self.lasts[gi].take(f.rounds.len(), &done);
        let amended = last.filter(|_| !told).and_then(|last| self.amended(id, gi, f, (&done, last), &load));
        let twin = self.twins.iter().flatten().find(|t| t.at == gi).filter(|_| f.rounds.is_empty());
        let fits = |d: &Draft| twin.is_none_or(|t| t.fits(f.graph, d));
        let made = match amended {
            Some(made) => Some(made).filter(|made| fits(&made.1)),
            None => match (self.draft(gi, f, &done), twin) {
                (Ok(draft), _) if fits(&draft) => Some(build::round(id, f.graph, draft, &done, &load)?),
                (Err(why), None) => return Err(why),
                _ => None,
            },
        };
        let Some((round, draft, parts)) = made else {
            let refused = Round { id, refused: true, ..Round::default() };
            return Ok(self.cache(gi).put(key.to_vec(), Arc::new(refused)));
        };
        let round = Arc::new(round);
        if self.ways.contains(&gi) && f.rounds.is_empty() && round.host.is_empty() {
            let trail = Trail { graph: gi, rounds: vec![round.clone()], ..Trail::default() };
            let way = f.bytes_of_inputs().and_then(|bytes| Way::of(self, &trail, bytes));
            way.into_iter().for_each(|way| drop(round.way.set(way)));
        }
        if parts.are_whole() && !self.options.capture {
            self.lasts[gi].put(f.rounds.len(), done, Last { draft, parts, round: round.clone() });
        }
        Ok(self.cache(gi).put(key.to_vec(), round))
    }

    /// Drafts the next round of a graph from scratch.
    fn draft(&self, gi: usize, f: &Frame<'_, '_>, done: &[bool]) -> Result<Draft, RuntimeError> {
        let basis = self.basis(gi, &f.lengths);
        let plan = |growing| draft(&basis, &f.vals, done, growing).map_err(|e| self.in_branch(gi, e));
        let d = plan(self.growing(gi))?;
        if !d.refused {
            return Ok(d);
        }
        self.grows[gi].store(false, Ordering::Relaxed);
        plan(&[])
    }

    /// Makes the next round of a graph from the latest one. `None` if it must be made from scratch,
    /// which also reports any error.
    fn amended(
        &self,
        id: u64,
        gi: usize,
        f: &Frame<'_, '_>,
        (done, last): (&[bool], Last),
        load: &Loader<'_>,
    ) -> Option<(Round, Draft, Parts)> {
        let Last { draft, parts, round } = last;
        let amended = amend(&self.basis(gi, &f.lengths), &f.vals, done, self.growing(gi), draft)?;
        build::amended(id, f.graph, amended, (&round, parts), load).ok().flatten()
    }

    /// Executes a node on the host.
    pub(crate) fn host<'a>(
        &self,
        n: &Node,
        given: Vec<Option<Value<'a>>>,
        run: &mut Run,
    ) -> Result<Vec<Value<'a>>, RuntimeError> {
        let all = |given: Vec<Option<Value<'a>>>, from: usize| {
            given.into_iter().skip(from).map(|v| v.unwrap_or(Value::Nothing)).collect::<Vec<_>>()
        };
        match n.kind {
            Kind::Choice => {
                let cond = given.first().and_then(|v| v.as_ref()?.tensor()).ok_or_else(|| lost(n))?;
                let at = if matches!(n.op.as_str(), "If" | "StatelessIf") {
                    usize::from(!cond.truth(n)?)
                } else {
                    // An index beyond the branches selects the last one.
                    let last = n.graphs.len().saturating_sub(1);
                    cond.int().and_then(|k| usize::try_from(k).ok()).map_or(last, |k| k.min(last))
                };
                let graph = *n.graphs.get(at).ok_or_else(|| lost(n))?;
                let made = self.graph(graph, all(given, 1), run)?;
                if let Some(call) = run.trail.as_mut().and_then(|t| t.calls.last_mut()) {
                    let shown = |v: &Value<'a>| v.tensor().map(|t| (t.dtype, t.dims.clone()));
                    (call.branch, call.shown) = (at, made.iter().map(shown).collect());
                }
                Ok(made)
            }
            Kind::While => {
                let &[cond, body] = n.graphs.as_slice() else { return Err(lost(n)) };
                let mut state = all(given, 0);
                let mut turned = false;
                let mut turns = Turns::new(self, body, run);
                loop {
                    let go = match self.condition(cond, &state, run) {
                        Some(go) => go,
                        None => self.told(n, cond, &mut state, run)?,
                    };
                    if !go {
                        return if turned { Ok(state) } else { self.no_turn(body, state) };
                    }
                    run.turn(n, self.most_turns)?;
                    if turned {
                        self.make_room(body, &mut state)?;
                    }
                    state = turns.next(state, run)?;
                    turned = true;
                }
            }
            Kind::For => {
                let number = |k: usize| given.get(k).and_then(|v| v.as_ref()?.tensor()?.int());
                let (Some(start), Some(limit), Some(delta)) = (number(0), number(1), number(2)) else {
                    return Err(lost(n));
                };
                let body = *n.graphs.first().ok_or_else(|| lost(n))?;
                let dtype = given.first().and_then(|v| Some(v.as_ref()?.tensor()?.dtype)).unwrap_or(DType::I32);
                let mut state = all(given, 3);
                let mut turns = Turns::new(self, body, run);
                let mut i = start;
                while (delta > 0 && i < limit) || (delta < 0 && i > limit) {
                    run.turn(n, self.most_turns)?;
                    let index = index(dtype, i).ok_or_else(|| lost(n))?;
                    if i != start {
                        self.make_room(body, &mut state)?;
                    }
                    let args = std::iter::once(Value::Tensor(index)).chain(state).collect();
                    state = turns.next(args, run)?;
                    let Some(next) = i.checked_add(delta) else { break };
                    i = next;
                }
                Ok(state)
            }
            Kind::Call => self.graph(*n.graphs.first().ok_or_else(|| lost(n))?, all(given, 0), run),
            Kind::Part => self.part(n, &given, run),
            _ if sequence::handles(n.op.as_str()) => sequence::run(&self.tools, n, given),
            // An `Identity` passes any kind of value through.
            _ if n.op.as_str() == "Identity" => Ok(given.into_iter().flatten().collect()),
            _ => self.kernel(n, &given),
        }
    }

    /// The condition `cond` of a loop in this state, if a small program can tell it. Profiles and
    /// captures show its nodes, so it is run then.
    fn condition(&self, cond: usize, state: &[Value<'_>], run: &Run) -> Option<bool> {
        let program = self.conditions.get(cond)?.as_ref()?;
        if run.options.profile || self.options.capture {
            return None;
        }
        let param = |k: usize| Some(state.get(k)?.tensor()?.view());
        let truth = program.run(param)?;
        (truth.len() == 1).then(|| truth[0] != 0)
    }
    /// Runs the condition `cond` of the loop `n`. What it stores in variables replaces the last
    /// values of the state.
    fn told<'a>(&self, n: &Node, cond: usize, state: &mut Vec<Value<'a>>, run: &mut Run) -> Result<bool, RuntimeError> {
        let mut told = self.graph(cond, state.clone(), run)?.into_iter();
        let go = told.next();
        let go = go.as_ref().and_then(Value::tensor).ok_or_else(|| lost(n))?.truth(n)?;
        let left: Vec<Value<'a>> = told.collect();
        let from = state.len().checked_sub(left.len()).ok_or_else(|| lost(n))?;
        state.splice(from.., left);
        Ok(go)
    }

    /// Runs a part of known shape: a sealed model of the device, prepared when the model was
    /// compiled.
    fn part<'a>(&self, n: &Node, given: &[Option<Value<'a>>], run: &mut Run) -> Result<Vec<Value<'a>>, RuntimeError> {
        let (at, part) = n.part.and_then(|k| Some((k, self.parts.get(k)?))).ok_or_else(|| lost(n))?;
        let views: Vec<TensorView<'_>> =
            given.iter().map(|v| Some(v.as_ref()?.tensor()?.view())).collect::<Option<_>>().ok_or_else(|| lost(n))?;
        let begun = run.start.elapsed().as_nanos() as u64;
        let outcome = part.run(&views, run.options)?;
        run.launches += outcome.report.launches;
        let first = self.compiled.first_graph_of(at) as u32;
        run.captured.extend(outcome.captured.into_iter().map(|c| Captured { graph: first + c.graph, ..c }));
        if run.options.profile {
            run.profiled(part, part.compiled().name.clone(), begun, outcome.report);
        }
        Ok(outcome.outputs.into_iter().map(|t| Value::Tensor(Tensor::made(t))).collect())
    }

    /// Runs a node's host kernel, which makes its outputs.
    fn kernel<'a>(&self, n: &Node, given: &[Option<Value<'a>>]) -> Result<Vec<Value<'a>>, RuntimeError> {
        let refuse = |what: &str| {
            RuntimeError::from(Error::unsupported(format!("`{}` {what}", n.name)).at_node(&n.name, n.op.as_str()))
        };
        let host = self.tools.host(n.op.as_str()).ok_or_else(|| refuse("has no host kernel"))?;
        let mut views: Vec<Option<TensorView<'_>>> = Vec::with_capacity(given.len());
        for v in given {
            views.push(match v {
                None | Some(Value::Nothing) => None,
                Some(Value::Tensor(t)) => Some(t.view()),
                Some(Value::List(..)) => return Err(refuse("takes a sequence, for which it has no kernel")),
            });
        }
        let known = |(i, v): (usize, &Option<Value<'_>>)| {
            let t = v.as_ref()?.tensor()?;
            let value = if n.value_inputs.contains(&i) { t.to_constant() } else { None };
            Some((i as u32, t.desc(), value))
        };
        let inputs: Vec<_> = given.iter().enumerate().map(known).collect();
        let one = OneNode::new(&n.name, (n.op, n.flags), n.attrs.as_slice(), &inputs, n.descs.clone());
        let types: Vec<DType> = infer(&self.tools, n, &one)?.iter().map(|d: &TensorDesc| d.dtype).collect();
        let made = host.run_host_kernel(n.op.as_str(), &n.name, &n.attrs, &views, &types)?;
        Ok(made.into_iter().map(|t| Value::Tensor(Tensor::made(t))).collect())
    }
}

/// The index of a `For` as a tensor.
fn index<'a>(dtype: DType, i: i64) -> Option<Tensor<'a>> {
    let t = match dtype {
        DType::I32 => ge_plugin_api::types::ConstTensor::of(&[], &[i32::try_from(i).ok()?]),
        _ => ge_plugin_api::types::ConstTensor::of(&[], &[i]),
    };
    Tensor::constant(&t?)
}
