//! What touches memory while a model runs: kernels, copies, reductions, values read by switches.
//! The only rooms with `unsafe` code are this one and [`crate::memory`].
pub mod bound;
pub mod kernel;
pub mod guarded;
pub mod team;
pub mod crew;
pub mod spin;
mod processor;
pub mod full;
