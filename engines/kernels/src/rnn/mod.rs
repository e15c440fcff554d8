//! Recurrent cells: RNN, GRU and LSTM over all steps of a batch.
//!
//! The product of the input and its weights is one matrix product for many steps at once. Each step
//! then needs the product of the last state and the recurrent weights. These are read once from
//! their packed form, panel by panel and backwards in every other step, so that the panels read
//! last are still in the cache. Gates are computed sixteen units at a time.

/// Packed weights.
pub mod pack;
/// Activations, and the gates of each cell.
pub mod cell;
/// The product of states and packed weights.
mod product;
/// The plan of a recurrence and its execution.
pub mod plan;
/// Several threads that process one unit together.
pub mod team;
/// Execution of one unit of a plan.
mod unit;
/// An LSTM with byte weights.
pub mod bytes;

pub use cell::Activation;
pub use pack::{pack_input, pack_recurrent, packed_input_len, packed_recurrent_len};
pub use plan::{Cell, Direction, Operands, Recurrent, Results};
pub use team::{Broken, Member, Team};

#[cfg(test)]
mod tests;
