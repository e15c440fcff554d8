//! Loops that make no turn. What their turns would have gathered has no tensor, but a type and a
//! shape.
use super::DynamicModel;
use super::graph::{Graph, Kind};
use super::plan::draft;
use super::run::Run;
use super::value::{List, Tensor, Value};
use crate::error::RuntimeError;
use crate::executor::RunOptions;
use ge_plugin::services::is_cancelled;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::HostTensor;
use ge_plugin_api::types::{Shape, TensorDesc};

impl DynamicModel {
    /// The values of a loop that made no turn. Sequences that are empty get the type and the shape
    /// that a turn on the values at hand would add.
    ///
    /// # Errors
    /// The run was cancelled.
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

    /// What the first round of a turn would add, as it is planned: nothing is computed, so that
    /// values which no turn could take (an element of an empty tensor) do not matter.
    fn planned(&self, body: usize, state: &mut [Value<'_>]) {
        let graph = &self.graphs[body];
        let mut vals = vec![None; graph.values()];
        for (v, a) in graph.inputs.iter().zip(state.iter()) {
            if let Some(v) = v {
                vals[*v as usize] = Some(a.clone());
            }
        }
        let mut done = vec![false; graph.nodes.len()];
        // What parts of known shape give is known but for its numbers, which decide no shapes here.
        for (n, done) in graph.nodes.iter().zip(&mut done).filter(|(n, _)| n.kind == Kind::Part) {
            let given: Option<Vec<Value<'_>>> = n.descs.iter().map(placeholder).collect();
            if let Some(given) = given.filter(|_| n.outputs.iter().all(|v| !graph.wanted[*v as usize])) {
                n.outputs.iter().zip(given).for_each(|(v, given)| vals[*v as usize] = Some(given));
                *done = true;
            }
        }
        let Ok(plan) = draft(&self.basis(body), &vals, &done, &[]) else { return };
        for (k, v) in state.iter_mut().enumerate() {
            let Some(desc) = inserted(graph, k).and_then(|v| plan.desc(graph, v)) else { continue };
            tell(v, desc);
        }
    }

    /// What a turn adds whose shapes hang on values: one is made for nothing else. Where these values
    /// are none that a turn could take, what is known without them stands.
    fn tried<'a>(&self, body: usize, state: &mut [Value<'a>]) -> Result<(), RuntimeError> {
        let made = self.graph(body, state.to_vec(), &mut Run::new(RunOptions::default(), 1));
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
}

/// What is known of what a turn adds to sequence `k` without its values: by the compiler, and by what
/// the model declares. A size that neither tells is 0.
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

/// A tensor of zeros in place of one of known shape.
fn placeholder<'a>(d: &TensorDesc) -> Option<Value<'a>> {
    let zeros = HostTensor::zeroed(d.dtype, &d.shape.sizes()?).ok()?;
    Some(Value::Tensor(Tensor::made(zeros)))
}

fn is_empty(v: &Value<'_>) -> bool {
    matches!(v, Value::List(l) if l.items.is_empty())
}

/// Whether a sequence is empty and nothing tells what it would hold.
fn is_open(v: &Value<'_>) -> bool {
    matches!(v, Value::List(l) if l.items.is_empty() && l.dims.is_none())
}

/// The tensor that a turn of `body` adds to its sequence `k`.
fn inserted(body: &Graph, k: usize) -> Option<u32> {
    let n = body.producer(*body.outputs.get(k)?)?;
    let into = *n.inputs.first()?;
    (n.op.as_str() == "SequenceInsert" && into.is_some() && into == *body.inputs.get(k)?)
        .then_some(n.inputs.get(1).copied()??)
}

/// Says what an empty sequence would hold.
fn tell(v: &mut Value<'_>, desc: &TensorDesc) {
    let (Value::List(List { items, dtype, dims, .. }), Some(sizes)) = (v, desc.shape.sizes()) else { return };
    if items.is_empty() {
        *dtype = desc.dtype;
        *dims = Some(sizes.into());
    }
}
