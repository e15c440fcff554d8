//! Numeric library shared by the engines: views, matrix products, element-wise loops, reductions.
//!
//! - `view` is plain indexing and conversion; the `cpu` engine uses this and nothing else.
//! - Everything else is for the fast engine
//!   `nn`. A kernel there is a plan, made once from shapes and attributes, and a `run` over a range
//!   of units of work; which units a caller asks for never changes the bits of any of them, so that
//!   the number of blocks, and of threads, is free.
//! - Single-precision kernels give the same bits on every instruction set: all arithmetic goes
//!   through fused multiply-adds and reductions of sixteen lanes in one order (`simd`).

/// Element-wise operators.
pub mod elementwise;
/// Normalisations.
pub mod norm;
/// Operators that move elements.
pub mod layout;
/// Pooling.
pub mod pool;
/// Resizing.
pub mod resize;
/// Reductions.
pub mod reduce;
/// Convolutions.
pub mod conv;
/// Matrix products.
pub mod gemm;
/// Recurrent cells.
pub mod rnn;
/// Quantisation.
pub mod quant;
/// Sums of bytes to bytes.
pub mod requantise;
/// What the machine reaches at best.
pub mod peak;
/// Working memory of kernels.
pub mod scratch;
mod cores;
mod shrink;
/// Tiles of the machine.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
mod amx;
/// Instruction sets, vector mathematics, activations.
pub mod simd;
/// Views over tensors: element types, layouts, broadcasting, the loop nest.
pub mod view;

pub use cores::cores;
#[doc(no_inline)]
pub use half::{bf16, f16};
