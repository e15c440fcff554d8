//! Iterations of a loop. An iteration with the sizes of an earlier one takes the same steps: no
//! table of values is made for it, and no plan is looked up.
//!
//! The steps are those of a way (see `way.rs`), made from the record of one iteration. A sequence
//! among the values that the loop carries may only become longer, as by the scan outputs of a loop.
//! Iterations that do anything else are run like any graph.
use super::DynamicModel;
use super::executor::Executor;
use super::follow::{Carried, follow_turn};
use super::positions::{self, Lengths};
use super::run::Run;
use super::trail::Trail;
use super::value::{Store, Tensor, Value};
use super::way::{Body, Place, Reg};
use crate::error::RuntimeError;
use crate::spare::Spare;
use ge_plugin::services::is_cancelled;
use ge_plugin_api::Error;
use ge_plugin_api::kernel::TensorView;
use ge_plugin_api::types::DType;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of iterations of a loop that are recorded in one run, if their sizes differ.
const TRIES: usize = 2;

/// The iterations of a loop in one run.
pub(super) struct Turns<'m> {
    model: &'m DynamicModel,
    /// The graph of an iteration.
    body: usize,
    known: Option<Turn>,
    /// Number of iterations that may still be recorded.
    tries: usize,
    /// Number of iterations that repeated an earlier one.
    repeated: u64,
}

/// What an iteration does with arguments of these sizes.
pub(super) struct Turn {
    given: Vec<Given>,
    /// Index of the graph: the body, or its twin.
    graph: usize,
    /// The lengths of slices whose positions differ from iteration to iteration.
    lengths: Lengths,
    body: Body,
    results: Vec<Carried>,
}

/// The kind of an argument.
enum Given {
    /// A tensor of this type and of these sizes.
    Tensor(DType, Arc<[u64]>),
    /// A sequence of tensors of this type.
    List(DType),
}

impl<'m> Turns<'m> {
    /// The iterations of a loop with this body.
    pub(super) fn new(model: &'m DynamicModel, body: usize, run: &Run) -> Turns<'m> {
        // Profiles and captures show the nodes of every iteration; random orders are drawn for each.
        let all_told = run.options.profile || model.options.capture || model.chance.is_some();
        Turns { model, body, known: None, tries: if all_told { 0 } else { TRIES }, repeated: 0 }
    }

    /// Runs the next iteration.
    ///
    /// # Errors
    /// Fails as the graph of the iteration does.
    pub(super) fn next<'a>(&mut self, args: Vec<Value<'a>>, run: &mut Run) -> Result<Vec<Value<'a>>, RuntimeError> {
        if let Some(turn) = self.known.as_ref().filter(|t| t.fits(self.model, &args)) {
            self.repeated += 1;
            return turn.take(args, run, &self.model.options.spare);
        }
        if self.tries == 0 {
            return self.model.graph(self.body, args, run);
        }
        self.tries -= 1;
        let given = args.iter().map(Given::of).collect::<Option<Vec<_>>>();
        let outer = run.trail.replace(Trail::default());
        let made = self.model.graph(self.body, args, run);
        let record = std::mem::replace(&mut run.trail, outer).and_then(|mut t| t.calls.pop()).map(|c| c.trail);
        let seen = made.as_ref().ok().zip(record).zip(given);
        self.known = seen.and_then(|((made, record), given)| Turn::of(self.model, record, given, made));
        made
    }
}

impl Drop for Turns<'_> {
    fn drop(&mut self) {
        self.model.repeated.fetch_add(self.repeated, Ordering::Relaxed);
    }
}

impl Given {
    /// `None` for a value that no iteration with a record may take.
    fn of(v: &Value<'_>) -> Option<Given> {
        match v {
            Value::Tensor(t) if t.dtype != DType::STRING => Some(Given::Tensor(t.dtype, t.dims.clone())),
            Value::List(l) => Some(Given::List(l.dtype)),
            Value::Tensor(_) | Value::Nothing => None,
        }
    }
    /// Whether a value is of this kind. A state that grows in place never is: only a round claims
    /// its memory.
    fn fits(&self, v: &Value<'_>) -> bool {
        match (self, v) {
            (Given::Tensor(dtype, dims), Value::Tensor(t)) => {
                t.dtype == *dtype
                    && (Arc::ptr_eq(&t.dims, dims) || t.dims == *dims)
                    && !matches!(t.store, Store::State(_))
            }
            (Given::List(dtype), Value::List(l)) => l.dtype == *dtype,
            _ => false,
        }
    }
}

impl Turn {
    /// What the recorded iteration with these arguments and results did. `None` if another one with
    /// arguments of the same sizes might do something else.
    fn of(model: &DynamicModel, record: Trail, given: Vec<Given>, made: &[Value<'_>]) -> Option<Turn> {
        let several = matches!(model.executor, Executor::MultiThread(_));
        if several && record.rounds.iter().any(|r| r.steps.heavy > 1) {
            return None;
        }
        let lists: Vec<bool> = given.iter().map(|g| matches!(g, Given::List(_))).collect();
        let (mut body, results) = follow_turn(model, &record, &lists)?;
        // Results have the same sizes in every such iteration.
        let mut outs = body.outs.iter_mut();
        for (r, v) in results.iter().zip(made) {
            let sized = match (r, v) {
                (Carried::Tensor, Value::Tensor(t)) => std::slice::from_ref(t),
                (Carried::Longer { by, .. }, Value::List(l)) => l.items.get(l.items.len().checked_sub(*by)?..)?,
                _ => return None,
            };
            sized.iter().zip(&mut outs).for_each(|(t, o)| o.shown = Some((t.dtype, t.dims.clone())));
        }
        Some(Turn { given, graph: record.graph, lengths: record.lengths, body, results })
    }

    /// Whether arguments have the sizes of this iteration.
    fn fits(&self, model: &DynamicModel, args: &[Value<'_>]) -> bool {
        let graph = &model.graphs[self.graph];
        args.len() == self.given.len()
            && self.given.iter().zip(args).all(|(g, v)| g.fits(v))
            && (graph.positions.is_empty()
                || positions::lengths(graph, |k| Some(args.get(k)?.tensor()?.view())) == self.lengths)
    }

    /// Runs the iteration on arguments that fit.
    fn take<'a>(&self, mut args: Vec<Value<'a>>, run: &mut Run, spare: &Spare) -> Result<Vec<Value<'a>>, RuntimeError> {
        if is_cancelled() {
            return Err(Error::cancelled().into());
        }
        let lost = || Error::internal("an iteration gives other values than the one before");
        let list = |a: &mut Value<'a>| match a {
            Value::List(_) => Some(std::mem::replace(a, Value::Nothing)),
            _ => None,
        };
        let mut lists: SmallVec<[Option<Value<'a>>; 8]> = args.iter_mut().map(list).collect();
        let mut made = Vec::new();
        {
            // No step reads a sequence.
            let none = || TensorView { dtype: DType::UNKNOWN, dims: &[], bytes: &[] };
            let views: SmallVec<[TensorView<'_>; 8]> =
                args.iter().map(|a| a.tensor().map_or_else(none, Tensor::view)).collect();
            if !self.body.go(&views, run.options, &mut made, &mut run.launches)? {
                return Err(lost().into());
            }
        }
        let own = |reg| if let Reg::Own(t) = reg { Some(Store::Made(Arc::new(t))) } else { None };
        let made: SmallVec<[Option<Store<'a>>; 8]> = made.into_iter().map(own).collect();
        let mut results = self.body.outs.iter().map(|o| {
            let store = match &o.place {
                Place::Arg(k) => args.get(*k).and_then(Value::tensor).map(|t| t.store.clone()),
                Place::Made(r) => made.get(*r).cloned().flatten(),
                Place::Known(t) => Some(t.store.clone()),
            };
            let (store, (dtype, dims)) = store.zip(o.shown.as_ref()).ok_or_else(lost)?;
            Ok::<_, Error>(Tensor { store, dtype: *dtype, dims: dims.clone() })
        });
        let mut out = Vec::with_capacity(self.results.len());
        for r in &self.results {
            let mut next = || results.next().unwrap_or_else(|| Err(lost()));
            out.push(match r {
                Carried::Tensor => Value::Tensor(next()?),
                Carried::Longer { list, by } => {
                    let Some(Value::List(mut l)) = lists.get_mut(*list).and_then(Option::take) else {
                        return Err(lost().into());
                    };
                    let items = Arc::make_mut(&mut l.items);
                    for _ in 0..*by {
                        items.push(next()?);
                    }
                    l.dtype = items.last().map_or(l.dtype, |t| t.dtype);
                    Value::List(l)
                }
            });
        }
        drop(results);
        // The next iteration writes where nobody reads what this one was given.
        let unread = args.into_iter().filter_map(|a| match a {
            Value::Tensor(Tensor { store: Store::Made(t), .. }) => Arc::try_unwrap(t).ok(),
            _ => None,
        });
        spare.put(unread);
        Ok(out)
    }
}
