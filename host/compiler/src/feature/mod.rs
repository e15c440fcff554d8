//! Features that cut across stages, one room each.

/// Names of sizes that are born inside a graph.
pub mod born;
/// Memory that starts as zero.
pub mod atomic_clean;
/// If, Case and While on the device.
pub mod control_flow;
/// Who reads and writes variables, in which order.
pub mod effects;
/// Inputs and outputs whose memory others share.
pub mod io_reuse;
/// Subgraphs in slices as one task.
pub mod ffts_plus;
/// Kernels, compiled once for equal nodes.
pub mod kernel_cache;
/// Values that share memory: views, references, runs of inputs and outputs.
pub mod shared_memory;
/// Chains of kernels launched as one task.
pub mod super_kernel;
/// Tiling on the device (document 001).
pub mod tiling_sink;
