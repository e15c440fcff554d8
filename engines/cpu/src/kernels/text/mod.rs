//! One file for each operator of words and strings (`plugins/ops/src/text.rs`), and what they
//! share.
pub mod concat;
pub mod full_match;
mod grams;
pub mod normalizer;
pub mod numbers;
pub mod regex;
pub mod split;
pub mod strings;
pub mod tf_idf;
pub mod tokenize;
