//! Everything that accesses memory while a model runs: kernels, copies, reductions, and values read
//! by switches. Only this module and [`crate::memory`] contain `unsafe` code.
pub mod bound;
pub mod kernel;
pub mod guarded;
pub mod team;
pub mod crew;
pub mod spin;
mod processor;
pub mod full;
