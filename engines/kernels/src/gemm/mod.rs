//! Matrix products: `C = act(alpha * A B + bias + residual)`.
//!
//! A unit of work is one tile of one matrix of the batch. Its columns of B are packed once into
//! panels of sixteen, unless they arrive packed or are few enough to be read in place. Rows of A
//! are read in place, or copied in blocks of [`crate::gemm::KC`] to rows of one fixed stride if
//! they need conversion or would crowd the cache. A register tile of C grows by fused multiply-adds
//! in the order of k, and a few rows of sums are finished at a time. That order is the same for
//! every tile size, instruction set and number of blocks, so the bits are too. The product of a few
//! rows and a matrix with contiguous columns uses sums of sixteen lanes instead, also in one fixed
//! order.

/// The register tile.
pub mod micro;
/// Panels of sixteen columns, and the copies that the register tile reads.
pub mod pack;
/// Product of a matrix and a vector.
pub(crate) mod dots;
/// The steps that follow a finished tile.
pub mod epilogue;
/// Products by weights of eight or four bits.
pub mod weights;
/// The plan of a product and its execution.
pub mod plan;
/// Products of halves that the machine multiplies directly.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
mod halves;
/// Products of bytes and signed bytes, in 32-bit integers.
pub mod int8;
/// Products of bytes with AMX tiles.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
mod int8_amx;
/// Weights whose products fit 16 bits in pairs.
#[cfg(target_arch = "x86_64")]
pub(crate) mod halved;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_pairs;
/// Packed panels whose products fit 16 bits in pairs.
#[cfg(target_arch = "x86_64")]
pub(crate) mod split_panels;
/// Products of a few rows of bytes and a matrix that is not packed.
pub mod int8_rows;

pub use epilogue::{Bias, Epilogue};
pub use int8::{GemmInt8, pack_int8, packed_int8_len};
pub use pack::{KC, pack_columns, packed_len};
pub use plan::{BMatrix, Gemm, GemmError, Matrix};

#[cfg(test)]
mod tests;
