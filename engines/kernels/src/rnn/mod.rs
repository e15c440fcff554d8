//! Recurrent cells: RNN, GRU and LSTM over all steps of a batch.
//!
//! The input's product with its weights is one matrix product for many steps at once. What a step
//! then needs is the product of the last state with the recurrent weights, which are read once from
//! their packed form, panel by panel and every other step backwards, so that what the last step
//! read last is still in the cache. Gates are computed sixteen units at a time.

/// Packed weights.
pub mod pack;
/// Activations, and the gates of each cell.
pub mod cell;
/// The product of the state with packed weights.
mod product;
/// The plan of a recurrence and its run.
pub mod plan;
/// Several threads that do one unit together.
pub mod team;
/// One unit of a plan.
mod unit;
/// An LSTM whose weights are bytes.
pub mod bytes;

pub use cell::Activation;
pub use pack::{pack_input, pack_recurrent, packed_input_len, packed_recurrent_len};
pub use plan::{Cell, Direction, Operands, Recurrent, Results};
pub use team::{Broken, Member, Team};

#[cfg(test)]
mod tests;
