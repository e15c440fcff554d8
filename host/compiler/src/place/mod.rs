//! Placement. Input: an inferred graph and the engines' op stores. Output: `Placement`, with
//! `_engine` and `_op_kernel_lib` on every node.
pub mod engine_placer;
pub mod hostcpu_engine_update_pass;
pub mod reassign;

pub use engine_placer::{Candidate, EnginePlacer, Placement};
