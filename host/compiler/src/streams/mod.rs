//! Stream allocation. in: a placed graph, out: `StreamPlan` and `ExecutionOrder`.

/// Streams from the graph's own parallelism (`ge.x.stream_mode = parallel:N`).
pub mod parallel;
