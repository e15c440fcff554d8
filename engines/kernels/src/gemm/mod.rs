//! Matrix products: `C = act(alpha * A B + bias + residual)`.
//!
//! A unit of work is one tile of one matrix of the batch. Its columns of B are packed once, in
//! panels of sixteen, where they do not come so or are few enough to be read where they stand; rows
//! of A are read in place, or copied in blocks of [`crate::gemm::KC`] to rows of one fixed stride
//! where they need conversion or would crowd the cache. A register tile of C grows by fused
//! multiply-adds in the order of k, and a few rows of sums are finished at a time. That order is
//! the same for every tile size, instruction set and number of blocks, so the bits are too. A few
//! rows by a matrix whose columns stand side by side are sums of sixteen lanes instead, in one
//! fixed order as well.

/// The register tile.
pub mod micro;
/// Panels of sixteen columns, and the copies that kernels read.
pub mod pack;
/// A matrix by a vector.
pub(crate) mod dots;
/// What happens to a finished tile.
pub mod epilogue;
/// Singles by weights of bytes.
pub mod weights;
/// The plan of a product and its run.
pub mod plan;
/// Halves that the machine multiplies itself.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
mod halves;
/// Bytes times signed bytes, in 32-bit integers.
pub mod int8;
/// The same by tiles.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
mod int8_amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod int8_pairs;

pub use epilogue::{Bias, Epilogue};
pub use int8::{GemmInt8, pack_int8, packed_int8_len};
pub use pack::{KC, pack_columns, packed_len};
pub use plan::{BMatrix, Gemm, GemmError, Matrix};

#[cfg(test)]
mod tests;
