//! Converts the record of a run into the way of later runs: each value is replaced by its source. A
//! run that depends on values which may differ in another run has no way.
use super::DynamicModel;
use super::graph::{Graph, Kind, Node};
use super::plan::KEY_BYTES;
use super::trail::{Call, Trail};
use super::value::Tensor;
use super::way::{Body, Place, Step, Target};
use crate::load::LoadedModel;
use ge_plugin_api::types::DType;
use std::sync::{Arc, OnceLock};

/// What the record of a run does with inputs of these sizes in bytes. `None` if another run with
/// the key of the first plan might do something else.
pub(super) fn follow(model: &DynamicModel, trail: &Trail, bytes: &[usize]) -> Option<Body> {
    let graph = &model.graphs[trail.graph];
    let seen = |(k, v): (usize, &Option<u32>)| {
        // Bytes that are part of the key are the same in all runs that take this way.
        let fixed = v.is_some_and(|v| graph.wanted[v as usize]) && bytes.get(k).is_some_and(|b| *b <= KEY_BYTES);
        Some(Seen { target: Target { place: Place::Arg(k), shown: None }, fixed })
    };
    let args: Vec<Option<Seen>> = graph.inputs.iter().enumerate().map(seen).collect();
    Follow::graph(model, trail, &args)
}

/// A result of an iteration.
pub(super) enum Carried {
    /// The next result of the steps.
    Tensor,
    /// The sequence that is this argument, made longer by so many of the next results of the steps.
    Longer { list: usize, by: usize },
}

/// What the record of a loop's iteration does with arguments of the same sizes, and what its
/// results are. `lists`: which arguments are sequences. `None` if another iteration might do
/// something else.
pub(super) fn follow_turn(model: &DynamicModel, trail: &Trail, lists: &[bool]) -> Option<(Body, Vec<Carried>)> {
    let graph = &model.graphs[trail.graph];
    if !graph.variables.is_empty() || !graph.keeps.is_empty() {
        return None;
    }
    let mut f = Follow::new(model, trail, true);
    for (k, (v, is_list)) in graph.inputs.iter().zip(lists).enumerate() {
        let Some(v) = v else { continue };
        if *is_list {
            f.lists.push((*v, List { arg: k, more: Vec::new() }));
        } else if graph.wanted[*v as usize] {
            return None;
        } else {
            let target = Target { place: Place::Arg(k), shown: None };
            f.seen[*v as usize] = Some(Seen { target, fixed: false });
        }
    }
    f.rounds(trail)?;
    let mut results = Vec::with_capacity(graph.outputs.len());
    for v in &graph.outputs {
        match f.list(*v) {
            Some(List { arg, more }) => {
                results.push(Carried::Longer { list: arg, by: more.len() });
                f.body.outs.extend(more);
            }
            None => {
                results.push(Carried::Tensor);
                let target = f.value(*v)?.target;
                f.body.outs.push(target);
            }
        }
    }
    Some((f.body, results))
}

/// What is known of a value while a way is made.
#[derive(Clone)]
struct Seen {
    target: Target,
    /// Whether its bytes are the same in every run that takes this way.
    fixed: bool,
}

impl Seen {
    fn known(t: Tensor<'static>) -> Seen {
        Seen { target: Target { place: Place::Known(t), shown: None }, fixed: true }
    }
}

/// A sequence that is an argument, and what was added at its end.
struct List {
    arg: usize,
    more: Vec<Target>,
}

/// A graph whose record is being converted.
struct Follow<'m> {
    model: &'m DynamicModel,
    graph: &'m Graph,
    seen: Vec<Option<Seen>>,
    /// The sequences, by the latest value of each.
    lists: Vec<(u32, List)>,
    body: Body,
    /// Whether the graph is an iteration of a loop.
    turn: bool,
}

impl<'m> Follow<'m> {
    fn new(model: &'m DynamicModel, trail: &Trail, turn: bool) -> Follow<'m> {
        let graph = &model.graphs[trail.graph];
        let body = Body { steps: Vec::new(), outs: Vec::new(), made: 0 };
        Follow { model, graph, seen: vec![None; graph.values()], lists: Vec::new(), body, turn }
    }
    fn graph(model: &DynamicModel, trail: &Trail, args: &[Option<Seen>]) -> Option<Body> {
        let mut f = Follow::new(model, trail, false);
        let graph = f.graph;
        for (v, arg) in graph.inputs.iter().zip(args) {
            let Some(v) = v else { continue };
            // These bytes are part of the key of the first plan.
            f.seen[*v as usize] = Some(arg.clone().filter(|a| a.fixed || !graph.wanted[*v as usize])?);
        }
        f.rounds(trail)?;
        let outs: Option<Vec<Target>> = graph.outputs.iter().map(|v| Some(f.value(*v)?.target)).collect();
        f.body.outs = outs?;
        Some(f.body)
    }

    /// Converts the rounds.
    fn rounds(&mut self, trail: &Trail) -> Option<()> {
        let graph = self.graph;
        for (k, round) in trail.rounds.iter().enumerate() {
            if !round.grown.is_empty() || !round.over.is_empty() {
                return None;
            }
            for (v, t) in &round.known {
                self.seen[*v as usize] = Some(Seen::known(t.clone()));
            }
            if let Some(device) = &round.device {
                self.launch(device, &round.ins, &round.outs)?;
            }
            for (v, of, dtype, dims) in &round.views {
                // Values of the host do not exist yet, and no view of this round refers to them.
                let Some(mut seen) = self.value(*of) else { continue };
                seen.target.shown = Some((*dtype, dims[..].into()));
                self.seen[*v as usize] = Some(seen);
            }
            for node in &round.host {
                self.node(*node, trail)?;
            }
            // The key of the next plan contains the bytes of values that determine shapes.
            let by_value = |v: &u32| graph.wanted[*v as usize] && self.value(*v).is_none_or(|s| !s.fixed);
            if k + 1 < trail.rounds.len() && round.keys.iter().any(by_value) {
                return None;
            }
        }
        Some(())
    }

    /// Takes the sequence whose latest value is `v`.
    fn list(&mut self, v: u32) -> Option<List> {
        let at = self.lists.iter().position(|(of, _)| *of == v)?;
        Some(self.lists.swap_remove(at).1)
    }
    /// Adds a node that passes a sequence on or makes it longer at its end.
    fn longer(&mut self, n: &Node) -> Option<()> {
        let &[Some(from), ref item @ ..] = n.inputs.as_slice() else { return None };
        let mut list = self.list(from)?;
        match (n.op.as_str(), item) {
            ("Identity", []) => {}
            ("SequenceInsert", &([Some(item)] | [Some(item), None])) => list.more.push(self.value(item)?.target),
            _ => return None,
        }
        self.lists.push((*n.outputs.first()?, list));
        Some(())
    }

    fn value(&self, v: u32) -> Option<Seen> {
        let constant = || Some(Seen::known(Tensor::constant(&self.graph.constants[v as usize].as_ref()?.0)?));
        self.seen[v as usize].clone().or_else(constant)
    }
    fn place(&self, v: &u32) -> Option<Place> {
        Some(self.value(*v)?.target.place)
    }
    /// Records the values that a step makes.
    fn makes(&mut self, outs: &[u32], shown: impl Fn(usize) -> Option<(DType, Arc<[u64]>)>) {
        for (k, v) in outs.iter().enumerate() {
            let target = Target { place: Place::Made(self.body.made), shown: shown(k) };
            self.seen[*v as usize] = Some(Seen { target, fixed: false });
            self.body.made += 1;
        }
    }
    fn launch(&mut self, device: &Arc<LoadedModel>, ins: &[u32], outs: &[u32]) -> Option<()> {
        if device.ports.outputs.len() != outs.len() {
            return None;
        }
        let ins = ins.iter().map(|v| self.place(v)).collect::<Option<_>>()?;
        self.body.steps.push(Step::Launch { device: device.clone(), ins, outs: outs.len() });
        self.makes(outs, |_| None);
        Some(())
    }
    /// Adds a node that the host executes.
    fn node(&mut self, node: u32, trail: &Trail) -> Option<()> {
        let graph = self.graph;
        let n = &graph.nodes[node as usize];
        if n.kind == Kind::Part {
            let device = self.model.parts.get(n.part?)?;
            let ins: Vec<u32> = n.inputs.iter().copied().collect::<Option<_>>()?;
            return self.launch(device, &ins, &n.outputs);
        }
        if self.turn {
            return self.longer(n);
        }
        let call = trail.calls.iter().find(|c| c.node == node).filter(|_| n.kind == Kind::Choice)?;
        let Call { branch, shown, trail: own, .. } = call;
        let mut inputs = n.inputs.iter();
        let cond = self.value((*inputs.next()?)?)?.target;
        let given: Vec<Option<Seen>> = inputs.map(|v| v.as_ref().and_then(|v| self.value(*v))).collect();
        let args = given.iter().map(|s| Some(s.as_ref()?.target.place.clone())).collect::<Option<Vec<_>>>()?;
        // Inside the branch, its inputs are arguments; known values stay known.
        let inside = |(k, s): (usize, &Option<Seen>)| {
            let Seen { target, fixed } = s.clone()?;
            let is_known = matches!(target.place, Place::Known(_));
            let place = if is_known { target.place } else { Place::Arg(k) };
            Some(Seen { target: Target { place, shown: target.shown }, fixed })
        };
        let inside: Vec<Option<Seen>> = given.iter().enumerate().map(inside).collect();
        let body = Follow::graph(self.model, own, &inside)?;
        let branches: Vec<OnceLock<Body>> = n.graphs.iter().map(|_| OnceLock::new()).collect();
        drop(branches.get(*branch)?.set(body));
        let by_truth = matches!(n.op.as_str(), "If" | "StatelessIf");
        let shown: Vec<(DType, Arc<[u64]>)> = shown.iter().take(n.outputs.len()).cloned().collect::<Option<_>>()?;
        if shown.len() != n.outputs.len() {
            return None;
        }
        self.makes(&n.outputs, |k| shown.get(k).cloned());
        self.body.steps.push(Step::Choice { cond, by_truth, args, branches, shown });
        Some(())
    }
}
