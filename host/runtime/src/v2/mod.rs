//! Executor v2 (facts 8.8 to 8.11): models whose shapes are settled by each run.
//!
//! A graph is lowered once, at load. A run goes in rounds: everything whose sizes are known is
//! inferred, tiled and bound as one sealed model of the device, and launched as a whole; what hangs
//! on values that are computed by then (sizes of a `NonZero`, branches, turns of a loop) is the
//! host's, and the next round begins. Rounds are kept by the shapes that they were made for, so
//! that a shape seen before costs a look-up and its launches.

/// Memory of a round.
mod arena;
/// From a draft to a round.
pub(crate) mod build;
/// Rounds by what they depend on.
mod cache;
/// What is decided before any size is known.
pub mod describe;
/// Graphs as the executor walks them.
mod graph;
/// Tiling at run time.
mod launch;
/// What fits an input.
mod inputs;
/// What can be launched with the sizes that are known.
mod plan;
/// The executor.
mod run;
/// Sequences and optionals.
mod sequence;
/// What plugins offer.
mod tools;
/// Values of a run.
mod value;
/// One node as plugins see it.
mod view;

pub use tools::Tools;

use crate::error::RuntimeError;
use crate::executor::{RunOptions, RunOutcome};
use crate::load::{Engines, LoadOptions, LoadedModel};
use crate::map_pool::MapPool;
use bytes::Bytes;
use cache::Cache;
use ge_model::CompiledModel;
use ge_plugin_api::device::{ContextObject, RunReport};
use ge_plugin_api::kernel::{HostTensor, TensorView};
use std::sync::{Arc, Mutex, PoisonError};
use value::{Tensor, Value};

/// A model of unknown shapes, loaded: `Send + Sync`, runs of several threads go side by side.
pub struct DynamicModel {
    compiled: CompiledModel,
    graphs: Vec<graph::Graph>,
    /// The engine that the compiler named for each node, by graph.
    preferred: Vec<Vec<String>>,
    tools: Arc<Tools>,
    engines: Engines,
    context: Arc<ContextObject>,
    options: LoadOptions,
    weights: Bytes,
    /// Parts of known shape, sealed.
    parts: Vec<Arc<LoadedModel>>,
    caches: Vec<Mutex<Cache>>,
}

impl DynamicModel {
    /// Lowers the graphs of a model.
    ///
    /// # Errors
    /// `damaged`: what the OM says does not fit together; `unsupported`: an operator that no plugin
    /// has.
    pub fn load(
        compiled: CompiledModel,
        tools: Arc<Tools>,
        engines: Engines,
        context: Arc<ContextObject>,
        options: &LoadOptions,
    ) -> Result<DynamicModel, RuntimeError> {
        let weights = compiled.weights.first().map(|(_, b)| b.clone()).unwrap_or_default();
        let graphs = graph::lower(&compiled, &weights, &tools)?;
        let caches = graphs.iter().map(|_| Mutex::default()).collect();
        let preferred = compiled.graphs.iter().map(|g| g.nodes.iter().map(|n| n.engine.clone()).collect()).collect();
        let maps = Some(Arc::new(MapPool::new(context.clone())));
        let options = LoadOptions { maps, ..options.clone() };
        let seal = |p: &CompiledModel| LoadedModel::load(p.clone(), &engines, context.clone(), &options).map(Arc::new);
        let parts = compiled.parts.iter().map(seal).collect::<Result<_, _>>()?;
        Ok(DynamicModel { compiled, graphs, preferred, tools, engines, context, options, weights, parts, caches })
    }

    /// What it is.
    pub fn compiled(&self) -> &CompiledModel {
        &self.compiled
    }

    /// How many plans are kept, of all graphs.
    pub fn plans(&self) -> usize {
        self.caches.iter().map(|c| c.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    /// Runs once on inputs in graph order.
    ///
    /// # Errors
    /// Inputs that do not fit what the model declares; what a node cannot compute for these sizes,
    /// named.
    pub fn run(&self, given: &[TensorView<'_>], options: RunOptions) -> Result<RunOutcome, RuntimeError> {
        inputs::check(&self.compiled, given)?;
        let mut run = run::Run::new(options);
        let args = given.iter().map(|t| Value::Tensor(Tensor::lent(t))).collect();
        let values = self.graph(0, args, &mut run)?;
        let mut outputs: Vec<HostTensor> = Vec::with_capacity(values.len());
        for (k, v) in values.into_iter().enumerate() {
            let Value::Tensor(t) = v else {
                let name = self.compiled.outputs.get(k).map_or("", |o| o.name.as_str());
                let text = format!("output `{name}` is no tensor");
                return Err(ge_plugin_api::Error::unsupported(text).into());
            };
            outputs.push(t.into_host()?);
        }
        let report = RunReport { launches: run.launches, ..RunReport::default() };
        Ok(RunOutcome { outputs, report, copied_inputs: 0, captured: run.captured, gear: None, parts: run.parts })
    }
}
