//! What plugin authors use: registrations, `ge_plugin!`, and a ready-made engine for plain
//! operators.
pub mod macros;
pub mod registry;
pub mod simple;
/// Subgraphs that run slice by slice.
pub mod slices;
/// What a tiling function reads and writes on the device.
pub mod tiling_context;
/// Tiling on the device.
pub mod tiling_sink;

pub use registry::{Registration, collect};
pub use simple::SimpleEngine;
