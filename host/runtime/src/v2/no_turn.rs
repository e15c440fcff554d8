//! Loops without any iteration. The sequences that their iterations would have filled contain no
//! tensor, but they still need a type and a shape.
use super::DynamicModel;
use super::graph::{Graph, Kind, Node};
use super::plan::draft;
use super::positions;
use super::run::Run;
use super::value::{List, Tensor, Value};
use crate::error::RuntimeError;
use crate::executor::RunOptions;
use ge_plugin::services::is_cancelled;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{Shape, TensorDesc};

impl DynamicModel {
    /// The results of a loop that made no iteration. Empty sequences get the type and shape of what
    /// an iteration on the current values would add.
    ///
    /// # Errors
    /// Returns an error if the run is cancelled.
    pub(crate) fn no_turn<'a>(&self, body: usize, mut state: Vec<Value<'a>>) -> Result<Vec<Value<'a>>, RuntimeError> {
        if !state.iter().any(is_empty) {
            return Ok(state);
        }
        self.planned(body, &mut state);
        if state.iter().any(is_open) {
            self.tried(body, &mut state)?;
        }
        Ok(state)
    }

    /// Takes types and shapes from the plan of an iteration's first round. Nothing is computed, so
    /// values that no iteration could use (an element of an empty tensor) do no harm.
    fn planned(&self, body: usize, state: &mut [Value<'_>]) {
        let graph = &self.graphs[body];
        let mut vals = vec![None; graph.values()];
        for (v, a) in graph.inputs.iter().zip(state.iter()) {
            if let Some(v) = v {
                vals[*v as usize] = Some(a.clone());
            }
        }
        let mut done = vec![false; graph.nodes.len()];
        // Parts of known shape have known result shapes. Zeros stand for their values, which must
        // not determine shapes here.
        for (n, done) in graph.nodes.iter().zip(&mut done).filter(|(n, _)| n.kind == Kind::Part) {
            let given: Option<Vec<Value<'_>>> = n.descs.iter().map(placeholder).collect();
            if let Some(given) = given.filter(|_| n.outputs.iter().all(|v| !graph.wanted[*v as usize])) {
                n.outputs.iter().zip(given).for_each(|(v, given)| vals[*v as usize] = Some(given));
                *done = true;
            }
        }
        let lengths = positions::lengths_of(graph, &vals);
        let Ok(plan) = draft(&self.basis(body, &lengths), &vals, &done, &[]) else { return };
        for (k, v) in state.iter_mut().enumerate() {
            let Some(desc) = inserted(graph, k).and_then(|v| plan.desc(graph, v)) else { continue };
            tell(v, desc);
        }
    }

    /// Where shapes depend on values, runs one iteration just to find them. If that fails on these
    /// values, uses what is known without them. An iteration that contains a loop is not run: on
    /// values that no iteration would get, that loop might not end.
    fn tried<'a>(&self, body: usize, state: &mut [Value<'a>]) -> Result<(), RuntimeError> {
        let try_it = || self.graph(body, state.to_vec(), &mut Run::new(RunOptions::default(), 1)).ok();
        let made = if self.has_loop(body) { None } else { try_it() };
        if is_cancelled() {
            return Err(Error::cancelled().into());
        }
        for (v, turn) in state.iter_mut().zip(made.unwrap_or_default()) {
            if let (true, Value::List(t)) = (is_open(v), turn) {
                if let [one] = t.items.as_slice() {
                    tell(v, &one.desc());
                }
            }
        }
        for (k, v) in state.iter_mut().enumerate().filter(|(_, v)| is_open(v)) {
            if let Some(desc) = known(&self.graphs[body], k, v) {
                tell(v, &desc);
            }
        }
        Ok(())
    }

    /// Whether a graph, or one that it calls, contains a loop. No graph calls itself.
    fn has_loop(&self, graph: usize) -> bool {
        let turns = |n: &Node| matches!(n.kind, Kind::While | Kind::For) || n.graphs.iter().any(|g| self.has_loop(*g));
        self.graphs[graph].nodes.iter().any(turns)
    }
}

/// What is known without values of the tensor that an iteration adds to sequence `k`: from the
/// compiler, then from what the model declares. Sizes that neither gives are 0.
fn known(body: &Graph, k: usize, list: &Value<'_>) -> Option<TensorDesc> {
    let x = inserted(body, k)?;
    let n = body.producer(x)?;
    let desc = n.descs.get(n.outputs.iter().position(|v| *v == x)?)?;
    let Value::List(List { declared, .. }) = list else { return None };
    let said = declared.as_deref().unwrap_or_default();
    let inferred: Vec<Option<u64>> = desc.shape.dims().iter().map(|d| d.size()).collect();
    let rank = if desc.shape.is_unranked() { declared.as_ref()?.len() } else { inferred.len() };
    let said = |i: usize| said.get(i).filter(|_| said.len() == rank).and_then(|n| u64::try_from(*n).ok());
    let sizes: Vec<u64> =
        (0..rank).map(|i| inferred.get(i).copied().flatten().or_else(|| said(i)).unwrap_or(0)).collect();
    Some(TensorDesc::new(desc.dtype, Shape::of(&sizes)))
}

/// A tensor of zeros that stands for a tensor of known shape.
fn placeholder<'a>(d: &TensorDesc) -> Option<Value<'a>> {
    let zeros = HostTensor::zeroed(d.dtype, &d.shape.sizes()?).ok()?;
    Some(Value::Tensor(Tensor::made(zeros)))
}

fn is_empty(v: &Value<'_>) -> bool {
    matches!(v, Value::List(l) if l.items.is_empty())
}

/// Whether a sequence is empty and the shape of its tensors is not known.
fn is_open(v: &Value<'_>) -> bool {
    matches!(v, Value::List(l) if l.items.is_empty() && l.dims.is_none())
}

/// The tensor that an iteration of `body` adds to its sequence `k`.
fn inserted(body: &Graph, k: usize) -> Option<u32> {
    let n = body.producer(*body.outputs.get(k)?)?;
    let into = *n.inputs.first()?;
    (n.op.as_str() == "SequenceInsert" && into.is_some() && into == *body.inputs.get(k)?)
        .then_some(n.inputs.get(1).copied()??)
}

/// Sets the type and shape of the tensors that an empty sequence would hold.
fn tell(v: &mut Value<'_>, desc: &TensorDesc) {
    let (Value::List(List { items, dtype, dims, .. }), Some(sizes)) = (v, desc.shape.sizes()) else { return };
    if items.is_empty() {
        *dtype = desc.dtype;
        *dims = Some(sizes.into());
    }
}
