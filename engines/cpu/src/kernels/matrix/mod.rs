//! Products of matrices.
pub mod matmul;
pub mod product;
pub mod einsum;
