//! Fusions as a pass plugin.
//!
//! [`conv`] folds the batch norm after a convolution into its weights and bias; [`gelu`] recognises
//! GELU made of small operators; [`einsum`] turns `Einsum` into matrix products; [`attention`]
//! turns ONNX's attention into what engines compute by blocks; [`no_effect`], [`mod@slice`] and
//! [`view`] remove or merge nodes that change no values; [`mod@transpose`] removes transposes that
//! meet their inverse behind element-wise operators; [`select`] selects from large constant tables
//! before they are computed. All run as soon as shapes are known, at level O3, so that the engines'
//! own fusions see the results.
#![deny(unsafe_code)]

/// ONNX's attention.
pub mod attention;
/// Convolution and batch norm.
pub mod conv;
/// Einsum as matrix products.
pub mod einsum;
/// GELU.
pub mod gelu;
/// Operators that return their input unchanged.
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
