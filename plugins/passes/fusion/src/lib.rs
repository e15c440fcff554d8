//! Two fusions as a pass plugin.
//!
//! [`conv`]: the batch norm after a convolution goes into its weights and bias; [`gelu`]: GELU from small operators. Both run
//! after the built-in fusions, at level O3, and produce operators that the engines' stores have.
#![deny(unsafe_code)]

/// Convolution and batch norm.
pub mod conv;
/// GELU.
pub mod gelu;

mod edit;
mod plugin;
