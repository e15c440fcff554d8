//! Streams from the graph's own parallelism: at most N streams of plain nodes, cost-aware.
