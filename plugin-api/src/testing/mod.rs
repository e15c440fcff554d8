//! Tests of a plugin in its own crate, without a host: small graphs, a host that records what it is
//! told, kernels run block by block, and nodes taken from the op store to their results.
//!
//! # Examples
//! ```
//! use ge_plugin_api::prelude::*;
//! use ge_plugin_api::testing::{read, run_blocks, write};
//!
//! struct Double;
//! impl BlockKernel for Double {
//!     fn run(&self, call: &BlockArgs<'_>) -> Result<()> {
//!         let x = call.input::<f32>(0)?;
//!         let mine = call.part(x.len(), 16);
//!         for (y, x) in call.output::<f32>(1, mine.clone())?.iter_mut().zip(&x[mine]) {
//!             *y = 2.0 * x;
//!         }
//!         Ok(())
//!     }
//! }
//! let (x, mut y) = ([1.0f32; 100], [0.0f32; 100]);
//! run_blocks(&Double, 3, &[read(&x), write(&mut y)])?;
//! assert_eq!(y, [2.0; 100]);
//! # Ok::<(), Error>(())
//! ```
/// Kernels, run block by block.
mod blocks;
/// Small graphs.
mod graph;
/// A host that records what it is told.
mod host;
/// Nodes, from the op store to their results.
mod node;

pub use blocks::{Arg, Launch, TestKernel, read, run_blocks, update, write};
pub use graph::{NodeBuilder, TestGraph, infer};
pub use host::{MockHost, mock_host};
pub use node::{run_node, test_soc, test_target};
