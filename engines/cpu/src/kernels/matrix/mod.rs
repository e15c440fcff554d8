//! Matrix products.
pub mod matmul;
pub mod product;
pub mod einsum;
