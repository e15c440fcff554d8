//! Operators of the ONNX domain `ai.onnx.ml`: what models of scikit-learn, LightGBM and XGBoost are
//! exported to.
//!
//! The crate is written as a vendor would write it: it depends on
//! `ge-plugin-api` alone. An operator whose meaning the built-in operators have is decomposed into them by its mapping; the others have a prototype, a mapping and a kernel here, one operator a file. Kernels belong to the engine [`ENGINE`];
//! sums are taken in f64.
#![deny(unsafe_code)]

/// ArrayFeatureExtractor, FeatureVectorizer.
pub mod arrays;
/// Labels and scores of classifiers.
pub mod classify;
/// Imputer, Binarizer.
pub mod fill;
/// Trees over many rows.
mod forest;
/// LabelEncoder.
pub mod label_encoder;
/// Labels of classifiers.
pub mod labels;
/// LinearClassifier, LinearRegressor.
pub mod linear;
/// Normalizer.
pub mod normalizer;
/// OneHotEncoder.
pub mod one_hot_encoder;
/// Keys looked up.
mod places;
/// What becomes of scores at the end.
pub mod post;
/// What is refused by name.
mod refused;
/// Scaler.
pub mod scaler;
/// What mappings and kernels share.
mod shared;
/// SVMClassifier, SVMRegressor.
pub mod svm;
/// Tree ensembles as one table, and their kernel.
pub mod trees;
/// TreeEnsembleClassifier, TreeEnsembleRegressor, TreeEnsemble.
pub mod tree_ensembles;

mod plugin;

/// The engine that computes the operators of this plugin which have kernels of their own.
pub const ENGINE: &str = "OnnxMlEngine";
