//! Two fusions as a pass plugin.
//!
//! [`conv`]: the batch norm after a convolution goes into its weights and bias; [`gelu`]: GELU from small operators. Both run
//! as soon as shapes are known, at level O3, so that the engines' own fusions meet what they make.
#![deny(unsafe_code)]

/// Convolution and batch norm.
pub mod conv;
/// GELU.
pub mod gelu;

mod edit;
mod plugin;
