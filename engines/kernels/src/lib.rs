//! Numeric library shared by the engines: views, matrix products, element-wise loops, reductions.
//!
//! - `view` holds plain indexing and conversion. Besides `multiversion!`, the `cpu` engine uses
//!   nothing else.
//! - Everything else serves the fast engine `nn`. Each kernel there is a plan, made once from
//!   shapes and attributes, and a `run` over a range of units of work. The bits of a unit do not
//!   depend on which units a caller asks for, so the numbers of blocks and threads can be chosen
//!   freely.
//! - Single-precision kernels give the same bits on every instruction set: multiply-adds are fused,
//!   and reductions use a fixed number of lanes in one fixed order (`simd`).

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
/// Requantisation of integer sums to bytes.
pub mod requantise;
/// Measured peak performance of the machine.
pub mod peak;
/// Reusable working memory for kernels.
pub mod scratch;
mod cores;
mod shrink;
/// Matrix tiles of the processor (Intel AMX), in hardware or emulated.
#[cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]
mod amx;
/// Instruction sets, vector mathematics, activations.
pub mod simd;
/// Views over tensors: element types, layouts, broadcasting, the loop nest.
pub mod view;

pub use cores::cores;
#[doc(no_inline)]
pub use half::{bf16, f16};
