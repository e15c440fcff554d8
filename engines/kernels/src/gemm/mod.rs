//! Matrix products: `C = act(alpha * A B + bias + residual)`.
//!
//! A unit of work is one tile of one matrix of the batch. Inside a tile K is taken in blocks of [`crate::gemm::KC`]; a tile of A is
//! copied to rows of one fixed stride, B is read from panels of sixteen columns, and a register tile of C grows by fused
//! multiply-adds in the order of k. That order is the same for every tile size, instruction set and number of blocks, so
//! the bits are too.

/// The register tile.
pub mod micro;
/// Panels of sixteen columns, and the copies that kernels read.
pub mod pack;
/// A matrix by a vector.
pub(crate) mod dots;
/// What happens to a finished tile.
pub mod epilogue;
/// The plan of a product and its run.
pub mod plan;
/// Bytes times signed bytes, in 32-bit integers.
pub mod int8;

pub use epilogue::{Bias, Epilogue};
pub use int8::{GemmInt8, pack_int8, packed_int8_len};
pub use pack::{KC, pack_columns, packed_len};
pub use plan::{BMatrix, Gemm, GemmError, Matrix};

#[cfg(test)]
mod tests;
