//! Fusions as a pass plugin.
//!
//! [`conv`]: the batch norm after a convolution goes into its weights and bias; [`gelu`]: GELU from small operators;
//! [`einsum`]: products of what is written in letters; [`attention`]: ONNX's attention by what engines
//! compute by blocks;
//! [`no_effect`], [`mod@slice`] and
//! [`view`]: what stands between nodes without changing anything goes; [`mod@transpose`]: transposes
//! that meet their inverse behind element-wise operators go; [`select`]: what large
//! tables of constants need is selected before it is computed. All run as soon as shapes are known,
//! at level O3, so that the engines' own fusions meet what they make.
#![deny(unsafe_code)]

/// ONNX's attention.
pub mod attention;
/// Convolution and batch norm.
pub mod conv;
/// Sums by letters.
pub mod einsum;
/// GELU.
pub mod gelu;
/// What gives its input.
pub mod no_effect;
/// Selections from tables of constants.
pub mod select;
/// Slices of slices.
pub mod slice;
/// Transposes around element-wise operators.
pub mod transpose;
/// Views between nodes.
pub mod view;

mod edit;
mod plugin;
