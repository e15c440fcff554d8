//! Features that cut across stages, one room each.

/// Tiling on the device (document 001).
pub mod tiling_sink;
