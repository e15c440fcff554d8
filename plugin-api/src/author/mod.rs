//! What authors write with: registrations, `ge_plugin!`, and a ready engine for plain operators.
pub mod macros;
pub mod registry;
pub mod simple;

pub use registry::{Registration, collect};
pub use simple::SimpleEngine;
