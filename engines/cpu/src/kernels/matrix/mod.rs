//! Matrix products.
pub mod bytes;
pub mod matmul;
pub mod product;
pub mod einsum;
