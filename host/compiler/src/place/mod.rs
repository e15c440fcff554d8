//! Placement. in: an inferred graph and the engines' op stores, out: `Placement` and `_engine`,
//! `_op_kernel_lib` on every node.
pub mod engine_placer;
pub mod hostcpu_engine_update_pass;
pub mod reassign;

pub use engine_placer::{Candidate, EnginePlacer, Placement};
