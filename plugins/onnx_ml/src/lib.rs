//! Operators of the ONNX domain `ai.onnx.ml`, used by models exported from scikit-learn, LightGBM
//! and XGBoost.
//!
//! The crate is written the way a vendor would write it: it depends only on `ge-plugin-api`. An
//! operator that can be expressed with built-in operators is decomposed by its mapping. The others
//! have a prototype, a mapping and a kernel here, one operator per file. Kernels belong to the
//! engine [`ENGINE`]; sums are computed in f64.
#![deny(unsafe_code)]

/// ArrayFeatureExtractor.
pub mod arrays;
/// Labels and scores of classifiers.
pub mod classify;
/// FeatureVectorizer.
pub mod feature_vectorizer;
/// Imputer, Binarizer.
pub mod fill;
/// Tables of trees, and the leaves that rows reach.
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
/// Look-up of keys.
mod places;
/// Transforms of the final scores.
pub mod post;
/// Operators that are refused by name.
mod refused;
/// Scaler.
pub mod scaler;
/// Rows of features, and parallel loops over them.
mod rows;
/// Helpers for mappings.
mod shared;
/// Sums of products in f64.
mod sums;
/// SVMClassifier, SVMRegressor.
pub mod svm;
/// What leaves add to the scores of a row.
mod leaves;
/// The scores of trees: prototype and kernel.
mod ml_trees;
/// Tree ensembles as one table.
pub mod trees;
/// TreeEnsembleClassifier, TreeEnsembleRegressor, TreeEnsemble.
pub mod tree_ensembles;
/// Support vectors and kernel functions.
mod vectors;
/// ZipMap.
mod zip_map;

mod plugin;

/// The engine for those operators of this plugin that have kernels of their own.
pub const ENGINE: &str = "OnnxMlEngine";
