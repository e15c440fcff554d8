//! Features that cut across stages, one room each.

/// If, Case and While on the device.
pub mod control_flow;
/// Tiling on the device (document 001).
pub mod tiling_sink;
