//! The compiler turns a graph into a GeRootModel. There is one module per stage, in stage order.
#![forbid(unsafe_code)]

/// Errors.
pub mod error;
/// Ids that the stages assign: nodes, streams and events.
pub mod ids;
/// Options of a compilation.
pub mod options;
/// What the plugins offer to a compilation.
pub mod toolbox;
/// Fusions that plugins offer: where they run, their switches and their reports.
pub mod fusion;
/// Passes and the records of their runs.
pub mod pass;
/// The stages in order, and the loops over them.
pub mod pipeline;
/// Normalisation, inference and constant folding.
pub mod prepare;
/// Fusions, precision and formats on the original graph.
pub mod original;
/// Removal of redundant nodes.
pub mod stage1;
/// Choice of an engine for each node.
pub mod place;
/// Clusters of nodes of one engine.
pub mod partition;
/// Subgraphs, each optimised by its own engine.
pub mod subgraph;
/// Puts the subgraphs together again.
pub mod merge;
/// Prepares the whole graph for the build.
pub mod stage2;
/// Memory conflicts.
pub mod conflict;
/// Features that span several stages, such as tiling sink.
pub mod feature;
/// Output sizes, workspaces and resource requests of each node.
pub mod params;
/// Streams: logical allocation, and streams taken from the parallelism of the graph itself.
pub mod streams;
/// Memory: lifetimes, assigners, offsets and the check of offsets.
pub mod memory;
/// Events and notifies.
pub mod sync;
/// Tasks and kernels.
pub mod tasks;
/// Split of logical streams into physical streams.
pub mod split;
/// Weights, the GeRootModel and its OM file.
pub mod model;
/// Names of a model's outputs.
mod output_names;
/// Models of unknown shapes, which executor v2 runs.
pub mod dynamic;

pub use pipeline as stages;

pub use error::{CompileError, Result};
pub use ids::{EventId, ModelMap, NodeKey, PORTION, PhysicalId, StreamId};
pub use options::Options;
pub use toolbox::Toolbox;
