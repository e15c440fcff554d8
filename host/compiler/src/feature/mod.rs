//! Features that span several stages, one module each.

/// Names of sizes that come into being inside a graph.
pub mod born;
/// Clearing of memory that must start as zero.
pub mod atomic_clean;
/// If, Case, While and For on the device.
pub mod control_flow;
/// Which nodes read and write variables, and in which order.
pub mod effects;
/// Inputs and outputs whose memory is shared.
pub mod io_reuse;
/// Sliced subgraphs that run as one task.
pub mod ffts_plus;
/// Kernels, compiled once for equal nodes.
pub mod kernel_cache;
/// Nodes that run one after the other on a stream of their own.
pub mod parallel_group;
/// Values that share memory: views, references, and contiguous runs of inputs and outputs.
pub mod shared_memory;
/// Chains of kernels that are launched as one task.
pub mod super_kernel;
/// Tiling on the device (document 001).
pub mod tiling_sink;
