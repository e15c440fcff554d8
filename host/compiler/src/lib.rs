//! The compiler: from a graph to a GeRootModel, one module a stage, in the order of the stages.
#![forbid(unsafe_code)]

/// Errors.
pub mod error;
/// Ids that stages decide.
pub mod ids;
/// Options of a compilation.
pub mod options;
/// What plugins offer.
pub mod toolbox;
/// Fusions of plugins: where they run, switches, reports.
pub mod fusion;
/// Records of passes.
pub mod pass;
/// The stages in order, and the loops over them.
pub mod pipeline;
/// Normalisation, inference, folding.
pub mod prepare;
/// Fusions, precision, formats of the original graph.
pub mod original;
/// What is redundant, removed.
pub mod stage1;
/// Engines for nodes.
pub mod place;
/// Clusters of one engine.
pub mod partition;
/// Subgraphs, each changed by its own engine.
pub mod subgraph;
/// Subgraphs put together again.
pub mod merge;
/// The whole graph made ready for the build.
pub mod stage2;
/// Memory conflicts.
pub mod conflict;
/// Features across stages: tiling sink.
pub mod feature;
/// Output sizes, workspaces, wishes of each node.
pub mod params;
/// Streams: logical allocation and, beyond it, streams from the graph's own parallelism.
pub mod streams;
/// Memory: lifetimes, assigners, offsets and their check.
pub mod memory;
/// Events and notifies.
pub mod sync;
/// Tasks and kernels.
pub mod tasks;
/// Physical streams.
pub mod split;
/// Weights, GeRootModel and its OM.
pub mod model;
/// Models of unknown shapes, for executor v2.
pub mod dynamic;

pub use pipeline as stages;

pub use error::{CompileError, Result};
pub use ids::{EventId, ModelMap, NodeKey, PORTION, PhysicalId, StreamId};
pub use options::Options;
pub use toolbox::Toolbox;
