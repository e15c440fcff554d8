//! Tests of the `nn` kernels through the engine's own calls: op store, builder, tiling, executor,
//! and launch by blocks.
#![allow(clippy::unwrap_used)]

mod bytes;
pub mod cube;
mod defaults;
mod fused;
mod harness;
mod matrix;
mod moves;
mod numbers;
mod parts;
mod recurrent;
mod refusals;
mod resize;
mod sweep;
